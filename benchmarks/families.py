"""Families: yes/no answers, categories, counts, missing cells, against EM with random starts.

    python benchmarks/families.py yes-no         # d = 20, r = 4, 2e4 rows
    python benchmarks/families.py overlap        # d = 12, r = 3, 5e4 rows, Bayes accuracy 0.65-0.7
    python benchmarks/families.py categories     # 8 questions of 4 answers, r = 3 and 5
    python benchmarks/families.py mixed          # numbers, counts and yes/no answers, r = 4
    python benchmarks/families.py missing        # a quarter of the cells, at random or by component
    python benchmarks/families.py intervals      # coverage of the 95 % intervals
    python benchmarks/families.py rare           # rare yes answers: the same, and the maximum
    python benchmarks/families.py certificate    # good fits passed, bad fits not
    python benchmarks/families.py auto           # number of classes, 1 to 6

Likelihoods are nats a row of the fit's own rows, beside the best of ten EM runs from random starts
(`em`, below: matrix products, until a hundred steps gain less than 1e-7 nats a row) and of StepMix
with n_init=10 (``pip install stepmix``; a line without it says so). The same number of parameters
is fitted by all of them, so that own rows compare maxima.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, logsumexp

import momentmix as mm

N_STARTS = 10


# -- laws ---------------------------------------------------------------------------------------


class Law:
    """A mixture of columns that are independent within components, and draws of it.

    `columns` is a list of (family, parameters): ("gaussian", means (r,), deviations (r,)),
    ("poisson", rates (r,)), ("bernoulli", probabilities (r,)), ("categorical", (r, K)).
    """

    def __init__(self, weights, columns, seen=None):
        self.weights, self.columns, self.seen = weights, columns, seen

    @property
    def families(self):
        return {j: c[0] for j, c in enumerate(self.columns) if c[0] != "gaussian"}

    def sample(self, n, rng):
        labels = rng.choice(len(self.weights), size=n, p=self.weights)
        table = np.empty((n, len(self.columns)))
        for j, (family, *p) in enumerate(self.columns):
            if family == "gaussian":
                table[:, j] = p[0][labels] + p[1][labels] * rng.standard_normal(n)
            elif family == "poisson":
                table[:, j] = rng.poisson(p[0][labels])
            elif family == "bernoulli":
                table[:, j] = rng.random(n) < p[0][labels]
            else:
                edges = np.cumsum(p[0], axis=1)[labels]
                table[:, j] = (rng.random(n)[:, None] > edges[:, :-1]).sum(axis=1)
        if self.seen is not None:
            table[rng.random(table.shape) >= self.seen[labels]] = np.nan
        return table, labels

    def joint(self, table):
        """log ω_i p_i(y), of shape (n, r); missing cells are part of it."""
        joint = np.tile(np.log(self.weights), (len(table), 1))
        for j, (family, *p) in enumerate(self.columns):
            y = table[:, j, None]
            gone = np.isnan(y)
            y = np.where(gone, 0.0, y)
            if family == "gaussian":
                part = -0.5 * ((y - p[0]) / p[1]) ** 2 - np.log(p[1]) - 0.5 * np.log(2 * np.pi)
            elif family == "poisson":
                part = y * np.log(p[0]) - p[0] - gammaln(y + 1)
            elif family == "bernoulli":
                part = np.where(y > 0, np.log(p[0]), np.log1p(-p[0]))
            else:
                part = np.log(p[0]).T[y[:, 0].astype(int)]
            if self.seen is not None:
                q = self.seen[:, j]
                part = np.where(gone, np.log1p(-np.minimum(q, 1 - 1e-12)), part + np.log(q))
            joint += part
        return joint

    def log_likelihood(self, table):
        return float(logsumexp(self.joint(table), axis=1).mean())

    def accuracy(self, table, labels):
        return float((self.joint(table).argmax(axis=1) == labels).mean())


def yes_no(r, d, rng, low=0.1, high=0.9):
    columns = [("bernoulli", rng.uniform(low, high, r)) for _ in range(d)]
    return Law(rng.dirichlet(np.full(r, 8.0)), columns)


def overlapping(rng, r=3, d=12):
    """Classes that are hard to tell apart: Bayes accuracy between 0.65 and 0.7."""
    while True:
        law = yes_no(r, d, rng, 0.3, 0.7)
        table, labels = law.sample(20_000, rng)
        if 0.65 <= law.accuracy(table, labels) <= 0.7:
            return law


def categories(r, rng, n_columns=8, n_levels=4):
    columns = [("categorical", rng.dirichlet(np.ones(n_levels), r)) for _ in range(n_columns)]
    return Law(rng.dirichlet(np.full(r, 8.0)), columns)


def mixed_law(r, rng, n_numbers=5, n_counts=5, n_yes_no=6):
    columns = [("gaussian", rng.normal(size=r), rng.uniform(0.5, 1.2, r)) for _ in range(n_numbers)]
    columns += [("poisson", rng.uniform(0.5, 6.0, r)) for _ in range(n_counts)]
    columns += [("bernoulli", rng.uniform(0.1, 0.9, r)) for _ in range(n_yes_no)]
    return Law(rng.dirichlet(np.full(r, 8.0)), columns)


def numbers(r, d, rng, seen):
    columns = [("gaussian", rng.normal(size=r), rng.uniform(0.5, 1.2, r)) for _ in range(d)]
    return Law(rng.dirichlet(np.full(r, 8.0)), columns, seen)


# -- peers --------------------------------------------------------------------------------------


def em(table, law, r, n_starts=N_STARTS, seed=0):
    """The best of EM runs from random responsibilities: log-likelihood a row, and seconds."""
    start, rng, best = time.perf_counter(), np.random.default_rng(seed), -np.inf
    parts, base = [], 0.0
    for j, (family, *p) in enumerate(law.columns):
        y = table[:, [j]]
        if family == "categorical":
            parts.append(y == np.arange(p[0].shape[1]))
        else:
            parts.append(np.hstack([y, y**2]) if family == "gaussian" else y)
        if family == "poisson":
            base -= float(gammaln(y + 1).mean())
    features = np.hstack(parts).astype(np.float64)
    widths = np.cumsum([0] + [part.shape[1] for part in parts])
    for _ in range(n_starts):
        shares = rng.dirichlet(np.ones(r), len(table))
        last = -np.inf
        for step in range(5000):
            counts = shares.sum(axis=0)
            sums = shares.T @ features / counts[:, None]
            linear, constant = np.zeros_like(sums), np.log(counts / len(table))
            for (family, *_), a, b in zip(law.columns, widths[:-1], widths[1:], strict=True):
                m = sums[:, a:b]
                if family == "gaussian":
                    v = np.maximum(m[:, 1] - m[:, 0] ** 2, 1e-6)
                    linear[:, a], linear[:, a + 1] = m[:, 0] / v, -0.5 / v
                    constant -= 0.5 * (m[:, 0] ** 2 / v + np.log(2 * np.pi * v))
                elif family == "poisson":
                    rate = np.maximum(m[:, 0], 1e-9)
                    linear[:, a] = np.log(rate)
                    constant -= rate
                elif family == "bernoulli":
                    q = np.clip(m[:, 0], 1e-9, 1 - 1e-9)
                    linear[:, a] = np.log(q / (1 - q))
                    constant += np.log1p(-q)
                else:
                    linear[:, a:b] = np.log(np.maximum(m, 1e-9))
            joint = features @ linear.T + constant
            top = joint.max(axis=1, keepdims=True)
            shares = np.exp(joint - top)
            total = shares.sum(axis=1, keepdims=True)
            shares /= total
            if step % 100 == 99:
                value = float((np.log(total) + top).mean())
                if value - last < 1e-7:
                    break
                last = value
        best = max(best, float((np.log(total) + top).mean()) + base)
    return best, time.perf_counter() - start


def stepmix(table, law, r, seed=0):
    """Log-likelihood a row and seconds of StepMix; None where it is not installed or cannot."""
    try:
        from stepmix.stepmix import StepMix
    except ImportError:
        return None
    families = [c[0] for c in law.columns]
    if set(families) == {"bernoulli"}:
        measurement = "binary"
    elif set(families) == {"categorical"}:
        measurement = "categorical"
    else:
        return None  # counts are no family of StepMix
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = StepMix(
            n_components=r, measurement=measurement, n_init=N_STARTS, max_iter=1000,
            random_state=seed, progress_bar=0, verbose=0,
        )  # fmt: skip
        values = table.astype(int)
        start = time.perf_counter()
        model.fit(values)
        seconds = time.perf_counter() - start
        return float(model.score(values)), seconds


def timed(call, repeat=1):
    """The answer of the quickest of several calls, and its seconds."""
    runs = []
    for _ in range(repeat):
        start = time.perf_counter()
        answer = call()
        runs.append((time.perf_counter() - start, answer))
    seconds, answer = min(runs, key=lambda run: run[0])
    return answer, seconds


# -- maxima of the likelihood -------------------------------------------------------------------


def compare(a, name, law, r, n, rng, seed):
    table, labels = law.sample(n, rng)
    families = law.families
    result, seconds = timed(
        lambda: mm.fit(table, r, families=families, random_state=seed), a.repeat
    )
    summary = mm.summarize(table, order=4, families=families)
    alone, moment_seconds = timed(lambda: mm.fit(summary, r, random_state=seed))
    value, gap = (float(x.mixture.log_prob(table).mean()) for x in (result, alone))
    best, em_seconds = em(table, law, r)
    line = (
        f"{seed:4} {name}: Bayes {law.accuracy(table, labels):.3f}, {best:.5f} best of {N_STARTS}; "
        f"default {value - best:+.1e}, {em_seconds / seconds:.1f} times as fast ({seconds:.2f} s), "
        f"{result.certificate.verdict}; moments alone {gap - best:+.5f} ({moment_seconds:.2f} s), "
        f"{alone.certificate.verdict}"
    )
    peer = None if a.no_stepmix else stepmix(table, law, r)
    if peer is not None:
        line += f"; StepMix {peer[0] - best:+.1e}, {peer[1] / seconds:.1f} times as long"
    print(line, flush=True)
    return value - best, gap - best, em_seconds / seconds, peer and peer[1] / seconds


def report(rows, allowed=0.002):
    default, alone, ratios, peers = zip(*rows, strict=True)
    print(f"default within 1e-4 of the best: {sum(x >= -1e-4 for x in default)} of {len(rows)}")
    print(f"moments alone within {allowed}: {sum(x >= -allowed for x in alone)} of {len(rows)}")
    print(
        f"times as fast as EM x{N_STARTS}: least {min(ratios):.1f}, median {np.median(ratios):.1f}"
    )
    known = [x for x in peers if x]
    if known:
        print(f"times as fast as StepMix: least {min(known):.1f}, median {np.median(known):.1f}")


def seeds(a):
    return range(a.first, a.first + a.seeds)


def run_yes_no(a):
    rows = []
    for seed in seeds(a):
        rng = np.random.default_rng([30, seed])
        rows.append(compare(a, "20 yes/no, r=4", yes_no(4, 20, rng), 4, 20_000, rng, seed))
    report(rows)


def run_overlap(a):
    rows = []
    for seed in seeds(a):
        rng = np.random.default_rng([31, seed])
        rows.append(compare(a, "12 yes/no, r=3", overlapping(rng), 3, 50_000, rng, seed))
    report(rows)


def run_categories(a):
    rows = []
    for seed in seeds(a):
        for r in (3, 5):
            rng = np.random.default_rng([32, seed, r])
            rows.append(compare(a, f"8 of 4, r={r}", categories(r, rng), r, 20_000, rng, seed))
    report(rows)


def run_mixed(a):
    rows = []
    for seed in seeds(a):
        rng = np.random.default_rng([33, seed])
        rows.append(compare(a, "5 + 5 + 6, r=4", mixed_law(4, rng), 4, 30_000, rng, seed))
    report(rows)


# -- missing cells ------------------------------------------------------------------------------


def run_missing(a):
    r, d, n = 4, 12, 50_000
    worst, losses = [], []
    for seed in seeds(a):
        for kind in ("at random", "by component"):
            rng = np.random.default_rng([34, seed, len(kind)])
            q = np.full((r, d), 0.75) if kind == "at random" else rng.uniform(0.5, 1.0, (r, d))
            law = numbers(r, d, rng, q)
            table, labels = law.sample(n, rng)
            deviations = np.nanstd(table, axis=0)
            truth = np.stack([c[1] for c in law.columns], axis=1)
            summary = mm.summarize(table, order=4, missing="model")
            alone, moment_seconds = timed(lambda: mm.fit(summary, r, random_state=seed))  # noqa: B023
            result, seconds = timed(lambda: mm.fit(table, r, missing="model", random_state=seed))  # noqa: B023
            order = matched(truth / deviations, alone.mixture.means / deviations)
            errors = np.abs(alone.mixture.means[order] - truth) / deviations
            order = matched(truth / deviations, result.mixture.means / deviations)
            with_rows = np.abs(result.mixture.means[order] - truth) / deviations
            place = np.argsort(order)
            accuracy = float((place[result.mixture.predict(table)] == labels).mean())
            losses.append(law.accuracy(table, labels) - accuracy)
            worst.append(float(errors.max()))
            print(
                f"{seed:4} {kind}: moments alone means within {worst[-1]:.4f} sd, root mean square "
                f"{np.sqrt((errors**2).mean()):.4f} (with rows {with_rows.max():.4f}, "
                f"{np.sqrt((with_rows**2).mean()):.4f}) "
                f"({moment_seconds:.1f} s, {alone.certificate.verdict}); default {losses[-1]:+.4f} "
                f"below the true parameters' accuracy ({seconds:.1f} s, "
                f"{result.certificate.verdict})", flush=True,
            )  # fmt: skip
    print(f"means within 0.03 sd: {sum(x <= 0.03 for x in worst)} of {len(worst)}")
    print(f"accuracy within 0.003: {sum(x <= 0.003 for x in losses)} of {len(losses)}")


def matched(truth, means):
    """Position in `means` of each component of the truth."""
    gaps = ((truth[:, None] - means) ** 2).sum(axis=2)
    return linear_sum_assignment(gaps)[1]


# -- inference ----------------------------------------------------------------------------------


def draw_case(rng):
    """A law of a random kind, with the share of seen cells in some, its kind, and rows."""
    kind = rng.choice(["yes/no", "categories", "mixed", "missing"])
    r = int(rng.integers(2, 5))
    if kind == "yes/no":
        law = yes_no(r, int(rng.integers(10, 20)), rng, 0.05, 0.95)
    elif kind == "categories":
        law = categories(r, rng, int(rng.integers(6, 10)), int(rng.integers(3, 5)))
    else:
        law = mixed_law(r, rng, 3, 3, 4)
        if kind == "missing":
            law.seen = rng.uniform(0.7, 1.0, (r, len(law.columns)))
    return kind, r, law


def run_intervals(a):
    inside = {}
    for seed in seeds(a):
        rng = np.random.default_rng([35, seed])
        _, r, law = draw_case(rng)
        table, _ = law.sample(a.rows, rng)
        missing = "error" if law.seen is None else "model"
        for how in ("rows", "summary"):
            data = table
            families = law.families
            if how == "summary":
                data = mm.summarize(table, order=4, families=families, missing=missing)
                families = None
            result = mm.fit(data, r, families=families, missing=missing, random_state=0)
            for family, hits in covered(result, law).items():
                inside.setdefault((how, family), []).append(hits)
    for (how, family), hits in sorted(inside.items()):
        flat = np.concatenate(hits)
        error = np.sqrt(0.05 * 0.95 / flat.size)
        print(f"{how:8} {family:12} {flat.mean():.4f} of {flat.size} (standard error {error:.4f})")


def run_rare(a):
    """Rare yes answers: EM is slow there, and intervals about a point short of the end miss."""
    inside, gaps = [], []
    for seed in seeds(a):
        rng = np.random.default_rng([38, seed])
        r, d = int(rng.integers(2, 5)), int(rng.integers(10, 25))
        low, high = np.log([0.002, 0.25])
        columns = [("bernoulli", np.exp(rng.uniform(low, high, r))) for _ in range(d)]
        law = Law(rng.dirichlet(np.full(r, 8.0)), columns)
        table, labels = law.sample(a.rows, rng)
        options = {"families": law.families, "random_state": seed}
        result, seconds = timed(lambda: mm.fit(table, r, **options))  # noqa: B023
        # From the answer: is it the end? From the truth: is it the right one?
        value, longer = float(result.mixture.log_prob(table).sum()), []
        for begin in (result.mixture, np.stack([p for _, p in columns], axis=1)):
            best = mm.fit(table, r, start=begin, max_passes=20_000, **options)
            longer.append(float(best.mixture.log_prob(table).sum()) - value)
        gaps.append(longer)
        inside.append(np.concatenate(list(covered(result, law).values())))
        print(
            f"{seed:4} r={r} d={d}: Bayes {law.accuracy(table, labels):.3f}, coverage "
            f"{inside[-1].mean():.3f} of {inside[-1].size}, {longer[0]:+.3f} nats of all rows to "
            f"the maximum, {longer[1]:+.3f} to that from the truth, {result.n_passes} passes, "
            f"{seconds:.2f} s, {result.certificate.verdict}", flush=True,
        )  # fmt: skip
    flat = np.concatenate(inside)
    error = np.sqrt(0.05 * 0.95 / flat.size)
    print(f"coverage {flat.mean():.4f} of {flat.size} (standard error {error:.4f})")
    own, of_truth = (np.array(gaps) <= 0.1).sum(axis=0)
    print(
        f"within 0.1 nats of the maximum: {own} of {len(gaps)}; of that from the truth: {of_truth}"
    )


def covered(result, law):
    """Which true parameters lie in their intervals, by family."""
    mixture, ends = result.mixture, result.intervals()
    r = len(law.weights)
    truth, fitted = [], []
    for j, (family, *p) in enumerate(law.columns):
        if family == "categorical":
            truth.append(p[0])
            fitted.append(mixture.blocks[j].probabilities)
        else:
            scale = np.nanstd(p[0]) + 1e-9
            truth.append(p[0][:, None] / scale)
            fitted.append(mixture.means[:, [j]] / scale)
    order = matched(np.hstack(truth), np.hstack(fitted))
    hits = {"weights": _within(law.weights, [x[order] for x in ends.weights])}
    for j, (family, *p) in enumerate(law.columns):
        if family == "categorical":
            low, high = (x[order] for x in ends.levels[j])
            hits.setdefault(family, []).append(_within(p[0], (low, high)).ravel())
        else:
            pair = [x[order, j] for x in ends.means]
            hits.setdefault(family, []).append(_within(p[0], pair))
        if law.seen is not None:
            pair = [x[order, j] for x in ends.seen]
            hits.setdefault("seen", []).append(_within(law.seen[:, j], pair))
    assert len(hits["weights"]) == r
    return {k: np.concatenate(v) if isinstance(v, list) else v for k, v in hits.items()}


def _within(values, ends):
    return (ends[0] <= values) & (values <= ends[1])


def spoiled(kind, law, table, labels, rng):
    """Rows that no mixture of these families describes, and how they were made."""
    families = list(law.families.items())
    counts = [j for j, family in families if family == "poisson"]
    binary = [j for j, family in families if family in ("bernoulli", "categorical")]
    ways = ["one component less"] if len(law.weights) > 2 else []
    if counts:
        ways.append("over-dispersed")
    if len(binary) > 1:
        ways.append("copied answers")
    how = str(rng.choice(ways))
    table = table.copy()
    if how == "over-dispersed":
        for j in counts:
            rates = law.columns[j][1][labels] * rng.gamma(2.0, 0.5, len(table))
            table[:, j] = np.where(np.isnan(table[:, j]), np.nan, rng.poisson(rates))
    elif how == "copied answers":
        first, second = rng.choice(binary, 2, replace=False)
        highest = np.nanmax(table[:, second])
        same = rng.random(len(table)) < 0.4
        copied = np.minimum(table[:, first], highest)
        table[:, second] = np.where(same, copied, table[:, second])
    return how, table


def run_certificate(a):
    good, bad = [0, 0], [0, 0]
    for seed in seeds(a):
        rng = np.random.default_rng([36, seed])
        kind, r, law = draw_case(rng)
        table, labels = law.sample(a.rows, rng)
        missing = "error" if law.seen is None else "model"
        bayes = law.accuracy(table, labels)
        how, other = spoiled(kind, law, table, labels, rng)
        wrong_r = r - 1 if how == "one component less" else r
        for source in ("rows", "summary"):
            for rows, n_components, counts in ((table, r, good), (other, wrong_r, bad)):
                data, families = rows, law.families
                if source == "summary":
                    data = mm.summarize(rows, order=4, families=families, missing=missing)
                    families = None
                result = mm.fit(
                    data, n_components, families=families, missing=missing, random_state=0
                )
                is_good = counts is good
                if is_good:
                    predicted = result.mixture.predict(rows)
                    accuracy = mm_accuracy(labels, predicted)
                    if accuracy < bayes - 0.01:
                        print(f"{seed:4} {kind} {source}: the fit itself is off, {accuracy:.3f}")
                        continue
                passed = result.certificate.verdict == "passed"
                counts[0] += passed == is_good
                counts[1] += 1
                if passed != is_good:
                    print(
                        f"{seed:4} {kind} r={r} {source} {'good' if is_good else how}: "
                        f"{result.certificate.verdict}, p {result.certificate.p_value:.2g}, "
                        f"Bayes {bayes:.3f}", flush=True,
                    )  # fmt: skip
    print(f"good fits passed: {good[0]} of {good[1]}; bad fits not passed: {bad[0]} of {bad[1]}")


def mm_accuracy(labels, predicted):
    from momentmix.mixture.matching import clustering_accuracy

    return clustering_accuracy(labels, predicted)


def run_auto(a):
    right = {"rows": 0, "summary": 0}
    for seed in seeds(a):
        rng = np.random.default_rng([37, seed])
        r = 1 + seed % 6
        law = yes_no(r, 20, rng) if rng.random() < 0.5 else mixed_law(r, rng)
        table, labels = law.sample(a.rows, rng)
        for source in right:
            data, families = table, law.families
            if source == "summary":
                data = mm.summarize(table, order=4, families=families)
                families = None
            result, seconds = timed(
                lambda: mm.fit(data, "auto", families=families, random_state=0)  # noqa: B023
            )
            found = result.mixture.n_components
            right[source] += found == r
            if found != r:
                print(
                    f"{seed:4} {source}: {found} instead of {r}, Bayes "
                    f"{law.accuracy(table, labels):.3f} ({seconds:.1f} s)", flush=True,
                )  # fmt: skip
    for source, count in right.items():
        print(f"number of classes right, {source}: {count} of {a.seeds}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    for name, function, n_seeds in (
        ("yes-no", run_yes_no, 3),
        ("overlap", run_overlap, 3),
        ("categories", run_categories, 2),
        ("mixed", run_mixed, 3),
        ("missing", run_missing, 3),
        ("intervals", run_intervals, 40),
        ("rare", run_rare, 12),
        ("certificate", run_certificate, 50),
        ("auto", run_auto, 40),
    ):
        command = commands.add_parser(name)
        command.add_argument("--first", type=int, default=0, help="first seed")
        command.add_argument("--seeds", type=int, default=n_seeds)
        command.add_argument("--rows", type=lambda x: int(float(x)), default=20_000)
        command.add_argument("--repeat", type=int, default=2, help="timed fits; the best counts")
        command.add_argument("--no-stepmix", action="store_true")
        command.set_defaults(run=function)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
