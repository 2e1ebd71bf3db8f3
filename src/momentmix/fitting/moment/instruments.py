"""Last steps of a moment fit by instruments: the best combinations of all moments of degree 4.

| symbol | name here | shape |
|---|---|---|
| m: all monomials of degree up to 4 | ``CompleteMoments`` | (n,) |
| f: polynomials that depend on one block B | ``_BlockFamily`` | (n_family,) |
| g = βᵀ m, one for each parameter but one weight | ``Instruments`` | (n_parameters − 1,) |
| V: covariance of one row's instruments | by ``root`` | (n_parameters − 1, n_parameters − 1) |

Efficient weights take all moments of degree 4, and d⁴/24 of them are too many for their covariance.
But the instruments that they lead to, β = C⁻¹ ∂ model / ∂ θ, are approximations of the score:
a parameter of block B and component i needs a polynomial of the features of B, times one of the
others that is about 1 in component i and 0 elsewhere. So the instruments of a block are made of

- all monomials of B of degree up to 4; of degree up to 3, times one other feature; and all of the
  others of degree up to 2;
- x_a x_b q(z), x the features of B in which component i has mean 0 and covariance I (x_0 = 1), and
  q the quadratic polynomials of the others that are nearest to the indicators of the components
  where x_a² x_b² is the weight: a narrow direction of one component is a wide one of the others, so
  that q has to be small there.

Given the component, B and the others are independent: the covariance of such products is in closed
form. The estimate solves mean g = E g, as many equations as parameters. They hold for any β at the
truth, so that errors of β cost precision only.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve, cholesky, helmert, solve_triangular

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.block_moments import BlockMonomials
from momentmix.fitting.conditions.conditions import build_conditions
from momentmix.fitting.conditions.derivative import derivative
from momentmix.fitting.conditions.monomial_covariance import block_products
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.parameters import Parameters

_RIDGE = 1e-9  # of covariances with a diagonal of 1: polynomials of a family may be dependent
_AT_ONCE = 1000  # rows whose polynomials are in memory at once
DEGREE = 4


class Instruments:
    """Combinations of all moments of degree 4, one for each parameter but one weight.

    They are the best for `parameters`, with positive definite covariances. `root` is a triangle;
    root rootᵀ is the covariance of the instruments, 0 between blocks unless `measure` has found it.
    Solutions of as many equations as parameters do not depend on it.
    """

    def __init__(self, complete: CompleteMoments, parameters: Parameters) -> None:
        slopes = derivative(complete.conditions, parameters).table()
        blocks = zip(parameters.blocks.partition, _products_within(parameters), strict=True)
        self._families: list[_WeightFamily | _BlockFamily] = [
            _WeightFamily(complete, parameters, slopes),
            *(_BlockFamily(complete, parameters, block, own, slopes) for block, own in blocks),
        ]
        self._beta = np.zeros((parameters.n_free, complete.conditions.size))
        start = 0
        for family in self._families:
            stop = start + len(family.covariance)
            family.put(self._beta[start:stop])
            start = stop
        self.root = block_diag(*(_root(family.covariance) for family in self._families))

    def measure(self, rows: Float) -> None:
        """Take the covariance of the instruments from rows that follow the model."""
        parts = [rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)]
        families = self._families
        table = np.concatenate([np.hstack([f.values(part) for f in families]) for part in parts])
        table -= table.mean(axis=0)
        self.root = _root(table.T @ table / len(rows))

    def whiten(self, columns: Float) -> Float:
        """V^{-1/2} βᵀ·columns: instruments from conditions (n,) or (n, k)."""
        combined = self._beta @ columns
        return np.asarray(solve_triangular(self.root, combined, lower=True, check_finite=False))


def _root(covariance: Float) -> Float:
    """Triangle of a covariance."""
    scale = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
    matrix = covariance / scale[:, None] / scale
    matrix[np.diag_indices_from(matrix)] += _RIDGE
    return np.asarray(scale[:, None] * cholesky(matrix, lower=True))


def _products_within(parameters: Parameters) -> list[Float]:
    """E_i[u v] of all monomials of degree up to 4 of each block, of shape (r, m, m)."""
    d = parameters.means.shape[1]
    tuples = [_monomials(np.array(block), d) for block in parameters.blocks.partition]
    features = np.concatenate(tuples)
    # A feature that occurs twice is one slot with its exponent.
    exponents = (features[:, :, None] == features[:, None, :]).sum(axis=2)
    first = np.tril(features[:, :, None] == features[:, None, :], -1).sum(axis=2) == 0
    exponents = np.where(first & (features < d), exponents, 0)
    monomials = BlockMonomials(features, exponents, parameters.blocks)
    tables = block_products(monomials, parameters, monomials.moments(parameters))
    found, start = [], 0
    for own, (numbers, table) in zip(tuples, tables, strict=True):
        places = numbers[start : start + len(own)]
        found.append(table[:, places[:, None], places])
        start += len(own)
    return found


def _monomials(features: Int, constant: int) -> Int:
    """All monomials of degree up to 4, of shape (m, 4); the constant comes last."""
    both = [*features.tolist(), constant]
    return np.array(list(combinations_with_replacement(both, DEGREE)))


def _values(rows: Float, sets: Int) -> Float:
    """Products of features over rows; index d is the constant 1; (n_rows, n_sets)."""
    extended = np.hstack([rows, np.ones((len(rows), 1))])
    values = extended[:, sets[:, 0]]
    for t in range(1, sets.shape[1]):
        values *= extended[:, sets[:, t]]
    return np.asarray(values)


def _best(covariance: Float, slopes: Float) -> Float:
    """covariance⁻¹ slopes, by a covariance of diagonal 1."""
    scale = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
    matrix = covariance / scale[:, None] / scale
    matrix[np.diag_indices_from(matrix)] += _RIDGE
    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, slopes / scale[:, None]) / scale[:, None])


class _WeightFamily:
    """Instruments of the weights: quadratic polynomials of all features."""

    def __init__(self, complete: CompleteMoments, p: Parameters, slopes: Float) -> None:
        r, d = p.means.shape
        pairs = feature_pairs(np.arange(d + 1))[:-1]
        self._pairs = pairs
        self._rows = complete.rows_of(np.hstack([pairs, np.full_like(pairs, d)]))
        second = pair_products(p, np.arange(d + 1))
        mean = p.weights @ second[:, :-1, -1]
        covariance = np.tensordot(p.weights, second[:, :-1, :-1], 1) - np.outer(mean, mean)
        own = slopes[self._rows, :r] @ helmert(r).T
        self._beta = _best(covariance, own)
        self.covariance = own.T @ self._beta

    def put(self, beta: Float) -> None:
        """Write the instruments as combinations of conditions, of shape (n_instruments, n)."""
        beta[:, self._rows] += self._beta.T

    def values(self, rows: Float) -> Float:
        """The instruments of rows, of shape (n_rows, n_instruments)."""
        return np.asarray(_values(rows, self._pairs) @ self._beta)


class _BlockFamily:
    """Instruments of the means and covariances of one block."""

    def __init__(
        self,
        complete: CompleteMoments,
        p: Parameters,
        block: tuple[int, ...],
        within: Float,
        slopes: Float,
    ) -> None:
        d, own = p.means.shape[1], np.array(block)
        self._inside = _monomials(own, d)
        others = np.append(np.setdiff1d(np.arange(d), own), d)
        self._outside = feature_pairs(others)
        beside = pair_products(p, others)
        degrees = (self._inside < d).sum(axis=1)
        self._find_alone(degrees, d)
        self._find_products(p, own, within, beside, degrees)
        left, right = self._inside[self._alone[0]], self._outside[self._alone[1]]
        self._alone_rows = complete.rows_of(_joined(left, right))
        square = self._inside[self._quadratic]
        grid = _joined(
            np.repeat(square, len(self._outside), axis=0),
            np.tile(self._outside, (len(square), 1)),
        )
        self._grid_rows = complete.rows_of(grid)
        covariance = self._covariance(p.weights, within, beside)
        columns = _columns(p, own)
        table = slopes[:, columns]
        self._grid = (self._squares[:, None, :] * self._nearest).reshape(len(grid), -1)
        by_product = self._grid.T @ table[self._grid_rows]
        own_slopes = np.concatenate([table[self._alone_rows], by_product])
        self._best = _best(covariance, own_slopes)
        self.covariance = own_slopes.T @ self._best

    def _find_alone(self, degrees: Int, d: int) -> None:
        """Single monomials: number inside and number outside of each."""
        pairs = self._outside
        constant = len(pairs) - 1
        linear = np.flatnonzero((pairs[:, 1] == d) & (pairs[:, 0] < d))
        inside = np.flatnonzero(degrees > 0)
        short = np.flatnonzero((degrees > 0) & (degrees < DEGREE))
        alone = np.full(constant, len(degrees) - 1)
        first = np.concatenate([inside, np.repeat(short, linear.size), alone])
        of_inside, of_short = np.full(inside.size, constant), np.tile(linear, short.size)
        second = np.concatenate([of_inside, of_short, np.arange(constant)])
        self._alone = first, second

    def _find_products(
        self, p: Parameters, own: Int, within: Float, beside: Float, degrees: Int
    ) -> None:
        """x_a x_b by quadratic monomials inside, and the nearest polynomials outside."""
        self._quadratic = np.flatnonzero(degrees <= 2)
        small = within[:, self._quadratic[:, None], self._quadratic]
        squares, nearest = [], []
        means = beside[:, :, -1]  # (r, n_outside)
        for i in range(p.n_components):
            forms = _standard_forms(p.means[i, own], p.matrices[i][np.ix_(own, own)])
            x = _pair_coefficients(forms)
            # Weights of the components: E_c[(x_a x_b)²].
            sizes = np.einsum("ks,ckl,ls->cs", x, small, x, optimize=True)
            shares = (p.weights[:, None] * sizes).T  # (n_products, r)
            matrices = np.tensordot(shares, beside, 1)
            scale = np.sqrt(np.einsum("skk->sk", matrices))
            matrices /= scale[:, :, None] * scale[:, None, :]
            matrices += _RIDGE * np.eye(matrices.shape[1])
            right = np.transpose(means / scale[:, None, :], (0, 2, 1))  # (n_products, …, r)
            solved = np.linalg.solve(matrices, right) / scale[:, :, None]
            squares += [x] * p.n_components
            nearest += list(solved.transpose(2, 1, 0))
        self._squares, self._nearest = np.hstack(squares), np.hstack(nearest)

    def _covariance(self, weights: Float, within: Float, beside: Float) -> Float:
        """Covariance of all polynomials of the family, in closed form."""
        (first, second), n = self._alone, self._alone[0].size
        size = n + self._squares.shape[1]
        covariance, mean = np.zeros((size, size)), np.zeros(size)
        place = np.zeros((within.shape[1], self._squares.shape[1]))
        place[self._quadratic] = self._squares
        for weight, inner, outer in zip(weights, within, beside, strict=True):
            left, right = inner @ place, outer @ self._nearest
            covariance[:n, :n] += (
                weight * inner[first[:, None], first] * outer[second[:, None], second]
            )
            covariance[:n, n:] += weight * left[first] * right[second]
            covariance[n:, n:] += weight * (place.T @ left) * (self._nearest.T @ right)
            # The constant is the last monomial inside and outside.
            mean[:n] += weight * inner[-1, first] * outer[-1, second]
            mean[n:] += weight * left[-1] * right[-1]
        covariance[n:, :n] = covariance[:n, n:].T
        return np.asarray(covariance - np.outer(mean, mean))

    def put(self, beta: Float) -> None:
        """Write the instruments as combinations of conditions, of shape (n_instruments, n)."""
        n = self._alone_rows.size
        beta[:, self._alone_rows] += self._best[:n].T
        beta[:, self._grid_rows] += (self._grid @ self._best[n:]).T

    def values(self, rows: Float) -> Float:
        """The instruments of rows, of shape (n_rows, n_instruments)."""
        inside, outside = _values(rows, self._inside), _values(rows, self._outside)
        first, second = self._alone
        alone = inside[:, first] * outside[:, second]
        products = (inside[:, self._quadratic] @ self._squares) * (outside @ self._nearest)
        n = first.size
        return np.asarray(alone @ self._best[:n] + products @ self._best[n:])


def _joined(inside: Int, outside: Int) -> Int:
    """Features of products (n, 4) of degree up to 4; the constant has the largest number."""
    both = np.sort(np.hstack([inside, outside]), axis=1)
    return np.asarray(both[:, :DEGREE])


def _columns(p: Parameters, own: Int) -> Int:
    """Places of a block's means, variances and covariances among parameters by feature."""
    r, d = p.means.shape
    places = p.blocks.table(own)[np.triu_indices(own.size)] if own.size > 1 else own
    groups = np.concatenate([own, d + places])
    return np.asarray((r * (1 + groups)[:, None] + np.arange(r)).ravel())


