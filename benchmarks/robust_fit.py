"""Accuracy, speed and honesty of the robust fit, measured.

Each sub-command prints one line per case and a summary. Losses are Bayes accuracy − accuracy on
50,000 fresh rows, best permutation of the labels.

    python benchmarks/robust_fit.py loss -r 20 -n 1e5 --summary --seeds 20
    python benchmarks/robust_fit.py opponent --data real
    python benchmarks/robust_fit.py speed -r 6 -n 1e6 --threads 1,2
    python benchmarks/robust_fit.py certificate --cases 200
    python benchmarks/robust_fit.py intervals --seeds 20
    python benchmarks/robust_fit.py auto --cases 100
"""

import argparse
import os
import time
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import laws
import numpy as np
from sklearn.mixture import GaussianMixture

import momentmix as mm
from momentmix.capacity.ranks import choose_order
from momentmix.parallel import usable_cores

LAWS = {
    "separated": laws.separated,
    "overlapping": laws.overlapping,
    "shared": laws.shared_coordinates,
    "light": laws.one_light,
}


def draw(law, r, d, n, seed):
    rng = np.random.default_rng([seed, r, d])
    truth = LAWS[law](r, d, rng)
    rows, _ = truth.sample(n, rng)
    return truth, rows


def fitted(rows, r, from_summary, seed=0, order=None):
    """A fit of the rows, or of their moments alone, of the order that `plan` prints."""
    if from_summary:
        rows = mm.summarize(rows, order or choose_order(rows.shape[1], r))
    return mm.fit(rows, r, random_state=seed)


def loss(a):
    losses, gaps, passes = [], [], []
    for seed in range(a.first, a.first + a.seeds):
        truth, rows = draw(a.law, a.r, a.d, a.n, seed)
        t = time.perf_counter()
        fit = fitted(rows, a.r, a.summary, seed, a.order)
        t = time.perf_counter() - t
        bayes, accuracy, gap = laws.accuracies(fit.mixture, truth)
        own = truth.log_prob(rows).mean() - fit.mixture.log_prob(rows).mean()
        losses.append(bayes - accuracy)
        gaps.append((own, gap))
        passes.append(fit.n_passes)
        if a.verbose:
            c = fit.certificate
            print(
                f"seed {seed}: bayes {bayes:.4f} loss {losses[-1]:+.4f} gap own {own:+.5f} fresh "
                f"{gap:+.5f} p {c.p_value:.3g} predicted {c.predicted_loss:.4f} "
                f"{'passed' if c.passed else 'NOT passed'} passes {fit.n_passes} {t:.1f} s, "
                f"{fit.winner}",
                flush=True,
            )
    own, fresh = np.mean(gaps, axis=0)
    print(
        f"{a.law} r={a.r} d={a.d} N={a.n} summary={a.summary} order={fit.order}: mean loss "
        f"{np.mean(losses):.5f}, worst {np.max(losses):.4f}; nats below truth, own rows "
        f"{own:.5f}, fresh {fresh:.5f}; passes ≤ {max(passes)} ({a.seeds} seeds)",
        flush=True,
    )


def real_sets():
    from sklearn import datasets
    from sklearn.decomposition import PCA

    digits = datasets.load_digits().data
    sets = {
        "iris": datasets.load_iris().data,
        "wine": datasets.load_wine().data,
        "breast cancer": datasets.load_breast_cancer().data,
        "diabetes": datasets.load_diabetes().data,
        "linnerud": np.hstack([datasets.load_linnerud().data, datasets.load_linnerud().target]),
        "digits PCA 15": PCA(15, random_state=0).fit_transform(digits),
        "digits PCA 25": PCA(25, random_state=0).fit_transform(digits),
    }
    return {k: (v - v.mean(0)) / v.std(0) for k, v in sets.items() if v.shape[0] >= 100}


def sklearn_best(rows, r, floor, seed, n_init=10):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianMixture(
            r, covariance_type="diag", init_params="k-means++", n_init=n_init, max_iter=500,
            reg_covar=floor, random_state=seed,
        )  # fmt: skip
        t = time.perf_counter()
        model.fit(rows)
        t = time.perf_counter() - t
    variances = np.maximum(model.covariances_, floor)
    return mm.DiagonalMixture(model.weights_ / model.weights_.sum(), model.means_, variances), t


