"""MomentSummary: the moments of rows seen once, as a value that adds, subtracts, and is saved.

| paper symbol | name here | shape |
|---|---|---|
| (M_m)_{Ω_m} | ``summary.tensor(m, shift=0, scale=1)`` | (C(d, m),) |
| (M_m)_{L_j} | ``summary.squared(j, m−2, shift=0, scale=1)`` | (C(d−1, m−2),) |

A summary is a set of closed *shards*, whose sums are a value, and perhaps an open one, which takes
rows. A shard opens with the first update and stays open until an update names another one, or rows
are forgotten. Everything else reads: saving, copying, adding and subtracting see the open shard as
if it were complete, and change nothing about what later updates give.

Differs from the paper: moments are kept about a shift near the mean and standardised by default.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentmix.arrays import (
    device_of,
    is_foreign,
    namespace,
    on_device_of,
    to_numpy,
)
from momentmix.atomic_file import atomic_write
from momentmix.capacity import check_count
from momentmix.errors import InputError, InputTypeError, ShardError
from momentmix.locks import ForkSafeLock, one_at_a_time
from momentmix.parallel import usable_cores
from momentmix.rows.validation import as_rows, as_weights, check_feature_names, checked_values
from momentmix.summary import agreement, forgetting, readings
from momentmix.summary import file as summary_file
from momentmix.summary import totals as algebra
from momentmix.summary.cost import check_budget
from momentmix.summary.device_shard import Place, add_device_rows, as_device_rows
from momentmix.summary.kernels.choice import host_executor
from momentmix.summary.kernels.host_feed import feed
from momentmix.summary.kernels.workers import Workers
from momentmix.summary.layout import DEFAULT_REPLICATES, Layout
from momentmix.summary.marks import differing
from momentmix.summary.open_shard import OpenShard
from momentmix.summary.plausibility import impossible
from momentmix.summary.totals import Totals
from momentmix.summary.view import State, SummaryView

__all__ = ["MomentSummary", "rename_shards", "summarize"]

Float = NDArray[np.float64]


def _digest(shard_id: object) -> bytes:
    """16 bytes for a caller's shard id, random ones for None."""
    if shard_id is None:
        return secrets.token_bytes(16)
    if isinstance(shard_id, str):
        shard_id = shard_id.encode("utf-8", "surrogatepass")
    if not isinstance(shard_id, bytes):
        raise InputTypeError(f"shard_id must be a string or bytes; got {shard_id!r}.")
    return hashlib.sha256(b"momentmix shard\0" + shard_id).digest()[:16]


