"""Damaged cubes and Arrow data: refused with one kind of error, never a crash or a wrong load."""

import io

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaigns.damaged_tables import child, cube_file, damaged_cubes

import momentmix as mm
from momentmix.errors import InputError, SummaryFileError


def test_a_part_of_the_campaign():
    counts = damaged_cubes(0, 400, 0)
    assert counts["files"] == 400
    # Which of the bytes matter depends on the summaries in them: most of the files are refused.
    assert sum(n for what, n in counts.items() if "refused" in what) > 240


# -- offsets and indices that a writer would not write -----------------------------------------

EDITS = """
import struct, warnings
from pathlib import Path
import pyarrow as pa
import momentmix as mm
warnings.simplefilter("ignore")
n = 9
text = pa.array(["north", "south", "east!"] * 3)  # offsets 0, 5, 10, ...
plan = pa.DictionaryArray.from_arrays(pa.array([7, 6, 5, 4, 3, 2, 1, 0, 7], pa.int32()),
                                      pa.array(list("abcdefgh")))
table = pa.table({"text": text, "plan": plan, "x": [0.5 * i * i for i in range(n)]})
edits = {"offset": (struct.pack("<3i", 35, 40, 45), struct.pack("<3i", 35, 1 << 30, 45)),
         "index": (struct.pack("<9i", *plan.indices.to_pylist()),
                   struct.pack("<9i", -3, 6, 5, 4, 3, 2, 1, 0, 7))}
for kind, opener in {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}.items():
    sink = pa.BufferOutputStream()
    with opener(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    for edit, (old, new) in edits.items():
        assert data.count(old) == 1
        broken = data.replace(old, new)
        path = Path(f"{kind}-{edit}.arrow")
        path.write_bytes(broken)
        reader = pa.ipc.open_file if kind == "file" else pa.ipc.open_stream
        read = lambda: reader(pa.py_buffer(broken)).read_all()
        column = "text" if edit == "offset" else "plan"
        routes = {
            "summarize": lambda: mm.summarize(path),
            "groups": lambda: mm.summarize_by(path, by=column),
            "fit": lambda: mm.fit(path, 1),
            "table": lambda: mm.summarize(read()),
            "groups of a table": lambda: mm.summarize_by(read(), by=column),
            "batch": lambda: mm.summarize(read().to_batches()[0]),
            "reader": lambda: mm.summarize_by(read().to_reader(), by=column),
            "levels of a reader": lambda: mm.summarize(read().to_reader()),
            "dataset": lambda: mm.summarize_by(pa.dataset.dataset(read()), by=column),
            "columns": lambda: mm.summarize({"c": read()[column], "x": range(n)}),
        }
        import pyarrow.dataset
        for route, run in routes.items():
            print(kind, edit, route, end=": ", flush=True)
            try:
                print("ACCEPTED", run())
            except mm.InputError as error:
                named = path.name if route in ("summarize", "groups", "fit") else ""
                assert named in str(error)
                assert "damaged" in str(error) or "cannot be read" in str(error), error
                print("refused")
"""


def test_wrong_offsets_and_indices_are_refused_by_every_route(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = child(EDITS)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 40
    assert all(line.endswith(": refused") for line in lines), lines
    done = child(
        "from momentmix.cli import main\nmain(['summarize', 'file-index.arrow', '-o', 'x.mms'])"
    )
    assert done.returncode == 1, done.stderr
    assert "file-index.arrow cannot be read; it is truncated, damaged" in done.stderr


# -- what is read of copies, and what is refused -----------------------------------------------


def test_copies_of_other_programs_load(tmp_path):
    path, copy = tmp_path / "cube.parquet", tmp_path / "copy.parquet"
    path.write_bytes(cube_file())
    cube = mm.SummaryCube.load(path)
    part = cube.where(store=lambda store: store < 2)
    duckdb.sql(f"COPY (FROM '{path}' WHERE store < 2) TO '{copy}' (FORMAT parquet)")
    assert mm.SummaryCube.load(copy) == part
    pl.read_parquet(path).filter(pl.col("store") < 2).write_parquet(copy)
    assert mm.SummaryCube.load(copy) == part
    table = pq.read_table(path)
    pq.write_table(table.filter(pa.compute.field("store") < 2), copy)
    assert mm.SummaryCube.load(copy) == part
    frame = table.to_pandas()
    frame[frame["store"] < 2].iloc[:, ::-1].to_parquet(copy)  # other types, another order
    assert dict(mm.SummaryCube.load(copy).rollup(*cube.key_names)) == dict(part)
    duckdb.sql(
        f"COPY (SELECT upper(region) AS r, n_rows, summary FROM '{path}' WHERE region = 'US') "
        f"TO '{copy}' (FORMAT parquet)"
    )
    assert list(mm.SummaryCube.load(copy)) == [("US",)]  # without checksums, whatever the keys


def test_changed_copies_are_refused(tmp_path):
    path, table = tmp_path / "copy.parquet", pq.read_table(io.BytesIO(cube_file()))
    stores = table.set_column(1, "store", pa.array([1, 1, 2, -3, 5]))
    renamed = table.rename_columns(["area", *table.column_names[1:]])
    nobody = table.set_column(5, "n_rows", pa.array([None] * 5, pa.int64()))
    for changed in (stores, renamed):
        pq.write_table(changed, path)
        with pytest.raises(SummaryFileError, match=r"checksum of group .* leave out the column"):
            mm.SummaryCube.load(path)
    pq.write_table(nobody, path)
    with pytest.raises(SummaryFileError, match="checksum of group"):
        mm.SummaryCube.load(path)
    for key in (pa.array([0.5] * 5), pa.array([[1]] * 5), pa.array([b"a"] * 5)):
        pq.write_table(table.set_column(1, "store", key).drop_columns("checksum"), path)
        with pytest.raises(SummaryFileError, match=r"copy\.parquet cannot .* a key "):
            mm.SummaryCube.load(path)
    with pytest.raises(SummaryFileError, match="no regular file"):
        mm.SummaryCube.load(tmp_path)


def test_cubes_that_no_file_can_hold_are_refused():
    summary = mm.summarize([[1.0], [2.0]])
    for values in (["\ud800"], [2**64], [1, 1.5], [1, "1"]):
        with pytest.raises(InputError, match="key 'key': a key must hold text, whole numbers"):
            mm.SummaryCube(["key"], dict.fromkeys([(value,) for value in values], summary))
    with pytest.raises(InputError, match="must have different names, and none of n_rows"):
        mm.SummaryCube(["checksum"], {("a",): summary})
