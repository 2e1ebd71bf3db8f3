"""How weighted means of moments vary, from the weighted rows themselves.

| symbol | name here | shape |
|---|---|---|
| w: how many rows each row counts as | ``counts`` | (n,) |
| c(z): the products whose means are the conditions | in `draws` | (n_conditions, n) |
| Σ g w (c(z) − c̄) / Σ w, g + 1 Poisson(1) | `MomentSpread.draws` | (n_conditions, n_draws) |

The model knows the covariance of moments of rows that are drawn from it. Weights that depend on the
rows (rows drawn with a bias, which the weights undo) change it: where they are large, moments vary
more than those of (Σ w)² / Σ w² rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.conditions.conditions import Conditions, point_powers

DRAWS = 200  # for a mean and a variance; they cost a small part of the whitening
_AT_ONCE = 100  # rows whose products fit in the cache


@dataclass(frozen=True)
class MomentSpread:
    """Rows that show how weighted means of moments vary.

    Parameters
    ----------
    rows : array of shape (n, d)
        Standardized features of some of the rows.
    counts : array of shape (n,)
        How many rows each counts as.
    n_rows : int
        All rows; these are a part of them.
    """

    rows: Float
    counts: Float
    n_rows: int

    def draws(
        self, conditions: Conditions, rng: np.random.Generator, n_draws: int = DRAWS
    ) -> Float:
        """Deviations of the observed means from those expected, (n_conditions, n_draws)."""
        sums = np.zeros((conditions.size, n_draws + 1))
        factors = np.empty((len(self.rows), n_draws + 1))
        factors[:, 0] = self.counts
        # All cumulants of these are 1, so that the draws are as skewed as the means themselves.
        multipliers = rng.poisson(1.0, (len(self.rows), n_draws)) - 1.0
        factors[:, 1:] = self.counts[:, None] * multipliers
        for start in range(0, len(self.rows), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            powers = point_powers(self.rows[part], conditions.highest_exponent)
            sums += conditions.products(powers) @ factors[part]
        total = self.counts.sum()
        noise = (sums[:, 1:] - np.outer(sums[:, 0] / total, factors[:, 1:].sum(axis=0))) / total
        # A part of the rows has fewer of them: its means vary more than those of all.
        return np.asarray(noise * np.sqrt(len(self.rows) / self.n_rows))
