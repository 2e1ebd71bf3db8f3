"""Progress bars: where they show, what they say, and that they change nothing else."""

import io
import multiprocessing
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import momentmix as mm
from momentmix import progress
from momentmix.cli import cli
from momentmix.errors import InputTypeError


class Terminal(io.StringIO):
    def isatty(self):
        return not super().isatty()  # an error where it is closed


def use(monkeypatch, stream):
    """Take a stream for standard error; pytest sets its own again after the fixtures."""
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream, modules=sys.modules))


@pytest.fixture
def terminal(monkeypatch):
    """Standard error as a terminal, where every step counts as long and every change is drawn."""
    stream = Terminal()
    use(monkeypatch, stream)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    return stream


@pytest.fixture
def rows():
    half = np.random.default_rng(0).standard_normal((1000, 3))
    return np.concatenate([half, half + 4.0])


def frames(stream):
    """All that was shown on the line, one after the other."""
    return [part.rstrip() for part in stream.getvalue().split("\r") if part.strip()]


def is_erased(stream):
    """Whether nothing is left on the line: spaces overwrote what was there."""
    return not stream.getvalue().rpartition("\r")[2].strip()


def test_nothing_is_shown_without_a_terminal_or_in_workers(monkeypatch, rows, terminal):
    assert progress.is_watched()
    worker = SimpleNamespace(name="LokyProcess-1")
    with monkeypatch.context() as patch:
        patch.setattr(multiprocessing, "current_process", lambda: worker)
        assert not progress.is_watched()
    for stream in (io.StringIO(), None):
        use(monkeypatch, stream)
        mm.fit(rows, 2, random_state=0)
        assert stream is None or stream.getvalue() == ""
    closed = Terminal()
    closed.close()
    use(monkeypatch, closed)
    assert not progress.is_watched()


def test_asking_decides_and_the_environment_has_the_last_word(monkeypatch, rows, terminal):
    mm.summarize(rows, 2, progress=False)
    mm.fit(rows, 2, random_state=0, progress=False)
    assert terminal.getvalue() == ""
    plain = io.StringIO()
    use(monkeypatch, plain)
    mm.summarize(rows, 2, progress=True)
    assert "Summarizing" in plain.getvalue()
    monkeypatch.setenv("TQDM_DISABLE", "1")
    use(monkeypatch, terminal)
    mm.summarize(rows, 2, progress=True)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("given", ["yes", 1])
def test_what_is_no_answer_is_refused(given, rows):
    for call in (mm.summarize, mm.fit):
        with pytest.raises(InputTypeError, match=r"progress must be|True, False"):
            call(rows, 2, progress=given)


@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_rows_of_all_files_are_counted(ending, tmp_path, rows, terminal):
    for name in ("a", "b"):
        path = tmp_path / f"{name}.{ending}"
        table = rows + (name == "b")
        np.save(path, table) if ending == "npy" else np.savetxt(path, table, delimiter=",")
    mm.summarize(str(tmp_path / f"*.{ending}"), 2)
    assert frames(terminal)[-1].startswith("Summarizing: ")
    assert ending == "csv" or "/4.00k" in terminal.getvalue()  # text does not say how many it has
    assert is_erased(terminal)


@pytest.mark.parametrize("number", [2, "auto", "bic"])
def test_stages_of_a_fit_are_shown(number, rows, terminal):
    result = mm.fit(rows, number, random_state=0)
    shown = " ".join(frames(terminal))
    assert all(f"Fitting: {name}" in shown for name, _ in result.stages)
    assert number == 2 or "number of components, 2 of 8" in shown


def test_one_bar_at_a_time(terminal, rows):
    with progress.step("Many fits"):
        for _ in range(2):
            mm.fit(rows, 2, random_state=0)
    assert "Many fits: " in terminal.getvalue()
    assert "Fitting" not in terminal.getvalue()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_errors_erase_the_bar_and_give_it_free(error, terminal):
    for _ in range(2):
        with pytest.raises(error), progress.step("Working"):
            raise error
    assert terminal.getvalue().count("Working") >= 2
    assert is_erased(terminal)


def test_a_terminal_that_is_gone_stops_no_step(monkeypatch, terminal):
    with progress.step("Working"):
        terminal.close()
        progress.tell("on")


def test_a_command_shows_its_progress(tmp_path, rows, terminal):
    np.save(tmp_path / "a.npy", rows)
    arguments = ["fit", str(tmp_path / "a.npy"), "-r", "2", "-o", str(tmp_path / "m.json")]
    cli(arguments, standalone_mode=False)
    assert "Fitting" in terminal.getvalue()
    assert is_erased(terminal)
