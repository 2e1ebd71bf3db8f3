import io
import sys
import warnings
from types import SimpleNamespace

import pytest

from momentmix.cli import main


@pytest.fixture(autouse=True)
def _close_pictures():
    """After each test, where anything has loaded matplotlib."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def momentmix(monkeypatch, capsysbinary):
    """Run the command in this process; gives exit code, standard output and standard error."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        capsysbinary.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(SystemExit) as stop:
                main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return SimpleNamespace(code=stop.value.code, out=out.decode(), err=err.decode())

    return run
