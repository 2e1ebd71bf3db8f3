"""Fits of numbers: time and likelihood on fresh rows, beside scikit-learn in the same run.

    python benchmarks/fit.py large --full    # 1e6 × 15 rows, 6 and 20 groups: the record
    python benchmarks/fit.py large -r 6 -n 3e5
    python benchmarks/fit.py full            # full covariances, 1e5 × 15 rows
    python benchmarks/fit.py summaries       # 15 columns, 6, 8 and 20 groups; --full: 40 columns
    python benchmarks/fit.py small           # four known tables of 150 to 1,797 rows
    python benchmarks/fit.py held-out        # 100 distributions, samples of 100 to 500 rows

The peer is `GaussianMixture(init_params="k-means++", n_init=10)`. A time counts only if the answer
holds: its log-likelihood on fresh rows may lie 0.005 nats a row below that of the peer at most. A
line where it does not says so.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", str(os.cpu_count()))  # before NumPy

import draws
import numpy as np
from results import accuracies, as_mixture, best_of, number, sklearn_fit, timed
from sklearn import datasets
from sklearn.decomposition import PCA

import momentmix as mm

ALLOWANCE = 0.005  # nats a row
TIE = 1e-3  # nats a row: a smaller gap is neither a win nor a loss
N_FRESH = 200_000


def warm_up():
    """The first call of each loads modules, which is no part of a fit."""
    small = np.random.default_rng(0).normal(size=(500, 4))
    mm.fit(small, 2, blocks=[[0, 1]], random_state=0)
    sklearn_fit(small, 2, n_init=1)


def ours(rows, r, **options):
    return mm.fit(rows, r, random_state=0, **options)


def line(name, seconds, peer_seconds, gap, *remarks):
    """Times, their ratio, and nats a row above the peer on fresh rows."""
    holds = "" if gap >= -ALLOWANCE else "  THE ANSWER DOES NOT HOLD"
    parts = [f"{name}: {seconds:.2f} s, peer {peer_seconds:.2f} s: {peer_seconds / seconds:.1f} "
             f"times as fast; fresh rows {gap:+.4f} nats a row", *remarks]  # fmt: skip
    print("; ".join(parts) + holds, flush=True)


def large(a):
    """Many rows of separated groups, diagonal covariances."""
    warm_up()
    for r, n in ((6, 10**6), (20, 10**6)) if a.full else ((a.r, a.n),):
        rng = np.random.default_rng([a.first, r, 15])
        truth = draws.separated(r, 15, rng)
        rows, fresh = truth.sample(n, rng)[0], truth.sample(N_FRESH, 999)[0]
        (seconds,), (result,) = best_of(a.repeats, lambda: ours(rows, r))  # noqa: B023
        peer, peer_seconds = timed(lambda: sklearn_fit(rows, r))  # noqa: B023
        bayes, accuracy, _ = accuracies(result.mixture, truth)
        theirs = accuracies(as_mixture(peer), truth)[1]
        gap = result.mixture.log_prob(fresh).mean() - peer.score(fresh)
        text = f"accuracy {accuracy:.4f} (Bayes {bayes:.4f}, peer {theirs:.4f})"
        reads = f"{result.n_passes + 1} reads of the rows"
        line(f"{n:.0e} × 15, {r} groups", seconds, peer_seconds, gap, text, reads)


def full(a):
    """Full covariances."""
    warm_up()
    rng = np.random.default_rng([17, a.first])
    truth, _ = draws.block_mixture((15,), 6, rng)
    rows, fresh = truth.sample(100_000, rng)[0], truth.sample(20_000, rng)[0]
    (seconds,), (result,) = best_of(a.repeats, lambda: ours(rows, 6, blocks="full"))
    peer, peer_seconds = timed(lambda: sklearn_fit(rows, 6, "full", max_iter=300))
    gap = result.mixture.log_prob(fresh).mean() - peer.score(fresh)
    line("1e5 × 15, 6 groups, full", seconds, peer_seconds, gap)


def summaries(a):
    """Fits of summaries, certificate included."""
    for r, d, order in ((6, 15, 4), (8, 15, 4), (20, 15, 5), *([(40, 40, 5)] if a.full else [])):
        rng = np.random.default_rng([a.first, r, d])
        truth = draws.separated(r, d, rng)
        summary = mm.summarize(truth.sample(100_000, rng)[0], order)
        (seconds,), (result,) = best_of(1 if d > 15 else a.repeats, lambda: ours(summary, r))  # noqa: B023
        bayes, accuracy, _ = accuracies(result.mixture, truth)
        print(
            f"{d} columns, {r} groups, order {order}: {seconds:.2f} s, loss of accuracy "
            f"{bayes - accuracy:.4f}, {result.certificate.verdict}", flush=True,
        )  # fmt: skip


def small(a):
    """Known tables, whole and, for the likelihood of fresh rows, two thirds of them."""
    warm_up()
    digits = PCA(10, random_state=0).fit_transform(datasets.load_digits().data)
    tables = {
        "iris": datasets.load_iris().data,
        "wine": datasets.load_wine().data,
        "breast cancer": datasets.load_breast_cancer().data,
        "digits, 10 axes": digits,
    }
    for name, rows in tables.items():
        rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        part = np.random.default_rng(a.first).random(len(rows)) < 2 / 3
        for r in (2, 3, 5, 10):
            (seconds, peer_seconds), _ = best_of(
                a.repeats,
                lambda: ours(rows, r, blocks="diag"),  # noqa: B023
                lambda: sklearn_fit(rows, r),  # noqa: B023
            )
            mixture = ours(rows[part], r, blocks="diag").mixture
            gap = mixture.log_prob(rows[~part]).mean() - sklearn_fit(rows[part], r).score(
                rows[~part]
            )
            line(f"{name}, {r} groups", seconds, peer_seconds, gap)


# Continuous distributions only: rounded columns reward variances near 0 and say nothing of a fit.
NOISE = {
    "Gaussian": lambda rng, shape: rng.normal(size=shape),
    "Gaussian, equal spread": lambda rng, shape: rng.normal(size=shape),
    "Student t, 5 d.o.f.": lambda rng, shape: rng.standard_t(5, size=shape),
    "gamma, shape 3": lambda rng, shape: (rng.gamma(3.0, size=shape) - 3.0) / 3**0.5,
    "uniform": lambda rng, shape: rng.uniform(-(3**0.5), 3**0.5, size=shape),
}


def few_rows(seed):
    """Rows, fresh rows, the number of components that is asked for, and the kind."""
    rng = np.random.default_rng([20, seed])
    kind = list(NOISE)[seed % len(NOISE)]
    n, d, r = (int(rng.integers(*bounds)) for bounds in ((100, 501), (2, 9), (2, 7)))
    weights = rng.dirichlet(np.full(r, 3.0))
    means = rng.uniform(0.3, 2.5) * rng.normal(size=(r, d))  # from one cloud to well separated
    spread = np.ones((r, d)) if "equal" in kind else np.exp(0.5 * rng.normal(size=(r, d)))

    def draw(n_rows):
        labels = rng.choice(r, size=n_rows, p=weights)
        return means[labels] + spread[labels] * NOISE[kind](rng, (n_rows, d))

    r = max(2, r + int(rng.choice([-1, 0, 0, 1])))  # the true number, or near it
    rows, fresh = draw(n), draw(10_000)
    shift, scale = rows.mean(axis=0), rows.std(axis=0)
    return (rows - shift) / scale, (fresh - shift) / scale, r, kind


def held_out(a):
    """Log-likelihood of fresh rows, of fits of few rows."""
    gaps, kinds = [], []
    for seed in range(a.first, a.first + a.cases):
        rows, fresh, r, kind = few_rows(seed)
        mixture = mm.fit(rows, r, random_state=seed).mixture
        gaps.append(mixture.log_prob(fresh).mean() - sklearn_fit(rows, r, seed=seed).score(fresh))
        kinds.append(kind)
    gaps, kinds = np.array(gaps), np.array(kinds)
    for kind in (*NOISE, "all"):
        g = gaps if kind == "all" else gaps[kinds == kind]
        print(
            f"{kind}: {g.size} cases, {(g > TIE).sum()} higher, {(g < -TIE).sum()} lower, mean "
            f"{g.mean():+.4f}, median {np.median(g):+.4f}, least {g.min():+.3f} nats a row"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    tasks = (large, full, summaries, small, held_out)
    commands = {task.__name__.replace("_", "-"): task for task in tasks}
    parser.add_argument("task", choices=commands)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--full", action="store_true", help="the sizes of the record")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3, help="timed fits; the best counts")
    parser.add_argument("-r", type=int, default=6)
    parser.add_argument("-n", type=number, default=100_000)
    a = parser.parse_args()
    commands[a.task](a)


if __name__ == "__main__":
    main()
