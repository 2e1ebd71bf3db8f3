"""Guesses about the columns of a table: families, columns to leave out, hints.

| cells of a column | what it is taken as |
|---|---|
| true and false | bernoulli |
| text of few labels, or categories | categorical |
| text whose labels are nearly all different; whole numbers that number the rows | left out: ids |
| numbers that pandas wrote as the index of a frame | left out |
| dates and times, also as text | left out |
| whole numbers from 1900 to 2100 that are named "year", "yr" or "jahr" | left out: years |
| text or categories with one label only | left out |
| numbers | gaussian; a hint where they are 0 and 1, or whole and named like a code |

The first rows decide, in memory as in files. A fit to rows may take whole numbers as counts. Text
of many labels is an error: it may be an id or a category.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from momentmix._typing import Array
from momentmix.errors import InputError
from momentmix.tables.cells import Cells
from momentmix.tables.formats.dialect import are_dates
from momentmix.tables.names import alike, column_label, left_out_notes
from momentmix.wording import listed, option

HEAD = 1 << 16  # rows that are looked at
FEW_LEVELS = 50  # more labels of text are an error
_FEWEST_NAMED = 10  # rows from which labels that are all different count as ids
_SURELY_FEW = 20  # labels, however few the rows are
_ID_NAME = re.compile(
    r"(?:^|[_\W])(?:[iI][dD]|uuid|guid|index|rownum|rowid|row)$"
    r"|^(?:[iI][dD]|[uU]nnamed: ?\d+)(?:$|[_\W])|[a-z]I[dD]$"
)
# "year", "birth_year", "Year built", "YearBuilt", "yr2".
_YEAR_NAME = re.compile(
    r"(?:^|[_\W]|(?<=[a-z]))(?:[yY]ear|YEAR|[yY]r|YR|[jJ]ahr|JAHR)(?:$|[_\W\d]|(?=[A-Z]))"
)
_FIRST_YEAR, _LAST_YEAR = 1900, 2100
_LARGEST_MEDIAN = 100  # of counts above 0: money and hours are measurements in small units
_INDEX = re.compile(r"__index_level_\d+__")  # as pandas writes it to Parquet
_ONE_LEVEL = "it has one level only"


def guess_columns(
    cells: Sequence[Cells],
    names: tuple[str, ...] | None,
    families: Mapping[int, Any],
    asked: bool = False,
    rare: float = 0.0,
) -> tuple[dict[int, Any], list[int], list[int], tuple[str, ...]]:
    """Return families, by the first rows if not in `families`, kept columns, and notes.

    Before the notes come places, among the columns that are kept, of numbers that may be counts.
    None is left out where they were `asked` for, or have no names. Text may have many levels where
    levels with a smaller share than `rare` are joined.
    """
    asked = asked or names is None  # columns without names are known by their places
    chosen: dict[int, Any] = dict(families)
    left_out: dict[int, str] = {}
    hints: dict[str, tuple[str, ...]] = {}
    counts: list[int] = []
    for i, own in enumerate(cells):
        if i in families:
            continue
        # Categories some of which are numbers that are not whole can be no levels.
        if own.labels is not None and not any(isinstance(x, float) for x in own.labels):
            if why := _unusable_text(own, column_label(i, names), asked, rare):
                left_out[i] = why
            else:
                chosen[i] = "categorical"
        elif own.are_bools:
            chosen[i] = "bernoulli"
        elif names is not None and own.labels is None:
            head = own.values[:HEAD]
            if not asked and _INDEX.fullmatch(names[i]):
                left_out[i] = "it is the index of a pandas frame"
            elif not asked and _numbers_rows(head, names[i]):
                left_out[i] = "it numbers the rows"
            elif not asked and _are_years(head, names[i]):
                left_out[i] = "years"
            elif hint := _hint(head, names[i]):
                hints[names[i]] = hint
            elif _may_count(head):
                counts.append(i)
    if len(left_out) == len(cells):
        listed = "; ".join(f"{column_label(i, names)}: {w}" for i, w in left_out.items())
        raise InputError(
            f"the table has no usable column ({listed}). Pass columns of numbers or of few "
            f"levels, or give the families of columns in {option(families=...)}."
        )
    gone = left_out_notes(
        {str(i) if names is None else ascii(names[i]): why for i, why in left_out.items()}
    )
    hinted = (_hint_note(own, *hint) for hint, own in alike(hints).items())
    kept = [i for i in range(len(cells)) if i not in left_out]
    families = {k: chosen[i] for k, i in enumerate(kept) if i in chosen}
    return families, kept, [kept.index(i) for i in counts], (*gone, *hinted)


def _unusable_text(cells: Cells, label: str, asked: bool, rare: float) -> str:
    """Why a column of text is left out; empty where it is a category."""
    assert cells.labels is not None
    if cells.order:  # the categories of its type
        return _ONE_LEVEL if len(cells.labels) == 1 and not asked else ""
    codes = cells.values[:HEAD]
    codes = codes[codes >= 0].astype(np.int64)
    found = np.unique(codes)
    n_levels, n_seen = len(found), len(codes)
    if not asked and n_levels and are_dates(str(cells.labels[k]) for k in found[:1000].tolist()):
        return "dates"
    are_ids = n_levels == n_seen >= _FEWEST_NAMED or n_levels > max(_SURELY_FEW, n_seen / 2)
    if are_ids and not asked:
        return "it names the rows, nearly every text is another one"
    if n_levels == 1 and len(cells.labels) == 1 and not asked:
        return _ONE_LEVEL
    if n_levels > FEW_LEVELS and not rare:
        raise InputError(
            f"{label} is text with {n_levels} different levels in {n_seen} rows, too many to take "
            f"it as categories by default (up to {FEW_LEVELS} are). Leave it out with "
            f'{option(exclude=...)}; pass families={{…: "categorical"}} '
            "(--families …=categorical); or join its rare levels with a schema (momentmix schema "
            "--rare 0.01)."
        )
    return ""


def _numbers_rows(values: Array, name: str) -> bool:
    """Whether whole numbers are ids: all different, and named so or one after the other."""
    if len(values) < _FEWEST_NAMED or not _are_whole(values):
        return False
    with np.errstate(invalid="ignore"):  # infinite numbers are refused later, by row
        steps = np.diff(values)
    if (steps == 1).all() and values[0] in (0, 1):
        return True
    return bool(_ID_NAME.search(name)) and len(np.unique(values)) > len(values) / 2


def _are_years(values: Array, name: str) -> bool:
    """Whether a column is named so, and all its cells are whole numbers from 1900 to 2100."""
    seen = values[values == values]
    if not _YEAR_NAME.search(name) or not len(seen) or not _are_whole(seen):
        return False
    return bool(seen.min() >= _FIRST_YEAR and seen.max() <= _LAST_YEAR)


def _are_whole(values: Array) -> bool:
    if values.dtype.kind in "iu":
        return True
    if values.dtype.kind != "f":
        return False
    first = values[:100]  # most columns of other numbers end here
    return bool((first == np.floor(first)).all() and (values == np.floor(values)).all())


def _may_count(values: Array) -> bool:
    """Whether numbers are whole, from 0 or 1 on, three at least, and mostly not large."""
    seen = values[values == values]
    if not _are_whole(seen) or not len(seen) or seen.min() not in (0, 1) or seen.max() < 2:
        return False
    return bool(np.median(seen[seen > 0]) <= _LARGEST_MEDIAN)


def _hint(values: Array, name: str) -> tuple[str, ...]:
    """Return what whole numbers could be taken as; empty if they look like measurements."""
    seen = values[values == values]
    if len(seen) < _FEWEST_NAMED or not _are_whole(seen):
        return ()
    if seen.min() == 0 and seen.max() == 1:
        return "two values", "bernoulli", "a yes/no column"
    if _ID_NAME.search(name):
        return "the name of a code", "categorical", "categories"
    return ()


def _hint_note(names: list[str], what: str, family: str, kind: str) -> str:
    """Return one note on columns of numbers that could be taken as something else."""
    text = f"{listed(list(map(ascii, names)), 3)} taken as numbers (gaussian), with {what}"
    return f"{text}; {option(families={names[0]: family})} takes {names[0]!a} as {kind}"
