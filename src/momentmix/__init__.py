"""Mixture models from one pass over the data.

Public names are imported when they are first used, so that the command starts at once.
"""

import importlib as _importlib
import typing as _typing

from momentmix._version import __version__

if _typing.TYPE_CHECKING:
    from momentmix.capacity.ranks import largest_rank, smallest_order
    from momentmix.cube.cube import SummaryCube
    from momentmix.cube.summarize_by import summarize_by
    from momentmix.errors import (
        CapacityError,
        CertificateWarning,
        DecompositionError,
        InputError,
        InputTypeError,
        MomentmixError,
    )
    from momentmix.estimators.gaussian import MomentGaussianMixture
    from momentmix.estimators.mixed import MomentMixture
    from momentmix.families.gaussian_block import GaussianBlock
    from momentmix.families.levels import BernoulliBlock, CategoricalBlock
    from momentmix.families.poisson import PoissonBlock
    from momentmix.fitting.api import fit
    from momentmix.fitting.conditions.standard_moments import StandardMoments
    from momentmix.fitting.result import FitResult
    from momentmix.mixture.mixture import DiagonalMixture, Mixture
    from momentmix.monitoring.compare import compare
    from momentmix.monitoring.comparison import Comparison
    from momentmix.monitoring.track import track
    from momentmix.reporting.report import report
    from momentmix.summary.summarize import summarize
    from momentmix.summary.summary import MomentSummary
    from momentmix.tables.learning import schema_from
    from momentmix.tables.opening import open_rows
    from momentmix.tables.schema import Schema
    from momentmix.tensor.approximate import approximate
    from momentmix.tensor.decompose import decompose
    from momentmix.tensor.incomplete_tensor import IncompleteSymmetricTensor

__all__ = [
    "BernoulliBlock",
    "CapacityError",
    "CategoricalBlock",
    "CertificateWarning",
    "Comparison",
    "DecompositionError",
    "DiagonalMixture",
    "FitResult",
    "GaussianBlock",
    "IncompleteSymmetricTensor",
    "InputError",
    "InputTypeError",
    "Mixture",
    "MomentGaussianMixture",
    "MomentMixture",
    "MomentSummary",
    "MomentmixError",
    "PoissonBlock",
    "Schema",
    "StandardMoments",
    "SummaryCube",
    "__version__",
    "approximate",
    "compare",
    "decompose",
    "fit",
    "largest_rank",
    "open_rows",
    "report",
    "schema_from",
    "smallest_order",
    "summarize",
    "summarize_by",
    "track",
]

_HOMES = {
    "cube.cube": ("SummaryCube",),
    "cube.summarize_by": ("summarize_by",),
    "capacity.ranks": ("largest_rank", "smallest_order"),
    "tensor.incomplete_tensor": ("IncompleteSymmetricTensor",),
    "mixture.mixture": ("DiagonalMixture", "Mixture"),
    "families.gaussian_block": ("GaussianBlock",),
    "families.levels": ("BernoulliBlock", "CategoricalBlock"),
    "families.poisson": ("PoissonBlock",),
    "fitting.conditions.standard_moments": ("StandardMoments",),
    "errors": (
        "CapacityError",
        "CertificateWarning",
        "DecompositionError",
        "InputError",
        "InputTypeError",
        "MomentmixError",
    ),
    "estimators.gaussian": ("MomentGaussianMixture",),
    "estimators.mixed": ("MomentMixture",),
    "fitting.api": ("fit",),
    "fitting.result": ("FitResult",),
    "summary.summarize": ("summarize",),
    "summary.summary": ("MomentSummary",),
    "monitoring.compare": ("compare",),
    "monitoring.comparison": ("Comparison",),
    "monitoring.track": ("track",),
    "reporting.report": ("report",),
    "tables.opening": ("open_rows",),
    "tables.schema": ("Schema",),
    "tables.learning": ("schema_from",),
    "tensor.approximate": ("approximate",),
    "tensor.decompose": ("decompose",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'momentmix' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"momentmix.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
