"""Columns of a group that the components do not explain, and the direction of their moves.

| symbol | name here | shape |
|---|---|---|
| C: covariance of the moments of the group | `group_root` | (q, q) |
| x = C^(−1/2) (m − M w), with the weights projected out | ``residual`` | (q,) |
| directions u, whitened in the same way | ``directions`` | (q, k) |
| (uᵀ x)² / uᵀ u: the part of the statistic that a move along u explains | ``gains`` | (k,) |

A mean or a spread moves the moments along their slopes in it, rows far away in one column toward
the moments of such rows, a correlation its product alone. For the spread of a count a column of C
stands. The direction of the largest gain is named and projected out, as long as the next one
explains enough. With one or two columns "higher" may mean "varies more".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from momentmix._typing import Float
from momentmix.findings.finding import WARNING, Finding, found
from momentmix.fitting.conditions.derivative import derivative
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import column_names
from momentmix.monitoring.shares.components import FixedComponents, moments_of
from momentmix.monitoring.shares.group_weights import FitTest, bounded, group_root
from momentmix.tables.schema import Schema

_FAR = 1e15  # a statistic beyond is that of values in other units, or of wild rows
# Of 460 groups of eight kinds of laws in which the means of one or two columns had moved, these
# numbers name the right columns and directions in 99 %, and another column in 2 %.
_LEAST_EXPLAINED = 0.05  # of the statistic; less is what a large move leaves, which is not linear
_DISTANCE = 3.0  # overall deviations, of rows far away: fewer look like a shift of all rows
_OF_MEANS = 1.25  # times the gain of a spread or correlation: a mean is the simpler answer
_LEAST_OWN = 1e-6  # of a direction, as the square of its length: the rest was named before
_MEANS = ("mean", "share", "missing")


class Move(NamedTuple):
    """One number of a group that differs from what the components allow.

    Attributes
    ----------
    what : {"mean", "share", "missing", "spread", "correlation"}
    columns : tuple of str
        Two for a correlation, else one.
    label : str
        The columns in words, with their levels: ``plan=gold``.
    direction : {"up", "down"}
    """

    what: str
    columns: tuple[str, ...]
    label: str
    direction: Literal["up", "down"]


@dataclass(frozen=True)
class Unexplained:
    """Moves that the components do not explain in a group.

    Attributes
    ----------
    moves : tuple of Move
        What differs most comes first.
    is_far : bool
        Whether the values are out of all proportion, as in other units.
    """

    moves: tuple[Move, ...]
    is_far: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that moved."""
        return tuple(dict.fromkeys(name for move in self.moves for name in move.columns))

    @property
    def text(self) -> str:
        """The same in words."""
        return self.finding().text

    def finding(self, group: str | None = None) -> Finding:
        """The same as a finding about a group."""
        moves = [(move.what, move.label, move.direction) for move in self.moves]
        return found(
            WARNING, "group-misfit", self.columns, moves=moves, is_far=self.is_far, group=group
        )


class MovedColumns:
    """Names of what moved in groups that a mixture does not fit; `schema` is of the summaries."""

    def __init__(self, mixture: Mixture, schema: Schema | None) -> None:
        columns = mixture.columns if schema is None else schema.columns
        named = zip(columns, column_names(mixture), strict=True)
        self._parts = [
            (part._replace(column=name), "share" if own.levels else "mean")
            for j, (own, name) in enumerate(named)
            for part in own.feature_parts(j)
        ]

    def find(self, components: FixedComponents, moments: Float, n: float, weights: Float,
             test: FitTest) -> Unexplained:  # fmt: skip
        """Find the moves in a group of `n` rows with these moments, weights and test."""
        excess = max(test.statistic - test.degrees_of_freedom, 1.0)
        if not excess < _FAR:  # the column whose mean is farthest away
            every = np.flatnonzero(components.conditions.slot_exponents.sum(axis=1) == 1)
            place = int(every[np.argmax(np.abs(moments[every]))])
            return Unexplained((self._move(components, place, moments[place] > 0),), is_far=True)
        root = group_root(components, n, weights)
        means, target = root.whiten(components.means), root.whiten(moments)
        w = bounded(means, target)
        is_seen = np.array([part.is_seen for part, _ in self._parts])
        directions, places, signs = _candidates(components, root.covariance, w, is_seen)
        own = means[:, w > 0]
        free = np.linalg.qr(own[:, 1:] - own[:, :1])[0]
        white = root.whiten(directions)
        white -= free @ (free.T @ white)
        rises = [self._move(components, place, True) for place in places]
        moves = (
            rises[k] if is_up else self._move(components, places[k], False)
            for k, is_up in _pursue(target - means @ w, white, signs, rises, excess)
        )
        return Unexplained(tuple(moves))

    def _move(self, components: FixedComponents, place: int, is_up: bool) -> Move:
        """Return the move of the moment at a place."""
        exponents = components.conditions.slot_exponents[place]
        features = components.conditions.slots[place][exponents > 0]
        parts = [self._parts[j][0] for j in features]
        what = self._parts[features[0]][1]
        if parts[0].is_seen:
            what, is_up = "missing", not is_up
        elif len(parts) > 1:
            what = "correlation"
        elif exponents.sum() > 1:
            what = "spread"
        levels = ("" if part.level is None else f"={part.level}" for part in parts)
        columns = tuple(str(part.column) for part in parts)
        label = " and ".join(map("".join, zip(columns, levels, strict=True)))
        return Move(what, columns, label, "up" if is_up else "down")


