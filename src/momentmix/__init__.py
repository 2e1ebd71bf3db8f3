"""Diagonal Gaussian mixtures from one pass over the data."""

from momentmix._version import __version__
from momentmix.capacity import largest_rank, smallest_order
from momentmix.core.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.core.mixture import DiagonalMixture
from momentmix.core.standard_moments import StandardMoments
from momentmix.fitting.pipeline import fit
from momentmix.fitting.result import FitResult

__all__ = [
    "DiagonalMixture",
    "FitResult",
    "IncompleteSymmetricTensor",
    "StandardMoments",
    "__version__",
    "fit",
    "largest_rank",
    "smallest_order",
]
