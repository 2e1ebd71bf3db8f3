"""Which moment conditions hold which features, and which pairs of features.

| symbol | name here |
|---|---|
| {I : j ∈ I} | ``Incidence.holders[j]`` |
| {I : j, k ∈ I} | ``Incidence.pairs`` |
| {(j, I)} of E z_j² z_I | ``Incidence.squares[j]`` |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix._typing import Int


class Incidence(NamedTuple):
    """Which conditions hold which features; depends on the index sets alone.

    Parameters
    ----------
    places : list of arrays, one per feature
        Rows of ``by_slot`` that belong to the feature.
    holders : list of arrays, one per feature
        Conditions that hold it, in the same order.
    pairs : list of (j, k, rows for j, rows for k), j < k
        Rows of ``by_slot`` in the conditions that hold both.
    squares : list of arrays, one per feature
        Squared conditions, counted from the first of them, whose square is that of the feature.
    """

    places: list[Int]
    holders: list[Int]
    pairs: list[tuple[int, int, Int, Int]]
    squares: list[Int]


def find_incidence(slots: Int, squared: Int, n_features: int) -> Incidence:
    """The incidence of features and conditions.

    Parameters
    ----------
    slots : array of shape (n, width)
        Features of each condition, padded with n_features.
    squared : array of shape (n_squared,)
        Squared feature of each of the last conditions.
    n_features : int
    """
    n, d = slots.shape[0], n_features
    places, holders = [], []
    for j in range(d):
        condition, slot = np.nonzero(slots == j)
        places.append(slot * n + condition)
        holders.append(condition)
    rows = np.arange(n)
    keys, left, right = [], [], []
    for t in range(slots.shape[1]):
        for u in range(slots.shape[1]):
            both = (slots[:, t] < slots[:, u]) & (slots[:, u] < d)
            keys.append(slots[both, t] * d + slots[both, u])
            left.append(t * n + rows[both])
            right.append(u * n + rows[both])
    key = np.concatenate(keys)
    order = np.argsort(key, kind="stable")
    key, first, second = key[order], np.concatenate(left)[order], np.concatenate(right)[order]
    codes, starts = np.unique(key, return_index=True)
    ends = np.append(starts, key.size)[1:]
    pairs = [
        (int(code // d), int(code % d), first[start:end], second[start:end])
        for code, start, end in zip(codes, starts, ends, strict=True)
    ]
    return Incidence(places, holders, pairs, [np.flatnonzero(squared == j) for j in range(d)])
