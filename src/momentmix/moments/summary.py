"""MomentSummary: the moments of rows seen once, as a value that adds, subtracts, and is saved.

| paper symbol | name here | shape |
|---|---|---|
| (M_m)_{Ω_m} | ``summary.tensor(m, shift=0, scale=1)`` | (C(d, m),) |
| (M_m)_{L_j} | ``summary.squared(j, m−2, shift=0, scale=1)`` | (C(d−1, m−2),) |

A summary is a set of closed *shards* and perhaps an open one. A shard opens with the first update
after construction, loading or merging, and closes when the summary is saved, copied, added or
subtracted. Reading moments does not close it.

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

from momentmix.capacity import check_count
from momentmix.core.array_backend import (
    device_of,
    is_foreign,
    namespace,
    on_device_of,
    to_numpy,
)
from momentmix.core.atomic_file import atomic_write
from momentmix.core.threads import usable_cores
from momentmix.errors import InputError, InputTypeError, ShardError
from momentmix.moments import agreement, forgetting, readings, summary_file
from momentmix.moments import totals as algebra
from momentmix.moments.accumulate import make_kernel
from momentmix.moments.cost import check_budget
from momentmix.moments.device_shard import Place, add_device_rows, as_device_rows
from momentmix.moments.host_feed import feed
from momentmix.moments.layout import Layout
from momentmix.moments.open_shard import OpenShard
from momentmix.moments.plausibility import impossible
from momentmix.moments.rows import as_rows, as_weights, check_feature_names, checked_values
from momentmix.moments.summary_view import SummaryView
from momentmix.moments.totals import Totals
from momentmix.moments.workers import Workers

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

    Parameters
    ----------
    n_features : int
        Dimension d of the rows.
    order : int
        Highest order m of the moments with distinct indices; at most n_features.
    feature_names : sequence of str, optional
        Checked against data frames; taken from the first one otherwise.
    squared_order : int, optional
        Moments y_j²·y_I are kept for all I of at most this many further features; by default
        min(2, order − 1), at most order − 1. ``method="paper"`` needs order − 2.
    replicates : int
        Number of groups that the blocks of rows are dealt to, for standard errors and
        cross-validation without rows; 0 for none.
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
        replicates: int = 16,
        shard_id: str | bytes | None = None,
        memory_budget: int | None = None,
        n_threads: int | None = None,
    ) -> None:
        if squared_order is None:
            squared_order = min(2, check_count("order", order, 1) - 1)
        layout = Layout(n_features, order, squared_order, replicates)
        check_budget(layout, memory_budget)
        self._names = (
            None if feature_names is None else check_feature_names(feature_names, n_features)
        )
        self._next_id: bytes | None = None if shard_id is None else _digest(shard_id)
        self._n_threads = None if n_threads is None else check_count("n_threads", n_threads, 1)
        self._closed = algebra.empty(layout)
        self._open: OpenShard | None = None
        self._snapshot: Totals | None = None

    # -- adding rows --------------------------------------------------------------------------

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
            Real numbers of any dtype, without missing values. Arrays of torch, CuPy, JAX (x64) and
            other libraries of the array API are summed where they lie, in float64; the last bits
            of their sums differ from NumPy's.
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
        array, names = as_rows(rows, self.n_features)
        self._check_names(names)
        weights = as_weights(sample_weight, len(array))
        if device is None:  # else they are checked there
            checked_values(array, names or self._names)
        if weights is not None and not weights.all():
            array, weights = array[weights > 0], weights[weights > 0]
        parts = [(0, array)] if device is None else feed(array, device)
        self._add(parts, len(array), weights, digest, names)
        if names is not None:
            self._names = names
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
        closed, shard = self._closed, self._open
        if shard is not None and wanted not in (None, shard.shard_id):
            closed, shard = self._totals(), None
        if shard is None:
            digest = wanted or self._next_id or _digest(None)
            if digest in closed.shards:
                raise ShardError(
                    f"shard {digest.hex()} is already in this summary and closed; a closed shard "
                    "takes no more rows. Use another shard_id, or none for a random one.",
                    shard_ids=(digest.hex(),),
                )
            shard = OpenShard(make_kernel(self._layout), digest)
        elif not shard.fits_waiting(n_rows):
            shard = shard.clone()
        with self._workers(shard, n_rows) as workers:
            for first, array in parts:
                w = None if weights is None else weights[first : first + array.shape[0]]
                if is_foreign(array):
                    place = Place(first, names or self._names)
                    add_device_rows(shard, array, w, workers, place)
                else:
                    shard.update(array, w, workers, names or self._names)
        self._closed, self._open, self._snapshot, self._next_id = closed, shard, None, None

    def _workers(self, shard: OpenShard, n_rows: int) -> Workers:
        cores = self._n_threads or usable_cores()
        n_blocks = (shard.n_waiting + n_rows) // shard.block_size
        return shard.workers(max(1, min(cores, n_blocks)))

    def _check_names(self, names: tuple[str, ...] | None) -> None:
        if names is None or self._names == names:
            return
        if self._names is None:
            if self.n_rows:
                raise InputError(
                    "rows have feature names but the summary was filled without any; pass "
                    "feature_names at construction, or plain arrays throughout."
                )
            return
        raise InputError(agreement.names_differ(self._names, names))

    def forget(self, rows: Any, sample_weight: ArrayLike | None = None) -> MomentSummary:
        """Take away rows that were added before, in whatever shard.

        Unlike ``−`` this needs no shard of exactly these rows, but cannot prove that they were
        added: it checks the count, the bounds and the variances. Minimum and maximum become bounds.
        """
        array, names = as_rows(rows, self.n_features)
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
        self._replace(forgetting.forget(whole, lost._totals()))
        return self

    # -- state --------------------------------------------------------------------------------

    def _totals(self) -> Totals:
        """The exact sums of all rows so far; leaves an open shard open."""
        if self._open is None:
            return self._closed
        if self._snapshot is None:
            with self._open.workers(1) as workers:
                shard = self._open.clone().close(workers)
            self._snapshot = algebra.combine(self._closed, shard)
        return self._snapshot

    def _replace(self, totals: Totals) -> Totals:
        self._closed, self._open, self._snapshot = totals, None, None
        return totals

    def _close(self) -> Totals:
        """Close the open shard."""
        return self._replace(self._totals())

    def _derived(self, totals: Totals, names: tuple[str, ...] | None) -> MomentSummary:
        summary = object.__new__(MomentSummary)
        summary._names, summary._next_id, summary._n_threads = names, None, self._n_threads
        summary._replace(totals)
        return summary

    # -- adding and subtracting summaries -----------------------------------------------------

    def _check_alike(self, other: Any) -> tuple[str, ...] | None:
        """Refuse a summary that cannot be added to this one; returns the common names."""
        if not isinstance(other, MomentSummary):
            raise InputTypeError(
                f"a summary can be combined with another MomentSummary only; got "
                f"{type(other).__name__}. Use update() for rows."
            )
        return agreement.check_alike(self._layout, other._layout, self._names, other._names)

    def _sum(self, other: Any) -> tuple[Totals, tuple[str, ...] | None]:
        names = self._check_alike(other)
        a, b = self._totals(), other._totals()
        common = tuple(sorted(shard.hex() for shard in a.shards & b.shards))
        if common:
            raise ShardError(
                f"{agreement.listed(common)} in both summaries: the rows would count twice. Leave "
                "one of them out, or subtract it first.",
                shard_ids=common,
            )
        result = algebra.combine(a, b)
        other._close()
        return result, names

    def __add__(self, other: Any) -> MomentSummary:
        totals, names = self._sum(other)
        self._close()
        return self._derived(totals, names)

    def __radd__(self, other: Any) -> MomentSummary:
        if isinstance(other, int) and other == 0:  # the start of sum()
            return self.copy()
        return self.__add__(other)

    def __iadd__(self, other: Any) -> MomentSummary:
        totals, self._names = self._sum(other)
        self._replace(totals)
        return self

    def __sub__(self, other: Any) -> MomentSummary:
        names = self._check_alike(other)
        a, b = self._totals(), other._totals()
        foreign = tuple(sorted(shard.hex() for shard in b.shards - a.shards))
        if foreign:
            raise ShardError(
                f"{agreement.listed(foreign)} not in the summary to subtract from. Subtract only "
                "what was added; for rows without a shard of their own use forget().",
                shard_ids=foreign,
            )
        result = algebra.remove(a, b) if b.shards else a
        wrong = impossible(result)
        if wrong:
            raise InputError(
                f"subtracting would leave {wrong}: although the shard ids agree, the summaries are "
                "not parts of one another. Were rows forgotten in one of them?"
            )
        self._close()
        other._close()
        return self._derived(result, names)

    def __eq__(self, other: object) -> bool:
        """Whether shards, counts and all sums agree exactly, in whatever frame.

        Minimum and maximum are not compared: after ``−`` they are bounds only.
        """
        if not isinstance(other, MomentSummary):
            return NotImplemented
        return self._names == other._names and algebra.same(self._totals(), other._totals())

    def copy(self) -> MomentSummary:
        """Independent copy; closes the open shard."""
        return self._derived(self._close(), self._names)

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
        return self._derived(algebra.rearranged(self._close(), layout), self._names)

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
        return self._derived(algebra.select(self._close(), columns), chosen)

    def recentre(self, shift: ArrayLike | None = None) -> MomentSummary:
        """The same summary about another shift, rounded to the unit; by default about the mean.

        Exact: moving there and back gives the same bytes.
        """
        totals = self._close()
        if shift is None:
            return self._derived(algebra.recentred(totals), self._names)
        wanted = readings.nearest_units(totals, shift)
        return self._derived(algebra.recentred(totals, wanted), self._names)

    # -- files --------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The summary as bytes (the file format); closes the open shard."""
        return summary_file.pack(self._close(), self._names)

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
        summary = object.__new__(cls)
        summary._names, summary._next_id, summary._n_threads = names, None, None
        summary._replace(totals)
        return summary

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return MomentSummary.from_bytes, (self.to_bytes(),)

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
    old = totals.shards & digests.keys()
    new, others = {digests[shard] for shard in old}, totals.shards - old
    if new & others:
        common = tuple(sorted(shard.hex() for shard in new & others))
        raise ShardError(
            f"{agreement.listed(common)} in the summary already: the rows would count twice. Leave "
            "one of them out.",
            shard_ids=common,
        )
    return summary._derived(replace(totals, shards=others | new), summary._names)


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
