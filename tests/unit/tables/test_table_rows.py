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


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((5000, 4))


# -- Arrow columns ----------------------------------------------------------------------------


def test_hidden_numbers_of_nulls_do_not_warn(tmp_path, recwarn):
    """What lies in memory behind a null counts for nothing."""
    values = np.array([1, 2**60, 3])
    column = pa.array(values, mask=np.array([False, True, False]))
    assert column.null_count == 1
    path = tmp_path / "x.arrow"
    with pa.ipc.new_stream(path, pa.schema([("a", "int64")])) as stream:
        stream.write_table(pa.table({"a": column}))
    np.testing.assert_array_equal(
        open_rows(path, missing="drop").read_within(np.inf)[0], [[1.0], [3.0]]
    )
    assert len(recwarn) == 0


# -- blocks -----------------------------------------------------------------------------------


def test_no_thread_is_left_by_files_that_are_not_read_to_their_end(tmp_path, rows):
    before = set(threading.enumerate())
    source = open_rows(write(tmp_path / "x.csv.gz", rows, "wxyz")).changed(block_rows=50)

    blocks = source.encoded()
    assert len(next(blocks).features) == 50
    blocks.close()
    rows[2222, 1] = np.nan
    bad = open_rows(write(tmp_path / "bad.csv.gz", rows, "wxyz")).changed(block_rows=50)
    with pytest.raises(InputError, match="line 2224, column 'x', is missing"):
        bad.read_within(np.inf)[0]
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
    assert len(open_rows(path).read_within(1e9)[0]) == 5000
print([name for name in ("pandas", "numpy.ma") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr
