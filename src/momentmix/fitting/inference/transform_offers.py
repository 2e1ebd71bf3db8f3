"""Which columns that do not follow a mixture may be Gaussian within components after a log.

With rows, the skewness within components is computed before and after. Moments of the numbers say
nothing about those of their logarithms, and a fit that is wrong says little about skewness within
components: there a column must be positive, reach far, and be skewed as a whole.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.schema.transforms import LOG, LOG1P, transformed

TO_THE_RIGHT = "skewed to the right"
_FEWEST_ROWS = 20  # of a component, whose skewness has an error of 0.5 then
_HELPS = 0.5  # times the skewness that there was, at most
_LOG1P_PAYS = 0.1  # skewness; of large numbers both logarithms are the same
# Of a column as a whole. Exponential numbers have a skewness of 2, lognormal ones that reach over a
# factor of 10 one of about 1, and two equal clusters 3 deviations apart at most 0.8.
_LEAST_SKEWNESS, _LEAST_RATIO = 1.0, 5.0


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
    if not possible or moments.powers is None or not moments.powers[0, feature] > _LEAST_SKEWNESS:
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
    return best if best is not None and sizes[best] < _HELPS * before else None


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


def offer_text(moments: StandardMoments, offers: dict[int, str]) -> str:
    """What to write, and what else to do."""
    listed = ", ".join(f"{moments.column_name(j)}: {offers[j]!r}" for j in offers)
    return f"Try logarithms, families={{{listed}}}, or leave out"
