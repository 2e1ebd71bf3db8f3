"""`summarize` killed or stopped at any time goes on to the same bytes."""

import fcntl
import os
import random
import signal
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from campaigns.fault_systems import Counted
from campaigns.part import RAM, campaign
from momentmix.cli import main
from momentmix.cli.checkpoint import Checkpoint, lock_path
from momentmix.core.atomic_file import SYSTEM
from momentmix.moments.summary import MomentSummary

STOPS = {signal.SIGTERM: 143, signal.SIGINT: 130}


def make_data():
    """A folder of files of three kinds in the working directory; gives the number of rows."""
    Path("data").mkdir()
    rng = np.random.default_rng(0)
    for name, n_rows in (("a.npy", 3_530), ("c.npy", 2_101)):
        np.save(f"data/{name}", rng.standard_normal((n_rows, 6)))
    rows = rng.standard_normal((1_345, 6)).tolist()
    rows[1000][2] = float("nan")
    Path("data/b.csv").write_text("\n".join(",".join(map(repr, row)) for row in rows))
    return 3_530 + 2_101 + 1_344


def arguments(output, state):
    return [
        "summarize", "data", "-o", output, "--checkpoint", state, "--every", "0", "-m", "3",
        "--part-rows", "300", "--threads", "1", "--missing", "drop", "--quiet",
    ]  # fmt: skip


def start(command, prepare=None):
    """Run the command in a fork, which finds everything imported; gives its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that a fork does not take along
        child = os.fork()
    if child:
        return child
    try:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if prepare is not None:
            prepare()
        main(command)
    except SystemExit as stop:
        os._exit(stop.code)
    except BaseException as error:  # a signal before or after the command's own handlers
        names = {"KeyboardInterrupt": 130, "_Terminated": 143}
        os._exit(names.get(type(error).__name__, 99))
    os._exit(99)


def wait(child, seconds=None):
    """The status of the process; None if it is still at work after so many seconds."""
    if seconds is None:
        return os.waitpid(child, 0)[1]
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        if time.monotonic() >= end:
            return None
        time.sleep(0.001)


def die_at(call):
    """Let this process kill itself at a call of the save path."""

    def prepare():
        SYSTEM.__class__ = Counted
        SYSTEM.__init__(call, lambda: os.kill(os.getpid(), signal.SIGKILL))

    return prepare


def interrupted_run(number, chance, duration, counts):
    """Interrupt a pass until one gets through: by time, at a system call, or by a signal."""
    output, state = f"{number}.mms", f"{number}.state"
    n_killed, enough = 0, chance.randrange(2, 5)
    while True:
        way = chance.choice(["time", "call", "call", "signal"]) if n_killed < enough else "none"
        limit = chance.uniform(0, 0.4 * duration)
        before = Checkpoint.load(Path(state)) if os.path.exists(state) else None
        prepare = die_at(chance.randrange(80)) if way == "call" else None
        child = start(arguments(output, state), prepare)
        status = wait(child, None if way in ("call", "none") else limit)
        number_of = signal.SIGKILL if way != "signal" else chance.choice(list(STOPS))
        if status is None:
            os.kill(child, number_of)
            status = wait(child)
        if os.path.exists(state):
            after = Checkpoint.load(Path(state))  # valid whatever happened
            MomentSummary.from_bytes(after.summary)
            assert before is None or (after.piece, after.row) >= (before.piece, before.row)
        if os.WIFSIGNALED(status):
            by_hand = os.WTERMSIG(status) == number_of  # SIGTERM may come before its handler
            assert by_hand or os.WTERMSIG(status) == signal.SIGKILL
            counts["kills"] += 1
        elif os.WEXITSTATUS(status) in STOPS.values():
            assert number_of in STOPS
            assert os.WEXITSTATUS(status) == STOPS[number_of]
            counts["stops by a signal"] += 1
        else:
            assert os.WEXITSTATUS(status) == 0, f"exit code {os.WEXITSTATUS(status)}"
            return output
        n_killed += 1
        if os.path.exists(output) and not os.path.exists(state):  # it was done, but for its exit
            lock_path(Path(state)).unlink(missing_ok=True)
            return output


def _is_held(path):
    """Whether another process holds the lock: the file alone may be older or newer than that."""
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def second_writer_is_refused(number, counts):
    """A second run on the same checkpoint leaves with 73 while the first one is at work."""
    state = f"{number}.state"
    child = start(arguments(f"{number}.mms", state))
    os.kill(child, signal.SIGSTOP)
    while not _is_held(lock_path(Path(state))):  # asked only while the first stands still
        os.kill(child, signal.SIGCONT)
        if (status := wait(child, 0.0005)) is not None:  # it was done before it could be stopped
            assert status == 0
            return f"{number}.mms"
        os.kill(child, signal.SIGSTOP)
    status = wait(start(arguments("other.mms", state)))
    assert os.WEXITSTATUS(status) == 73, f"exit code {os.WEXITSTATUS(status)}"
    assert not os.path.exists("other.mms")
    counts["second writers refused"] += 1
    os.kill(child, signal.SIGCONT)
    assert wait(child) == 0
    return f"{number}.mms"


def resumes(start_, stop, seed):
    """A case: one pass with its interruptions, or two writers; the bytes are those of `whole`."""
    counts, here = Counter(), os.getcwd()
    with tempfile.TemporaryDirectory(dir=RAM) as folder:
        os.chdir(folder)
        try:
            n_rows = make_data()
            assert wait(start(arguments("whole.mms", "none"))) == 0
            _warm()
            duration = min(_seconds_of_a_pass() for _ in range(3))
            whole = Path("whole.mms").read_bytes()
            assert MomentSummary.load("whole.mms").n_rows == n_rows
            for number in range(start_, stop):
                chance = random.Random(f"{seed} resume {number}")
                try:
                    if number % 20 == 19:
                        output = second_writer_is_refused(number, counts)
                    else:
                        output = interrupted_run(number, chance, duration, counts)
                    assert Path(output).read_bytes() == whole, "other bytes"
                    left = [x for x in os.listdir() if x.startswith((f"{number}.", f".{number}."))]
                    assert left == [output], f"left: {left}"
                except AssertionError as error:
                    raise AssertionError(f"case {number}: {error}") from error
                os.unlink(output)
                counts["resumed passes"] += 1
        finally:
            os.chdir(here)
    return counts


def _seconds_of_a_pass():
    begin = time.monotonic()
    assert wait(start([*arguments("whole.mms", "none"), "--force"])) == 0
    return time.monotonic() - begin


def _warm():
    """Import in this process what the command imports, so that forks start at once."""
    import momentmix.cli.checkpoint
    import momentmix.sources.opening
    import momentmix.sources.parts

    assert momentmix.sources.parts
    assert momentmix.sources.opening.open_rows(["data"]).n_features == 6


PARTS = [campaign(resumes, 300, 5, {"kills": 500, "stops by a signal": 50})]
