"""Accuracy of the robust fit. Sub-commands print one line per case and a summary line."""

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import laws
import numpy as np

from momentmix import DiagonalMixture
from momentmix.fitting.moment_fit import fit_moments
from momentmix.moments.from_rows import standard_moments_from_rows

LAWS = {"separated": laws.separated, "overlapping": laws.overlapping}


def draw(law, r, d, n, seed):
    rng = np.random.default_rng([seed, r, d])
    truth = LAWS[law](r, d, rng)
    rows, _ = truth.sample(n, rng)
    return truth, rows


def moments_only(a):
    losses = []
    for seed in range(a.first, a.first + a.seeds):
        truth, rows = draw(a.law, a.r, a.d, a.n, seed)
        moments = standard_moments_from_rows(rows, a.order)
        t = time.perf_counter()
        fit = fit_moments(moments, a.r, np.random.default_rng(seed))
        t = time.perf_counter() - t
        p = fit.parameters
        mixture = moments.restore(DiagonalMixture(p.weights, p.means, p.variances))
        bayes, accuracy, gap = laws.accuracies(mixture, truth)
        losses.append(bayes - accuracy)
        print(
            f"seed {seed}: bayes {bayes:.4f} loss {losses[-1]:.4f} gap {gap:.4f} "
            f"misfit {np.round(fit.history, 2)} {t:.2f} s, least weight {truth.weights.min():.4f}"
        )
    print(f"{a.law} r={a.r} d={a.d} N={a.n} order={a.order}: mean loss {np.mean(losses):.5f}, "
          f"worst {np.max(losses):.4f}")


def main():
    parser = argparse.ArgumentParser()
    sub = parser.add_subparsers(required=True)
    p = sub.add_parser("moments")
    p.set_defaults(run=moments_only)
    p.add_argument("--law", default="separated", choices=list(LAWS))
    p.add_argument("-r", type=int, default=6)
    p.add_argument("-d", type=int, default=15)
    p.add_argument("-n", type=lambda s: int(float(s)), default=100000)
    p.add_argument("--order", type=int, default=4)
    p.add_argument("--seeds", type=int, default=8)
    p.add_argument("--first", type=int, default=0)
    a = parser.parse_args()
    a.run(a)


if __name__ == "__main__":
    main()
