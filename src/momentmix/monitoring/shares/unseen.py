"""What a group has that the components do not explain: where the residual of its moments points.

Of every candidate the part of the statistic is found that one more parameter would explain: rows
of a further component, which is like one of the components but for some columns; a component whose
mean in one column has moved, or all of them. The residual, whitened, is compared with the direction
that the candidate moves the moments in, weights projected out. Where no candidate explains half of
it, the moments of one or two columns that differ most are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.derivative import derivative
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.overall import column_names, overall_spread
from momentmix.mixture.profiles.profile import profile_of
from momentmix.mixture.tables.block_features import Block, parameters_of
from momentmix.mixture.tables.family_blocks import (
    BernoulliBlock,
    CategoricalBlock,
    PoissonBlock,
)
from momentmix.monitoring.shares.fixed_components import FixedComponents, Root
from momentmix.monitoring.shares.group_weights import (
    bounded,
    check_fit,
    estimate,
    group_covariance,
)
from momentmix.monitoring.shares.tracked_model import StandardComponents
from momentmix.schema.joining import plain_schema
from momentmix.schema.schema import Schema
from momentmix.wording import short_number

_PLACES = (-4.5, -3.2, -2.2, -1.4, -0.7, 0.7, 1.4, 2.2, 3.2, 4.5)  # in overall deviations
_SURE = 0.95  # probability of the level that a candidate mostly has
_MORE = 1.03  # gain for which a further column differs
_MOST_COLUMNS = 8
_NAMED = 3  # columns in a sentence, those that differ most
_MOST_CANDIDATES = 4000  # in one table of moments
_LEAST_EXPLAINED = 0.5  # of the statistic above its mean, or nothing is said of where it is


@dataclass(frozen=True)
class Unexplained:
    """What one more parameter would explain best.

    Attributes
    ----------
    kind : {"new rows", "moved", "columns"}
        Rows that no component has; components whose means in one column differ; columns whose
        moments differ.
    text : str
        In words.
    columns : tuple of str
    share : float
        Of the rows, for "new rows"; else NaN.
    explained : float
        Of the statistic above its mean.
    """

    kind: str
    text: str
    columns: tuple[str, ...] = ()
    share: float = float("nan")
    explained: float = float("nan")


class Move(NamedTuple):
    """One column of a candidate with other values: a place of its mean, a level, a rate."""

    column: int
    value: float


class _Moved(NamedTuple):
    """A column whose mean has moved in one component, or in all (None)."""

    column: int
    component: int | None
    gain: float
    shift: float


class _Residual:
    """The whitened residual of a group, and directions with the weights projected out."""

    def __init__(self, components: FixedComponents, moments: Float, n: float, w: Float) -> None:
        self._root = Root(group_covariance(components, n, w))
        means = self._root.whiten(components.means)
        self.weights = bounded(means, self._root.whiten(moments))
        self._fitted = components.means @ self.weights
        self.residual = self._root.whiten(moments - self._fitted)
        own = means[:, self.weights > 0]
        self._basis = np.linalg.qr(own[:, 1:] - own[:, :1])[0]

    def best(self, directions: Float) -> tuple[int, float, float]:
        """Number, gain and size of the direction (q, k) that explains most."""
        white = self._root.whiten(directions)
        white -= self._basis @ (self._basis.T @ white)
        lengths = np.maximum((white**2).sum(axis=0), 1e-300)
        sizes = (self.residual @ white) / lengths
        gains = sizes**2 * lengths
        place = int(np.argmax(gains))
        return place, float(gains[place]), float(sizes[place])

    def best_share(self, moments: Float) -> tuple[int, float, float]:
        """The same for rows of components with these moments (q, k), whose share is positive."""
        directions = moments - self._fitted[:, None]
        white = self._root.whiten(directions)
        white -= self._basis @ (self._basis.T @ white)
        lengths = np.maximum((white**2).sum(axis=0), 1e-300)
        shares = (self.residual @ white) / lengths
        gains = np.where((shares > 0) & (shares <= 1), shares**2 * lengths, 0.0)
        place = int(np.argmax(gains))
        return place, float(gains[place]), float(shares[place])


class Unseen:
    """Candidates for what a model lacks.

    Parameters
    ----------
    mixture : Mixture
    model : StandardComponents
        The same, standardized.
    schema : Schema or None
        Of the summaries.
    names : sequence of str
        Of the components.
    """

    def __init__(
        self,
        mixture: Mixture,
        model: StandardComponents,
        schema: Schema | None,
        names: Sequence[str],
    ) -> None:
        self._mixture, self._model, self._names = mixture, model, names
        self._schema = schema or plain_schema(mixture.n_columns)
        self._blocks = [block if isinstance(block, GaussianBlock) else block.known
                        for block in mixture.blocks]  # fmt: skip
        self._center, self._scale = overall_spread(mixture)
        self._moves = [move for block in self._blocks for move in self._moves_of(block)]
        self._columns = column_names(mixture)

    def explain(
        self, components: FixedComponents, moments: Float, n: float, weights: Float, excess: float
    ) -> Unexplained:
        """What would explain the residual of a group best; `excess` is what J has above its dof."""
        residual = _Residual(components, moments, n, weights)
        rows, gain = self._new_rows(components, residual)
        moved = self._moved(components, residual)
        share, explained = self._with_rows(components, rows, moments, n, excess)
        explained = max(explained, gain / excess)
        if moved.gain > max(explained, _LEAST_EXPLAINED) * excess:
            return self._moved_words(moved, excess)
        if explained < _LEAST_EXPLAINED or not share:
            return self._differing(components, residual, excess)
        words, named = self._words(rows, share)
        return Unexplained("new rows", words, named, share, explained)

    def far(self, components: FixedComponents, moments: Float) -> Unexplained:
        """The column whose mean is farthest away, where it is out of all proportion."""
        exponents = components.conditions.slot_exponents
        own = np.flatnonzero(exponents.sum(axis=1) == 1)
        feature = components.conditions.slots[own[np.argmax(np.abs(moments[own]))], 0]
        name = self._columns[self._schema.column_of[feature]]
        text = f"values of {name} lie far beyond those of the components; are the units the same?"
        return Unexplained("columns", text, (name,))

    def _differing(
        self, components: FixedComponents, residual: _Residual, excess: float
    ) -> Unexplained:
        """The moment of one or two columns that differs most from what the components allow."""
        exponents = components.conditions.slot_exponents
        own = np.flatnonzero(exponents.sum(axis=1) <= 2)
        place, gain, size = residual.best(np.eye(components.size)[:, own])
        number = int(own[place])
        slots = components.conditions.slots[number][exponents[number] > 0]
        named = tuple(dict.fromkeys(self._columns[self._schema.column_of[j]] for j in slots))
        more = size > 0
        if len(named) > 1:
            what = f"{' and '.join(named)} go together {'more' if more else 'less'}"
        elif exponents[number].sum() == 1:
            what = f"the mean of {named[0]} is {'higher' if more else 'lower'}"
        else:
            what = f"the spread of {named[0]} is {'larger' if more else 'smaller'}"
        return Unexplained("columns", f"{what} than the components allow", named, np.nan,
                           gain / excess)  # fmt: skip

    def _moved_words(self, moved: _Moved, excess: float) -> Unexplained:
        word = "higher" if moved.shift > 0 else "lower"
        name = self._columns[moved.column]
        whose = " in all components"
        if moved.component is not None:
            whose = f" of component {moved.component} ({self._names[moved.component]})"
        text = f"{name}{whose} is {word} than in the model"
        if not self._mixture.columns[moved.column].transform:
            text += f", by about {short_number(abs(moved.shift))}"
        return Unexplained("moved", text, (name,), np.nan, moved.gain / excess)

    # -- rows of a further component ------------------------------------------------------------

    def _moves_of(self, block: Block) -> list[Move]:
        moves = list[Move]()
        for j in block.columns:
            if isinstance(block, GaussianBlock):
                moves += [Move(j, float(self._center[j] + x * self._scale[j])) for x in _PLACES]
            elif isinstance(block, BernoulliBlock):
                moves += [Move(j, 1.0 - _SURE), Move(j, _SURE)]
            elif isinstance(block, CategoricalBlock):
                moves += [Move(j, float(level)) for level in range(len(block.levels))]
            else:
                rates = np.nan_to_num(block.means)
                moves += [Move(j, float(rates.max() * f + f - 1)) for f in (1.5, 2.5, 4.0)]
                moves += [Move(j, float(rates.min() * f)) for f in (0.6, 0.25)]
        return moves

    def _new_rows(
        self, components: FixedComponents, residual: _Residual
    ) -> tuple[tuple[int, tuple[Move, ...]], float]:
        """The best candidate, found column by column: its base and moves, and its gain."""
        r = self._mixture.n_components
        best: tuple[int, tuple[Move, ...]] = (0, ())
        best_gain = 0.0
        bases = list(range(r))
        for _ in range(_MOST_COLUMNS):
            taken = {move.column for move in best[1]}
            candidates = [
                (base, (*best[1], move))
                for base in bases
                for move in self._moves
                if move.column not in taken
            ][:_MOST_CANDIDATES]
            if not candidates:
                break
            table = self._moments(components, candidates)
            place, gain, _ = residual.best_share(table)
            if gain <= (_MORE if best[1] else 1.0) * best_gain:
                break
            best, best_gain = candidates[place], gain
            bases = [best[0]]
        return best, best_gain

    def _with_rows(
        self,
        components: FixedComponents,
        candidate: tuple[int, tuple[Move, ...]],
        moments: Float,
        n: float,
        excess: float,
    ) -> tuple[float, float]:
        """Share of a further component, and the part of the statistic that it explains.

        The component has its own part in the covariance of the moments.
        """
        r = self._mixture.n_components
        every = [*((i, ()) for i in range(r)), candidate]
        weights = np.append(0.9 * components.parameters.weights, 0.1)
        p = parameters_of(weights, self._candidate_blocks(every), self._schema)
        p = p.standardized(self._model.shift, self._model.scale)
        wider = FixedComponents(components.conditions, p)
        found = estimate(wider, moments, n, 1.0).weights
        test = check_fit(wider, moments, n, found, None)
        left = max(test.statistic - test.degrees_of_freedom, 0.0)
        return float(found[-1]), 1.0 - left / excess

    def _moments(
        self, components: FixedComponents, candidates: list[tuple[int, tuple[Move, ...]]]
    ) -> Float:
        """Moments of candidates, of shape (q, k)."""
        blocks = self._candidate_blocks(candidates)
        weights = np.full(len(candidates), 1.0 / len(candidates))
        p = parameters_of(weights, blocks, self._schema)
        p = p.standardized(self._model.shift, self._model.scale)
        monomials = components.conditions.by_block(p.blocks)
        return np.asarray(monomials.moments(p)[monomials.slots].prod(axis=1))

    def _candidate_blocks(self, candidates: list[tuple[int, tuple[Move, ...]]]) -> list[Block]:
        bases = np.array([base for base, _ in candidates])
        moves = [(number, move) for number, (_, own) in enumerate(candidates) for move in own]
        return [
            _changed(
                block, bases, [(number, m) for number, m in moves if m.column in block.columns]
            )
            for block in self._blocks
        ]

    def _words(
        self, candidate: tuple[int, tuple[Move, ...]], share: float
    ) -> tuple[str, tuple[str, ...]]:
        """What a candidate has, beside the components; and its columns."""
        base, moves = candidate
        r = self._mixture.n_components
        every = [(i, ()) for i in range(r)] + [(base, moves)]
        weights = np.append((1 - share) * self._mixture.weights, share)
        whole = Mixture.from_blocks(weights / weights.sum(), self._candidate_blocks(every))
        moved = [self._columns[move.column] for move in moves]
        traits = [trait for trait in profile_of(whole)[r].traits if trait.column in moved][:_NAMED]
        named = tuple(dict.fromkeys(trait.column for trait in traits)) or tuple(moved[:_NAMED])
        return ", ".join(trait.text for trait in traits) or ", ".join(named), named

    # -- a component that has moved -------------------------------------------------------------

    def _moved(self, components: FixedComponents, residual: _Residual) -> _Moved:
        """The best shift of a mean: of one component, or of all of them."""
        p = replace(self._model.parameters, weights=residual.weights)
        r = p.n_components
        slopes = derivative(components.conditions, p).table()[:, r:]
        features = [
            self._schema.features_of(j)[0]
            for j in range(self._mixture.n_columns)
            if not self._mixture.columns[j].levels and not self._mixture.columns[j].has_missing
        ]
        if not features:
            return _Moved(0, None, 0.0, 0.0)
        tables = [slopes[:, f * r : f * r + r] for f in features]
        wide = np.hstack([np.hstack([table, table.sum(axis=1, keepdims=True)]) for table in tables])
        place, gain, size = residual.best(wide)
        number, c = divmod(place, r + 1)
        feature = features[number]
        shift = size * float(self._model.scale[feature])
        return _Moved(int(self._schema.column_of[feature]), c if c < r else None, gain, shift)


def _changed(block: Any, bases: Int, moves: list[tuple[int, Move]]) -> Any:
    """A block of candidates: rows of components, some with other values."""
    own = block.chosen(bases)
    rows = [number for number, _ in moves]
    values = np.array([move.value for _, move in moves])
    if not rows:
        return own
    if isinstance(own, GaussianBlock):
        means = own.means.copy()
        means[rows, [own.columns.index(move.column) for _, move in moves]] = values
        return replace(own, means=means)
    if isinstance(own, PoissonBlock):
        rates = own.rates.copy()
        rates[rows] = values
        return replace(own, rates=rates)
    table = own.probabilities.copy()
    if isinstance(own, BernoulliBlock):
        table[rows] = values
    else:
        others = len(own.levels) - 1
        table[rows] = (1.0 - _SURE) / others if others else 0.0
        table[rows, values.astype(np.int64)] = _SURE if others else 1.0
    return replace(own, probabilities=table)
