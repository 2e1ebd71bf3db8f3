"""Rows with missing cells: the density of what is observed, and values given it.

| symbol | name here | shape |
|---|---|---|
| K, U: features of a block that are observed, and missing, in a row | ``observed``, ``missing`` | |
| log p_i(z_K) − log p_i(z_K, z_U), a linear function of T(z) | ``change`` | (…, r, n_T) |
| E_i[z_U given z_K] = a_i + B_i z_K, Cov_i[z_U given z_K] = C_i | `conditional` | |

Of columns that are not joined, the statistics of missing cells are 0 (`Density.map_rows`). The
densities of joined columns are taken as if no cell were missing, with any number in its place; the
rows of each pattern within a block are corrected (`correct_joint`). Fits, densities, predictions
and findings do this.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.families.gaussian import regression, rows_by_pattern
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters


class Pattern(NamedTuple):
    """Rows (m,) in which the same features of one block are observed."""

    rows: Int
    observed: Int
    missing: Int
    block: Int  # all features of the block, ascending
    features: Float  # T of these in the rows, (n_T, m)
    places: Int  # of T of the block in T(z), (n_T,)
    is_kept: NDArray[np.bool_]  # which of these are T of observed features
    tables: tuple[Int, Int]  # where matrices of the observed and of all features are in a spread

    @property
    def order(self) -> Int:
        """Observed features, then missing ones."""
        return np.concatenate([self.observed, self.missing])


def missing_values(features: Float, blocks: Blocks) -> NDArray[np.bool_]:
    """Which joined values are missing in rows T(z), (d, n), by the features that say so."""
    is_missing = np.zeros((blocks.n_features, features.shape[1]), dtype=bool)
    middles = {part.features[-1]: part.observed_middle for part in blocks.laws}
    for value, seen, _ in blocks.missing:
        is_missing[value] = features[seen] <= middles[seen]
    return is_missing


def patterns(
    features: Float, blocks: Blocks, is_missing: NDArray[np.bool_] | None = None
) -> list[Pattern]:
    """The patterns of rows T(z) in which some features (d, n) of a joined block are missing.

    By default the joined values whose cells are missing.
    """
    if is_missing is None:
        if not blocks.missing:
            return []
        is_missing = missing_values(features, blocks)
    result = list[Pattern]()
    for block, table in blocks.places:
        incomplete = np.flatnonzero(np.any(is_missing[block], axis=0))
        j, k = np.triu_indices(block.size, 1)
        squares = np.concatenate([np.diagonal(table), table[j, k]])
        places = np.concatenate([block, blocks.n_features + squares, [blocks.n_statistics - 1]])
        for missing, members in rows_by_pattern(is_missing[np.ix_(block, incomplete)].T):
            rows, observed = incomplete[members], np.asarray(~missing)
            is_kept = np.concatenate([observed, observed, observed[j] & observed[k], [True]])
            order = np.argsort(missing, kind="stable")
            tables, values = (table[np.ix_(order, order)], table), features[np.ix_(places, rows)]
            features_of_both = block[observed], block[missing], block
            result.append(Pattern(rows, *features_of_both, values, places, is_kept, tables))
    return result


def _density(p: Parameters, features: Int, table: Int) -> Float:
    """Log-densities of some features of one block as linear functions of their T, (…, r, n_T)."""
    means, inverses = p.means[..., features], np.linalg.inv(p.spread[..., table])
    linear, (j, k) = (inverses @ means[..., None])[..., 0], np.triu_indices(features.size, 1)
    squares = -0.5 * np.diagonal(inverses, axis1=-2, axis2=-1)
    volume = np.linalg.slogdet(inverses)[1] - features.size * np.log(2 * np.pi)
    constants = 0.5 * (volume - (linear * means).sum(axis=-1))
    return np.concatenate([linear, squares, -inverses[..., j, k], constants[..., None]], axis=-1)


def correct_joint(
    joint: Float, p: Parameters, found: list[Pattern], log_units: Float | None = None
) -> None:
    """Correct log-densities (…, r, n) of rows as if all cells were observed; in place.

    They are densities in units of which `log_units` (d,) are the logarithms. By default they become
    those of joined values with missing cells in the units of the data.
    """
    if log_units is None:
        log_units = np.zeros(p.blocks.n_features)
        for value, _, unit in p.blocks.missing:
            log_units[value] = np.log(unit)
        joint -= log_units.sum()
    complete = {int(block[0]): _density(p, block, table) for block, table in p.blocks.places}
    for pattern in found:
        change, k = -complete[int(pattern.block[0])], pattern.observed.size
        if k:
            change[..., pattern.is_kept] += _density(p, pattern.observed, pattern.tables[0][:k, :k])
        change[..., -1] += log_units[pattern.missing].sum()
        joint[..., pattern.rows] += change @ pattern.features


def conditional(p: Parameters, pattern: Pattern) -> tuple[Float, Float, Float]:
    """Missing values given those observed: a (…, r, u), B (…, r, u, k), C (…, r, u, u)."""
    k = pattern.observed.size
    is_missing = np.arange(pattern.block.size) >= k
    slopes, rest = regression(p.spread[..., pattern.tables[0]], is_missing)
    constants = p.means[..., pattern.missing]
    constants = constants - (slopes @ p.means[..., pattern.observed, None])[..., 0]
    return constants, slopes, rest
