"""Exact sums under a change of how columns become features: with a ``seen``, about another center.

| symbol | name here |
|---|---|
| s, 1 where a cell is seen and 0 where it is missing | ``seen`` |
| u = (y − c)·s, of the number y and the center c | ``value`` |
| u − δ·s, about the center c + δ | `change_center` |
| y with s = 1 in every row | `with_ones` |

Both are linear maps of the sums, with integer coefficients, so that they commute with adding and
never round. They rest on s² = s and u·s = u, by which every product that arises is one that the
summary holds: u^a·s^b·R becomes Σ_k C(a, k)·(−δ)^k·u^(a−k)·s^b·R, where s stands in the place of
u^0·s^0. Changes of a center add up: by δ and then by ε is by δ + ε, on any integers, whether or not
rounding has broken the identities in their last digits.

Here u and s are in their units about shift 0, and the unit of s is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

from momentmix._typing import Int
from momentmix.index_sets import colex_rank, index_sets, sets_without
from momentmix.summary.exact.high_sections import others, powers_of
from momentmix.summary.layout import COMPLETE, POWER_DEGREES, POWERS, Layout


def _union(sets: Int, feature: int) -> Int:
    """Index sets with one more feature, of shape (n, t + 1)."""
    added = np.full((len(sets), 1), feature)
    return np.sort(np.concatenate([sets, added], axis=1), axis=1)


def _rest(sets: Int, feature: int) -> Int:
    """Index sets that hold a feature, without it."""
    return np.asarray(sets[sets != feature].reshape(len(sets), -1))


# -- another center ---------------------------------------------------------------------------


def change_center(layout: Layout, sums: Sequence[Any], value: int, seen: int, delta: int) -> Any:
    """The sums with u − δ·s in the place of u; δ is a Python integer, in units of u."""
    new = [array.copy() for array in sums]
    _change_distinct(layout, sums, new, value, seen, delta)
    _change_squared(layout, sums, new, value, seen, delta)
    _change_high(layout, sums, new, value, seen, delta)
    return new


def _replaced(layout: Layout, sums: Sequence[Any], rest: Int, seen: int) -> Any:
    """Σ w·s·y_R for the sets R, whether or not they hold s."""
    held = (rest == seen).any(axis=1)
    result = np.zeros(len(rest), dtype=object)
    for mask, sets in ((held, rest[held]), (~held, _union(rest[~held], seen))):
        if mask.any():
            result[mask] = sums[layout.index["distinct", sets.shape[1]]][colex_rank(sets)]
    return result


def _change_distinct(
    layout: Layout, sums: Sequence[Any], new: list[Any], value: int, seen: int, delta: int
) -> None:
    for t in range(1, layout.order + 1):
        rest = sets_without(layout.n_features, t - 1, value)
        target = new[layout.index["distinct", t]]
        target[colex_rank(_union(rest, value))] -= delta * _replaced(layout, sums, rest, seen)


def _change_squared(
    layout: Layout, sums: Sequence[Any], new: list[Any], value: int, seen: int, delta: int
) -> None:
    d, index = layout.n_features, layout.index
    for q in range(layout.squared_order + 1):
        target, rest = new[index["squared", q]], sets_without(d, q, value)
        joint = sums[index["distinct", q + 1]][colex_rank(_union(rest, value))]
        target[value] -= 2 * delta * joint
        target[value] += delta * delta * _replaced(layout, sums, rest, seen)
        for i in range(d) if q else ():
            if i != value:
                _change_row(layout, sums, target[i], q, (i, value, seen), delta)


def _change_row(
    layout: Layout,
    sums: Sequence[Any],
    target: Any,
    size: int,
    features: tuple[int, int, int],
    delta: int,
) -> None:
    """Σ w·y_i²·u·y_R, for all R; `target` is row i of the section of this size."""
    i, value, seen = features
    sets = sets_without(layout.n_features, size, i)
    places = np.flatnonzero((sets == value).any(axis=1))
    rest = _rest(sets[places], value)
    held = (rest == seen).any(axis=1) | (i == seen)
    for mask, chosen in ((held, rest[held]), (~held, _union(rest[~held], seen))):
        if mask.any():
            source = sums[layout.index["squared", chosen.shape[1]]][i]
            target[places[mask]] -= delta * source[colex_rank(chosen - (chosen > i))]


def _change_high(
    layout: Layout, sums: Sequence[Any], new: list[Any], value: int, seen: int, delta: int
) -> None:
    index = layout.index
    if layout.high >= POWERS:
        old = powers_of(layout, sums, value, POWER_DEGREES[-1])
        old[0] = sums[index["distinct", 1]][seen]  # u^0 is s
        for p in POWER_DEGREES:
            terms = [comb(p, a) * (-delta) ** a * old[p - a] for a in range(p + 1)]
            new[index["power", p]][value] = sum(terms)
    if layout.high < COMPLETE:
        return
    singles, pairs = (sums[index["distinct", t]] for t in (1, 2))
    squares, beside = (sums[index["squared", q]] for q in (0, 1))
    cubed, two_squares = new[index["cubed", 1]], new[index["two squares", 2]]
    i, place, pair = others(layout, value)
    with_seen = np.array([_pair(k, seen) if k != seen else 0 for k in i.tolist()])
    ones = np.where(i == seen, singles[seen], pairs[with_seen])  # Σ w·s·y_k
    cubed[value] += delta * (delta * (3 * pairs[pair] - delta * ones) - 3 * beside[value])
    for k, column, rank in zip(i.tolist(), place.tolist(), pair.tolist(), strict=True):
        at = seen - (seen > k)
        third = sums[index["power", 3]][k] if k == seen else sums[index["cubed", 1]][k, at]
        square = squares[k, 0] if k == seen else beside[k, at]
        cubed[k, column] -= delta * third
        two_squares[rank] += delta * (delta * square - 2 * beside[k, column])


def _pair(a: int, b: int) -> int:
    return int(colex_rank(sorted((a, b))))


# -- a feature that is 1 in every row ---------------------------------------------------------


def with_ones(old: Layout, new: Layout, sums: Sequence[Any], ones: Sequence[int]) -> list[Any]:
    """The sums of a layout that has more features, those numbered `ones`, all 1 in every row."""
    old_number = np.full(new.n_features, -1)
    old_number[np.delete(np.arange(new.n_features), ones)] = np.arange(old.n_features)
    look = _Look(old, sums, old_number)
    result = []
    for section in new.sections:
        d, size = new.n_features, section.size
        everyone = np.arange(d)[:, None]
        if section.kind == "distinct":
            result.append(look.products(index_sets(d, size), 0))
        elif section.kind == "power":
            result.append(look.products(np.repeat(everyone, size, axis=1), size))
        elif section.kind == "two squares":
            result.append(look.products(index_sets(d, 2)[:, [0, 0, 1, 1]], 4))
        else:
            degree = 2 if section.kind == "squared" else 3
            rows = [
                look.products(_beside(sets_without(d, size, j), j, degree), degree)
                for j in range(d)
            ]
            result.append(np.stack(rows))
    return result


def _beside(sets: Int, feature: int, degree: int) -> Int:
    """Index sets behind a feature that is repeated."""
    return np.concatenate([np.full((len(sets), degree), feature), sets], axis=1)


class _Look:
    """Finds products of features among the sums of a layout; new features are 1."""

    def __init__(self, layout: Layout, sums: Sequence[Any], old_number: Int) -> None:
        self.layout, self.sums, self.old_number = layout, sums, old_number

    def products(self, factors: Int, n_equal: int) -> Any:
        """Sums of products, for a section.

        Parameters
        ----------
        factors : array of shape (n, degree)
            New numbers of the factors of each product; the first `n_equal` are powers.
        """
        numbers = self.old_number[factors]
        result = np.zeros(len(factors), dtype=object)
        patterns, which = np.unique(numbers >= 0, axis=0, return_inverse=True)
        for pattern, kept in enumerate(patterns):
            chosen = np.flatnonzero(which.ravel() == pattern)
            result[chosen] = self._found(numbers[chosen][:, kept], n_equal)
        return result

    def _found(self, factors: Int, n_equal: int) -> Any:
        """Sums of products of old features, all of one pattern."""
        index, size = self.layout.index, factors.shape[1]
        first = factors[:, 0] if size else None
        n_same = int((factors[:1] == factors[:1, :1]).sum()) if size else 0
        if n_same <= 1:
            return self.sums[index["distinct", size]][colex_rank(factors)]
        rest = factors[:, n_same:]
        if n_same == size and size > 2:
            return self.sums[index["power", size]][first]
        if n_same == 2 and size == 4 and n_equal == 4:
            return self.sums[index["two squares", 2]][colex_rank(factors[:, [0, 2]])]
        kind: Any = "squared" if n_same == 2 else "cubed"
        assert first is not None
        ranks = colex_rank(rest - (rest > first[:, None]))
        return self.sums[index[kind, rest.shape[1]]][first, ranks]
