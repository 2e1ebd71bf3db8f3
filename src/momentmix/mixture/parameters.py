"""Parameters of one mixture, or of a batch of mixtures with as many components each.

Changes of covariances relative to themselves keep them positive definite:

| symbol | name here | shape |
|---|---|---|
| A_i, Σ_i = A_i A_iᵀ, lower triangular within blocks | ``root`` | (r, k, k) each |
| A_i exp(E_i) A_iᵀ; E is a change of log v in a block of one | `moved_spread` | (r, d + n_pairs) |
| dΣ_i = A_i E_i A_iᵀ | `relative_changes`, `spread_changes` | |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.distribution import Distribution
from momentmix.families.family import LEAST_PROBABILITY
from momentmix.families.gaussian import check_symmetric
from momentmix.mixture.blocks import Blocks, full_matrices, spread_of
from momentmix.tables.names import column_label
from momentmix.wording import short_repr

# Of eigenvalues of E: covariances that change by more than e⁴ say nothing, and with factors of e⁸
# between two directions ill-conditioned ones still have roots.
_LARGEST = 4.0
# Numbers that were rounded to nine digits are still taken for what they were before.
_ROUNDED = 1e-9

Names = Sequence[str] | None


@short_repr
@dataclass(frozen=True)
class Parameters:
    """Weights (r,), means (r, d) and variances (r, d); a batch has a leading axis more in each.

    Features of one block have covariances too, of shape (r, n_pairs) in the order of
    `Blocks.pairs`; by default every feature is a block of its own.
    """

    weights: Float
    means: Float
    variances: Float
    covariances: Any = None
    blocks: Any = None

    def __post_init__(self) -> None:
        if self.blocks is None:
            object.__setattr__(self, "blocks", Blocks(self.means.shape[-1]))
        if self.covariances is None:
            none = np.zeros(
                (*self.variances.shape[:-1], self.blocks.n_pairs), dtype=self.variances.dtype
            )
            object.__setattr__(self, "covariances", none)

    @property
    def n_components(self) -> int:
        """Number of components r."""
        return int(self.weights.shape[-1])

    @property
    def n_free(self) -> int:
        """Number of free parameters of one mixture: the weights sum to 1."""
        return int(self.n_components * self.blocks.n_parameters - 1)

    @property
    def n_places(self) -> int:
        """Length of `flat`: variances that follow from the means have places too."""
        return int(self.n_components * self.blocks.n_places)

    @property
    def spread(self) -> Float:
        """Variances and covariances side by side, of shape (…, r, d + n_pairs)."""
        if not self.blocks.n_pairs:
            return self.variances
        return np.concatenate([self.variances, self.covariances], axis=-1)

    @property
    def matrices(self) -> Float:
        """Covariance matrices of all features, of shape (…, r, d, d)."""
        return full_matrices(self.spread, self.blocks)

    def of_law(self, distribution: Distribution) -> tuple[Float, Float]:
        """Means and variances of the features of a distribution, of shape (r, k) each."""
        features = list(distribution.features)
        return self.means[:, features], self.variances[:, features]

    def with_spread(self, spread: Float) -> Parameters:
        """The same with other variances and covariances."""
        d = self.blocks.n_features
        return replace(self, variances=spread[..., :d], covariances=spread[..., d:])

    @property
    def _arrays(self) -> tuple[Float, Float, Float, Float]:
        return self.weights, self.means, self.variances, self.covariances

    def __getitem__(self, index: Any) -> Parameters:
        """One or some mixtures of a batch, or some components of one mixture."""
        w, m, v, c = (part[index] for part in self._arrays)
        return Parameters(w, m, v, c, self.blocks)

    def __setitem__(self, index: Any, new: Parameters) -> None:
        """Replace some mixtures of a batch, or components of one mixture, in place."""
        for array, values in zip(self._arrays, new._arrays, strict=True):
            array[index] = values

    def copy(self) -> Parameters:
        """The same in arrays of its own."""
        w, m, v, c = (part.copy() for part in self._arrays)
        return Parameters(w, m, v, c, self.blocks)

    @classmethod
    def stack(cls, mixtures: Sequence[Parameters]) -> Parameters:
        """A batch of mixtures."""
        w, m, v, c = map(np.stack, zip(*(p._arrays for p in mixtures), strict=True))
        return cls(w, m, v, c, mixtures[0].blocks)

    @classmethod
    def concatenate(cls, parts: Sequence[Parameters]) -> Parameters:
        """Components of several mixtures, or mixtures of several batches, one after the other."""
        w, m, v, c = map(np.concatenate, zip(*(p._arrays for p in parts), strict=True))
        return cls(w, m, v, c, parts[0].blocks)

    def flat(self) -> Float:
        """All parameters of one mixture in one vector of length r (1 + 2d + n_pairs)."""
        return np.concatenate([part.ravel() for part in self._arrays])

    def embedded(
        self, columns: Int, n_features: int, variance: float, laws: tuple[Distribution, ...] = ()
    ) -> Parameters:
        """The same features as `columns` among others, which have mean 0 and `variance`.

        `laws` are the distributions of all features, which may be more than vary.
        """
        if columns.size == n_features:
            return self
        means = np.zeros((self.n_components, n_features))
        variances = np.full_like(means, variance)
        means[:, columns], variances[:, columns] = self.means, self.variances
        blocks = Blocks.of(
            n_features, [columns[list(b)].tolist() for b in self.blocks.joined], laws
        )
        return Parameters(self.weights, means, variances, self.covariances, blocks).completed()

    def restricted(self, features: Int) -> Parameters:
        """The same of some of the features, each at most once, in the order given."""
        blocks = self.blocks.restricted(features)
        q = Parameters(
            self.weights, self.means[..., features], self.variances[..., features], None, blocks
        )
        if not blocks.joined:
            return q
        spread, kept = self.spread, q.spread
        for block, places in blocks.places:
            kept[..., places] = spread[..., self.blocks.table(features[block])]
        return q.with_spread(kept)

    def standardized(self, shift: Float, scale: Float) -> Parameters:
        """Parameters of (y − shift) / scale; no square overflows."""
        j, k = self.blocks.pairs.T
        part, unit = np.frexp(scale)
        return replace(
            self,
            means=(self.means - shift) / scale,
            variances=np.ldexp(self.variances, -2 * unit) / part**2,
            covariances=np.ldexp(self.covariances, -(unit[j] + unit[k])) / (part[j] * part[k]),
            blocks=self.blocks.rescaled(shift, scale),
        )

    def restored(self, shift: Float, scale: Float) -> Parameters:
        """Parameters of z·scale + shift: the inverse of `standardized`."""
        return self.standardized(-shift / scale, 1.0 / scale)

    def completed(self) -> Parameters:
        """The same with means that the distributions allow, and variances that follow from them."""
        if not self.blocks.laws:
            return self
        means, variances = self.means.copy(), self.variances.copy()
        for distribution, features, _ in self.blocks.stacks:
            pair = distribution.completed(means[..., features], variances[..., features])
            means[..., features], variances[..., features] = pair
        return replace(self, means=means, variances=variances)

    def never_seen(self, n_rows: float) -> list[NDArray[np.bool_]]:
        """For each distribution, which components see its cell in less than one of the rows."""
        found = []
        for part in self.blocks.laws:
            counts = n_rows * self.weights * part.value_of(*self.of_law(part)).observed
            found.append((counts < 1.0) & (part.has_missing and not part.at_random))
        return found

    def without_seen(self, n_rows: float) -> Parameters:
        """The same where such components never see the cell: only the prior has seen it."""
        means, variances = self.means.copy(), self.variances.copy()
        for part, which in zip(self.blocks.laws, self.never_seen(n_rows), strict=True):
            if which.any():
                features, value = list(part.features), part.value_of(*self.of_law(part))
                q = np.where(which, LEAST_PROBABILITY, value.observed)
                pair = part.features_of(value._replace(observed=q))
                means[:, features], variances[:, features] = pair
        return replace(self, means=means, variances=variances)

    def normalized(self) -> Parameters:
        """The same with weights of sum 1."""
        return replace(self, weights=self.weights / self.weights.sum(axis=-1, keepdims=True))


def parameters_from(
    flat: NDArray[Any], n_components: int, blocks: Blocks | None = None
) -> Parameters:
    """Inverse of `Parameters.flat`; from numbers 0, 1, … the places of the parameters in it."""
    r = n_components
    d = (flat.size // r - 1) // 2 if blocks is None else blocks.n_features
    edges = np.cumsum([r, r * d, r * d])
    weights, means, variances, covariances = np.split(flat, edges)
    return Parameters(
        weights, means.reshape(r, d), variances.reshape(r, d), covariances.reshape(r, -1), blocks
    )


def component_places(parameters: Parameters) -> Int:
    """Place of each component's weight, means, variances and covariances among all parameters."""
    numbers = np.arange(parameters.n_places)
    places = parameters_from(numbers, parameters.n_components, parameters.blocks)
    parts = [places.weights[:, None], places.means, places.variances, places.covariances]
    return np.hstack(parts)


