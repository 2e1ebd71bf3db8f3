"""A component that has moved: another mean in one column, or another share of missing cells.

Means are shifted by slopes of the moments first, shares of missing cells by small differences of
their log odds; the direction that explains most of the residual is then taken with the moments
that it really has, and its size is found. Rows that moved have other variances of their moments: a
second round takes the covariance where the first one leads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from momentmix._typing import Float
from momentmix.fitting.conditions.derivative import derivative
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.tables.block_features import Block
from momentmix.mixture.tables.family_blocks import PoissonBlock
from momentmix.monitoring.shares.candidate_blocks import Move, changed
from momentmix.monitoring.shares.fixed_components import FixedComponents, moments_of
from momentmix.monitoring.shares.group_weights import FitTest, check_fit
from momentmix.monitoring.shares.means.values import MovingValues
from momentmix.monitoring.shares.residual import Residual
from momentmix.tables.schema import Schema

_TIMES, _STEP = (0.5, 0.75, 1.1, 1.7, 2.5), 1.5  # of the linear estimate of a shift
_TRIED, _ENOUGH = 4, 4.0  # shifts, until one leaves no more than chance: in its deviations
_ROUNDS = 2
_FINE = 1e-3  # log odds, of differences
_RARE = 1e-3  # probability of being seen or missing, within which log odds are taken

Standard = Callable[[list[Block]], Parameters]
"""Standardized parameters of blocks."""


class Shift(NamedTuple):
    """One column with another mean, or other log odds of being seen; of one component or all.

    `test` is that of the components after the shift.
    """

    column: int
    component: int | None
    gain: float
    size: float
    of_seen: bool = False
    test: FitTest | None = None

    def explained(self, excess: float) -> float:
        """Part of what the statistic has above its mean that is gone after the shift."""
        if self.test is None:
            return 0.0
        left = self.test.statistic - self.test.degrees_of_freedom
        return 1.0 - max(left, 0.0) / excess


class Shifts:
    """Shifts of the components of a model.

    Parameters
    ----------
    mixture : Mixture
    blocks : list of blocks
        Of the mixture.
    parameters : Parameters
        Of standardized features.
    schema : Schema
        Of the features.
    scale : array of shape (d,)
        Of the features.
    standard : callable
        Standardized parameters of blocks.
    """

    def __init__(
        self,
        mixture: Mixture,
        blocks: Sequence[Block],
        parameters: Parameters,
        schema: Schema,
        scale: Float,
        standard: Standard,
    ) -> None:
        self._blocks, self._p, self._schema = list(blocks), parameters, schema
        self._scale, self._standard = scale, standard
        columns = range(mixture.n_columns)
        features = [schema.features_of(j)[0] for j in columns if not mixture.columns[j].levels]
        self._values = MovingValues(parameters, features) if features else None
        self._with_seen = [block for block in self._blocks if _is_seen(block)]

    def best(
        self, components: FixedComponents, residual: Residual, moments: Float, n: float
    ) -> Shift:
        """The shift that explains most of the residual of a group with these moments."""
        found = Shift(0, None, 0.0, 0.0)
        for linear in self._linear(components, residual):
            own = self._fitted(components, residual, linear, moments, n)
            assert own.test is not None
            if found.test is None or own.test.statistic < found.test.statistic:
                found = own
            dof = max(own.test.degrees_of_freedom, 1)
            if own.test.statistic < dof + _ENOUGH * np.sqrt(2.0 * dof):
                break
        return found

    def _fitted(
        self,
        components: FixedComponents,
        residual: Residual,
        linear: Shift,
        moments: Float,
        n: float,
    ) -> Shift:
        """A shift with the size that explains most, and its test."""
        shift, there = self._sized(components, residual, linear), residual
        for _ in range(_ROUNDS):
            near = self._components(components, shift)
            there = Residual(near, moments, n, residual.weights)
            shift = self._sized(components, there, shift)
        near = self._components(components, shift)
        return shift._replace(test=check_fit(near, moments, n, there.weights, None))

    def _linear(self, components: FixedComponents, residual: Residual) -> list[Shift]:
        """The shifts that would explain most if moments were linear in their sizes."""
        tables, who = self._means(components, residual)
        for block in self._with_seen:
            tables.append(self._by_seen(components, residual, block))
            who.append((block.columns[0], None))
        if not tables:
            return []
        wide = np.stack(tables, axis=1)  # (q, n, r)
        wide = np.concatenate([wide, wide.sum(axis=2, keepdims=True)], axis=2)
        gains, sizes = residual.gains(wide.reshape(len(wide), -1))
        found, r = list[Shift](), self._p.n_components
        for place in np.argsort(-gains, kind="stable")[:_TRIED].tolist():
            number, c = divmod(place, r + 1)
            column, feature = who[number]
            unit = 1.0 if feature is None else float(self._scale[feature])
            size, whose = float(sizes[place]) * unit, c if c < r else None
            found.append(Shift(column, whose, float(gains[place]), size, feature is None))
        return found

    def _means(
        self, components: FixedComponents, residual: Residual
    ) -> tuple[list[Float], list[tuple[int, int | None]]]:
        """Slopes of the moments in means (q, r), with their columns and features."""
        if self._values is None:
            return [], []
        p = replace(self._p, weights=residual.weights)
        r, d, own = p.n_components, p.blocks.n_features, self._values.features
        slopes = derivative(components.conditions, p).table()[:, r:]
        slopes, facts = slopes.reshape(components.size, -1, r), self._values.facts(self._p)
        table = slopes[:, own] * facts.by_mean.T + slopes[:, d + own] * facts.by_variance.T
        columns = [int(self._schema.column_of[feature]) for feature in own]
        return list(table.transpose(1, 0, 2)), list(zip(columns, own.tolist(), strict=True))

    def _by_seen(self, components: FixedComponents, residual: Residual, block: Any) -> Float:
        """Slopes of the moments in log odds of being seen, (q, r)."""
        every = list(range(self._p.n_components))
        change = self._change(components, block, self._seen(block, every, _FINE), every)
        return change / _FINE * residual.weights

    def _sized(self, components: FixedComponents, residual: Residual, linear: Shift) -> Shift:
        """The shift with the size that explains most."""

        def lost(times: float) -> float:
            return -self._shifted(components, residual, linear, times).gain

        best = min(_TIMES, key=lost)
        ends = best / _STEP, best * _STEP
        found = minimize_scalar(lost, bounds=ends, method="bounded", options={"maxiter": 8})
        return self._shifted(components, residual, linear, float(found.x))

    def _shifted(
        self, components: FixedComponents, residual: Residual, shift: Shift, times: float
    ) -> Shift:
        """A shift by a multiple of its size, with the moments that it really has."""
        shift = shift._replace(size=times * shift.size)
        block, moved, who = self._moved(shift)
        if moved is None:
            return shift._replace(gain=-np.inf)
        means = components.means.copy()
        means[:, who] += self._change(components, block, moved, who)
        return shift._replace(gain=residual.gain(means))

    def _moved(self, shift: Shift) -> tuple[Any, Any, list[int]]:
        """The block that a shift changes, some components of it after that, and their numbers."""
        every = range(self._p.n_components)
        who = list(every) if shift.component is None else [shift.component]
        block: Any = next(own for own in self._blocks if shift.column in own.columns)
        if shift.of_seen:
            return block, self._seen(block, who, shift.size), who
        old = block.known.means[:, list(block.columns).index(shift.column)]
        if isinstance(block, PoissonBlock) and (old[who] + shift.size <= 0).any():
            return block, None, who
        moves = [(k, Move(shift.column, float(old[c]) + shift.size)) for k, c in enumerate(who)]
        return block, changed(block.known, np.array(who), moves), who

    def _components(self, components: FixedComponents, shift: Shift) -> FixedComponents:
        """The components after a shift, with covariances of their own."""
        block, moved, who = self._moved(shift)
        if moved is None:
            return components
        after = [moved if own is block else own.known.chosen(who) for own in self._blocks]
        p = self._standard(after)
        change = np.zeros_like(components.means)
        change[:, who] = self._change(components, block, moved, who)
        return components.moved(change, components.errors).with_within(
            who, FixedComponents(components.conditions, p)
        )

    def _change(self, components: FixedComponents, block: Any, moved: Any, who: list[int]) -> Float:
        """What some components' moments change by where one block is another, (q, n)."""
        before = [own.known.chosen(who) for own in self._blocks]
        both = zip(self._blocks, before, strict=True)
        after = [moved if own is block else other for own, other in both]
        there, here = self._standard(after), self._standard(before)
        return moments_of(components.conditions, there) - moments_of(components.conditions, here)

    @staticmethod
    def _seen(block: Any, who: list[int], size: float) -> Any:
        """Some components of a block whose cells are seen more or less often."""
        own = block.known.chosen(who)
        odds = logit(np.clip(own.seen, _RARE, 1 - _RARE))
        return replace(own, seen=np.clip(expit(odds + size), _RARE, 1 - _RARE))


def _is_seen(block: Any) -> bool:
    """Whether the cells of its one column may be missing."""
    return block.seen is not None and len(block.columns) == 1
