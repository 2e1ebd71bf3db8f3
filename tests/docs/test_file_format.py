"""docs/file-format.md suffices to read a summary: a reader by someone who has read it alone."""

import hashlib
import json
import struct
from fractions import Fraction
from itertools import combinations
from math import comb, prod

import numpy as np
from campaigns.hostile_files import summaries

from momentmix import MomentSummary


def sections_of(h):
    """Kinds and sizes of the sections, in the order of the file."""
    found = [("S", t) for t in range(h["order"] + 1)]
    found += [("T", s) for s in range(h["squared_order"] + 1)]
    found += [("P", p) for p in (3, 4, 5, 6)]
    return found + ([("C", 1), ("Q", 2)] if h["squared_order"] else [])


def length_of(kind, size, d):
    """Number of sums of a section."""
    if kind == "S":
        return comb(d, size)
    return {"T": d * comb(d - 1, size), "P": d, "C": d * (d - 1), "Q": comb(d, 2)}[kind]


def read_summary(data):
    """Header, shard ids, bounds, and the integer sums {factors of the product: total}."""
    magic, version, length = struct.unpack("<8sII", data[:16])
    assert magic == bytes.fromhex("894D4D530D0A1A0A")
    assert version == 8
    h, at = json.loads(data[16 : 16 + length]), 16 + length
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
    d, shards = h["n_features"], sorted(h["shards"])
    bounds = [*(h["minimum"] or []), *(h["maximum"] or [])]
    keys = []
    for kind, size in sections_of(h):
        keys += names_of(kind, size, d)
        assert len(names_of(kind, size, d)) == length_of(kind, size, d)
    n, n_digits = len(keys), h["n_digits"]
    digits = struct.unpack(f"<{n * n_digits}i", data[at:-32])
    assert n_digits == 1 or any(digits[-n:])
    values = [sum(digits[k * n + i] << 32 * k for k in range(n_digits)) for i in range(n)]
    sums = dict(zip(keys, values, strict=True))
    return h, shards, bounds, sums


def names_of(kind, size, d):
    """The sums of a section in their order, each by its factors."""

    def colex(members):
        return sorted(combinations(members, size), key=lambda chosen: chosen[::-1])

    if kind == "S":
        return colex(range(d))
    if kind == "P":
        return [(j,) * size for j in range(d)]
    if kind == "Q":
        return [(j, j, k, k) for j, k in colex(range(d))]
    own = 2 if kind == "T" else 3
    return [(j,) * own + c for j in range(d) for c in colex([i for i in range(d) if i != j])]


# -- the page and the files ----------------------------------------------------------------------


def test_a_stranger_understands_the_originals():
    for data in summaries():
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
