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
    monkeypatch.setenv("TQDM_MININTERVAL", "0")
    return stream


@pytest.fixture
def rows():
    half = np.random.default_rng(0).standard_normal((1000, 3))
    return np.concatenate([half, half + 4.0])


def screen(text):
    """What a terminal shows in the end: carriage returns and spaces overwrite."""
    lines = []
    for line in text.split("\n"):
        shown = []
        for part in line.split("\r"):
            shown[: len(part)] = part
        lines.append("".join(shown).rstrip())
    return "\n".join(lines).strip("\n")


def frames(stream):
    """All that was shown on the line, one after the other."""
    return [part.rstrip() for part in stream.getvalue().split("\r") if part.strip()]


# -- where bars show --------------------------------------------------------------------------


def test_a_step_that_takes_long_is_shown_and_erased(terminal, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 3600.0)
    with progress.step("Working"):
        progress.tell("first")
    assert terminal.getvalue() == ""
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with progress.step("Working"):
        progress.tell("second")
        progress.detail("pass 3")
    assert [frame.partition(" [")[0] for frame in frames(terminal)][-2:] == [
        "Working: second",
        "Working: second, pass 3",
    ]
    assert screen(terminal.getvalue()) == ""


def test_nothing_is_shown_without_a_terminal(monkeypatch, rows):
    monkeypatch.setattr(progress, "DELAY", 0.0)
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
    mm.summarize(rows, 2)
    assert terminal.getvalue() == ""


def test_worker_processes_are_silent(terminal, monkeypatch):
    assert progress.is_watched()
    worker = SimpleNamespace(name="LokyProcess-1")
    monkeypatch.setattr(multiprocessing, "current_process", lambda: worker)
    assert not progress.is_watched()


def test_a_notebook_without_widgets_has_a_bar_of_text(monkeypatch):
    stream = io.StringIO()
    use(monkeypatch, stream)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    with progress.step("Working"):
        pass
    assert "Working" in stream.getvalue()
    monkeypatch.delitem(sys.modules, "ipykernel")
    assert not progress.is_watched()


@pytest.mark.parametrize("given", ["yes", 1])
def test_what_is_no_answer_is_refused(given, rows):
    for call in (mm.summarize, mm.fit):
        with pytest.raises(InputTypeError, match=f"progress must be True, .*; got {given!r}"):
            call(rows, 2, progress=given)


# -- what they say ----------------------------------------------------------------------------


def test_rows_of_all_files_are_counted(tmp_path, rows, terminal):
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", rows + (name == "b"))
    mm.summarize(str(tmp_path / "*.npy"), 2)
    last = frames(terminal)[-1]
    assert last.startswith("Summarizing: 100%|")
    assert "4.00k/4.00k [" in last
    assert "rows/s" in last
    assert screen(terminal.getvalue()) == ""


@pytest.mark.parametrize("packing", ["", ".gz"])
def test_the_first_pass_of_text_counts_its_rows(packing, tmp_path, rows, terminal):
    path = tmp_path / f"b.csv{packing}"
    np.savetxt(path, np.tile(rows, (20, 1)), delimiter=",")  # compressed by its ending
    mm.summarize(path, 2)
    assert frames(terminal)[-1].startswith("Summarizing: 40.0k rows [")
    assert screen(terminal.getvalue()) == ""


def test_stages_and_passes_of_a_fit_are_shown(rows, terminal):
    result = mm.fit(rows, 2, random_state=0)
    shown = " ".join(frames(terminal))
    assert all(f"Fitting: {name}" in shown for name, _ in result.stages)
    assert all(f", pass {i + 1} [" in shown for i in range(result.n_passes - 1))


@pytest.mark.parametrize("rule", ["auto", "bic"])
def test_numbers_of_components_that_are_tried_are_shown(rule, rows, terminal):
    mm.fit(rows, rule, random_state=0)
    for text in ("2 of 8", "3 of 8"):
        assert f"Fitting: number of components, {text} [" in terminal.getvalue()


def test_one_bar_at_a_time(terminal):
    with progress.step("Fitting"):
        progress.tell("moments")
        with progress.step("Summarizing"):
            progress.row_counter(9, unit="partitions")(9)
        assert "9.00/9.00" in frames(terminal)[-1]
        progress.tell("certificate")
    assert frames(terminal)[-1].startswith("Fitting: certificate [")
    assert "Summarizing" not in terminal.getvalue()


def test_a_line_of_others_has_a_line_of_its_own(terminal):
    with progress.step("Working", asked=True):
        progress.erase()
        terminal.write("a note\n")
    assert screen(terminal.getvalue()) == "a note"


# -- what they must not do --------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_errors_erase_the_bar_and_give_it_free(error, terminal):
    for _ in range(2):
        with pytest.raises(error), progress.step("Working"):
            raise error
    assert terminal.getvalue().count("Working") >= 2
    assert screen(terminal.getvalue()) == ""


def test_a_terminal_that_is_gone_stops_no_step(monkeypatch, terminal):
    with progress.step("Working"):
        terminal.close()
        progress.tell("on")
    with progress.step("Working", asked=False):
        progress.row_counter(3)(3)


# -- the command ------------------------------------------------------------------------------


def test_a_command_shows_its_progress(tmp_path, rows, terminal):
    np.save(tmp_path / "a.npy", rows)
    arguments = ["fit", str(tmp_path / "a.npy"), "-r", "2", "-o", str(tmp_path / "m.json")]
    cli(arguments, standalone_mode=False)
    assert "Fitting" in terminal.getvalue()
    assert screen(terminal.getvalue()) == ""


@pytest.mark.parametrize("command", ["predict", "report", "schema"])
def test_commands_that_read_or_write_rows_show_them(command, tmp_path, rows, terminal):
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", header="a,b,c", comments="")
    data, model = str(tmp_path / "a.csv"), str(tmp_path / "m.json")
    mixture = mm.Mixture.diagonal([0.5, 0.5], [[0.0] * 3, [4.0] * 3], np.ones((2, 3)), list("abc"))
    mixture.save(model)
    label, *arguments = {
        "predict": ["Predicting", model, data, "-o", str(tmp_path / "l.csv")],
        "report": ["Report: pictures", model, "--data", data, "-o", str(tmp_path / "r.html")],
        "schema": ["Reading columns", data, "-o", str(tmp_path / "s.json")],
    }[command]
    cli([command, *arguments], standalone_mode=False)
    assert label in frames(terminal)[-1]
    assert screen(terminal.getvalue()) == ""
