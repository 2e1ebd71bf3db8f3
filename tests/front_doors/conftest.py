import io
import signal
import sys
import warnings
from types import SimpleNamespace

import pytest

from momentmix.cli import main


@pytest.fixture
def momentmix(monkeypatch, capsysbinary):
    """Run the command in this process; gives exit code, standard output and standard error."""
    show, handler = warnings.showwarning, signal.getsignal(signal.SIGTERM)

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        capsysbinary.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(SystemExit) as stop:
                main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return SimpleNamespace(code=stop.value.code, out=out.decode(), err=err.decode())

    yield run
    warnings.showwarning = show
    signal.signal(signal.SIGTERM, handler)
