"""Rates on an NVIDIA device with torch: moments, passes of EM, prediction.

    python benchmarks/gpu.py [--quick] [--json FILE]

*Method.* Rows are float64 and lie on the device. Each figure is the best
of some repetitions after one that warms up; the clock is the host's, from a synchronised device to
a synchronised device, so that everything a user waits for is counted: bounds and checks of the
values, the frame, the sums, their way to the host and into exact integers. *closed* is the same
and a first look at the mean, which closes the summary. *kernel* times the sums of the same rows
alone (at most 2^26 of them), by events on the device, for each way to form them; *of its kernel* is
the rate of the whole call against that of the kernel it used. A figure is printed only
after the same call on the first rows agreed with NumPy to 1e-12: sums relative to Σ|z_I| of
standardised rows, log-densities relative to the largest.

*Share of dgemm* is 2 flops for each row and each moment that is kept (distinct indices up to the
order, y_j²·y_I with |I| ≤ 2, powers, and all of degree 4), against a product of two 8192 × 8192
matrices in the same run. The tensor cores do more than these, since moments of order 4 are formed
several times over.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import numpy as np

import momentmix as mm
from momentmix.fitting.data import moments_of
from momentmix.fitting.em.em import em_pass
from momentmix.mixture.parameters import Parameters
from momentmix.summary.device import slab_count
from momentmix.summary.kernels.array_sums import device_executor
from momentmix.summary.kernels.triton_sums import TritonExecutor
from momentmix.summary.layout import Layout
from momentmix.summary.view import estimate
from momentmix.tables.rows import ArrayRows, DeviceRows

TOLERANCE = 1e-12
# Features, order, rows: 2 to this power.
SHAPES = [(15, 4, 20), (15, 4, 24), (15, 4, 27), (15, 6, 24), (30, 4, 25), (40, 5, 23)]


def wall(torch, work, repetitions):
    """Best time of some repetitions."""
    work()
    best = np.inf
    for _ in range(repetitions):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def on_device(torch, work, repetitions):
    """Best time of some repetitions by events of the device."""
    work()
    best = np.inf
    for _ in range(repetitions):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) / 1e3)
    return best


def dgemm(torch, size=8192):
    a, b = (torch.randn((size, size), dtype=torch.float64, device="cuda") for _ in range(2))
    out = torch.empty_like(a)
    return 2 * size**3 / on_device(torch, lambda: torch.matmul(a, b, out=out), 3)


def distance(one, other):
    """Largest difference of standardised moments, relative to the mean of |z_I| (at most 1)."""
    a, b = one.moments(), other.moments()
    pairs = [*zip(a.distinct, b.distinct, strict=True), *zip(a.squared, b.squared, strict=True)]
    gaps = [np.abs(x - y).max() for x, y in pairs]
    high = [(a.powers, b.powers), (a.cubed, b.cubed), (a.two_squares, b.two_squares)]
    gaps += [(np.abs(x - y) / (1 + np.abs(y))).max() for x, y in high if x is not None]
    gaps.append(np.abs(one.mean - other.mean).max())
    return max(gaps)


def agreed(name, gap):
    if not gap <= TOLERANCE:
        raise AssertionError(f"{name} differs from NumPy by {gap:.2e}")
    return gap


def accumulate(torch, d, m, power, rate, repetitions):
    layout = Layout(d, m, min(2, m - 1))
    n = 1 << power
    rows = torch.randn((n, d), dtype=torch.float64, device="cuda") * 2.0 + 1.0
    few = rows[: 1 << (16 if m < 5 else 14)]
    here = mm.summarize(few.cpu().numpy(), m, shard_id="a")
    useful = 2 * estimate(layout).n_entries
    suits, gap, found = TritonExecutor.suits, 0.0, {}
    for kind, allowed in (("Triton", True), ("operations", False)):
        if allowed and not suits(layout):
            continue
        TritonExecutor.suits = staticmethod(suits if allowed else lambda layout: False)
        gap = max(gap, agreed(kind, distance(mm.summarize(few, m, shard_id="a"), here)))
        work = partial(mm.summarize, rows, m)
        found[f"summary, {kind}"] = n / wall(torch, work, repetitions)
        found[f"summary, closed, {kind}"] = n / wall(torch, lambda w=work: w().mean, repetitions)
        found[f"kernel, {kind}"] = kernel(torch, layout, rows, repetitions)
    TritonExecutor.suits = staticmethod(suits)
    for name, value in found.items():
        alone = found[f"kernel, {name.rpartition(', ')[2]}"]
        print(
            f"({d:2d},{m})  {name:28s} {value:10.3e} rows/s  {value / alone:6.1%} of its kernel  "
            f"{value * useful / rate:6.1%} of dgemm"
        )
    print(f"({d:2d},{m})  {n:,} rows; agreement with NumPy {gap:.1e}", flush=True)
    return {"gap": gap, "n_rows": n, **found}


def kernel(torch, layout, rows, repetitions):
    """Rate of the sums alone, in slabs as `summarize` has them."""
    d = layout.n_features
    units = (np.full(d, 0.5), np.ones(d))
    n = min(len(rows), 1 << 26)
    n_slabs = slab_count(layout, n)
    n -= n % n_slabs
    work = partial(device_executor(layout, rows).sums, rows[:n].view(n_slabs, -1, d), None, units)
    return n / on_device(torch, work, repetitions)


def mixture_of(d, r):
    rng = np.random.default_rng(r)
    weights = rng.uniform(0.5, 1.0, r)
    return mm.Mixture.diagonal(
        weights / weights.sum(), 2 * rng.standard_normal((r, d)), rng.uniform(0.5, 2.0, (r, d))
    )


def passes(torch, d, r, power, repetitions):
    mixture, n = mixture_of(d, r), 1 << power
    few, _ = mixture.sample(1 << 15, random_state=0)
    there = torch.from_numpy(few).cuda()
    moments = moments_of(mm.summarize(few, 2))
    parameters = Parameters(
        mixture.weights, (mixture.means - moments.shift) / moments.scale,
        mixture.variances / moments.scale**2,
    )  # fmt: skip
    here = em_pass(ArrayRows(few), moments, parameters)
    on_device = em_pass(DeviceRows(there), moments, parameters)
    gap = np.abs(on_device.statistics - here.statistics).max() / len(few)
    gap = agreed("the EM pass", max(gap, abs(on_device.log_likelihood / here.log_likelihood - 1)))
    rows = there.repeat(n // len(few), 1)
    found = {"gap": gap, "n_rows": n}
    found["EM pass"] = n / wall(
        torch, lambda: em_pass(DeviceRows(rows), moments, parameters), repetitions
    )
    for name in ("log_prob", "predict", "predict_proba"):
        work = getattr(mixture, name)
        a, b = work(few), work(there).cpu().numpy()
        agreed(name, np.abs(a - b).max() / np.abs(a).max())
        found[name] = n / wall(torch, lambda w=work: w(rows), repetitions)
    for name, value in found.items():
        if name not in ("gap", "n_rows"):
            print(f"d={d}, r={r}  {name:30s} {value:10.3e} rows/s")
    print(f"d={d}, r={r}  {n:,} rows; agreement with NumPy {gap:.1e}", flush=True)
    return found


def attempt(name, work):
    """Result of `work`; a failure is printed, and the rest goes on."""
    try:
        return work()
    except Exception as error:
        print(f"{name} FAILED: {type(error).__name__}: {str(error)[:300]}", flush=True)
        return {"failed": str(error)[:300]}


def installed(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="an eighth of the rows")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", help="write the figures here")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("this benchmark needs torch: pip install momentmix[gpu]")
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs an NVIDIA device that torch can use; there is none.")
    less, repetitions = (3 if options.quick else 0), options.repetitions
    rate = dgemm(torch)
    names = ("momentmix", "torch", "triton", "numpy")
    found = {
        "device": torch.cuda.get_device_name(), "dgemm": rate, "python": platform.python_version(),
        "versions": {name: installed(name) for name in names},
    }  # fmt: skip
    print(f"{found['device']}: dgemm {rate / 1e12:.1f} TFLOP/s", flush=True)
    for d, m, power in SHAPES:
        found[f"moments {d},{m},2^{power - less}"] = attempt(
            f"({d},{m})",
            lambda d=d, m=m, p=power - less: accumulate(torch, d, m, p, rate, repetitions),
        )
        torch.cuda.empty_cache()
    for r in (8, 20):
        found[f"mixture 15,{r}"] = attempt(
            f"r={r}", lambda r=r: passes(torch, 15, r, 25 - less, repetitions)
        )
        torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
