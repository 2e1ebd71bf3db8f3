"""Compiled code refuses what it cannot use, whatever it is called with."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
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
    run_calls(0, 1000, tmp_path)


@needs_code
@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 5))
def test_no_call_crashes_of_many(seed, tmp_path):
    run_calls(seed, 50_000, tmp_path)


def em_steps(n_rows=3, n_steps=1, r=1, prior=None):
    indices, numbers = np.zeros(0, dtype=np.int64), np.zeros(0)
    blocks = (indices, np.arange(2), numbers, numbers, indices, numbers)
    prior = (0.0, 0.0, np.ones(2)) if prior is None else prior
    code.em_steps(np.ones((4, n_rows)), n_steps, r, 1, prior, None, blocks, np.ones(1),
                  np.zeros(2), np.ones(2), np.zeros(2))  # fmt: skip


def sum_blocks(shape=(1, 0, 0, 2, 2, 4, 1, 0), step=(2, 0, 2, 0, 2, 0)):
    space = np.zeros(code.space_size(*shape[3:7]) if shape[4] >= 0 else 10_000)
    code.sum_blocks(shape, np.array([step]), np.zeros(1, dtype=np.int64), np.ones(3), None,
                    np.ones(2), 1, 3, space, np.zeros(1))  # fmt: skip


def packed(values):
    records = np.zeros(values.shape, dtype=[("id", "i4"), ("v", values.dtype)])
    records["v"] = values
    return records["v"]


def fixed(values):
    values.flags.writeable = False
    return values


LARGEST = 2**63 - 1
CALLS = {
    "sizes that overflow": (
        lambda: code.extremes(np.zeros(6), 2**60, 2, 3, np.zeros(6), 1),
        f"rows needs {LARGEST} bytes, it has 48",
    ),
    "a product that overflows to 0": (
        lambda: code.fold(np.zeros(512), 2**55, np.zeros(1030), np.zeros(4)), "words needs"
    ),
    "a negative size": (
        lambda: code.fold(np.zeros(512), -1, np.zeros(1030), np.zeros(4)), "words needs"
    ),
    "a size of memory that overflows": (lambda: code.space_size(2**60, 2**60, 1, 1), None),
    "weighted monomials below 0": (
        lambda: sum_blocks((1, 0, 0, 2, -1, 4, 1, 0)), "sizes must be positive"
    ),
    "an unknown kind of step": (lambda: sum_blocks(step=(3, 0, 2, 0, 2, 0)), "steps or positions"),
    "a step that ends beyond all": (
        lambda: sum_blocks(step=(2, 0, 2, 0, 2, LARGEST)), "steps or positions"
    ),
    "no rows": (lambda: em_steps(n_rows=0), "sizes must be positive"),
    "more components than numbers": (lambda: em_steps(r=2**61), "sizes must be positive"),
    "a call without end": (lambda: em_steps(n_steps=2**17), "the steps 65,536 at most"),
    "vectors that do not fit": (
        lambda: code.add_digits(np.zeros(6), 4, np.ones(2), np.zeros(12)), "no n_vectors vectors"
    ),
    "words of no numbers": (
        lambda: code.word_widths(np.zeros(0), np.array([2]), np.zeros(1)), "words do not fit"
    ),
    "no columns": (lambda: code.typical(np.ones(3), 3, 0, *np.zeros((3, 1))), "must be positive"),
    "objects": (
        lambda: code.extremes(np.zeros(6), 1, 2, 3, np.zeros(6, dtype=object), 1),
        "out must be aligned float64 or int64 numbers",
    ),
    "memory that is not aligned": (
        lambda: code.in_range(np.zeros(25, np.uint8)[1:].view(np.float64), 1.0, 1),
        "values must be aligned float64 or int64 numbers",
    ),
    "read-only memory": (
        lambda: code.extremes(np.zeros(6), 1, 2, 3, fixed(np.zeros(6)), 1), "read-only"
    ),
}  # fmt: skip


@needs_code
@pytest.mark.parametrize("name", CALLS)
def test_what_is_refused(name):
    em_steps()
    sum_blocks()
    call, message = CALLS[name]
    with pytest.raises(MemoryError if message is None else ValueError, match=message):
        call()


@needs_code
def test_members_of_sequences_that_are_gone():
    """An array makes its members when they are read; a tuple holds them."""
    with pytest.raises(TypeError, match="must be tuple, not"):
        em_steps(prior=np.zeros(3))
