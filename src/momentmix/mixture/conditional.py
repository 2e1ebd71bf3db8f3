"""Some columns of a mixture given others: a mixture again, and its mean for many rows.

| symbol | name here | shape |
|---|---|---|
| known columns K | ``known`` | (k,) |
| ω_i p_i(y_K) / Σ_l ω_l p_l(y_K) | ``shares`` | (n, r) |
| μ_iU + Σ_iUK Σ_iKK⁻¹ (y_K − μ_iK) | `conditioned`, `conditional_means` | (r, u), (n, u) |

Blocks are independent given the component, so a known column changes the means and covariances of
its own block; those of other blocks change by the weights of the components alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.mixture.gaussian_block import GaussianBlock, Regression
from momentmix.mixture.parameters import Parameters
from momentmix.rows.names import feature_number


def column_numbers(
    columns: Sequence[int | str], n_features: int, names: Sequence[str] | None
) -> Int:
    """Numbers of columns that are given by number or name, each once."""
    d, numbers = n_features, [int(feature_number(column, names)) for column in columns]
    if not numbers or min(numbers) < -d or max(numbers) >= d:
        raise InputError(f"features must be numbers in 0…{d - 1} or names; got {columns!r}.")
    found = np.array(numbers, dtype=np.int64) % d
    if np.unique(found).size < found.size:
        raise InputError(f"features must differ from each other; got {columns!r}.")
    return found


def other_columns(known: Int, n_features: int) -> Int:
    """Columns that are not known, ascending; raise where there are none."""
    others = np.setdiff1d(np.arange(n_features), known)
    if not others.size:
        raise InputError(
            f"all {n_features} columns are known, so that none is left. Leave out those that are "
            "to be predicted."
        )
    return others


def regressions(blocks: Sequence[GaussianBlock], known: Sequence[int]) -> list[Regression]:
    """What known columns say of the others, in each block that has both."""
    found = (block.regression(known) for block in blocks if len(block.columns) > 1)
    return [regression for regression in found if regression is not None]


def conditioned(
    p: Parameters, found: Sequence[Regression], others: Int, values: Float, shares: Float
) -> Parameters:
    """Parameters of the columns `others` of one row whose known columns have `values`.

    Parameters
    ----------
    p : Parameters
    found : sequence of Regression
    others : array of int
    values : array of shape (d,)
        What `others` are in it does not matter.
    shares : array of shape (r,)
        Weights given the known columns.
    """
    q = p.restricted(others)
    number = np.zeros(p.means.shape[1], dtype=np.int64)
    number[others] = np.arange(others.size)
    means, spread = q.means.copy(), q.spread.copy()
    for own, known, slopes, rest in found:
        offsets = values[known] - p.means[:, known]
        means[:, number[own]] += (slopes @ offsets[:, :, None])[:, :, 0]
        spread[:, q.blocks.table(number[own])] = rest
    return replace(q, weights=shares / shares.sum(), means=means).with_spread(spread)


def conditional_means(
    p: Parameters, found: Sequence[Regression], others: Int, rows: Float, shares: Float
) -> Float:
    """Means of the columns `others` given the known columns of many rows, of shape (n, u).

    Parameters
    ----------
    p, found, others
        As for `conditioned`.
    rows : array of shape (n, d)
        What `others` are in it does not matter.
    shares : array of shape (n, r)
    """
    expected = np.zeros((len(rows), p.means.shape[1]))
    expected[:, others] = shares @ p.means[:, others]
    for own, known, slopes, _ in found:
        for i in range(p.n_components):
            offsets = rows[:, known] - p.means[i, known]
            expected[:, own] += shares[:, [i]] * (offsets @ slopes[i].T)
    return expected[:, others]
