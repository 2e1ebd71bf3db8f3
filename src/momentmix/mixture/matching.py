"""Comparing an answer with the truth when the order of components is free.

| paper symbol | name here |
|---|---|
| max_i ‖q_i − q̃_i‖ / ‖q_i‖ (vec-err-max) | ``largest_factor_error`` |
| accuracy, the ratio of correct assignments | ``clustering_accuracy`` |

Differs from the paper: components are matched by an optimal assignment.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from momentmix._typing import Array
from momentmix.mixture.mixture import DiagonalMixture


def largest_factor_error(truth: Array, estimate: Array, order: int) -> float:
    """Largest relative error of a factor, matched and turned by `order`-th roots of unity."""
    cosine = np.abs(truth.conj() @ estimate.T)
    cosine /= np.linalg.norm(truth, axis=1)[:, None] * np.linalg.norm(estimate, axis=1)
    matched = estimate[linear_sum_assignment(-cosine)[1]]
    units = np.exp(2j * np.pi * np.arange(order) / order)
    errors = [np.linalg.norm(truth - unit * matched, axis=1) for unit in units]
    return float((np.min(errors, axis=0) / np.linalg.norm(truth, axis=1)).max())


def match_components(truth: DiagonalMixture, estimate: DiagonalMixture) -> NDArray[np.int64]:
    """Position in `estimate` of each component of `truth`, by least total distance of the means."""
    spread = np.sqrt(truth.variances.mean(axis=0) + truth.means.var(axis=0))
    gaps = (truth.means[:, None, :] - estimate.means[None, :, :]) / spread
    return np.asarray(linear_sum_assignment((gaps**2).sum(axis=2))[1])


def parameter_errors(truth: DiagonalMixture, estimate: DiagonalMixture) -> dict[str, float]:
    """Relative norm-wise errors of weights, means and variances after matching."""
    order = match_components(truth, estimate)
    return {
        name: float(
            np.linalg.norm(getattr(estimate, name)[order] - getattr(truth, name))
            / np.linalg.norm(getattr(truth, name))
        )
        for name in ("weights", "means", "variances")
    }


def clustering_accuracy(labels: ArrayLike, predicted: ArrayLike) -> float:
    """Share of rows whose label agrees under the best one-to-one renaming of the components.

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    size = int(max(labels.max(), predicted.max())) + 1
    counts = np.zeros((size, size))
    np.add.at(counts, (labels, predicted), 1)
    rows, columns = linear_sum_assignment(-counts)
    return float(counts[rows, columns].sum() / labels.size)
