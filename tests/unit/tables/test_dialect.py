"""Characters of CSV: which are possible, and what is said of numbers in others."""

import io

import numpy as np
import pytest

from momentmix import open_rows
from momentmix.errors import InputError


def read(text, **options):
    return open_rows(io.BytesIO(text.encode()), **options).read_within(np.inf)[0].tolist()


def test_every_ascii_delimiter_is_read_or_refused():
    for mark in map(chr, range(128)):
        if mark in "1234":
            continue  # digits of the numbers
        text = f'x_{mark}"y"\n12{mark}34\n21{mark}43\n'.replace("x_", "#" if mark == "_" else "_")
        options = {"delimiter": mark, "decimal": "," if mark == "." else "."}
        if mark in '\0\n\r"':
            with pytest.raises(InputError, match="not a quote, the end of a line or NUL"):
                read(text, **options)
        else:
            assert read(text, **options) == [[12, 34], [21, 43]], ascii(mark)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": "||"}, r"delimiter must be one ASCII character.*; got '\|\|'"),
        ({"decimal": None}, "decimal must be one ASCII character.*; got None"),
        ({"decimal": "e"}, "decimal must be .* no digit or letter; got 'e'"),
        ({"decimal": "5"}, "no digit"),
        ({"decimal": ",", "delimiter": ","}, "delimiter and decimal must differ"),
        ({"delimiter": "€"}, "delimiter must be one ASCII character.*replace it in the file"),
        ({"decimal": "\u066b"}, "decimal must be one ASCII character"),
    ],
)
def test_impossible_characters(options, message):
    with pytest.raises(InputError, match=message):
        open_rows(np.ones((2, 2)), **options)


CURES = [
    ("17,405", {}, None, ","),
    ("17,405", {"delimiter": ";"}, ",", ","),
    ("-1,234,567.5", {}, None, ","),
    ("12,34,567", {}, None, ","),  # as in India
    ("1.234,5", {"delimiter": ";"}, None, "."),
    ("1.234.567", {"delimiter": ";"}, None, "."),
    ("1,5", {"delimiter": ";"}, ",", None),
    ("17.405,5", {"delimiter": ";", "decimal": ","}, None, "."),
    ("1.5", {"delimiter": ";", "decimal": ","}, ".", None),
    ("17'405", {}, None, "'"),
    ("17 405,5", {"delimiter": ";"}, None, " "),
    ("17\u00a0405", {}, None, "\u00a0"),
    ("1,2345", {"delimiter": ";"}, ",", None),
]


@pytest.mark.parametrize(("cell", "given", "decimal", "mark"), CURES)
def test_messages_offer_what_helps(cell, given, decimal, mark):
    text = f'a{given.get("delimiter", ",")}b\n"{cell}"{given.get("delimiter", ",")}2\n'
    with pytest.raises(InputError, match=r"line 2, column 'a': .* is not a number") as caught:
        read(text, **given)
    if decimal is not None:
        assert f'pass decimal="{decimal}" (--decimal {decimal})' in str(caught.value)
        assert len(read(text, **{**given, "decimal": decimal})) == 1
    marks = f"has {mark!a} between thousands: write it without"
    assert (marks in str(caught.value)) == (mark is not None)
