"""Diagonal Gaussian mixtures from one pass over the data.

Public names are imported when they are first used, so that the command starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from momentmix._version import __version__

if TYPE_CHECKING:
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
    from momentmix.fitting.pipeline import fit
    from momentmix.fitting.result import FitResult
    from momentmix.moments.summary import MomentSummary, summarize
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
    "MomentSummary",
    "MomentmixError",
    "StandardMoments",
    "__version__",
    "approximate",
    "decompose",
    "fit",
    "largest_rank",
    "open_rows",
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
    "fitting.pipeline": ("fit",),
    "fitting.result": ("FitResult",),
    "moments.summary": ("MomentSummary", "summarize"),
    "sources.opening": ("open_rows",),
    "tensors.approximate": ("approximate",),
    "tensors.decompose": ("decompose",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'momentmix' has no attribute {name!r}")
    value = getattr(import_module(f"momentmix.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