class MomentSummary(SummaryView):
    """Moments of rows, from one pass.

    A summary may be filled and read by several threads: each update is added whole, one after the
    other, and whoever reads meanwhile sees some of them.

    Reading, copying, pickling, saving, adding and subtracting never change what later updates give.
    What they give carries the id of the shard that is being filled: adding it to that summary later
    is refused, and so is subtracting it from a sum that holds more rows of that shard. (After
    loading, this is known for files of one shard only.) A copy goes on with the same shard, so that
    the same updates give it the same bytes. What was saved or pickled holds moments only, no rows:
    it opens another shard.

    Parameters
    ----------
    n_features : int
        Dimension d of the rows.
    order : int
        Highest order m of the moments with distinct indices; at most n_features.
    feature_names : sequence of str, optional
        By default those of the first data frame. Data frames are matched by name: their columns
        may stand in another order, but not have other names.
    squared_order : int, optional
        Moments y_j²·y_I are kept for all I of at most this many further features; by default
        min(2, order − 1), at most order − 1. ``method="paper"`` needs order − 2.
    replicates : int
        Number of groups that the blocks of rows are dealt to, for `noise` and `replicate_moments`;
        none by default. No fit uses them: standard errors from 16 groups are wrong by 18 % where
        those of a fitted mixture are wrong by 1 %, 16 groups cannot weight hundreds of moments
        against each other, and only orders up to 3 have groups. They make a file 3 to 7 times as
        large, and merging twice as slow.
    shard_id : str or bytes, optional
        Name of the first shard, for callers that can tell their parts apart (file fingerprint and
        part); random by default.
    memory_budget : int, optional
        Largest memory in bytes; by default a quarter of the machine's.
    n_threads : int, optional
        Threads for an update; by default as many as cores. The result does not depend on it.

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
        replicates: int = DEFAULT_REPLICATES,
        shard_id: str | bytes | None = None,
        memory_budget: int | None = None,
        n_threads: int | None = None,
    ) -> None:
        if squared_order is None:
            squared_order = min(2, check_count("order", order, 1) - 1)
        layout = Layout(n_features, order, squared_order, replicates)
        check_budget(layout, memory_budget)
        names = None if feature_names is None else check_feature_names(feature_names, n_features)
        n_threads = None if n_threads is None else check_count("n_threads", n_threads, 1)
        next_id = None if shard_id is None else _digest(shard_id)
        self._begin(State(algebra.empty(layout), None, next_id, names), n_threads)

    def _begin(self, state: State, n_threads: int | None) -> MomentSummary:
        self._state, self._n_threads, self._snapshot = state, n_threads, None
        self._lock = ForkSafeLock()  # of those who replace the state
        return self

    # -- adding rows --------------------------------------------------------------------------

    @one_at_a_time
    def update(
        self,
        rows: Any,
        sample_weight: ArrayLike | None = None,
        *,
        shard_id: str | bytes | None = None,
        device: Any = None,
    ) -> MomentSummary:
        """Add rows; on an error the summary is as it was.

        Parameters
        ----------
        rows : array or data frame of shape (n_rows, n_features)
            Real numbers of any dtype, without missing values (NaN, masked). The columns of a data
            frame are matched by name. Arrays of torch, CuPy, JAX (x64) and other libraries of the
            array API are summed where they lie, in float64; the last bits of their sums differ
            from NumPy's.
        sample_weight : array of shape (n_rows,), optional
            Frequency of each row: weight 3 stands for three such rows, weight 0 for none (the row
            is not counted).
        shard_id : str or bytes, optional
            Open a new shard with this id, unless it is the open one.
        device : str or torch.device, optional
            Send NumPy rows there (``"cuda"``), window by window, and sum them there.

        Returns
        -------
        MomentSummary
            This summary.
        """
        digest = None if shard_id is None else _digest(shard_id)
        if is_foreign(sample_weight):
            sample_weight = to_numpy(sample_weight)
        if is_foreign(rows):
            self._add_foreign(rows, sample_weight, digest, device)
            return self
        array, names = as_rows(rows, self.n_features, self._names)
        self._check_names(names)
        weights = as_weights(sample_weight, len(array))
        if device is None:  # else they are checked there
            checked_values(array, names or self._names)
        if weights is not None and not weights.all():
            array, weights = array[weights > 0], weights[weights > 0]
        parts = [(0, array)] if device is None else feed(array, device)
        self._add(parts, len(array), weights, digest, names)
        return self

    def _add_foreign(self, rows: Any, sample_weight: Any, digest: Any, device: Any) -> None:
        """Add an array of another library."""
        if device is not None:
            raise InputError(
                f"device={device!r} is for NumPy rows; these lie on {device_of(rows)} already. "
                "Leave it out."
            )
        rows = as_device_rows(rows, self.n_features)
        weights = as_weights(sample_weight, rows.shape[0])
        if weights is not None and not weights.all():
            xp, kept = namespace(rows), np.flatnonzero(weights)
            rows, weights = xp.take(rows, on_device_of(kept, rows, xp), axis=0), weights[kept]
        self._add([(0, rows)], rows.shape[0], weights, digest, None)

    def _add(
        self,
        parts: Iterable[tuple[int, Any]],
        n_rows: int,
        weights: Float | None,
        wanted: bytes | None,
        names: Sequence[str] | None,
    ) -> None:
        """Add checked rows to the open shard, or to a new one: parts with their first row."""
        closed, shard, next_id, known = self._state
        if shard is not None and wanted not in (None, shard.shard_id):
            closed, shard = self._totals(), None
        if shard is None:
            digest = wanted or next_id or _digest(None)
            if digest in closed.shards:
                raise ShardError(
                    f"shard {digest.hex()} is already in this summary and closed; a closed shard "
                    "takes no more rows. Use another shard_id, or none for a random one.",
                    shard_ids=(digest.hex(),),
                )
            shard = OpenShard(self._layout, host_executor(self._layout, n_rows), digest)
        elif not shard.fits_waiting(n_rows):
            shard = shard.clone()
        with self._workers(shard, n_rows) as workers:
            for first, array in parts:
                w = None if weights is None else weights[first : first + array.shape[0]]
                if is_foreign(array):
                    add_device_rows(shard, array, w, workers, Place(first, names or known))
                else:
                    shard.update(array, w, workers, names or known)
        self._state = State(closed, shard, None, known if names is None else tuple(names))

    def _workers(self, shard: OpenShard, n_rows: int) -> Workers:
        cores = self._n_threads or usable_cores()
        n_blocks = (shard.n_waiting + n_rows) // shard.block_size
        return Workers(max(1, min(cores, n_blocks)))

    def _check_names(self, names: tuple[str, ...] | None) -> None:
        if names is not None and self._names is None and self.n_rows:
            raise InputError(
                "rows have feature names but the summary was filled without any; pass "
                "feature_names at construction, or plain arrays throughout."
            )

    @one_at_a_time
    def forget(self, rows: Any, sample_weight: ArrayLike | None = None) -> MomentSummary:
        """Take away rows that were added before, in whatever shard.

        Unlike ``−`` this needs no shard of exactly these rows, but cannot prove that they were
        added: it checks the count, the bounds and the variances. Minimum and maximum become bounds,
        and the next update opens another shard.
        """
        array, names = as_rows(rows, self.n_features, self._names)
        self._check_names(names)
        weights = as_weights(sample_weight, len(array))
        checked_values(array, names or self._names)
        whole = self._totals()
        if whole.weight:
            forgetting.check_inside(array, whole, self._names)
        lost = MomentSummary(
            self.n_features,
            self.order,
            squared_order=self.squared_order,
            replicates=self.replicates,
            memory_budget=2 * self.cost.memory_bytes,
            n_threads=self._n_threads,
        ).update(array, weights)
        self._state = State(forgetting.forget(whole, lost._totals()), names=self._names)
        return self

    # -- adding and subtracting summaries -----------------------------------------------------

    def _derived(self, totals: Totals, names: tuple[str, ...] | None) -> MomentSummary:
        """A summary of closed shards."""
        summary = MomentSummary.__new__(MomentSummary)
        return summary._begin(State(totals, names=names), self._n_threads)

    def _operand(self, other: Any, state: State) -> tuple[Totals, tuple[str, ...] | None]:
        """The sums of a summary that can be combined with this one, and the common names."""
        if not isinstance(other, MomentSummary):
            raise InputTypeError(
                f"a summary can be combined with another MomentSummary only; got "
                f"{type(other).__name__}. Use update() for rows."
            )
        theirs = other._state
        names = agreement.check_alike(self._layout, other._layout, state.names, theirs.names)
        return other._totals(theirs), names

    def __add__(self, other: Any) -> MomentSummary:
        state = self._state
        part, names = self._operand(other, state)
        whole = self._totals(state)
        agreement.check_disjoint(whole.shards, part.shards)
        return self._derived(algebra.combine(whole, part), names)

    def __radd__(self, other: Any) -> MomentSummary:
        if isinstance(other, int) and other == 0:  # the start of sum()
            return self._derived(self._totals(), self._names)
        return self.__add__(other)

    def __iadd__(self, other: Any) -> MomentSummary:
        """Add the shards of another summary to the closed ones; an open shard stays open."""
        # Reading takes no lock: a += b and b += a in two threads do not wait for each other.
        with self._lock.held():
            state = self._state
            part, names = self._operand(other, state)
            agreement.check_disjoint(state.shards, part.shards)
            closed = algebra.combine(state.closed, part)
            self._state = state._replace(closed=closed, names=names)
        return self

    def __sub__(self, other: Any) -> MomentSummary:
        state = self._state
        part, names = self._operand(other, state)
        whole = self._totals(state)
        agreement.check_contained(whole.shards, part.shards)
        agreement.check_versions(differing(whole, part))
        result = algebra.remove(whole, part) if part.shards else whole
        wrong = impossible(result)
        if wrong:
            raise InputError(
                f"subtracting would leave {wrong}: although the shard ids agree, the summaries are "
                "not parts of one another. Were rows forgotten in one of them?"
            )
        return self._derived(result, names)

    def __eq__(self, other: object) -> bool:
        """Whether shards, counts and all sums agree exactly, in whatever frame.

        Minimum and maximum are not compared: after ``−`` they are bounds only.
        """
        if not isinstance(other, MomentSummary):
            return NotImplemented
        left, right = self._state, other._state
        same_names = left.names == right.names
        return same_names and algebra.same(self._totals(left), other._totals(right))

    def copy(self) -> MomentSummary:
        """Independent copy, which goes on with a shard of its own under the same id."""
        state, known = self._state, self._snapshot
        if state.open is not None:
            state = state._replace(open=state.open.clone())
        twin = MomentSummary.__new__(MomentSummary)._begin(state, self._n_threads)
        twin._snapshot = known
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> MomentSummary:
        return self.copy()

    def truncate(
        self, order: int, squared_order: int | None = None, replicates: int | None = None
    ) -> MomentSummary:
        """The same rows with fewer moments: a lower order, and no groups with ``replicates=0``."""
        old = self._layout
        if squared_order is None:
            squared_order = min(old.squared_order, order - 1)
        if replicates is None:
            replicates = old.replicates
        layout = Layout(old.n_features, order, squared_order, replicates)
        if order > old.order or squared_order > old.squared_order:
            raise InputError(
                f"truncate can only lower order={old.order} and squared_order={old.squared_order}; "
                f"got {order} and {squared_order}. Higher moments need another pass."
            )
        if replicates not in (0, old.replicates):
            raise InputError(
                f"replicates can only be kept ({old.replicates}) or given up (0); got {replicates}."
            )
        state = self._state
        return self._derived(algebra.rearranged(self._totals(state), layout), state.names)

    def select(self, features: Sequence[int | str]) -> MomentSummary:
        """The same rows with some of the features, by number or name, in the given order."""
        names, d = self._names, self.n_features
        columns = []
        for feature in features:
            if isinstance(feature, str):
                if names is None or feature not in names:
                    known = "none" if names is None else ", ".join(ascii(name) for name in names)
                    raise InputError(f"no feature named {feature!a}; the names are: {known}.")
                columns.append(names.index(feature))
            else:
                columns.append(check_count("feature", feature, 0))
        if len(set(columns)) != len(columns) or not columns or max(columns) >= d:
            raise InputError(
                f"features must be different numbers in 0…{d - 1} or names; got {features!r}."
            )
        if len(columns) < self.order:
            raise InputError(
                f"{len(columns)} features have moments of order {len(columns)} at most, the "
                f"summary has order {self.order}. Use truncate({len(columns)}) first."
            )
        chosen = None if names is None else tuple(names[i] for i in columns)
        return self._derived(algebra.select(self._totals(), columns), chosen)

    def recentre(self, shift: ArrayLike | None = None) -> MomentSummary:
        """The same summary about another shift, rounded to the unit; by default about the mean.

        Exact: moving there and back gives the same bytes.
        """
        totals = self._totals()
        if shift is None:
            return self._derived(algebra.recentred(totals), self._names)
        wanted = readings.nearest_units(totals, shift)
        return self._derived(algebra.recentred(totals, wanted), self._names)

    # -- files --------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The summary as bytes (the file format)."""
        return self._packed(self._state)

    def _packed(self, state: State) -> bytes:
        return summary_file.pack(self._totals(state), state.names)

    @classmethod
    def from_bytes(cls, data: bytes) -> MomentSummary:
        """The summary of `to_bytes`."""
        return cls._loaded(*summary_file.unpack(data))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the summary; whatever happens, the file is the old one or the new one."""
        atomic_write(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MomentSummary:
        """Read a summary written by `save`; refuses anything that is not whole and sound."""
        return cls._loaded(*summary_file.read_file(path))

    @classmethod
    def _loaded(cls, totals: Totals, names: tuple[str, ...] | None) -> MomentSummary:
        return cls.__new__(cls)._begin(State(totals, names=names), None)

    def __reduce__(self) -> tuple[Any, ...]:
        state = self._state
        return MomentSummary.from_bytes, (self._packed(state),), state.next_id

    def __setstate__(self, next_id: bytes) -> None:
        self._state = self._state._replace(next_id=next_id)

    def __repr__(self) -> str:
        parts = [f"n_features={self.n_features}", f"order={self.order}"]
        parts += [f"squared_order={self.squared_order}", f"replicates={self.replicates}"]
        parts += [f"{self.n_rows:,} rows in {len(self.shard_ids)} shard(s)"]
        if self.n_forgotten:
            parts.append(f"{self.n_forgotten:,} forgotten")
        return f"MomentSummary({', '.join(parts)})"


def rename_shards(summary: MomentSummary, names: Mapping[str, str]) -> MomentSummary:
    """The same sums under other shard ids: those in `names`, where the summary holds them.

    For callers who know what a shard is only when its rows have been read.
    """
    totals = summary._totals()
    digests = {_digest(old): _digest(new) for old, new in names.items()}
    renamed = {shard: digests.get(shard, shard) for shard in totals.shards}
    agreement.check_once(list(renamed.values()))
    marks = {renamed[shard]: mark for shard, mark in totals.marks.items()}
    totals = replace(totals, shards=frozenset(renamed.values()), marks=marks)
    return summary._derived(totals, summary._names)


def summarize(
    rows: Any,
    order: int,
    sample_weight: ArrayLike | None = None,
    *,
    device: Any = None,
    **options: Any,
) -> MomentSummary:
    """Moments of an array, a data frame, or several of them one after the other.

    Parameters
    ----------
    rows : array or data frame of shape (n_rows, n_features), or an iterator of these
        Arrays on a device (torch, CuPy, JAX) are summed there, as in `MomentSummary.update`.
    order : int
        Highest order of the moments.
    sample_weight : array of shape (n_rows,), optional
        Frequencies; for a single array only.
    device : str or torch.device, optional
        Send NumPy rows to this device and sum them there.
    **options
        As for `MomentSummary`.

    Examples
    --------
    >>> import numpy as np
    >>> summarize(np.eye(4), order=2, shard_id="identity").variance.tolist()
    [0.1875, 0.1875, 0.1875, 0.1875]
    """
    blocks: Iterable[Any] = [rows]
    if hasattr(rows, "__next__"):
        if sample_weight is not None:
            raise InputError("sample_weight needs a single array; call update() for each block.")
        blocks = rows
    summary = None
    for block in blocks:
        if summary is None:
            if is_foreign(block):
                array, names = as_device_rows(block, None), None
            else:
                array, names = as_rows(block, None)
            options = {"feature_names": names, **options}
            summary = MomentSummary(array.shape[1], order, **options)
        summary.update(block, sample_weight, device=device)
    if summary is None:
        raise InputError("rows must hold at least one block; the iterator was empty.")
    return summary
