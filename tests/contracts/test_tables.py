"""One table in every form: the same features, summary, model and predictions.

The ten commonest accidents of CSV files: the right rows, or an error that names file, line, column
and cure.
"""

import gzip
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import momentmix as mm
from momentmix.errors import FitWarning, InputError, MomentmixError

N = 90
KINDS = {
    "numbers": ["x", "y"],
    "counts": ["x", "visits"],
    "text": ["x", "plan"],
    "yes/no": ["x", "member"],
    "categories": ["x", "size"],
    "all": ["x", "y", "visits", "plan", "member", "size"],
}


def table(kind="all", missing=False):
    """A frame of two groups; its numbers have few digits, so that every format writes them."""
    rng = np.random.default_rng(7)
    group = rng.integers(0, 2, N)
    frame = pd.DataFrame({
        "x": np.round(rng.normal(4 * group, 1) * 64) / 64,
        "y": np.round(rng.normal(-3 * group, 1) * 64) / 64,
        "visits": rng.poisson(2 + 4 * group),
        "plan": np.where(rng.random(N) < 0.2 + 0.6 * group, "gold ", " b,\"q\""),
        "member": rng.random(N) < 0.2 + 0.6 * group,
        "size": pd.Categorical(np.where(group, "l", "m"), categories=["l", "m"]),
    })[KINDS[kind]]  # fmt: skip
    if missing:
        for j, name in enumerate(frame.columns):
            column = frame[name].astype("boolean" if name == "member" else frame[name].dtype)
            column = column.astype("Int64") if name == "visits" else column
            frame[name] = column.mask(pd.Series(np.arange(N) % 11 == j + 1))
    return frame


class Stream:
    """Anything with an Arrow stream that can be read once."""

    def __init__(self, arrow):
        self.reader = pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(17))

    def __arrow_c_stream__(self, requested_schema=None):
        return self.reader.__arrow_c_stream__(requested_schema)


