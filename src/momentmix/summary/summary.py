"""MomentSummary: the moments of rows seen once, as a value that adds, subtracts, and is saved.

| paper symbol | name here | shape |
|---|---|---|
| (M_m)_{Ω_m} | ``summary.tensor(m, shift=0, scale=1)`` | (C(d, m),) |
| (M_m)_{L_j} | ``summary.squared(j, m−2, shift=0, scale=1)`` | (C(d−1, m−2),) |
| E y_j³ … E y_j⁶ (not in the paper) | ``summary.moments(shift=0, scale=1).powers`` | (4, d) |

A summary is a set of closed *shards*, whose sums are a value, and perhaps an open one, which takes
rows. A shard opens with the first update and stays open until an update names another one, or rows
are forgotten. Everything else reads: saving, copying, adding and subtracting see the open shard as
if it were complete, and change nothing about what later updates give.

Differs from the paper: moments are kept about a shift near the mean and standardized by default;
powers up to 6 are kept, and with order ≥ 4 all moments of degree 4.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from threading import RLock
from typing import Any

from numpy.typing import ArrayLike

from momentmix._typing import Float
from momentmix.arrays import physical_memory, to_numpy
from momentmix.atomic_file import atomic_write
from momentmix.errors import InputError, InputTypeError, check_count
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.summary import adding, readings
from momentmix.summary import file as summary_file
from momentmix.summary import totals as algebra
from momentmix.summary.blocks import OpenShard
from momentmix.summary.digits import QUANTUM_BITS
from momentmix.summary.layout import Layout, known
from momentmix.summary.readings import Moments
from momentmix.summary.state import State, checked_rows, shard_digest, with_rows
from momentmix.summary.totals import Totals
from momentmix.tables.names import check_feature_names
from momentmix.tables.schema import Schema
from momentmix.wording import NO_MAR, plural, size_text


class MomentSummary:
    """Moments of rows, from one pass.

    It holds the means of all products of up to `order` different features, of y_j²·y_I (see
    `squared_order`), and of the powers y_j³ … y_j⁶. With order ≥ 4, or with two or three features,
    it also holds y_j³·y_k and y_j²·y_k², so that all moments of degree 4 are complete.

    A summary may be filled and read by several threads: each update is added whole, one after the
    other, and a reader meanwhile gets whole updates.

    Reading, copying, pickling, saving, adding and subtracting never change what later updates give.
    What they give carries the id of the shard that is being filled: adding it to that summary later
    is refused, and so is subtracting it from a sum that holds more rows of that shard. A copy goes
    on with the same shard, so that the same updates give it the same bytes. A saved or pickled
    summary holds moments only, no rows: it opens another shard.

    Parameters
    ----------
    n_features : int
        Dimension d of the rows.
    order : int
        Highest order m of the moments with distinct indices; at most n_features.
    feature_names : sequence of str, optional
        By default the names of the first data frame. Data frames are matched by name: their columns
        may stand in another order, but not have other names. Not with a schema, which has names.
    squared_order : int, optional
        Moments y_j²·y_I are kept for all I of at most this many further features; by default
        min(2, order − 1), at most order − 1. `momentmix.paper.fit` needs order − 2.
    shard_id : str or bytes, optional
        Name of the first shard, for callers that can name their parts; random by default.
    memory_budget : int, optional
        Largest memory in bytes; by default a quarter of the machine's.
    n_threads : int, optional
        Threads for an update; by default as many as cores. The result does not depend on it.
    schema : Schema, optional
        How the columns of rows become features (`summarize` makes it of families and missing
        cells); n_features is then the number of its features.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1.0, 2.0, 0.0], [3.0, 5.0, 1.0], [2.0, 2.0, 5.0]])
    >>> left = MomentSummary(3, order=2, shard_id="left").update(rows[:2])
    >>> right = MomentSummary(3, order=2, shard_id="right").update(rows[2:])
    >>> both = left + right
    >>> both.n_rows, both.mean.tolist()
    (3, [2.0, 3.0, 2.0])
    >>> both.tensor(2, shift=0, scale=1).values.tolist()  # E[y0·y1], E[y0·y2], E[y1·y2]
    [7.0, 4.333333333333333, 5.0]
    >>> both - right == left
    True
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        n_features: int,
        order: int,
        feature_names: Sequence[str] | None = None,
        squared_order: int | None = None,
        *,
        shard_id: str | bytes | None = None,
        memory_budget: int | None = None,
        n_threads: int | None = None,
        schema: Schema | None = None,
    ) -> None:
        if squared_order is None:
            squared_order = min(2, check_count("order", order, 1) - 1)
        layout = known(Layout(n_features, order, squared_order))
        _check_memory(layout, memory_budget)
        names = None if feature_names is None else check_feature_names(feature_names, n_features)
        schema = None if schema is None or schema.is_plain else schema
        if schema is not None:
            _check_schema(schema, n_features, names)
            names = schema.column_names
        n_threads = None if n_threads is None else check_count("n_threads", n_threads, 1)
        next_id = None if shard_id is None else shard_digest(shard_id)
        self._begin(State(algebra.empty(layout, schema, names), None, next_id), n_threads)

    _state: State  # a value, which an update replaces as a whole: readers take it once
    _snapshot: tuple[Totals, int, Totals] | None  # closed shards, rows of the open one, all sums

    def _begin(self, state: State, n_threads: int | None) -> MomentSummary:
        self._state, self._n_threads, self._snapshot = state, n_threads, None
        self._lock = RLock()  # of threads that replace the state
        return self

    # -- adding rows --------------------------------------------------------------------------

    def update(
        self,
        rows: Any,
        sample_weight: ArrayLike | None = None,
        *,
        shard_id: str | bytes | None = None,
    ) -> MomentSummary:
        """Add rows; on an error the summary is as it was.

        Parameters
        ----------
        rows : array or data frame of shape (n_rows, n_features)
            Real numbers of any dtype, without missing values (NaN, masked); with a schema, what it
            encodes. The columns of a data frame are matched by name. Tensors of torch are
            summed where they lie, in float64; the last bits of their sums differ from NumPy's.
            (With a schema they are copied to be encoded.)
        sample_weight : array of shape (n_rows,), optional
            Frequency of each row: weight 3 means three such rows, weight 0 none (the row
            is not counted). So it is in the moments. A summary holds no single weights and cannot
            distinguish repeated rows from rows that matter more: a fit of it counts
            `effective_rows`, for standard errors, tests and the weights of moments.
            A pandas Series goes by the labels of a frame; differing labels are an error.
        shard_id : str or bytes, optional
            Open a new shard with this id, unless it is the open one.

        Returns
        -------
        MomentSummary
            This summary.
        """
        digest = None if shard_id is None else shard_digest(shard_id)
        with self._lock:
            state = self._state
            if state.open is not None and digest not in (None, state.open.shard_id):
                state = State(self._totals(state))
            new = checked_rows(rows, sample_weight, state)
            self._state = with_rows(state, new, digest, self._n_threads)
        return self

    def forget(self, rows: Any, sample_weight: ArrayLike | None = None) -> MomentSummary:
        """Take away rows that were added before, in whatever shard.

        Unlike ``−`` this needs no shard of exactly these rows, but cannot prove that they were
        added: it checks the count, the bounds and the variances. Minimum and maximum become bounds,
        and the next update opens another shard. Since the shard of the rows is not known, a
        shard that was there is subtracted only where the same rows were forgotten from it, too.
        """
        with self._lock:
            totals = self._totals()
            state = State(totals)
            gone, weights, _ = checked_rows(rows, sample_weight, state)
            gone, shard = to_numpy(gone), OpenShard(totals.layout, bytes(16), state.row_schema)
            shard.update(gone, weights, self._n_threads, state.closed.names)
            if totals.n_rows:
                adding.check_inside(gone, totals)
            self._state = State(adding.forget(totals, algebra.closed(shard)))
        return self

    # -- adding and subtracting summaries -----------------------------------------------------

    def _derived(self, totals: Totals) -> MomentSummary:
        return MomentSummary.__new__(MomentSummary)._begin(State(totals), self._n_threads)

    def check_alike(self, other: MomentSummary) -> None:
        """Raise unless both have the same columns and orders, so that they can be combined."""
        if not isinstance(other, MomentSummary):
            raise InputTypeError(
                f"a summary can be combined with another MomentSummary only; got "
                f"{type(other).__name__}. Use update() for rows."
            )
        adding.check_alike(self._totals(), other._totals())

    def __add__(self, other: Any) -> MomentSummary:
        self.check_alike(other)
        whole, part = self._totals(), other._totals()
        adding.check_once([*whole.shards, *part.shards])
        return self._derived(adding.combine(whole, part))

    def __radd__(self, other: Any) -> MomentSummary:
        if isinstance(other, int) and other == 0:  # the start of sum()
            return self._derived(self._totals())
        return self.__add__(other)

    def __iadd__(self, other: Any) -> MomentSummary:
        """Add the shards of another summary to the closed ones; an open shard stays open."""
        # Reading takes no lock: a += b and b += a in two threads do not block each other.
        with self._lock:
            self.check_alike(other)
            part = other._totals()
            adding.check_once([*self._state.shards, *part.shards])
            self._state = self._state._replace(closed=adding.combine(self._state.closed, part))
        return self

    def __sub__(self, other: Any) -> MomentSummary:
        self.check_alike(other)
        return self._derived(adding.subtract(self._totals(), other._totals()))

    def __eq__(self, other: object) -> bool:
        """Whether shards, counts and all sums agree exactly, in whatever units.

        Minimum and maximum are not compared: after ``−`` they are bounds only.
        """
        if not isinstance(other, MomentSummary):
            return NotImplemented
        return adding.same(self._totals(), other._totals())

    def copy(self) -> MomentSummary:
        """Independent copy, which goes on with a shard of its own under the same id."""
        snapshot = self._snapshot
        twin = MomentSummary.__new__(MomentSummary)._begin(self._state, self._n_threads)
        twin._snapshot = snapshot
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> MomentSummary:
        return self.copy()

    def truncate(self, order: int, squared_order: int | None = None) -> MomentSummary:
        """The same rows with fewer moments: a lower order."""
        return self._derived(algebra.truncate(self._totals(), order, squared_order))

    def select(self, features: Sequence[int | str]) -> MomentSummary:
        """The same rows with some of the features, by number or name, in the given order.

        With a schema these are columns, each with all its features.
        """
        return self._derived(algebra.select(self._totals(), features))

    def _totals(self, state: State | None = None) -> Totals:
        """The exact sums of all rows so far; leaves an open shard open."""
        before, shard, *_ = state or self._state
        if shard is None:
            return before
        snapshot = self._snapshot
        if snapshot is None or snapshot[0] is not before or snapshot[1] != shard.n_all:
            part = algebra.closed(shard, before.names)
            whole = adding.combine(before, part) if before.shards else part
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
        return self._state.closed.names if schema is None else schema.feature_names

    @property
    def schema(self) -> Schema | None:
        """Schema that made features of the columns; None if they are the features."""
        return self._totals().reading.schema

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
        return self._totals().reading.minimum

    @property
    def maximum(self) -> Float:
        """Largest value of each feature, or an upper bound (see `exact_bounds`)."""
        return self._totals().reading.maximum

    @property
    def exact_bounds(self) -> bool:
        """Whether minimum and maximum are attained; False after − and `forget`."""
        return self._totals().exact_bounds

    @property
    def mean(self) -> Float:
        """Mean of each feature, correctly rounded."""
        return readings.mean(readings.require_rows(self._totals()))

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
        values = readings.moments(algebra.truncate(self._totals(), order), shift, scale)
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
        values = readings.moments(algebra.truncate(self._totals(), order + 1, order), shift, scale)
        products: Float = values.squared[order][feature]
        return products

    # -- files --------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The summary as bytes (the file format)."""
        return summary_file.pack(self._totals())

    @classmethod
    def from_bytes(cls, data: bytes) -> MomentSummary:
        """The summary of `to_bytes`."""
        return cls._of(summary_file.read(data))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the summary; whatever happens, the file is the old one or the new one."""
        atomic_write(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MomentSummary:
        """Read a summary written by `save`; refuses anything that is not whole and sound."""
        return cls._of(summary_file.read_file(path))

    @classmethod
    def _of(cls, totals: Totals) -> MomentSummary:
        return cls.__new__(cls)._begin(State(totals), None)

    def __reduce__(self) -> tuple[Any, ...]:
        state = self._state
        data = summary_file.pack(self._totals(state))
        return MomentSummary.from_bytes, (data,), (state.next_id, self._n_threads)

    def __setstate__(self, options: tuple[bytes | None, int | None]) -> None:
        next_id, self._n_threads = options
        self._state = self._state._replace(next_id=next_id)

    def __repr__(self) -> str:
        n_columns = self.n_features if self.schema is None else self.schema.n_columns
        columns, shards = f"{n_columns} column{plural(n_columns)}", len(self.shard_ids)
        if n_columns != self.n_features:
            columns += f" as {self.n_features} features"
        parts = [f"{self.n_rows:,} row{plural(self.n_rows)}", columns, f"order {self.order}"]
        parts.append(f"{shards:,} shard{plural(shards)}")
        if self.squared_order != min(2, self.order - 1):
            parts.append(f"squared order {self.squared_order}")
        if self.n_forgotten:
            parts.append(f"{self.n_forgotten:,} forgotten")
        return f"MomentSummary({', '.join(parts)})"


_BYTES = 400  # of memory for each moment while rows are added: digits, a lane, copies


def _check_memory(layout: Layout, memory_budget: int | None) -> None:
    """Refuse a summary over budget (bytes; by default a quarter of the memory)."""
    budget = physical_memory() // 4 if memory_budget is None else min(memory_budget, sys.maxsize)
    if layout.n_entries * _BYTES <= budget:
        return
    cures = ["memory_budget=… in bytes, if that much memory is there"]
    for order in range(layout.order - 1, 0, -1):
        squared_order = min(layout.squared_order, order - 1)
        needed = Layout(layout.n_features, order, squared_order).n_entries * _BYTES
        if needed <= budget:
            cures.insert(0, f"order={order} ({size_text(needed)})")
            break
    raise InputError(
        f"a summary of order {layout.order} with {layout.n_features} features has "
        f"{layout.n_entries:,} moments and takes {size_text(layout.n_entries * _BYTES)} of memory; "
        f"the budget is {size_text(budget)}. Use {', or '.join(cures)}, or fewer features."
    )


def _check_schema(schema: Schema, n_features: int, names: tuple[str, ...] | None) -> None:
    """Raise unless a schema has so many features, and no names are given beside its own."""
    if any(column.at_random for column in schema.columns):
        raise InputError(NO_MAR)
    if schema.n_features != n_features:
        raise InputError(
            f"n_features must be that of the schema, {schema.n_features}; got {n_features}."
        )
    if names not in (None, schema.column_names, schema.feature_names):
        raise InputError("feature_names must not be given with a schema, which has names.")


_AT_ONCE = 500  # summaries whose sums are unpacked at the same time


def union_of_groups(groups: Sequence[MomentSummary | bytes]) -> MomentSummary:
    """Return the sum of summaries, or of their bytes, some at a time."""
    some = (groups[start : start + _AT_ONCE] for start in range(0, len(groups), _AT_ONCE))
    return MomentSummary._of(_union([_union(list(map(_part_of, part))) for part in some]))


def _part_of(group: MomentSummary | bytes) -> Totals:
    return summary_file.unpack(group) if isinstance(group, bytes) else group._totals()


def _union(parts: Sequence[Totals]) -> Totals:
    for part in parts[1:]:
        adding.check_alike(parts[0], part)
    adding.check_once([shard for part in parts for shard in part.shards])
    return adding.combine(*parts)


def read_in(summary: MomentSummary, schema: Schema) -> MomentSummary:
    """Return the same sums, read about the centers of a schema that is the common one of both."""
    return summary._derived(algebra.read_about(summary._totals(), schema))


def named_by_contents(summary: MomentSummary, mark: str = "") -> MomentSummary:
    """Return the same sums, with an id of their shard that follows from them and a mark."""
    totals = summary._totals()
    if len(totals.shards) != 1:
        return summary
    digest = shard_digest(algebra.contents_of(totals) + mark)
    return summary._derived(adding.renamed(totals, digest))