def _standard_forms(mean: Float, matrix: Float) -> Float:
    """x = forms·(z, 1) of mean 0 and covariance I, and the constant; (k + 1, k + 1)."""
    values, vectors = np.linalg.eigh(matrix)
    roots = vectors / np.sqrt(values)
    k = mean.size
    forms = np.zeros((k + 1, k + 1))
    forms[:k, :k], forms[:k, k], forms[k, k] = roots.T, -roots.T @ mean, 1.0
    return forms


def _pair_coefficients(forms: Float) -> Float:
    """Coefficients of x_a x_b, a ≤ b, in z_j z_k, j ≤ k; (n_pairs, n_pairs)."""
    a, b = np.triu_indices(len(forms))
    j, k = a, b
    both = forms[a][:, j] * forms[b][:, k] + forms[a][:, k] * forms[b][:, j]
    both[:, j == k] /= 2.0
    return np.asarray(both.T)


class CompleteMoments:
    """All monomials of degree up to 4, of moments for which `has_complete_moments`."""

    def __init__(self, moments: StandardMoments) -> None:
        self.conditions = build_conditions(moments, DEGREE, 2, highest_power=DEGREE)
        features, exponents = self.conditions.slots, self.conditions.slot_exponents
        base = moments.n_features + 1
        self._base, self._rows = base, np.full(base**DEGREE, -1)
        # Each feature as often as its exponent says, then the constant.
        known = np.full((len(features), DEGREE), base - 1)
        place = np.cumsum(exponents, axis=1) - exponents
        for t in range(features.shape[1]):
            for repeat in range(DEGREE):
                own = np.flatnonzero(exponents[:, t] > repeat)
                known[own, place[own, t] + repeat] = features[own, t]
        self._rows[self._codes(known)] = np.arange(len(features))

    def _codes(self, features: Int) -> Int:
        ordered = np.sort(features, axis=-1)
        codes = ordered[..., 0]
        for t in range(1, DEGREE):
            codes = codes * self._base + ordered[..., t]
        return np.asarray(codes)

    def rows_of(self, features: Int) -> Int:
        """Conditions of monomials (…, 4), of shape (…,)."""
        return np.asarray(self._rows[self._codes(features)])


