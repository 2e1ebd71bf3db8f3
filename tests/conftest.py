"""Helper modules importable; one BLAS thread, no windows; time limits for a busy machine."""

import os
import signal
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Two processes with threads of their own on two cores mostly wait for each other: some tests take
# ten times as long. It is read when NumPy and SciPy are loaded, here and in processes of the tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # pictures in files, no windows

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "unit" / "fitting")]
# The same examples in every run, however long they take; others by --hypothesis-profile=default.
settings.register_profile(
    "momentmix",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("momentmix")


@pytest.fixture(autouse=True)
def _the_command_leaves_no_hooks():
    """What `momentmix.cli.main` sets for its process; without pytest's, errors would be missed."""
    show, handler, hook = warnings.showwarning, signal.getsignal(signal.SIGTERM), sys.unraisablehook
    yield
    warnings.showwarning, sys.unraisablehook = show, hook
    signal.signal(signal.SIGTERM, handler)


def pytest_addoption(parser):
    """Other cases of the campaigns."""
    parser.addoption("--campaign-seed", type=int, default=0, help="seed of the numbered cases")


def pytest_collection_modifyitems(items):
    """Tests that take minutes get hours; the limit of all others is in pyproject.toml."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(2 * 3600))
