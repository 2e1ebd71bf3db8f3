"""One limit of BLAS threads for the package: overlapping holders, errors, late libraries."""

import gc
import threading
from functools import cache

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from momentmix import fit
from momentmix import parallel as threads
from momentmix.parallel import all_threads, begin, few_threads, usable_cores

LARGE = 10**6  # unknowns


@cache  # looking for libraries takes milliseconds
def libraries():
    assert callable(fit)  # SciPy and its library are loaded
    return ThreadpoolController().select(user_api="blas")


def blas_threads():
    return {library["num_threads"] for library in libraries().info()}


@pytest.fixture(autouse=True)
def _three_at_first():
    with threadpool_limits(3, user_api="blas"):
        assert blas_threads() == {3}
        yield
        assert blas_threads() == {3}


def interleavings(n):
    """Every order in which n holders can enter and leave: numbers, first in, then out."""
    if n == 0:
        return [[]]
    found = set()
    for rest in interleavings(n - 1):
        for i in range(len(rest) + 1):
            for j in range(i, len(rest) + 1):
                found.add((*rest[:i], n - 1, *rest[i:j], n - 1, *rest[j:]))
    return sorted(found)


@pytest.mark.parametrize("kinds", ["fff", "faf", "aff", "aaf"])
def test_overlapping_holders_restore_what_the_first_one_found(kinds):
    assert len(interleavings(3)) == 90
    for order in interleavings(3):
        made = [few_threads(True) if k == "f" else all_threads(LARGE) for k in kinds]
        wanted = [1 if k == "f" else usable_cores() for k in kinds]
        held = []
        for i in order:
            if i in held:
                made[i].__exit__(None, None, None)
                held.remove(i)
            else:
                made[i].__enter__()
                held.append(i)
            assert blas_threads() == {wanted[held[-1]] if held else 3}


def test_errors_leave_nothing_behind():
    with pytest.raises(ZeroDivisionError), few_threads(True), all_threads(LARGE):
        _ = 1 / 0
    assert blas_threads() == {3}

    def abandoned():
        with few_threads(True):
            yield

    generator = abandoned()
    next(generator)
    assert blas_threads() == {1}
    del generator
    gc.collect()
    assert blas_threads() == {3}


def test_small_and_large_work_only():
    with few_threads(False), all_threads(10):
        assert blas_threads() == {3}


class Library:
    internal_api = "openblas"

    def __init__(self, filepath, num_threads):
        self.filepath, self.num_threads = filepath, num_threads

    def set_num_threads(self, n):
        self.num_threads = n


def test_a_library_that_is_loaded_while_the_limit_is_held(monkeypatch):
    loaded = [Library("early", 8)]
    monkeypatch.setattr(threads, "_libraries", lambda n_modules: loaded)
    with few_threads(True):
        loaded.append(Library("late", 6))
        with few_threads(True):
            assert [library.num_threads for library in loaded] == [1, 1]
    assert [library.num_threads for library in loaded] == [8, 6]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_begun_work_gives_its_result_or_its_error(n_threads):
    ran_on = []
    answer = begin(lambda: ran_on.append(threading.get_ident()) or 7, n_threads)
    assert answer() == 7
    assert (ran_on[0] == threading.get_ident()) == (n_threads == 1)
    with pytest.raises(ZeroDivisionError):
        begin(lambda: 1 / 0, n_threads)()