def opponent(a):
    worst, table = 0.0, []
    for name, train, test, r, floor in cases(a):
        t = time.perf_counter()
        ours = mm.fit(train, r, random_state=0)
        t = time.perf_counter() - t
        theirs, t2 = sklearn_best(train, r, floor, 0)
        m = ours.mixture.with_variance_floor(floor * train.var(axis=0))
        own = m.log_prob(train).mean() - theirs.log_prob(train).mean()
        gain = m.log_prob(test).mean() - theirs.log_prob(test).mean()
        worst = min(worst, gain)
        table.append(gain)
        print(
            f"{name:>24} N={train.shape[0]:<6} r={r:<2} ours − k-means++×10: held out {gain:+.4f} "
            f"nats/row, own rows {own:+.4f}; {t:.1f} s against {t2:.1f} s; {ours.winner}",
            flush=True,
        )
    wins, losses = sum(g > 1e-4 for g in table), sum(g < -1e-4 for g in table)
    print(f"held out: {wins} wins, {losses} losses of {len(table)}; worst {worst:+.4f}")


def cases(a):
    if a.data == "real":
        for name, rows in real_sets().items():
            if a.only and a.only not in name:
                continue
            for r in range(2, 11, 2 if a.quick else 1):
                order = np.random.default_rng(0).permutation(rows.shape[0])
                cut = int(0.8 * rows.shape[0])
                yield name, rows[order[:cut]], rows[order[cut:]], r, 1e-3
        return
    for law, r, d, n in (
        ("separated", 6, 15, 10**4), ("separated", 15, 15, 10**4), ("separated", 20, 15, 10**4),
        ("separated", 8, 15, 10**5), ("overlapping", 4, 15, 10**4), ("overlapping", 6, 15, 10**5),
        ("separated", 3, 2, 5000), ("separated", 4, 5, 5000), ("light", 6, 10, 20000),
        ("shared", 5, 8, 20000), ("separated", 10, 30, 10**4), ("separated", 3, 1, 3000),
    ):  # fmt: skip
        for seed in range(a.seeds):
            truth, rows = draw(law, r, d, n, seed)
            yield f"{law} d={d}", rows, truth.sample(20000, 999)[0], r, 1e-6


def speed(a):
    """Whole calls of `mm.fit` for each number of threads, beside k-means++ ×10 of the same run.

    Times are printed only where the answers hold: the same bits for all numbers of threads, and a
    log-likelihood of fresh rows that is not below that of the others (of the truth with --alone).
    """
    truth, rows = draw(a.law, a.r, a.d, a.n, a.first)
    fresh = truth.sample(200_000, 999)[0]
    mm.fit(rows[:5000], 2, random_state=0)  # imports
    ours = {}
    for n_threads in a.threads or [usable_cores()]:
        for _ in range(a.repeat):
            t = time.perf_counter()
            fit = mm.fit(rows, a.r, random_state=0, n_threads=n_threads)
            t = time.perf_counter() - t
            if n_threads not in ours or t < ours[n_threads][0]:
                ours[n_threads] = t, fit
    fits = [fit for _, fit in ours.values()]
    for fit in fits[1:]:
        assert fit.mixture.means.tobytes() == fits[0].mixture.means.tobytes()
    print(fits[0], flush=True)
    name, theirs, t_theirs = "the truth", truth, np.nan
    if not a.alone:
        name = "k-means++ ×10"
        theirs, t_theirs = sklearn_best(rows, a.r, 1e-6, 0)
    gain = fits[0].mixture.log_prob(fresh).mean() - theirs.log_prob(fresh).mean()
    print(f"our log-likelihood of fresh rows {gain:+.5f} nats a row above that of {name}")
    if gain < -0.005:
        raise SystemExit("OUR ANSWER DOES NOT HOLD")
    for what, mixture in (("ours", fits[0].mixture), (name, theirs)):
        bayes, accuracy, _ = laws.accuracies(mixture, truth)
        print(f"loss of accuracy, {what}: {bayes - accuracy:.5f}")
    if not a.alone:
        print(f"{name}: {t_theirs:.1f} s")
    for n_threads, (t, fit) in ours.items():
        stages = {}
        for stage, seconds in fit.stages:
            stages[stage] = stages.get(stage, 0.0) + seconds
        times = ", ".join(f"{stage} {seconds:.3f}" for stage, seconds in stages.items())
        ratio = "" if a.alone else f", {t_theirs / t:.1f} times as fast"
        print(f"{n_threads:>2} threads: {t:.3f} s{ratio} ({times})", flush=True)


