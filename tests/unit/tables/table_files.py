"""Rows as files of every format that momentmix reads."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

NAMES = ["a", "b", "c"]
KINDS = ["npy", "fortran.npy", "parquet", "feather", "arrow", "csv", "csv.gz"]


def table_of(rows, names=NAMES):
    """Return rows as an Arrow table."""
    return pa.table(dict(zip(names, rows.T.copy(), strict=True)))


def text_of(rows, kind="csv", names=NAMES):
    """Return rows as bytes of text."""
    mark = "\t" if kind == "tsv" else ","
    lines = [mark.join(names), *(mark.join(map(repr, row)) for row in rows.tolist())]
    if kind in ("jsonl", "ndjson"):
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows.tolist()]
    return ("\n".join(lines) + "\n").encode()


def write(path, rows, names=NAMES, batch=130):
    """Write rows as the format that the name of a path tells, in batches; return the path."""
    name, table = path.name, table_of(rows, names)
    if name.endswith("npy"):
        np.save(path, np.asfortranarray(rows) if "fortran" in name else rows)
    elif name.endswith("parquet"):
        pa.parquet.write_table(table, path, row_group_size=batch)
    elif name.endswith("feather"):
        pa.feather.write_feather(table, path, chunksize=batch, compression="uncompressed")
    elif name.endswith("arrow"):
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table, max_chunksize=batch)
    elif name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
        pd.DataFrame(rows, columns=names).to_excel(path, index=False, inf_rep=np.inf)
    else:
        kind, _, packing = name.partition(".")[2].partition(".")
        text = text_of(rows, kind, names)
        path.write_bytes(gzip.compress(text, mtime=0) if packing else text)
    return path


def values(source, columns=None):
    """Return the rows of a source, float64 with NaN for nulls; batches must follow each other."""
    columns = range(source.n_columns) if columns is None else columns
    parts, position = [np.empty((0, len(columns)))], 0
    for first_row, batch in source.batches(columns):
        assert first_row == position
        assert len(batch[0]) > 0
        position += len(batch[0])
        arrays = [
            column if isinstance(column, np.ndarray)
            else column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            for column in batch
        ]  # fmt: skip
        assert {len(array) for array in arrays} == {len(batch[0])}
        parts.append(np.column_stack(arrays))
    return np.concatenate(parts)


def cells(source, column):
    """Return the cells of a column as objects of Python."""
    return [cell for _, (x,) in source.batches([column]) for cell in x.to_pylist()]
