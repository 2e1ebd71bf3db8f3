"""Numbers that are Gaussian within components, themselves or their logarithms, alone or joined.

| symbol | name here | shape |
|---|---|---|
| μ_i of the block's columns | ``means`` | (r, k) |
| Σ_i of the block's columns | ``covariances`` | (r, k, k) |
| Σ_UK Σ_KK⁻¹, for known columns K and the others U | ``slopes`` of `regression` | (r, u, k) |
| Σ_UU − Σ_UK Σ_KK⁻¹ Σ_KU | ``rest`` of `regression` | (r, u, u) |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.block import Block, checked_seen
from momentmix.families.column import Column, by_column, short_mean, transformed
from momentmix.families.family import (
    Family,
    Overall,
    Prior,
    Quantities,
    Quantity,
    clipped,
)
from momentmix.wording import short_repr

# Numbers that were rounded to nine digits are still taken for what they were before.
_ROUNDED = 1e-9


@short_repr
@dataclass(frozen=True, eq=False)
class GaussianBlock(Block):
    """Columns that may be correlated within components; all others are independent of them there.

    Parameters
    ----------
    means : array of shape (n_components,) or (n_components, k)
        Kept with shape (n_components, k).
    covariances : array of shape (n_components,) or (n_components, k, k)
        Of one column its variances. Kept with shape (n_components, k, k).
    names : str or sequence of str, optional
    seen : array of shape (n_components,) or, of several columns, (n_components, k), optional
        Probability that the cell is seen; of several columns 1 where no cell is missing.
    transforms : str or sequence of str, optional
        "log", "log1p" or "" for each column: means and covariances are of log(y) or log(1 + y).
    columns : tuple of int, optional
        Numbers of the columns in a mixture.

    Examples
    --------
    >>> GaussianBlock([1.0, 2.0], [1.0, 4.0], "age").covariances.tolist()
    [[[1.0]], [[4.0]]]
    """

    means: Float
    covariances: Float
    names: tuple[str, ...] | None = None
    seen: Float | None = None
    transforms: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()
    family: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        means = real_array("means", self.means)
        covariances = real_array("covariances", self.covariances)
        means = means[:, None] if means.ndim == 1 else means
        covariances = covariances[:, None, None] if covariances.ndim == 1 else covariances
        if means.ndim != 2 or covariances.shape != (*means.shape, means.shape[1]):
            raise InputError(
                "means and covariances of a block must have shapes (r, k) and (r, k, k), or (r,) "
                f"and (r,) for one column; got {means.shape} and {covariances.shape}."
            )
        r, k = means.shape
        check_symmetric(covariances)
        if k == 1 and (covariances < 0).any():
            raise InputError(f"variances must be non-negative; got {covariances.min():.4g}.")
        given: Any = self.transforms  # a single one may be given as text
        transforms = (given,) if isinstance(given, str) else tuple(given)
        if transforms and len(transforms) != k:
            raise InputError(
                f"transforms of a block of {k} columns must be as many; got {list(transforms)!a}."
            )
        for transform in filter(None, transforms):
            Column(None, transform=transform)  # which raises for other ones
        seen = None if self.seen is None else real_array("seen", self.seen)
        if seen is not None:
            if k > 1 and seen.shape != (r, k):
                raise InputError(
                    f"seen of a block of {k} columns must have shape ({r}, {k}), a probability for "
                    f"each component and column; got {seen.shape}."
                )
            for column in [seen] if k == 1 else seen.T:
                checked_seen(column, r)
            seen = None if k > 1 and (seen == 1).all() else seen
        self._keep(
            means=means,
            covariances=covariances,
            names=self._checked_names(k),
            seen=seen,
            transforms=transforms if any(transforms) else (),
            columns=tuple(int(j) for j in self.columns),
        )

    @property
    def correlations(self) -> Float:
        """Correlations within components, of shape (n_components, k, k); 0 for variance 0."""
        deviations = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        unit = np.where(deviations > 0, deviations, np.inf)
        found = self.covariances / unit[:, :, None] / unit[:, None, :]
        return np.where(np.eye(found.shape[1], dtype=bool), 1.0, np.clip(found, -1.0, 1.0))

    def part(self, places: Sequence[int]) -> GaussianBlock:
        kept, names, seen = list(places), self.names, self.seen
        if seen is not None and len(self.columns) > 1:
            has_missing = ~np.isnan(self.seen_table[:, kept]).all(axis=0)
            seen = None if not has_missing.any() else seen[:, kept[0] if len(kept) == 1 else kept]
        return replace(
            self,
            columns=tuple(self.columns[j] for j in kept),
            names=None if names is None else tuple(names[j] for j in kept),
            means=self.means[:, kept],
            covariances=self.covariances[:, kept][:, :, kept],
            seen=seen,
            transforms=tuple(self.transforms[j] for j in kept) if self.transforms else (),
        )

    @property
    def schema_columns(self) -> list[Column]:
        found = []
        for place, seen in enumerate(self.seen_table.T):
            name = None if self.names is None else self.names[place]
            column = Column(name, transform=self.transforms[place] if self.transforms else "")
            if not np.isnan(seen).all():
                column = replace(column, has_missing=True, center=short_mean(self.means[:, place]))
            found.append(column)
        return found

    def given(self, cells: Mapping[int, Any]) -> GaussianBlock:
        row = [float(cells[j]) if j in cells else np.nan for j in self.columns]
        values = by_column(np.array([row]), self.transforms, transformed)[0]
        unknown = np.isnan(values)
        if unknown.all() or not unknown.any():
            return self
        try:
            slopes, rest = regression(self.covariances, unknown)
        except np.linalg.LinAlgError:
            columns = self.columns if self.names is None else tuple(map(ascii, self.names))
            listed = ", ".join(map(str, columns[:8])) + (", …" if len(columns) > 8 else "")
            raise InputError(
                f"covariances of the joined columns {listed} are singular in a component, so it "
                "has no density there; add a small part of each column's variance to the diagonal."
            ) from None
        offsets = values[~unknown] - self.means[:, ~unknown]  # (r, k)
        part = self.part(np.flatnonzero(unknown).tolist())
        new = self.means[:, unknown] + np.einsum("ruk,rk->ru", slopes, offsets)
        return replace(part, means=new, covariances=rest)


def check_symmetric(matrices: Float) -> None:
    """Raise where matrices (r, k, k) are not symmetric."""
    other = matrices.swapaxes(1, 2)
    unequal = np.argwhere(np.abs(matrices - other) > _ROUNDED * np.abs(matrices))
    if len(unequal):
        i, j, k = unequal[0]
        raise InputError(
            f"covariances must be symmetric; component {i} has {matrices[i, j, k]:.6g} at "
            f"({j}, {k}) and {matrices[i, k, j]:.6g} at ({k}, {j}). Use (c + c.T) / 2 where the "
            "difference is of no meaning."
        )


def regression(covariances: Float, unknown: NDArray[np.bool_]) -> tuple[Float, Float]:
    """Σ_UK Σ_KK⁻¹, (…, u, k), and Σ_UU − Σ_UK Σ_KK⁻¹ Σ_KU, (…, u, u), of the unknown columns."""
    order, k = np.argsort(unknown, kind="stable"), int((~unknown).sum())  # known columns first
    deviations = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))[..., order]
    with np.errstate(divide="ignore", invalid="ignore"):
        ordered = covariances[..., order, :][..., order]
        root = np.linalg.cholesky(ordered / deviations[..., None] / deviations[..., None, :])
    # Σ = L Lᵀ: slopes are L_UK L_KK⁻¹, and what is left, L_UU L_UUᵀ, is never negative.
    slopes = root[..., k:, :k] @ np.linalg.inv(root[..., :k, :k])
    slopes *= deviations[..., k:, None] / deviations[..., None, :k]
    half = root[..., k:, k:] * deviations[..., k:, None]
    return np.asarray(slopes), np.asarray(half @ half.swapaxes(-1, -2))


def semidefinite_roots(matrices: Float) -> Float:
    """Symmetric roots of positive semidefinite matrices (…, k, k)."""
    values, vectors = np.linalg.eigh(matrices)
    half = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(half @ vectors.swapaxes(-1, -2))


def rows_by_pattern(left_out: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], Int]]:
    """Patterns of missing cells (n_columns,), and which of the rows (n, n_columns) have each."""
    if not len(left_out):
        return
    packed = np.packbits(left_out, axis=1)
    order = np.lexsort(packed.T)
    is_first = (packed[order[1:]] != packed[order[:-1]]).any(axis=1)
    for rows in np.split(order, np.flatnonzero(is_first) + 1):
        yield left_out[rows[0]], rows


# -- families -----------------------------------------------------------------------------------


# Least deviation of a component, in steps of a rounded column. Components at neighboring values,
# half a step wide each, add up to waves of 1.4 % with their tops at the values: with 10,000 rows
# BIC would take them. At 0.6 the waves are 0.2 %.
LEAST_STEPS = 0.6
_FEWEST_OBSERVED = 1e-6  # rows; with fewer a component has no parameters of the value


@lru_cache(maxsize=16)
def _gauss_nodes(n: int) -> tuple[Float, Float]:
    """Nodes and weights of means under a standard normal distribution."""
    from numpy.polynomial.hermite_e import hermegauss  # not where rows are only read

    nodes, weights = hermegauss(n)
    return nodes, weights / weights.sum()


class Gaussian(Family):
    """Numbers; the distribution of a single one that may be missing, of mean m and variance v."""

    name = "gaussian"
    noun = "numbers"
    parameters: ClassVar[Mapping[str, int]] = {"means": 2, "covariances": 3}
    entries = ("mean", "variance")
    joins = True
    free = True
    compiled = 2
    block_of = GaussianBlock

    def coefficients(self, mean: Float, variance: Float) -> Float:
        constant = -0.5 * (mean**2 / variance + np.log(2 * np.pi * variance))
        return np.concatenate([mean / variance, -0.5 / variance, constant], axis=-1)

    def m_step(
        self, n: Float, sums: Float, squares: Float, t_sums: Float, overall: Overall, prior: Prior
    ) -> tuple[Float, Float]:
        """Of deviations from the mean of all rows: no difference of close numbers."""
        n, center = np.maximum(n, _FEWEST_OBSERVED), overall.mean
        away = (sums - n * center) / n
        squares = squares - 2 * center * sums + n * (center**2 - away**2)
        spread = prior.variances(n, squares / overall.variance, overall.least)
        return center + away, spread * overall.variance

    def log_prior(self, mean: Float, variance: Float, overall: Overall, prior: Prior) -> Float:
        return prior.log_terms(clipped(variance, 1e-300) / overall.variance)[..., 0]

    def support(self, mean: Float, variance: Float, degree: int) -> tuple[Float, Float]:
        nodes, weights = _gauss_nodes(degree // 2 + 1)
        values = mean + np.sqrt(variance) * nodes
        return values[..., None], np.broadcast_to(weights, values.shape)

    def sample(self, mean: Float, variance: Float, n: int, rng: np.random.Generator) -> Float:
        return mean + np.sqrt(variance) * rng.standard_normal((n, 1))

    def positive(self, mean: Float, variance: Float) -> Float:
        return variance

    def with_positive(self, values: Float, mean: Float, variance: Float) -> tuple[Float, Float]:
        return mean, values

    def at_zero(
        self, mean: Float, variance: Float, counts: Float, overall: Overall
    ) -> NDArray[np.bool_]:
        """Nowhere: variances have a floor of their own."""
        return np.zeros(variance.shape, dtype=bool)

    # -- parameters of columns --------------------------------------------------------------------

    def block(self, column: Column, mean: Float, variance: Float, seen: Float | None) -> Block:
        variances = np.maximum(variance, 0.0)[:, :, None]
        return GaussianBlock(mean + column.center, variances, None, seen, (column.transform,))

    def quantities(self, mean: Float, variance: Float, counts: Float, zero: Any) -> Quantities:
        """Mean and variance; the variance has a floor, and no bound."""
        return Quantities(Quantity(mean[:, 0], "plain"), Quantity(variance[:, 0], "log"))

    # -- pictures and advice ----------------------------------------------------------------------

    def fit_cells(self, values: Float, histograms: Float) -> Float | None:
        """By the probability of the cell that is rounded to a number."""
        from scipy.special import ndtr  # not where rows are only read: it takes long

        counts = histograms.sum(axis=1)
        means = histograms @ values / counts
        squares = histograms @ values**2 / counts - means**2
        # The floor of a fit; a twelfth of a variance is that of rounding.
        deviations = np.sqrt(np.maximum(squares, LEAST_STEPS**2) - 1 / 12)[:, None]
        ends = (np.stack([values - 0.5, values + 0.5])[:, None] - means[:, None]) / deviations
        ends *= -np.sign(ends[:1] + ends[1:])  # both in the lower tail, which has more digits
        return np.asarray(np.log(np.maximum(np.abs(np.diff(ndtr(ends), axis=0)[0]), 1e-300)))


class Transformed(Gaussian):
    """Numbers that are Gaussian after a transform T, the `transform` of a gaussian column.

    A subclass has `name`, `transform`, `requirement`, `invalid`, and the maps `forward`, `inverse`
    and `log_slope`.
    """

    def fit_cells(self, values: Float, histograms: Float) -> Float | None:
        return None


class Log(Transformed):
    """Positive numbers whose logarithms are Gaussian."""

    name = transform = "log"
    noun = "logarithms"
    requirement = "numbers of a log column must be greater than 0"
    alternatives = "'log1p' where it holds 0, or as 'gaussian',"

    def invalid(self, numbers: Array) -> NDArray[np.bool_] | None:
        return np.asarray(numbers <= 0)

    def forward(self, values: Float) -> Float:
        return np.log(values)

    def inverse(self, values: Float) -> Float:
        return np.exp(values)

    def log_slope(self, values: Float) -> Float:
        return -values


class Log1p(Log):
    """Numbers above −1 whose log(1 + y) is Gaussian."""

    name = transform = "log1p"
    requirement = "numbers of a log1p column must be greater than -1"
    alternatives = "'gaussian'"

    def invalid(self, numbers: Array) -> NDArray[np.bool_] | None:
        return np.asarray(numbers <= -1)

    def forward(self, values: Float) -> Float:
        return np.log1p(values)

    def inverse(self, values: Float) -> Float:
        return np.expm1(values)