def arrow_of(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def as_csv(frame, path, **options):
    frame.to_csv(path, index=False, **options)
    return path


def as_folder(frame, path):
    folder = path / "parts"
    folder.mkdir()
    for i in range(3):
        parquet.write_table(arrow_of(frame).slice(30 * i, 30), folder / f"{i}.parquet")
    return folder


def as_stream_file(frame, path):
    arrow = arrow_of(frame)
    with pa.ipc.new_stream(path / "t.arrow", arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=13)
    return path / "t.arrow"


def as_gzip(frame, path):
    (path / "t.csv.gz").write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    return path / "t.csv.gz"


def as_json(frame, path):
    lines = frame.astype({"size": str}) if "size" in frame and not frame["size"].hasnans else frame
    lines.to_json(path / "t.jsonl", orient="records", lines=True, double_precision=15)
    return path / "t.jsonl"


def as_excel(frame, path):
    frame.to_excel(path / "t.xlsx", index=False)
    return path / "t.xlsx"


def written(write, name):
    def make(frame, path):
        write(arrow_of(frame), path / name)
        return path / name

    return make


FORMS = {
    "dict": lambda frame, _: {name: frame[name].tolist() for name in frame},
    "objects": lambda frame, _: frame.astype(object).where(frame.notna(), None),
    "arrow": lambda frame, _: arrow_of(frame),
    "batch": lambda frame, _: arrow_of(frame).combine_chunks().to_batches()[0],
    "polars": lambda frame, _: pl.from_arrow(arrow_of(frame)),
    "lazy": lambda frame, _: pl.from_arrow(arrow_of(frame)).lazy(),
    "stream": lambda frame, _: Stream(arrow_of(frame)),
    "csv": lambda frame, path: as_csv(frame, path / "t.csv"),
    "tabs": lambda frame, path: as_csv(frame, path / "t.tsv", sep="\t", lineterminator="\r\n"),
    "csv.gz": as_gzip,
    "parquet": written(lambda t, p: parquet.write_table(t, p, row_group_size=20), "t.parquet"),
    "feather": written(lambda t, p: feather.write_feather(t, p, chunksize=20), "t.feather"),
    "arrow stream": as_stream_file,
    "folder": as_folder,
    "json lines": as_json,
    "excel": as_excel,
}  # fmt: skip
ONCE = ("stream",)  # a further reader needs a new one


def schema_facts(schema):
    return [(c.name, c.family, c.levels, c.has_missing, c.center) for c in schema.columns]


def sums(summary):
    view = summary.moments(0, 1)
    return [x.tolist() for x in (*view.distinct, *view.squared, view.powers)]


@pytest.mark.parametrize("missing", [False, True], ids=["whole", "missing"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_features_and_the_summary_of_the_frame(tmp_path, form, kind, missing):
    frame = table(kind, missing)
    if form == "json lines" and missing and kind in ("categories", "all"):
        frame = frame.astype({"size": object})
    data = FORMS[form](frame, tmp_path)
    policy = "model" if missing else "error"
    schema = mm.schema_from(frame, missing=policy)
    again = data if form not in ONCE else FORMS[form](frame, tmp_path)
    assert schema_facts(mm.schema_from(again, missing=policy)) == schema_facts(schema)
    expected, found = (mm.summarize(x, 2, missing=policy) for x in (frame, data))
    assert found.n_rows == expected.n_rows == N
    assert sums(found) == sums(expected)


@pytest.mark.parametrize("form", ["polars", "stream", "csv", "parquet", "folder", "json lines"])
def test_every_form_has_the_model_and_the_predictions_of_the_frame(tmp_path, form):
    frame = table()
    data = FORMS[form](frame, tmp_path)
    weights = 1.0 + np.arange(N) % 3
    for options in ({}, {"sample_weight": weights}):
        made = data if form not in ONCE else FORMS[form](frame, tmp_path)
        expected, found = (mm.fit(x, 2, random_state=0, **options) for x in (frame, made))
        assert (found.mixture.log_prob(frame) == expected.mixture.log_prob(frame)).all()
        made = data if form not in ONCE else FORMS[form](frame, tmp_path)
        assert (found.mixture.predict(made) == expected.mixture.predict(frame)).all()


@pytest.mark.parametrize("missing", [False, True], ids=["whole", "missing"])
def test_one_row_is_encoded_as_in_its_table(missing):
    frame = table("all", missing)
    schema = mm.schema_from(frame)
    whole = schema.encode(frame)
    rows = [schema.encode(frame.iloc[[i]]) for i in range(N)]
    np.testing.assert_array_equal(np.concatenate(rows), whole)


@pytest.mark.parametrize("form", ["array", "fortran", "float32", "list", "npy", "fortran.npy"])
def test_rows_without_names_have_the_sums_of_the_frame(tmp_path, form):
    frame = table("numbers")
    rows = frame.to_numpy()
    made = {
        "array": lambda: rows,
        "fortran": lambda: np.asfortranarray(rows),
        "float32": lambda: rows.astype(np.float32),
        "list": rows.tolist,
        "npy": lambda: tmp_path / "t.npy",
        "fortran.npy": lambda: tmp_path / "t.npy",
    }[form]()
    if form.endswith("npy"):
        np.save(tmp_path / "t.npy", np.asfortranarray(rows) if "fortran" in form else rows)
    assert sums(mm.summarize(made, 2)) == sums(mm.summarize(frame, 2))
    np.testing.assert_array_equal(np.concatenate(list(mm.open_rows(made).blocks())), rows)


def test_batches_of_any_size_have_the_summary_of_the_frame(tmp_path):
    frame = table("all", True)
    parquet.write_table(arrow_of(frame), tmp_path / "t.parquet", row_group_size=7)
    as_csv(frame, tmp_path / "t.csv")
    for policy in ("model", "drop"):
        expected = mm.summarize(frame, 2, missing=policy)
        for name in ("t.parquet", "t.csv"):
            found = mm.summarize(tmp_path / name, 2, missing=policy)
            assert (found.n_rows, sums(found)) == (expected.n_rows, sums(expected))


@pytest.mark.parametrize("call", [mm.summarize, lambda paths: mm.fit(paths, 1)])
def test_a_copy_of_a_file_is_not_counted_twice(tmp_path, call):
    for name in ("a.csv", "b.csv"):
        as_csv(table("numbers"), tmp_path / name)
    for paths in (["a.csv", "b.csv"], ["a.csv", "a.csv"]):
        with pytest.raises(InputError, match=r"[ab].csv holds the same rows as an input before"):
            call([tmp_path / name for name in paths])


def test_files_of_equal_sums_are_different(tmp_path):
    for name, order in (("a.csv", 1), ("b.csv", -1)):
        as_csv(table("numbers")[::order], tmp_path / name)
    assert mm.summarize([tmp_path / "a.csv", tmp_path / "b.csv"], 2).n_rows == 2 * N


@pytest.mark.parametrize("form", ["objects", "csv", "parquet", "stream"])
def test_opened_rows_keep_the_families_that_they_were_opened_with(tmp_path, form):
    frame, families = table(missing=True), {"visits": "poisson", "plan": ["b", ' b,"q"', "gold "]}
    rows = mm.open_rows(FORMS[form](frame, tmp_path), families=families, missing="model")
    expected = mm.summarize(frame, 2, families=families, missing="model")
    assert schema_facts(rows.schema) == schema_facts(expected.schema)
    assert sums(mm.summarize(rows, 2)) == sums(expected)
    assert mm.fit(rows, 1, random_state=0).mixture.columns[2].family == "poisson"


# -- one guess ---------------------------------------------------------------------------------


def test_schema_summary_and_fit_make_the_same_guess(tmp_path):
    frame = table()
    path = as_csv(frame, tmp_path / "t.csv")
    schema = mm.schema_from(path)
    assert mm.summarize(path, 2).schema == schema
    families = [column.family for column in mm.fit(path, 2, random_state=0).mixture.columns]
    assert families == [
        column.family for column in mm.fit(frame, 2, random_state=0).mixture.columns
    ]


def test_a_schema_keeps_how_its_table_was_read_and_what_was_guessed(tmp_path):
    rng, group = np.random.default_rng(0), np.arange(600) % 2
    counts = rng.negative_binomial(2, 0.2 + 0.3 * group)
    frame = pd.DataFrame({"x": rng.normal(4 * group, 1).round(3), "visits": counts})
    path = as_csv(frame, tmp_path / "t.csv", sep=";", decimal=",", na_rep="-")
    reading = {"delimiter": ";", "decimal": ",", "na_values": ["-"]}
    mm.schema_from(path, **reading).save(tmp_path / "s.json")
    schema = mm.Schema.load(tmp_path / "s.json")
    assert (schema.reading, schema.may_count) == (reading, (1,))
    assert mm.summarize(path, 2, families=schema).n_rows == 600
    assert mm.open_rows(path, families=schema).n_rows == 600
    by_schema, guessed = (
        mm.fit(path, 2, families=schema, random_state=0),
        mm.fit(frame, 2, random_state=0),
    )
    assert by_schema.mixture.columns[1].family == "negative_binomial"
    assert (by_schema.mixture.log_prob(frame) == guessed.mixture.log_prob(frame)).all()
    text = (tmp_path / "s.json").read_text()
    text = text.replace('"visits", "family": "gaussian"', '"visits", "family": "poisson"')
    (tmp_path / "s.json").write_text(text)
    assert mm.Schema.load(tmp_path / "s.json").may_count == ()


@pytest.mark.parametrize(
    ("name", "cells", "why"),
    [
        ("when", 20_240_101 + np.arange(20), "dates"),
        ("day", [f"2024-01-{1 + i:02}" for i in range(20)], "dates"),
        ("start", [f"08:{i:02}" for i in range(20)], "times"),
        ("clock", [f"{i}:15:30" for i in range(20)], "times"),
        ("born in", 1950 + np.arange(20) % 7, "years"),
        ("row", 61_617 + np.arange(20), "number"),
        ("unnamed", np.arange(20), "number"),
    ],
)
@pytest.mark.parametrize("form", ["frame", "csv"])
def test_dates_times_years_and_row_numbers_are_left_out_with_one_note(
    tmp_path, form, name, cells, why
):
    if why == "years":
        name = "birth_year"
    frame = pd.DataFrame({name: cells, "x": np.arange(20.0) ** 1.5})
    data = frame if form == "frame" else as_csv(frame, tmp_path / "t.csv")
    with pytest.warns(FitWarning, match=f"{name}.* left out: .*{why}"):
        summary = mm.summarize(data, 1)
    assert summary.feature_names == ("x",)
    assert mm.summarize(data, 1, columns=["x"]).feature_names == ("x",)


def test_columns_of_many_labels_are_named_in_one_message():
    texts = [f"k{i % 60}" for i in range(900)]
    frame = pd.DataFrame({"a": texts, "x": np.arange(900) ** 0.5, "b": texts[::-1]})
    with pytest.raises(InputError, match=r"(?s)'a'.*'b'.*exclude"):
        mm.summarize(frame)


def test_levels_that_differ_by_spaces_alone_are_kept_apart_with_a_note(tmp_path):
    frame = pd.DataFrame({"t": ["z ", "z", "y"] * 20, "x": np.arange(60) ** 1.5})
    for data in (frame, as_csv(frame, tmp_path / "t.csv")):
        with pytest.warns(FitWarning, match="'t'.*spaces"):
            summary = mm.summarize(data, 2)
        assert summary.schema.columns[0].levels == ("y", "z", "z ")


def test_levels_of_one_file_make_a_column_text_in_all_files(tmp_path):
    for i, codes in enumerate((["1", "2", "1"], ["1", "X", "2"])):
        lines = [f"{code},{0.5 + j}" for j, code in enumerate(codes)]
        (tmp_path / f"{i}.csv").write_text("code,x\n" + "\n".join(lines) + "\n")
    files = [tmp_path / "0.csv", tmp_path / "1.csv"]
    schema = mm.schema_from(files, families={"code": "categorical"})
    assert schema.columns[0].levels == ("1", "2", "X")
    by_schema = mm.summarize(files, 1, families=schema)
    assert (
        by_schema.n_rows == mm.summarize(files, 1, families={"code": ["1", "2", "X"]}).n_rows == 6
    )


# -- accidents ---------------------------------------------------------------------------------

RIGHT = {
    "byte order mark": ("\ufeffa,b\n1.5,2\n3.5,4\n", {}),
    "spaces": ("a,b\n 1.5 ,2\n3.5 , 4\n", {}),
    "spaces alone": ("a,b\n1.5,  \n3.5,4\n", {"missing": "drop"}),
    "quoted numbers": ('"a","b"\n"1.5","2"\n"3.5","4"\n', {}),
    "decimal comma": ("a;b\n1,5;2\n3,5;4\n", {"delimiter": ";", "decimal": ","}),
    "blank lines": ("a,b\n\n1.5,2\n\n\n3.5,4\n\n", {}),
    "no last line end": ("a,b\n1.5,2\n3.5,4", {}),
    "lone returns": ("a,b\r1.5,2\r3.5,4\r", {}),
    "a header of years": ("2019,2020\n1.5,2\n3.5,4.5\n", {}),
    "a header of years above whole numbers": ("2019,2020\n15,2\n35,4\n11,7\n", {}),
    "a header of 0 … d − 1": ("0,1\n1.5,2\n3.5,4\n", {}),
    "a header of quoted numbers": ('"2019","5"\n1.5,2\n3.5,4\n', {}),
}


@pytest.mark.parametrize("accident", RIGHT)
@pytest.mark.filterwarnings("ignore:columns were guessed")
def test_accidents_that_are_read_right(tmp_path, accident):
    text, options = RIGHT[accident]
    (tmp_path / "t.csv").write_bytes(text.encode())
    rows = mm.open_rows(tmp_path / "t.csv", **options)
    found = np.concatenate(list(rows.blocks())).tolist()
    expected = {
        "spaces alone": [[3.5, 4.0]],
        "a header of years": [[1.5, 2.0], [3.5, 4.5]],
        "a header of years above whole numbers": [[15.0, 2.0], [35.0, 4.0], [11.0, 7.0]],
    }.get(accident, [[1.5, 2.0], [3.5, 4.0]])
    assert found == expected
    assert rows.n_features == 2
    if "header of" in accident:
        assert any("header=False" in note for note in rows.notes)
        plain = mm.open_rows(tmp_path / "t.csv", header=False)
        assert sum(map(len, plain.blocks())) == len(expected) + 1


WRONG = {
    "a ragged row": ("a,b\n1,2\n3\n", {}, ["line 3", "1 field", "2"]),
    "a long row": ("a,b\n1,2\n3,4,5\n", {}, ["line 3", "3 field", "2"]),
    "text in numbers": ("a,b\n1,2\n3,oops\n5,6\n7,8\n", {}, ["line 3", "'oops'", "exclude"]),
    "decimal commas": ('a;b\n"1,5";2\n3;4\n5;6\n', {"delimiter": ";"}, ["line 2", "decimal"]),
    "thousands marks": ('a,b\n"1,234.5",2\n3,4\n5,6\n', {}, ["line 2", "'a'", "thousands"]),
    "equal names": ("a,b,a\n1,2,3\n", {}, ["'a'", "columns 0, 2", "columns="]),
    "a repeated header": ("a,b\n1,2\na,b\n3,4\n", {}, ["line 3", "repeats the header"]),
    "a repeated header of text": ("a,b\nu,v\na,b\nu,w\n", {}, ["line 3", "repeats the header"]),
    "an unterminated quote": ('a,b\n1,2\n"3,4\n5,6\n', {}, ["line 3", "quote", "not closed"]),
    "text behind a quote": ('a,b\n1.5,"2"3\n4,5\n', {}, ["line 2", "'b'", "quote"]),
    "a quote inside a cell": ('a,b\n1.5,u"v\n4,w\n', {}, ["line 2", "'b'", "quote"]),
    "a quote behind a space": ('a,b\n1.5, "u"\n4,w\n', {}, ["line 2", "'b'", "quote"]),
    "another delimiter": ("a;b\n1;2\n", {}, ["';'", "delimiter"]),
    "an empty file": ("", {}, ["empty"]),
    "bytes that are no UTF-8": (b"a,b\n1,u\n2,\xff\n3,v\n4,u\n", {}, ["line 3", "'b'", "UTF-8"]),
    "zeros": (b"a,b\n1,2\0\n", {}, ["binary"]),
}  # fmt: skip


@pytest.mark.parametrize("accident", WRONG)
def test_accidents_that_are_errors_name_file_line_column_and_cure(tmp_path, accident):
    text, options, parts = WRONG[accident]
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(MomentmixError) as caught:
        mm.summarize(path, 1, **options)
    for part in ("t.csv", *parts):
        assert part in str(caught.value)


@pytest.mark.parametrize("place", [0, 50_000, 119_999])
@pytest.mark.parametrize(
    ("line", "said"), [("1,2,3", "3 field"), ('1,"2"3', "quote"), ("1,x", "'x'"), ('"1,2', "quote")]
)
def test_an_error_names_its_line_wherever_it_is(tmp_path, place, line, said):
    """The file has several blocks, and lines that are quoted fields in part."""
    lines = [f'{i}.25,"{i}"' if i % 3 else f"{i}.25,{i}" for i in range(120_000)]
    lines[place] = line
    (tmp_path / "t.csv").write_text("a,b\n\n" + "\n".join(lines) + "\n")
    with pytest.raises(InputError, match=f"line {place + 3}\\b.*") as caught:
        mm.summarize(tmp_path / "t.csv", 1)
    assert said in str(caught.value)


def test_quoted_cells_may_hold_delimiters_quotes_and_lines(tmp_path):
    cells = ["u,v", 'w""x', "y\nz", ""] * 30_000
    body = "".join(f'{i}.5,"{cell}"\n' for i, cell in enumerate(cells))
    (tmp_path / "t.csv").write_text("a,b\n" + body)
    summary = mm.summarize(tmp_path / "t.csv", 1, missing="drop")
    assert summary.n_rows == 90_000
    assert summary.schema.columns[1].levels == ("u,v", 'w"x', "y\nz")


def test_json_lines_and_sheets_name_the_cell(tmp_path):
    (tmp_path / "t.jsonl").write_text("".join(
        json.dumps({"a": i, "b": "Total" if i == 7 else i}) + "\n" for i in range(20)
    ))  # fmt: skip
    frame = pd.DataFrame({"a": range(20), "b": [*range(19), "Total"]})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    for name, row in (("t.jsonl", "row 7"), ("t.xlsx", "row 19")):
        with pytest.raises(MomentmixError, match=f"{name}.*{row}.*'b'.*'Total'"):
            mm.summarize(tmp_path / name, 1)
