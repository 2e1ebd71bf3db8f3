"""What a group has that the components do not explain: where the residual of its moments points.

Of every candidate the part of the statistic is found that it would explain: rows of a further
component, which is like one of the components but for some columns; a component whose mean in one
column has moved, or all of them; cells that are missing more often (``shifts.py``). The residual,
whitened, is compared with the direction that the candidate moves the moments in, weights projected
out. The best ones are then fitted for themselves: the new component with all of its values
(``new_component.py``), the shift by its size. A shift that explains as much is the simpler answer.
Where neither explains half of the residual, the moments of one or two columns that differ most are
named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from momentmix._typing import Float
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.overall import column_names, overall_spread
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.profiles.profile import profile_of
from momentmix.mixture.tables.block_features import Block, parameters_of
from momentmix.mixture.tables.family_blocks import (
    BernoulliBlock,
    CategoricalBlock,
)
from momentmix.monitoring.shares.candidate_blocks import (
    SURE,
    Move,
    changed,
    overall_block,
    with_component,
)
from momentmix.monitoring.shares.fixed_components import FixedComponents, moments_of
from momentmix.monitoring.shares.group_weights import check_fit
from momentmix.monitoring.shares.new_component import Law, NewComponent, fit_component
from momentmix.monitoring.shares.residual import Residual
from momentmix.monitoring.shares.shifts import Shift, Shifts
from momentmix.monitoring.shares.tracked_model import StandardComponents
from momentmix.tables.schema import Schema, plain_schema
from momentmix.wording import short_number

_PLACES = (-4.5, -3.2, -2.2, -1.4, -0.7, 0.7, 1.4, 2.2, 3.2, 4.5)  # in overall deviations
_MORE = 1.03  # gain for which a further column differs
_MOST_COLUMNS = 8
_NAMED = 3  # columns in a sentence, those that differ most
_MOST_CANDIDATES = 4000  # in one table of moments
_SIMPLER = 0.001  # of the statistic that a component that moved, the simpler answer, may leave more
_LEAST_EXPLAINED = 0.5  # of the statistic above its mean, or nothing is said of where it is


@dataclass(frozen=True)
class Unexplained:
    """What one more parameter would explain best.

    Attributes
    ----------
    kind : {"new rows", "moved", "missing", "columns"}
        Rows that no component has; components whose means in one column differ, or whose cells are
        missing more or less often; columns whose moments differ.
    text : str
        In words.
    columns : tuple of str
    share : float
        Of the rows, for "new rows"; else NaN.
    explained : float
        Of the statistic above its mean.
    low, high : float
        Ends of a 95 % interval of the share.
    """

    kind: str
    text: str
    columns: tuple[str, ...] = ()
    share: float = float("nan")
    explained: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")


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
        self._overall = [
            overall_block(block, mixture.weights, self._center) for block in self._blocks
        ]
        self._moves = [move for block in self._blocks for move in self._moves_of(block)]
        self._columns = column_names(mixture)
        self._shifts = Shifts(mixture, self._blocks, model.parameters, self._schema, model.scale,
                              self._standard)  # fmt: skip

    def explain(
        self, components: FixedComponents, moments: Float, n: float, weights: Float, excess: float
    ) -> Unexplained:
        """What would explain the residual of a group best; `excess` is what J has above its dof."""
        residual = Residual(components, moments, n, weights)
        rows, gain = self._new_rows(components, residual)
        shift = self._shifts.best(components, residual, moments, n)
        new = self._fitted(components, rows, moments, n, weights)
        test = check_fit(new.components, moments, n, new.weights, None)
        explained = 1.0 - max(test.statistic - test.degrees_of_freedom, 0.0) / excess
        explained = max(explained, gain / excess)
        if shift.test is not None and shift.explained(excess) > _LEAST_EXPLAINED:
            slack = max(_SIMPLER * excess, 2.0 * residual.noise)
            if shift.test.statistic < test.statistic + slack:
                return self._shift_words(shift, excess)
        if explained < _LEAST_EXPLAINED or not new.share:
            return self._differing(components, residual, excess)
        words, named = self._words(new, [move.column for move in rows[1]])
        low, high = new.interval
        return Unexplained("new rows", words, named, new.share, explained, low, high)

    def far(self, components: FixedComponents, moments: Float) -> Unexplained:
        """The column whose mean is farthest away, where it is out of all proportion."""
        exponents = components.conditions.slot_exponents
        own = np.flatnonzero(exponents.sum(axis=1) == 1)
        feature = components.conditions.slots[own[np.argmax(np.abs(moments[own]))], 0]
        name = self._columns[self._schema.column_of[feature]]
        text = f"values of {name} lie far beyond those of the components; are the units the same?"
        return Unexplained("columns", text, (name,))

    def _differing(
        self, components: FixedComponents, residual: Residual, excess: float
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

    def _shift_words(self, shift: Shift, excess: float) -> Unexplained:
        name, c = self._columns[shift.column], shift.component
        whose = "" if c is None else f" of component {c} ({self._names[c]})"
        if shift.of_seen:
            word = "less" if shift.size > 0 else "more"
            text = f"cells of {name}{whose} are missing {word} often than in the model"
            return Unexplained("missing", text, (name,), np.nan, shift.explained(excess))
        word = "higher" if shift.size > 0 else "lower"
        text = f"{name}{whose or ' in all components'} is {word} than in the model"
        if not self._mixture.columns[shift.column].transform:
            text += f", by about {short_number(abs(shift.size))}"
        return Unexplained("moved", text, (name,), np.nan, shift.explained(excess))

    # -- rows of a further component ------------------------------------------------------------

    def _moves_of(self, block: Block) -> list[Move]:
        moves = list[Move]()
        for j in block.columns:
            if isinstance(block, GaussianBlock):
                moves += [Move(j, float(self._center[j] + x * self._scale[j])) for x in _PLACES]
            elif isinstance(block, BernoulliBlock):
                moves += [Move(j, 1.0 - SURE), Move(j, SURE)]
            elif isinstance(block, CategoricalBlock):
                moves += [Move(j, float(level)) for level in range(len(block.levels))]
            else:
                rates = np.nan_to_num(block.means)
                moves += [Move(j, float(rates.max() * f + f - 1)) for f in (1.5, 2.5, 4.0)]
                moves += [Move(j, float(rates.min() * f)) for f in (0.6, 0.25)]
        return moves

    def _new_rows(
        self, components: FixedComponents, residual: Residual
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

    def _fitted(
        self,
        components: FixedComponents,
        candidate: tuple[int, tuple[Move, ...]],
        moments: Float,
        n: float,
        weights: Float,
    ) -> NewComponent:
        """The component with its share, from a candidate."""
        start = [block.known for block in self._candidate_blocks([candidate])]
        law = Law(start, self._overall, self._scale)

        def one(blocks: list[Block]) -> FixedComponents:
            return FixedComponents(components.conditions, self._standard(blocks))

        def many(blocks: list[Block]) -> Float:
            return self._moments_of(components, blocks)

        begin = np.append(0.9 * weights, 0.1)
        return fit_component(components, law, one, many, moments, n, begin)

    def _moments(
        self, components: FixedComponents, candidates: list[tuple[int, tuple[Move, ...]]]
    ) -> Float:
        """Moments of candidates, of shape (q, k)."""
        return self._moments_of(components, self._candidate_blocks(candidates))

    def _moments_of(self, components: FixedComponents, blocks: list[Block]) -> Float:
        """Moments of blocks, one column for each component."""
        return moments_of(components.conditions, self._standard(blocks))

    def _standard(self, blocks: list[Block]) -> Parameters:
        """Standardized parameters of blocks, with equal weights."""
        n = blocks[0].n_components
        p = parameters_of(np.full(n, 1.0 / n), blocks, self._schema)
        return p.standardized(self._model.shift, self._model.scale)

    def _candidate_blocks(self, candidates: list[tuple[int, tuple[Move, ...]]]) -> list[Block]:
        bases = np.array([base for base, _ in candidates])
        moves = [(number, move) for number, (_, own) in enumerate(candidates) for move in own]
        return [
            changed(block, bases, [(number, m) for number, m in moves if m.column in block.columns])
            for block in self._blocks
        ]

    def _words(self, new: NewComponent, columns: list[int]) -> tuple[str, tuple[str, ...]]:
        """What a new component has in some columns, beside the components; and the columns."""
        r = self._mixture.n_components
        weights = np.append((1 - new.share) * self._mixture.weights, new.share)
        every = [
            with_component(old, own) for old, own in zip(self._blocks, new.blocks, strict=True)
        ]
        whole = Mixture.from_blocks(weights / weights.sum(), every)
        moved = [self._columns[column] for column in columns]
        traits = [trait for trait in profile_of(whole)[r].traits if trait.column in moved][:_NAMED]
        named = tuple(dict.fromkeys(trait.column for trait in traits)) or tuple(moved[:_NAMED])
        return ", ".join(trait.text for trait in traits) or ", ".join(named), named
