"""What is accepted is valid; what is refused is refused with a typed error."""

import tracemalloc
from fractions import Fraction
from math import prod

import numpy as np
from campaigns import mutated_files
from campaigns.strangers_reader import read_summary

from momentmix import MomentSummary
from momentmix.errors import InputError


def test_every_flip_and_truncation_of_small_files():
    """One summary and one model here; the long run takes all."""
    first = len(mutated_files.small_summaries())
    counts = mutated_files.flips(0, 1, seed=0) + mutated_files.flips(first, first + 1, seed=0)
    assert counts["flipped bits, refused"] > 5000
    assert counts["truncations, refused"] > 700


def test_structured_mutations():
    counts = mutated_files.summary_mutations(0, 1000, seed=0)
    assert counts["mutations"] == 1000
    assert counts["accepted"] > 80
    assert counts["refused"] > 500


def test_refusing_takes_memory_in_proportion_to_the_file():
    files = [mutated_files.mutated_summary(mutated_files.random.Random(i)) for i in range(300)]
    MomentSummary.from_bytes(mutated_files.small_summaries()[0])  # imports, caches
    for data in files:
        tracemalloc.start()
        try:
            MomentSummary.from_bytes(data)
        except InputError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 40 * len(data) + 2**19


def test_a_stranger_understands_the_originals():
    for data in mutated_files.small_summaries():
        header, shards, bounds, sums = read_summary(data)
        summary = MomentSummary.from_bytes(data)
        assert summary.n_rows == header["n_rows"]
        assert summary.shard_ids == tuple(shards)
        ends = [*summary.minimum, *summary.maximum] if summary.n_rows else []
        assert header["schema"] or bounds == ends
        assert summary.sum_weights == sums[()] / 2**96


def test_the_sums_in_a_file_are_exact():
    rows, weights = [[4, 0, -3, 0], [8, 2, 5, 0], [12, -7, 1, 0], [9, 1, 1, 0]], [1, 2, 1, 0.5]
    summary = MomentSummary(4, 4).update(np.array(rows, dtype=float), weights)
    header, _, _, sums = read_summary(summary.to_bytes())
    units = [Fraction(2) ** (e or 0) for e in header["exponents"]]
    shifts = [int(k) for k in header["origins"]]
    for members, value in sums.items():
        exact = Fraction(0)
        for weight, row in zip(weights, rows, strict=True):
            z = [Fraction(y) / u - k for y, u, k in zip(row, units, shifts, strict=True)]
            exact += Fraction(weight) * prod(z[i] for i in members)
        assert Fraction(value, 2**96) == exact
    assert header["exponents"][3] is None
    assert Fraction(int(header["weight_squares"]), 2**96) == Fraction(25, 4)
