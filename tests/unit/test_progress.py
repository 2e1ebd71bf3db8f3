"""Progress bars: where they show, what they say, and that they change nothing else."""

import io
import multiprocessing
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import momentmix as mm
from momentmix import progress
from momentmix.cli import cli
from momentmix.errors import InputTypeError
from momentmix.parallel import begin, read_ahead


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
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    with progress.step("Working"):
        progress.tell("second")
        progress.detail("pass 3")
    assert [frame.partition(" [")[0] for frame in frames(terminal)][-2:] == [
        "Working: second",
        "Working: second, pass 3",
    ]
    assert screen(terminal.getvalue()) == ""


def test_a_stage_is_drawn_at_once_and_its_details_now_and_then(terminal, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 60.0)
    with progress.step("Working"):
        progress.tell("moments")
        progress.detail("pass 1")
        progress.tell("certificate")
    assert [frame.partition(" [")[0] for frame in frames(terminal)] == [
        "Working",
        "Working: moments",
        "Working: certificate",
    ]


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
    shell = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with progress.step("Working"):
        pass
    assert "Working" in stream.getvalue()
    shell.config = {"TerminalIPythonApp": {}}
    assert not progress.is_watched()


def test_a_notebook_with_widgets_has_a_bar_of_them_and_keeps_none(monkeypatch):
    pytest.importorskip("ipywidgets")
    import tqdm.notebook

    shown = []
    monkeypatch.setattr(tqdm.notebook, "display", shown.append)
    monkeypatch.setattr("tqdm.auto.tqdm", tqdm.notebook.tqdm)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    with progress.counting("Working", 4, "parts", asked=True) as count:
        count(3)
        left, bar, right = shown[0].children
        assert (bar.max, bar.value) == (4, 3)
        assert left.value.startswith("Working")
        assert "3/4" in right.value
    assert shown[0].layout.visibility == "hidden"


@pytest.mark.parametrize(("given", "got"), [("yes", "'yes'"), (1, "1")])
def test_what_is_no_answer_is_refused(given, got, rows):
    with pytest.raises(InputTypeError, match=f"progress must be True, False or None; got {got}"):
        mm.summarize(rows, 2, progress=given)
    with pytest.raises(InputTypeError, match=f"True, False, a callable or None; got {got}"):
        mm.fit(rows, 2, progress=given)


def test_tqdm_is_not_loaded_before_a_bar():
    code = (
        "import sys, momentmix.fitting.api\nfrom momentmix.cli import cli\n"
        "cli(['--help'], standalone_mode=False)\nprint('tqdm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


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
def test_the_first_pass_of_text_counts_its_bytes(packing, tmp_path, rows, terminal):
    path = tmp_path / f"b.csv{packing}"
    np.savetxt(path, np.tile(rows, (20, 1)), delimiter=",")  # compressed by its ending
    mm.summarize(path, 2)
    shares = [float(part.split("%|")[0][-3:]) for part in frames(terminal) if "%|" in part]
    assert shares == sorted(shares)
    assert frames(terminal)[-1].startswith("Summarizing: 100%|")
    assert "B/s" in frames(terminal)[-1]
    assert screen(terminal.getvalue()) == ""


def test_bytes_of_several_files(tmp_path, rows, terminal):
    for name in "ab":
        np.savetxt(tmp_path / f"{name}.csv", rows + (name == "b"), delimiter=",")
    mm.summarize(str(tmp_path / "*.csv"), 2)
    total = sum((tmp_path / f"{name}.csv").stat().st_size for name in "ab")
    assert frames(terminal)[-1].startswith("Summarizing: 100%|")
    assert f"{total / 1000:.0f}k/{total / 1000:.0f}k [" in frames(terminal)[-1]


def test_rows_without_a_total_are_counted_too(rows, terminal):
    mm.summarize(iter([rows, rows]), 2)
    assert frames(terminal)[-1].startswith("Summarizing: 4.00k rows [")


def test_a_second_pass_knows_the_total(tmp_path, rows, terminal):
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",")
    source = mm.open_rows(tmp_path / "a.csv", block_rows=300)
    with progress.step("Reading"):
        for unit in ("B/s", "rows/s"):
            assert len(list(source.blocks())) > 3
            assert frames(terminal)[-1].startswith("Reading: 100%|")
            assert unit in frames(terminal)[-1]


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


@pytest.fixture
def positions(terminal, monkeypatch):
    """The position of the bar after each update, from 0 to 1."""
    found, new_bar = [], progress._new_bar

    def watched(label, delay):
        bar = new_bar(label, delay)
        update = bar.update

        def recorded(n=1):
            update(n)
            found.append(bar.n if bar.ends else 0.0)

        bar.update = recorded
        return bar

    monkeypatch.setattr(progress, "_new_bar", watched)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 3},
        {"n_components": "auto"},
        {"n_components": "bic", "blocks": "diag"},
        {"n_components": 2, "blocks": "auto"},
        {"n_components": 2, "of_summary": True},
        {"n_components": "auto", "of_summary": True},
    ],
)
def test_a_fit_moves_forward_to_its_end_without_long_jumps(options, positions):
    rng = np.random.default_rng(1)
    means = 3.0 * rng.standard_normal((3, 6))
    data = mm.DiagonalMixture([0.5, 0.3, 0.2], means, np.ones((3, 6))).sample(3000, 0)[0]
    of_summary = options.pop("of_summary", False)
    mm.fit(mm.summarize(data, 4, progress=False) if of_summary else data, random_state=0, **options)
    assert positions == sorted(positions)
    assert positions[-1] == pytest.approx(1.0)
    assert np.diff([0.0, *positions]).max() < 0.5
    assert len(set(positions)) >= 6


