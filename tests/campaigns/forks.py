"""Forks for the tests, made by a process of their own.

A fork of the process that runs the tests would take its threads, its signal handlers and its
channel to the other workers along. `Forks` starts a server instead: a process with a single thread
that imports what the jobs need, forks once for each job, and reports how the jobs ended. Signals
are blocked around the fork until the child has handlers of its own.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

FAILED = 99  # status of a job that raised
LIMIT = 600  # seconds; a job that takes longer is killed by its alarm
BLOCKED = {signal.SIGINT, signal.SIGTERM}
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ONE_THREAD["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # the allocator of pyarrow


class Outcome(NamedTuple):
    """How a job ended."""

    code: int  # its exit status; −n if signal n killed it
    held: bool  # whether it came to `hold`
    text: str  # what it wrote to standard output and standard error


def job(function, arguments, *, folder=None, holds=False, signalled=None):
    """A job: a call of the function ``"module:name"`` in a fork; its arguments as a dictionary.

    A job with ``holds=True`` runs up to its call of `hold`, where it waits until the other jobs of
    the same list have ended; then it goes on, or gets the signal ``signalled``.
    """
    return {
        "function": function, "arguments": arguments,
        "folder": None if folder is None else str(folder), "holds": holds, "signalled": signalled,
    }  # fmt: skip


class Forks:
    """The client: a context in which lists of jobs can be run.

    Parameters
    ----------
    *modules : str
        Modules that the server imports, so that the jobs find them imported.
    """

    def __init__(self, *modules):
        self._server = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **ONE_THREAD},
            encoding="utf-8", start_new_session=True,  # the keyboard is not for the server
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        if error is not None:
            self._server.kill()
        with suppress(BrokenPipeError):
            self._server.stdin.close()  # the server ends at the end of its input
        self._server.stdout.close()
        self._server.wait()

    def run(self, *jobs):
        """Run the jobs side by side; their outcomes, in the same order."""
        with suppress(BrokenPipeError):  # then there is no reply either
            print(json.dumps(jobs), file=self._server.stdin, flush=True)
        reply = self._server.stdout.readline()
        if not reply:
            raise RuntimeError(f"the server of forks ended with status {self._server.wait()}")
        return [Outcome(*one) for one in json.loads(reply)]


# -- in a job ---------------------------------------------------------------------------------

_hold = None  # descriptors: where to say that the job holds, where to wait


def hold():
    """Wait here, in a job with ``holds=True``, until the other jobs have ended."""
    say, wait = _hold
    os.write(say, b"x")
    os.read(wait, 1)


def _do(job, output, pipe):
    """What the fork does; it never returns."""
    global _hold
    code = FAILED
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        signal.alarm(LIMIT)
        _hold = pipe
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        if job["folder"] is not None:
            os.chdir(job["folder"])
        module, _, name = job["function"].partition(":")
        getattr(importlib.import_module(module), name)(**job["arguments"])
        code = 0
    except SystemExit as stop:
        code = {None: 0}.get(stop.code, stop.code)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# -- the server -------------------------------------------------------------------------------


class _Child:
    def __init__(self, job):
        self.job, self.held = job, False
        tasks = Path("/proc/self/task")
        assert not tasks.exists() or len(list(tasks.iterdir())) == 1, "a thread would be lost"
        self.output = tempfile.TemporaryFile()  # noqa: SIM115
        (said, say), (wait, self.go) = os.pipe(), os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(said)
            os.close(self.go)
            _do(job, self.output, (say, wait))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        os.close(say)
        os.close(wait)
        if job["holds"]:
            self.held = bool(os.read(said, 1))  # nothing: it has ended instead
        os.close(said)

    def end(self):
        """Let it go on if it holds, wait for its end, and say how it ended."""
        if self.held and self.job["signalled"]:
            os.kill(self.pid, self.job["signalled"])
        elif self.held:
            os.write(self.go, b"x")
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.go)
        self.output.seek(0)
        text = self.output.read().decode(errors="replace")
        self.output.close()
        return Outcome(os.waitstatus_to_exitcode(status), self.held, text)


def serve(modules):
    """Read lists of jobs, a line each, until the end of the input; answer each with a line."""
    for name in modules:
        importlib.import_module(name)
    for line in sys.stdin:
        children = [_Child(job) for job in json.loads(line)]
        free = {child.pid: child.end() for child in children if not child.held}
        outcomes = [free[c.pid] if c.pid in free else c.end() for c in children]
        print(json.dumps(outcomes), flush=True)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # the folder of the tests, not of this file
    from campaigns.forks import serve as serve_once  # the module that the jobs import

    serve_once(sys.argv[1:])
