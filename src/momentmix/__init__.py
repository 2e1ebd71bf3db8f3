"""Diagonal Gaussian mixtures from one pass over the data."""

from momentmix._version import __version__
from momentmix.capacity import largest_rank, smallest_order
from momentmix.core.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.core.mixture import DiagonalMixture
from momentmix.moments.summary import MomentSummary, summarize

__all__ = [
    "DiagonalMixture",
    "IncompleteSymmetricTensor",
    "MomentSummary",
    "__version__",
    "largest_rank",
    "smallest_order",
    "summarize",
]
