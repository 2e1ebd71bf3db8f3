"""Sums as words: against Python integers, and compiled code against what it stands for."""

from fractions import Fraction

import numpy as np
import pytest

import momentmix as mm
from momentmix.native import code
from momentmix.summary import readings
from momentmix.summary.exact import combining, digit_sums, exact_sums, units
from momentmix.summary.exact.digit_sums import QUANTUM_BITS, DigitSums
from momentmix.summary.exact.exact_sums import (
    ExactSums,
    Reframed,
    python_integers,
    spread,
    trimmed,
    widths,
)
from momentmix.summary.exact.open_shard import block_rows
from momentmix.summary.file import pack
from momentmix.summary.layout import Layout
from momentmix.summary.readings import readings_of_many
from momentmix.summary.summary import union

needs_code = pytest.mark.skipif(code is None, reason="momentmix was built without a compiler")
LAYOUTS = [(1, 1, 0), (2, 2, 1), (3, 2, 0), (5, 3, 2), (8, 4, 2), (6, 6, 5)]
BITS = [1, 62, 63, 64, 65, 200]


def integers(rng, n, bits):
    return [int.from_bytes(rng.bytes(40), "little", signed=True) >> (320 - bits) for _ in range(n)]


def sums_of(layout, rng, bits):
    """Python integers of so many bits, as the sums of a summary."""
    values = np.array(integers(rng, layout.n_entries, bits), dtype=object)
    values[0], values[-1] = (1 << (bits - 1)) - 1, -(1 << (bits - 1))
    return ExactSums(layout, None, values)


def same(left, right):
    return (left.integers == right.integers).all()


