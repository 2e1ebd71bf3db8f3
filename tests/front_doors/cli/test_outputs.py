"""Where results may go: never over an input, with the permissions there were, and known before."""

import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import momentmix as mm


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Data, a summary and a model, in a folder that the test runs in."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((60, 2))
    Path("data").mkdir()
    for name in ("io.csv", "io-2.csv"):
        np.savetxt(f"data/{name}", rows + len(name), delimiter=",")
    np.save("rows.npy", rows)
    mm.summarize(rows, order=2).save("one.mms")
    mm.summarize(rows + 1, order=2).save("two.mms")
    mm.Mixture.diagonal([1.0], np.zeros((1, 2)), np.ones((1, 2))).save("model.json")
    os.symlink("data/io.csv", "symlink.csv")
    os.link("data/io.csv", "hardlink.csv")
    return tmp_path


def contents():
    return {str(p): p.read_bytes() for p in Path().rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["predict", "model.json", "data/io*.csv"], "data/io.csv"),
        (["predict", "model.json", "data"], "hardlink.csv"),
        (["predict", "model.json", "data/../data/io.csv"], "symlink.csv"),
        (["predict", "model.json", "symlink.csv"], "data/io.csv"),
        (["predict", "model.json", "**/io.csv"], "hardlink.csv"),
        (["merge", "one.mms", "two.mms"], "./data/../two.mms"),
        (["merge", "one.mms", "--minus", "two.mms"], "two.mms"),
    ],
)
def test_no_output_replaces_an_input(folder, momentmix, arguments, output):
    before = contents()
    done = momentmix(*arguments, "-o", output)
    assert (done.code, "is an input as well" in done.err) == (1, True), done
    assert contents() == before


# -- permissions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["summarize", "rows.npy"], "x.mms"),
        (["merge", "one.mms", "two.mms"], "x.mms"),
        (["fit", "rows.npy", "-r", "1"], "x.json"),
        (["predict", "model.json", "rows.npy"], "x.csv"),
        (["predict", "model.json", "rows.npy"], "x.parquet"),
        (["report", "model.json"], "x.html"),
    ],
)
def test_a_replaced_file_keeps_its_permissions(folder, momentmix, arguments, output):
    Path(output).write_bytes(b"old")
    os.chmod(output, 0o640)
    done = momentmix(*arguments, "-o", output)
    assert done.code == 0, done
    assert Path(output).read_bytes() != b"old"
    assert stat.S_IMODE(os.stat(output).st_mode) == 0o640


def test_names_that_are_too_long_are_found_before_any_work(folder, momentmix):
    Path("bad.csv").write_text("a,b\n1,text\n")  # which would be another error
    done = momentmix("summarize", "bad.csv", "-o", "ä" * 128 + ".mms")
    assert (done.code, "File name too long" in done.err) == (1, True), done


def test_secrets_of_addresses_are_in_no_output(tmp_path, monkeypatch, momentmix):
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    text = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3))).to_csv(index=False)
    fsspec.filesystem("memory").pipe("/box/x.csv?sig=5ecret", text.encode())
    address = "memory://box/x.csv?sig=5ecret"
    said = [
        momentmix("summarize", address, "-o", "x.mms", "--json"),
        momentmix("fit", address, "-r", "2", "-o", "m.json", "--json"),
        momentmix("report", "m.json", "--data", address, "-o", "r.html"),
        momentmix("predict", "m.json", address, "-o", "labels.csv"),
        momentmix("info", "m.json"),
        momentmix("fit", "https://alice:hunter2@127.0.0.1:1/x.csv?sig=5ecret", "-o", "n.json"),
        momentmix("predict", "https://alice:hunter2@h.org/m.json?sig=5ecret", "x.csv"),
        momentmix("info", "https://alice:hunter2@h.org/m.json?sig=5ecret"),
    ]
    assert [run.code in (0, 4) for run in said] == [True] * 5 + [False] * 3
    printed = "".join(run.out + run.err for run in said).encode()
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"memory://box/x.csv" in files
    for secret in (b"5ecret", b"hunter2", b"alice"):
        assert secret not in printed
        assert secret not in files
