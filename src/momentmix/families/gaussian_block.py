"""Gaussian columns, which may be correlated within components, as a value.

| symbol | name here | shape |
|---|---|---|
| μ_i of the block's columns | ``means`` | (r, k) |
| Σ_i of the block's columns | ``covariances`` | (r, k, k) |
| Σ_UK Σ_KK⁻¹, for known columns K and the others U | ``slopes`` | (r, u, k) |
| Σ_UU − Σ_UK Σ_KK⁻¹ Σ_KU | ``rest`` | (r, u, u) |
| y_K, and NaN for the unknown columns U | ``values`` | (n, k) |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.block import (
    NEVER_SEEN,
    Block,
    checked_seen,
    unknown_columns,
)
from momentmix.families.column import Column, by_column, short_mean, transformed
from momentmix.tables.names import check_feature_names
from momentmix.wording import short_repr


@short_repr
@dataclass(frozen=True, eq=False)
class GaussianBlock(Block):
    """Columns that may be correlated within components; all others are independent of them there.

    Attributes
    ----------
    columns : tuple of int
    names : tuple of str or None
    means : array of shape (n_components, k)
    covariances : array of shape (n_components, k, k)
    seen : array of shape (n_components,) or, of several columns, (n_components, k); or None
        Probability that the cell is seen; None where no cell is missing. Of several columns, those
        without missing cells have 1 in all components. A component that never sees a column has
        NaN for its mean, its variance and its covariances.
    transforms : tuple of str
        "", "log" or "log1p" for each column: means and covariances are of the transformed
        values. Empty where no column has a transform.
    family : str
        "gaussian".
    """

    columns: tuple[int, ...]
    names: tuple[str, ...] | None
    means: Float
    covariances: Float
    seen: Float | None = None
    transforms: tuple[str, ...] = ()
    family: ClassVar[str] = "gaussian"

    @classmethod
    def of(
        cls,
        means: ArrayLike,
        covariances: ArrayLike,
        names: str | Sequence[str] | None = None,
        seen: ArrayLike | None = None,
        transforms: str | Sequence[str] = (),
    ) -> GaussianBlock:
        """A block to make a mixture of (`Mixture.from_blocks`).

        Parameters
        ----------
        means : array of shape (n_components,) or (n_components, k)
        covariances : array of shape (n_components,) or (n_components, k, k)
            Of one column its variances.
        names : str or sequence of str, optional
        seen : array of shape (n_components,) or (n_components, k), optional
            Probability that a cell of the column is seen.
        transforms : str or sequence of str, optional
            "log", "log1p" or "" for each column. Means and covariances are then of log(y) or
            log(1 + y), and rows, densities and draws of y.

        Examples
        --------
        >>> GaussianBlock.of([1.0, 2.0], [1.0, 4.0], "age").covariances.tolist()
        [[[1.0]], [[4.0]]]
        """
        has_missing = seen is not None
        mean = real_array("means", means, allow_nan=has_missing)
        matrix = real_array("covariances", covariances, allow_nan=has_missing)
        mean = mean[:, None] if mean.ndim == 1 else mean
        matrix = matrix[:, None, None] if matrix.ndim == 1 else matrix
        if mean.ndim != 2 or matrix.shape != (*mean.shape, mean.shape[1]):
            raise InputError(
                "means and covariances of a block must have shapes (r, k) and (r, k, k), or (r,) "
                f"and (r,) for one column; got {mean.shape} and {matrix.shape}."
            )
        own = (names,) if isinstance(names, str) else names
        if own is not None:
            own = check_feature_names(own, mean.shape[1])
        probabilities = None if seen is None else real_array("seen", seen)
        chosen = (transforms,) if isinstance(transforms, str) else tuple(transforms)
        if chosen and len(chosen) != mean.shape[1]:
            raise InputError(
                f"transforms of a block of {mean.shape[1]} columns must be as many; got "
                f"{list(chosen)!a}."
            )
        for transform in filter(None, chosen):
            Column(None, transform=transform)  # which raises for other ones
        return cls((), own, mean, matrix, probabilities, chosen if any(chosen) else ())

    @property
    def known(self) -> GaussianBlock:
        if self.seen is None or not np.isnan(self.means).any():
            return self
        table = self.seen.reshape(self.means.shape)
        means, covariances = self.means.copy(), self.covariances.copy()
        covariances[np.isnan(covariances)] = 0.0
        for j in np.flatnonzero(np.isnan(means).any(axis=0)):
            unknown = np.isnan(means[:, j])
            shares = table[~unknown, j] / table[~unknown, j].sum()
            own, spread = means[~unknown, j], covariances[~unknown, j, j]
            means[unknown, j] = mean = shares @ own
            covariances[unknown, j, j] = shares @ (spread + (own - mean) ** 2)
        return replace(self, means=means, covariances=covariances)

    @property
    def has_missing(self) -> NDArray[np.bool_]:
        k = self.means.shape[1]
        if self.seen is None or k == 1:
            return np.full(k, self.seen is not None)
        return np.asarray((self.seen < 1).any(axis=0))

    def part(self, places: Sequence[int]) -> GaussianBlock:
        own, names, seen = list(places), self.names, self.seen
        transforms = [self.transforms[j] for j in own] if self.transforms else []
        if seen is not None and len(self.columns) > 1:
            kept = self.has_missing[own]
            seen = None if not kept.any() else seen[:, own[0]] if len(own) == 1 else seen[:, own]
        return replace(
            self,
            columns=tuple(self.columns[j] for j in own),
            names=None if names is None else tuple(names[j] for j in own),
            means=self.means[:, own],
            covariances=self.covariances[:, own][:, :, own],
            seen=seen,
            transforms=tuple(transforms) if any(transforms) else (),
        )

    @property
    def correlations(self) -> Float:
        """Correlations within components, of shape (n_components, k, k); 0 for variance 0."""
        deviations = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        unit = np.where(deviations > 0, deviations, np.inf)
        found = self.covariances / unit[:, :, None] / unit[:, None, :]
        own = np.arange(len(self.columns))
        found[:, own, own] = 1.0
        return np.clip(found, -1.0, 1.0)

    @property
    def schema_columns(self) -> list[Column]:
        found = []
        for place, has_missing in enumerate(self.has_missing):
            name = None if self.names is None else self.names[place]
            column = Column(name, transform=self.transforms[place] if self.transforms else "")
            if has_missing:
                center = short_mean(self.known.means[:, place])
                column = replace(column, has_missing=True, center=center)
            found.append(column)
        return found

    def checked(self) -> GaussianBlock:
        block = GaussianBlock.of(
            self.means, self.covariances, self.names, self.seen, self.transforms
        ).at(self.columns, self.names)
        (r, k), seen = block.means.shape, block.seen
        if seen is None:
            return block
        if k > 1 and seen.shape != (r, k):
            raise InputError(
                f"seen of a block of {k} columns must have shape ({r}, {k}), a probability for "
                f"each component and column; got {seen.shape}."
            )
        for column in [seen] if k == 1 else seen.T:
            checked_seen(column, r)
        table = seen.reshape(r, k)
        means, covariances = unknown_columns(block.means, block.covariances, table)
        unknown = np.isnan(means)
        either = unknown[:, :, None] | unknown[:, None, :]
        if (unknown & (table >= NEVER_SEEN)).any() or (np.isnan(covariances) != either).any():
            raise InputError(
                "means and covariances may be NaN only in the columns that a component never sees "
                "(seen 0)."
            )
        if k == 1 and (covariances < 0).any():
            raise InputError(f"variances must be non-negative; got {np.nanmin(covariances):.4g}.")
        kept = None if k > 1 and (seen == 1).all() else seen
        return replace(block, means=means, covariances=covariances, seen=kept)

    # -- some columns given others ----------------------------------------------------------------

    def _regression(self, unknown: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Σ_UK Σ_KK⁻¹, (r, u, k), and Σ_UU − Σ_UK Σ_KK⁻¹ Σ_KU, (r, u, u)."""
        order, k = np.argsort(unknown, kind="stable"), int((~unknown).sum())  # known columns first
        deviations = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))[:, order]
        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                ordered = self.covariances[:, order][:, :, order]
                scaled = ordered / deviations[:, :, None] / deviations[:, None, :]
            root = np.linalg.cholesky(scaled)
        except np.linalg.LinAlgError:
            columns = self.columns if self.names is None else tuple(map(ascii, self.names))
            listed = ", ".join(map(str, columns[:8])) + (", …" if len(columns) > 8 else "")
            raise InputError(
                f"covariances of the joined columns {listed} are singular in a component, so it "
                "has no density there; add a small part of each column's variance to the diagonal."
            ) from None
        # Σ = L Lᵀ: slopes are L_UK L_KK⁻¹, and what is left, L_UU L_UUᵀ, is never negative.
        slopes = root[:, k:, :k] @ np.linalg.inv(root[:, :k, :k])
        slopes *= deviations[:, k:, None] / deviations[:, None, :k]
        half = root[:, k:, k:] * deviations[:, k:, None]
        rest = half @ half.swapaxes(1, 2)
        return np.asarray(slopes), 0.5 * (rest + rest.swapaxes(1, 2))

    def given(self, known: dict[int, Any]) -> GaussianBlock:
        row = [float(known[j]) if j in known else np.nan for j in self.columns]
        cells = by_column(np.array([row]), self.transforms, transformed)[0]
        unknown, block = np.isnan(cells), self.known
        if unknown.all() or not unknown.any():
            return self
        slopes, rest = block._regression(unknown)
        offsets = cells[~unknown] - block.means[:, ~unknown]  # (r, k)
        means = block.means[:, unknown] + np.einsum("ruk,rk->ru", slopes, offsets)
        part = block.part(np.flatnonzero(unknown).tolist())
        return replace(part, means=means, covariances=rest)


def semidefinite_roots(matrices: Float) -> Float:
    """Symmetric roots of positive semidefinite matrices (…, k, k)."""
    values, vectors = np.linalg.eigh(matrices)
    half = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(half @ vectors.swapaxes(-1, -2))


def rows_by_pattern(
    left_out: NDArray[np.bool_], chosen: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.bool_], Int]]:
    """Patterns of missing cells (n_columns,), and which of the chosen rows have each."""
    rows = np.flatnonzero(chosen)
    if not left_out.shape[1] or not rows.size:
        if rows.size:
            yield np.zeros(0, dtype=bool), rows
        return
    patterns, group = np.unique(left_out[rows], axis=0, return_inverse=True)
    group = group.ravel()
    ends = np.cumsum(np.bincount(group))[:-1]
    members = np.split(rows[np.argsort(group, kind="stable")], ends)
    yield from zip(patterns, members, strict=True)
