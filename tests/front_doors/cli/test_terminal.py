"""Nothing that comes from a file, a name or an argument controls the terminal; JSON is strict."""

import json
import os
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import momentmix as mm
from momentmix.errors import FitWarning, InputError, MissingDependencyError
from momentmix.errors import printable as shown

# Escape, bell, the eight-bit CSI, backspace, carriage return, delete, a right-to-left override,
# a line separator, and a line that looks like one of ours.
HOSTILE = "h\x1b[31m\x07\x9b2J\b\r\x7f\u202e\u2028\nmomentmix: forged"
UNDECODABLE = os.fsdecode(b"x\xff.npy")
ORDINARY = "Größe_温度_é_🙂"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Data, a summary and models whose names, of files and of columns, are hostile."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((300, 3))
    names = ["a" + HOSTILE, ORDINARY, "c"]
    columns = {name: rows[:, i] for i, name in enumerate(names)}
    pa.parquet.write_table(pa.table(columns), HOSTILE + ".parquet")
    large = {name: 2**60 + np.arange(9) for name in names}
    pa.parquet.write_table(pa.table(large), HOSTILE + "large.parquet")
    for name in (HOSTILE + ".npy", UNDECODABLE):
        with open(name, "wb") as file:
            np.save(file, rows)
    mm.summarize(rows, order=3, feature_names=names).save(HOSTILE + ".mms")
    mixture = mm.Mixture.diagonal([1.0], np.zeros((1, 3)), np.ones((1, 3)), names)
    mixture.save(HOSTILE + ".json")
    mixture.save("named.json")
    mm.Mixture.diagonal([1.0], np.zeros((1, 3)), np.ones((1, 3))).save("plain.json")
    for name, text in {
        ".csv": "a,b\n1,\x1b[31mx\n",
        "bad.json": "\x1b[31m{",
        "bad.mms": "\x1b",
    }.items():
        with open(HOSTILE + name, "w", encoding="utf-8") as file:
            file.write(text)
    os.mkdir(HOSTILE + "folder")
    return tmp_path


def assert_harmless(text):
    for line in text.split("\n"):
        assert line.isprintable(), ascii(line)
        assert not line.startswith("momentmix: forged"), text


RUNS = [
    ["summarize", HOSTILE + ".parquet", "-o", HOSTILE + "out.mms"],
    ["summarize", HOSTILE + "large.parquet", "-o", "out.mms"],
    ["summarize", HOSTILE + ".csv", "-o", "out.mms"],
    ["summarize", UNDECODABLE, "-o", "out.mms", "--columns", HOSTILE],
    ["summarize", HOSTILE, "-o", "out.mms"],
    ["summarize", HOSTILE + "*.nothing", "-o", "out.mms"],
    ["summarize", HOSTILE + "folder", "-o", "out.mms"],
    ["summarize", HOSTILE + ".npy", "-o", "out.mms", "--delimiter", HOSTILE],
    ["merge", HOSTILE + ".mms", "-o", HOSTILE + "out.mms"],
    ["merge", HOSTILE + "bad.mms", "-o", "out.mms"],
    ["fit", HOSTILE + ".mms", "-r", "1", "-v", "-o", HOSTILE + "out.json"],
    ["fit", HOSTILE + ".mms", "-r", HOSTILE, "-o", "out.json"],
    ["predict", HOSTILE + ".json", HOSTILE + ".parquet", "-o", HOSTILE + "out.csv"],
    ["predict", HOSTILE + ".json", HOSTILE + ".parquet", "--density"],
    ["predict", HOSTILE + ".json", HOSTILE + ".parquet", "--keep", HOSTILE],
    ["info", HOSTILE + ".mms"],
    ["info", HOSTILE + ".json"],
    ["info", HOSTILE + ".parquet"],
    ["info", HOSTILE + "folder"],
    ["reproduce", HOSTILE],
    [HOSTILE],
    ["fit", "--" + HOSTILE],
]  # fmt: skip


@pytest.mark.parametrize("arguments", RUNS, ids=[str(i) for i in range(len(RUNS))])
def test_a_command_prints_no_control_characters(folder, momentmix, arguments):
    done = momentmix(*arguments)
    assert done.code in (0, 1, 2), done
    assert done.err or done.out
    assert_harmless(done.err)
    assert_harmless(done.out)


# -- errors and warnings in Python ------------------------------------------------------------


@pytest.mark.parametrize("kind", [InputError, MissingDependencyError, FitWarning])
def test_errors_and_warnings_are_printable(kind):
    assert str(kind(f"{HOSTILE} of {ORDINARY}")) == f"{shown(HOSTILE)} of {ORDINARY}"
    assert shown(HOSTILE).isprintable()
    with pytest.warns(UserWarning, match=r"h\\x1b\[31m") as caught:
        warnings.warn(FitWarning(HOSTILE), stacklevel=1)
    assert str(caught[0].message).isprintable()


# -- data on standard output ------------------------------------------------------------------


def test_data_are_exact_in_a_pipe_and_escaped_on_a_terminal(folder, momentmix, monkeypatch):
    pa.parquet.write_table(pa.table({"x": [0.0], "y": ["\x1b[31m"]}), "text.parquet")
    mm.Mixture.diagonal([1.0], [[0.0]], [[1.0]], ["x"]).save("x.json")
    done = momentmix("predict", "x.json", "text.parquet", "--keep", "y")
    assert done.out == "y,label\n\x1b[31m,0\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    done = momentmix("predict", "x.json", "text.parquet", "--keep", "y")
    assert done.out == "y,label\n\\x1b[31m,0\n"


# -- JSON -------------------------------------------------------------------------------------


def strict(text):
    def refuse(word):
        raise AssertionError(f"{word} in JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    "arguments",
    [
        ["summarize", HOSTILE + ".npy", "-o", HOSTILE + "out.mms"],
        ["merge", HOSTILE + ".mms", "-o", HOSTILE + "out.mms"],
        ["fit", HOSTILE + ".mms", "-r", "1", "-v", "-o", HOSTILE + "out.json"],
        ["predict", "plain.json", HOSTILE + ".npy", "-o", HOSTILE + "out.csv"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_json_is_strict_printable_and_exact(folder, momentmix, arguments):
    done = momentmix(*arguments, "--json")
    assert done.code == 0, done
    assert_harmless(done.out)
    assert strict(done.out)["output"] == arguments[arguments.index("-o") + 1]
