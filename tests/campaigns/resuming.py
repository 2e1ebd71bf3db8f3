"""`summarize` killed or stopped at any time goes on to the same bytes."""

import math
import os
import random
import re
import signal
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from campaigns.campaign import Campaign, temporary_folder
from campaigns.fault_systems import Counted, install, write_in_place
from campaigns.forks import Forks, hold, job
from momentmix.cli import main
from momentmix.cli.app import _Terminated
from momentmix.cli.summarizing import checkpoint
from momentmix.errors import InputError
from momentmix.summary import parts
from momentmix.summary.summary import MomentSummary

# What the forks are to find imported: all that a pass over NPY and CSV files imports.
MODULES = (__name__, "momentmix.tables.opening", "momentmix.summary.kernels.native_sums")
MODULES += ("pyarrow.csv", "pyarrow.compute", "pandas")
STOPS = {signal.SIGTERM: 143, signal.SIGINT: 130}


def make_data(folder):
    """Files of two kinds in the folder "data"; gives the number of rows that are kept."""
    data = Path(folder, "data")
    data.mkdir()
    rng = np.random.default_rng(0)
    for name, n_rows in (("a.npy", 3_530), ("c.npy", 2_101)):
        np.save(data / name, rng.standard_normal((n_rows, 6)))
    rows = rng.standard_normal((1_345, 6)).tolist()
    rows[1000][2] = float("nan")
    (data / "b.csv").write_text("\n".join(",".join(map(repr, row)) for row in rows))
    return 3_530 + 2_101 + 1_344


def arguments(output, state):
    return [
        "summarize", "data", "-o", output, "--checkpoint", state, "--every", "0", "-m", "3",
        "--part-rows", "300", "--threads", "1", "--missing", "drop", "--quiet",
    ]  # fmt: skip


# -- in a fork --------------------------------------------------------------------------------


def run_command(command, action=None, call=None, event=None, fault=None):
    """Run the command; act at a call of the save path or at an event of the interpreter.

    An event is a call or a return of any function, so that every number is a place in the program,
    and nearly the same one in every run. Actions are "hold" or the number of a signal.
    """
    act = hold if action == "hold" else lambda: os.kill(os.getpid(), action)
    if fault is not None:
        FAULTS[fault]()
    if call is not None:
        install(Counted(call, act, chunk=1 << 10))
    left = math.inf if event is None else event

    def count(frame, *_):
        nonlocal left
        left -= 1
        # Python ignores what is raised in the callback of a weak reference: act after it.
        if left < 0 and frame.f_code.co_name != "_remove":
            left = math.inf
            act()

    try:
        if event is not None:
            sys.setprofile(count)
        main(command)
    except (KeyboardInterrupt, _Terminated) as error:  # before or after the command's own handlers
        sys.exit(STOPS[signal.SIGTERM if isinstance(error, _Terminated) else signal.SIGINT])
    finally:
        sys.setprofile(None)


def count_events(command):
    """Run the command, and write the number of events that there were."""
    n = 0

    def count(*_):
        nonlocal n
        n += 1

    sys.setprofile(count)
    try:
        main(command)
    finally:
        sys.setprofile(None)
        print(f"{n} events")


def _write_in_place():
    """A fault: checkpoints are written over the old one."""
    checkpoint.atomic_write = write_in_place


def _lock_nothing():
    """A fault: nobody asks whether another process is at work."""
    checkpoint.locked = lambda path: nullcontext()


def _skip_a_part():
    """A fault: a pass goes on one row too late."""
    summarize_parts = parts.summarize_parts

    def late(source, start, *rest):
        return summarize_parts(source, replace(start, row=start.row + bool(start.row)), *rest)

    parts.summarize_parts = late


FAULTS = {"write in place": _write_in_place, "no lock": _lock_nothing, "a row late": _skip_a_part}


# -- the cases --------------------------------------------------------------------------------


