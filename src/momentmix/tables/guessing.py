"""Guesses about the columns of a table: families, columns to leave out, hints.

| cells of a column | what it is taken as |
|---|---|
| true and false | bernoulli |
| text of few labels, or categories | categorical |
| text whose labels are nearly all different; whole numbers that number the rows | left out: ids |
| numbers that pandas wrote as the index of a frame | left out |
| dates and times of the day, also as text or as numbers yyyymmdd | left out |
| whole numbers from 1900 to 2100 that are named "year", "yr" or "jahr" | left out: years |
| text or categories with one label only | left out |
| numbers | gaussian; a hint where they are 0 and 1, or whole and named like a code |

The first rows decide, in memory as in files. A fit to rows may take whole numbers as counts. Text
of many labels is an error: it may be an id or a category.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Array
from momentmix.errors import InputError
from momentmix.tables.columns import Kind, codes_of, is_labeled, numbers_of
from momentmix.tables.csv_text import FIRST_YEAR, LAST_YEAR, times_in
from momentmix.tables.names import alike, left_out_notes
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
_LARGEST_MEDIAN = 100  # of counts above 0: money and hours are measurements in small units
_INDEX = re.compile(r"__index_level_\d+__")  # as pandas writes it to Parquet
_ONE_LEVEL = "it has one level only"
_NUMBERS_ROWS = "it numbers the rows"


class Guess(NamedTuple):
    """What is guessed of columns: `families` and `counts` by place among those `kept`."""

    families: dict[int, Any]
    kept: list[int]
    counts: list[int]  # numbers that may be counts
    notes: tuple[str, ...]


def guess_columns(
    columns: Sequence[Any],
    kinds: Sequence[Kind],
    names: tuple[str, ...] | None,
    families: Mapping[int, Any],
    asked: bool = False,
) -> Guess:
    """Return families, by the first rows if not in `families`, kept columns, and notes.

    None is left out where they were `asked` for, or have no names.
    """
    asked = asked or names is None  # columns without names are known by their places
    labels = [*map(str, range(len(columns)))] if names is None else [*map(ascii, names)]
    chosen, hints, left_out = dict(families), dict[str, tuple[str, ...]](), dict[str, str]()
    many, counts, notes = list[str](), list[int](), list[str]()
    for i, (label, column, kind) in enumerate(zip(labels, columns, kinds, strict=True)):
        head, why = column[:HEAD], ""
        if i in families:
            continue
        if is_labeled(column):
            codes, every = codes_of(head)
            if any(isinstance(x, float) for x in every):
                continue  # categories some of which are numbers that are not whole are no levels
            codes = codes[codes >= 0]
            levels = every if kind.order else [every[k] for k in np.unique(codes).tolist()]
            texts = [x for x in levels if isinstance(x, str)]
            if not asked:
                why = "" if kind.order else _unusable_text(levels, len(codes))
                why = _ONE_LEVEL if len(every) == 1 else why
            if not why and len(levels) > FEW_LEVELS and not kind.order:
                many.append(f"column {label} has {len(levels)}")
            elif not why:
                chosen[i] = "categorical"
                if len({x.strip() for x in texts}) < len(texts):
                    notes.append(f"column {label} has levels that differ by spaces alone")
        elif kind.kind == "bool":
            chosen[i] = "bernoulli"
        elif names is not None:
            numbers = numbers_of(head)
            observed = numbers[numbers == numbers]
            is_whole = len(observed) > 0 and _are_whole(observed)
            if not asked:
                is_index = _INDEX.fullmatch(names[i])
                why = "it is the index of a pandas frame" if is_index else ""
                why = why or (
                    _unusable_numbers(observed, len(numbers), names[i]) if is_whole else ""
                )
            if not why and is_whole:
                if hint := _hint(observed, names[i]):
                    hints[names[i]] = hint
                elif _are_counts(observed):
                    counts.append(i)
        if why:
            left_out[label] = why
    if many:
        raise InputError(
            f"text must have at most {FEW_LEVELS} different levels to be taken as categories by "
            f"default; {', '.join(many)}. Leave such columns out with {option(exclude=...)}; or "
            'pass families={…: "categorical"} (--families …=categorical), perhaps after joining '
            "rare levels."
        )
    gone = left_out_notes(left_out)
    if len(left_out) == len(columns):
        raise InputError(
            f"the table has no usable column: {'; '.join(gone)}. Pass columns of numbers or of few "
            f"levels, or give the families of columns in {option(families=...)}."
        )
    hinted = [_hint_note(alike_names, *hint) for hint, alike_names in alike(hints).items()]
    kept = [i for i, label in enumerate(labels) if label not in left_out]
    chosen = {k: chosen[i] for k, i in enumerate(kept) if i in chosen}
    return Guess(chosen, kept, [kept.index(i) for i in counts], (*gone, *notes, *hinted))


def _unusable_text(labels: Sequence[Any], n_observed: int) -> str:
    """Why a column of text is left out; empty where it is a category."""
    if labels and (times := times_in(list(map(str, labels[:1000])))):
        return times
    n = len(labels)
    if n == n_observed >= _FEWEST_NAMED or n > max(_SURELY_FEW, n_observed / 2):
        return "it names the rows, nearly every text is another one"
    return ""


def _unusable_numbers(observed: Array, n_rows: int, name: str) -> str:
    """Why a column of whole numbers is left out; empty where it may be a measurement."""
    first, last = observed.min(), observed.max()
    if _YEAR_NAME.search(name) and first >= FIRST_YEAR and last <= LAST_YEAR:
        return "years"
    if len(observed) < _FEWEST_NAMED:
        return ""
    if first > FIRST_YEAR * 10_000 and last < (LAST_YEAR + 1) * 10_000 and _are_days(observed):
        return "dates"
    if len(observed) < n_rows:
        return ""
    with np.errstate(invalid="ignore", over="ignore"):  # infinite numbers are refused later
        if (np.diff(observed.astype(np.float64)) == 1).all():
            return _NUMBERS_ROWS
    named = _ID_NAME.search(name) and len(np.unique(observed)) > len(observed) / 2
    return _NUMBERS_ROWS if named else ""


def _are_days(values: Array) -> bool:
    """Whether whole numbers are days as yyyymmdd."""
    month, day = values // 100 % 100, values % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())


def _are_counts(values: Array) -> bool:
    """Whether whole numbers begin at 0 or 1, have three values at least, and are mostly small."""
    is_range = values.min() in (0, 1) and values.max() >= 2
    return bool(is_range and np.median(values[values > 0]) <= _LARGEST_MEDIAN)


def _are_whole(values: Array) -> bool:
    if values.dtype.kind in "iub":
        return True
    first = values[:100]  # most columns of other numbers end here
    return bool((first == np.floor(first)).all() and (values == np.floor(values)).all())


def _hint(observed: Array, name: str) -> tuple[str, ...]:
    """Return what whole numbers could be taken as; empty if they look like measurements."""
    if len(observed) < _FEWEST_NAMED:
        return ()
    if observed.min() == 0 and observed.max() == 1:
        return "two values", "bernoulli", "a yes/no column"
    return ("the name of a code", "categorical", "categories") if _ID_NAME.search(name) else ()


def _hint_note(names: list[str], what: str, family: str, kind: str) -> str:
    """Return one note on columns of numbers that could be taken as something else."""
    text = f"{listed(list(map(ascii, names)), 3)} taken as numbers (gaussian), with {what}"
    return f"{text}; {option(families={names[0]: family})} takes {names[0]!a} as {kind}"
