import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

import momentmix as mm
from momentmix import native
from momentmix.cli import cli


@pytest.fixture
def run():
    def call(*arguments):
        return CliRunner().invoke(cli, arguments, catch_exceptions=False)

    return call


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "nonsense"], "nonsense"),
        (["reproduce", "decomposition", "--rows", "99,3"], "this table has 15,3"),
        (["reproduce", "decomposition", "--rows", "x"], "expected d,m"),
        (["reproduce", "decomposition", "--instances", "0"], "0 is not in the range"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(momentmix, arguments, message):
    done = momentmix(*arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_reproduce_prints_the_printed_figure_beside_ours(run, tmp_path):
    path = tmp_path / "figures.json"
    options = ("--rows", "15,3", "--instances", "2", "-o", str(path))
    text = run("reproduce", "decomposition", *options).output
    assert "3.1e-12" in text  # printed average
    (row,) = json.loads(path.read_text())["rows"]
    assert row["avg"] < 1e-12
    assert row["n"] == 2


def test_noise_is_a_part_of_a_row(run):
    result = run("reproduce", "approximation", "--rows", "15,3,0.1", "--instances", "1")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) >= 3


def test_gaussian_table_counts_rows(run):
    result = run("reproduce", "gaussian", "--rows", "15,3", "--rows", "1e4", "--json")
    (row,) = json.loads(result.output)["rows"]
    assert (row["N"], row["r"], row["algorithm"]) == (10_000, 6, 0.9839)
    assert row["bayes"] > 0.99
    assert row["default"] > row["bayes"] - 0.004
    assert row["bayes"] > row["paper"] > row["as_printed"]
    assert row["bayes"] > row["em1"]
    for text in ("1e3", "inf", "x"):
        assert run("reproduce", "gaussian", "--rows", text).exit_code == 2


@pytest.mark.parametrize(("value", "engine"), [("", "compiled code in use"), ("0", "NumPy does")])
def test_the_module_runs_the_command_and_tells_which_code_is_used(value, engine):
    if not value and native.code is None:
        pytest.skip("no compiled code here")
    command, env = [sys.executable, "-m", "momentmix", "--version"], {"MOMENTMIX_NATIVE": value}
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"momentmix, version {mm.__version__} (")
    assert engine in done.stdout
