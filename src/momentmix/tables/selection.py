"""Columns to take of each table: by a name that one column has, or by number."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

from momentmix.errors import InputError, InputTypeError
from momentmix.tables.names import (
    check_encodable,
    left_out_notes,
    match_names,
    matching,
    number_of,
)
from momentmix.tables.source import Source
from momentmix.wording import option

_USABLE = ("number", "bool", "mixed", "text")  # kinds of columns that can be features


def choose_columns(table: Source, columns: Sequence[str | int] | None) -> list[int]:
    """Return the numbers of the chosen columns; None for all, whose names must then differ."""
    names = table.column_names
    if columns is None:
        _check_different(table, names or ())
        return list(range(table.n_columns))
    if isinstance(columns, str):
        raise InputTypeError(f"columns must be a list of names or numbers; got {columns!r}.")
    note = table.header_note  # the names may be the first row
    said = f" Note: {note}." if note else ""
    named, chosen = list[int](), list[list[int]]()
    for column in columns:
        numbers = matching(column, names)
        if not numbers:
            problem = f"{table.name} has no column"
            numbers = [number_of(column, names, table.n_columns, problem, said)]
            named += numbers
        if isinstance(column, str):
            _check_different(table, [column])
        chosen.append(numbers)
    if not chosen or len(set(named)) != len(named):
        raise InputError(f"columns must be different, and at least one; got {list(columns)!a}.")
    return list(dict.fromkeys(chain.from_iterable(chosen)))


def _check_different(table: Source, names: Iterable[str]) -> None:
    """Raise where several columns have one of these names."""
    numbers = defaultdict[str, list[str]](list)
    for i, name in enumerate(table.column_names or ()):
        numbers[name].append(str(i))
    repeated = [name for name in sorted({*names}) if len(numbers[name]) > 1][:5]
    if repeated:
        listed = (f"{name!a} (columns {', '.join(numbers[name][:5])})" for name in repeated)
        raise InputError(
            f"{table.name}: names of columns must differ from each other; repeated: "
            f"{', '.join(listed)}. Choose columns by number with {option(columns=...)}, or rename "
            "them."
        )


def match_columns(first: Source, chosen: list[int], table: Source, all_columns: bool) -> list[int]:
    """The chosen columns in another table: by number if its names are the same, else by name."""
    names, others = first.column_names, table.column_names
    if names == others and (names is not None or first.n_columns == table.n_columns):
        return chosen
    if names is None or others is None:
        facts = [
            f"{x.name} has {x.n_columns} columns, with{'out' * (x.column_names is None)} names"
            for x in (first, table)
        ]
        raise InputError(
            f"all inputs must have the same columns; {', '.join(facts)}. Write names into both, or "
            f"pass {option(header=True)} or {option(header=False)} if the first lines of both are "
            "names, or rows."
        )
    wanted = [names[i] for i in chosen]
    for source in (first, table):
        _check_different(source, wanted)
    return match_names(wanted, others, first.name, others=not all_columns, of=f"{table.name}: ")


def usable_columns(
    tables: Sequence[Source],
    columns: Sequence[Sequence[int]],
    exclude: Sequence[str | int] | None,
    asked: bool,
) -> tuple[list[int], tuple[str, ...]]:
    """Places of usable columns, and notes on others; dates that were `asked` for are an error."""
    first = tables[0]
    excluded = set() if exclude is None else set(choose_columns(first, exclude))
    places, refused, dates = list[int](), list[str](), dict[str, str]()
    for k, number in enumerate(columns[0]):
        if number in excluded:
            continue
        kinds = [table.kind(each[k]) for table, each in zip(tables, columns, strict=True)]
        odd = next((kind for kind in kinds if kind.kind not in _USABLE), None)
        label = first.label(number).removeprefix("column ")
        if odd is None:
            places.append(k)
        elif odd.kind == "date" and not asked:
            dates[label] = "dates"
        elif (problem := first.problem(number)) is not None:
            file = "" if first.in_memory else f"{first.name}: "
            raise type(problem)(f"{file}{problem} Or leave it out: {option(exclude=...)}.")
        else:
            refused.append(f"{label} ({odd.type})")
    if refused:
        raise InputError(
            f"{first.name}: columns must hold numbers, or text of few levels; these do not: "
            f"{', '.join(refused)}. Leave them out with {option(exclude=...)}, or convert them."
        )
    notes = left_out_notes(dates)
    if not places:
        raise InputError(
            f"{first.name} has no usable column: {'; '.join(notes) or 'all were left out'}. Choose "
            f"columns of numbers or of few levels with {option(columns=...)}."
        )
    return places, tuple(notes)


def feature_names(table: Source, chosen: Sequence[int]) -> tuple[str, ...] | None:
    """Names of the chosen columns; if several have the same one, their numbers are appended."""
    if table.column_names is None:
        return None
    names = [table.column_names[i] for i in chosen]
    check_encodable(names)
    times = Counter(names)
    numbered = zip(names, chosen, strict=True)
    return tuple(f"{name} [{i}]" if times[name] > 1 else name for name, i in numbered)