def _candidates(
    components: FixedComponents, covariance: Float, weights: Float, is_seen: NDArray[np.bool_]
) -> tuple[Float, list[int], Float]:
    """Return directions of moves (q, k), the moments that they are named by, and signs.

    `is_seen` (d,) are features of cells being seen, whose products have no words. The sign is that
    of rows far away, of which only a positive share makes sense; else 0.
    """
    conditions, p = components.conditions, components.parameters
    r, d = p.means.shape
    degrees, highest = (f(conditions.slot_exponents, axis=1) for f in (np.sum, np.max))
    of_values = ~np.append(is_seen, False)[conditions.slots].any(axis=1)
    means = np.flatnonzero(degrees == 1)
    spreads, pairs = (
        np.flatnonzero((degrees == 2) & (highest == power) & of_values) for power in (2, 1)
    )
    slopes = derivative(conditions, replace(p, weights=weights)).table()
    q = conditions.size
    slopes = slopes[:, r:].reshape(q, -1, r)  # means of d features, then variances
    features = conditions.slots[means, 0]
    far = []
    for sign, j in product((1, -1), features.tolist()):
        moved = p.means.copy()
        moved[:, j] += sign * _DISTANCE
        others = moments_of(conditions, replace(p, means=moved).completed())
        far.append((others - components.means) @ weights)
    directions = np.column_stack([
        slopes[:, features].reshape(q, -1),  # means of single components
        slopes[:, features].sum(axis=2),  # means of all
        slopes[:, d + conditions.slots[spreads, 0]].sum(axis=2),
        covariance[:, spreads],  # spreads of counts
        np.eye(q)[:, pairs],
        *far,
    ])  # fmt: skip
    places = np.concatenate([np.repeat(means, r), means, spreads, spreads, pairs, means, means])
    signs = np.zeros(len(places))
    signs[-2 * len(means) :] = np.repeat([1.0, -1.0], len(means))
    return directions, places.tolist(), signs


def _pursue(
    residual: Float, directions: Float, signs: Float, moves: list[Move], excess: float
) -> Iterator[tuple[int, bool]]:
    """Numbers of the moves that explain most, one by one, and whether they are upward."""
    known, lengths = set[str](), (directions**2).sum(axis=0)
    shortest = np.maximum(_LEAST_OWN * lengths, 1e-300)
    factors = np.array([_OF_MEANS if move.what in _MEANS else 1.0 for move in moves])
    while True:
        lengths, products = (directions**2).sum(axis=0), residual @ directions
        usable = (lengths > shortest) & [known.isdisjoint(move.columns) for move in moves]
        usable &= (signs == 0) | ((products > 0) & (products <= lengths))
        gains = np.where(usable, products**2 / np.maximum(lengths, shortest), 0.0)
        best = int(np.argmax(factors * gains))
        is_sure = chdtrc(1, gains[best]) * len(moves) < LEAST_P_VALUE
        if known and not (is_sure and gains[best] >= _LEAST_EXPLAINED * excess):
            return
        yield best, bool((signs[best] or products[best]) > 0)
        known |= {*moves[best].columns}
        unit = directions[:, best] / np.sqrt(max(lengths[best], shortest[best]))
        residual = residual - unit * (unit @ residual)
        directions = directions - np.outer(unit, unit @ directions)
