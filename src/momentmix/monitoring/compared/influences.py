"""What one row adds to a mean, a variance, a correlation: polynomials of degree 2 in the features.

| symbol | name here | shape |
|---|---|---|
| ψ of each parameter as Σ coefficients · x_a x_b | `Polynomials` | (n, n_pairs) |
| Cov ψ from the moments of degree 4 | `Polynomials.covariance` | (n, n) |

With p, m, u of `compared.side`, q = E s_i s_j and σ the spreads that correlations are made with:
the mean adds u/p; the variance (u² − V s)/p; the covariance c = E u_i u_j / q adds
ψ_c = (u_i u_j − c s_i s_j)/q − E[s_i u_j]/q · u_i/p_i − E[s_j u_i]/q · u_j/p_j, and the correlation
ψ_c/(σ_i σ_j) − ρ/2 · (ψ_i/σ_i² + ψ_j/σ_j²) with the variances' ψ_i.

Tests of several parameters together take p, m, V, c and q of both summaries (`common_points`), so
that the difference of the means of ψ is one of means of rows, without terms of second order. At the
numbers of each summary such terms are all that is left along directions that hardly vary, as those
of pairs of rare 0 and 1: 6 in 10 pairs of one law were called different, 15 columns of 1,000 rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from momentmix._typing import Float, Int
from momentmix.monitoring.compared.side import Side

_SURE = 6.0  # standard errors of a difference of means


class Point(NamedTuple):
    """Parameters at which ψ is taken, in the units of one side (`compared.side`)."""

    share: Float
    mean: Float
    variance: Float
    both_seen: Float
    covariance: Float
    seen_with: Float


def own_point(side: Side) -> Point:
    """The parameters of one side."""
    return Point(
        side.share, side.mean, side.central[2], side.both_seen, side.covariance, side.seen_with
    )


def common_points(a: Side, b: Side, shift: Float) -> tuple[Point, Point]:
    """The parameters of two sides together, in the units of each.

    Parameters
    ----------
    a, b : Side
    shift : array of shape (k,)
        Mean of `b` less that of `a`. The center is halfway: with another one, the variances would
        differ where the means do. Means that surely differ are each a center, since the shift would
        add to the noise.
    """
    weight = a.n / (a.n + b.n)
    left, right = own_point(a), own_point(b)
    noise = np.sqrt(left.variance / a.n_seen + right.variance / b.n_seen)
    half = np.where(np.abs(shift) <= _SURE * noise, shift, 0.0) / 2
    rows = a.n_seen / (a.n_seen + b.n_seen)
    pairs = weight * left.both_seen, (1 - weight) * right.both_seen
    both_seen = pairs[0] + pairs[1]
    common = Point(
        weight * left.share + (1 - weight) * right.share,
        left.mean,
        rows * left.variance + (1 - rows) * right.variance,
        both_seen,
        (pairs[0] * left.covariance + pairs[1] * right.covariance) / both_seen,
        weight * left.seen_with + (1 - weight) * right.seen_with,
    )
    return common._replace(mean=left.mean + half), common._replace(mean=right.mean - half)


class Polynomials:
    """Polynomials of degree 2 in the features of one side, and their covariance.

    Parameters
    ----------
    side : Side
    n : int
        Number of polynomials.
    at : Point, optional
        Parameters that they are taken at; by default those of the side.
    """

    def __init__(self, side: Side, n: int, at: Point | None = None) -> None:
        self._side, self._n, self._at = side, n, own_point(side) if at is None else at
        self._rows: list[Int] = []
        self._pairs: list[Int] = []
        self._factors: list[Float] = []

    def add(self, rows: Int, left: Any, right: Any, factors: Any) -> None:
        """Add factors · x_left x_right to some polynomials."""
        rows, left, right, factors = np.broadcast_arrays(rows, left, right, factors)
        kept = factors != 0
        codes = self._side.table.pair_numbers(left, right)
        self._rows.append(rows[kept])
        self._pairs.append(codes[kept])
        self._factors.append(factors[kept].astype(np.float64))

    def add_means(self, rows: Int, own: Int, factors: Any = 1.0) -> None:
        """Add ψ of the means of values `own`."""
        side, at = self._side, self._at
        factors = factors / at.share[own]
        self.add(rows, side.value[own], side.table.one, factors)
        self.add(rows, side.seen[own], side.table.one, -at.mean[own] * factors)

    def add_variances(self, rows: Int, own: Int, factors: Any = 1.0) -> None:
        """Add ψ of the variances of values `own`."""
        side, at = self._side, self._at
        factors = factors / at.share[own]
        self._add_products(rows, own, own, factors)
        self.add(rows, side.seen[own], side.table.one, -at.variance[own] * factors)

    def add_covariances(self, rows: Int, i: Int, j: Int, factors: Any = 1.0) -> None:
        """Add ψ of the covariances of values i and j."""
        side, at = self._side, self._at
        factors = factors / at.both_seen[i, j]
        self._add_products(rows, i, j, factors)
        self.add(rows, side.seen[i], side.seen[j], -at.covariance[i, j] * factors)
        self.add_means(rows, i, -at.seen_with[i, j] * factors)
        self.add_means(rows, j, -at.seen_with[j, i] * factors)

    def add_correlations(self, rows: Int, i: Int, j: Int, spread: Float, rho: Float) -> None:
        """Add ψ of the correlations of values i and j, made with these spreads and ρ."""
        self.add_covariances(rows, i, j, 1 / (spread[i] * spread[j]))
        self.add_variances(rows, i, -rho / 2 / spread[i] ** 2)
        self.add_variances(rows, j, -rho / 2 / spread[j] ** 2)

    def _add_products(self, rows: Int, i: Int, j: Int, factors: Any) -> None:
        """Add factors · u_i u_j."""
        v, s, m = self._side.value, self._side.seen, self._at.mean
        self.add(rows, v[i], v[j], factors)
        self.add(rows, v[i], s[j], -m[j] * factors)
        self.add(rows, s[i], v[j], -m[i] * factors)
        self.add(rows, s[i], s[j], m[i] * m[j] * factors)

    def _matrix(self) -> Any:
        """Factors as a sparse matrix; its columns are the pairs of the table."""
        entries = (
            np.concatenate(self._factors),
            (
                np.concatenate(self._rows),
                np.concatenate(self._pairs),
            ),
        )
        shape = self._n, len(self._side.table.pairs)
        return sparse.csr_array(sparse.coo_array(entries, shape=shape))

    def means(self) -> Float:
        """Means of the polynomials, of shape (n,)."""
        table = self._side.table
        return np.asarray(self._matrix() @ table.second[table.pairs[:, 0], table.pairs[:, 1]])

    def covariance(self) -> Float:
        """Covariance of the polynomials of one row, of shape (n, n)."""
        matrix = self._matrix()
        return np.asarray(matrix @ (matrix @ self._side.table.pair_covariance).T)

    def variances(self) -> Float:
        """Variances of the polynomials of one row, of shape (n,)."""
        matrix = self._matrix()
        product = matrix @ self._side.table.pair_covariance
        return np.asarray(matrix.multiply(product).sum(axis=1))


def covariance_of_means(side: Side, own: Int, seen: Int) -> Float:
    """Covariance of what one row adds to the means of values, and to shares of cells seen.

    Parameters
    ----------
    side : Side
    own : array of int
        Values.
    seen : array of int
        Values whose ``seen`` is a parameter too.
    """
    n, one = len(own) + len(seen), side.table.one
    matrix = np.zeros((n, one + 1))
    rows = np.arange(len(own))
    matrix[rows, side.value[own]] = 1 / side.share[own]
    matrix[rows, side.seen[own]] -= side.mean[own] / side.share[own]
    matrix[len(own) + np.arange(len(seen)), side.seen[seen]] = 1.0
    mean = matrix @ side.table.second[:, one]
    return np.asarray(matrix @ side.table.second @ matrix.T - np.outer(mean, mean))
