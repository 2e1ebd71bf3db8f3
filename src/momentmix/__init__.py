"""Diagonal Gaussian mixtures from one pass over the data.

Public names are imported when they are first used, so that the command starts at once.
"""

import importlib as _importlib
import typing as _typing

from momentmix._version import __version__

if _typing.TYPE_CHECKING:
    from momentmix.capacity import largest_rank, smallest_order
    from momentmix.core.incomplete_tensor import IncompleteSymmetricTensor
    from momentmix.core.mixture import DiagonalMixture
    from momentmix.core.standard_moments import StandardMoments
    from momentmix.errors import (
        CapacityError,
        DecompositionError,
        InputError,
        InputTypeError,
        MomentmixError,
    )
    from momentmix.estimator import MomentGaussianMixture
    from momentmix.fitting.pipeline import fit
    from momentmix.fitting.result import FitResult
    from momentmix.moments.summary import MomentSummary, summarize
    from momentmix.reporting.report import report
    from momentmix.sources.opening import open_rows
    from momentmix.tensors.approximate import approximate
    from momentmix.tensors.decompose import decompose

__all__ = [
    "CapacityError",
    "DecompositionError",
    "DiagonalMixture",
    "FitResult",
    "IncompleteSymmetricTensor",
    "InputError",
    "InputTypeError",
    "MomentGaussianMixture",
    "MomentSummary",
    "MomentmixError",
    "StandardMoments",
    "__version__",
    "approximate",
    "decompose",
    "fit",
    "largest_rank",
    "open_rows",
    "report",
    "smallest_order",
    "summarize",
]

_HOMES = {
    "capacity": ("largest_rank", "smallest_order"),
    "core.incomplete_tensor": ("IncompleteSymmetricTensor",),
    "core.mixture": ("DiagonalMixture",),
    "core.standard_moments": ("StandardMoments",),
    "errors": (
        "CapacityError",
        "DecompositionError",
        "InputError",
        "InputTypeError",
        "MomentmixError",
    ),
    "estimator": ("MomentGaussianMixture",),
    "fitting.pipeline": ("fit",),
    "fitting.result": ("FitResult",),
    "moments.summary": ("MomentSummary", "summarize"),
    "reporting.report": ("report",),
    "sources.opening": ("open_rows",),
    "tensors.approximate": ("approximate",),
    "tensors.decompose": ("decompose",),
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
