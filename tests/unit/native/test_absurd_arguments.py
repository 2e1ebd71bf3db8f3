"""Compiled code refuses what it cannot use, whatever it is called with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from momentmix.native import code

TESTS = Path(__file__).parents[2]
needs_code = pytest.mark.skipif(code is None, reason="momentmix was built without a compiler")


def run_calls(seed, n_random, folder):
    """In a child, since a crash would end this process; its allocator checks what is freed."""
    under_way = folder / "call"
    environment = {"PYTHONMALLOC": "debug", **os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, TESTS / "campaigns/absurd_calls.py", str(seed), str(n_random), under_way],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    last = under_way.read_text(encoding="utf-8").strip() if under_way.exists() else "none"
    assert done.returncode == 0, f"call under way: {last}\n{done.stderr[-3000:]}"
    n_functions, n_calls, n_refused = (int(count) for count in done.stdout.split())
    assert n_functions == sum(map(callable, vars(code).values()))
    assert 0.3 * n_calls < n_refused < 0.9 * n_calls  # many calls got past the checks


@needs_code
def test_no_call_crashes(tmp_path):
    run_calls(0, 300, tmp_path)


@needs_code
@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 5))
def test_no_call_crashes_of_many(seed, tmp_path):
    run_calls(seed, 50_000, tmp_path)
