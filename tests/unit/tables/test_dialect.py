"""Characters of CSV: which are possible, numbers with marks between thousands, and cures."""

import io

import numpy as np
import pytest

from momentmix import open_rows
from momentmix.errors import InputError
from momentmix.tables.formats.dialect import Dialect


def read(text, **options):
    return open_rows(io.BytesIO(text.encode()), **options).read_all().tolist()


def test_every_ascii_delimiter_is_read_or_refused():
    for mark in map(chr, range(128)):
        if mark in "1234":
            continue  # digits of the numbers
        text = f'x_{mark}"y"\n12{mark}34\n21{mark}43\n'.replace("x_", "#" if mark == "_" else "_")
        options = {"delimiter": mark, "decimal": "," if mark == "." else "."}
        if mark in '\0\n\r"':
            with pytest.raises(InputError, match="must not be a quote, the end of a line or NUL"):
                read(text, **options)
        else:
            assert read(text, **options) == [[12, 34], [21, 43]], ascii(mark)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": ""}, r"delimiter must be one character; got ''"),
        ({"decimal": None}, "decimal must be one character; got None"),
        ({"thousands": "  "}, "thousands must be one character"),
        ({"thousands": 7}, "thousands must be one character; got 7"),
        ({"decimal": "e"}, "decimal must not be a digit, a letter or a sign; got 'e'"),
        ({"decimal": "5"}, "must not be a digit"),
        ({"thousands": "-"}, "thousands must not be a digit, a letter or a sign"),
        ({"thousands": "\n"}, "must not be a quote, the end of a line"),
        ({"thousands": "."}, r"thousands and decimal must differ; both are '\.'"),
        ({"decimal": ",", "delimiter": ","}, "delimiter and decimal must differ"),
        ({"delimiter": "€"}, "delimiter must be an ASCII character; got .*replace it in the file"),
        ({"decimal": "\u066b"}, "decimal must be an ASCII character; got .*replace it in the"),
        ({"decimal": "\udce2"}, "decimal must be an ASCII character"),
    ],
)
def test_impossible_characters(options, message):
    with pytest.raises(InputError, match=message):
        open_rows(np.ones((2, 2)), **options)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ('a,b\n"17,405",2\n', {"thousands": ","}, [[17405, 2]]),
        ('"17,405",2\n', {"thousands": ","}, [[17405, 2]]),
        ('a\n"-1,234,567.5"\n 12 \n1e3\n', {"thousands": ","}, [[-1234567.5], [12], [1000]]),
        ('a\n"12,34,567"\n', {"thousands": ","}, [[1234567]]),  # as in India
        (
            "a;b\n17.405;1,5\n1.234.567,25;.5\n".replace(".5\n", "0,5\n"),
            {"delimiter": ";", "decimal": ",", "thousands": "."},
            [[17405, 1.5], [1234567.25, 0.5]],
        ),
        ("a\n17'405\n", {"thousands": "'"}, [[17405]]),
        ("a\n17 405\n", {"thousands": " "}, [[17405]]),
        ("a;b\n17\u00a0405,5;1\n", {"delimiter": ";", "decimal": ",", "thousands": "\u00a0"},
         [[17405.5, 1]]),
        ("a\n2_000\n", {"thousands": "_"}, [[2000]]),
        ("a,b\n1,234\n", {"thousands": ","}, [[1, 234]]),  # not quoted: two fields
        ('a,b\n"1,000",NA\n"2,000",3\n', {"thousands": ",", "missing": "drop"}, [[2000, 3]]),
    ],
)  # fmt: skip
def test_thousands(text, options, expected):
    assert read(text, **options) == expected


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("1,5", {"thousands": ","}),
        ("1,2345", {"thousands": ","}),
        ("1234,567", {"thousands": ","}),
        (",123", {"thousands": ","}),
        ("1,,234", {"thousands": ","}),
        ("1,234,", {"thousands": ","}),
        ("1.5,234", {"thousands": ","}),
        ("1.5", {"thousands": ".", "decimal": ",", "delimiter": ";"}),
    ],
)
def test_marks_elsewhere_are_not_dropped(cell, options):
    with pytest.raises(InputError, match=r"line 3, column 'a': .* is not a number"):
        read(f'a\n1\n"{cell}"\n', **options)


CURES = [
    ("17,405", {}, [{"thousands": ","}]),
    ("17,405", {"delimiter": ";"}, [{"thousands": ","}, {"decimal": ","}]),
    ("1,234,567.5", {}, [{"thousands": ","}]),
    ("1.234,5", {"delimiter": ";"}, [{"thousands": ".", "decimal": ","}]),
    ("1.234.567", {"delimiter": ";"}, [{"thousands": ".", "decimal": ","}]),
    ("1,5", {"delimiter": ";"}, [{"decimal": ","}]),
    ("17.405,5", {"delimiter": ";", "decimal": ","}, [{"thousands": "."}]),
    ("1.5", {"delimiter": ";", "decimal": ","}, [{"decimal": "."}]),
    ("17'405", {}, [{"thousands": "'"}]),
    ("17 405,5", {"delimiter": ";"}, [{"thousands": " ", "decimal": ","}]),
]


@pytest.mark.parametrize(("cell", "given", "cures"), CURES)
def test_messages_offer_options_that_help(cell, given, cures):
    text = f'a{given.get("delimiter", ",")}b\n"{cell}"{given.get("delimiter", ",")}2\n'
    with pytest.raises(InputError, match=r"line 2, column 'a': .* is not a number") as caught:
        read(text, **given)
    for cure in cures:
        passed = ", ".join(f"{name}={value!r}" for name, value in cure.items())
        assert f"pass {passed}" in str(caught.value)
        assert len(read(text, **{**given, **cure})) == 1


def test_no_circle_between_decimal_and_delimiter():
    with pytest.raises(InputError, match="not a number") as caught:
        read('a,b\n"17,405",2\n')
    message = str(caught.value)
    assert "If it has ',' between thousands: pass thousands=','." in message
    assert "pass decimal=',', and have the fields separated by another character" in message
    assert message.count("pass ") == 2  # no marks that the cell does not hold


def test_a_word_has_no_such_cure():
    assert Dialect().cures("Ulm") == []
    assert Dialect().cures("1,2,3") == []
    with pytest.raises(InputError, match=r"'Ulm' is not a number\. Repair the line"):
        read("a\nUlm\n1\n")