class Pass:
    """Passes over one folder of data, and what is known of a whole one."""

    def __init__(self, forks, folder, fault=None):
        self.forks, self.folder, self.fault = forks, Path(folder), fault
        self.n_rows = make_data(self.folder)
        (whole,) = forks.run(
            job(f"{__name__}:count_events", {"command": arguments("whole", "none")}, folder=folder)
        )
        assert whole.code == 0, whole
        self.whole = (self.folder / "whole").read_bytes()
        assert MomentSummary.from_bytes(self.whole).n_rows == self.n_rows
        self.n_events = int(re.search(r"(\d+) events", whole.text)[1])

    def job(self, output, state, *, more=(), holds=False, signalled=None, **interruption):
        """A pass in a fork."""
        command = [*arguments(output, state), *more]
        given = {"command": command, "fault": self.fault, **interruption}
        return job(
            f"{__name__}:run_command", given, folder=self.folder, holds=holds, signalled=signalled
        )

    def place_of(self, state):
        """Where a checkpoint stands, which is valid whatever happened; nowhere if there is none."""
        if not (self.folder / state).exists():
            return (0, 0)
        found = checkpoint.Checkpoint.load(self.folder / state)
        MomentSummary.from_bytes(found.summary)
        return found.piece, found.row

    def check(self, number, output):
        """The output is that of a whole pass, and nothing else of this case is left."""
        assert (self.folder / output).read_bytes() == self.whole, "other bytes"
        names = os.listdir(self.folder)
        left = [name for name in names if name.startswith((f"{number}.", f".{number}."))]
        assert left == [output], f"left: {left}"
        (self.folder / output).unlink()


def _interruption(chance, n_events):
    """Where the next pass is interrupted, and by which signal."""
    if chance.random() < 0.4:
        return {"action": signal.SIGKILL, "call": chance.randrange(150)}
    action = chance.choice([signal.SIGKILL, *STOPS])
    # A few events more or less, where a thread was waited for, change no later choice.
    return {"action": action, "event": int(chance.random() * 2 * n_events / 5)}


def interrupted_run(a_pass, number, chance, counts):
    """Interrupt a pass until one gets through: by a kill or a signal, anywhere."""
    output, state, folder = f"{number}.mms", f"{number}.state", a_pass.folder
    n_stopped, enough = 0, chance.randrange(2, 5)
    while True:
        how = _interruption(chance, a_pass.n_events) if n_stopped < enough else {}
        before = a_pass.place_of(state)
        (done,) = a_pass.forks.run(a_pass.job(output, state, **how))
        assert "Traceback" not in done.text, done.text
        if (folder / state).exists():
            assert a_pass.place_of(state) >= before, "the checkpoint went back"
        if done.code == 0:
            return output
        # SIGTERM may come before its handler.
        expected = {-how["action"], STOPS.get(how["action"])} if how else {}
        assert done.code in expected, f"{how}: exit code {done.code}: {done.text}"
        counts["kills" if done.code < 0 else "stops by a signal"] += 1
        n_stopped += 1
        if (folder / output).exists() and not (folder / state).exists():
            checkpoint.lock_path(folder / state).unlink(missing_ok=True)  # done, but for its exit
            return output


def second_writer_is_refused(a_pass, number, chance, counts):
    """A second run on the same checkpoint leaves with 73 while the first one is at work."""
    output, state = f"{number}.mms", f"{number}.state"
    first, second = a_pass.forks.run(
        a_pass.job(output, state, holds=True, action="hold", call=chance.randrange(30, 250)),
        a_pass.job("other.mms", state),
    )
    assert first.held, first
    assert second.code == 73, f"exit code {second.code}: {second.text}"
    assert "another process is writing" in second.text, second.text
    assert not (a_pass.folder / "other.mms").exists()
    assert first.code == 0, first
    counts["second writers refused"] += 1
    return output


def resumes(start, stop, seed, fault=None, forks=None):
    """A case: one pass with its interruptions, or two writers; the bytes are those of `whole`."""
    counts = Counter()
    with temporary_folder() as folder, nullcontext(forks) if forks else Forks(*MODULES) as server:
        a_pass = Pass(server, folder, fault)
        for number in range(start, stop):
            chance = random.Random(f"{seed} resume {number}")
            case = second_writer_is_refused if number % 20 == 19 else interrupted_run
            try:
                a_pass.check(number, case(a_pass, number, chance, counts))
            except (AssertionError, InputError) as error:
                raise AssertionError(f"case {number}: {error}") from error
            counts["resumed passes"] += 1
    return counts


CAMPAIGNS = [Campaign(resumes, 300, 5, {"kills": 500, "stops by a signal": 50})]
