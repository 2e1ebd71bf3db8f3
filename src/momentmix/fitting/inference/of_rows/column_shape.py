"""Does a column follow the fitted mixture? Rows against the mixture's distribution of each column.

| symbol | name here |
|---|---|
| F_j(y): distribution function of column j under the mixture | `marginal_distribution` |
| D = max over y of the difference between F_j and that of the rows | ``distance`` |
| rows with F_j or 1 − F_j below 1e-5 | ``n_far`` |

√n D has Kolmogorov's law if the parameters come from many other rows. If they were fitted to the
same rows, D is smaller: by a factor of 1.5 to 1.6 for one Gaussian (Lilliefors 1967); of 1,502
columns of mixtures of one to six components, 1 % were above 0.90 and none above 1.11 (Kolmogorov's
law: 1 % above 1.63). Values on a grid are compared half-way between neighbors, where rounding
changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, kolmogorov, ndtr, ndtri, pdtrc

from momentmix._typing import Float, Int
from momentmix.fitting.inference.of_rows.rows_checked import ColumnFacts
from momentmix.mixture.parameters import Parameters

CHANCE = 1e-4  # that a column of a right mixture is named
LEAST_DISTANCE = 0.015  # real columns are never exactly Gaussian; less changes little
FAR_SHARE = 1e-3  # of the rows in the tails, from which heavy tails are fatal
LEAST_P_VALUE = 0.01  # of columns that are taken to be independent, all others together
_ENDS, _BETWEEN = 200, 1600  # values that are compared: distances to 1e-3, tails exactly
_FITTED = 1.4  # times as large is D of rows that the parameters were not fitted to, at least
_IN_TAIL = 1e-5  # probability beyond, on either side
_FEWEST_FAR = 3  # rows in the tails; one or two are outliers
_TWO_PEAKS = -1.4  # excess kurtosis: −1.2 for a uniform law, −1.6 for two peaks 6 deviations apart
_LEAST_SKEWNESS = 0.2  # below, a fourth moment describes the shape better
TO_THE_RIGHT, HEAVY_TAILED = "skewed to the right", "heavy-tailed"


def shape_words(skewness_gap: float, kurtosis_gap: float) -> str:
    """What a column looks like, by third and fourth moments less those of the model.

    Examples
    --------
    >>> shape_words(2.0, 6.0), shape_words(0.0, -1.2), shape_words(0.1, 6.0)
    ('skewed to the right', 'flat', 'heavy-tailed')
    """
    # s² against k: 4 and 6 for an exponential column, 0 and 6 for Student's t with 5 degrees.
    if abs(skewness_gap) > _LEAST_SKEWNESS and skewness_gap**2 > abs(kurtosis_gap) / 6:
        return TO_THE_RIGHT if skewness_gap > 0 else "skewed to the left"
    if kurtosis_gap > 0:
        return HEAVY_TAILED
    return "two peaks" if kurtosis_gap < _TWO_PEAKS else "flat"


@dataclass(frozen=True)
class ColumnShape:
    """How a column of the rows differs from the fitted mixture."""

    distance: float  # the largest between the distribution functions of rows and mixture
    p_value: float  # of that distance, by Kolmogorov's law
    n_far: int  # rows in tails where the mixture expects one in 50,000
    far_p_value: float  # of so many rows
    skewness_gap: float  # of the normal scores, which are standard normal if the model is right
    kurtosis_gap: float

    @property
    def is_other(self) -> bool:
        """Whether the column does not follow the mixture, beyond chance and by an amount."""
        return self.p_value < CHANCE and self.distance > LEAST_DISTANCE

    @property
    def is_heavy(self) -> bool:
        """Whether more rows lie in the tails than chance explains."""
        return self.n_far >= _FEWEST_FAR and self.far_p_value < CHANCE


def marginal_distribution(parameters: Parameters, j: int, values: Float) -> Float:
    """Distribution function of feature j under the mixture."""
    deviations = np.sqrt(parameters.variances[:, j])
    below = np.zeros(len(values))
    # One component at a time: a table of all of them would not fit the cache.
    for weight, mean, deviation in zip(
        parameters.weights, parameters.means[:, j], deviations, strict=True
    ):
        below += weight * ndtr((values - mean) / deviation)
    return below


def independent_columns(values: Float) -> list[tuple[int, str]]:
    """Columns that are not Gaussian and do not depend on any other one, with their shapes.

    Each is cut at its mean, each other one into tenths; χ² tests of these tables.
    """
    n, d = values.shape
    tenths = np.array([_tenths(column) for column in values.T])
    found = []
    for j, column in enumerate(values.T):
        z = (column - column.mean()) / max(float(column.std()), 1e-300)
        order = np.sort(z)
        distance = float(np.abs(ndtr(order) - (np.arange(n) + 0.5) / n).max())
        if distance < LEAST_DISTANCE or kolmogorov(_FITTED * np.sqrt(n) * distance) > CHANCE:
            continue
        above = z > 0
        p_values = [_independence(tenths[k], above) for k in range(d) if k != j]
        if d > 2 and min(p_values) > LEAST_P_VALUE / (d - 1):
            found.append((j, shape_words(float((z**3).mean()), float((z**4).mean() - 3))))
    return found


def _tenths(column: Float) -> Int:
    """Number of the tenth of the rows that each value is in."""
    return np.searchsorted(np.quantile(column, np.arange(1, 10) / 10), column)


def _independence(tenths: Int, above: NDArray[np.bool_]) -> float:
    """p-value of the independence of two groupings of the rows."""
    sizes, high = np.bincount(tenths), np.bincount(tenths, weights=above)
    share = above.mean()
    used = sizes > 0
    parts = (high - share * sizes)[used] ** 2 / (share * (1 - share) * sizes[used])
    return float(chdtrc(used.sum() - 1, parts.sum()))


def _thinned(facts: ColumnFacts) -> tuple[Float, Int]:
    """Values of a column and their counts; of many values both ends, and some between.

    A value stands for those up to it that are left out.
    """
    n = facts.n_values
    if n <= 2 * _ENDS + _BETWEEN:
        return facts.values, facts.counts
    between = np.linspace(_ENDS, n - _ENDS - 1, _BETWEEN).astype(np.int64)
    chosen = np.concatenate([np.arange(_ENDS), between, np.arange(n - _ENDS, n)])
    return facts.values[chosen], np.diff(np.cumsum(facts.counts)[chosen], prepend=0)


def compare_column(
    facts: ColumnFacts,
    shift: float,
    scale: float,
    parameters: Parameters,
    j: int,
    n: float,
    fitted_to_these: bool,
) -> ColumnShape:
    """A column against feature j of the mixture of standardized features.

    `n` independent rows stand behind it; `fitted_to_these` if they are all rows of the fit.
    """
    values, counts = _thinned(facts)
    z = (values - shift) / scale
    below = marginal_distribution(parameters, j, z)
    if facts.grid > 0:
        between = marginal_distribution(parameters, j, (z[1:] + z[:-1]) / 2)
    else:
        between = (below[1:] + below[:-1]) / 2
    share = np.cumsum(counts)[:-1] / counts.sum()
    distance = float(np.abs(share - between).max(initial=0.0))
    n_far = int(counts[np.minimum(below, 1 - below) < _IN_TAIL].sum())
    scores = ndtri(np.clip(below, 1e-9, 1 - 1e-9))
    weights = counts / counts.sum()
    center = weights @ scores
    spread = max(float(weights @ (scores - center) ** 2), 1e-12)
    third, fourth = (weights @ (scores - center) ** p / spread ** (p / 2) for p in (3, 4))
    return ColumnShape(
        distance,
        float(kolmogorov(np.sqrt(n) * distance * (_FITTED if fitted_to_these else 1.0))),
        n_far,
        float(pdtrc(n_far - 1, 2 * _IN_TAIL * n) if n_far else 1.0),
        float(third),
        float(fourth - 3),
    )
