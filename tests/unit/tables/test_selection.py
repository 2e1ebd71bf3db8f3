"""Columns that share a name: an error, unless they are chosen by number. Never another column."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import momentmix as mm
from momentmix import open_rows
from momentmix.errors import InputError

DATA = {"a": [1.0, 2, 3], "b": [10.0, 20, 30], "c": [100.0, 200, 300], "d": [7.0, 8, 9]}
KINDS = ["parquet", "feather", "arrow", "csv", "tsv", "stream", "pandas", "pyarrow", "batch"]


def made(folder, names, kind, file="x", values="abcd"):
    """A table whose columns have these names, in any form."""
    arrays = [pa.array(DATA[key]) for key in values[: len(names)]]
    table = pa.Table.from_arrays(arrays, names=list(names))
    path = folder / f"{file}.{kind}"
    if kind == "pyarrow":
        return table
    if kind == "batch":
        return table.to_batches()[0]
    if kind == "pandas":
        frame = pd.DataFrame({i: DATA[key] for i, key in enumerate(values[: len(names)])})
        return frame.set_axis(list(names), axis=1)
    if kind in ("csv", "tsv", "stream"):
        separator = "\t" if kind == "tsv" else ","
        rows = [names, *zip(*(map(str, DATA[key]) for key in values[: len(names)]), strict=True)]
        text = "".join(separator.join(row) + "\n" for row in rows).encode()
        if kind == "stream":
            return io.BytesIO(text)
        path.write_bytes(text)
    elif kind == "parquet":
        pa.parquet.write_table(table, path, row_group_size=2)
    else:
        writer = pa.ipc.new_file if kind == "feather" else pa.ipc.new_stream
        with writer(path, table.schema) as file:
            file.write_table(table, max_chunksize=2)
    return path


def columns(*keys):
    return np.column_stack([DATA[key] for key in keys])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("chosen", "keys", "names"),
    [
        ([0], "a", ["x"]),
        ([2], "c", ["x"]),
        ([3, 1], "db", ["z", "y"]),
        ([2, 1, 0], "cba", ["x [2]", "y", "x [0]"]),
        (["y", 2], "bc", ["y", "x"]),
    ],
)
def test_numbers_take_the_column_at_that_place(tmp_path, kind, chosen, keys, names):
    source = open_rows(made(tmp_path, ["x", "y", "x", "z"], kind), chosen).changed(block_rows=2)
    np.testing.assert_array_equal(source.read_within(np.inf)[0], columns(*keys))
    assert source.feature_names == tuple(names)


def test_patterns_of_names():
    table = {"A1": [1, 2, 1], "A2": [1, 2, 2], "B": [0.5, 1.5, 1.0], "C*": [3.0, 4.5, 5.0]}

    def families(asked, columns=None):
        chosen = mm.schema_from(table, asked, columns=columns).columns
        return {column.name: column.family_name for column in chosen}

    # A name wins over a pattern, wherever it stands, and a later pattern over an earlier one.
    assert families({"A?": "categorical", "A1": "gaussian"}, ["A?", "B"]) == {
        "A1": "gaussian", "A2": "categorical", "B": "gaussian",
    }  # fmt: skip
    assert families({"A1": "gaussian", "*": "gaussian", "[A]?": "poisson"}, ["A1", "A2"]) == {
        "A1": "gaussian", "A2": "poisson",
    }  # fmt: skip
    assert list(families({}, ["B", "A?", "A1"])) == ["B", "A1", "A2"]
    assert list(families({}, ["C*"])) == ["C*"]  # a name is no pattern
    for wrong in ("Q*", "b?"):
        with pytest.raises(InputError, match="there are 'A1', 'A2', 'B'"):
            families({wrong: "poisson"})
        with pytest.raises(InputError, match=r"has no column .* there are 'A1', 'A2', 'B'"):
            families({}, [wrong])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("names", "options"),
    [
        ("aba", {}),
        ("abb", {"columns": ["a", "b"]}),
        ("abb", {"columns": ["b"]}),
        ("abb", {"columns": [0, "b"]}),
    ],
)
def test_a_shared_name_is_refused(tmp_path, kind, names, options):
    message = r"repeated: '[ab]' \(columns \d, \d\)\. Choose columns by number with columns="
    with pytest.raises(InputError, match=message):
        open_rows(made(tmp_path, names, kind), **options)


@pytest.mark.parametrize("kind", KINDS)
def test_other_columns_may_share_a_name(tmp_path, kind):
    source = open_rows(made(tmp_path, "abb", kind), columns=["a"])
    np.testing.assert_array_equal(source.read_within(np.inf)[0], columns("a"))
    with pytest.raises(InputError, match=r"has no column 'z'; there are 'a', 'b', 'b'"):
        open_rows(made(tmp_path, "abb", kind), columns=["z"])


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        ("ab", "aba", {}, r".*2\.\w+: names .* repeated: 'a' \(columns 0, 2\)"),
        ("ab", "abb", {}, r".*2\.\w+: names .* repeated: 'b' \(columns 1, 2\)"),
        ("ab", "bb", {}, r".*2\.\w+: names .* repeated: 'b'"),
        ("ab", "abb", {"columns": ["b"]}, r".*2\.\w+: names .* repeated: 'b'"),
        ("ab", "abb", {"columns": [1]}, r".*2\.\w+: names .* repeated: 'b'"),
        ("aba", "ab", {"columns": [0]}, r".*1\.\w+: names .* repeated: 'a' \(columns 0, 2\)"),
        ("aba", "aab", {"columns": [2]}, r".*1\.\w+: names .* repeated: 'a'"),
        ("aba", "ab", {}, r"repeated: 'a'"),
    ],
)
def test_files_are_not_matched_by_a_shared_name(tmp_path, kind, first, second, options, message):
    made(tmp_path, first, kind, "1")
    made(tmp_path, second, kind, "2")
    with pytest.raises(InputError, match=message):
        open_rows(tmp_path, **options)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
def test_files_with_the_same_list_of_names_are_matched_by_number(tmp_path, kind):
    made(tmp_path, "aba", kind, "1")
    made(tmp_path, "aba", kind, "2", values="dcba")
    found = open_rows(tmp_path, columns=[2, 0]).read_within(np.inf)[0]
    np.testing.assert_array_equal(found, np.vstack([columns("c", "a"), columns("b", "d")]))
    found = open_rows(tmp_path, columns=["b"]).read_within(np.inf)[0]
    np.testing.assert_array_equal(found, np.vstack([columns("b"), columns("c")]))
