"""Digits of sums against fractions, and how blocks of rows grow."""

from fractions import Fraction

import numpy as np
import pytest

from momentmix.summary.exact import digit_sums
from momentmix.summary.exact.digit_sums import QUANTUM_BITS, DigitSums
from momentmix.summary.exact.open_shard import block_rows
from momentmix.summary.layout import Layout


@pytest.mark.parametrize("most_added", [3, 1 << 20])
def test_digits_hold_the_exact_sum_rounded_once_per_vector(monkeypatch, most_added):
    monkeypatch.setattr(digit_sums, "_MOST_ADDED", most_added)  # 3: the digits carry often
    rng = np.random.default_rng(3)
    layout = Layout(4, 3, 2)
    sums, n = DigitSums(layout), layout.n_entries + 1
    expected = np.zeros(n, dtype=object)
    for _ in range(40):
        vector = rng.standard_normal(n) * 2.0 ** rng.integers(-120, 300, n)
        vector[-1] = abs(vector[-1])  # a sum of squares
        quanta = [round(Fraction(x) * 2**QUANTUM_BITS) for x in vector.tolist()]
        expected += np.array(quanta, dtype=object)
        sums.add(vector[None, :-1], vector[-1:])
    found, weight_squares = sums.fold()
    assert found.integers.tolist() == expected[:-1].tolist()
    assert weight_squares == expected[-1]


def test_blocks_grow_but_never_beyond_what_there_is():
    layout, n_rows = Layout(4, 2, 1), 0
    for number in range(200):
        rows = block_rows(layout, number)
        assert rows % 512 == 0
        assert number == 0 or rows <= n_rows
        n_rows += rows
    assert block_rows(layout, 0) == 1024
    assert rows == 4096
