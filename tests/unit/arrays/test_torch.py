"""The kernel for NVIDIA devices, interpreted, and gradients."""

import os

import numpy as np
import pytest

from momentmix import Mixture, summarize
from momentmix.arrays import namespace
from momentmix.summary.kernels.array_sums import ArrayExecutor
from momentmix.summary.kernels.triton_sums import Settings, TritonExecutor
from momentmix.summary.layout import Layout

torch = pytest.importorskip("torch")


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="needs TRITON_INTERPRET=1")
@pytest.mark.parametrize(
    ("d", "m", "q"), [(2, 2, 1), (5, 4, 2), (16, 4, 2), (7, 6, 2), (6, 5, 4), (65, 2, 1)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_agrees_with_plain_array_operations(d, m, q, weighted):
    layout = Layout(d, m, q)
    assert TritonExecutor.suits(layout)
    rng = np.random.default_rng(d)
    frame = (np.full(d, 0.5), rng.integers(-2, 3, d).astype(float))
    slabs = torch.from_numpy(rng.standard_normal((2, 45, d + 1)))  # not whole steps of 16 rows
    slabs = slabs[:, :, 1:]  # nor one after the other in memory
    weights = torch.from_numpy(rng.random((2, 45))) if weighted else None
    expected = ArrayExecutor(layout, namespace(slabs)).sums(slabs, weights, frame)
    found = TritonExecutor(layout, Settings(64, 16, 4)).sums(slabs, weights, frame)
    assert float((found - expected).abs().max() / expected.abs().max()) <= 1e-14


def test_gradients_stop_at_sums_but_not_at_densities():
    rows = torch.randn((2_000, 3), dtype=torch.float64, requires_grad=True)
    assert summarize(rows, 2).n_rows == 2_000
    mixture = Mixture.diagonal([1.0], [[1.0, 2.0, 3.0]], np.ones((1, 3)))
    mixture.log_prob(rows).sum().backward()
    np.testing.assert_allclose(rows.grad, mixture.means - rows.detach().numpy(), atol=1e-12)