def has_complete_moments(moments: StandardMoments) -> bool:
    """Return whether there are all moments of degree up to 4, of features that vary."""
    if moments.order < DEGREE or len(moments.squared) < DEGREE - 1 or moments.constant.any():
        return False
    high = (moments.powers, moments.cubed, moments.two_squares)
    return all(table is not None and np.isfinite(table).all() for table in high)


def count_complete(n_features: int) -> int:
    """Number of monomials of degree up to 4."""
    return comb(n_features + DEGREE, DEGREE)


def pair_products(parameters: Parameters, features: Int) -> Float:
    """E_i[z_a z_b z_c z_e] of all pairs of `feature_pairs` of some features; d is the constant.

    E[z_a z_b z_c z_e] = T_ab T_ce + T_ac T_be + T_ae T_bc − 2 μ_a μ_b μ_c μ_e, T the second moments
    of a Gaussian of means μ; the constant has the mean 1 and no variance.
    """
    r, d = parameters.means.shape
    means = np.ones((r, d + 1))
    means[:, :d] = parameters.means
    second = means[:, :, None] * means[:, None, :]
    second[:, :d, :d] += parameters.matrices
    a, b = feature_pairs(features).T
    products = means[:, a] * means[:, b]
    own = second[:, a, b]
    table = own[:, :, None] * own[:, None, :]
    table -= 2.0 * products[:, :, None] * products[:, None, :]
    table += second[:, a[:, None], a] * second[:, b[:, None], b]
    table += second[:, a[:, None], b] * second[:, b[:, None], a]
    return np.asarray(table)


def feature_pairs(features: Int) -> Int:
    """Pairs of some features, each with itself too, in the order given; (n_pairs, 2)."""
    i, k = np.triu_indices(len(features))
    return np.stack([features[i], features[k]], axis=1)
