"""Rates on an NVIDIA device with torch, beside those of another checkout: moments, fits, densities.

    python benchmarks/gpu.py --before FOLDER [--quick] [--json FILE]

Rows are float64 and lie on the device. Each figure is the best of some repetitions in turns with
the other checkout, from a synchronized device to a synchronized device: all that a user waits for.
A rate counts only after the same call on fewer rows agreed with NumPy: moments and log-densities to
1e-12, means of a fit to 1e-8. *Share of dgemm* is 2 operations for each row and moment, against a
product of two 8192 × 8192 matrices.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

# Features, order, rows: 2 to this power.
SHAPES = [(15, 4, 20), (15, 4, 24), (15, 4, 27), (15, 6, 24), (30, 4, 25), (40, 5, 23)]
ROUNDS = 2  # in turns


def best(torch, work, repetitions=3):
    """Least seconds of some repetitions."""
    work()
    times = []
    for _ in range(repetitions):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def agree(name, one, other, tolerance):
    gap = np.abs(np.asarray(one) - np.asarray(other)).max()
    if not gap <= tolerance:
        raise SystemExit(f"{name} differs from NumPy by {gap:.2e}")


def moments(torch, mm, d, m, power):
    """Rows a second of `summarize`, with a first look at the mean."""
    rows = torch.randn((1 << power, d), dtype=torch.float64, device="cuda") * 2.0 + 1.0
    few = rows[: 1 << (16 if m < 5 else 14)]
    there, here = (mm.summarize(x, m).moments() for x in (few, few.cpu().numpy()))
    for t in range(1, m + 1):
        agree(f"moments of degree {t}", there.distinct[t], here.distinct[t], 1e-12)
    for s in range(len(here.squared)):
        agree(f"moments of a square and {s} more", there.squared[s], here.squared[s], 1e-12)
    return len(rows) / best(torch, lambda: mm.summarize(rows, m).mean)


def fits(torch, mm, r, power):
    """Rows a second of a fit and of densities."""
    rng, d = np.random.default_rng(r), 15
    means = 2 * rng.standard_normal((r, d))
    few = means[rng.integers(r, size=1 << 15)] + rng.standard_normal((1 << 15, d))
    there = torch.from_numpy(few).cuda()
    rows, options = there.repeat((1 << power) // len(few), 1), {"random_state": 0}
    here, found = (mm.fit(x, r, **options).mixture for x in (few, there))
    agree("means of a fit", found.means, here.means, 1e-8)
    rates = {f"fit, r={r}": len(rows) / best(torch, lambda: mm.fit(rows, r, **options), 1)}
    for name in ("log_prob", "predict"):
        work = getattr(here, name)
        size = np.abs(work(few)).max()
        agree(name, work(there).cpu().numpy() / size, work(few) / size, 1e-12)
        rates[f"{name}, r={r}"] = len(rows) / best(torch, lambda w=work: w(rows))
    return rates


def rates(less):
    """Print all rates of the momentmix that Python finds."""
    import torch

    import momentmix as mm

    found = {}
    for d, m, power in SHAPES:
        found[f"moments {d},{m},2^{power - less}"] = moments(torch, mm, d, m, power - less)
        torch.cuda.empty_cache()
    for r in (3, 8):
        found |= fits(torch, mm, r, 23 - less)
    a, b = (torch.randn((8192, 8192), dtype=torch.float64, device="cuda") for _ in range(2))
    found["dgemm"] = 2 * 8192**3 / best(torch, lambda: a @ b)
    print(json.dumps(found))


def share(name, found):
    from momentmix.summary.layout import Layout

    if not name.startswith("moments"):
        return ""
    d, m = map(int, name.split()[1].split(",")[:2])
    entries = Layout(d, m, min(2, m - 1)).n_entries
    return f"{2 * entries * found[name] / found['dgemm']:7.1%} of dgemm"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", help="a checkout to compare with")
    parser.add_argument("--quick", action="store_true", help="an eighth of the rows")
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--rates", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rates:
        return rates(3 if options.quick else 0)
    sides = {"now": Path(__file__).resolve().parents[1]}
    if options.before:
        sides["before"] = Path(options.before)
    found = {side: {} for side in sides}
    for _ in range(ROUNDS):
        for side, folder in sides.items():
            command = [sys.executable, __file__, "--rates", *["--quick"] * options.quick]
            environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
            output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
            for name, rate in json.loads(output.stdout.splitlines()[-1]).items():
                found[side][name] = max(rate, found[side].get(name, 0.0))
    for name, rate in found["now"].items():
        ratio = f"{rate / found['before'][name]:6.2f} × before" if "before" in found else ""
        print(f"{name:24s} {rate:10.3e} {share(name, found['now'])} {ratio}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
