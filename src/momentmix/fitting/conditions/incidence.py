"""Which moment conditions hold which features, and which pairs of features.

| symbol | name here |
|---|---|
| {I : j ∈ I} | ``Incidence.holders[j]`` |
| {I : j, k ∈ I} | ``Incidence.pairs`` |
| conditions that hold a power of z_j above 1 | ``Incidence.powered[j]`` |
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
    powered : list of arrays, one per feature
        Rows of ``by_variance`` that belong to the feature: those with an exponent above 1.
    """

    places: list[Int]
    holders: list[Int]
    pairs: list[tuple[int, int, Int, Int]]
    powered: list[Int]


def find_incidence(slots: Int, exponents: Int, n_plain: int, n_features: int) -> Incidence:
    """The incidence of features and conditions.

    Parameters
    ----------
    slots : array of shape (n, width)
        Features of each condition, padded with n_features.
    exponents : array of shape (n, width)
        Exponents of these features; above 1 in the first two slots only.
    n_plain : int
        So many conditions at the head have no exponent above 1.
    n_features : int
    """
    n, d = slots.shape[0], n_features
    places, holders, powered = [], [], []
    for j in range(d):
        condition, slot = np.nonzero(slots == j)
        places.append(slot * n + condition)
        holders.append(condition)
        high = exponents[condition, slot] > 1
        powered.append(slot[high] * (n - n_plain) + condition[high] - n_plain)
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
    return Incidence(places, holders, pairs, powered)
