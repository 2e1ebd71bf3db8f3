"""From file to blocks: Arrow columns, blocks put together, few blocks in memory, where to stop."""

import gc
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from unit.tables.table_files import write

from momentmix import open_rows
from momentmix.errors import InputError
from momentmix.tables.cells import cells_of


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((5000, 4))


# -- Arrow columns ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["bool", "int8", "uint16", "int32", "int64", "uint64", "halffloat", "float", "double"]
)
@pytest.mark.parametrize("nulls", [False, True])
def test_numbers_of_arrow_columns_at_any_offset(kind, nulls):
    rng = np.random.default_rng(0)
    plain = rng.integers(0, 2 if kind == "bool" else 100, 50)
    python = [None if nulls and i % 3 == 1 else v for i, v in enumerate(plain.tolist())]
    if kind == "bool":
        python = [None if v is None else bool(v) for v in python]
    elif kind in ("halffloat", "float", "double"):
        python = [None if v is None else np.float16(v) for v in python]
    column = pa.array(python, kind)
    wanted = np.array([np.nan if v is None else float(v) for v in python])
    for start in range(18):
        for stop in (start, start + 1, start + 7, start + 8, start + 9, 50):
            piece = column.slice(start, stop - start)
            found = cells_of(piece)
            np.testing.assert_array_equal(found.values, wanted[start:stop])
            np.testing.assert_array_equal(found.missing(), np.isnan(wanted[start:stop]))


def test_a_column_of_nulls_only():
    for kind in ("double", "int8", "bool", "null", pa.decimal128(5, 2)):
        found = cells_of(pa.array([None, None], kind))
        np.testing.assert_array_equal(found.values, [np.nan, np.nan])
    for kind in ("string", pa.dictionary("int8", "string")):
        assert cells_of(pa.array([None, None], kind)).missing().all()


def test_hidden_numbers_of_nulls_do_not_warn(tmp_path, recwarn):
    """What lies in memory behind a null counts for nothing."""
    values = np.array([1, 2**60, 3])
    column = pa.array(values, mask=np.array([False, True, False]))
    assert column.null_count == 1
    path = tmp_path / "x.arrow"
    with pa.ipc.new_stream(path, pa.schema([("a", "int64")])) as stream:
        stream.write_table(pa.table({"a": column}))
    np.testing.assert_array_equal(open_rows(path, missing="drop").read_all(), [[1.0], [3.0]])
    assert len(recwarn) == 0


# -- blocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow"])
@pytest.mark.parametrize("batch", [3, 100, 640, 5000])
def test_small_batches_become_blocks_of_the_size_asked_for(tmp_path, rows, kind, batch):
    path = write(tmp_path / f"x.{kind}", rows[:640], "wxyz", batch)
    for start in (0, 1, 99, 100, 639):
        blocks = list(open_rows(path, block_rows=64).source_blocks(0, start))
        assert {block.n_read for block in blocks[:-1]} <= {64}
        assert [block.first_row for block in blocks] == list(range(start, 640, 64))
        found = np.concatenate([block.features for block in blocks])
        np.testing.assert_array_equal(found, rows[start:640])


def test_no_thread_is_left_by_files_that_are_not_read_to_their_end(tmp_path, rows):
    before = set(threading.enumerate())
    source = open_rows(write(tmp_path / "x.csv.gz", rows, "wxyz"), block_rows=50)

    blocks = source.source_blocks(0)
    assert len(next(blocks).features) == 50
    blocks.close()
    rows[2222, 1] = np.nan
    bad = open_rows(write(tmp_path / "bad.csv.gz", rows, "wxyz"), block_rows=50)
    with pytest.raises(InputError, match="line 2224, column 'x', is missing"):
        bad.read_all()
    gc.collect()
    assert set(threading.enumerate()) <= before


# -- what is not wanted is not read -----------------------------------------------------------


def test_reading_files_does_not_import_pandas(tmp_path, rows):
    kinds = ["parquet", "arrow", "csv"]
    if hasattr(pa.ipc.RecordBatchFileReader, "count_rows"):
        kinds.append("feather")
    paths = [str(write(tmp_path / f"x.{kind}", rows, "wxyz")) for kind in kinds]
    script = f"""
import sys
from momentmix import open_rows
for path in {paths!r}:
    assert len(open_rows(path).read_all()) == 5000
print([name for name in ("pandas", "pyarrow.compute", "numpy.ma") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("kind", ["npy", "fortran.npy", "parquet", "feather"])
def test_blocks_that_are_kept_stay_as_they_are(tmp_path, kind):
    rows = np.random.default_rng(0).standard_normal((1000, 3))
    path = write(tmp_path / f"x.{kind}", rows)
    kept = [block[::2] for block in open_rows(path, block_rows=64).blocks()]
    starts = range(0, 1000, 64)
    for start, block in zip(starts, kept, strict=True):
        np.testing.assert_array_equal(block, rows[start : start + 64][::2])