# -- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("shape", LAYOUTS)
def test_words_are_the_integers(shape, bits):
    layout = Layout(*shape)
    sums = sums_of(layout, np.random.default_rng(bits), bits)
    words = ExactSums(layout, sums.words)
    assert same(words, sums)
    assert (ExactSums(layout, sums.words)[1:3] == sums[1:3]).all()
    assert sums.words.shape == (layout.n_entries, (bits - 1) // 64 + 1)
    wide = np.concatenate([sums.words, sums.words[:, -1:] >> 63], axis=1)
    assert (trimmed(wide) == sums.words).all()
    assert words.floats() == pytest.approx([float(x) for x in sums.integers], rel=1e-15)


@pytest.mark.parametrize("by_numpy", [False, True])
@pytest.mark.parametrize("bits", [1, 7, 8, 9, 64, 65, 127, 128, 200])
def test_widths_are_the_fewest_bytes(bits, by_numpy, monkeypatch):
    if by_numpy:
        monkeypatch.setattr(exact_sums, "code", None)
    layout = Layout(5, 3, 2)
    values = sums_of(layout, np.random.default_rng(bits), bits).integers
    for section, value in zip(layout.sections[2:5], (0, -1, -(1 << (bits - 1))), strict=True):
        values[section.place] = value
    parts = [values[section.place].tolist() for section in layout.sections]
    expected = []
    for part in parts:
        n = 1
        while not all(-(1 << (8 * n - 1)) <= v < 1 << (8 * n - 1) for v in part):
            n += 1
        expected.append(n)
    assert widths(layout.counts, ExactSums(layout, None, values).words) == expected
    data = b"".join(
        v.to_bytes(n, "little", signed=True)
        for part, n in zip(parts, expected, strict=True)
        for v in part
    )
    read = spread(memoryview(data), layout.counts, expected)
    assert python_integers(read).tolist() == values.tolist()


@pytest.mark.parametrize("by_numpy", [False, True])
@pytest.mark.parametrize("n_digits", [1, 4, 5, 9])
def test_digits_join_to_their_exact_sum(n_digits, by_numpy, monkeypatch):
    if by_numpy:
        monkeypatch.setattr(digit_sums, "code", None)
    rng = np.random.default_rng(n_digits)
    whole = rng.integers(-(1 << 52), 1 << 52, (n_digits, 50))
    places = [Fraction(2) ** (32 * k - digit_sums.QUANTUM_BITS) for k in range(n_digits)]
    digits = np.array([row * float(place) for row, place in zip(whole, places, strict=True)])
    expected = [sum(int(x) << 32 * k for k, x in enumerate(column)) for column in whole.T]
    assert python_integers(digit_sums.join(digits)).tolist() == expected


# -- units and origins ----------------------------------------------------------------------------


@needs_code
@pytest.mark.parametrize("size", [0, 1, 3, 1000, 1 << 44, (1 << 63) - 1, 1 << 63, 1 << 70])
@pytest.mark.parametrize("shape", LAYOUTS)
def test_compiled_code_moves_as_python_integers_do(shape, size):
    layout, rng = Layout(*shape), np.random.default_rng(size % 97)
    d = layout.n_features
    parts = []
    for number, bits in enumerate((150, 64, 260)):
        shape = number + 1, d  # stacks of 1, 2 and 3
        deltas = rng.integers(-1000, 1001, shape).astype(object) * size // 1000
        deltas[-1, number % d] = -size
        finer = rng.integers(0, 4 + 60 * (number == 1), shape) * (number > 0)
        words = [sums_of(layout, rng, bits).words for _ in deltas]
        n_words = max(own.shape[1] for own in words)
        words = np.array([np.pad(x, ((0, 0), (0, n_words - x.shape[1]))) for x in words])
        parts.append(Reframed(words, finer, deltas, number == 2))
    expected = exact_sums._by_python(layout, parts)
    assert same(exact_sums.total(layout, parts), expected)
    assert same(exact_sums.total(layout, parts[::-1]), expected)
    if size < 1 << 40:
        assert "words" in vars(exact_sums.total(layout, parts))


@pytest.mark.parametrize("by_numpy", [False, True])
def test_a_typical_deviation_is_the_median_of_those_that_are_not_0(by_numpy, monkeypatch):
    if by_numpy:
        monkeypatch.setattr(units, "code", None)
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 33, 34, 500, 1024):
        x = rng.standard_normal(n)
        columns = [x, np.exp(8 * x), np.sign(x), x.round(), x > 1.5, 0 * x, 1e300 * x, 1e-310 * x]
        columns += [2.0 ** rng.integers(-1000, 1000, n), 1e13 + x, np.where(x > 0, 5e-324, 0.0)]
        columns += [np.sort(x), -np.exp(30 * x), np.where(x > 2, 1e200, x), 5.0 + 0 * x]
        block = np.array(columns).T
        for column, found in zip(block.T, units.typical_exponents(block), strict=True):
            median = np.sort(column)[(n - 1) // 2]
            others = np.sort(np.abs(column - median)[column != median])
            if not len(others):
                assert found is None
                continue
            exponent = max(-1000, int(np.frexp(others[(len(others) - 1) // 2])[1]))
            assert found == (exponent, median)


# -- unions ---------------------------------------------------------------------------------------


def shards(rng, n, d=5, order=4, **options):
    """Small summaries with other units and means, constant columns and zeros, and wild rows."""
    made = []
    for i in range(n):
        rows = rng.standard_normal((int(rng.integers(1, 60)), d))
        rows = rows * np.exp(2 * rng.standard_normal(d)) + 100 * rng.standard_normal(d)
        rows[:, 0] = 0.0 if i % 3 else rows[:, 0]
        rows[:, 1] = np.round(rows[0, 1]) if i % 2 else rows[:, 1]
        if i % 7 == 3:
            rows[0, 2] = 1e60  # powers beyond the range
        weights = rng.random(len(rows)) + 0.5 if i % 5 == 1 else None
        made.append(mm.MomentSummary(d, order, shard_id=str(i), **options).update(rows, weights))
    return made


@pytest.mark.parametrize("by_python", [False, True])
@pytest.mark.parametrize("options", [{}, {"squared_order": 0}])
def test_a_union_in_one_step_has_the_bytes_of_every_order_of_adding(
    options, by_python, monkeypatch
):
    rng = np.random.default_rng(len(options))
    parts = shards(rng, 12, **options)
    if by_python:
        monkeypatch.setattr(exact_sums, "code", None)
    expected = sum(parts).to_bytes()
    for _ in range(3):
        order = [parts[i] for i in rng.permutation(len(parts))]
        assert union(order).to_bytes() == expected
        cuts = sorted(rng.choice(range(1, len(parts)), 3, replace=False))
        pieces = [order[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
        assert union([union(piece) for piece in pieces]).to_bytes() == expected
    empty = mm.MomentSummary(5, 4, **options)
    assert union([empty, *parts, empty]).to_bytes() == expected
    assert union([mm.MomentSummary.from_bytes(p.to_bytes()) for p in parts]).to_bytes() == expected
    assert union(parts[:1]).to_bytes() == parts[0].to_bytes()
    assert union([empty, empty]).to_bytes() == empty.to_bytes()
    whole = union(parts)
    assert (whole - union(parts[4:])).to_bytes()[-32:] != expected[-32:]
    assert whole - union(parts[4:]) == union(parts[:4])


def test_a_union_without_powers_has_none():
    rng = np.random.default_rng(5)
    parts = [part._totals() for part in shards(rng, 4)]
    old = combining.with_high(parts[1], 0)
    expected = combining.combine(combining.combine(parts[0], old), parts[2])
    found = combining.combine(parts[2], parts[0], old)
    assert pack(found, None) == pack(expected, None)
    assert found.layout.high == 0


# -- what no rows can have ------------------------------------------------------------------------


# -- arguments ------------------------------------------------------------------------------------


# -- many summaries at once -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1, 0), (2, 2, 1), (3, 3, 2), (6, 4, 2), (6, 3, 2)])
def test_moments_of_many_summaries_are_those_of_each(shape):
    d, order, squared_order = shape
    rng = np.random.default_rng(d)
    summaries = [
        mm.summarize(
            offset + unit * rng.standard_normal((30, d)), order=order, squared_order=squared_order
        )
        for offset, unit in [(0.0, 1.0), (1e6, 1e-3), (-40.0, 1e4), (3.0, 0.0)]
    ]
    totals = [own._totals() for own in summaries]
    shift, scale = rng.standard_normal(d), rng.uniform(0.5, 2.0, d)
    found = readings_of_many(totals, shift, scale)
    for own, flat in zip(totals, found, strict=True):
        expected = readings.moments(own, shift, scale)
        by_kind = {("distinct", t): x for t, x in enumerate(expected.distinct)}
        by_kind |= {("squared", s): x for s, x in enumerate(expected.squared)}
        by_kind |= {("power", p): expected.powers[p - 3] for p in range(3, 7)}
        by_kind |= {("cubed", 1): expected.cubed, ("two squares", 2): expected.two_squares}
        for section in own.layout.sections:
            wanted = by_kind[section.kind, section.size].ravel()
            assert flat[section.place] == pytest.approx(wanted, rel=1e-9), section


def test_moments_that_overflow_are_left_to_each():
    rows = np.array([[1e200, 1.0], [-1e200, 2.0], [1e200, 4.0]])
    totals = [mm.summarize(rows)._totals(), mm.summarize(rows / 1e200)._totals()]
    found = readings_of_many(totals, np.zeros(2), np.ones(2))
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


@pytest.mark.parametrize("shape", [(8, 4, 2), (5, 3, 2), (4, 4, 2)])
def test_fewer_moments_are_the_same_words(shape):
    layout, rng = Layout(*shape), np.random.default_rng(1)
    sums = sums_of(layout, rng, 100)
    lower = Layout(layout.n_features, 2, 1, layout.high)
    wanted = np.concatenate([sums[layout.section(s.kind, s.size).place] for s in lower.sections])
    assert (sums.of_layout(lower).integers == wanted).all()
    assert (ExactSums(layout, sums.words).of_layout(lower).integers == wanted).all()


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
