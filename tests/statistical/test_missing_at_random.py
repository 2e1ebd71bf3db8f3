"""Joined columns with cells missing at random, beside plain EM from ten starts."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import momentmix as mm

N_STARTS, MOST_STEPS = 10, 200
# Nats a row that the prior of the covariances costs, which plain EM does without; and that its
# center costs, which few rows take from the components that the search found.
PRIOR, CENTER = 3e-3, 3e-4


def plain_em(z, r, seed):
    """The best of ten starts: mean log-likelihood of observed cells, weights, means, covariances.

    Full covariances without a prior; means start at complete rows, all covariances at the total.
    """
    rng, n = np.random.default_rng(seed), len(z)
    patterns, members = np.unique(np.isnan(z), axis=0, return_inverse=True)
    rows_of = [np.flatnonzero(members.ravel() == k) for k in range(len(patterns))]
    complete = z[~np.isnan(z).any(axis=1)]
    starts = [rng.choice(len(complete), r, replace=False) for _ in range(N_STARTS)]
    w, m = np.full((N_STARTS, r), 1 / r), np.array([complete[rows] for rows in starts])
    s = np.tile(np.cov(complete.T), (N_STARTS, r, 1, 1))
    before = -np.inf
    for _ in range(MOST_STEPS):
        joint = np.empty((N_STARTS, r, n))
        for missing, rows in zip(patterns, rows_of, strict=True):
            seen = ~missing
            gaps = z[rows][:, seen] - m[:, :, None, seen]
            part = s[..., seen, :][..., seen]
            squares = (gaps * np.linalg.solve(part[:, :, None], gaps[..., None])[..., 0]).sum(-1)
            volume = np.linalg.slogdet(part)[1] + seen.sum() * np.log(2 * np.pi)
            joint[:, :, rows] = np.log(w)[..., None] - 0.5 * (squares + volume[..., None])
        logs = logsumexp(joint, axis=1)
        value, shares = logs.mean(axis=1), np.exp(joint - logs[:, None])
        if (value - before).max() < 1e-8:
            break
        before = value
        counts, first, second = shares.sum(axis=2), np.zeros_like(m), np.zeros_like(s)
        for missing, rows in zip(patterns, rows_of, strict=True):
            seen = ~missing
            part = s[..., seen, :][..., seen]
            slopes = np.linalg.solve(part, s[..., seen, :])  # of all columns by those observed
            filled = m[:, :, None] + (z[rows][:, seen] - m[:, :, None, seen]) @ slopes
            rest = s - s[..., :, seen] @ slopes
            own = shares[:, :, rows]
            first += (own[..., None] * filled).sum(axis=2)
            second += (own[..., None] * filled).swapaxes(-1, -2) @ filled
            second += own.sum(axis=2)[..., None, None] * rest
        w, m = counts / n, first / counts[..., None]
        s = second / counts[..., None, None] - m[..., :, None] * m[..., None, :]
    best = int(value.argmax())
    return float(value[best]), w[best], m[best], s[best]


def drawn(r, d, n, share, seed):
    """Rows of correlated components; cells are missing the more often, the larger column 0 is."""
    rng = np.random.default_rng(seed)
    roots = 0.5 * rng.normal(size=(r, d, d)) / np.sqrt(d) + 0.7 * np.eye(d)
    labels = rng.choice(r, n, p=rng.dirichlet(np.full(r, 5.0)))
    rows = 2.0 * rng.normal(size=(r, d))[labels]
    rows += (roots[labels] @ rng.normal(size=(n, d, 1)))[..., 0]
    is_missing = rng.random((n, d)) < share * (1 + np.sign(rows[:, :1] - np.median(rows[:, 0])))
    is_missing[:, 0] = False
    return np.where(is_missing, np.nan, rows)


def penguins():
    table = pd.read_csv(mm.example_table("penguins"))
    rows = table[[c for c in table if c.endswith(("_mm", "_g"))]].to_numpy(float)
    rng = np.random.default_rng(0)
    holes = rng.random(rows.shape) < 0.1 * (np.arange(4) > 0)
    return np.where(holes, np.nan, rows)[~np.isnan(rows[:, 0])]


LONG = pytest.mark.long
TABLES = {
    "two of three columns": lambda: (drawn(2, 3, 1500, 0.1, 1), 2),
    "three of four": lambda: (drawn(3, 4, 1500, 0.15, 2), 3),
    "four of four, many cells": lambda: (drawn(4, 4, 1500, 0.25, 3), 4),
    "three of five": lambda: (drawn(3, 5, 1500, 0.1, 4), 3),
    "penguins": lambda: (penguins(), 3),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=LONG) if "of f" in n else n for n in TABLES]
)
def test_observed_cells_are_as_likely_as_by_plain_em_from_ten_starts(name):
    """Both as they are, and where momentmix goes on from the best of plain EM."""
    rows, r = TABLES[name]()
    shift, scale = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
    options = {"blocks": "full", "missing": "mar", "background": False, "random_state": 0}
    result = mm.fit(rows, r, **options)
    plain, w, m, s = plain_em((rows - shift) / scale, r, seed=0)
    units = (~np.isnan(rows) * np.log(scale)).sum() / len(rows)
    assert result.log_likelihood + units >= plain - PRIOR
    start = mm.Mixture(w, m * scale + shift, s * scale[:, None] * scale)
    assert result.log_likelihood >= mm.fit(rows, r, start=start, **options).log_likelihood - CENTER
