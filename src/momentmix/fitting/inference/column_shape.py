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

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, kolmogorov, ndtr, ndtri, pdtrc

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.columns_checked import ColumnFacts
from momentmix.mixture.parameters import Parameters
from momentmix.schema.transforms import LOG, LOG1P, transformed

CHANCE = 1e-4  # that a column of a right mixture is named
LEAST_DISTANCE = 0.015  # real columns are never exactly Gaussian; less changes little
FAR_SHARE = 1e-3  # of the rows in the tails, from which heavy tails are fatal
LEAST_P_VALUE = 0.01  # of columns that are taken to be independent, all others together
_ENDS, _BETWEEN = (
    200,
    1600,
)  # values of a column that are compared: distances to 1e-3, tails exactly
_FITTED = 1.4  # times as large is D of rows that the parameters were not fitted to, at least
_IN_TAIL = 1e-5  # probability beyond, on either side
_FEWEST_FAR = 3  # rows in the tails; one or two are outliers
_TWO_PEAKS = -1.4  # excess kurtosis: −1.2 for a uniform law, −1.6 for two peaks 6 deviations apart
_LEAST_SKEWNESS = 0.2  # below, a fourth moment describes the shape better
TO_THE_RIGHT = "skewed to the right"
_FEWEST_ROWS = 20  # of a component, whose skewness has an error of 0.5 then
_HELPS, _MOST_LEFT = 0.5, 1.0  # times the skewness that there was, and of either sign, at most
_LOG1P_PAYS = 0.1  # skewness; of large numbers both logarithms are the same
# Of a column as a whole. Exponential numbers have a skewness of 2, lognormal ones that reach over a
# factor of 10 one of about 1, and two equal clusters 3 deviations apart at most 0.8.
_SKEWED, _LEAST_RATIO = 1.0, 5.0


def shape_words(skewness_gap: float, kurtosis_gap: float) -> str:
    """What a column looks like, beside a Gaussian one.

    Parameters
    ----------
    skewness_gap, kurtosis_gap : float
        Third and fourth standardized moments, less those of the model.

    Examples
    --------
    >>> shape_words(2.0, 6.0), shape_words(0.0, -1.2), shape_words(0.1, 6.0)
    ('skewed to the right', 'flat', 'heavy-tailed')
    """
    # s² against k: 4 and 6 for an exponential column, 0 and 6 for Student's t with 5 degrees.
    if abs(skewness_gap) > _LEAST_SKEWNESS and skewness_gap**2 > abs(kurtosis_gap) / 6:
        return TO_THE_RIGHT if skewness_gap > 0 else "skewed to the left"
    if kurtosis_gap > 0:
        return "heavy-tailed"
    return "two peaks" if kurtosis_gap < _TWO_PEAKS else "flat"


@dataclass(frozen=True)
class ColumnShape:
    """How a column of the rows differs from the fitted mixture.

    Attributes
    ----------
    distance : float
        Largest difference between the distribution functions of the rows and of the mixture.
    p_value : float
        Of that distance, by Kolmogorov's law.
    n_far : int
        Rows in tails where the mixture expects one in 50,000.
    far_p_value : float
        Of so many rows.
    skewness_gap, kurtosis_gap : float
        Of the normal scores of the rows, which are standard normal if the model is right.
    """

    distance: float
    p_value: float
    n_far: int
    far_p_value: float
    skewness_gap: float
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


# -- logarithms that would help -----------------------------------------------------------------
#
# With rows, the skewness within components is computed before and after. Moments of the numbers say
# nothing about those of their logarithms, and a fit that is wrong says little about skewness within
# components: there a column must be positive, reach far, and be skewed as a whole.


def possible_transforms(
    moments: StandardMoments, feature: int, has_law: Collection[int] = ()
) -> list[str]:
    """Transforms that the numbers of a feature allow; none for counts and for logarithms."""
    least = float(moments.minimum[feature])
    is_done = int(moments.columns[feature]) in moments.transformed
    if is_done or feature in has_law or least < 0:
        return []
    return [LOG, LOG1P] if least > 0 else [LOG1P]


def offer_from_moments(
    moments: StandardMoments, feature: int, has_law: Collection[int]
) -> str | None:
    """The transform of a feature that is skewed to the right and reaches far; else None."""
    possible = possible_transforms(moments, feature, has_law)
    if not possible or moments.powers is None or not moments.powers[0, feature] > _SKEWED:
        return None
    ends = transformed([moments.minimum[feature], moments.maximum[feature]], possible[0])
    return possible[0] if np.ptp(ends) > np.log(_LEAST_RATIO) else None


def offer_from_rows(values: Float, labels: Int, transforms: Collection[str]) -> str | None:
    """The transform after which numbers are least skewed within components, if it helps.

    Parameters
    ----------
    values : array of shape (n,)
    labels : array of int of shape (n,)
        The most probable component of each row.
    transforms : collection of str
        Those that the numbers allow.
    """
    before = skewness_within(values, labels)
    sizes = {t: abs(skewness_within(transformed(values, t), labels)) for t in transforms}
    best = min(sizes, key=lambda t: sizes[t] + _LOG1P_PAYS * (t == LOG1P), default=None)
    return best if best is not None and sizes[best] < min(_HELPS * before, _MOST_LEFT) else None


def skewness_within(values: Float, labels: Int) -> float:
    """Mean of the skewness of groups, by their sizes; 0 where all have few rows.

    Examples
    --------
    >>> skewness_within(np.repeat([1.0, 2.0, 6.0, 9.0], 20), np.repeat([0, 0, 1, 1], 20))
    0.0
    """
    total, n = 0.0, 0
    for label in np.unique(labels):
        own = values[labels == label]
        offsets = own - own.mean()
        spread = float((offsets**2).mean())
        if len(own) >= _FEWEST_ROWS and spread > 0:
            total += len(own) * float((offsets**3).mean()) / spread**1.5
            n += len(own)
    return total / n if n else 0.0
