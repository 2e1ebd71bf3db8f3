"""A block of a mixture as a value, and what its family knows: here Gaussian columns.

| symbol | name here | shape |
|---|---|---|
| μ_i of the block's columns | ``means`` | (r, k) |
| Σ_i of the block's columns | ``covariances`` | (r, k, k) |
| Σ_UK Σ_KK⁻¹, for known columns K and the others U | ``Regression.slopes`` | (r, u, k) |
| Σ_UU − Σ_UK Σ_KK⁻¹ Σ_KU | ``Regression.rest`` | (r, u, u) |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.findings.messages import WITH_FLOOR, Message
from momentmix.mixture.blocks import matrices_of
from momentmix.mixture.checks import real_array
from momentmix.mixture.parameters import Parameters
from momentmix.tables.column import Column
from momentmix.tables.names import check_feature_names
from momentmix.wording import short_repr


class Regression(NamedTuple):
    """Columns of a block given others of it: μ_U + slopes · (y_K − μ_K), and covariances `rest`.

    `others` and `known` are numbers of columns of the mixture.
    """

    others: Int
    known: Int
    slopes: Float
    rest: Float


@short_repr
@dataclass(frozen=True, eq=False)
class GaussianBlock:
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
        "", "log" or "log1p" for each column: means and covariances are those of the transformed
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
            "log", "log1p" or "" for each column. Means and covariances are then those of log(y) or
            log(1 + y), and rows, densities and draws those of y.

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
    def n_components(self) -> int:
        """Number of components."""
        return len(self.means)

    @property
    def known(self) -> GaussianBlock:
        """The block without NaN: what the other components know, where one never sees a cell."""
        table = self.seen_table
        if table is None or not np.isnan(self.means).any():
            return self
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
    def seen_table(self) -> Float | None:
        """`seen` by columns, of shape (n_components, k); None where no cell is missing."""
        return None if self.seen is None else self.seen.reshape(self.means.shape)

    @property
    def has_missing(self) -> NDArray[np.bool_]:
        """Which columns have missing cells, of shape (k,)."""
        k = self.means.shape[1]
        if self.seen is None or k == 1:
            return np.full(k, self.seen is not None)
        return np.asarray((self.seen < 1).any(axis=0))

    def chosen(self, components: Any) -> GaussianBlock:
        """The block of some of the components, in the order given."""
        return replace(
            self,
            means=self.means[components],
            covariances=self.covariances[components],
            seen=None if self.seen is None else self.seen[components],
        )

    def at(self, columns: tuple[int, ...], names: tuple[str, ...] | None) -> GaussianBlock:
        """The same block with other numbers and names of its columns."""
        return replace(self, columns=columns, names=names)

    def part(self, places: Sequence[int]) -> GaussianBlock:
        """The block of some of the columns, by their places in it, in the order given."""
        own, names, seen = list(places), self.names, self.seen
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
            transforms=self._kept_transforms(own),
        )

    def _kept_transforms(self, places: Sequence[int]) -> tuple[str, ...]:
        kept = tuple(self.transforms[j] for j in places) if self.transforms else ()
        return kept if any(kept) else ()

    @property
    def correlations(self) -> Float:
        """Correlations within components, of shape (n_components, k, k); 0 for variance 0."""
        deviations = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        unit = np.where(deviations > 0, deviations, np.inf)
        found = self.covariances / unit[:, :, None] / unit[:, None, :]
        own = np.arange(len(self.columns))
        found[:, own, own] = 1.0
        return np.clip(found, -1.0, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the model file."""
        return {
            "columns": list(self.columns),
            "family": self.family,
            "covariances": self.covariances.tolist(),
        }

    def regression(self, known: Int) -> Regression | None:
        """The columns that are not known given those that are; None where there are not both."""
        columns = np.array(self.columns, dtype=np.int64)
        is_known = np.isin(columns, known)
        k = int(is_known.sum())
        if k in (0, columns.size):
            return None
        order = np.argsort(~is_known, kind="stable")  # known columns first
        deviations = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))[:, order]
        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                ordered = self.covariances[:, order][:, :, order]
                scaled = ordered / deviations[:, :, None] / deviations[:, None, :]
            root = np.linalg.cholesky(scaled)
        except np.linalg.LinAlgError:
            raise InputError(singular_message(self)) from None
        # Σ = L Lᵀ: slopes are L_UK L_KK⁻¹, and what is left, L_UU L_UUᵀ, is never negative.
        slopes = root[:, k:, :k] @ np.linalg.inv(root[:, :k, :k])
        slopes *= deviations[:, k:, None] / deviations[:, None, :k]
        half = root[:, k:, k:] * deviations[:, k:, None]
        rest = half @ half.swapaxes(1, 2)
        rest = 0.5 * (rest + rest.swapaxes(1, 2))
        return Regression(columns[order[k:]], columns[order[:k]], np.asarray(slopes), rest)


def gaussian_blocks(p: Parameters, names: Sequence[str] | None) -> tuple[GaussianBlock, ...]:
    """The blocks of Gaussian features, ordered by their first ones."""
    found = []
    for columns in p.blocks.partition:
        places = p.blocks.table(np.array(columns))
        means, covariances = p.means[:, columns], matrices_of(p.spread, places)
        own = None if names is None else tuple(names[j] for j in columns)
        found.append(GaussianBlock(columns, own, means, covariances))
    return tuple(found)


def singular_message(block: GaussianBlock) -> Message:
    """That covariances of a block have no inverse, and the cure."""
    columns = block.columns if block.names is None else tuple(map(ascii, block.names))
    listed = ", ".join(map(str, columns[:8])) + (", …" if len(columns) > 8 else "")
    text = f"covariances of the joined columns {listed} are singular in a component, so it has no "
    return Message(text, "density there; ", WITH_FLOOR)
