"""The runner of `make test-all`: resumes, accumulates, and does not believe old results."""

import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from campaigns import run
from campaigns.part import ROOT, Part, sources_of


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Cases that were run; a part of 10 cases in batches of 3 that fails where it is told to."""
    cases, trouble = [], set()

    def work(start, stop, seed):
        for number in range(start, stop):
            assert number not in trouble, f"case {number} is broken"
            cases.append(number)
        return Counter({"cases": stop - start})

    def set_part(sources="a", goals=None):
        part = Part("made up", work, 10, 3, sources, goals or {"cases": 10})
        monkeypatch.setattr(run, "all_parts", lambda: {part.name: part})
        return part

    monkeypatch.setattr(run, "STATE", tmp_path / "state")
    set_part()
    return cases, trouble, set_part


def test_a_part_that_passed_is_not_run_again_and_one_that_changed_is(ran):
    cases, _, set_part = ran
    state = run.run_part("made up", 0)
    assert (state["counts"], state["error"]) == ({"cases": 10}, None)
    assert run.passed(run.all_parts()["made up"], state)
    run.run_part("made up", 0)
    assert cases == list(range(10))
    part = set_part(sources="b")
    assert run.standing(part, 0)["next"] == 0
    run.run_part("made up", 0)
    assert len(cases) == 20
    assert run.standing(part, 1)["next"] == 0  # another seed, other cases


def test_a_failed_part_goes_on_at_the_batch_that_failed(ran):
    cases, trouble, _ = ran
    trouble.add(7)
    state = run.run_part("made up", 0)
    assert "cases 6 … 8: AssertionError: case 7 is broken" in state["error"]
    assert (state["next"], state["counts"]) == (6, {"cases": 6})
    assert not run.passed(run.all_parts()["made up"], state)
    trouble.clear()
    state = run.run_part("made up", 0)
    assert state["counts"] == {"cases": 10}
    assert cases == [0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9]


def test_an_interrupted_part_keeps_what_it_has_counted(ran, monkeypatch):
    part = run.all_parts()["made up"]
    monkeypatch.setattr(run, "_commit", lambda: "here")
    state = run.standing(part, 0)
    run.STATE.mkdir()
    run._batch(part, state, 0)
    run._store(part, state)  # and then the power goes off
    assert run.standing(part, 0)["next"] == 3
    assert run.run_part("made up", 0)["counts"] == {"cases": 10}


def test_a_goal_that_is_missed_is_a_failure(ran):
    _, _, set_part = ran
    part = set_part(goals={"kills": 5})
    state = run.run_part("made up", 0)
    assert state["error"] == "counts not reached: kills ≥ 5"
    assert "FAILED" in "\n".join(run.table([part], 0))


def test_a_part_whose_process_dies_is_reported(ran, monkeypatch, capsys):
    options = SimpleNamespace(seed=0, jobs=2)
    ended = SimpleNamespace(returncode=-9)
    monkeypatch.setattr(run.subprocess, "run", lambda *_, **__: ended)
    part = run.all_parts()["made up"]
    run._run_apart(part, options)
    assert "made up: status -9" in capsys.readouterr().out


def test_sources_are_found_through_imports(tmp_path):
    """A campaign depends on what it imports, and on what that imports; not on other rooms."""
    here = ROOT / "tests" / "campaigns"
    before = sources_of(here / "reshifts.py")
    assert before != sources_of(here / "offsets.py")
    assert before == sources_of(here / "reshifts.py")
    seen = []
    from campaigns import part as module

    original = module.digest
    try:
        module.digest = lambda paths: seen.extend(paths)
        sources_of(here / "reshifts.py")
    finally:
        module.digest = original
    names = {str(path.relative_to(ROOT)) for path in seen}
    assert "src/momentmix/summary/fixed_point.py" in names
    assert "src/momentmix/atomic_file.py" in names
    assert not any("fitting" in name for name in names)


def test_the_command_line_lists_every_part():
    done = subprocess.run(
        [sys.executable, "tests/campaigns/run.py", "--list"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) > 18
    for name in ("merge-trees", "kills", "resumes", "summary-mutations", "tests"):
        assert any(line.startswith(name) for line in done.stdout.splitlines())


def test_an_unknown_part_is_wrong_use(ran, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "nonsense"])
    with pytest.raises(SystemExit, match="2"):
        run.main()
    assert "no part nonsense; there are made up" in capsys.readouterr().err
