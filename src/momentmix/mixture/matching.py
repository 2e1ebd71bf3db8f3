"""Comparing an answer with the truth when the order of components is free.

| paper symbol | name here |
|---|---|
| max_i ‖q_i − q̃_i‖ / ‖q_i‖ (vec-err-max) | ``largest_factor_error`` |
| accuracy, the ratio of correct assignments | ``clustering_accuracy`` |

Differs from the paper: components are matched by an optimal assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from momentmix._typing import Array
from momentmix.errors import InputError
from momentmix.mixture.gaussian import semidefinite_roots

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


def largest_factor_error(truth: Array, estimate: Array, order: int) -> float:
    """Largest relative error of a factor, matched and turned by `order`-th roots of unity."""
    cosine = np.abs(truth.conj() @ estimate.T)
    cosine /= np.linalg.norm(truth, axis=1)[:, None] * np.linalg.norm(estimate, axis=1)
    matched = estimate[linear_sum_assignment(-cosine)[1]]
    units = np.exp(2j * np.pi * np.arange(order) / order)
    errors = [np.linalg.norm(truth - unit * matched, axis=1) for unit in units]
    return float((np.min(errors, axis=0) / np.linalg.norm(truth, axis=1)).max())


def match_components(truth: Mixture, estimate: Mixture) -> NDArray[np.int64]:
    """Position in `estimate` of each component of `truth`, by least total distance.

    The squared distance of two components is that of their means and of the roots of their
    covariances, in units of the deviations of all rows.
    """
    units = np.sqrt(truth.variances.mean(axis=0) + truth.means.var(axis=0))
    both = (truth, estimate)
    if _are_diagonal(*both):
        roots = [np.sqrt(mixture.variances) / units for mixture in both]
    else:
        pair = units[:, None] * units
        roots = [semidefinite_roots(mixture.covariances / pair) for mixture in both]
    tables = [
        np.hstack([mixture.means / units, root.reshape(len(root), -1)])
        for mixture, root in zip(both, roots, strict=True)
    ]
    gaps = tables[0][:, None, :] - tables[1]
    return np.asarray(linear_sum_assignment((gaps**2).sum(axis=2))[1])


def _are_diagonal(*mixtures: Mixture) -> bool:
    return all(mixture.parameters.blocks.is_diagonal for mixture in mixtures)


def in_same_columns(mixture: Mixture, other: Mixture) -> Mixture:
    """The other mixture with the columns of the first; raise where both cannot be matched."""
    names, others = mixture.feature_names, other.feature_names
    if names is not None and others is not None and names != others:
        if sorted(names) != sorted(others):
            raise InputError(
                "mixtures to align must have the same columns; the names are "
                f"{', '.join(map(ascii, names[:8]))} and {', '.join(map(ascii, others[:8]))}."
            )
        other = other.select(names)
    if mixture.means.shape != other.means.shape:
        raise InputError(
            "mixtures to align must have as many components and columns each; got (components, "
            f"columns) = {mixture.means.shape} and {other.means.shape}."
        )
    return other


def parameter_errors(truth: Mixture, estimate: Mixture) -> dict[str, float]:
    """Relative norm-wise errors of weights, means and variances after matching.

    Where columns are joined in one of both, those of the covariances too.
    """
    order = match_components(truth, estimate)
    names = ["weights", "means", "variances"]
    if not _are_diagonal(truth, estimate):
        names.append("covariances")
    return {
        name: float(
            np.linalg.norm(getattr(estimate, name)[order] - getattr(truth, name))
            / np.linalg.norm(getattr(truth, name))
        )
        for name in names
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
