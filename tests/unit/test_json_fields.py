"""One declaration writes an object and reads it back, and says where a file is wrong."""

import json
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace

import numpy as np
import pytest

from momentmix.json_fields import (
    Fields,
    array,
    boolean,
    check_version,
    choice,
    format_strict,
    integer,
    list_of,
    map_of,
    number,
    optional,
    parse_strict,
    text,
)


class Color(Enum):
    RED = "red"


@dataclass
class Inner:
    color: Color
    table: np.ndarray


INNER = Fields(
    lambda values: Inner(**values), {"color": choice(Color), "table": array(2, None, nulls=True)}
)
OUTER = Fields(
    lambda values: SimpleNamespace(**values),
    {
        "count": integer(0),
        "share": number(0.0, 1.0),
        "name": text,
        "names": list_of(text),
        "by_name": map_of(text),
        "is_set": boolean,
        "inner": INNER,
        "inners": list_of(INNER),
        "nothing": optional(text),
        "inside": number(),
    },
    attributes={"inside": "inner.table.size"},
)


@pytest.fixture
def document():
    inner = Inner(Color.RED, np.array([[1.0, np.nan], [np.inf, -0.0]]))
    value = SimpleNamespace(
        count=np.int64(3), share=np.float64(0.1), name="x", names=("a", "b"), by_name={"a": "b"},
        is_set=np.True_, inner=inner, inners=[inner], nothing=None,
    )  # fmt: skip
    return json.loads(json.dumps(OUTER.encode(value), allow_nan=False))


def test_what_was_written_is_read_back(document):
    assert list(document) == list(OUTER.fields)
    assert document["inside"] == 4.0
    assert document["inner"] == {"color": "red", "table": [[1.0, None], [None, -0.0]]}
    found = OUTER(document, "file")
    assert (found.count, found.share, found.names, found.nothing) == (3, 0.1, ["a", "b"], None)
    assert found.is_set is True
    assert found.inner.color is Color.RED
    np.testing.assert_array_equal(found.inners[0].table, [[1.0, np.nan], [np.nan, -0.0]])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("count", True, "^file.count must be an integer$"),
        ("count", -1, "^file.count is -1, out of range$"),
        ("share", 2, "^file.share is 2, out of range$"),
        ("share", "2", "^file.share must be a number or null$"),
        ("name", 1, "^file.name must be a string$"),
        ("names", ["a", 1], "^file.names must be a string$"),
        ("by_name", [], "^file.by_name must be an object$"),
        ("is_set", 1, "^file.is_set must be true or false$"),
        ("inners", {}, "^file.inners must be a list$"),
        ("inners", [{}], "^file.inners lacks color, table$"),
        ("inner", {"color": "red", "table": [[1.0]]}, r"^file.inner.table .* lists \(2, None\)$"),
        ("inner", {"color": "blue", "table": [[1], [1]]}, "^file.inner.color must be one of 'red'"),
        ("more", 1, "^file holds unknown keys: 'more'$"),
    ],
)
def test_where_and_what_is_wrong(document, key, value, message):
    with pytest.raises(ValueError, match=message):
        OUTER({**document, key: value}, "file")


def test_a_document_without_a_name_is_it():
    with pytest.raises(ValueError, match=r"^it lacks a$"):
        Fields(dict, {"a": text})({}, "")
    with pytest.raises(ValueError, match=r"^a must be a string$"):
        Fields(dict, {"a": text})({"a": 1}, "")
    assert Fields(dict, {"a": text}, may_lack={"a"})({}, "") == {}


@pytest.mark.parametrize("document", [{"version": 2}, {"version": True}, {}, []])
def test_another_version_is_refused(document):
    check_version({"version": 1}, "file", 1)
    with pytest.raises(ValueError, match=r"^file has version .*; this momentmix reads version 1$"):
        check_version(document, "file", 1)


def test_defaults_are_not_written_and_may_be_absent():
    fields = Fields(dict, {"a": integer(), "b": text}, defaults={"b": ""})
    plain = SimpleNamespace(a=1, b="")
    assert fields.encode(plain) == {"a": 1}
    assert fields({"a": 1}, "") == {"a": 1}
    other = SimpleNamespace(a=1, b="log")
    assert fields(fields.encode(other), "") == {"a": 1, "b": "log"}
    with pytest.raises(ValueError, match="it lacks a"):
        fields({"b": "log"}, "")


VALUES = {
    "text": '\x00\x1b\x7f\x9b\u2028\u202e\ud800é温\\"',
    "numbers": [0, -1, 10**30, 0.1, 1e-320, -0.0],
    "nested": {"a": [{"b": None}, True]},
}


def test_texts_are_printable_and_read_back_as_they_were():
    text = format_strict(VALUES)
    assert text.isascii()
    assert text.isprintable()
    assert parse_strict(text) == VALUES


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), np.float64("nan")])
def test_what_is_not_finite_becomes_null_at_any_depth(bad):
    found = format_strict({"a": bad, "b": [1.0, (bad, {"c": bad})]}, indent=1)
    assert json.loads(found) == {"a": None, "b": [1.0, [None, {"c": None}]]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, True), (0.5, True), (10**308, True), (10**400, False), (-(10**400), False), (True, False),
     (None, False), ("1", False), (float("inf"), False), ([], False)],
)  # fmt: skip
def test_which_values_a_double_can_hold(value, expected):
    decode = array(None)
    if expected:
        assert decode([value], "x").tolist() == [float(value)]
    else:
        with pytest.raises(ValueError, match="must be numbers"):
            decode([value], "x")
