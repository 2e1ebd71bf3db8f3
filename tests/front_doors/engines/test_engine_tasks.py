"""What Spark and Ray share, with an engine that is a list of Arrow tables in this process."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import momentmix as mm
from momentmix.engines.adapter import added, result_rows, summarize
from momentmix.errors import InputError

OPTIONS = {
    "columns": None, "exclude": None, "families": None, "missing": "error", "min_rows": 1,
    "squared_order": None, "shard_id": None,
}  # fmt: skip


class Listed:
    """Tables, whose last batch may be followed by an error of the storage."""

    name, parts = "the list", "tables"

    def __init__(self, tables, failure=None):
        self.tables, self.failure = tables, failure
        self.columns = tables[0].column_names

    def head(self, names):
        return pa.concat_tables(self.tables).select(names).slice(0, 300)

    def met(self, names, listed):
        whole = pa.concat_tables(self.tables)
        cells = [whole.column(name) for name in names]
        levels = [x.unique().drop_null().to_pylist() for x in cells]
        return [
            (x.null_count > 0, own if name in listed else [])
            for name, x, own in zip(names, cells, levels, strict=True)
        ]

    def _batches(self, number, names):
        yield from self.tables[number].select(names).to_batches()
        if self.failure is not None:
            raise self.failure

    def groups(self, task):
        results = []
        for i in range(len(self.tables)):
            part, batches = f"table {i}", self._batches(i, task.sent)
            rows = result_rows(part, lambda p=part, b=batches: task.groups(b, p))
            results += [{"key": None, "summary": None, "error": None, **row} for row in rows]
        return added(results)


def drawn(n_rows, seed):
    rng = np.random.default_rng(seed)
    return pa.table({
        "x": rng.normal(5, 2, n_rows),
        "y": rng.exponential(size=n_rows),
        "store": pa.array(rng.choice(["a", "b", None], n_rows), pa.string()),
        "time": np.datetime64("2026-01-05T00", "us") + rng.integers(0, 4, n_rows) * 3600 * 10**6,
    })  # fmt: skip


TABLES = [drawn(400, 1), drawn(0, 2), drawn(300, 3)]


def test_tables_give_the_sums_of_all_their_rows(check_same):
    options = OPTIONS | {"columns": ["y", "x"]}
    found = summarize(Listed(TABLES), 2, None, **options)
    check_same(found, mm.summarize(pa.concat_tables(TABLES), 2, columns=["y", "x"]))
    assert len(found.shard_ids) == 2  # a table without rows is no shard
    again = summarize(Listed(TABLES), 2, None, **options)
    assert again.to_bytes() == found.to_bytes()


def test_groups_keep_the_values_of_their_keys(check_same):
    by, options = ["store", "hour(time)", "day(time)"], OPTIONS | {"columns": ["x", "y"]}
    found = summarize(Listed(TABLES), 2, by, **options)
    expected = mm.summarize_by(pa.concat_tables(TABLES), by, 2, columns=["x", "y"])
    assert list(found) == list(expected)
    assert (None, dt.datetime(2026, 1, 5, 3), dt.date(2026, 1, 5)) in found
    for key in expected:
        check_same(found[key], expected[key])


@pytest.mark.parametrize("missing", ["model", "drop"])
def test_levels_and_missing_cells_are_those_of_all_rows(missing, check_same):
    """The first rows lack a level, and have no missing cells."""
    late = pa.table({"x": [None, 5.0], "plan": ["new", None], "ok": [True, None], "n": [3, 4]})
    columns = {"plan": ["a", "b"] * 200, "ok": [True, False] * 200, "n": [0, 1] * 200}
    tables = [pa.table({"x": np.linspace(0, 9, 400), **columns}), late]
    options = OPTIONS | {"missing": missing, "families": {"n": "categorical"}}
    found = summarize(Listed(tables), 2, None, **options)
    whole = pa.concat_tables(tables)
    expected = mm.summarize(whole, 2, missing=missing, families={"n": "categorical"})
    assert found.feature_names == expected.feature_names
    assert found.schema.columns[1].levels == ("a", "b", "new")
    check_same(found, mm.summarize(whole, 2, missing=missing, families=found.schema))
    many = pa.table({"x": np.arange(2e3), "plan": ["a", "b"] * 450 + [*map(str, range(1100))]})
    with pytest.raises(InputError, match="the list, column 'plan' has more than 1000 different"):
        summarize(Listed([many]), 2, None, **OPTIONS | {"columns": ["x", "plan"]})


def test_rows_that_are_refused_and_tables_without_rows():
    gap = pa.table({"x": pa.array([None, 1.0]), "y": [0.5, 2.0]})
    families = mm.schema_from({"x": [0.5, 1.5], "y": [0.5, 2.5]})
    options = OPTIONS | {"families": families}
    with pytest.raises(InputError, match="table 1, row 0, column 'x', is missing"):
        summarize(Listed([TABLES[0], gap]), 2, None, **options)
    with pytest.raises(InputError, match="the list has no column 'z'; there are 'x', 'y'"):
        summarize(Listed([gap]), 2, "z", **options)
    for rows in (TABLES[1], gap.slice(0, 1)):
        with pytest.raises(InputError, match="at least one row; all tables are empty"):
            summarize(Listed([rows]), 2, None, **options | {"missing": "drop"})


@pytest.mark.parametrize("by", [None, "store"])
@pytest.mark.parametrize("number", [0, 1])
def test_what_ends_the_rows_is_raised_as_it_is(by, number):
    """An engine tries a task again whose rows did not come, and only then."""
    rows = Listed([TABLES[number]], OSError("storage did not answer"))
    options = OPTIONS | {"families": mm.schema_from({"x": [0.5, 1.5], "y": [0.5, 2.5]})}
    with pytest.raises(OSError, match=r"^storage did not answer$"):
        summarize(rows, 2, by, **options)
