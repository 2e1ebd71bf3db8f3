"""First lines of numbers: names of columns, or a row."""

import io

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.errors import FitWarning, InputError

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


@pytest.mark.parametrize("kind", ["x.csv", "x.csv.gz"])
@pytest.mark.parametrize("names", [[0, 1, 2], [1, 2, 3], [2001, 2002, 2003], [-1, 0, 1]])
@pytest.mark.parametrize("index", [False, True])
def test_numbers_above_fractions_are_names(tmp_path, rows, kind, names, index):
    path = written(tmp_path / kind, pd.DataFrame(rows, columns=names), index=index)
    source = mm.open_rows(path)
    named = [""] * index + [str(name) for name in names]
    assert source.n_rows == N
    assert source.feature_names == tuple(named)
    (note,) = source.notes
    assert "is taken for names of columns (" in note
    assert "header=False (--no-header) reads" in note
    np.testing.assert_array_equal(source.read_all()[:, index:], rows)


def test_names_that_count_stand_above_whole_numbers_too(tmp_path):
    whole = pd.DataFrame(np.random.default_rng(5).integers(0, 30, (N, 3)))
    assert mm.open_rows(written(tmp_path / "x.csv", whole, index=False)).n_rows == N
    whole.columns = [1, 2, 3]
    source = mm.open_rows(written(tmp_path / "x.csv", whole, index=False))
    assert source.n_rows == N
    assert source.feature_names == ("1", "2", "3")


@pytest.mark.parametrize(
    ("text", "n_rows"),
    [
        ('"7","9"\n3,4\n5,6\n', 2),
        ('"7"\n3\n5\n', 2),
        ('"7","9"\n"3","4"\n"5",\n', 3),  # all are quoted
        ('"0","1","2"\n"3","4","5"\n', 1),  # these count all the same
        ('7,"9"\n3,4\n', 2),
    ],
)
def test_quoted_numbers(text, n_rows):
    source = mm.open_rows(io.BytesIO(text.encode()), missing="model")
    assert len(source.read_all()) == n_rows


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
    assert len(source.read_all()) == text.count("\n")


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


def test_labels_are_those_of_the_rows(tmp_path, rows):
    path = written(tmp_path / "x.csv", pd.DataFrame(rows), index=False)
    mixture = mm.fit(rows, 2, random_state=0).mixture
    with pytest.warns(FitWarning, match="first line of .* is taken for names"):
        labels = mixture.predict(path)
    np.testing.assert_array_equal(labels, mixture.predict(rows))
    result = mm.fit(path, 2, random_state=0)
    assert any("is taken for names" in note for note in result.notes)
    assert len(result.mixture.predict(path)) == N  # by its own names: nothing to warn of
    with pytest.warns(FitWarning, match="first line of .* is taken for names"):
        assert mm.summarize(path).n_rows == N


def test_notes_of_several_files(tmp_path, rows):
    for number, part in enumerate([rows[:50], rows[50:]]):
        pd.DataFrame(part).to_csv(tmp_path / f"{number}.csv.gz", index=False)
    source = mm.open_rows(str(tmp_path / "*.gz"))
    np.testing.assert_array_equal(source.read_all(), rows)
    assert "(so in 1 more files)" in source.notes[0]


def test_names_that_stand_in_the_middle_again(tmp_path, rows):
    path = written(tmp_path / "x.csv", pd.DataFrame(rows[:, :2]), index=False)
    path.write_text(path.read_text() * 2)
    with pytest.raises(InputError, match=f"line {N + 2} repeats the header"):
        mm.open_rows(path).read_all()
    path.write_text("0,1\n" + "3,4\n5,6\n" * 30 + "0,1\n")
    assert mm.open_rows(path).n_rows == 62  # a row of whole numbers like others


def test_columns_by_names_that_are_numbers(tmp_path, rows):
    frame = pd.DataFrame(rows, columns=[2001, 2002, 2003])
    path = written(tmp_path / "x.csv", frame, index=False)
    for columns in (["2002"], [2002], [1]):
        assert mm.open_rows(path, columns=columns).feature_names == ("2002",)
    with pytest.raises(InputError, match=r"no column 'age'; .*header=False"):
        mm.open_rows(path, columns=["age"])