def certificate(a):
    rng = np.random.default_rng(a.first)
    rows_of_table = []
    for case in range(a.cases):
        r, n = int(rng.integers(2, 21)), int(10 ** rng.uniform(np.log10(3000), a.largest))
        law = ("separated", "overlapping", "shared", "light")[int(rng.integers(4))]
        d = int(rng.choice([8, 10, 15, 20]))
        from_summary = case % 2 == 0 or a.hard
        if a.hard:  # many components that overlap, few rows: most fits are bad
            r, n = int(rng.integers(8, 21)), int(10 ** rng.uniform(3.5, 4.5))
        seed = int(rng.integers(10**6))
        if from_summary and r > mm.largest_rank(d, 6, method="robust"):
            r = 6
        truth, rows = draw(law, r, d, n, seed)
        fit = fitted(rows, r, from_summary)
        bayes, accuracy, _ = laws.accuracies(fit.mixture, truth)
        value, c = bayes - accuracy, fit.certificate
        rows_of_table.append((value, c.passed))
        kind = "bad" if value > 0.02 else "good" if value < 0.005 else "middling"
        odd = (kind == "bad" and c.passed) or (kind == "good" and not c.passed)
        if a.verbose or odd:
            print(
                f"{case}: {law} r={r} d={d} N={n} summary={from_summary} loss {value:.4f} {kind} "
                f"{'passed' if c.passed else 'not passed'} p {c.p_value:.3g} effect "
                f"{c.effect_size:.2g} predicted {c.predicted_loss:.4f} "
                f"{[f.kind for f in c.findings if f.severity.value == 'fatal']}"
                f"{'  <-- wrong' if odd else ''}",
                flush=True,
            )
    table = np.array(rows_of_table, dtype=float)
    bad, good = table[table[:, 0] > 0.02], table[table[:, 0] < 0.005]
    print(
        f"bad fits not passed: {int((bad[:, 1] == 0).sum())} of {len(bad)}; good fits passed: "
        f"{int((good[:, 1] == 1).sum())} of {len(good)}; "
        f"middling {len(table) - len(bad) - len(good)}"
    )


def intervals(a):
    for from_summary in (True, False):
        found = []
        for seed in range(a.first, a.first + a.seeds):
            truth, rows = draw(a.law, a.r, a.d, a.n, seed)
            fit = fitted(rows, a.r, from_summary)
            if fit.certificate.passed:
                found.append(laws.covered(fit, truth, rows))
        names = found[0] if found else ()
        totals = {name: np.sum([x[name] for x in found], axis=0) for name in names}
        text = ", ".join(f"{name} {inside / size:.3f}" for name, (inside, size) in totals.items())
        print(
            f"{a.law} r={a.r} N={a.n} summary={from_summary}: {len(found)} passed; coverage {text}",
            flush=True,
        )


def auto(a):
    right, wrong = 0, []
    rng = np.random.default_rng(a.first)
    for case in range(a.cases):
        r = int(rng.integers(1, 9))
        while True:
            law = ("separated", "overlapping")[int(rng.integers(2))]
            seed = int(rng.integers(10**6))
            truth, rows = draw(law, r, a.d, a.n, seed)
            if truth.weights.min() >= 0.05:
                break
        fit = fitted(rows, "auto", a.summary)
        found = fit.mixture.n_components
        right += found == r
        if found != r:
            wrong.append((law, r, found, seed))
            print(f"{case}: {law} r={r} seed {seed} found {found}", flush=True)
    print(f"n_components=auto right in {right} of {a.cases}")


def main():
    parser = argparse.ArgumentParser()
    sub = parser.add_subparsers(required=True)
    for command in (loss, opponent, speed, certificate, intervals, auto):
        p = sub.add_parser(command.__name__)
        p.set_defaults(run=command)
        p.add_argument("--law", default="separated", choices=list(LAWS))
        p.add_argument("-r", type=int, default=6)
        p.add_argument("-d", type=int, default=15)
        p.add_argument("-n", type=lambda s: int(float(s)), default=100000)
        p.add_argument("--order", type=int)
        p.add_argument("--summary", action="store_true", help="fit the moments alone")
        p.add_argument("--seeds", type=int, default=8)
        p.add_argument("--first", type=int, default=0)
        p.add_argument("--cases", type=int, default=100)
        p.add_argument("--largest", type=float, default=6.0)
        p.add_argument("--data", default="real", choices=["real", "synthetic"])
        p.add_argument("--only", default="")
        p.add_argument("--quick", action="store_true")
        p.add_argument("--hard", action="store_true")
        p.add_argument(
            "--threads", type=lambda s: [int(x) for x in s.split(",")], help="such as 1,2,16"
        )
        p.add_argument("--repeat", type=int, default=1, help="the best of so many calls")
        p.add_argument("--alone", action="store_true", help="without the fit to compare with")
        p.add_argument("--verbose", "-v", action="store_true")
    a = parser.parse_args()
    a.run(a)


if __name__ == "__main__":
    main()
