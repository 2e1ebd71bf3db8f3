"""What each step of the robust fit buys: loss of accuracy with steps left out.

python benchmarks/robust_ablation.py -r 15 -n 1e5 --seeds 4
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import laws
import numpy as np
from robust_fit import draw

from momentmix import DiagonalMixture
from momentmix.capacity import choose_order
from momentmix.fitting.conditions.conditions import build_conditions
from momentmix.fitting.conditions.derivative import derivative
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import summarized
from momentmix.fitting.em.em import draw_sample, log_likelihoods, run_batch
from momentmix.fitting.em.passes import full_passes
from momentmix.fitting.em.pooling import pool_weights, reduce_pool
from momentmix.fitting.em.starts import random_starts, seeded_starts
from momentmix.fitting.inference.uncertainty import deviations_of
from momentmix.fitting.moment.candidates import draw_candidates
from momentmix.fitting.moment.polish import Stopping, parameter_bounds
from momentmix.fitting.moment.pool import (
    PATIENCE,
    implied_noise,
    joint_polish,
    select_and_polish,
    select_means,
)
from momentmix.fitting.moment.variances import fit_variances, resolvable
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.tables.rows import ArrayRows

FLOOR = 1e-6


def moment_steps(moments, r, rng):
    """(name, parameters) after each step."""
    n, structure = moments.n_effective, moments.structure(FLOOR, None)
    plain, full = build_conditions(moments, 4), build_conditions(moments, 4, 2)
    noise = np.full(plain.size, 1 / np.sqrt(n))
    for name, draws in (("one partition", 1), ("pool of 12", 12)):
        pool = draw_candidates(moments, r, draws, rng)
        weights, means = select_means(plain, pool, noise, r)
        variances = fit_variances(moments, weights, means, FLOOR)
        yield name, Parameters(weights, means, variances), full, n
    polished = select_and_polish(moments, plain, pool, r, structure)
    yield "pool, polish of means", polished, full, n
    if polished.n_components == r:
        bounds = parameter_bounds(moments, structure, r)
        stops = [Stopping(steps, 0.1, PATIENCE) for steps in (25, 15)]
        joint = joint_polish(full, polished, moments, bounds, stops)
        yield "pool, joint polish", joint.parameters, full, n


def resolved(full, p, n, structure):
    """The parameters with variances that the moments can resolve."""
    slope = derivative(full, p, implied_noise(full, p, n))
    return resolvable(p, deviations_of(slope, p), structure)


def em_steps(rows, moments, r, answer, rng):
    sample = draw_sample(ArrayRows(rows), moments, rng)
    short, floor = sample.features[:, :8000], np.full(moments.n_features, FLOOR)
    prior = VariancePrior.of_rows(short.shape[1], r, floor)
    parts = []
    for make in (seeded_starts, random_starts):
        batch, *_ = run_batch(short, make(short, r, 4, prior, rng), prior, 30)
        parts += [batch[k] for k in range(4)]
    best = parts[int(log_likelihoods(sample.judges, Parameters.stack(parts)).argmax())]
    for name, start in (
        ("best of 8 starts", best),
        ("pool of 8 starts", reduced(short, parts, r, prior)),
        ("pool of 8 starts and moments", reduced(short, [*parts, answer], r, prior)),
        ("moments", answer),
    ):
        if start.n_components != r:
            continue
        settled, *_ = run_batch(sample.features, start[None], prior, 20)
        context = FitContext(rng, FLOOR, max_passes=30)
        done = full_passes(sample, settled[0], context)
        yield name + ", EM", done.parameters


def reduced(features, parts, r, prior):
    return reduce_pool(
        features, pool_weights(features, Parameters.concatenate(parts).normalized()), r, prior
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-r", type=int, default=15)
    parser.add_argument("-d", type=int, default=15)
    parser.add_argument("-n", type=lambda s: int(float(s)), default=100000)
    parser.add_argument("--law", default="separated")
    parser.add_argument("--seeds", type=int, default=4)
    a = parser.parse_args()
    table = {}
    for seed in range(a.seeds):
        truth, rows = draw(a.law, a.r, a.d, a.n, seed)
        rng = np.random.default_rng(seed)
        moments, _ = summarized(rows, choose_order(a.d, a.r), 1)

        def note(name, p, moments=moments, truth=truth):
            mixture = DiagonalMixture(p.weights / p.weights.sum(), p.means, p.variances)
            bayes, accuracy, gap = laws.accuracies(moments.restore(mixture), truth)
            table.setdefault(name, []).append((bayes - accuracy, gap))

        for name, p, full, n in moment_steps(moments, a.r, rng):
            note(name, p)
            answer = resolved(full, p, n, moments.structure(FLOOR, None))
            note(name + ", resolvable variances", answer)
        for name, p in em_steps(rows, moments, a.r, answer, rng):
            note(name, p)
    for name, values in table.items():
        loss, gap = np.mean(values, axis=0)
        print(f"{name:<48} loss {loss:.4f}   nats below truth {gap:8.3f}")


if __name__ == "__main__":
    main()
