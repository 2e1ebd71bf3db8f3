"""A schema as a value: names, places, equality, JSON."""

import json

import pytest

from momentmix.errors import InputError
from momentmix.families.column import Column
from momentmix.json_fields import format_strict, parse_strict
from momentmix.tables.schema import Schema

PLAN = Column("plan", "categorical", ("basic", "gold", "silver"), has_missing=True)
AGE = Column("age", has_missing=True, center=32.0)
SMOKER = Column("smoker", "bernoulli", (False, True))
VISITS = Column("visits", "poisson")
SCHEMA = Schema((Column("height"), AGE, PLAN, SMOKER, VISITS))


def test_names_and_places():
    names = ("height", "age", "age seen", "plan=gold", "plan=silver", "plan seen")
    assert SCHEMA.feature_names == (*names, "smoker", "visits")
    assert (SCHEMA.n_columns, SCHEMA.n_features) == (5, 8)
    assert SCHEMA.column_names == ("height", "age", "plan", "smoker", "visits")
    assert [list(SCHEMA.features_of(i)) for i in range(5)] == [[0], [1, 2], [3, 4, 5], [6], [7]]
    assert SCHEMA.features_of("plan") == SCHEMA.features_of(2)
    assert SCHEMA.column_of == (0, 1, 1, 2, 2, 2, 3, 4)
    assert SCHEMA.value_features == (0, 1, 3, 4, 6, 7)
    assert [SCHEMA.seen_of(i) for i in range(5)] == [None, 2, 5, None, None]
    assert not SCHEMA.is_plain
    assert Schema((Column("a"), Column("b"))).is_plain


def test_columns_without_names_are_numbered():
    columns = (Column(None), Column(None, "bernoulli", ("no", "yes"), has_missing=True))
    schema = Schema(columns)
    assert schema.feature_names == ("0", "1=yes", "1 seen")
    assert schema.column_names is None


def test_equality_and_hash():
    twin = Schema.from_dict(SCHEMA.to_dict())
    assert twin == SCHEMA
    assert hash(twin) == hash(SCHEMA)
    assert SCHEMA.with_column(1, center=33.0) != SCHEMA
    assert SCHEMA.with_column(3, levels=(0, 1)) == SCHEMA  # True is 1


def test_json_comes_back():
    text = format_strict(SCHEMA.to_dict())
    assert json.loads(text)["columns"][2] == {
        "name": "plan",
        "family": "categorical",
        "levels": ["basic", "gold", "silver"],
        "has_missing": True,
        "center": 0.0,
    }
    back = Schema.from_dict(parse_strict(text))
    assert back == SCHEMA
    assert back.columns[3].levels[1] is True


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"family": "gamma"}, "families must be"),
        ({"levels": ["a"]}, "different levels"),
        ({"levels": ["a", "a"]}, "different levels"),
        ({"levels": ["a", 1]}, "all strings, or all integers"),
        ({"levels": ["a", 1.5]}, "strings, integers or true and false"),
        ({"family": "gaussian"}, "must have no different levels"),
        ({"center": 2.0}, "only gaussian columns"),
        ({"center": None}, "only gaussian columns"),
        ({"has_missing": 1}, "true or false"),
        ({"name": 4}, "must be a string"),
        ({"extra": 0}, "unknown keys"),
    ],
)
def test_other_json_is_refused(change, problem):
    document = SCHEMA.to_dict()
    document["columns"][2] |= change
    with pytest.raises(ValueError, match=problem):
        Schema.from_dict(document)


def test_names_that_collide_are_refused():
    with pytest.raises(InputError, match=r"'plan=gold' stands for several.*Rename"):
        Schema((PLAN, Column("plan=gold")))
    with pytest.raises(InputError, match="a name, or none"):
        Schema((PLAN, Column(None)))
    with pytest.raises(InputError, match="at least one column"):
        Schema(())


@pytest.mark.parametrize("column", ["weight", 5, -1, True, 1.0])
def test_unknown_columns(column):
    with pytest.raises(InputError, match="no such column"):
        SCHEMA.features_of(column)
