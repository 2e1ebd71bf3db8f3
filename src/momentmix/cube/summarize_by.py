"""`summarize_by`: rows → one summary for each group, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from momentmix.cube.cube import SummaryCube
from momentmix.cube.keys import KeySpec, columns_read, find_keys, parse_keys
from momentmix.cube.passes import CubeJob, CubeProgress
from momentmix.errors import InputError, TableWarning, check_count, warn_caller
from momentmix.progress import check_asked, erase, step
from momentmix.tables.learning import Families, learn, needs_pass
from momentmix.tables.opening import Reading, can_open, open_table
from momentmix.tables.selection import choose_columns
from momentmix.tables.source import Source
from momentmix.tables.table_rows import Missing, TableRows


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
        asked = Reading.of(reading)
        if isinstance(rows, TableRows):
            asked.check_nothing("the rows are opened already")
        elif not can_open(rows):
            asked.check_in_memory()
        job = cube_job(rows, parse_keys(by), families, missing, asked)
        if job.rows.notes:
            erase()
            warn_caller(f"columns were guessed: {'; '.join(job.rows.notes)}.", TableWarning)
        *_, state = job.run(CubeProgress(), order, settings)
        return job.cube(state, min_rows)


def cube_job(
    data: Any, specs: Sequence[KeySpec], families: Families, missing: Missing, reading: Reading
) -> CubeJob:
    """Rows with their keys; what no family is given for is guessed.

    `data` is as for `open_rows`, a list of sources, or rows that are open: then `reading` does not
    count.
    """
    if isinstance(data, TableRows):
        keys = find_keys(data.sources, specs)
        own = columns_read(keys, 0)
        places = [j for j, number in enumerate(data.columns[0]) if number not in own]
        if not places:
            raise InputError(f"{data.sources[0].name} has no column beside the keys; open others.")
        rows = data.selected(places)
    else:
        are_open = isinstance(data, list) and data and isinstance(data[0], Source)
        sources = data if are_open else open_table(data, reading)
        keys = find_keys(sources, specs)
        own, names = columns_read(keys, 0), {key.spec.column for key in keys}
        if reading.columns is None:
            reading = replace(reading, exclude=[*(reading.exclude or ()), *own] or None)
        else:
            asked = choose_columns(sources[0], [x for x in reading.columns if x not in names])
            reading = replace(reading, columns=[number for number in asked if number not in own])
        rows = reading.open(sources, missing)
    once = not isinstance(data, TableRows) and not needs_pass(rows, families, missing)
    rows.plan(once, [columns_read(keys, table) for table in range(len(rows.sources))])
    return CubeJob(learn(rows, families, missing), keys)
