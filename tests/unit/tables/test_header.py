"""First lines of numbers: names of columns, or a row."""

import io

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.errors import InputError

N = 120


@pytest.fixture
def rows():
    return np.random.default_rng(3).normal(size=(N, 3)).round(6)


def written(path, frame, **options):
    """A CSV file, perhaps compressed, or a workbook."""
    if path.suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, **options)
    else:
        frame.to_csv(path, **options)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "5,3,4\n1,2,9\n0,1,2\n7,7,7\n",  # whole numbers that do not count
        "0\n1\n1\n0\n",  # answers, one column
        "1\n2\n3\n",
        "0,1,2\n",  # one line
        "0.0,1.0,2.0\n0.5,0.5,0.5\n2.5,0.5,1.5\n",  # as NumPy and pandas write numbers
        "5,5\n0.5,1.5\n2.5,3.5\n7.1,8.1\n",  # names differ
        ",1\n,2.5\n3,4.5\n",  # a gap
        "34,1,1200\n" + "".join(f"{20 + i},{i % 2},{i / 5:g}\n" for i in range(40)),
    ],
)  # fmt: skip
def test_other_numbers_are_a_row(text):
    source = mm.open_rows(io.BytesIO(text.encode()), missing="model")
    assert source.feature_names is None
    assert source.notes == ()
    assert len(source.read_within(np.inf)[0]) == text.count("\n")


def test_a_first_line_that_many_rows_are_equal_to_is_a_row(tmp_path):
    answers = np.random.default_rng(8).integers(0, 2, (N, 2))
    answers[0] = 0, 1
    path = written(tmp_path / "x.csv", pd.DataFrame(answers), index=False, header=False)
    source = mm.open_rows(path)
    assert source.n_rows == N
    assert "is taken for a row ('0', '1'); header=True (--header) reads it" in source.notes[0]
    assert mm.open_rows(path, header=True).n_rows == N - 1


@pytest.mark.parametrize("kind", ["x.csv", "x.xlsx"])
def test_header_says_otherwise(tmp_path, rows, kind):
    path = written(tmp_path / kind, pd.DataFrame(rows), index=False)
    for header, n_rows in [(True, N), (False, N + 1)]:
        assert mm.summarize(path, header=header).n_rows == n_rows
        assert mm.schema_from(path, header=header).n_columns == 3
        assert mm.fit(path, 1, header=header).n_rows == n_rows
        assert mm.open_rows(path, header=header).notes == ()
    path = written(tmp_path / kind, pd.DataFrame(rows.round(1)), index=False, header=False)
    assert mm.open_rows(path, header=True).n_rows == N - 1
    with pytest.raises(InputError, match="header must be True, False or None; got 'yes'"):
        mm.open_rows(path, header="yes")
    with pytest.raises(InputError, match=r"header= \(.*\) is for files; the rows are in memory"):
        mm.fit(rows, 1, header=True)


def test_notes_of_several_files(tmp_path, rows):
    for number, part in enumerate([rows[:50], rows[50:]]):
        pd.DataFrame(part).to_csv(tmp_path / f"{number}.csv.gz", index=False)
    source = mm.open_rows(str(tmp_path / "*.gz"))
    np.testing.assert_array_equal(source.read_within(np.inf)[0], rows)
    assert len(source.notes) == 1


def test_columns_by_names_that_are_numbers(tmp_path, rows):
    frame = pd.DataFrame(rows, columns=[2001, 2002, 2003])
    path = written(tmp_path / "x.csv", frame, index=False)
    for columns in (["2002"], [2002], [1]):
        assert mm.open_rows(path, columns=columns).feature_names == ("2002",)
    with pytest.raises(InputError, match=r"no column 'age'; .*header=False"):
        mm.open_rows(path, columns=["age"])
