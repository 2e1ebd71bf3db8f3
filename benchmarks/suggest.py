"""Suggestions for fits with a known defect: is the right one first, and is any useless?

    python benchmarks/suggest.py [n_tables] [seed]

Random tables of two to four groups; columns are numbers, counts and answers. Of seven fits five
have a known defect. Each suggestion is then fitted to all rows, and compared with the fit as it
was on 20,000 fresh rows of the law: a gain that is not positive is useless.
"""

import sys
import time
import warnings
from collections import Counter

import numpy as np
import pandas as pd

import momentmix as mm

FRESH = 20_000


class Law:
    """A mixture of numbers x0, x1, …, and beside them a count and an answer."""

    def __init__(self, rng):
        self.r, self.d = int(rng.integers(2, 5)), int(rng.integers(4, 8))
        self.weights = rng.dirichlet(np.full(self.r, 8.0))
        self.means = 1.6 * rng.normal(size=(self.r, self.d))
        self.sds = rng.uniform(0.5, 1.3, (self.r, self.d))
        self.rates = rng.permutation([2.0, 5.0, 10.0, 18.0][: self.r])
        self.yes = rng.uniform(0.1, 0.9, self.r)
        self.has_others = rng.random() < 0.5
        self.rho = 0.0  # of x0 and x1 within groups
        self.is_log = False  # of x0

    def draw(self, n, rng, with_groups=False):
        g = rng.choice(self.r, n, p=self.weights)
        e = rng.normal(size=(n, self.d))
        e[:, 1] = self.rho * e[:, 0] + np.sqrt(1 - self.rho**2) * e[:, 1]
        x = self.means[g] + self.sds[g] * e
        frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(self.d)])
        if self.is_log:
            frame["x0"] = np.exp(0.7 * frame["x0"])
        if self.has_others:
            frame["n"] = rng.poisson(self.rates[g])
            frame["yes"] = rng.random(n) < self.yes[g]
        return (frame, g) if with_groups else frame


def log_column(law, rng, n):
    law.is_log = True
    return law.draw(n, rng), {}, lambda o: o.get("families", {}).get("x0") in ("log", "log1p")


def correlated(law, rng, n):
    law.rho = rng.choice([-1, 1]) * rng.uniform(0.5, 0.9)

    def joins(o):
        return o.get("blocks") == "auto" or ["x0", "x1"] in o.get("blocks", [])

    return law.draw(n, rng), {"blocks": "diag"}, joins


def one_too_many(law, rng, n):
    r = law.r
    return law.draw(n, rng), {"n_components": r + 1}, lambda o: o["n_components"] == r


def far_rows(law, rng, n):
    frame = law.draw(n, rng)
    places = rng.choice(n, max(8, n // 100), replace=False)
    names = [f"x{j}" for j in range(law.d)]
    frame.loc[places, names] = rng.normal(0, 40, (len(places), law.d))
    return frame, {"background": False}, lambda o: o["background"] in ("auto", True)


def at_random(law, rng, n):
    law.has_others = False
    frame = law.draw(n, rng)
    p = 0.85 / (1 + np.exp(-2.5 * (frame["x0"] - frame["x0"].median())))
    for j in range(1, min(4, law.d - 1)):
        frame.loc[rng.random(n) < p, f"x{j}"] = np.nan
    return frame, {"missing": "drop"}, lambda o: o["missing"] == "mar"


def sound(law, rng, n):
    return law.draw(n, rng), {}, lambda o: False


def sound_gaps(law, rng, n):
    law.has_others = False
    frame, groups = law.draw(n, rng, with_groups=True)
    for j in range(3):
        frame.loc[rng.random(n) < rng.uniform(0.05, 0.5, law.r)[groups], f"x{j}"] = np.nan
    return frame, {"missing": "model"}, lambda o: False


DEFECTS = [log_column, correlated, one_too_many, far_rows, at_random]
SOUND = [sound, sound_gaps]


def density(mixture, rows):
    """Mean log-density of complete rows; gaps are no part of it."""
    if any(column.has_missing for column in mixture.columns):
        mixture = mm.Mixture.diagonal(
            mixture.weights, mixture.means, mixture.variances, mixture.feature_names
        )
    return mixture.log_prob(rows, unseen="missing").mean()


def main(n_tables=49, seed=0):
    right, offered, useless, n_of = Counter(), Counter(), [], Counter()
    for k in range(n_tables):
        make = (DEFECTS + SOUND)[k % 7]
        rng = np.random.default_rng([seed, k])
        law = Law(rng)
        table, options, is_right = make(law, rng, int(rng.integers(800, 4000)))
        options = {"n_components": law.r, "random_state": k, **options}
        result, name = mm.fit(table, **options), make.__name__
        start = time.process_time()
        found = result.suggest(table)
        seconds = time.process_time() - start
        n_of[name] += 1
        right[name] += bool(found) and is_right(found[0].options)
        if name == "far_rows":  # those of the law alone: the groups
            result = mm.fit(table, **options)
        fresh, gains = law.draw(FRESH, rng), []
        for suggestion in found:
            other = mm.fit(table, **suggestion.options).mixture
            gains.append(density(other, fresh) - density(result.mixture, fresh))
            offered[name] += 1
            if gains[-1] <= 0:
                useless.append((k, str(suggestion), round(gains[-1], 4)))
        pairs = zip(found, gains, strict=True)
        texts = "; ".join(f"{r.change} {r.gain:+.3f} ({x:+.3f})" for r, x in pairs)
        print(
            f"{k:3} {name:14} r={law.r} n={len(table)} {result.certificate.verdict:10} "
            f"{seconds:5.1f} s  {texts or '-'}",
            flush=True,
        )
    n = sum(n_of[make.__name__] for make in DEFECTS)
    print(
        f"\nright first: {sum(right.values())} of {n}", {x: f"{right[x]}/{n_of[x]}" for x in n_of}
    )
    total = sum(offered.values())
    print(f"offered: {total}, useless on fresh rows: {len(useless)}; for sound fits: ", end="")
    print(*(f"{offered[make.__name__]} in {n_of[make.__name__]}" for make in SOUND))
    for line in useless:
        print("  ", *line)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*map(int, sys.argv[1:]))
