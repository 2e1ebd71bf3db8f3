"""Comparing an answer with the truth when the order of components is free.

| paper symbol | name here |
|---|---|
| max_i ‖q_i − q̃_i‖ / ‖q_i‖ (vec-err-max) | ``largest_factor_error`` |
| accuracy, the ratio of correct assignments | ``clustering_accuracy`` |

Differs from the paper: components are matched by an optimal assignment.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from momentmix._typing import Array
from momentmix.errors import InputError
from momentmix.families.gaussian import semidefinite_roots
from momentmix.mixture.columns import parameters_of
from momentmix.mixture.parameters import Parameters
from momentmix.tables.schema import Schema

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
    covariances, in units of the deviations of all rows; of other families, those of their features.
    """
    both = _in_same_features(truth, estimate)
    units = np.sqrt(both[0].variances.mean(axis=0) + both[0].means.var(axis=0))
    if all(p.blocks.is_diagonal for p in both):
        roots = [np.sqrt(p.variances) / units for p in both]
    else:
        roots = [semidefinite_roots(p.matrices / (units[:, None] * units)) for p in both]
    first, second = (
        np.hstack([p.means / units, root.reshape(len(root), -1)])
        for p, root in zip(both, roots, strict=True)
    )
    distances = ((first[:, None, :] - second) ** 2).sum(axis=2)
    return np.asarray(linear_sum_assignment(distances)[1])


def _in_same_features(*mixtures: Mixture) -> list[Parameters]:
    """Parameters of the same features of both; mixtures of a table may have other centers."""
    columns = []
    for pair in zip(*(mixture.columns for mixture in mixtures), strict=True):
        with_center = pair[0] if pair[0].has_missing else pair[1]
        changes = {"has_missing": with_center.has_missing, "center": with_center.center}
        columns.append(replace(pair[0], **changes))
    schema = Schema(tuple(columns))
    return [parameters_of(mixture.weights, mixture.blocks, schema) for mixture in mixtures]


def in_same_columns(mixture: Mixture, other: Mixture) -> Mixture:
    """The other mixture with the columns of the first; raise where both cannot be matched."""
    names, others = mixture.feature_names, other.feature_names
    if names is not None and others is not None and sorted(names) == sorted(others):
        other = other.select(names)
    named = None not in (names, others)
    facts = [
        [f"{m.n_components} components of {m.n_columns} columns"]
        + [
            " ".join(map(ascii, (c.name if named else "", c.family_name, *c.levels)))
            for c in m.columns
        ]
        for m in (mixture, other)
    ]
    for first, second in zip(*facts, strict=False):
        if first != second:
            raise InputError(
                "mixtures to align must have as many components and columns each, of the same "
                f"names, families, levels and transforms; got {first} and {second}."
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
