"""Sums of slabs by NumPy against products written out."""

import numpy as np
import pytest
from campaigns.written_out import written_out

from momentmix.summary.kernels import array_sums
from momentmix.summary.kernels.array_sums import ArrayExecutor
from momentmix.summary.layout import Layout

SHAPES = [
    (1, 1, 0), (2, 1, 0), (2, 2, 1), (3, 3, 2), (5, 4, 2), (5, 4, 3), (6, 5, 2), (7, 6, 5),
    (8, 7, 2), (16, 4, 2), (65, 2, 1), (61, 1, 0),
]  # fmt: skip


@pytest.mark.parametrize(("d", "m", "q"), SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_slab_sums_match_products_written_out(d, m, q, weighted, monkeypatch):
    monkeypatch.setattr(array_sums, "_NUMBERS", 1)  # three chunks of rows, the last one short
    layout, rng, n = Layout(d, m, q), np.random.default_rng(d), 600
    rows, weights = rng.standard_normal((3, n, d)), rng.random((3, n))
    units = 2.0 ** rng.integers(-3, 3, d), rng.integers(-2, 3, d).astype(float)
    found = ArrayExecutor(layout).sums(rows, weights if weighted else None, units)
    for slab in range(3):
        points, w = rows[slab] * units[0] - units[1], weights[slab] if weighted else np.ones(n)
        expected, size = (written_out(layout, p, w) for p in (points, np.abs(points)))
        assert (np.abs(found[slab] - expected) <= 1e-13 * size + 1e-300).all()
