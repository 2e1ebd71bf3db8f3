"""Find the groups in a table and know whether to believe them.

Public names are imported when they are first used, so that the command starts at once.
"""

import importlib as _importlib
import typing as _typing

__version__ = "0.1.0"

if _typing.TYPE_CHECKING:  # "as" makes a name public for type checkers
    # ruff: noqa: I001
    from momentmix.paper.ranks import (
        largest_rank as largest_rank,
        smallest_order as smallest_order,
    )
    from momentmix.groups.cube import SummaryCube as SummaryCube
    from momentmix.groups.summarize_by import summarize_by as summarize_by
    from momentmix.datasets import example_table as example_table
    from momentmix.errors import (
        CapacityError as CapacityError,
        FitWarning as FitWarning,
        InputError as InputError,
        MomentmixError as MomentmixError,
    )
    from momentmix.estimators.gaussian import MomentGaussianMixture as MomentGaussianMixture
    from momentmix.estimators.mixed import MomentMixture as MomentMixture
    from momentmix.families.counts import PoissonBlock as PoissonBlock
    from momentmix.families.gaussian import GaussianBlock as GaussianBlock
    from momentmix.families.levels import (
        BernoulliBlock as BernoulliBlock,
        CategoricalBlock as CategoricalBlock,
    )
    from momentmix.families.dispersed_counts import NegativeBinomialBlock as NegativeBinomialBlock
    from momentmix.fitting.api import fit as fit
    from momentmix.fitting.result import FitResult as FitResult
    from momentmix.mixture.mixture import Mixture as Mixture
    from momentmix.groups.compare import compare as compare
    from momentmix.groups.track import track as track
    from momentmix.reporting.report import report as report
    from momentmix.summary.summarize import summarize as summarize
    from momentmix.summary.summary import MomentSummary as MomentSummary
    from momentmix.tables.learning import open_rows as open_rows
    from momentmix.tables.learning import schema_from as schema_from
    from momentmix.tables.schema import Schema as Schema
    from momentmix.paper.approximate import approximate as approximate
    from momentmix.paper.decompose import decompose as decompose
    from momentmix.paper.incomplete_tensor import (
        IncompleteSymmetricTensor as IncompleteSymmetricTensor,
    )

_HOMES = {
    "groups.cube": ("SummaryCube",),
    "groups.summarize_by": ("summarize_by",),
    "datasets": ("example_table",),
    "paper.ranks": ("largest_rank", "smallest_order"),
    "paper.incomplete_tensor": ("IncompleteSymmetricTensor",),
    "mixture.mixture": ("Mixture",),
    "families.counts": ("PoissonBlock",),
    "families.gaussian": ("GaussianBlock",),
    "families.levels": ("BernoulliBlock", "CategoricalBlock"),
    "families.dispersed_counts": ("NegativeBinomialBlock",),
    "errors": ("CapacityError", "FitWarning", "InputError", "MomentmixError"),
    "estimators.gaussian": ("MomentGaussianMixture",),
    "estimators.mixed": ("MomentMixture",),
    "fitting.api": ("fit",),
    "fitting.result": ("FitResult",),
    "summary.summarize": ("summarize",),
    "summary.summary": ("MomentSummary",),
    "groups.compare": ("compare",),
    "groups.track": ("track",),
    "reporting.report": ("report",),
    "tables.schema": ("Schema",),
    "tables.learning": ("open_rows", "schema_from"),
    "paper.approximate": ("approximate",),
    "paper.decompose": ("decompose",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted([*_HOME_OF, "__version__"])


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'momentmix' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"momentmix.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