def dependent_places(parameters: Parameters) -> Int:
    """Places of what is not free among all parameters, as `Blocks.not_free`."""
    return component_places(parameters)[:, parameters.blocks.not_free].ravel()


def moved_spread(parameters: Parameters, change: Float) -> Parameters:
    """The mixture with Σ = A exp(E) Aᵀ for changes E of shape (…, r, d + n_pairs)."""
    p, d = parameters, parameters.blocks.n_features
    spread = np.empty(change.shape)
    spread[..., :d] = p.variances * np.exp(change[..., :d])
    for _, places in p.blocks.places:
        root = np.linalg.cholesky(p.spread[..., places])
        values, vectors = np.linalg.eigh(change[..., places])
        values = np.clip(values, -_LARGEST, _LARGEST)
        half = root @ (vectors * np.exp(0.5 * values)[..., None, :])
        spread[..., places] = half @ half.swapaxes(-1, -2)
    return p.with_spread(spread)


def relative_changes(parameters: Parameters, change: Float) -> Float:
    """E = A⁻¹ dΣ A⁻ᵀ for changes of variances and covariances (…, r, d + n_pairs)."""
    p, d = parameters, parameters.blocks.n_features
    relative = change.copy()
    relative[..., :d] = change[..., :d] / p.variances
    for _, places in p.blocks.places:
        inverse = np.linalg.inv(np.linalg.cholesky(p.spread[..., places]))
        relative[..., places] = inverse @ change[..., places] @ inverse.swapaxes(-1, -2)
    return relative


