"""One table in many forms: data frames, Arrow, files. What columns are, and their sums, agree."""

import io
from dataclasses import replace

import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

import momentmix as mm
from momentmix.errors import MomentmixError
from momentmix.tables.csv_text import NULLS

laws = settings(max_examples=20, deadline=None)

TEXTS = [
    "a", "b b", " lead", "trail ", " ", "", "NA", "None", "true", "False", "1", "3.5", "1e3", "x,y",
    'q"uote', "new\nline", "é", "日本", "\tt", "a;b", "(x", "inf", "-", "2020-01-01", "\u00a0",
]  # fmt: skip
PLAIN = [text for text in TEXTS if text.strip() == text and text not in NULLS]


@st.composite
def columns(draw, n_rows, texts):
    """A column that every form has a type for, perhaps with missing cells."""
    kind = draw(st.sampled_from(["text", "category", "boolean", "Int64", "Float64"]))
    levels = draw(st.lists(st.sampled_from(texts), min_size=1, max_size=4, unique=True))
    cell = {
        "text": st.sampled_from(levels),
        "category": st.sampled_from(levels),
        "boolean": st.booleans(),
        "Int64": st.integers(-3, 3),
        "Float64": st.integers(-9, 9).map(lambda k: k / 4),
    }[kind]
    cell = st.one_of(st.none(), cell) if draw(st.booleans()) else cell
    cells = draw(st.lists(cell, min_size=n_rows, max_size=n_rows))
    cells[0] = draw(cell.filter(lambda x: x is not None))
    if kind == "category":  # unused levels are no part of polars' type
        return pd.Series(pd.Categorical(cells, categories=sorted({*cells} - {None})))
    return pd.Series(cells, dtype="string" if kind == "text" else kind)


@st.composite
def tables(draw, texts=tuple(TEXTS)):
    n_rows = draw(st.sampled_from([3, 12, 40]))
    found = draw(st.lists(columns(n_rows, texts), min_size=1, max_size=3))
    frame = pd.DataFrame({f"c{j}": column for j, column in enumerate(found)})
    frame["x"] = [((7 * i) % 11) / 4 for i in range(n_rows)]  # one column is usable
    return frame


def outcome(table):
    """Columns and exact sums, or that the table is refused."""
    try:
        schema = mm.schema_from(table, missing="model")
        summary = mm.summarize(table, 2, missing="model")
    except MomentmixError:
        return None
    moments = summary.moments(0, 1)
    sums = [x.tolist() for x in (*moments.distinct, *moments.squared, moments.powers)]
    return [replace(column, center=0.0) for column in schema.columns], summary.n_rows, sums


def agree(table, other):
    return outcome(table) == outcome(other)


@laws
@given(tables())
def test_frames_arrow_and_their_files_agree(tmp_path_factory, frame):
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    folder = tmp_path_factory.mktemp("forms")
    parquet.write_table(arrow, folder / "t.parquet", row_group_size=5)
    feather.write_feather(arrow, folder / "t.feather", chunksize=5)
    objects = frame.astype({c: object for c in frame if frame[c].dtype == "string"})
    polars = pl.from_arrow(arrow)
    others = [objects, arrow, arrow.combine_chunks().to_batches()[0], polars, polars.lazy()]
    for other in (*others, polars.to_arrow(), folder / "t.parquet", folder / "t.feather"):
        assert agree(frame, other)


@laws
@given(tables(tuple(PLAIN)))
def test_csv_is_what_pandas_reads(tmp_path_factory, frame):
    """Texts that are neither missing cells nor have blanks around them, which the reader strips."""
    text = frame.to_csv(index=False)
    path = tmp_path_factory.mktemp("forms") / "t.csv"
    path.write_text(text, newline="")
    found = outcome(path)
    read = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=list(NULLS))
    # Numbers beside text are an error in files: which of them was meant is not known.
    is_mixed = [pd.to_numeric(read[c], "coerce").notna().sum() for c in read.select_dtypes("str")]
    assert agree(path, read) or (found is None and any(is_mixed))
