"""The kernel for NVIDIA devices, interpreted, and gradients."""

import os

import numpy as np
import pytest

from momentmix import Mixture, MomentSummary, summarize
from momentmix.summary import gpu
from momentmix.summary.gpu import moment_sums
from momentmix.summary.kernel import block_sums
from momentmix.summary.layout import Layout

torch = pytest.importorskip("torch")
interpreted = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="needs TRITON_INTERPRET=1"
)


@interpreted
@pytest.mark.parametrize(
    ("d", "m", "q"),
    [(2, 2, 1), (5, 4, 2), (16, 4, 2), (7, 6, 2), (6, 5, 4), (61, 2, 1)],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_agrees_with_numpy(d, m, q, weighted):
    layout = Layout(d, m, q)
    rng = np.random.default_rng(d)
    units = (np.full(d, 0.5), rng.integers(-2, 3, d).astype(float))
    rows = rng.standard_normal((2, 45, d + 1))[:, :, 1:]  # not whole steps of 16, nor contiguous
    weights = rng.random((2, 45)) if weighted else None
    expected = block_sums(layout, rows, weights, units)
    there = None if weights is None else torch.from_numpy(weights)
    found = moment_sums(layout, torch.from_numpy(rows), there, torch.tensor(np.stack(units)))
    assert np.abs(np.asarray(found) - expected).max() <= 1e-14 * np.abs(expected).max()


@interpreted
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_on_a_device_and_rows_of_numpy_go_on_in_one_shard(weighted, monkeypatch):
    monkeypatch.setattr(gpu, "is_cuda_tensor", torch.is_tensor)
    monkeypatch.setattr(gpu, "free_bytes", lambda rows: 16 * 3 * 5_000)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((24_000, 3)) + np.arange(3)
    rows[20_000, 1] = 1e9  # of a batch that is halved until the block is left
    weights = rng.integers(0, 4, len(rows)) if weighted else None
    summary = MomentSummary(3, 2, shard_id="a")
    for start, stop in ((0, 10), (10, 17_000), (17_000, 17_003), (17_003, 24_000)):
        part = slice(start, stop)
        w = None if weights is None else weights[part]
        summary.update(torch.from_numpy(rows[part]) if stop > 10 else rows[part], w)
    here = summarize(rows, 2, weights, shard_id="a")
    assert summary.n_rows == here.n_rows
    np.testing.assert_array_equal(summary.maximum, here.maximum)
    for t in (1, 2):
        np.testing.assert_allclose(
            summary.moments().distinct[t], here.moments().distinct[t], atol=1e-12
        )
    np.testing.assert_allclose(summary.variance, here.variance, rtol=1e-12)


def test_gradients_stop_at_sums_but_not_at_densities():
    rows = torch.randn((2_000, 3), dtype=torch.float64, requires_grad=True)
    assert summarize(rows, 2).n_rows == 2_000
    mixture = Mixture.diagonal([1.0], [[1.0, 2.0, 3.0]], np.ones((1, 3)))
    mixture.log_prob(rows).sum().backward()
    np.testing.assert_allclose(rows.grad, mixture.means - rows.detach().numpy(), atol=1e-12)
