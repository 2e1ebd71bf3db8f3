"""What one row adds to a mean, a variance, a correlation: polynomials of degree 2 in the features.

| symbol | name here | shape |
|---|---|---|
| ψ of each parameter as Σ coefficients · x_a x_b | `Polynomials` | (n, n_pairs) |
| Cov ψ from the moments of degree 4 | `Polynomials.covariance` | (n, n) |

With p, m, u of `compared.side`, q = E s_i s_j and σ the spreads that correlations are made with:
the mean adds u/p; the variance (u² − V s)/p; the covariance c = E u_i u_j / q adds
ψ_c = (u_i u_j − c s_i s_j)/q − E[s_i u_j]/q · u_i/p_i − E[s_j u_i]/q · u_j/p_j, and the correlation
ψ_c/(σ_i σ_j) − ρ/2 · (ψ_i/σ_i² + ψ_j/σ_j²) with the variances' ψ_i.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from momentmix._typing import Float, Int
from momentmix.monitoring.compared.side import Side


class Polynomials:
    """Polynomials of degree 2 in the features of one side, and their covariance.

    Parameters
    ----------
    side : Side
    n : int
        Number of polynomials.
    """

    def __init__(self, side: Side, n: int) -> None:
        self._side, self._n = side, n
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
        side = self._side
        factors = factors / side.share[own]
        self.add(rows, side.value[own], side.table.one, factors)
        self.add(rows, side.seen[own], side.table.one, -side.mean[own] * factors)

    def add_variances(self, rows: Int, own: Int, factors: Any = 1.0) -> None:
        """Add ψ of the variances of values `own`."""
        side = self._side
        factors = factors / side.share[own]
        self._add_products(rows, own, own, factors)
        self.add(rows, side.seen[own], side.table.one, -side.central[2, own] * factors)

    def add_covariances(self, rows: Int, i: Int, j: Int, factors: Any = 1.0) -> None:
        """Add ψ of the covariances of values i and j."""
        side = self._side
        factors = factors / side.both_seen[i, j]
        self._add_products(rows, i, j, factors)
        self.add(rows, side.seen[i], side.seen[j], -side.covariance[i, j] * factors)
        self.add_means(rows, i, -side.seen_with[i, j] * factors)
        self.add_means(rows, j, -side.seen_with[j, i] * factors)

    def add_correlations(self, rows: Int, i: Int, j: Int, spread: Float, rho: Float) -> None:
        """Add ψ of the correlations of values i and j, made with these spreads and ρ."""
        self.add_covariances(rows, i, j, 1 / (spread[i] * spread[j]))
        self.add_variances(rows, i, -rho / 2 / spread[i] ** 2)
        self.add_variances(rows, j, -rho / 2 / spread[j] ** 2)

    def _add_products(self, rows: Int, i: Int, j: Int, factors: Any) -> None:
        """Add factors · u_i u_j."""
        v, s, m = self._side.value, self._side.seen, self._side.mean
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
