"""Coverage of 95 % intervals where rows are drawn with a bias and weights undo it.

    python benchmarks/weights.py --cases 100 --slope 0.6
    python benchmarks/weights.py --cases 100 --slope 1.0  # some weights are 20 times the mean

Rows with a large first column are drawn more often: the chance is 1 / (1 + exp(−slope·x₀)). Beside
the intervals of the fit there are two controls: errors by Kish's number of rows alone, and a fit
that ignores the weights. Case c of `--first s` is drawn from `default_rng([s, c])`.
"""

import argparse
from unittest import mock

import numpy as np

import momentmix as mm
from momentmix.fitting.robust import answers

MEANS = [[-1.5, -1.5, -1.5, -1.5], [1.5, 1.0, 1.5, 1.5]]
COVARIANCES = np.stack([np.eye(4), np.eye(4)])
COVARIANCES[:, 0, 1] = COVARIANCES[:, 1, 0] = [0.5, -0.3]
LAWS = {
    "diagonal": (mm.DiagonalMixture([0.4, 0.6], MEANS, np.ones((2, 4))), None),
    "block": (mm.Mixture([0.4, 0.6], MEANS, COVARIANCES), [[0, 1]]),
}


def drawn_with_bias(truth, n, slope, rng):
    rows, _ = truth.sample(n, random_state=rng)
    chance = 1 / (1 + np.exp(-slope * rows[:, 0]))
    kept = rng.uniform(size=n) < chance
    return rows[kept], 0.37 / chance[kept]


def by_kish(parameters, information, n_effective, *_, plain=answers.uncertainty_after_em):
    """Errors that take the weights for independent of the rows."""
    return plain(parameters, information, n_effective)


def inside(result, truth):
    """Which parameters lie in their intervals, by name; those of the first column apart."""
    order, ends = np.argsort(result.mixture.means[:, 0]), result.intervals()
    found = {}
    for name in ("weights", "means", "variances"):
        low, high = (end[order] for end in getattr(ends, name))
        known = getattr(truth, name)
        found[name] = (low <= known) & (known <= high)
        if name != "weights":
            found[f"{name} of column 0"] = found[name][:, 0]
    return {name: hits.mean() for name, hits in found.items()}


def covered(law, cases, first, slope, n):
    """Coverage by way of fitting and parameter, and the p-values of the weighted fits."""
    truth, blocks = LAWS[law]
    hits, p_values = {"weighted": [], "by Kish's number": [], "weights ignored": []}, []
    for case in range(cases):
        rows, weights = drawn_with_bias(truth, n, slope, np.random.default_rng([first, case]))
        options = {"blocks": blocks, "random_state": 0}
        weighted = mm.fit(rows, 2, sample_weight=weights, **options)
        with mock.patch.object(answers, "uncertainty_after_em", by_kish):
            kish = mm.fit(rows, 2, sample_weight=weights, **options)
        fits = weighted, kish, mm.fit(rows, 2, **options)
        for some, fit in zip(hits.values(), fits, strict=True):
            some.append(inside(fit, truth))
        p_values.append(weighted.certificate.p_value)
    means = {
        way: {name: np.mean([x[name] for x in some]) for name in some[0]}
        for way, some in hits.items()
    }
    return means, np.array(p_values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=3000)
    parser.add_argument("--slope", type=float, default=0.6)
    parser.add_argument("-n", type=int, default=4000)
    a = parser.parse_args()
    for law in LAWS:
        means, p_values = covered(law, a.cases, a.first, a.slope, a.n)
        print(f"{law}, slope {a.slope}, {a.cases} cases")
        for way, found in means.items():
            print(f"  {way:<17}", ", ".join(f"{name} {x:.3f}" for name, x in found.items()))
        shares = ", ".join(f"{(p_values < p).mean():.3f} below {p}" for p in (0.05, 0.01))
        print(f"  p-values          {shares}")


if __name__ == "__main__":
    main()
