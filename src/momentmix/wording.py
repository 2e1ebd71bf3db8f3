"""Texts for people: numbers of three digits, lists of at most so many names, keywords."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import floor, isfinite, log10
from shlex import quote
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_SHOWN = 2000  # letters of a repr, whatever the size of the object
_LARGEST, _LEAST = 1e9, 1e-4  # numbers beyond are written with an exponent


def short_number(value: float, finest: float | None = None) -> str:
    """Format three significant digits, or as many as show the difference `finest`.

    >>> [short_number(x) for x in (1234.6, 0.5, -12.34, 2e12, 3e-7, 0.0)]
    ['1,230', '0.500', '-12.3', '2.00e+12', '3.00e-07', '0']
    >>> short_number(1000.25, finest=0.1)
    '1,000.2'
    """
    if not isfinite(value) or value == 0:
        return str(value) if value else "0"
    places = 2 - _exponent(value)
    if finest is not None and isfinite(finest) and finest != 0:
        places = max(places, -_exponent(finest))
    if not _LEAST <= abs(value) < _LARGEST:
        return f"{value:.{min(max(places + _exponent(value), 0), 15)}e}"
    rounded = round(value, min(places, 15))
    if rounded != 0 and places > 0 and _exponent(rounded) > _exponent(value):
        places -= finest is None  # 9.996 is 10.0
    return f"{rounded:,.{max(0, min(places, 15))}f}"


def numbers_apart(*values: float) -> list[str]:
    """Format numbers with as many digits as it takes to see the first apart from the others.

    >>> numbers_apart(109.3, 126.4), numbers_apart(1234.6, 5.2), numbers_apart(60.0, 54.0)
    (['109', '126'], ['1,230', '5.2'], ['60', '54'])
    >>> numbers_apart(8.9e-16, 4.0)
    ['0', '4']
    """
    apart = min(abs(values[0] - value) for value in values[1:])
    least = min(1e-3 * apart, 1.0)  # less is nothing beside the difference
    texts = [short_number(x if abs(x) >= least else 0.0, apart / 10) for x in values]
    fractions = [text for text in texts if "." in text]
    while fractions and all(text[-1] == "0" and "e" not in text for text in fractions):
        texts = [(text[:-1] if "." in text else text).removesuffix(".") for text in texts]
        fractions = [text for text in texts if "." in text]
    return texts


def cleared(values: Iterable[float]) -> list[float]:
    """Return numbers with those at 0 that are nothing beside the largest: errors of rounding.

    >>> cleared([9.8e-14, 1.0, -2.0])
    [0.0, 1.0, -2.0]
    """
    numbers = list(values)
    largest = max((abs(x) for x in numbers if isfinite(x)), default=0.0)
    return [0.0 if abs(x) < 1e-9 * largest else x for x in numbers]


def number_text(value: float) -> str:
    """Format a round number with all its digits: 4,500 or 0.25."""
    return f"{value:,.10g}"


def roundest(least: float, most: float) -> float:
    """Return the number between two others that has the fewest digits.

    >>> roundest(41.2, 44.9), roundest(0.0312, 0.0318), roundest(-3.0, 8.0), roundest(18.0, 19.0)
    (44.0, 0.0315, 0.0, 18.0)
    """
    if least <= 0 <= most:
        return 0.0
    middle = 0.5 * least + 0.5 * most
    power = _exponent(max(abs(least), abs(most))) + 1
    for exponent in range(power, power - 17 * (least < most), -1):
        for size in (10, 5, 2):
            step = float(f"{size}e{exponent - 1}")
            rounded = round(middle / step) * step
            if least <= rounded <= most:
                return float(f"{rounded:.15g}")
    return middle


def percent(share: float) -> str:
    """Format a share in percent: whole from 10 % on, with one digit more below.

    >>> [percent(x) for x in (0.256, 0.0312, 0.0002, 0.0, 0.9999, 1.0)]
    ['26 %', '3.1 %', '< 0.1 %', '0 %', '> 99.9 %', '100 %']
    """
    if not isfinite(share):
        return str(share)
    if 0 < share < 5e-4:
        return "< 0.1 %"
    if 0.9995 < share < 1:
        return "> 99.9 %"
    digits = 1 if 0 < share < 0.0995 or 0.995 <= share < 1 else 0
    return f"{100 * share:.{digits}f} %"


def no_group(share: float) -> str:
    """Format the share of a background."""
    return f"belongs to no group: {percent(share)}"


def whole_percent(share: float) -> str:
    """Format a share in whole percent, rounded down: 100 % is all."""
    return f"{floor(100 * share + 1e-9)} %"


def p_text(p: float) -> str:
    """Format a p-value with two digits; those below 0.0001 are not written out.

    >>> [p_text(p) for p in (2e-7, 0.0312, 0.999, float("nan"))]
    ['< 0.0001', '0.031', '1', '–']
    """
    if p != p:
        return "–"
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}" if p < 0.995 else "1"


def size_text(n_bytes: float) -> str:
    """Format a number of bytes."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.3g} TiB"


