"""MomentSummary: the moments of rows seen once, as a value that adds, subtracts, and is saved.

| paper symbol | name here | shape |
|---|---|---|
| (M_m)_{Ω_m} | ``summary.moments(shift=0, scale=1).distinct[m]`` | (C(d, m),) |
| (M_m)_{L_j} | ``summary.moments(shift=0, scale=1).squared[m−2][j]`` | (C(d−1, m−2),) |
| E y_j³ … E y_j⁶ (not in the paper) | ``summary.moments(shift=0, scale=1).powers`` | (4, d) |

A summary is a set of closed *shards*, whose sums are a value, and perhaps an open one, which takes
rows. A shard opens with the first update and stays open until rows are forgotten. Everything else
reads: saving, copying, adding and subtracting see the open shard as if it were complete, and change
nothing about what later updates give. An update replaces the `State` as a whole.

Differs from the paper: moments are kept about a shift near the mean and standardized by default;
powers up to 6 are kept, and with squared_order ≥ 1 all moments of degree 4 of two features.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from momentmix._typing import Float
from momentmix.arrays import is_tensor, namespace, on_device_of, physical_memory, take, to_numpy
from momentmix.atomic_file import atomic_write
from momentmix.errors import InputError, InputTypeError, check_count
from momentmix.parallel import usable_cores
from momentmix.summary import adding, readings
from momentmix.summary import file as summary_file
from momentmix.summary import totals as algebra
from momentmix.summary.blocks import OpenShard, names_of
from momentmix.summary.digits import QUANTUM_BITS
from momentmix.summary.layout import Layout
from momentmix.summary.readings import Moments
from momentmix.summary.totals import Totals
from momentmix.tables.memory import as_device_rows, as_rows
from momentmix.tables.names import check_feature_names
from momentmix.tables.rows import Features
from momentmix.tables.schema import Schema, plain_schema
from momentmix.tables.validation import as_weights, check_values, ordered_weights
from momentmix.wording import NO_MAR, plural, size_text

# Of memory for each moment while rows are added: tables and copies, and digits of each thread.
_BYTES, _BYTES_OF_THREAD = 320, 40
_AT_ONCE = 500  # summaries whose sums are unpacked at the same time


class State(NamedTuple):
    """The sums of closed shards, perhaps an open shard, and the id of the next: a value."""

    closed: Totals
    open: OpenShard | None = None
    next_id: bytes | None = None

    @property
    def layout(self) -> Layout:
        """The features that the next rows become."""
        return self.closed.layout

    @property
    def row_schema(self) -> Schema:
        """Schema of the next rows, with centers near the means of the rows so far."""
        return self.closed.reading.schema if self.open is None else self.open.schema

    @property
    def n_rows(self) -> int:
        """Number of rows, zero weights not counted."""
        shard = self.open
        return self.closed.n_rows + (shard.n_rows + shard.n_waiting if shard else 0)

    def with_rows(self, rows: Any, sample_weight: Any, n_threads: int | None) -> State:
        """The state after an update."""
        rows, weights, names = self.checked(rows, sample_weight)
        state = self
        if names and not self.row_schema.column_names:
            schema = plain_schema(len(names), names)
            state = State(replace(self.closed, schema=schema), None, self.next_id)
        if state.open is None:
            digest = self.next_id or secrets.token_bytes(16)
            shard = OpenShard(self.layout, digest, state.row_schema)
        else:
            shard = copy(state.open)
        labels = names_of(shard.schema)
        if is_tensor(rows):
            from momentmix.summary.gpu import add_device_rows  # Triton is slow to import

            add_device_rows(shard, rows, weights, n_threads, labels)
        else:
            shard.update(rows, weights, n_threads, labels)
        return State(state.closed, shard)

    def checked(
        self, rows: Any, sample_weight: Any
    ) -> tuple[Any, Float | None, tuple[str, ...] | None]:
        """Rows without those of weight 0, their weights, and names of columns that they bring.

        Values are checked when they are summed.
        """
        schema, names, d = self.row_schema, None, self.layout.n_features
        labels = names_of(schema)
        weights = to_numpy(sample_weight) if is_tensor(sample_weight) else sample_weight
        weights = ordered_weights(weights, rows)
        if not schema.is_plain:
            if isinstance(rows, Features) and rows.schema != schema:
                raise InputError("rows were encoded by another schema; pass them as they are.")
            rows = rows.values if isinstance(rows, Features) else schema.encode(rows)
        elif is_tensor(rows):
            rows = as_device_rows(rows, d)
        else:
            rows, names = as_rows(rows, d, labels)
            if names is not None and labels is None and self.n_rows:
                raise InputError(
                    "rows have feature names but the summary was filled without any; pass "
                    "feature_names at construction, or plain arrays throughout."
                )
        weights = as_weights(weights, rows.shape[0])
        if weights is not None and not weights.all():
            if not is_tensor(rows):
                check_values(rows, names or labels)
            some = np.flatnonzero(weights)
            rows, weights = take(rows, on_device_of(some, rows, namespace(rows)), 0), weights[some]
        return rows, weights, None if names is None else tuple(names)


class MomentSummary:
    """Moments of rows, from one pass.

    It holds the means of all products of up to `order` different features, of y_j²·y_I (see
    `squared_order`), of the powers y_j³ … y_j⁶ and, with a squared order, of y_j³·y_k and
    y_j²·y_k².

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
        Name of the shard, for callers that can name their parts; random by default.
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
    >>> both.moments(shift=0, scale=1).distinct[2].tolist()  # E[y0·y1], E[y0·y2], E[y1·y2]
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
        n_threads: int | None = None,
        schema: Schema | None = None,
    ) -> None:
        if squared_order is None:
            squared_order = min(2, check_count("order", order, 1) - 1)
        layout = Layout(n_features, order, squared_order)
        n_threads = None if n_threads is None else check_count("n_threads", n_threads, 1)
        _check_memory(layout, n_threads or usable_cores())  # before anything of this size is made
        names = None if feature_names is None else check_feature_names(feature_names, n_features)
        if schema is None:
            schema = plain_schema(layout.n_features, names and tuple(names))
        else:
            _check_schema(schema, n_features, names)
        next_id = None if shard_id is None else shard_digest(shard_id)
        self._begin(State(algebra.empty(layout, schema), None, next_id), n_threads)

    _state: State  # which an update replaces as a whole: readers take it once
    _snapshot: tuple[State, Totals] | None = None  # the sums of a state with an open shard

    def _begin(self, state: State, n_threads: int | None) -> MomentSummary:
        self._state, self._n_threads = state, n_threads
        self._lock = RLock()  # of threads that replace the state
        return self

    # -- adding rows --------------------------------------------------------------------------

    def update(self, rows: Any, sample_weight: ArrayLike | None = None) -> MomentSummary:
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

        Returns
        -------
        MomentSummary
            This summary.
        """
        with self._lock:
            state = self._state
            if state.open is not None and state.open.shard_id is None:
                state = State(self._totals(state))  # it was named by its contents
            self._state = state.with_rows(rows, sample_weight, self._n_threads)
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
            gone, weights, _ = state.checked(rows, sample_weight)
            shard = OpenShard(totals.layout, None, state.row_schema)
            shard.update(to_numpy(gone), weights, self._n_threads, names_of(shard.schema))
            self._state = State(adding.forget(totals, shard))
        return self

    # -- adding and subtracting summaries -----------------------------------------------------

    def _derived(self, totals: Totals) -> MomentSummary:
        return MomentSummary.__new__(MomentSummary)._begin(State(totals), self._n_threads)

    def check_alike(self, other: MomentSummary) -> Totals:
        """The sums of another summary; an error unless both have the same columns and orders."""
        if not isinstance(other, MomentSummary):
            raise InputTypeError(
                f"a summary can be combined with another MomentSummary only; got "
                f"{type(other).__name__}. Use update() for rows."
            )
        part = other._totals()
        adding.check_alike(self._totals(), part)
        return part

    def __add__(self, other: Any) -> MomentSummary:
        return self._derived(adding.add(self._totals(), self.check_alike(other)))

    def __radd__(self, other: Any) -> MomentSummary:
        if isinstance(other, int) and other == 0:  # the start of sum()
            return self._derived(self._totals())
        return self.__add__(other)

    def __iadd__(self, other: Any) -> MomentSummary:
        with self._lock:  # reading takes none: a += b and b += a do not block each other
            self._state = State(adding.add(self._totals(), self.check_alike(other)))
        return self

    def __sub__(self, other: Any) -> MomentSummary:
        return self._derived(adding.subtract(self._totals(), self.check_alike(other)))

    def __eq__(self, other: object) -> bool:
        """Whether shards, counts and all sums agree exactly, in whatever units.

        Minimum and maximum are not compared: after ``−`` they are bounds only.
        """
        if not isinstance(other, MomentSummary):
            return NotImplemented
        return adding.same(self._totals(), other._totals())

    def copy(self) -> MomentSummary:
        """Independent copy, which goes on with a shard of its own under the same id."""
        return MomentSummary.__new__(MomentSummary)._begin(self._state, self._n_threads)

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
        state, snapshot = state or self._state, self._snapshot
        if state.open is None:
            return state.closed
        if snapshot is None or snapshot[0] is not state:
            part = algebra.closed(state.open)
            whole = adding.add(state.closed, part) if state.closed.shards else part
            snapshot = self._snapshot = state, whole
        return snapshot[1]

    @property
    def _layout(self) -> Layout:
        return self._totals().layout

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
        return names_of(self._state.row_schema)

    @property
    def schema(self) -> Schema | None:
        """Schema that made features of the columns; None if they are the features."""
        schema = self._totals().reading.schema
        return None if schema.is_plain else schema

    @property
    def n_rows(self) -> int:
        """Number of rows, zero weights not counted."""
        return self._state.n_rows

    @property
    def n_forgotten(self) -> int:
        """Number of rows taken away by `forget`."""
        return self._totals().n_forgotten

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
        """Least value of each feature; a lower bound after − and `forget`."""
        return self._totals().reading.minimum

    @property
    def maximum(self) -> Float:
        """Largest value of each feature; an upper bound after − and `forget`."""
        return self._totals().reading.maximum

    @property
    def mean(self) -> Float:
        """Mean of each feature, correctly rounded."""
        return readings.mean(self._totals())

    @property
    def variance(self) -> Float:
        """Variance of each feature (divisor Σ w)."""
        return readings.variance(self._totals())

    @property
    def deviation(self) -> Float:
        """Standard deviation of each feature (divisor Σ w); holds where the variance underflows."""
        return readings.deviation(self._totals())

    # -- moments ------------------------------------------------------------------------------

    def moments(self, shift: ArrayLike | None = None, scale: ArrayLike | None = None) -> Moments:
        """All moments of (y − shift)/scale; by default standardized by mean and deviation."""
        return readings.moments(self._totals(), shift, scale)

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


def _check_memory(layout: Layout, n_threads: int) -> None:
    """Refuse a summary of more than a quarter of the memory."""
    each, budget = _BYTES + n_threads * _BYTES_OF_THREAD, physical_memory() // 4
    if layout.n_entries * each > budget:
        raise InputError(
            f"a summary of order {layout.order} with {layout.n_features} features has "
            f"{layout.n_entries:,} moments and takes {size_text(layout.n_entries * each)} of "
            f"memory, more than a quarter of it, {size_text(budget)}. Use a lower order, or fewer "
            "features."
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


def union_of_groups(groups: Sequence[MomentSummary | bytes]) -> MomentSummary:
    """Return the sum of summaries, or of their bytes, some at a time."""
    total: Totals | None = None
    for start in range(0, len(groups), _AT_ONCE):
        parts = [
            summary_file.unpack(group) if isinstance(group, bytes) else group._totals()
            for group in groups[start : start + _AT_ONCE]
        ]
        parts = parts if total is None else [total, *parts]
        for part in parts[1:]:
            adding.check_alike(parts[0], part)
        total = adding.add(*parts)
    assert total is not None
    return MomentSummary._of(total)


def shard_digest(shard_id: object) -> bytes:
    """16 bytes for a caller's shard id."""
    if not isinstance(shard_id, str | bytes):
        raise InputTypeError(f"shard_id must be a string or bytes; got {shard_id!r}.")
    return algebra.named(shard_id)


def read_in(summary: MomentSummary, schema: Schema) -> MomentSummary:
    """Return the same sums, read about the centers of a schema that is the common one of both."""
    return summary._derived(algebra.read_about(summary._totals(), schema))


def named_by_contents(summary: MomentSummary, mark: str = "") -> MomentSummary:
    """Name the rows of an open shard by their exact sums and a mark, once the sums are read."""
    closed, shard, _ = summary._state
    if shard is not None:
        shard = copy(shard)
        shard.shard_id, shard.mark = None, mark
        summary._state = State(closed, shard)
    return summary
