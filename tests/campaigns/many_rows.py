"""Up to 1e10 rows: exact counts, and moments that do not drift."""

import hashlib
from collections import Counter
from fractions import Fraction

import numpy as np

from campaigns.mutated_files import Pieces
from momentmix.summary.summary import MomentSummary

LIMIT = Fraction(1, 10**9)


def repeated_shard(data, times, shard_id):
    """The file of a shard that holds every row of another one `times` times, made by a stranger."""
    pieces = Pieces(data)
    pieces.sections = [[v * times for v in values] for values in pieces.sections]
    pieces.header["n_rows"] *= times
    pieces.header["weight_squares"] = str(int(pieces.header["weight_squares"]) * times)
    digest = hashlib.sha256(shard_id.encode()).hexdigest()[:32]
    pieces.header["shards"] = {digest: pieces.header["n_rows"]}
    return pieces.pack()


def exact_moments(parts):
    """E[z_I] and E[z_j²] of the union about the shift of its own summary, as fractions.

    `parts` are (rows, times); rows are float64 numbers, so that fractions hold them exactly.
    """
    n = sum(len(rows) * times for rows, times in parts)

    def mean(function):
        return sum(times * sum(function(row) for row in rows) for rows, times in parts) / n

    return n, mean


def check_drift(summary, parts):
    """Every moment of order ≤ 2 within 1e-9 of its own standard error of the exact one."""
    rows_as_fractions = [([[Fraction(x) for x in row] for row in rows], t) for rows, t in parts]
    n, mean = exact_moments(rows_as_fractions)
    assert summary.n_rows == n, f"{summary.n_rows} rows instead of {n}"
    assert summary.sum_weights == n
    moments = summary.moments()
    shift = [Fraction(float(x)) for x in moments.shift]
    scale = [Fraction(float(x)) for x in moments.scale]

    def product(row, members):
        value = Fraction(1)
        for i in members:
            value *= (row[i] - shift[i]) / scale[i]
        return value

    found = [((0, 1), moments.distinct[2][0]), ((0, 2), moments.distinct[2][1])]
    found += [((j, j), moments.squared[0][j, 0]) for j in range(3)]
    found += [((0, 1, 2), moments.distinct[3][0])]
    for members, value in found:
        exact = mean(lambda row, m=members: product(row, m))
        square = mean(lambda row, m=members: product(row, m) ** 2) - exact**2
        # |error| ≤ 1e-9·sqrt(square / n), without a root
        assert (Fraction(float(value)) - exact) ** 2 * n <= LIMIT**2 * square, members


def drift(start, stop, seed):
    """A case: shards of up to 1e7 rows each, 1e6 to 1e10 rows in all, merged in random order."""
    counts = Counter()
    for number in range(start, stop):
        rng = np.random.default_rng([seed, 6, number])
        n_shards = int(rng.integers(2, 12))
        largest = 10 ** rng.uniform(6, 10)
        shards, parts = [], []
        for i in range(n_shards):
            rows = rng.standard_normal((12, 3)) * 10.0 ** rng.uniform(-2, 2, 3) + rng.uniform(-9, 9)
            times = max(1, int(largest / n_shards / 12))
            base = MomentSummary(3, 3, shard_id="x", n_threads=1).update(rows)
            data = repeated_shard(base.to_bytes(), times, f"{number}/{i}")
            shards.append(MomentSummary.from_bytes(data))
            parts.append((rows.tolist(), times))
        total = shards[0]
        for i in rng.permutation(np.arange(1, n_shards)):
            total = total + shards[i]
        check_drift(total, parts)
        once = sum(shards[::-1]).to_bytes()
        assert once == total.to_bytes(), f"case {number}: the order shows"
        counts += Counter({"drift tests": 1, "rows of drift tests": total.n_rows})
    return counts
