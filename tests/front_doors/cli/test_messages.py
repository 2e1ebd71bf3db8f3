"""One text for Python and the command: the options in it exist, and errors of commands say more."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.cli.app import cli

NAMED = re.compile(r"(?<!var)\(--([a-z-]+)|\boption\((\w+)=")


def test_options_that_messages_name_are_those_of_a_command():
    own = [option for command in cli.commands.values() for option in command.params]
    known = {name for option in own for name in (*option.opts, *option.secondary_opts)}
    texts = [path.read_text(encoding="utf-8") for path in Path(mm.__file__).parent.rglob("*.py")]
    named = {f"--{''.join(found).replace('_', '-')}" for found in NAMED.findall("\n".join(texts))}
    assert len(named) > 12
    assert named <= known


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows, a cube and a summary of them, a model, and files that do not go with it."""
    folder = tmp_path_factory.mktemp("messages")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"amount": rng.normal(5, 2, 90), "visits": rng.poisson(2, 90)})
    rows["region"] = rng.choice(["EU", "US"], 90)
    rows.to_csv(folder / "rows.csv", index=False)
    counts = {"families": {"visits": "poisson"}}
    mm.summarize_by(rows, by="region", **counts).save(folder / "cube.parquet")
    mm.summarize(rows[["amount", "visits"]], 2, **counts).save(folder / "low.mms")
    mm.summarize(rows[["amount"]]).save(folder / "amount.mms")
    truth = mm.Mixture.diagonal([0.5, 0.5], [[0.0, 0.0], [3.0, 1.0]], np.ones((2, 2)))
    truth.save(folder / "model.json")
    return folder


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("summarize rows.csv --by= -o x.parquet", 2, "--by needs names of co"),
        ("fit cube.parquet --families amount=log -o x.json", 1, "leave families= (--families) out"),
        ("fit low.mms -r 2 --missing drop", 1, "missing= (--missing) is for rows"),
        ("fit low.mms -r 2 --delimiter ;", 1, "delimiter= (--delimiter) is for tables"),
        ("compare low.mms amount.mms", 1, "summarize them, columns= (--columns)"),
        ("compare low.mms model.json", 1, "model.json is no data; `momentmix track MODEL"),
        ("track model.json cube.parquet --rollup regoin", 1, "no key 'regoin'; it has"),
        ("track model.json cube.parquet --rollup ,", 2, "--rollup needs keys to kee"),
    ],
)
def test_errors_of_commands_say_what_helps(folder, momentmix, monkeypatch, command, code, message):
    monkeypatch.chdir(folder)
    done = momentmix(*command.split())
    assert done.code == code
    assert message in " ".join(done.err.split())
