"""The fast readers of CSV against the careful one: the same bits, and nothing that it refuses."""

import io
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from momentmix import open_rows
from momentmix.errors import InputError
from momentmix.rows.csv import numbers
from momentmix.rows.csv.dialect import NULLS, Dialect
from momentmix.rows.csv.reader import CsvStream

DIALECTS = [
    Dialect(","),
    Dialect(";", ","),
    Dialect(";", ".", ","),
    Dialect(",", ".", ","),
    Dialect("\t", ",", "."),
    Dialect("|", ".", "'"),
    Dialect(" "),
]
ODD = [
    "1e5", "1E+5", "-1e-5", "1e", "e5", "1.", ".5", "-.5", ".", "+1", "--1", "0x10", "1_000",
    "1e400", "-1e400", "1e-400", "5e-324", "-0", "-0.0", "1,5", "1.234,5", "1,234.5", "12,34",
    "1'000", "inf", "-inf", "Infinity", "INF", "nan(1)", "-nan", "+nan", "NaN", " 1", "1 ", "\t2",
    "\u00a03", " NA", "NA ", '"1.5"', '"NA"', '""', '" 1 "', '"1"2', '1"2', '"1""2"', "true", "x",
    "١٢", "1\u00b2", "1d5", "1f", "0.1e1.5", "\x00", "1\x00", "９", "9007199254740993",
    "123456789012345678901234567890", "0.1000000000000000055511151231257827", "\ufeff1",
    "2.2250738585072011e-308", "1.7976931348623159e308", "1" * 400, "0." + "0" * 400 + "1", "#1",
    "1#", "1;2", "1 2",
]  # fmt: skip
number = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.sampled_from([*ODD, *NULLS]),
    st.text("0123456789+-.,eE'_ \tninfa\"\u00a0", max_size=8),
)
line_ends = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def tables(draw):
    """Dialect, text, number of columns, and those that are read."""
    dialect = draw(st.sampled_from(DIALECTS))
    width = draw(st.integers(1, 4))
    plain = draw(st.floats(allow_nan=False, allow_infinity=False)) if draw(st.booleans()) else 1.5
    first = str(dialect.delimiter).join([repr(plain).replace(".", dialect.decimal)] * width)
    rows = draw(st.lists(st.lists(number, min_size=width, max_size=width + 1), max_size=5))
    lines = [first, *(str(dialect.delimiter).join(row) for row in rows)]
    text = "".join(line + draw(line_ends) for line in lines)
    columns = draw(st.permutations(range(width)))[: draw(st.integers(1, width))]
    return dialect, text, width, columns


def check_same(reader, dialect, text, width, columns):
    """Whether the fast reader took it; if so, the careful one gives the same bits."""
    chunk = text.encode()
    if not chunk.strip(b"\r\n"):
        return False  # no reader is given blank lines alone
    try:
        fast = reader(chunk, columns, width, dialect)
    except ValueError:
        return False
    table = CsvStream(io.BytesIO(b"0" * 9), Dialect())
    table.dialect, table.delimiter = dialect, str(dialect.delimiter)
    table.n_columns, table.column_names = width, None
    careful = table._parsed_slowly(chunk, 1, columns)
    assert fast.shape == careful.shape
    same = (fast.view(np.int64) == careful.view(np.int64)) | (np.isnan(fast) & np.isnan(careful))
    assert same.all(), (fast, careful)
    return True


@given(tables())
def test_pyarrow_takes_nothing_that_the_careful_reader_does_not(table):
    check_same(numbers._by_arrow, *table)


@given(tables())
def test_numpy_takes_nothing_that_the_careful_reader_does_not(table):
    check_same(numbers._by_numpy, *table)


@pytest.mark.parametrize("reader", [numbers._by_arrow, numbers._by_numpy])
@pytest.mark.parametrize("text", [*ODD, *NULLS])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_odd_text(reader, text, dialect):
    line = f"1{dialect.delimiter}{text}\n"
    check_same(reader, dialect, line, 2, [0, 1])
    check_same(reader, dialect, line, 2, [1])
    check_same(reader, dialect, f"{text}\n", 1, [0])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@example([5e-324, -0.0, 1.7976931348623157e308])
def test_both_take_plain_numbers(values):
    text = "".join(f"{value!r},{value:.17e}\n" for value in values)
    for reader in (numbers._by_arrow, numbers._by_numpy):
        assert check_same(reader, Dialect(","), text, 2, [1, 0])


def test_little_text_needs_no_pyarrow(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "pyarrow")
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1.5,NA\n-2e3,4\n")
    found = open_rows(path, missing="drop").read_all()
    assert "pyarrow" not in sys.modules
    np.testing.assert_array_equal(found, [[-2000.0, 4.0]])


@pytest.mark.parametrize("columns", [None, [0], [1]])
def test_a_repeated_header_is_refused_whatever_is_read(tmp_path, columns):
    (tmp_path / "x.csv").write_text("a,5\n1,2\na,5\n3,4\n")
    with pytest.raises(InputError, match=r"line 3 repeats the header"):
        open_rows(tmp_path / "x.csv", columns=columns, missing="drop").read_all()
