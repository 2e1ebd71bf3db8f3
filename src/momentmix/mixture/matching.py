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
from momentmix.families.gaussian import semidefinite_roots
from momentmix.mixture.parameter_table import overall_spread

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

    The squared distance of two components is that of their means, of the roots of their
    covariances, in units of the deviations of all rows, and of probabilities of levels.
    """
    _, units = overall_spread(truth)
    tables = []
    for m in (truth, estimate):
        matrices = np.nan_to_num(m.covariances / (units[:, None] * units))
        levels = [p for block in m.blocks for p in block.by_level.values()]
        parts = [np.nan_to_num(m.means / units), semidefinite_roots(matrices), *levels]
        tables.append(np.hstack([np.reshape(part, (m.n_components, -1)) for part in parts]))
    distances = ((tables[0][:, None, :] - tables[1]) ** 2).sum(axis=2)
    return np.asarray(linear_sum_assignment(distances)[1])


def in_same_columns(mixture: Mixture, other: Mixture) -> Mixture:
    """The other mixture with the columns of the first; raise where both cannot be matched."""
    names, others = mixture.feature_names, other.feature_names
    if names is not None and others is not None and sorted(names) == sorted(others):
        other = other.select(names)
    is_named = None not in (names, others)
    kinds = [
        [m.n_components, *((is_named and c.name, c.family_name, c.levels) for c in m.columns)]
        for m in (mixture, other)
    ]
    if kinds[0] != kinds[1]:
        raise InputError(
            "mixtures to align must have as many components and columns each, of the same names, "
            f"families, levels and transforms; got {mixture!r} and {other!r}."
        )
    return other


def clustering_accuracy(labels: ArrayLike, predicted: ArrayLike) -> float:
    """Share of rows whose label agrees under the best one-to-one renaming of the components.

    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    size = int(max(labels.max(), predicted.max())) + 1
    counts = np.zeros((size, size))
    np.add.at(counts, (labels, predicted), 1)
    rows, columns = linear_sum_assignment(-counts)
    return float(counts[rows, columns].sum() / labels.size)
