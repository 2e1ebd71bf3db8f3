"""Blocks: which features are joined, so that they may be correlated within components.

| symbol | name here | shape |
|---|---|---|
| blocks of two or more features | ``Blocks.joined`` | |
| pairs j < k of features of one block | ``Blocks.pairs`` | (n_pairs, 2) |
| v_j, and Σ_jk of the pairs, side by side | spread | (…, d + n_pairs) |
| Σ of one block | ``spread[..., places]`` | (…, k, k) |

Given the component, blocks are independent. Features that are in no block of `joined` are blocks of
their own: diagonal covariances are the case without any pair. Blocks of `laws` are not Gaussian:
their distributions know all that their means do not say, and they have no pairs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.errors import InputError, InputTypeError
from momentmix.families.distribution import Distribution
from momentmix.lazy import lazy_property
from momentmix.tables.names import column_label, number_of


@dataclass(frozen=True)
class Blocks:
    """A partition of features.

    >>> blocks = Blocks.of(5, [[3, 1], [4]])
    >>> blocks.joined, blocks.partition
    (((1, 3),), ((0,), (1, 3), (2,), (4,)))
    >>> blocks.pairs.tolist()
    [[1, 3]]
    """

    n_features: int
    joined: tuple[tuple[int, ...], ...] = ()  # Gaussian features, ascending, by their first ones
    laws: tuple[Distribution, ...] = ()  # blocks of features that are not Gaussian
    # Joined features whose cells may be missing, those that say where they are observed, and units.
    missing: tuple[tuple[int, int, float], ...] = ()

    @classmethod
    def of(
        cls, n_features: int, groups: Iterable[Sequence[int]], laws: tuple[Distribution, ...] = ()
    ) -> Blocks:
        """Blocks from groups of features in any order; they must not overlap."""
        ordered = sorted(tuple(sorted(int(j) for j in group)) for group in groups)
        return cls(n_features, tuple(group for group in ordered if len(group) > 1), laws)

    @classmethod
    def full(cls, n_features: int, laws: tuple[Distribution, ...] = ()) -> Blocks:
        """All Gaussian features in one block."""
        return cls.of(n_features, [cls(n_features, laws=laws).gaussian.tolist()], laws)

    def __reduce__(self) -> tuple[type[Blocks], tuple[object, ...]]:
        # Not what is cached.
        return Blocks, (self.n_features, self.joined, self.laws, self.missing)

    @property
    def is_diagonal(self) -> bool:
        """Whether all features are Gaussian, and no two joined."""
        return not self.joined and not self.laws

    @lazy_property
    def partition(self) -> tuple[tuple[int, ...], ...]:
        """All blocks, those of one feature included, ordered by their first features."""
        wide = [*self.joined, *(part.features for part in self.laws)]
        inside = {j for block in wide for j in block}
        single = [(j,) for j in range(self.n_features) if j not in inside]
        return tuple(sorted([*wide, *single]))

    @lazy_property
    def block_of(self) -> Int:
        """Number of each feature's block in `partition`, of shape (d,)."""
        numbers = np.empty(self.n_features, dtype=np.int64)
        for number, block in enumerate(self.partition):
            numbers[list(block)] = number
        return numbers

    @lazy_property
    def single(self) -> Int:
        """Gaussian features that are blocks of their own."""
        return np.intersect1d(self.gaussian, self.single_or_law)

    @lazy_property
    def single_or_law(self) -> Int:
        """Features that are not joined with others."""
        inside = {j for block in self.joined for j in block}
        return np.array([j for j in range(self.n_features) if j not in inside], dtype=np.int64)

    @lazy_property
    def own_places(self) -> tuple[Int, ...]:
        """Places of the statistics t of each distribution, among those of all."""
        ends = np.cumsum([0, *(part.n_statistics for part in self.laws)])
        return tuple(
            np.arange(start, end, dtype=np.int64) for start, end in pairwise(ends.tolist())
        )

    @lazy_property
    def stacks(self) -> tuple[tuple[Distribution, Int, Int], ...]:
        """Distributions of one kind as one, their features (n, k), and places of t among all.

        One call for many columns.
        """
        kinds = defaultdict[object, list[int]](list)
        for number, part in enumerate(self.laws):
            kinds[part.kind].append(number)
        return tuple(
            (
                Distribution.stacked([self.laws[i] for i in numbers]),
                np.array([self.laws[i].features for i in numbers]),
                np.array([self.own_places[i] for i in numbers]),
            )
            for numbers in kinds.values()
        )

    @lazy_property
    def n_own(self) -> int:
        """Number of statistics that distributions have beside z and z²."""
        return sum(part.n_statistics for part in self.laws)

    @property
    def n_statistics(self) -> int:
        """Length of T(z)."""
        return self.n_features + self.n_spread + self.n_own + 1

    def statistics_of(self, number: int) -> Int:
        """Places in T(z) of (z, z², t, 1) of a distribution, by its number."""
        features, d = np.array(self.laws[number].features), self.n_features
        places = d + self.n_spread + self.own_places[number]
        return np.concatenate([features, d + features, places, [self.n_statistics - 1]])

    @lazy_property
    def with_law(self) -> Int:
        """Features with a distribution of their own."""
        return np.array([j for part in self.laws for j in part.features], dtype=np.int64)

    @lazy_property
    def gaussian(self) -> Int:
        """Features without a distribution of their own."""
        return np.setdiff1d(np.arange(self.n_features), self.with_law)

    @lazy_property
    def not_free(self) -> Int:
        """Places, for one component, of means that are fixed and of variances that follow."""
        pairs = [pair for part in self.laws for pair in zip(part.features, part.free, strict=True)]
        fixed = [1 + part.features[-1] for part in self.laws if part.at_random]
        follow = sorted(1 + self.n_features + j for j, is_free in pairs if not is_free)
        return np.array([*fixed, *follow], dtype=np.int64)

    @lazy_property
    def with_spread(self) -> tuple[tuple[int, ...], ...]:
        """Features of each block whose variances and covariances are parameters."""
        follow = self.not_free - 1 - self.n_features
        free = np.setdiff1d(self.single_or_law, follow).tolist()
        return tuple(sorted([*self.joined, *((j,) for j in free)]))

    @lazy_property
    def widths(self) -> Int:
        """Features of each block of `partition` that tell components apart."""
        known = {part.features: part.n_values for part in self.laws}
        return np.array([known.get(b, len(b)) for b in self.partition], dtype=np.int64)

    @lazy_property
    def pairs(self) -> Int:
        """Pairs of features of one block, block by block, of shape (n_pairs, 2)."""
        pairs = [pair for block in self.joined for pair in combinations(block, 2)]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    @property
    def n_pairs(self) -> int:
        """Number of pairs of features of one block."""
        return sum(len(block) * (len(block) - 1) // 2 for block in self.joined)

    @property
    def widest(self) -> int:
        """Features of the widest block."""
        return max(map(len, self.joined), default=1)

    @property
    def n_spread(self) -> int:
        """Number of variances and covariances of one component."""
        return self.n_features + self.n_pairs

    @property
    def n_places(self) -> int:
        """Places for one component: weight, means, variances and covariances."""
        return 1 + self.n_features + self.n_spread

    @property
    def n_parameters(self) -> int:
        """Number of parameters of one component: the places that are free."""
        return int(self.n_places - self.not_free.size)

    @lazy_property
    def place_of(self) -> dict[tuple[int, int], int]:
        """Where Σ_jk of two features of one block, or v_j = Σ_jj, is in a spread."""
        places = {(j, j): j for j in range(self.n_features)}
        for number, (j, k) in enumerate(self.pairs.tolist(), self.n_features):
            places[j, k] = places[k, j] = number
        return places

    @lazy_property
    def places(self) -> tuple[tuple[Int, Int], ...]:
        """For each joined block its features (k,), and where its matrix is in a spread (k, k)."""
        return tuple(
            (np.array(block), np.array([[self.place_of[j, k] for k in block] for j in block]))
            for block in self.joined
        )

    def table(self, features: Int) -> Int:
        """Where the matrix of some features of one block is in a spread, of shape (k, k)."""
        numbers = features.tolist()
        return np.array([[self.place_of[j, k] for k in numbers] for j in numbers], dtype=np.int64)

    def joined_by(self, pairs: Iterable[tuple[int, int]]) -> Blocks:
        """The blocks that features are in once pairs of them are joined."""
        groups: list[set[int]] = [set(block) for block in self.joined]
        for pair in map(set, pairs):
            touched = [group for group in groups if group & pair]
            groups = [group for group in groups if not group & pair] + [pair.union(*touched)]
        return Blocks.of(self.n_features, [sorted(group) for group in groups], self.laws)

    def restricted(self, features: Int) -> Blocks:
        """Blocks of some of the features, which are numbered anew in the order given.

        Of a distribution all features are kept, in their order, or none.
        """
        number = {int(j): place for place, j in enumerate(features)}
        groups = [[number[j] for j in block if j in number] for block in self.joined]
        laws = tuple(
            part.at(tuple(number[j] for j in part.features))
            for part in self.laws
            if part.features[0] in number
        )
        missing = tuple(
            (number[j], number[k], unit) for j, k, unit in self.missing if {j, k} <= number.keys()
        )
        return replace(Blocks.of(len(number), groups, laws), missing=missing)

    def rescaled(self, shift: Float, scale: Float) -> Blocks:
        """The blocks of (z − shift) / scale."""
        if not self.laws:
            return self
        features = [np.array(part.features) for part in self.laws]
        laws = (
            part.rescaled(shift[j], scale[j]) for part, j in zip(self.laws, features, strict=True)
        )
        return replace(self, laws=tuple(laws))


def blocks_from(
    groups: Iterable[Iterable[int | str]], n_features: int, names: Sequence[str] | None = None
) -> Blocks:
    """Blocks that a user gave, by numbers or names of columns; those not named are single.

    >>> blocks_from([["width", "length"]], 3, ["length", "width", "weight"]).joined
    ((0, 1),)
    """
    example = 'blocks=[["length", "width"], [3, 4]]'
    if isinstance(groups, str | bytes) or not isinstance(groups, Iterable):
        raise InputTypeError(
            f"blocks must be a list of lists of columns, as {example}, or a word that the call "
            f"takes, as 'auto'; got {groups!r}."
        )
    found = list[list[int]]()
    for group in groups:
        if isinstance(group, str | bytes) or not isinstance(group, Iterable):
            raise InputTypeError(
                f"each block must be a list of columns, as in {example}; got {group!r}."
            )
        problem = "blocks are lists of names or numbers of columns:"
        found.append([number_of(column, names, n_features, problem) for column in group])
    for column, n in Counter(column for group in found for column in group).items():
        if n > 1:
            raise InputError(
                f"blocks must not overlap; {column_label(column, names)} is {n} times in them. "
                "Join such blocks, or take the column out of all but one."
            )
    return Blocks.of(n_features, found)


def one_a_block(sets: Int, blocks: Blocks) -> NDArray[np.bool_]:
    """Which index sets (…, t) hold no two features of one block."""
    numbers = np.sort(blocks.block_of[sets], axis=-1)
    return np.asarray((np.diff(numbers, axis=-1) > 0).all(axis=-1))


def full_matrices(spread: Float, blocks: Blocks) -> Float:
    """Covariance matrices of all features, 0 between blocks, of shape (…, d, d)."""
    d = blocks.n_features
    table = np.zeros((*spread.shape[:-1], d, d), dtype=spread.dtype)
    features = np.arange(d)
    table[..., features, features] = spread[..., :d]
    j, k = blocks.pairs.T
    table[..., j, k] = table[..., k, j] = spread[..., d:]
    return table


def spread_of(matrices: Float, blocks: Blocks) -> Float:
    """Variances and covariances of matrices (…, d, d), of shape (…, d + n_pairs)."""
    j, k = blocks.pairs.T
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    return np.concatenate([diagonal, matrices[..., j, k]], axis=-1)
