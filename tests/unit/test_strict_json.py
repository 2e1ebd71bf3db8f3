import json

import numpy as np
import pytest

from momentmix.json_fields import format_strict, is_double, parse_strict

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
    assert is_double(value) is expected
