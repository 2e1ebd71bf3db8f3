"""Diagonal Gaussian mixtures from one pass over the data."""

from momentmix._version import __version__
from momentmix.capacity import largest_rank, smallest_order
from momentmix.core.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.core.mixture import DiagonalMixture

__all__ = [
    "DiagonalMixture",
    "IncompleteSymmetricTensor",
    "__version__",
    "largest_rank",
    "smallest_order",
]
