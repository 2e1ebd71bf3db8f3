"""The covariances that a mixture may have: blocks and floors (`Structure`), and a prior of them.

| symbol | name here | shape |
|---|---|---|
| total covariance of a block = R Rᵀ | ``Structure.roots`` | (k, k) each |
| eigenvalues λ of R⁻¹ Σ R⁻ᵀ, v for a block of one feature | `Structure.relative` | (…, r, k) |
| log p(λ) | `VariancePrior` | |

Covariances of a block are measured by the total covariance of its features: λ = 1 is as wide as all
rows together, in every direction. With few rows they are measured by the covariance pooled within
components, once some are known: components borrow strength from each other. The prior depends on
the λ alone, so that the most probable Σ has the eigenvectors of the rows' own R⁻¹ W R⁻ᵀ, and each λ
is found by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from momentmix._typing import Float, Int
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters

FEWEST_ROWS = 1e-10  # a component with a smaller count is empty: it keeps mean 0 and variance 1
VARIANCE_FLOOR = 1e-6  # of the variance of a feature over all rows: the least of a component
_JOINED, _SINGLE = 4, 5  # kinds of blocks in compiled code, beside families
_LEAST_TOTAL = 1e-4  # eigenvalue of a total correlation: columns closer than that are copies


@dataclass(frozen=True)
class Structure:
    """Blocks of standardized features, and the floors of their covariances.

    The floor is the least variance of features that are blocks of their own; of joined features,
    the least eigenvalue of the block's covariance relative to its total covariance R Rᵀ.
    """

    floor: float | Float
    blocks: Blocks | None = None  # by default every feature is a block of its own
    roots: tuple[Float, ...] = ()  # R of each joined block, a lower triangle (k, k)
    units: float | Float = 1.0  # variances that those of single features are measured by, (d,)
    is_pooled: bool = False  # whether R and units are those within components, not of all rows

    @classmethod
    def of_covariance(
        cls, floor: float | Float, blocks: Blocks, covariance: Float, is_pooled: bool = False
    ) -> Structure:
        """The structure around a covariance (d, d): of all rows, or pooled within components."""
        roots = []
        for features, _ in blocks.places:
            values, vectors = np.linalg.eigh(covariance[np.ix_(features, features)])
            values = np.maximum(values, _LEAST_TOTAL * (values[-1] if is_pooled else 1.0))
            roots.append(np.linalg.cholesky((vectors * values) @ vectors.T))
        floors, units = np.full(blocks.n_features, floor), np.ones(blocks.n_features)
        if is_pooled:
            units[blocks.gaussian] = np.diagonal(covariance)[blocks.gaussian]
        return cls(floors, blocks, tuple(roots), np.maximum(units, floors), is_pooled)

    @property
    def is_diagonal(self) -> bool:
        """Whether all features are Gaussian, and no two joined."""
        return self.blocks is None or self.blocks.is_diagonal

    def relative(self, matrices: Float, place: int) -> Float:
        """R⁻¹ Σ R⁻ᵀ of matrices (…, k, k) of a joined block."""
        inverse = self.inverses[place]
        return np.asarray(inverse @ matrices @ inverse.T)

    @lazy_property
    def inverses(self) -> list[Float]:
        """R⁻¹ of each joined block."""
        return [
            solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False)
            for root in self.roots
        ]

    def layout(self, blocks: Blocks) -> tuple[Int, Float] | None:
        """The blocks as compiled code takes them; None where it has no maps for a distribution.

        Of each block its kind, width, missing cells, statistics and features, and its numbers (see
        native/families.h): of a joined block R, R⁻¹ and the least relative eigenvalue. The last one
        has all features that are blocks of their own.
        """
        records: list[int] = []
        numbers: list[Any] = [[]]
        for part in blocks.laws:
            if part.family.compiled is None:
                return None
            width, overall = len(part.features), part.overall
            head, nodes = part.family.nodes
            records += [part.family.compiled, width, part.has_missing, part.at_random]
            records += [part.n_statistics, head, *part.features]
            spread = overall.variance[:1] if part.n_values else np.ones(1)
            values = [*part.units, [overall.observed], spread, [part.least], overall.mean]
            numbers += [*values, np.zeros(width - part.n_values), nodes, overall.statistics]
        for place, features in enumerate(blocks.joined):
            records += [_JOINED, len(features), 0, 0, 0, 0, *features]
            matrices = self.roots[place], self.inverses[place]
            numbers += [*map(np.ravel, matrices), [self.least(place)]]
        if blocks.single.size:
            records += [_SINGLE, blocks.single.size, 0, 0, 0, 0, *blocks.single.tolist()]
        return np.array(records, dtype=np.int64), np.concatenate(numbers)

    def least(self, place: int) -> float:
        """Least relative eigenvalue of a joined block."""
        assert self.blocks is not None
        relative = np.broadcast_to(self.floor / self.units, self.blocks.n_features)
        return float(relative[list(self.blocks.joined[place])].max())

    def eigenvalues(self, p: Parameters) -> Float:
        """Relative eigenvalues of all covariances, of shape (…, r, d): a place for each feature."""
        values, spread = p.variances / self.units, p.spread
        for place, (features, places) in enumerate(p.blocks.places):
            values[..., features] = np.linalg.eigvalsh(self.relative(spread[..., places], place))
        return values

    def raised(self, p: Parameters) -> Parameters:
        """The same with variances and relative eigenvalues of at least the floor.

        Features with distributions of their own have what these allow.
        """
        spread = np.concatenate([np.maximum(p.variances, self.floor), p.covariances], axis=-1)
        for place, (features, places) in enumerate(p.blocks.places):
            spread[..., features] = p.variances[..., features]
            matrices = self.relative(spread[..., places], place)
            values, vectors = np.linalg.eigh(matrices)
            if (values < self.least(place)).any():
                values = np.maximum(values, self.least(place))
                spread[..., places] = from_eigenvalues(self.roots[place], values, vectors)
        return p.with_spread(spread).completed()


def from_eigenvalues(root: Float, values: Float, vectors: Float) -> Float:
    """R V diag(λ) Vᵀ Rᵀ, symmetric to the last bit."""
    half = root @ (vectors * np.sqrt(values)[..., None, :])
    product = half @ half.swapaxes(-1, -2)
    return np.asarray(0.5 * (product + product.swapaxes(-1, -2)))


@dataclass(frozen=True)
class VariancePrior:
    """Prior of the variances of standardized features, with their floor.

    Below v is a variance, or a relative eigenvalue of the covariance of a block of k features.
    v/s is F-distributed with c = k + 3 and 2 degrees of freedom up to a factor: log v has a density
    proportional to (1 + s/v)^(−c/2) (1 + v/s)⁻¹, times exp(−a / 2v). With n rows and the sum of
    squares W about the mean, the most probable log v is that of the positive root of
    (n + 2) v² + ((n − c) s − W − a) v − (W + a) s = 0.

    - v far below s: about W / (n − c). Of all multiples of W, W (n + 1) / (n (n − k − 2)), which is
      W/n times about 1 + (k + 3)/n, predicts further Gaussian rows best.
    - Few rows: n < c rows that agree have a variance of (c − n) s / (n + 2), so that no component
      gains by holding few rows.
    - Many rows: v changes by c/n at most, whatever it is, far below its error √(2/n). The
      conjugate (inverse gamma) prior changes it by s/(n v), a bias where components are narrow.
    - The last factor keeps rows that agree to the last digit (rounded columns) from the floor.
    """

    floor: float | Float  # least variances
    scale: float = 0.0  # s, the variance about which the prior lies; 0: no prior
    added_squares: float = 0.0  # a, as if so much were added to W
    structure: Any = None  # blocks and floors; by default none are joined

    def __post_init__(self) -> None:
        if self.structure is None:
            object.__setattr__(self, "structure", Structure(self.floor))

    @classmethod
    def of_rows(cls, n_rows: int, n_components: int, floor: Float | Structure) -> VariancePrior:
        """The prior for so many rows and components of features of variance 1.

        s = r^(−2/d), as in Fraley and Raftery (2007): r components share the volume of the rows.
        Measured by the covariance pooled within components, s = 1.
        a = s / √N, the rate of Chen and Tan (2009): it vanishes, and slower than 1/N. A single
        component has no prior: its likelihood has one maximum.
        """
        structure = floor if isinstance(floor, Structure) else Structure(floor)
        floors = np.asarray(structure.floor)
        if n_components == 1:
            return cls(floors, structure=structure)
        scale = 1.0 if structure.is_pooled else float(n_components) ** (-2.0 / floors.size)
        return cls(floors, scale, scale / n_rows**0.5, structure)

    def blocks_for(self, n_statistics: int) -> Blocks:
        """The blocks of statistics of this length."""
        blocks: Blocks | None = self.structure.blocks
        return blocks or Blocks(n_statistics // 2)

    def variances(
        self, counts: Float, squares: Float, floor: float | Float | None = None, width: int = 1
    ) -> Float:
        """Most probable variances, or relative eigenvalues of a block of `width` features.

        From positive counts of rows, (…, r, 1), and sums of squares about the mean W, (…, r, d).
        The floor is that of single features by default.
        """
        floor = self.floor if floor is None else floor
        squares = np.maximum(squares, 0.0)
        if not self.scale:
            return np.maximum(squares / counts, floor)
        squares += self.added_squares
        half = 0.5 * ((counts - (width + 3.0)) * self.scale - squares)
        product = self.scale * squares
        root = np.abs(half) + np.sqrt(half**2 + (counts + 2.0) * product)
        # The form of the root that takes no difference of close numbers.
        variances = np.where(half > 0, product / root, root / (counts + 2.0))
        return np.asarray(np.maximum(variances, floor))

    def spread(self, counts: Float, squares: Float) -> Float:
        """Most probable spread from sums of squares and products about the mean, (…, r, d + P)."""
        structure = self.structure
        if structure.is_diagonal:
            units = structure.units
            return np.asarray(self.variances(counts, squares / units, self.floor / units) * units)
        assert structure.blocks is not None
        d, single = structure.blocks.n_features, structure.blocks.single
        spread = squares.copy()
        units = np.broadcast_to(structure.units, d)[single]
        floor = np.broadcast_to(self.floor, d)[single] / units
        spread[..., single] = units * self.variances(counts, squares[..., single] / units, floor)
        for place, (features, places) in enumerate(structure.blocks.places):
            matrices = structure.relative(squares[..., places], place)
            values, vectors = np.linalg.eigh(matrices)
            values = self.variances(counts, values, structure.least(place), features.size)
            spread[..., places] = from_eigenvalues(structure.roots[place], values, vectors)
        return spread

    def floors(self, parameters: Parameters, n_rows: float) -> Float:
        """Relative variances that say nothing of the rows' own spread, of shape (…, r, d).

        The floor, or where the added squares are half of all.
        """
        counts = np.maximum(n_rows * parameters.weights, FEWEST_ROWS)[..., None]
        lowest = np.maximum(2.0 * self.added_squares / counts, self.floor / self.structure.units)
        return np.asarray(np.broadcast_to(lowest, parameters.variances.shape))

    def _widths(self) -> float | Float:
        """Features k of the block of each feature."""
        if self.structure.is_diagonal:
            return 1.0
        assert self.structure.blocks is not None
        widths = np.ones(self.structure.blocks.n_features)
        for features, _ in self.structure.blocks.places:
            widths[features] = features.size
        return widths

    def log_terms(self, values: Float, width: float | Float = 1.0) -> Float:
        """Logarithm of the density of log v up to a constant, for each variance or eigenvalue."""
        if not self.scale:
            return np.zeros_like(values)
        v = np.maximum(values, 1e-300)
        ratio, half = v / self.scale, 0.5 * (width + 3.0)
        # (1 + s/v)^(−c/2) (1 + v/s)⁻¹ = x^(c/2) / (1 + x)^(c/2 + 1)
        terms = half * np.log(ratio) - (half + 1.0) * np.log1p(ratio)
        terms -= 0.5 * self.added_squares / v
        return np.asarray(terms)

    def log_density(self, parameters: Parameters) -> Float:
        """Logarithm of the density of log v up to a constant, summed over each mixture; (…,).

        With the priors of features with distributions of their own.
        """
        p = parameters
        if not self.scale:  # a single component
            return np.zeros(p.variances.shape[:-2])
        terms = self.log_terms(self.structure.eigenvalues(p), self._widths())
        for part, own, _ in p.blocks.stacks:
            terms[..., own] = 0.0
            terms[..., own[:, 0]] = part.log_prior(p.means[..., own], p.variances[..., own], self)
        return np.asarray(terms.sum(axis=(-2, -1)))

    def slope(self, eigenvalues: Float, width: float | None = None) -> Float:
        """Derivative of `log_density` by log v, of shape (…, r, d)."""
        v, s, half = eigenvalues, self.scale, 0.5 * ((width or self._widths()) + 3.0)
        return np.asarray((half * s - v * (s > 0)) / (v + s) + 0.5 * self.added_squares / v)

    def curvature(self, eigenvalues: Float, width: float | None = None) -> Float:
        """Minus the second derivative of `log_density` by log v, never negative; (…, r, d)."""
        v, s, half = eigenvalues, self.scale, 0.5 * ((width or self._widths()) + 3.0)
        return np.asarray((half + 1.0) * s * v / (v + s) ** 2 + 0.5 * self.added_squares / v)
