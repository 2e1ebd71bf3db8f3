"""Where the lines of CSV text end: at LF, CR or CRLF outside quotes.

A quote counts at the start of a field only, as for Python's csv module and pyarrow; any other one
is a character like the rest. Text comes in stretches, and no byte is read twice: a quote that stays
open costs no more than one that is closed.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]

_QUOTE = ord('"')
_LINE_END = re.compile(rb"\r\n|\r|\n")


def count_lines(text: bytes) -> int:
    """Number of ends of lines, those in quotes among them."""
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def end_of_line(text: bytes, number: int) -> int:
    """First byte after the line with this number, from 1; lines end in quotes too."""
    end = 0
    for _ in range(number):
        line_end = _LINE_END.search(text, end)
        end = len(text) if line_end is None else line_end.end()
    return end


class LineFinder:
    """Finds the last line that ends in each stretch of a text.

    Parameters
    ----------
    delimiter : str
        Between fields, one ASCII character.

    Attributes
    ----------
    inside : bool
        Whether the text so far ends inside quotes.
    opened : int
        Place in the whole text of the quote that opened the last quoted field.
    length : int
        Bytes of the text so far.
    """

    def __init__(self, delimiter: str) -> None:
        self.inside, self.opened, self.length = False, 0, 0
        self._before = ord("\n")  # the last byte so far
        self._closed = False  # it is a quote that closed a field
        self._before_field = np.zeros(256, dtype=bool)
        self._before_field[[ord(delimiter), ord("\r"), ord("\n")]] = True

    def feed(self, text: bytes) -> int:
        """First byte after the last line that ends in this stretch; 0 if none does.

        A stretch must not be empty, nor end between CR and LF.
        """
        inside = int(self.inside)
        quotes = self._quotes(text)
        opening, closing = quotes[inside::2], quotes[1 - inside :: 2]
        self.inside = len(opening) + inside > len(closing)
        starts = closing + 1 if inside else np.r_[0, closing + 1]  # of text outside quotes
        stops = opening if self.inside else np.r_[opening, len(text)]
        self._closed = bool(quotes.size and quotes[-1] == len(text) - 1 and not self.inside)
        self.length += len(text)
        self._before = text[-1]
        for i in range(len(starts) - 1, -1, -1):
            end = _last_line_end(text, int(starts[i]), int(stops[i]))
            if end:
                return end
        return 0

    def _quotes(self, text: bytes) -> Places:
        """Places of the quotes that open or close; two of them within quotes close and open."""
        places = _find_quotes(text)
        if not places.size:
            return places
        before = np.frombuffer(text, np.uint8)[places - 1]
        if places[0] == 0:
            before[0] = self._before
        fields, doubled = self._before_field[before], before == _QUOTE
        if places[0] == 0:
            doubled[0] &= self._closed
        if not (fields | doubled)[int(self.inside) :: 2].all():
            chosen = _without_stray(fields, doubled, self.inside)
            places, fields = places[chosen], fields[chosen]
        opened = places[int(self.inside) :: 2][fields[int(self.inside) :: 2]]
        if opened.size:
            self.opened = self.length + int(opened[-1])
        return places


def _find_quotes(text: bytes) -> Places:
    if b'"' not in text:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.frombuffer(text, np.uint8) == _QUOTE)


def _without_stray(
    fields: NDArray[np.bool_], doubled: NDArray[np.bool_], inside: bool
) -> NDArray[np.bool_]:
    """Which of the quotes open or close, one after the other.

    Parameters
    ----------
    fields, doubled : array of bool
        Whether a quote stands at the start of a field, or right after another one.
    inside : bool
        Whether a quote is open before the first one.
    """
    chosen = np.zeros(len(fields), dtype=bool)
    closed = True  # the quote before this one closed a field
    for i, (field, double) in enumerate(zip(fields.tolist(), doubled.tolist(), strict=True)):
        if inside:
            inside, closed, chosen[i] = False, True, True
        elif field or (double and closed):
            inside = chosen[i] = True
        else:
            closed = False
    return chosen


def _last_line_end(text: bytes, start: int, stop: int) -> int:
    return max(text.rfind(b"\n", start, stop), text.rfind(b"\r", start, stop)) + 1
