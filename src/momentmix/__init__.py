"""Diagonal Gaussian mixtures from one pass over the data."""

from momentmix._version import __version__
from momentmix.capacity import largest_rank, smallest_order
from momentmix.core.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.core.mixture import DiagonalMixture
from momentmix.tensors.approximate import approximate
from momentmix.tensors.decompose import decompose

__all__ = [
    "DiagonalMixture",
    "IncompleteSymmetricTensor",
    "__version__",
    "approximate",
    "decompose",
    "largest_rank",
    "smallest_order",
]
