"""Rates on an NVIDIA device with torch, of this checkout or another.

    python benchmarks/gpu.py                              # this checkout
    PYTHONPATH=FOLDER/src python benchmarks/gpu.py        # another

Rows are float64 and lie on the device. Each figure is the best of three, from a synchronized device
to a synchronized device. A rate counts only after the same call on fewer rows agreed with NumPy:
means and log-densities to 1e-12, means of a fit to 1e-8.
"""

import numpy as np
import torch
from results import best_of

import momentmix as mm

# Features, order, rows: 2 to this power.
SHAPES = [(15, 4, 20), (15, 4, 24), (15, 4, 27), (15, 6, 24), (30, 4, 25), (40, 5, 23)]


def rate(n_rows, work):
    def synchronized():
        work()
        torch.cuda.synchronize()

    synchronized()
    (seconds,), _ = best_of(3, synchronized)
    return f"{n_rows / seconds:.3e} rows/s"


def agree(name, there, here, tolerance):
    error = np.abs(np.asarray(there) - np.asarray(here)).max() / np.abs(here).max()
    if not error <= tolerance:
        raise SystemExit(f"{name} differs from NumPy by {error:.2e}")


def moments():
    for d, m, power in SHAPES:
        rows = torch.randn((1 << power, d), dtype=torch.float64, device="cuda") * 2.0 + 1.0
        there, here = (mm.summarize(x, m) for x in (rows[:16384], rows[:16384].cpu().numpy()))
        agree("the mean", there.mean, here.mean, 1e-12)
        agree("moments", there.moments().distinct[m], here.moments().distinct[m], 1e-12)
        text = rate(len(rows), lambda: mm.summarize(rows, m).mean)  # noqa: B023
        print(f"moments ({d}, {m}), 2^{power} rows: {text}", flush=True)
        torch.cuda.empty_cache()


def fits():
    for r in (3, 8):
        rng, options = np.random.default_rng(r), {"random_state": 0}
        means = 2 * rng.standard_normal((r, 15))
        few = means[rng.integers(r, size=1 << 15)] + rng.standard_normal((1 << 15, 15))
        there = torch.from_numpy(few).cuda()
        rows = there.repeat((1 << 23) // len(few), 1)
        here, mixture = (mm.fit(x, r, **options).mixture for x in (few, there))
        agree("means of a fit", mixture.means, here.means, 1e-8)
        agree("densities", here.log_prob(there).cpu().numpy(), here.log_prob(few), 1e-12)
        for name, work in {
            "fit": lambda: mm.fit(rows, r, **options),  # noqa: B023
            "log_prob": lambda: here.log_prob(rows),  # noqa: B023
        }.items():
            print(f"{name}, {r} groups: {rate(len(rows), work)}", flush=True)


if __name__ == "__main__":
    moments()
    fits()
