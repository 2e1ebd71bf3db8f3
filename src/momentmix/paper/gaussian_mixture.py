"""Diagonal Gaussian mixtures by Algorithm 5.1 of the paper (algo:gaussian).

| paper symbol | name here | shape |
|---|---|---|
| (M̂_m)_{Ω_m}, (M̂_t)_{Ω_t} | ``moments.moment_tensor(m)`` | (C(d, m),) |
| (M̂_m)_{L_j} | ``moments.squared_moments(j, m−2)`` | (C(d−1, m−2),) |
| q̌_i (eq:q) | ``factors`` | (r, d) |
| t | ``weight_order(d, r)`` | |
| β_i (solve-w) | ``scales`` | (r,) |
| θ_ij (solve-sigma) | ``variances`` | (r, d) |

Differs from the paper:

* At even m the paper leaves the sign of each q_i open. Where t is odd, (solve-w) is solved without
  β ≥ 0 and factors with negative β change their sign; where t is even too, the signs come from the
  smallest odd order t' with C(d, t') ≥ r.
* β is kept away from zero (weights of at least 1e-6), since (est-w-mu) divides by a power of it,
  and the weights are divided by their sum before step 4.
* On samples, variances below a tenth of the variance that the components share (what is left of a
  column's variance after the means) are raised to it: (solve-sigma) often puts variances at zero
  there, and a component of variance zero attracts no row. With ``variance_floor=0`` they stay as
  (solve-sigma) gives them, zeros included, which have no density.

Data must not be centered: centering makes M_1 zero and the means linearly dependent. A test holds
the parameters to their error bound (thm:gaussian approx).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb
from typing import Any, Literal, Protocol, cast

import numpy as np
from scipy.optimize import nnls

from momentmix._typing import Array
from momentmix.errors import FitWarning, InputError, check_count, warn_caller
from momentmix.fitting.data import moments_of, summary_of, table_of
from momentmix.index_sets import monomials
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.prior import VARIANCE_FLOOR
from momentmix.paper.approximate import best_powers
from momentmix.paper.gauss_newton import fit_powers
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.paper.ranks import best_split, smallest_order
from momentmix.summary.summary import MomentSummary
from momentmix.tables.names import column_label
from momentmix.tables.opening import READ_ALL
from momentmix.tables.rows import Rows

_LEAST_WEIGHT = 1e-6  # below any weight that moments of a sample can tell from zero
_SUPPORTED_WEIGHT = 1e-5  # less is what the last step makes of the least weight
_LARGE_OFFSET = 100.0  # standard deviations from zero; its cube exceeds the noise of any sample


class MomentSource(Protocol):
    """A source of uncentered moments: a summary, or a mixture itself."""

    @property
    def n_features(self) -> int:
        """Number of features d."""

    def moment_tensor(self, order: int) -> IncompleteSymmetricTensor:
        """E[y_I] on Ω_order."""

    def squared_moments(self, feature: int, order: int) -> Array:
        """E[y_j² y_I] for all I of `order` features other than j, in colex order."""


@dataclass(frozen=True)
class PaperFit:
    """A mixture by Algorithm 5.1.

    Attributes
    ----------
    mixture : Mixture
        Diagonal Gaussian components; its `predict` assigns rows.
    order : int
        The order m of the moments.
    residual : float
        Of the approximated tensor, relative to its norm; 0 for one component.
    converged : bool
        Whether both least squares, (solve-F) and (prob:nls-w mu), converged.
    """

    mixture: Mixture
    order: int
    residual: float
    converged: bool


def fit(
    data: Any,
    n_components: int,
    order: int | Literal["auto"] = "auto",
    *,
    variance_floor: float = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> PaperFit:
    """Fit a diagonal Gaussian mixture by Algorithm 5.1 of the paper.

    It has no certificate and no intervals; `momentmix.fit` has both, and needs fewer rows.

    Parameters
    ----------
    data : array, data frame, path, source or MomentSummary
        Rows of numbers as for `momentmix.fit`, or a summary of them that holds
        ``squared_order=order-2``. Rows of shards may be summarized apart and added.
    n_components : int
    order : int or "auto"
        The order m of the moments; by default the smallest that identifies `n_components`.
    variance_floor : float
        Variances are raised to this share of the variance within components. 0 leaves them as
        printed, zeros included.
    random_state : int, Generator or None

    Returns
    -------
    PaperFit

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import Mixture, summarize
    >>> truth = Mixture.diagonal([0.4, 0.6], [[-2.0] * 6, [3.0] * 6], np.ones((2, 6)))
    >>> shards = [truth.sample(2000, random_state=i)[0] for i in range(2)]
    >>> total = summarize(shards[0], 3) + summarize(shards[1], 3)
    >>> fit(total, 2, random_state=0).mixture.weights.round(1).tolist() in ([0.4, 0.6], [0.6, 0.4])
    True
    """
    r = check_count("n_components", n_components, 1)
    table = table_of(data, None, "error", READ_ALL, None)
    if table.schema is not None:
        raise InputError(
            "Algorithm 5.1 has Gaussian columns only; got families, missing cells or text. "
            "Summarize columns of numbers, mm.summarize(data, columns=[…]), and fit the summary."
        )
    d = table.data.n_features
    m = smallest_order(d, r) if order == "auto" else check_count("order", order, 3)
    if r == 1:
        m = min(m, d)
    else:  # raises where the order does not reach r
        best_split(d, m, r)
    if isinstance(data, MomentSummary):
        summary = data.copy()
    else:
        summary = summary_of(cast(Rows, table.data), m, max(m - 2, 0), 1)
        moments_of(summary)  # refuses columns whose variances would leave float64
    if summary.n_rows < r:
        raise InputError(f"{r} components need at least {r} rows; got {summary.n_rows}.")
    if r == 1:
        mixture = Mixture.diagonal(np.ones(1), summary.mean[None], summary.variance[None])
        found = PaperFit(mixture, m, 0.0, True)
    else:
        _check_summary(summary, m)
        found = learn_mixture(RawMoments(summary), r, m, random_state)
    mixture = found.mixture.with_feature_names(summary.feature_names)
    return replace(found, mixture=raise_variances(mixture, summary, variance_floor))


def raise_variances(mixture: Mixture, summary: MomentSummary, floor: float) -> Mixture:
    """Variances of at least `floor` times the variance within components, unless it is zero."""
    if floor == 0:
        return mixture
    weights = np.where(mixture.weights > _SUPPORTED_WEIGHT, mixture.weights, 0.0)
    centered = mixture.means - weights @ mixture.means
    within = summary.variance - weights @ centered**2
    within = np.where(within > 0, within, summary.variance)
    spread = np.where(summary.variance > 0, summary.variance, summary.mean**2)
    least = np.maximum(VARIANCE_FLOOR * spread, np.finfo(float).tiny)  # of constant columns too
    variances = np.maximum(mixture.variances, np.maximum(floor * within, least))
    return Mixture.diagonal(mixture.weights, mixture.means, variances, mixture.feature_names)


def _check_summary(summary: MomentSummary, order: int) -> None:
    """Refuse a summary without the moments; warn of columns far from zero."""
    if summary.order < order or summary.squared_order < order - 2:
        raise InputError(
            f"Algorithm 5.1 with order={order} needs a summary with order ≥ {order} and "
            f"squared_order ≥ {order - 2}; this one has order={summary.order} and squared_order="
            f"{summary.squared_order}. Summarize the rows again with order={order}, "
            f"squared_order={order - 2}."
        )
    offsets = np.abs(summary.mean) / np.where(summary.deviation > 0, summary.deviation, np.inf)
    worst = int(offsets.argmax())
    if offsets[worst] > _LARGE_OFFSET:
        warn_caller(
            f"Algorithm 5.1 works on uncentered moments, and "
            f"{column_label(worst, summary.feature_names)} lies {offsets[worst]:.3g} standard "
            "deviations from zero: such an offset hides the components. Subtract a constant near "
            "the mean from that column before summarizing.",
            FitWarning,
        )


class RawMoments:
    """Uncentered moments of a summary."""

    def __init__(self, summary: MomentSummary) -> None:
        self.n_features = summary.n_features
        self.values = summary.moments(shift=0.0, scale=1.0)

    def moment_tensor(self, order: int) -> IncompleteSymmetricTensor:
        """E[y_I] on Ω_order."""  # (C(d, m),)  incomplete_tensor, high-tensor-moment
        return IncompleteSymmetricTensor(self.values.distinct[order], self.n_features, order)

    def squared_moments(self, feature: int, order: int) -> Array:
        """E[y_j² y_I] for all I of `order` features other than j, in colex order."""
        return np.asarray(self.values.squared[order][feature])  # (C(d−1, m),)  moment-structure


def weight_order(n_features: int, n_components: int, *, odd: bool = False) -> int:
    """Smallest order t with C(d, t) ≥ r: the moments that give the weights.

    >>> weight_order(15, 15), weight_order(15, 20), weight_order(15, 20, odd=True)
    (1, 2, 3)
    """
    step = 2 if odd else 1
    order = 1
    while comb(n_features, order) < n_components:
        order += step
    return order


def learn_mixture(
    moments: MomentSource,
    n_components: int,
    order: int,
    random_state: int | np.random.Generator | None = None,
) -> PaperFit:
    """Weights, means and variances from uncentered moments (Algorithm 5.1)."""
    tensor = moments.moment_tensor(order)  # (C(d, m),)  subtensor-approx
    # Steps 1 and 2: real factors, eq:q
    powers = best_powers(tensor, n_components, random_state)
    low = weight_order(moments.n_features, n_components)
    factors, scales = _signs_and_scales(moments, powers.factors, order, low)  # Step 3
    power = 1.0 / (order - low)
    weights = scales ** (order * power)  # (r,)  est-w-mu
    means = factors / scales[:, None] ** power  # (r, d)  est-w-mu
    # Step 4, prob:nls-w mu
    end = fit_powers([tensor, moments.moment_tensor(low)], means, weights / weights.sum())
    # Step 5. Products of all but one coordinate say little of that one where a factor has next to
    # no weight: its mean may be thousands there, and its square would spoil the equations.
    variances = np.zeros_like(end.factors)
    has_rows = end.weights > _SUPPORTED_WEIGHT * end.weights.sum()
    variances[has_rows] = _variances(
        moments, factors[has_rows], end.weights[has_rows], end.factors[has_rows], order
    )
    mixture = Mixture.diagonal(end.weights / end.weights.sum(), end.factors, variances)
    #  algo:gaussian
    return PaperFit(mixture, order, powers.residual, powers.converged and end.converged)


def _signs_and_scales(
    moments: MomentSource, factors: Array, order: int, low: int
) -> tuple[Array, Array]:
    """Signs of the factors, and β ≥ 0 of (solve-w)."""
    if order % 2 == 0:
        odd = weight_order(moments.n_features, factors.shape[0], odd=True)
        free = np.linalg.lstsq(monomials(factors.T, odd)[-1], moments.moment_tensor(odd).values)[0]
        factors = np.where(free < 0, -1.0, 1.0)[:, None] * factors
    # (r,)  solve-w
    scales = _non_negative(monomials(factors.T, low)[-1], moments.moment_tensor(low).values)
    return factors, np.maximum(scales, _LEAST_WEIGHT ** ((order - low) / order))


def _variances(
    moments: MomentSource, factors: Array, weights: Array, means: Array, order: int
) -> Array:
    """θ_ij by non-negative least squares on the entries L_j (solve-sigma), of shape (r, d)."""
    r, d = means.shape
    variances = np.empty((r, d))
    for j in range(d):
        others = np.arange(d) != j
        table = weights * monomials(means[:, others].T, order - 2)[-1]  # (|L_j|, r)
        powers = monomials(factors[:, others].T, order - 2)[-1] @ factors[:, j] ** 2
        target = moments.squared_moments(j, order - 2) - powers  # (|L_j|,)  cov-A
        variances[:, j] = _non_negative(table, target)  # (r,)  solve-sigma, Sig_i^opt
    return variances


def _non_negative(table: Array, target: Array) -> Array:
    """Non-negative least squares, columns scaled; plain least squares where that is positive."""
    norms = np.linalg.norm(table, axis=0)
    norms = np.where(norms > 0, norms, 1.0)
    scaled = table / norms
    solution = np.linalg.lstsq(scaled, target)[0]
    if (solution < 0).any():
        solution = nnls(scaled, target)[0]
    return np.asarray(solution / norms)
