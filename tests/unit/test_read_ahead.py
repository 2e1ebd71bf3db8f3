"""Reading ahead: order, errors and warnings in their place, few items at once, no thread left."""

import gc
import threading
import weakref

import pytest

from momentmix.errors import FitWarning, warn_caller
from momentmix.parallel import read_ahead


class Item:
    """Something whose lifetime can be followed."""

    def __init__(self, number):
        self.number = number


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def counting(n_items, made=None, error_at=None, closed=None):
    try:
        for i in range(n_items):
            if i == error_at:
                raise OSError(f"item {i}")
            if made is not None:
                made.append(i)
            yield i
    finally:
        if closed is not None:
            closed.append(True)


@pytest.mark.parametrize("place", [0, 1, 5])
def test_an_error_comes_in_the_place_of_its_item(place):
    closed, found = [], []
    with pytest.raises(OSError, match=f"item {place}"):
        found.extend(read_ahead(counting(6, error_at=place, closed=closed), 2))
    assert found == list(range(place))
    assert closed == [True]


def test_items_are_made_on_another_thread_while_the_caller_has_one():
    second_made = threading.Event()
    threads = []

    def items():
        for i in range(2):
            threads.append(threading.get_ident())
            if i == 1:
                second_made.set()
            yield i

    for item in read_ahead(items(), 1):
        if item == 0:
            assert second_made.wait(60)  # without the thread, this would wait in vain
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("n_ahead", [1, 2, 4])
def test_no_more_items_are_made_than_asked_for(n_ahead):
    """Each waits until it was made; the next one is not begun before the caller comes back."""
    made = []
    ahead = read_ahead(counting(50, made), n_ahead)
    for taken, _ in enumerate(ahead, start=1):
        assert len(made) <= taken + n_ahead
    assert made == list(range(50))


def test_items_that_were_given_are_not_kept():
    alive = weakref.WeakSet()

    def items():
        for i in range(9):
            item = Item(i)
            alive.add(item)
            yield item

    most = 0
    for item in read_ahead(items(), 2):
        del item
        most = max(most, len(alive))
    assert most <= 5  # two ahead, one in the generator itself, one given, one just being made
    gc.collect()
    assert len(alive) == 0


@pytest.mark.parametrize("n_taken", [0, 1, 3])
def test_a_caller_who_stops_early_leaves_no_thread_and_closes_the_items(n_taken):
    closed = []
    ahead = read_ahead(counting(100, closed=closed), 2)
    for _ in range(n_taken):
        next(ahead)
    ahead.close()
    assert closed == ([True] if n_taken else [])  # items that were never begun need no closing


def warning_at(place, then=None):
    for i in range(4):
        if i == place:
            warn_caller(f"item {i}", FitWarning)
            if then is not None:
                raise then
        yield i


@pytest.mark.parametrize("place", [0, 3])
def test_a_warning_comes_in_its_place_and_names_the_caller(place):
    ahead = read_ahead(warning_at(place), 2)
    for i in range(place):
        assert next(ahead) == i
    with pytest.warns(FitWarning, match=f"item {place}") as found:
        assert next(ahead) == place
    assert found[0].filename == __file__
    assert list(ahead) == list(range(place + 1, 4))


def test_a_warning_before_an_error_is_not_lost():
    with (
        pytest.warns(FitWarning, match="item 2"),
        pytest.raises(OSError, match="at once"),
    ):
        list(read_ahead(warning_at(2, OSError("at once")), 3))