def test_the_time_left_is_that_of_the_pace_so_far(terminal, monkeypatch):
    with progress.step("Working", asked=True):
        bar = progress._bar()
        bar._time, bar.start_t = (lambda: 30.0), 0.0
        progress.plan({"first": 1.0, "second": 3.0})
        progress.tell("first")
        progress.finish("first")
        assert bar.format_dict["elapsed"] == 30.0
        progress.tell("second")
        assert "Working: second [00:30, about 01:30 left]  25 %|" in frames(terminal)[-1]
        progress.detail("half of it", 0.5)
        assert "second, half of it [00:30, about 00:18 left]  62 %|" in frames(terminal)[-1]
        count = progress.row_counter(10)
        count(4)
        assert "second, half of it, 4 of 10 rows [" in frames(terminal)[-1]


def test_waiting_for_another_thread_draws_the_time(positions, monkeypatch):
    monkeypatch.setattr("momentmix.parallel._BETWEEN_TICKS", 0.001)
    gate = threading.Event()

    def work():
        gate.wait(60)
        return 7

    with progress.step("Working", asked=True):
        result = begin(work, 2)
        before = len(positions)
        timer = threading.Timer(0.1, gate.set)
        timer.start()
        assert result() == 7
    assert len(positions) > before + 2


def test_one_bar_at_a_time(terminal, rows):
    with progress.counting("Fits", 2, "fits") as count:
        for _ in range(2):
            mm.fit(rows, 2, random_state=0)
            count(1)
    assert frames(terminal)[-1].startswith("Fits: 100%|")
    assert "2/2" in frames(terminal)[-1]
    assert "Fitting" not in terminal.getvalue()
    with progress.step("Fitting"):
        progress.tell("moments")
        with progress.counting("Summarizing", 9, "partitions") as count:
            count(9)
        assert "9/9" in frames(terminal)[-1]
        progress.tell("certificate")
    assert frames(terminal)[-1].startswith("Fitting: certificate [")
    assert "Summarizing" not in terminal.getvalue()


def test_of_two_threads_the_first_has_the_bar(terminal):
    def other():
        with progress.step("Second"):
            progress.tell("of its own")

    with progress.step("First"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        progress.tell("goes on")
    assert "Second" not in terminal.getvalue()
    assert frames(terminal)[-1].startswith("First: goes on [")


def test_rows_that_a_thread_of_ours_reads_count(terminal):
    def items():
        progress.row_counter(3)(3)
        yield 1

    with progress.step("Predicting"):
        assert list(read_ahead(items())) == [1]
    assert "3.00/3.00" in frames(terminal)[-1]


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
    with progress.counting("Working", 3, "parts", asked=False) as count:
        count(3)


# -- the command ------------------------------------------------------------------------------


def test_a_quiet_command_shows_nothing(tmp_path, rows, terminal):
    np.save(tmp_path / "a.npy", rows)
    arguments = ["fit", str(tmp_path / "a.npy"), "-r", "2", "-o", str(tmp_path / "m.json")]
    cli([*arguments, "--quiet"], standalone_mode=False)
    assert terminal.getvalue() == ""
    cli([*arguments, "--force"], standalone_mode=False)
    assert "Fitting" in terminal.getvalue()
    assert screen(terminal.getvalue()) == ""


@pytest.mark.parametrize("command", ["predict", "score", "report", "plot", "schema", "sample"])
def test_commands_that_read_or_write_rows_show_them(command, tmp_path, rows, terminal):
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", header="a,b,c", comments="")
    data, model = str(tmp_path / "a.csv"), str(tmp_path / "m.json")
    mixture = mm.DiagonalMixture([0.5, 0.5], [[0.0] * 3, [4.0] * 3], np.ones((2, 3)), list("abc"))
    mixture.save(model)
    label, *arguments = {
        "predict": ["Predicting: 100%", model, data, "-o", str(tmp_path / "l.csv")],
        "score": ["Scoring: 100%", model, data],
        "report": ["Report: pictures", model, "--data", data, "-o", str(tmp_path / "r.html")],
        "plot": ["Reading rows: 100%", model, data, "-o", str(tmp_path / "p.png")],
        "schema": ["Reading columns", data, "-o", str(tmp_path / "s.json")],
        "sample": ["Sampling: 100%", model, "-n", "50", "-o", str(tmp_path / "x.csv")],
    }[command]
    cli([command, *arguments], standalone_mode=False)
    assert label in frames(terminal)[-1]
    assert screen(terminal.getvalue()) == ""
