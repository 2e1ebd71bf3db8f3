import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

import momentmix as mm
from momentmix import largest_rank, native
from momentmix.cli import cli


@pytest.fixture
def run():
    def call(*arguments):
        return CliRunner().invoke(cli, arguments, catch_exceptions=False)

    return call


def test_plan_prints_order_split_moments_memory_and_neighbours(run):
    text = run("plan", "-d", "15", "-r", "8").output
    assert "order    4  identifies up to 11 components by the robust method, 8 by the pap" in text
    assert "k = 8, p = 1" in text
    # 3,531 of orders 0 to 4 and squares; z³ … z⁶, z_j³·z_k, z_j²·z_k²
    assert f"moments  {3531 + 4 * 15 + 15 * 14 + 15 * 14 // 2:,};" in text
    for order in (3, 4, 5, 6):
        assert str(largest_rank(15, order)) in text


def test_plan_as_json(run):
    found = json.loads(run("plan", "-d", "15", "-r", "20", "--json").output)
    assert found["chosen"]["order"] == 5
    assert found["chosen"]["largest_rank_robust"] == 29
    found = json.loads(run("plan", "-d", "15", "-r", "20", "--method", "paper", "--json").output)
    assert found["chosen"]["order"] == 6
    assert found["chosen"]["largest_rank"] == 20


def test_plan_is_for_the_method_that_fits_by_default(run):
    text = run("plan", "-d", "5", "-r", "2").output  # the paper's method cannot do it at all
    assert "4  identifies up to 3 components by the robust method, 1 by the paper's" in text
    assert "← this plan" in text
    for d, r in ((3, 2), (4, 2), (8, 8), (15, 37)):
        plan = json.loads(run("plan", "-d", str(d), "-r", str(r), "--json").output)
        assert largest_rank(d, plan["chosen"]["order"], method="robust") >= r


def test_plan_for_one_component(run):
    assert "no order is needed" in run("plan", "-d", "2", "-r", "1").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["plan", "-d", "1000000000", "-r", "5", "-m", "1000000000"],
            "order=1000000000 with 1000000000 features has more than 1e+60 moments",
        ),
        (["plan", "-d", "9" * 400, "-r", "5"], "n_features must be below 2^63"),
        (["plan", "-d", "15", "-r", "9999"], "no order identifies n_components=9999 with 15"),
        (["plan", "-d", "15", "-r", "99", "--method", "paper"], "any order reaches is 20"),
        (["plan", "-d", "15", "-r", "12", "-m", "4"], "at most 11 components; n_components=12"),
        (["plan", "-d", "15", "-r", "9", "-m", "4", "--method", "paper"], "Use order=5"),
        (["plan", "-d", "0", "-r", "1"], "n_features must be at least 1"),
        (["plan", "-d", "15"], "Missing option"),
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


@pytest.mark.parametrize("table", ["approximation", "recovery", "stability"])
def test_every_table_runs(run, table):
    rows = "15,3,0.1" if table == "approximation" else "15,3"
    result = run("reproduce", table, "--rows", rows, "--instances", "1")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) >= 3


def test_gaussian_table_shows_bayes_and_both_kinds_of_em(run):
    result = run("reproduce", "gaussian", "--rows", "15,3", "--instances", "1", "--samples", "2000")
    header, row = result.output.splitlines()[1:3]
    assert all(word in header for word in ("Bayes", "EM ×1", "EM ×10", "rows", "means ×"))
    assert "0.9839" in row  # printed
    assert "not comparable" in result.output.splitlines()[3]


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