def _exponent(value: float) -> int:
    """Power of ten of the first digit."""
    return floor(log10(abs(value)))


# -- names and lines -------------------------------------------------------------------------------


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, with columns of equal width."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def plural(count: int) -> str:
    """The ending of a noun."""
    return "" if count == 1 else "s"


def listed(names: Sequence[str], most: int) -> str:
    """Join the first names by commas.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask for the known name that is most like this one, in any case; "" if none is.

    >>> did_you_mean("Lones", ["loans", "age"]), did_you_mean("zip", ["loans", "age"])
    (" Did you mean 'loans'?", '')
    """
    by_small = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), by_small, n=1)
    return f" Did you mean {by_small[close[0]]!a}?" if close else ""


def cut(text: str, most: int) -> str:
    """A text of at most so many letters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def cut_middle(text: str, most: int) -> str:
    """A text of at most so many letters, with its beginning and its end.

    >>> cut_middle("How do you feel today? (12)", 16)
    'How do yo…? (12)'
    """
    last = most * 3 // 8
    return text if len(text) <= most else f"{text[: most - last - 1]}…{text[len(text) - last :]}"


def cut_lines(text: str, most: int = _MOST_SHOWN) -> str:
    r"""Keep the first lines of a text, with at most so many letters in all.

    >>> print(cut_lines("one\ntwo\nthree and four", 12))
    one
    two
    …
    """
    if len(text) <= most:
        return text
    end = text.rfind("\n", 0, most - 1)
    return f"{text[:end]}\n…" if end > 0 else cut(text, most)


def short_repr(cls: type[T]) -> type[T]:
    """A class whose repr has at most 2,000 letters, however large its arrays and lists are."""
    full = cls.__repr__
    setattr(cls, "__repr__", lambda self: cut(full(self), _MOST_SHOWN))  # noqa: B010, for mypy
    return cls


# -- keywords --------------------------------------------------------------------------------------


def option(**keyword: Any) -> str:
    """A keyword argument as code, then the option of the command in brackets.

    An ellipsis stands for a value that the user has to choose.

    >>> option(missing="drop"), option(exclude=...), option(header=False)
    ('missing="drop" (--missing drop)', 'exclude= (--exclude)', 'header=False (--no-header)')
    >>> print(option(families={"late fees": "log"}))
    families={"late fees": "log"} (--families 'late fees=log')
    >>> option(families={"plan": ["basic", "gold"]})
    'families={"plan": ["basic", "gold"]} (--schema)'
    >>> print(option(blocks=[["a", "b"], ["c", 3]]))
    blocks=[["a", "b"], ["c", 3]] (--blocks 'a,b;c,3')
    """
    ((key, value),) = keyword.items()
    return f"{key}={'' if value is ... else in_python(value)} ({_of_command(key, value)})"


def in_python(value: Any) -> str:
    """The value as code, with double quotes."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{in_python(k)}: {in_python(x)}' for k, x in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(in_python, value))}]"
    text = ascii(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and '"' not in text else text


def _of_command(key: str, value: Any) -> str:
    """The option of the command."""
    name = f"--{key.replace('_', '-')}"
    if value is ... or isinstance(value, bool):
        return name if value else f"--no-{key}"
    if isinstance(value, Mapping):
        pairs = [f"{column}={family}" for column, family in value.items()]
        value = ",".join(pairs)
        if value.count(",") >= len(pairs) or not value.isprintable():
            return "--schema"  # has names with commas, and lists of levels
    elif isinstance(value, list):  # of blocks
        value = ";".join(",".join(map(str, group)) for group in value)
    return f"{name} {quote(str(value))}"


# Phrases of several messages.
NEED_ROWS = "fit the rows, which a summary does not hold"
NO_MAR = (
    f"{option(missing='mar')} needs passes over the rows, which a summary does not hold: where "
    "cells are missing by what is seen of their row, the moments of seen cells are not those of "
    'all cells. Fit the rows, or use missing="model" or "drop".'
)
