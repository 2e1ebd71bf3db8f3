"""Files of earlier releases load; a reader written from docs/file-format.md alone understands them.

``summary_v1.mms`` was written once and must never change. Its rows are small integers, so that its
sums are exact on every machine:  ROWS with weights WEIGHTS in the shard "part 1", one row of
ones in the shard "part 2".
"""

import hashlib
import json
import struct
from fractions import Fraction
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np

from momentmix import MomentSummary

FILE = Path(__file__).parent / "summary_v1.mms"
ROWS = np.array([[4, 0, -3, 0], [8, 2, 5, 0], [12, -7, 1, 0], [9, 1, 1, 0]], dtype=float)
WEIGHTS = [1, 2, 1, 0.5]


def remade():
    names = ["height", "width", "δ", "empty\n"]
    parts = [
        MomentSummary(4, 4, names, replicates=2, shard_id="part 1").update(ROWS, WEIGHTS),
        MomentSummary(4, 4, names, replicates=2, shard_id="part 2").update(
            np.ones((1, 4)) * [1, 1, 1, 0]
        ),
    ]
    return parts[0] + parts[1]


def test_the_first_format_loads():
    summary = MomentSummary.load(FILE)
    assert summary == remade()
    assert summary.feature_names == ("height", "width", "δ", "empty\n")
    assert summary.n_rows == 5
    assert summary.sum_weights == 5.5
    assert summary.minimum.tolist() == [1.0, -7.0, -3.0, 0.0]
    assert summary.mean[0] == (4 + 16 + 12 + 4.5 + 1) / 5.5


def test_writing_it_again_gives_the_same_bytes():
    assert MomentSummary.load(FILE).to_bytes() == FILE.read_bytes()
    assert remade().to_bytes() == FILE.read_bytes()


# -- a reader by someone who has only read the description ------------------------------------


def colex(n, size):
    return sorted(combinations(range(n), size), key=lambda members: members[::-1])


def strangers_reading(data):
    """Header, shard ids, and exact sums {(j or None, set): fraction} about the shift."""
    magic, version, length = struct.unpack("<8sII", data[:16])
    assert (magic, version) == (bytes.fromhex("894D4D530D0A1A0A"), 1)
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
    header, at = json.loads(data[16 : 16 + length]), 16 + length
    shards = [data[at + 16 * i : at + 16 * (i + 1)] for i in range(header["n_shards"])]
    d, m, q = header["n_features"], header["order"], header["squared_order"]
    at += 16 * len(shards) + 16 * d
    groups = header["replicates"] or 1
    low = [("S", t) for t in range(min(3, m) + 1)] + [("T", s) for s in range(min(1, q) + 1)]
    high = [("S", t) for t in range(4, m + 1)] + [("T", s) for s in range(2, q + 1)]
    sums = {}
    for (kind, size), width in zip(low + high, header["widths"], strict=True):
        keys = [(None, c) for c in colex(d, size)]
        if kind == "T":
            others = [[i for i in range(d) if i != j] for j in range(d)]
            keys = [
                (j, tuple(others[j][i] for i in c)) for j in range(d) for c in colex(d - 1, size)
            ]
        for _ in range(groups if (kind, size) in low else 1):
            for key in keys:
                value = int.from_bytes(data[at : at + width], "little", signed=True)
                sums[key] = sums.get(key, 0) + Fraction(value, 2**96)
                at += width
    assert at == len(data) - 32
    return header, shards, sums


def test_a_stranger_can_read_it():
    header, shards, sums = strangers_reading(FILE.read_bytes())
    expected = sorted(
        hashlib.sha256(b"momentmix shard\0" + name).digest()[:16] for name in (b"part 1", b"part 2")
    )
    assert shards == expected
    units = [Fraction(2) ** (e or 0) for e in header["exponents"]]
    shifts = [int(k) for k in header["shifts"]]
    rows = [*zip(WEIGHTS, ROWS.tolist(), strict=True), (1, [1, 1, 1, 0])]
    for (j, members), value in sums.items():
        exact = Fraction(0)
        for weight, row in rows:
            z = [Fraction(y) / u - k for y, u, k in zip(row, units, shifts, strict=True)]
            exact += (
                Fraction(weight) * prod(z[i] for i in members) * (1 if j is None else z[j] ** 2)
            )
        assert value == exact
    assert header["exponents"][3] is None
    assert Fraction(int(header["weight_squares"]), 2**96) == Fraction(29, 4)
