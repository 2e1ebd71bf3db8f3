"""Rows count once, whatever their files are called; changed files are not taken for what they were.

A checkpoint is believed only where the rows before its place are still the same.
"""

import copy
import gzip
import hashlib
import json
import os
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
    assert (done.code, message in done.err) == (65, True), done
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
        assert done.code == 65, done
        assert f"{pair[1]}: shards" in done.err
        assert f"(The other one is {pair[0]}.)" in done.err
    done = momentmix("merge", "c.parquet", "e.parquet", "-o", "out.parquet")
    assert (done.code, "(The other one is c.parquet.)" in done.err) == (65, True), done
    assert not list(Path().glob("out*"))


def test_forgotten_rows_are_not_subtracted_again(folder, momentmix):
    for name in "ab":
        assert momentmix("summarize", f"{name}.csv", "-o", f"{name}.mms").code == 0
    assert momentmix("merge", "a.mms", "b.mms", "-o", "all.mms").code == 0
    lines = Path("a.csv").read_text().splitlines(keepends=True)
    Path("some.csv").write_text("".join(lines[:10]))
    for name in ("all", "a"):
        done = momentmix("forget", f"{name}.mms", "some.csv", "-o", f"{name}-less.mms")
        assert done.code == 0, done
    done = momentmix("subtract", "all-less.mms", "a.mms", "-o", "out.mms")
    assert (done.code, "different rows were forgotten" in done.err) == (65, True), done
    assert not Path("out.mms").exists()
    done = momentmix("subtract", "all-less.mms", "a-less.mms", "-o", "out.mms", "--json")
    assert json.loads(done.out)["n_rows"] == 300


@pytest.mark.parametrize(
    "arguments",
    [
        ["summarize", "a.csv", "-o", "out.mms"],
        ["predict", "model.json", "a.csv", "-o", "out.csv"],
        ["score", "model.json", "a.csv"],
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
    assert (done.code, "a.csv changed while it was being read" in done.err) == (65, True), done
    assert not list(Path().glob("out.*"))


# -- checkpoints ------------------------------------------------------------------------------

PARTS = ["--checkpoint", "state", "--every", "0", "--part-rows", "30000", "-m", "2"]


def big_file(name, change=None):
    """A file larger than its samples; a changed one differs where no sample is taken."""
    rows = np.zeros((100_000, 3))
    if change is not None:
        rows[change, 1] = 1.0
    if name.endswith(".npy"):
        np.save(name, rows)
    else:
        Path(name).write_text("".join("{:.6f},{:.6f},{:.6f}\n".format(*row) for row in rows))


def changed_in_secret(name, row):
    """Change a file between its samples, and give it the time that it had."""
    times = os.stat(name)
    big_file(name, row)
    os.utime(name, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.fixture(params=["a.npy", "a.csv"])
def half_read(request, tmp_path, monkeypatch, momentmix, interrupted):
    """A file, of which a pass was interrupted after two of its four parts; and its own summary."""
    monkeypatch.chdir(tmp_path)
    big_file(request.param)
    assert momentmix("summarize", request.param, "-o", "whole.mms", *PARTS).code == 0
    interrupted(2, "summarize", request.param, "-o", "out.mms", *PARTS)
    return request.param


def test_a_checkpoint_in_the_midst_of_a_file(half_read, momentmix):
    done = momentmix("summarize", half_read, "-o", "out.mms", *PARTS, "--json")
    assert json.loads(done.out)["resumed_at_row"] == 60_000
    assert Path("out.mms").read_bytes() == Path("whole.mms").read_bytes()


def test_rows_that_were_changed_in_secret_are_not_resumed(half_read, momentmix):
    changed_in_secret(half_read, 4_000)  # in the first part
    before = Path("state").read_bytes()
    done = momentmix("summarize", half_read, "-o", "out.mms", *PARTS)
    message = "are not those that were summed before the interruption"
    assert (done.code, message in done.err) == (65, True), done
    assert Path("state").read_bytes() == before
    assert not Path("out.mms").exists()
    changed_in_secret(half_read, 90_000)  # not read so far: what counts is what will be read
    assert momentmix("summarize", half_read, "-o", "out.mms", *PARTS).code == 0
    assert momentmix("summarize", half_read, "-o", "fresh.mms", *PARTS).code == 0
    assert Path("out.mms").read_bytes() == Path("fresh.mms").read_bytes()
    assert Path("out.mms").read_bytes() != Path("whole.mms").read_bytes()


# -- forged checkpoints -----------------------------------------------------------------------

WRONG = [None, True, -1, 10**30, "x", [1], {}]


def places_in(value, path=()):
    """Paths of every value in a JSON document."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(inner, (*path, key))


def forge(head, path, value):
    """The document with one value replaced."""
    if not path:
        return value
    forged = copy.deepcopy(head)
    inner = forged
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return forged


def test_no_forged_checkpoint_is_a_bug_or_gives_other_bytes(tmp_path, monkeypatch, momentmix):
    """Every value of the head is replaced by every wrong one; and the summary by others."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((100, 2))
    rows[3, 1] = np.nan
    np.save("a.npy", rows)
    options = ["--checkpoint", "state", "--every", "0", "--part-rows", "30", "--missing", "drop"]
    assert momentmix("summarize", "a.npy", "-o", "whole.mms", *options).code == 0
    with monkeypatch.context() as patch:
        patch.setattr(mm.MomentSummary, "save", lambda *_: (_ for _ in ()).throw(OSError(5, "no")))
        assert momentmix("summarize", "a.npy", "-o", "out.mms", *options).code == 74
    magic, _, head, summary = Path("state").read_bytes().split(b"\n", 3)
    values = [(path, value) for path in places_in(json.loads(head)) for value in WRONG]
    heads = [json.dumps(forge(json.loads(head), *case)).encode() for case in values]
    cases = [(other, summary) for other in (*heads, b"not JSON", b"[" * 100_000, b"\xff")]
    others = [mm.summarize(np.eye(*shape), order=2).to_bytes() for shape in ((99, 3), (98, 2))]
    cases += [(head, other) for other in others]
    n_equal = 0
    for case in cases:
        body = b"\n".join(case)
        digest = hashlib.sha256(body).hexdigest().encode()
        Path("state").write_bytes(magic + b"\n" + digest + b"\n" + body)
        done = momentmix("summarize", "a.npy", "-o", "out.mms", *options)
        if done.code == 0:
            assert Path("out.mms").read_bytes() == Path("whole.mms").read_bytes(), case
            Path("out.mms").unlink()
            n_equal += 1
        else:
            assert done.code == 65, (case, done)
            assert "emove it" in done.err or "Remove the ch" in done.err or case[1] in others, case
            assert not Path("out.mms").exists()
    assert len(cases) > 16 * n_equal
