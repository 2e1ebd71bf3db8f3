"""`summarize_by`: rows → one summary for each group, in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from momentmix.arguments import check_count
from momentmix.capacity import usual_order
from momentmix.cube.cube import SummaryCube
from momentmix.cube.keyed_rows import KeyedRows
from momentmix.cube.keys import GroupKey, KeyColumn, KeySpec, key_columns, parse_keys
from momentmix.cube.passes import PART_ROWS, CubeProgress, GroupSums, summarize_groups
from momentmix.errors import InputError, TableWarning, warn_caller
from momentmix.progress import check_asked, erase, step
from momentmix.rows.reading import Reading, reading_from
from momentmix.rows.source import Missing, RowSource
from momentmix.schema.building import Families
from momentmix.schema.rows import EncodedRows
from momentmix.tables.schema import Schema
from momentmix.schema.sources import encode_rows, needs_pass
from momentmix.summary.summary import MomentSummary


def summarize_by(
    rows: Any,
    by: str | Sequence[str],
    order: int | None = None,
    *,
    families: Families = None,
    missing: Missing = "error",
    min_rows: int = 1,
    squared_order: int | None = None,
    n_threads: int | None = None,
    progress: bool | None = None,
    **reading: Any,
) -> SummaryCube:
    """One summary for each group of rows, in one pass.

    Parameters
    ----------
    rows : data frame, Arrow table, query, path, glob, folder or list of paths
        As for `open_rows`. Columns of keys are no features.
    by : str or sequence of str
        Keys: names of columns of text, whole numbers, true and false or days; ``week(ts)`` and its
        like (year, quarter, month, week, day, hour) of a column of dates or times; names of
        folders, ``region=EU/…``. A missing cell is a key too, None.
    order : int, optional
        As for `summarize`.
    families, missing
        As for `summarize`; all groups have the same schema.
    min_rows : int
        Groups of fewer rows are left out; `SummaryCube.left_out` counts them.
    squared_order, n_threads
        As for `MomentSummary`.
    progress : bool, optional
        As for `summarize`.
    **reading
        Columns to take and how files are read, as for `open_rows`.

    Returns
    -------
    SummaryCube

    Notes
    -----
    Rows of a group make one shard for every 16,777,216 rows of a file, named by the file, the key
    and the rows. The sum of the cube has the rows of `summarize`, in other shards: moments agree
    as those of the same rows in other shards do, to about 1e-12 of their size, and have the same
    bytes in any order of adding.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"day": ["Mon", "Tue", "Mon"], "x": [1.0, 2.0, 3.0]})
    >>> summarize_by(frame, by="day")[("Mon",)].n_rows
    2
    """
    check_count("min_rows", min_rows, 1)
    settings = {"squared_order": squared_order, "n_threads": n_threads}
    with step("Summarizing groups", check_asked(progress)):
        specs = parse_keys(by)
        source, keys = _opened(rows, specs, missing, reading_from(reading))
        one_pass = not isinstance(rows, RowSource) and not needs_pass(source, families, missing)
        with source.streamed(one_pass):
            job = _job(source, keys, specs, families, missing)
            if job.notes:
                erase()
                warn_caller(f"columns were guessed: {'; '.join(job.notes)}.", TableWarning)
            *_, state = job.run(CubeProgress(), order, settings)
        return job.cube(state, min_rows)


@dataclass(frozen=True)
class CubeJob:
    """Rows with keys, and how they become features."""

    source: KeyedRows
    schema: Schema | None
    specs: Sequence[KeySpec]
    notes: tuple[str, ...]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.source.n_values if self.schema is None else self.schema.n_features

    def run(
        self,
        start: CubeProgress,
        order: int | None,
        settings: dict[str, Any],
        part_rows: int = PART_ROWS,
    ) -> Iterator[CubeProgress]:
        """States of the pass, one after each part."""
        if order is None:
            order = usual_order(self.n_features)
        names = self.source.feature_names if self.schema is None else None
        empty = MomentSummary(self.n_features, order, names, schema=self.schema, **settings)
        encode = None
        if self.schema is not None:
            encode = EncodedRows(self.source, self.schema).summand_of
        return summarize_groups(self.source, start, empty, encode, part_rows)

    def cube(self, state: CubeProgress, min_rows: int = 1) -> SummaryCube:
        """The cube of a pass that is done."""
        if not state.n_rows:
            name, n_dropped = self.source.tables[0].name, state.n_dropped
            dropped = f" besides the {n_dropped} dropped" if n_dropped else ""
            raise InputError(f"{name} holds no rows{dropped}.")
        cube = self.cube_of(state.sums.groups())
        return cube.at_least(min_rows) if min_rows > 1 else cube

    def cube_of(self, groups: Mapping[GroupKey, bytes]) -> SummaryCube:
        """The cube of all groups of a pass, by what their keys stand for."""
        columns = zip(*groups, strict=True)
        meanings = [
            key.meanings(set(column)) for key, column in zip(self.source.keys, columns, strict=True)
        ]
        sums = GroupSums()
        for key, group in groups.items():
            named = (known.get(x, x) for known, x in zip(meanings, key, strict=True))
            sums.add(tuple(named), group)
        return SummaryCube([spec.name for spec in self.specs], sums.groups())


def cube_job(
    rows: Any, specs: list[KeySpec], families: Families, missing: Missing, reading: Reading
) -> CubeJob:
    """Rows opened with their keys; what no family is given for is guessed."""
    source, keys = _opened(rows, specs, missing, reading)
    return _job(source, keys, specs, families, missing)


def _opened(
    rows: Any, specs: list[KeySpec], missing: Missing, reading: Reading
) -> tuple[RowSource, list[KeyColumn]]:
    """The features, and the keys."""
    tables = rows.tables if isinstance(rows, RowSource) else reading.tables(rows)
    keys = key_columns(tables, specs)
    own = {spec.column for spec in specs}
    names = set(tables[0].column_names or ())
    if reading.columns is not None:
        asked = [column for column in reading.columns if column not in own]
        reading = replace(reading, columns=asked)
    else:
        reading = replace(reading, exclude=[*(reading.exclude or ()), *sorted(own & names)])
    source = reading.open(tables, missing)
    for table, columns in zip(tables, KeyedRows(source, keys).columns, strict=True):
        table.expect_columns(columns)  # a query runs once for features and keys
    return source, keys


def _job(
    source: RowSource,
    keys: list[KeyColumn],
    specs: list[KeySpec],
    families: Families,
    missing: Missing,
) -> CubeJob:
    found = encode_rows(source, families, missing)
    assert isinstance(found.rows, RowSource)
    schema = None if found.schema.is_plain else found.schema
    return CubeJob(KeyedRows(found.rows, keys), schema, specs, found.notes)
