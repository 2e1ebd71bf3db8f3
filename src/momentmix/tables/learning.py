"""`learn`: rows of tables, families and treatment of missing cells → rows with a schema.

Kinds of columns and their families are guessed from the first rows. Levels, and which columns have
missing cells, take a pass where there is something to find. The treatment of missing cells is
decided here: each `Column` holds it (``has_missing``, ``drops``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from momentmix.errors import InputError, InputTypeError
from momentmix.families.column import (
    Column,
    Level,
    check_sizes_of,
    is_text,
    is_whole,
    plain_level,
    short_mean,
)
from momentmix.families.family import is_family, named, unknown_family
from momentmix.progress import step
from momentmix.tables.columns import NO_CELL, Kind, codes_of, is_labeled, numbers_of
from momentmix.tables.encoding import Encoded, Unseen, check_numeric
from momentmix.tables.guessing import guess_columns
from momentmix.tables.names import column_label, escaped_names, families_by_number
from momentmix.tables.opening import READ_ALL, Reading, open_sources, warn_of_header
from momentmix.tables.schema import Schema, plain_schema
from momentmix.tables.source import check_different
from momentmix.tables.table_rows import Missing, TableRows, check_missing, keeps_gaps
from momentmix.wording import option

Families = Mapping[Any, Any] | Schema | None
LOOKED_AT = 1 << 14  # numbers, the first of a column: a center need not be the mean itself
MOST_LEVELS = 1000  # more are names of rows, not categories
# Rows with guessed columns, and families by number → what all rows hold.
Find = Callable[[TableRows, Mapping[int, Any]], "list[Content]"]


def schema_from(
    rows: Any, families: Families = None, missing: Missing = "model", **reading: Any
) -> Schema:
    """Return the schema of a table; families that are not given are guessed.

    Parameters
    ----------
    rows : array, data frame, Arrow table, list of rows, dict of columns, path or source
    families : dict, optional
        Family of a column, by name or number, as in `fit`.
    missing : {"model", "mar", "drop", "error"}, default="model"
        Columns with missing cells (NaN, None, NA, NaT, masked) get a feature for whether a
        cell was seen; with "drop" and "error" such columns are not looked for. A fit takes a schema
        with such columns as missing="model", unless it is given another keyword.
    **reading
        Columns to take and how files are read, as for `open_rows`. The schema keeps how files are
        read, for all that it is given to.

    Examples
    --------
    >>> table = {"age": [31.0, None, 40.0], "plan": ["gold", "basic", "gold"]}
    >>> schema = schema_from(table)
    >>> schema.feature_names
    ('age', 'age seen', 'plan=gold')
    >>> schema.encode(table).tolist()
    [[-5.0, 1.0, 1.0], [0.0, 0.0, 0.0], [4.0, 1.0, 1.0]]
    """
    with step("Reading columns"):
        options = Reading(**reading)
        return recorded(table_rows(rows, families, missing, options), options)


def open_rows(
    source: Any,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    *,
    families: Families = None,
    exclude: Sequence[str | int] | None = None,
    na_values: Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    header: bool | None = None,
) -> TableRows:
    """Open rows wherever they are, to read them in blocks as often as needed.

    Parameters
    ----------
    source : array, data frame, query, path, address, glob, folder, list of paths, or binary stream
        Arrays and pandas, polars or Arrow tables in memory; a polars LazyFrame, DuckDB relation,
        pyarrow Dataset, Scanner or RecordBatchReader, or anything with ``__arrow_c_stream__``;
        files .npy, .parquet, .arrow, .feather, .xlsx (the first sheet), .csv, .tsv, .jsonl and
        .ndjson, the last four also with .gz; folders and globs of such files, in the order of their
        names; addresses that fsspec reads (s3://, https://, …), whose files are copied to a
        temporary folder, as are queries and streams of batches or of bytes, which are CSV.
    columns : sequence of str or int, optional
        Names or numbers of the columns to take, in this order; by default all but dates. A name
        that several columns have is an error: take these by number.
    exclude : sequence of str or int, optional
        Columns to leave out.
    families : dict or Schema, optional
        What columns are, as in `fit`, by name or number; the others are guessed. The rows are then
        features. By default they are numbers, and a fit or a summary learns what these are.
    na_values : sequence of str, optional
        For text files: texts that mean a missing cell, in place of NA, NaN, null and their
        like. An empty field is always missing.
    missing : {"error", "drop", "model"}
        What to do with rows that hold missing, NaN or infinite values: raise, leave them out, or
        give NaN for a missing cell, for a fit with ``missing="model"`` (infinite ones raise).
    delimiter, decimal : str
        For CSV; by default a comma (a tab for .tsv) and a point. ASCII characters.
    header : bool, optional
        For CSV and Excel: whether the first line holds the names of the columns. By default it does
        if any of it is text; numbers are names where they count 0, 1, … or 1, 2, … over two or more
        columns and no other row is like them, where they alone are quoted, where they are years
        above numbers that are none, and where they are whole above columns of fractions; ``notes``
        of the rows says so.

    Returns
    -------
    TableRows
        With ``n_features``, ``feature_names``, ``n_rows`` and ``blocks()``.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_rows(np.arange(6.0).reshape(3, 2), columns=[1])
    >>> [block.tolist() for block in source.blocks()]
    [[[1.0], [3.0], [5.0]]]
    """
    reading = Reading(delimiter, decimal, na_values, header, columns, exclude)
    if isinstance(families, Schema):
        reading = reading.with_usual(families.reading)
    rows = reading.open(source, missing)
    return rows if families is None else learn(rows, families, missing)


def table_rows(data: Any, families: Families, missing: Missing, reading: Reading) -> TableRows:
    """Rows of a table anywhere as features; options that do not fit it, and copies, are errors."""
    reading.check_for(data)
    if isinstance(families, Schema):
        reading = reading.with_usual(families.reading)
    rows = data if isinstance(data, TableRows) else reading.open(data, missing)
    check_different(rows.sources)
    return learn(rows, families, missing)


def recorded(rows: TableRows, reading: Reading) -> Schema:
    """The schema of rows, with how files like theirs are read, and which columns were guessed."""
    schema = rows.learned
    usual = schema.reading | reading.of_files()
    return replace(schema, reading=usual, may_count=rows.may_count)


def learn(
    rows: TableRows,
    families: Families = None,
    missing: Missing = "error",
    find: Find | None = None,
) -> TableRows:
    """Rows as features, by the families given or guessed, or by a schema; as `schema_from`.

    With missing="error", missing cells get what was said when the rows were opened. `find` gives
    the contents of all rows, where `rows` are the first of them; by default a pass does.

    >>> import numpy as np
    >>> rows = open_rows(np.array([[1.5, 0], [np.nan, 2], [2.5, 1]]))
    >>> learn(rows, {1: "log1p"}, "model").feature_names
    ('0', '0 seen', '1')
    """
    check_missing(missing)
    if families is None and rows.encoding is not None and missing in ("error", rows.missing):
        return rows
    rows = rows if missing == "error" else rows.changed(missing=missing)
    gaps, find, notes = keeps_gaps(rows.missing), find or contents_of, tuple[str, ...]()
    if isinstance(families, Schema):
        rows, schema = rows_with(families, rows), families
        if gaps and not all(column.has_missing for column in schema.columns):
            pairs = zip(schema.columns, find(rows, {}), strict=True)
            schema = replace(schema, columns=tuple(_with_gaps(*pair) for pair in pairs))
        schema = schema.at_random() if rows.missing == "mar" else schema
        return rows.with_schema(schema).changed(may_count=families.may_count)
    asked = _by_number(families, rows)
    rows = rows.as_text(_texts(rows, asked))
    has_text = any(kind.kind == "text" for kind in rows.kinds)
    if rows.column_names is not None or has_text:
        head = rows.head()
        if head is not None:
            for j, family in asked.items():
                if is_family(family) and not named(family).has_levels:
                    names = rows.column_names
                    column = Column.of(None if names is None else names[j], family)
                    check_numeric(column, head[j], partial(rows.where, column=j))
            guess = guess_columns(head, rows.kinds, rows.column_names, asked, rows.chosen)
            asked, notes = guess.families, guess.notes
            rows = rows.selected(guess.kept).changed(may_count=tuple(guess.counts))
        elif len(rows.sources) == 1 and has_text:
            raise rows.without_rows()
    names = rows.column_names
    if not gaps and all(x == Column.family for x in asked.values()):
        return rows.with_schema(plain_schema(len(rows.kinds), names), notes)
    columns = []
    for i, content in enumerate(find(rows, asked)):
        label, name = column_label(i, names), None if names is None else names[i]
        if not content.has_cells:
            raise InputError(
                f"{label} has no cell that is not missing: nothing can be learned of it. Leave "
                "it out; or pass families=schema (--schema), the schema of a table that has some."
            )
        column = _column(name, asked.get(i, Column.family), content, label)
        columns.append(_with_gaps(column, content) if gaps else column)
    schema = Schema(tuple(columns))
    return rows.with_schema(schema.at_random() if rows.missing == "mar" else schema, notes)


def _by_number(families: Families, rows: TableRows) -> dict[int, Any]:
    """Families by the number of their column."""
    if families is None:
        return {}
    if not isinstance(families, Mapping):
        what = "{name or number of a column: family}"
        raise InputTypeError(f"families must be a dict, {what}; got {type(families).__name__}.")
    left_out = f" ({'; '.join(rows.notes)})" if rows.notes else ""
    no_column = f"{option(families=...)} names no column{left_out}:"
    chosen = families_by_number(families, rows.column_names, len(rows.kinds), no_column)
    return {i: list(x) if isinstance(x, np.ndarray) else x for i, x in chosen.items()}


def _texts(rows: TableRows, families: Mapping[int, Any]) -> list[int]:
    """Columns of CSV that are read as text because of their family, though they look otherwise."""
    texts = []
    for j, family in families.items():
        kind = rows.kinds[j]
        if isinstance(family, Sequence) and not isinstance(family, str):
            if any(map(is_text, family)):  # though the first cells may be true and false
                texts.append(j)
        elif (kind.kind in ("mixed", "varied") or kind == NO_CELL) and _has_levels(family):
            texts.append(j)
    return texts


# -- what all rows hold --------------------------------------------------------------------------


class Content:
    """Content of all rows of a column, as far as its schema needs it."""

    def __init__(self, kind: Kind, family: Any = None) -> None:
        self.kind, self._has_levels = kind, _has_levels(family)
        self.levels: dict[Any, None] = {}  # all values, where it is text or has levels
        self.numbers = np.empty(0)  # the first ones
        self.has_missing, self.has_cells, self.n_rows = False, False, 0

    def add(self, cells: Any, label: str) -> None:
        """Add the cells of more rows; too many labels are an error, in which `label` is named."""
        more = Content(self.kind)
        more.n_rows, levels = len(cells), tuple[Any, ...]()
        if is_labeled(cells):
            codes, levels = codes_of(cells)
            missing = codes < 0
        else:
            numbers = numbers_of(cells)
            missing = numbers != numbers
            observed = numbers[~missing] if missing.any() else numbers
            if self._has_levels:
                levels = tuple(np.unique(observed).tolist())
            else:
                more.numbers = observed[:LOOKED_AT]
        more.levels = dict.fromkeys(levels)
        more.has_missing, more.has_cells = bool(missing.any()), not missing.all()
        self.merge(more, label)

    def merge(self, other: Content, label: str) -> None:
        """Add the contents of other rows."""
        self.levels |= other.levels
        if len(self.levels) > MOST_LEVELS:
            raise _too_many(label, "more than", MOST_LEVELS)
        self.n_rows += other.n_rows
        self.has_missing |= other.has_missing
        self.has_cells |= other.has_cells
        if len(self.numbers) < LOOKED_AT:
            self.numbers = np.append(self.numbers, other.numbers)[:LOOKED_AT]


def contents_of(rows: TableRows, families: Mapping[int, Any]) -> list[Content]:
    """Content of all rows, from a pass over the columns that need one."""
    contents = [Content(kind, families.get(j)) for j, kind in enumerate(rows.kinds)]
    read = []
    for j, content in enumerate(contents):
        is_open = _has_levels(families.get(j)) and content.kind.kind != "bool"
        if keeps_gaps(rows.missing) or content.kind.kind == "text" or is_open:
            read.append(j)
        else:
            content.has_cells = True
    for part in rows.parts if read else ():
        source, numbers = part.sources[0], part.columns[0]
        for _, batch in part.batches(read):
            for j, cells in zip(read, batch, strict=True):
                contents[j].add(cells, f"{source.name}, {source.label(numbers[j])}")
    if read and not any(contents[j].n_rows for j in read):
        raise rows.without_rows()
    return contents


def _column(name: str | None, family: Any, content: Content, label: str) -> Column:
    if isinstance(family, Sequence) and not isinstance(family, str):
        return Column(name, "categorical", _checked_levels(list(family), label))
    if not is_family(family):
        error = InputError if isinstance(family, str) else InputTypeError
        raise error(unknown_family(family, label))
    if not named(family).has_levels:
        return Column.of(name, family)
    return Column(name, family, _levels(family, content, label))


def _has_levels(family: object) -> bool:
    """Whether columns of a family, if it is one, have levels."""
    return is_family(family) and named(str(family)).has_levels


def _levels(family: str, content: Content, label: str) -> tuple[Level, ...]:
    """All levels of a column, of its type or as they occur."""
    has_two, is_bool = named(family).n_levels == 2, content.kind.kind == "bool"
    values = [False, True] if is_bool else list[Any](content.levels)
    if set(values) <= {0, 1} and has_two:
        return (False, True) if is_bool else (0, 1)
    levels = _checked_levels(values, label, len(values))
    if content.kind.order != "ordered":
        levels = tuple(sorted(levels))
    if has_two and len(levels) != 2:
        raise InputError(
            f"a {family} column must have two levels; {label} has {len(levels)}: "
            f"{escaped_names(levels)}. Correct the cells, or take the column as 'categorical' in "
            f"{option(families=...)}."
        )
    return levels


def _checked_levels(given: Iterable[Any], label: str, n_found: int = 0) -> tuple[Level, ...]:
    """Levels as strings, integers or bools; at least two, all different."""
    levels = [plain_level(level) for level in given]
    check_sizes_of(levels, label)
    if not (all(map(is_text, levels)) or all(map(is_whole, levels))):
        odd = next((x for x in levels if not (is_text(x) or is_whole(x))), levels)
        raise InputError(
            f"levels must be strings, integers or bools, all of one kind; {label} has {odd!a}. "
            "Round the column or write its levels as text; or take it as 'gaussian'."
        )
    if len(levels) > MOST_LEVELS:
        raise _too_many(label, "", len(levels))
    if len(levels) < 2 or len(set(levels)) < len(levels):
        problem = "has one level only" if n_found else "must have different levels, at least two"
        raise InputError(
            f"{label} {problem}: {levels!a}. Leave the column out, or give all levels that it "
            'may have: families={…: ["no", "yes"]} (--schema).'
        )
    return tuple(levels)


def _too_many(label: str, more: str, n_levels: int) -> InputError:
    return InputError(
        f"{label} has {more} {n_levels} levels; a categorical column may have {MOST_LEVELS}. Leave "
        f"it out if it names the rows: {option(exclude=...)}; or join its rare levels in the table."
    )


def _with_gaps(column: Column, content: Content) -> Column:
    """The column with a feature for which cells are observed, where some are missing."""
    if not content.has_missing or column.has_missing:
        return column
    numbers, center = content.numbers, 0.0
    if column.model.joins and len(numbers):
        are_counts = numbers.min() in (0, 1) and (numbers == np.floor(numbers)).all()
        # A short number near the mean; counts, perhaps, have none.
        center = 0.0 if are_counts else short_mean(column.transformed(numbers))
    return replace(column, has_missing=True, center=center)


# -- rows of a schema ----------------------------------------------------------------------------


def rows_with(schema: Schema, rows: TableRows, owner: str = "the schema") -> TableRows:
    """Rows as features of a schema, by name where both have names."""
    source = rows.sources[0]
    rows = rows.selected(schema.places_in(rows.column_names, len(rows.kinds), owner, source.name))
    texts = []
    for j, (column, kind) in enumerate(zip(schema.columns, rows.kinds, strict=True)):
        if lost := [level for level in column.levels if level in source.nulls]:
            raise InputError(
                f"{source.name}: the level {lost[0]!a} of {source.label(rows.columns[0][j])} reads "
                f"as a missing cell. Pass {option(na_values=...)}, the texts that stand for "
                "missing cells in this file, without it; or rename the level."
            )
        is_bool = column.levels == (False, True) and kind.kind != "number"
        if any(map(is_text, column.levels)) or is_bool:
            texts.append(j)
    return rows.as_text(texts).with_schema(schema)


def rows_to_predict(schema: Schema, data: Any, owner: str) -> TableRows:
    """Rows of anything that holds a table, with the columns of a model."""
    names = schema.column_names
    if isinstance(data, TableRows):
        rows = data.changed(missing="model") if data.missing == "error" else data
    else:
        sources = open_sources(data, READ_ALL, names)
        first = sources[0]
        places = schema.places_in(first.column_names, first.n_columns, owner, first.name)
        rows = Reading(columns=places).open(sources, "model")
        warn_of_header(sources, names)
    return rows_with(schema, rows, owner)


def encoded_blocks(
    schema: Schema, data: Any, owner: str, unseen: Unseen = "error"
) -> Iterator[Encoded]:
    """Rows of anything as features of a model, block by block."""
    rows, empty = rows_to_predict(schema, data, owner), True
    for block in rows.encoded(unseen=unseen):
        if len(block.features):
            empty = False
            yield block
    if empty:
        raise InputError(f"{rows.sources[0].name} holds no rows.")
