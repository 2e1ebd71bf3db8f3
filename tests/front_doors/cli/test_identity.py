"""Rows count once, whatever their files are called; a file that changes is not read on."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

import momentmix as mm


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two files of rows, a copy of the first one, and a model."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((300, 2))
    np.savetxt("a.csv", rows, delimiter=",")
    np.savetxt("b.csv", rows + 1, delimiter=",")
    Path("copy-of-a.csv").write_bytes(Path("a.csv").read_bytes())
    mm.DiagonalMixture([1.0], np.zeros((1, 2)), np.ones((1, 2))).save("model.json")
    return tmp_path


COUNTING = {
    "summarize": ["summarize", "a.csv", "b.csv", "copy-of-a.csv", "-o", "out.mms"],
    "fit": ["fit", "a.csv", "b.csv", "copy-of-a.csv", "-r", "1", "-o", "out.json"],
    "report": ["report", "model.json", "--data", "*.csv", "-o", "out.html"],
}


@pytest.mark.parametrize("command", COUNTING)
def test_a_copy_is_refused(folder, momentmix, command):
    done = momentmix(*COUNTING[command])
    message = "copy-of-a.csv holds the same rows as an input before it"
    assert (done.code, message in done.err) == (1, True), done
    assert not list(Path().glob("out.*"))


# -- one file by several routes ---------------------------------------------------------------

ROUTES = {
    "whole": ("a.csv", []),
    "drop": ("a.csv", ["--missing", "drop"]),
    "model": ("a.csv", ["--missing", "model"]),
    "more columns": ("a.csv", ["--columns", "x,y,z"]),
    "gz": ("b.csv.gz", []),
    "by g": ("a.csv", ["--by", "g"]),
    "by g, h": ("a.csv", ["--by", "g,h"]),
    "by g, dropped": ("a.csv", ["--by", "g", "--missing", "drop"]),
    "by h, gz": ("b.csv.gz", ["--by", "h"]),
    "two files": ("a.csv other.csv", []),
    "lines": ("a.jsonl", []),
    "lines by g": ("a.jsonl", ["--by", "g"]),
    "parquet": ("a.parquet", []),
    "parquet by g": ("a.parquet", ["--by", "g"]),
    "parquet drop": ("a.parquet", ["--missing", "drop"]),
    "arrow": ("a.arrow", []),
    "arrow by h": ("a.arrow", ["--by", "h"]),
}


@pytest.fixture(scope="module")
def routes(tmp_path_factory):
    """One table in several files, and the summary of each route."""
    pd = pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("routes")
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.standard_normal((300, 3)).round(5), columns=list("xyz"))
    frame["g"], frame["h"] = rng.choice(["p", "q"], 300), rng.choice(["s", "t", "u"], 300)
    frame.to_csv(folder / "a.csv", index=False)
    frame.assign(g="p").to_csv(folder / "same-features.csv", index=False)
    frame[::-1].to_csv(folder / "other.csv", index=False)
    text = (folder / "a.csv").read_bytes()
    (folder / "b.csv.gz").write_bytes(gzip.compress(text))
    frame.to_json(folder / "a.jsonl", orient="records", lines=True)
    frame.to_parquet(folder / "a.parquet")
    frame.to_feather(folder / "a.arrow")
    return folder


def made_by(route, folder):
    names, options = ROUTES[route]
    paths = [folder / name for name in names.split()]
    options = dict(zip(options[::2], options[1::2], strict=True))
    columns = list("xyz" if "--columns" in options else "xy")
    kept = {"columns": columns, "missing": options.get("--missing", "error")}
    if "--by" in options:
        return mm.summarize_by(paths, options["--by"], **kept).total()
    return mm.summarize(paths, **kept).truncate(2).select(["x", "y"])


def test_rows_of_one_file_count_once_by_whatever_routes(routes):
    made = {name: made_by(name, routes) for name in ROUTES}
    for i, (one, a) in enumerate(made.items()):
        for other, b in list(made.items())[i:]:
            if not {*ROUTES[one][0].split()} & {*ROUTES[other][0].split()}:
                assert (a + b).n_rows == a.n_rows + b.n_rows  # of another file
                continue
            for left, right in ((a, b), (b, mm.MomentSummary.from_bytes(a.to_bytes()))):
                with pytest.raises(mm.errors.ShardError, match="would count twice"):
                    left + right


def test_groups_of_one_cube_are_different_rows(routes):
    cube = mm.summarize_by(routes / "a.csv", "g,h", columns=["x", "y"])
    assert sum(cube.values()).n_rows == cube.rollup("h").total().n_rows == 300
    rest = cube.total() - cube.rollup("g")["p"]
    assert rest == cube.rollup("g")["q"]
    other = mm.summarize_by(routes / "a.csv", "g", columns=["x", "y"])
    with pytest.raises(mm.errors.ShardError, match="read in two ways"):
        cube[("p", "s")] + other["q"]  # nobody can tell
    with pytest.raises(mm.errors.ShardError, match="read in two ways"):
        rest + mm.summarize(routes / "a.csv", columns=["x", "y"])
    gone = rest - cube.rollup("g")["q"]
    assert (gone + mm.summarize(routes / "a.csv", columns=["x", "y"])).n_rows == 300


def test_equal_files_of_other_folders_are_other_groups(routes, tmp_path):
    for name in ("area=1/a.csv", "area=2/a.csv", "area=2/copy.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((routes / "a.csv").read_bytes())
    paths = [str(tmp_path / f"area={i}" / "a.csv") for i in (1, 2)]
    cube = mm.summarize_by(paths, "area", columns=["x", "y"])
    assert list(cube.group_rows.values()) == [300, 300]
    assert cube.total().n_rows == 600
    paths.append(str(tmp_path / "area=2/copy.csv"))
    with pytest.raises(mm.errors.InputError, match=r"copy.csv holds the same rows"):
        mm.summarize_by(paths, "area", columns=["x", "y"])


def test_merge_names_both_files(routes, momentmix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = ["--columns", "x,y"]
    assert momentmix("summarize", routes / "a.csv", *columns, "-o", "s.mms").code == 0
    for name, by in (("c.parquet", "g"), ("d.parquet", "g,h")):
        done = momentmix("summarize", routes / "a.csv", *columns, "--by", by, "-o", name)
        assert done.code == 0, done
    assert momentmix("merge", "d.parquet", "--rollup", "g", "-o", "e.parquet").code == 0
    for pair in (("c.parquet", "s.mms"), ("s.mms", "c.parquet"), ("c.parquet", "d.parquet")):
        done = momentmix("merge", *pair, "-o", "out.mms")
        assert done.code == 1, done
        assert f"{pair[1]}: shards" in done.err
        assert f"(The other one is {pair[0]}.)" in done.err
    done = momentmix("merge", "c.parquet", "e.parquet", "-o", "out.parquet")
    assert (done.code, "(The other one is c.parquet.)" in done.err) == (1, True), done
    assert not list(Path().glob("out*"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["summarize", "a.csv", "-o", "out.mms"],
        ["predict", "model.json", "a.csv", "-o", "out.csv"],
        ["report", "model.json", "--data", "a.csv", "-o", "out.html"],
        ["fit", "a.csv", "b.csv", "-r", "2", "-o", "out.json"],
    ],
)
def test_a_file_that_changes_while_it_is_read(folder, momentmix, monkeypatch, arguments):
    opened = pyarrow.csv.open_csv

    def growing(*rest, **options):
        with open("a.csv", "a") as file:
            file.write("7,8\n")
        return opened(*rest, **options)

    monkeypatch.setattr(pyarrow.csv, "open_csv", growing)
    done = momentmix(*arguments)
    assert (done.code, "a.csv changed while it was being read" in done.err) == (1, True), done
    assert not list(Path().glob("out.*"))
