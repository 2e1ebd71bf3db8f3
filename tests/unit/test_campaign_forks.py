"""The server of forks: a job that fails, dies or hangs back is reported as such."""

import os
import signal
import sys
from pathlib import Path

import pytest
from campaigns.forks import FAILED, Forks, hold, job


def leave(code):
    sys.exit(code)


def say(text):
    print(text)
    os.write(2, b"and on standard error\n")


def fail():
    raise ValueError("broken")


def die(number):
    os.kill(os.getpid(), number)


def read():
    print(repr(sys.stdin.read()))


def wait_then_write(path, text):
    hold()
    with open(path, "a") as file:
        file.write(text)


def write(path, text):
    with open(path, "a") as file:
        file.write(text)


@pytest.fixture
def forks(monkeypatch):
    """A server that can import this file."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    with Forks() as one:
        yield one


def of_this(name, options=None, **arguments):
    """A job of a function of this file."""
    return job(f"{Path(__file__).stem}:{name}", arguments, **options or {})


def test_a_status_is_that_of_the_job(forks):
    codes = [0, 1, 73, None]
    outcomes = forks.run(*[of_this("leave", code=code) for code in codes])
    assert [one.code for one in outcomes] == [0, 1, 73, 0]


def test_a_job_that_raises_or_cannot_be_called_has_failed(forks):
    broken, unknown, wrong = forks.run(of_this("fail"), of_this("nothing"), of_this("leave", x=1))
    assert [one.code for one in (broken, unknown, wrong)] == [FAILED] * 3
    assert "ValueError: broken" in broken.text
    assert "no attribute 'nothing'" in unknown.text
    assert "TypeError" in wrong.text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_job_that_dies_is_told_from_one_that_ends(forks, number):
    (outcome,) = forks.run(of_this("die", number=number))
    assert outcome.code == -number


def test_an_interrupt_stays_in_its_job(forks):
    (outcome,) = forks.run(of_this("die", number=signal.SIGINT))
    assert outcome.code == FAILED
    assert "KeyboardInterrupt" in outcome.text
    assert forks.run(of_this("leave", code=3))[0].code == 3  # and the server goes on


def test_what_a_job_writes_is_its_text_and_no_answer_of_the_server(forks):
    one, other = forks.run(of_this("say", text="[1]"), of_this("say", text="ü"))
    assert sorted(one.text.split("\n")) == ["", "[1]", "and on standard error"]
    assert "ü" in other.text
    assert forks.run(of_this("read"))[0].text == "''\n"


def test_a_job_that_holds_goes_on_after_the_others(forks, tmp_path):
    first, second = forks.run(
        of_this("wait_then_write", {"holds": True, "folder": tmp_path}, path="file", text="first"),
        of_this("write", {"folder": tmp_path}, path="file", text="second "),
    )
    assert (first.code, first.held, second.code, second.held) == (0, True, 0, False)
    assert (tmp_path / "file").read_text() == "second first"


def test_a_job_that_holds_can_be_stopped_by_a_signal(forks, tmp_path):
    options = {"holds": True, "folder": tmp_path, "signalled": signal.SIGTERM}
    (outcome,) = forks.run(of_this("wait_then_write", options, path="file", text=""))
    assert (outcome.held, outcome.code) == (True, -signal.SIGTERM)
    assert os.listdir(tmp_path) == []


def test_a_job_that_never_holds_is_told(forks, tmp_path):
    (outcome,) = forks.run(of_this("leave", {"holds": True}, code=5))
    assert (outcome.held, outcome.code) == (False, 5)
    (outcome,) = forks.run(of_this("wait_then_write", path=str(tmp_path / "file"), text=""))
    assert outcome.code == FAILED  # nobody would let it go on


def test_a_server_that_is_gone_is_an_error():
    with Forks("no_such_module") as forks, pytest.raises(RuntimeError, match="ended with status 1"):
        forks.run()
