"""Cost and contents of a summary: counts, bounds, units, moments. Nothing here changes it.

All that a summary holds is one value, `State`, which an update replaces as a whole. A reader takes
it once, and so has the rows of whole updates without blocking other threads.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from momentmix._typing import Float
from momentmix.arrays import physical_memory
from momentmix.errors import InputError, check_count
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.summary import readings
from momentmix.summary.adding import combine
from momentmix.summary.digits import QUANTUM_BITS
from momentmix.summary.kernels.half_split import table_rows
from momentmix.summary.layout import NO_HIGH, Layout
from momentmix.summary.readings import Moments
from momentmix.summary.state import State
from momentmix.summary.totals import Totals, closed, of_layout
from momentmix.tables.schema import Schema
from momentmix.wording import size_text

_DIGIT_BYTES = (
    7 * 5 * 8
)  # five digits of eight bytes: their copy in an update, a lane, a sum of parts
_FILE_BYTES = 20
_CHUNK = 512  # numbers of each monomial: 256 rows in the table, and weighted
_ROW_MICROSECONDS = 0.05  # checking a row and filling tables
_FLOPS = 4e10  # useful operations a second of one core in the products, by compiled code


@dataclass(frozen=True)
class SummaryCost:
    """Size and time of a summary.

    Parameters
    ----------
    n_entries : int
        Number of moments.
    memory_bytes : int
        Memory while rows are added, with one thread.
    file_bytes : int
        Size of the file, about.
    microseconds_per_row : float
        Time to add one row on one core, about.
    """

    n_entries: int
    memory_bytes: int
    file_bytes: int
    microseconds_per_row: float

    def __str__(self) -> str:
        return (
            f"{self.n_entries:,} moments, {size_text(self.memory_bytes)} of memory, about "
            f"{size_text(self.file_bytes)} on disk and {self.microseconds_per_row:.2g} µs a row"
        )


@lru_cache(maxsize=64)
def estimate(layout: Layout) -> SummaryCost:
    """Return size and time of a summary with this layout."""
    entries = layout.n_entries
    workspace = 8 * (table_rows(layout) * _CHUNK + 3 * entries)
    memory = entries * _DIGIT_BYTES + workspace
    time = _ROW_MICROSECONDS + 2 * entries / _FLOPS * 1e6
    return SummaryCost(entries, memory, entries * _FILE_BYTES, time)


def check_budget(layout: Layout, memory_budget: int | None) -> SummaryCost:
    """Refuse a summary over budget (bytes; by default a quarter of the memory)."""
    cost = estimate(layout)
    budget = physical_memory() // 4 if memory_budget is None else min(memory_budget, sys.maxsize)
    if cost.memory_bytes > budget:
        cures = ["memory_budget=… in bytes, if that much memory is there"]
        for lower in range(layout.order - 1, 0, -1):
            q = min(layout.squared_order, lower - 1)
            needed = estimate(Layout(layout.n_features, lower, q)).memory_bytes
            if needed <= budget:
                cures.insert(0, f"order={lower} ({size_text(needed)})")
                break
        raise InputError(
            f"a summary of order {layout.order} with {layout.n_features} features takes {cost}; "
            f"the budget is {size_text(budget)}. Use {', or '.join(cures)}, or fewer features."
        )
    return cost


class SummaryView:
    """The reading half of `MomentSummary`."""

    _state: State
    _snapshot: tuple[Totals, int, Totals] | None  # closed shards, rows of the open one, all sums

    def _totals(self, state: State | None = None) -> Totals:
        """The exact sums of all rows so far; leaves an open shard open."""
        before, shard, *_ = state or self._state
        if shard is None:
            return before
        snapshot = self._snapshot
        if snapshot is None or snapshot[0] is not before or snapshot[1] != shard.n_all:
            part = closed(shard)
            whole = combine(before, part) if before.shards else part
            snapshot = self._snapshot = before, part.n_rows, whole
        return snapshot[2]

    @property
    def _layout(self) -> Layout:
        state = self._state
        if state.layout.n_features == state.closed.layout.n_features:
            return state.closed.layout
        return self._totals(state).layout

    # -- what it holds ------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self._layout.n_features

    @property
    def order(self) -> int:
        """Highest order m of the moments with distinct indices."""
        return self._layout.order

    @property
    def squared_order(self) -> int:
        """Largest number of further features beside a squared one."""
        return self._layout.squared_order

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, or None."""
        schema = self.schema
        return self._state.names if schema is None else schema.feature_names

    @property
    def schema(self) -> Schema | None:
        """Schema that made features of the columns; None if they are the features."""
        return self._totals().reading.schema

    @property
    def cost(self) -> SummaryCost:
        """Size and time of a summary like this one."""
        return estimate(self._layout)

    @property
    def n_rows(self) -> int:
        """Number of rows, zero weights not counted."""
        return self._state.n_rows

    @property
    def n_forgotten(self) -> int:
        """Number of rows taken away by `forget`."""
        return self._state.closed.n_forgotten

    @property
    def sum_weights(self) -> float:
        """Σ w; the number of rows where no weights were given."""
        return self._totals().sum_weights

    @property
    def effective_rows(self) -> float:
        """(Σ w)² / Σ w²: the number of equally weighted rows that would be as precise."""
        totals = self._totals()
        squares = totals.weight_squares << QUANTUM_BITS
        return totals.weight**2 / squares if squares else 0.0

    @property
    def shard_ids(self) -> tuple[str, ...]:
        """Ids of all shards, an open one included, as sorted hexadecimal digits."""
        return tuple(sorted(shard.hex() for shard in self._totals().shards))

    @property
    def minimum(self) -> Float:
        """Least value of each feature, or a lower bound (see `exact_bounds`)."""
        return self._totals().bounds[0]

    @property
    def maximum(self) -> Float:
        """Largest value of each feature, or an upper bound (see `exact_bounds`)."""
        return self._totals().bounds[1]

    @property
    def exact_bounds(self) -> bool:
        """Whether minimum and maximum are attained; False after − and `forget`."""
        return self._totals().exact_bounds

    @property
    def shift(self) -> Float:
        """Origin of the exact sums, of shape (n_features,): an integer number of units."""
        pairs = zip(*self._totals().reading.frame, strict=True)
        return np.array([float(k * Fraction(2) ** (e or 0)) for e, k in pairs])

    @property
    def scale(self) -> Float:
        """Unit of the exact sums, of shape (n_features,): powers of two, 1 for a column of 0."""
        return np.array([2.0 ** (e or 0) for e in self._totals().reading.frame.exponents])

    @property
    def mean(self) -> Float:
        """Mean of each feature, correctly rounded."""
        return readings.require_rows(self._totals()).reading.mean

    @property
    def variance(self) -> Float:
        """Variance of each feature (divisor Σ w)."""
        return readings.variance(readings.require_rows(self._totals()))

    @property
    def deviation(self) -> Float:
        """Standard deviation of each feature (divisor Σ w); holds where the variance underflows."""
        return readings.deviation(readings.require_rows(self._totals()))

    # -- moments ------------------------------------------------------------------------------

    def moments(self, shift: ArrayLike | None = None, scale: ArrayLike | None = None) -> Moments:
        """All moments of (y − shift)/scale; by default standardized by mean and deviation."""
        return readings.moments(self._totals(), shift, scale)

    def tensor(
        self, order: int, shift: ArrayLike | None = None, scale: ArrayLike | None = None
    ) -> IncompleteSymmetricTensor:
        """E[Π (y_i − shift_i)/scale_i] over distinct indices, as an incomplete symmetric tensor.

        Parameters
        ----------
        order : int
            1 … the order of the summary.
        shift, scale : number or array of shape (n_features,), optional
            By default mean and standard deviation of each feature; for a constant one the size
            of the constant, or 1, in place of the deviation 0.
        """
        order = check_count("order", order, 1)
        if order > self.order:
            raise InputError(
                f"the summary holds orders up to {self.order}; order={order} was asked. Make one "
                f"with order={order}: that needs another pass."
            )
        layout = Layout(self.n_features, order, min(self.squared_order, order - 1), NO_HIGH)
        values = readings.moments(of_layout(self._totals(), layout), shift, scale)
        return IncompleteSymmetricTensor(values.distinct[order], self.n_features, order)

    def squared(
        self,
        feature: int,
        order: int,
        shift: ArrayLike | None = None,
        scale: ArrayLike | None = None,
    ) -> Float:
        """E[z_j²·z_I], z = (y − shift)/scale, for all I of `order` features other than j.

        Returns
        -------
        array of shape (C(n_features−1, order),)
            In colex order.
        """
        feature, order = check_count("feature", feature, 0), check_count("order", order, 0)
        if feature >= self.n_features or order > self.squared_order:
            raise InputError(
                f"feature must be below {self.n_features} and order at most squared_order="
                f"{self.squared_order}; got {feature} and {order}."
            )
        layout = Layout(self.n_features, order + 1, order, NO_HIGH)
        values = readings.moments(of_layout(self._totals(), layout), shift, scale)
        return np.asarray(values.squared[order][feature])
