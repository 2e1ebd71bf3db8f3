"""Densities of rows under mixtures and the sums of an EM step, for rows of NumPy or torch.

| symbol | name here | shape |
|---|---|---|
| T(z) of standardized rows z | ``features`` | (…, n_statistics, n) |
| log ω_i p_i(z) = coefficients · T(z) | `joint_densities` | (…, r, n) |
| log Σ_i ω_i p_i(z) | `log_sums` | (…, n) |
| γ_i(z) = ω_i p_i(z) / Σ_k ω_k p_k(z) | `responsibilities` | (…, r, n) |
| Σ_z γ_i(z) T(z) | `statistics_of`, `Density.em_sums` | (…, r, n_statistics) |

The model enters by its coefficients and features only (`momentmix.mixture.gaussian`). Coefficients
of a batch of k mixtures, (k, r, n_statistics), give (k, r, n) instead of (r, n) in one matrix
product. NumPy rows are worked on by compiled code where the module is there; otherwise, as rows on
a device, in slabs where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.arrays import (
    as_float64,
    free_bytes,
    namespace,
    on_device_of,
    readable,
    take,
    to_numpy,
)
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.gaussian import (
    coefficients,
    coefficients_and_constants,
    features_of,
    standardized,
    statistics,
)
from momentmix.mixture.missing import correct_joint, patterns
from momentmix.mixture.parameters import Parameters
from momentmix.native import code
from momentmix.parallel import few_threads, map_in_order, usable_cores

Reduction = Callable[[Any, Any], Any]


TILE_ENTRIES = 1 << 16  # doubles in one tile of log-densities: half a megabyte fits a cache
_BLOCK = 16384  # rows that a thread predicts at a time: long enough to pay for the hand-over
_ENTRIES = 1 << 23  # doubles of features of rows with missing cells at a time: 64 MB
_SLAB = 4096  # rows of one matrix of a batched product on a device: tall thin products are slow
_COPIES = 6  # of the features and the joint densities at once, on a device

# Numbers below 1e-308 take processors ten times as long, so logarithms are cut off above that.
# e^-200 = 1e-87 is far below what a sum over rows can hold, and its products stay above 1e-308.
_LEAST_IN_SUMS = -200.0
_LEAST = -700.0  # e^-700 = 1e-304, for single rows
_NOTHING = 1e-303  # a responsibility below it was cut off, and is 0
_LOWEST = np.finfo(np.float64).min


# -- arithmetic over components -----------------------------------------------------------------


def joint_densities(coefficients: Any, features: Any, xp: Any = np) -> Any:
    """Log-densities of the components, weights included, of shape (…, r, n)."""
    if coefficients.ndim < 3:
        return xp.matmul(coefficients, features)
    table = xp.reshape(coefficients, (-1, coefficients.shape[-1]))  # a batch in one product
    joint = xp.matmul(table, features)
    return xp.reshape(joint, (*coefficients.shape[:-1], joint.shape[-1]))


def _exponentials(joint: Any, xp: Any, least: float) -> tuple[Any, Any, Any]:
    """exp(joint − top), their sum, and top, the largest of `joint`; overwrites NumPy arrays."""
    # Rows so far away that every density is 0 have top −∞, and −∞ − (−∞) is NaN.
    if xp is np:
        top = joint.max(axis=-2)
        joint -= np.maximum(top, _LOWEST)[..., None, :]
        np.maximum(joint, least, out=joint)
        np.exp(joint, out=joint)
        return joint, joint.sum(axis=-2), top
    top = xp.amax(joint, axis=-2)
    joint = xp.exp(joint - xp.where(xp.isinf(top), xp.zeros_like(top), top)[..., None, :])
    return joint, xp.sum(joint, axis=-2), top


def log_sums(joint: Any, xp: Any = np) -> Any:
    """Log-density of each row, of shape (…, n); overwrites `joint`."""
    _, total, top = _exponentials(joint, xp, _LEAST)
    return xp.log(total) + top


def responsibilities(joint: Any, xp: Any = np, least: float = _LEAST_IN_SUMS) -> tuple[Any, Any]:
    """Posterior probabilities (…, r, n) and log-densities (…, n); overwrites `joint`."""
    shares, total, top = _exponentials(joint, xp, least)
    factors = (1.0 / total)[..., None, :]
    if xp is np:
        shares *= factors
    else:  # a new tensor: torch may need the old one for gradients
        shares = shares * factors
    return shares, xp.log(total) + top


def posteriors(joint: Any, xp: Any = np) -> Any:
    """Posterior probabilities (r, n), NaN where every density is 0; overwrites `joint`."""
    shares, logs = responsibilities(joint, xp, _LEAST)
    if xp is np:
        shares *= shares > _NOTHING
        shares += np.where(logs == -np.inf, np.nan, 0.0)[..., None, :]
    return shares


def most_probable(joint: Any, xp: Any = np) -> Any:
    """Component of the largest entry (…, n); −1 where one is NaN, or all are −∞."""
    if xp is np:  # component by component: `argmax` along few entries takes ten times longer
        top = joint[..., 0, :].copy()
        places = np.zeros(top.shape, dtype=np.int64)
        for i in range(1, joint.shape[-2]):
            np.copyto(places, i, where=joint[..., i, :] > top)
            np.maximum(top, joint[..., i, :], out=top)
    else:
        places, top = xp.argmax(joint, axis=-2), xp.amax(joint, axis=-2)
    return xp.where(xp.isnan(top) | (top == -xp.inf), xp.full_like(places, -1), places)


def _sums(coefficients: Any, features: Any, xp: Any = np, counts: Any = None) -> tuple[Any, Any]:
    """Statistics, as `coefficients`, and log-densities (…, n), times `counts` (…, n) if any.

    Features (n_slabs, n_statistics, n) of one mixture are summed over the slabs.
    """
    shares, logs = responsibilities(joint_densities(coefficients, features, xp), xp)
    if counts is not None:
        shares, logs = shares * counts[..., None, :], logs * counts
    if coefficients.ndim > 2:  # all components of a batch in one product
        shares = xp.reshape(shares, (-1, shares.shape[-1]))
    statistics = xp.matmul(shares, features.mT)
    if features.ndim > 2:
        statistics = xp.sum(statistics, axis=0)
    return xp.reshape(statistics, coefficients.shape), logs


# What compiled code can make of each row.
_KINDS: dict[Reduction, int] = {log_sums: 0, posteriors: 1, most_probable: 2}


# -- features in memory -------------------------------------------------------------------------


def statistics_of(
    coefficients: Float, features: Float, blocks: Blocks | None = None
) -> tuple[Float, Float]:
    """EM statistics of NumPy rows in memory, and the mean log-density of a row, () or (k,)."""
    statistics, total = np.zeros_like(coefficients), np.zeros(coefficients.shape[:-2])
    if code is not None:
        _add_compiled(coefficients, features, None, None, blocks, None, statistics, total)
        return statistics, np.asarray(total / features.shape[1])
    for tile in _tiles(coefficients, features):
        of_tile, logs = _sums(coefficients, tile)
        statistics += of_tile
        total += logs.sum(axis=-1)
    return statistics, np.asarray(total / features.shape[1])


def mean_log_densities(coefficients: Float, features: Float, blocks: Blocks | None = None) -> Float:
    """Mean log-density of NumPy rows in memory under each mixture of a batch, of shape (k,)."""
    total = np.zeros(coefficients.shape[:-2])
    if code is not None:
        _add_compiled(coefficients, features, None, None, blocks, None, None, total)
        return np.asarray(total / features.shape[1])
    for tile in _tiles(coefficients, features):
        total += log_sums(joint_densities(coefficients, tile)).sum(axis=-1)
    return np.asarray(total / features.shape[1])


def _tiles(coefficients: Float, features: Float) -> Iterator[Float]:
    """Rows a tile at a time."""
    width = _tile_width(coefficients[..., 0].size)
    for start in range(0, features.shape[1], width):
        yield features[:, start : start + width]


def _tile_width(n_densities: int) -> int:
    """Rows of a tile that holds so many log-densities of each."""
    return max(128, min(2048, TILE_ENTRIES // n_densities))


def _add_compiled(
    coefficients: Float,
    table: Float,
    columns: NDArray[np.int64] | None,
    units: Float | None,
    blocks: Blocks | None,
    counts: Float | None,
    statistics: Float | None,
    totals: Float,
) -> None:
    """Sums of an EM step over features, or over rows with columns and units; into the last two."""
    coefficients = np.ascontiguousarray(coefficients)
    r = coefficients.shape[-2]
    n_features = (len(table) - 1) // 2 if columns is None else columns.size
    n_features = n_features if blocks is None else blocks.n_features
    code.em_sums(
        coefficients, coefficients[..., 0].size // r, r, table, columns, units,
        compiled_products(blocks, n_features), counts, statistics, totals,
    )  # fmt: skip


def compiled_products(blocks: Blocks | None, n_features: int) -> NDArray[np.int64]:
    """Features whose products are statistics, for compiled code: z² first.

    A statistic that is no product is −1 and its place among those in memory.
    """
    squares = np.repeat(np.arange(n_features), 2).reshape(-1, 2)
    if blocks is None or blocks.is_diagonal:
        return squares
    places = blocks.n_features + blocks.n_spread + np.arange(blocks.n_own)
    others = np.column_stack([np.full(blocks.n_own, -1), places])
    return np.concatenate([squares, blocks.pairs, others])


# -- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Density:
    """Densities of raw rows y by T(z), z = (y − shift)·inverse."""

    coefficients: Float  # log-densities as linear functions of T(z), (r, n_statistics)
    parameters: Parameters  # of z
    shift: Float
    inverse: Float
    columns: NDArray[np.int64]  # of the rows, which the features are
    n_groups: int | None = None  # components before those of a background; None: there is none

    @classmethod
    @np.errstate(divide="ignore", over="ignore", invalid="ignore")
    def of_mixture(cls, parameters: Parameters, n_groups: int | None = None) -> Density:
        """Density of a mixture in the units of the rows."""
        center, scale, p = standardized(parameters)
        table = coefficients(p)
        density = cls(table, p, center, 1.0 / scale, np.arange(center.size), n_groups)
        table[:, -1] -= density.log_units.sum()  # density of y, not of z
        table[p.weights == 0, -1] = -np.inf  # never the most probable
        return density

    @property
    def blocks(self) -> Blocks:
        """Blocks of the features."""
        blocks: Blocks = self.parameters.blocks
        return blocks

    @property
    def log_units(self) -> Float:
        """Logarithms of the units of Gaussian features, 0 for others, (d,)."""
        is_gaussian = np.isin(np.arange(self.shift.size), self.blocks.gaussian)
        return np.where(is_gaussian, -np.log(self.inverse), 0.0)

    @property
    def _is_compiled(self) -> bool:
        """Whether compiled code makes all statistics: products of features."""
        return code is not None and not self.blocks.n_own and bool(self.columns.size)

    @property
    def _units(self) -> Float:
        """Shift and inverse side by side, for compiled code."""
        return np.stack([self.shift, self.inverse])

    def em_sums(self, rows: Any, counts: Float | None = None) -> tuple[Float, float, float]:
        """EM statistics (r, n_statistics), sum of the log-densities of z, and number of rows.

        The rows stay where they lie; only the sums come to the host. Each row counts as often as
        `counts` (n_rows,) says, once by default.
        """
        xp = namespace(rows)
        statistics, totals, start = np.zeros_like(self.coefficients), np.zeros(1), 0
        if xp is np and self._is_compiled and rows.dtype == np.float64:
            _add_compiled(
                self.coefficients, readable(rows), self.columns, self._units, self.blocks,
                counts, statistics, totals,
            )  # fmt: skip
        else:
            table = on_device_of(self.coefficients, rows, xp)
            for features in self._slabs(rows, xp):
                shape, of_slabs = (features.shape[0], features.shape[2]), None
                stop = start + shape[0] * shape[1]
                if counts is not None:
                    of_slabs = on_device_of(counts[start:stop].reshape(shape), rows, xp)
                part, logs = _sums(table, features, xp, of_slabs)
                start = stop
                statistics += to_numpy(part)
                totals += float(xp.sum(logs))
        n_rows = int(rows.shape[0]) if counts is None else float(counts.sum())
        return statistics, float(totals[0]), n_rows

    def map_rows(
        self, rows: Any, reduce: Reduction, is_missing: NDArray[np.bool_] | None = None
    ) -> Any:
        """`reduce` of the joint densities of each row, of shape (n_rows,) or (n_rows, r).

        Where there is a background, r is the number of groups, and the label of the background.
        Features of NumPy rows that are missing (n_rows, d) are left out.
        """
        xp = namespace(rows)
        has_background = self.n_groups is not None and reduce is not log_sums
        by_component = posteriors if has_background else reduce
        if is_missing is not None:
            values = self._map_observed(rows, is_missing, by_component)
        elif xp is np:
            values = self._map_host(rows, by_component)
        else:
            values = self._map_slabs(rows, by_component, xp)
        return self.of_groups(values, reduce, xp) if has_background else values

    @np.errstate(divide="ignore", over="ignore", invalid="ignore")  # infinity gives NaN
    def _map_observed(
        self, rows: Float, is_missing: NDArray[np.bool_], reduce: Reduction
    ) -> NDArray[Any]:
        """`map_rows` of rows with missing features: their statistics and constants are 0.

        Patterns of joined columns are worth many rows; otherwise the rows stay in a cache.
        """
        blocks = self.blocks
        _, constants = coefficients_and_constants(self.parameters)
        constants[:, blocks.single] -= self.log_units[blocks.single]
        constants[:, [j for block in blocks.joined for j in block]] = 0.0  # by pattern
        entries = _ENTRIES if blocks.joined else 2 * TILE_ENTRIES
        parts, step = [], max(1, entries // blocks.n_statistics)
        for start in range(0, len(rows), step):
            missing = is_missing[start : start + step].T
            values = np.where(missing.T, self.shift, rows[start : start + step])
            features = features_of(values, blocks, self.shift, self.inverse)
            for number, distribution in enumerate(blocks.laws):
                if distribution.n_statistics:
                    statistics = blocks.statistics_of(number)[2 * len(distribution.features) : -1]
                    features[statistics] *= ~missing[distribution.features[0]]
            joint = joint_densities(self.coefficients, features)
            joint -= constants @ missing
            correct_joint(
                joint, self.parameters, patterns(features, blocks, missing), self.log_units
            )
            parts.append(reduce(joint, np).T)
        return np.concatenate(parts)

    def of_groups(self, shares: Any, reduce: Reduction, xp: Any = np) -> Any:
        """Posteriors (n_rows, r) or labels of the groups, from posteriors of all components."""
        groups = shares[:, : self.n_groups]
        if reduce is posteriors:
            return groups
        rest = 1.0 - xp.sum(groups, axis=1)  # all components of the background together
        return most_probable(xp.concat([groups, rest[:, None]], axis=1).T, xp)

    def _map_host(self, rows: NDArray[Any], reduce: Reduction) -> NDArray[Any]:
        """`map_rows` on threads; nothing as long as the rows is made but the result.

        Cells that are NaN are left out.
        """
        n_rows = rows.shape[0]
        no_rows = reduce(np.empty((self.coefficients.shape[0], 0)), np)
        result = np.empty((n_rows, *no_rows.shape[:-1]), no_rows.dtype)
        kind = _KINDS.get(reduce) if self._is_compiled else None
        table, units = np.ascontiguousarray(self.coefficients), self._units
        products = compiled_products(self.blocks, self.columns.size)

        def work(start: int) -> None:
            block, block_result = rows[start : start + _BLOCK], result[start : start + _BLOCK]
            if kind is None:
                block_result[:] = self._map_slabs(block, reduce, np)
            else:
                code.map_rows(
                    kind, table, len(table), readable(np.asarray(block, dtype=np.float64)),
                    self.columns, units, products, block_result,
                )  # fmt: skip
            none = block_result < 0 if reduce is most_probable else np.isnan(block_result)
            left = np.flatnonzero(none.reshape(len(block), -1).any(axis=1))
            if left.size:  # rows without a density, those with NaN among them
                values = np.asarray(block[left], dtype=np.float64)[:, self.columns]
                block_result[left] = self._map_observed(values, np.isnan(values), reduce)

        n_threads = min(usable_cores(), -(-n_rows // _BLOCK))
        with few_threads(n_threads > 1):
            for _ in map_in_order(work, range(0, n_rows, _BLOCK), max(1, n_threads)):
                pass
        return result

    def _map_slabs(self, rows: Any, reduce: Reduction, xp: Any) -> Any:
        """`map_rows` where the rows lie, without compiled code."""
        table = on_device_of(self.coefficients, rows, xp)
        parts = []
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # NaN gives NaN
            for features in self._slabs(rows, xp):
                values = reduce(joint_densities(table, features, xp), xp)
                values = values.mT if values.ndim == 3 else values  # (slabs, r, n)
                parts.append(xp.reshape(values, (-1, *values.shape[2:])))
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)

    def _slabs(self, rows: Any, xp: Any) -> Iterator[Any]:
        """T(z) in slabs, (n_slabs, n_statistics, n), as the memory allows; on a host, its cache."""
        (r, size), n_rows = self.coefficients.shape, int(rows.shape[0])
        shift, inverse, columns = (
            on_device_of(x, rows, xp) for x in (self.shift, self.inverse, self.columns)
        )
        step = max(1, free_bytes(rows) // (8 * _COPIES * (r + size)))
        step = _tile_width(r) if xp is np else step // _SLAB * _SLAB or step
        for start in range(0, max(n_rows, 1), step):
            block = take(as_float64(rows[start : min(start + step, n_rows), :]), columns, axis=1)
            values, whole = (block - shift) * inverse, len(block) // _SLAB * _SLAB
            if whole:
                slabs = xp.reshape(values[:whole], (-1, _SLAB, columns.shape[0]))
                yield statistics(slabs.mT, self.blocks, xp)
            if whole < len(block) or not n_rows:  # no rows have statistics too: none
                yield statistics(values[whole:].mT[None], self.blocks, xp)
