"""Diagonal Gaussian mixtures from one pass over the data."""

from momentmix._version import __version__
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
    "smallest_order",
    "summarize",
]