def spread_changes(parameters: Parameters) -> list[tuple[Int, Float]]:
    """For each joined block its places (k, k) in a spread, and dΣ by E of each component.

    The derivatives have shape (r, m, m), m = k (k + 1) / 2, over the upper triangles of both.
    """
    found = []
    for features, places in parameters.blocks.places:
        root = np.linalg.cholesky(parameters.spread[..., places])
        j, k = np.triu_indices(features.size)
        # E_ab stands in two places of the matrix: A_ja A_kb + A_jb A_ka, halved for a = b.
        table = root[:, j[:, None], j] * root[:, k[:, None], k]
        table += root[:, j[:, None], k] * root[:, k[:, None], j]
        table[:, :, j == k] *= 0.5
        found.append((places, table))
    return found


# -- checks of the numbers of a mixture -----------------------------------------------------------


def checked_parameters(
    weights: Any,
    means: Any,
    variances: Any,
    covariances: Any = None,
    blocks: Blocks | None = None,
    names: Names = None,
) -> Parameters:
    """Parameters as arrays that cannot be written to; raise where they are those of no mixture."""
    weights, means = real_array("weights", weights, 1), real_array("means", means, 2)
    variances = real_array("variances", variances, 2)
    if covariances is not None:
        covariances = real_array("covariances", covariances, 2)
    r = weights.shape[0]
    if r < 1 or means.shape[0] != r or means.shape != variances.shape:
        raise InputError(
            "weights, means and variances must have shapes (r,), (r, d), (r, d) with r ≥ 1; "
            f"got {weights.shape}, {means.shape}, {variances.shape}."
        )
    with np.errstate(over="ignore"):
        total = weights.sum()
    if (weights < 0).any() or abs(total - 1) > 1e-9:
        raise InputError(
            f"weights must be non-negative with sum 1; the least is {weights.min():.4g}, "
            f"the sum {total:.12g}."
        )
    if (variances < 0).any():
        raise InputError(f"variances must be non-negative; got {variances.min():.4g}.")
    checked = Parameters(weights, means, variances, covariances, blocks)
    _check_semidefinite(checked, names)
    return checked


def parameters_of_matrices(weights: Any, means: Any, covariances: Any, names: Names) -> Parameters:
    """Parameters from covariance matrices (r, d, d), checked; zeros between blocks show these."""
    matrices, means = real_array("covariances", covariances), real_array("means", means, 2)
    r, d = means.shape
    if matrices.shape != (r, d, d):
        raise InputError(
            f"covariances must have shape ({r}, {d}, {d}), a matrix for each of the means; got "
            f"{matrices.shape}. Mixture.diagonal takes variances of shape ({r}, {d})."
        )
    check_symmetric(matrices)
    blocks = _shown_by_zeros(matrices)
    spread = spread_of(matrices, blocks)
    return checked_parameters(weights, means, spread[:, :d], spread[:, d:], blocks, names)


def _shown_by_zeros(matrices: Float) -> Blocks:
    """Columns that covariances other than 0 connect, directly or by others, as blocks."""
    from scipy.sparse.csgraph import connected_components  # it takes long to import

    n, labels = connected_components((matrices != 0).any(axis=0))
    return Blocks.of(matrices.shape[1], [np.flatnonzero(labels == j).tolist() for j in range(n)])


def _check_semidefinite(p: Parameters, names: Names) -> None:
    """Raise where the correlations of a block have a negative eigenvalue."""
    for features, places in p.blocks.places:
        matrices = p.spread[..., places]
        unit = np.sqrt(p.variances[:, features])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            correlations = matrices / unit[:, :, None] / unit[:, None, :]
        # With variance 0 all must be 0; a correlation of 2 takes the place of larger ones.
        correlations = np.where(matrices == 0, 0.0, np.clip(correlations, -2.0, 2.0))
        least = np.linalg.eigvalsh(np.nan_to_num(correlations, nan=2.0))[:, 0]
        if (least < -_ROUNDED).any():
            i = int(least.argmin())
            listed = ", ".join(column_label(int(j), names) for j in features[:8])
            raise InputError(
                f"covariances must be positive semidefinite; those of component {i} in {listed}"
                f"{', …' if features.size > 8 else ''} are not: their correlations have the "
                f"eigenvalue {least[i]:.4g}. Check the numbers, or set negative eigenvalues to 0."
            )
