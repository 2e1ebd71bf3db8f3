"""Shares over groups in sentences: what rose, what fell, what differs, what does not fit.

A trend is the slope of a weighted regression of the share on the place of the group in its order.
Its standard error is that of the residuals where they scatter more than the shares' own errors. In
groups without an order the test is that of equal shares (χ² of Cochran). p-values are corrected by
Holm's rule over all components and series; only what is below 5 % is said.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, stdtr

from momentmix._typing import Float
from momentmix.fitting.inference.standard_errors import normal_quantile
from momentmix.monitoring.shares.group_moments import key_text
from momentmix.monitoring.tracking import Tracking
from momentmix.monitoring.tracking_text import group_label, misfits
from momentmix.wording import percent

SAID = 0.05  # p-value, corrected
_FEWEST = 3  # groups with rows: fewer have no trend
_MOST_SAID = 8  # groups that are named one by one
_LEAST_CHANGE = 0.005  # of a share: smaller changes are no news
_LEVEL = 0.95  # of the intervals that tell which groups are surely low and high


class _Change(NamedTuple):
    p_value: float
    text: str


def sentences_of(tracking: Tracking) -> list[str]:
    """All sentences: changes first, then groups that do not fit."""
    found = _changes(tracking)
    order = np.argsort([change.p_value for change in found], kind="stable")
    kept, count = [], len(found)
    for rank, place in enumerate(order.tolist()):  # Holm
        if found[place].p_value * (count - rank) >= SAID:
            break
        kept.append(place)
    said = [found[place].text for place in sorted(kept) if found[place].text]
    return said + _misfits(tracking)


def _changes(tracking: Tracking) -> list[_Change]:
    known = np.asarray(np.isfinite(tracking.weights).all(axis=1))
    if 2 * (known & tracking.fits).sum() >= known.sum():
        known &= tracking.fits  # shares of components that do not fit say little
    series = dict[tuple[Any, ...], list[int]]()
    for name, groups in series_of(tracking).items():
        series[name] = [g for g in groups if known[g]]
    found = list[_Change]()
    for c in range(tracking.n_components if tracking.n_components > 1 else 0):
        label = f"the share of component {c} ({tracking.names[c]})"
        for name, groups in series.items():
            shares = tracking.weights[groups, c]
            errors = np.maximum(tracking.errors[groups, c], 1e-9)
            if tracking.is_ordered and len(groups) >= _FEWEST:
                where = f"{key_text(name)}: " if name else ""
                found.append(_trend(where + label, shares, errors))
            elif not tracking.is_ordered and len(groups) > 1:
                keys = [key_text(tracking.keys[g]) for g in groups]
                found.append(_difference(label, shares, errors, keys))
    return found


def _trend(label: str, shares: Float, errors: Float) -> _Change:
    """Weighted regression on the place in the order."""
    n = len(shares)
    x, weights = np.arange(n, dtype=float), 1.0 / errors**2
    weights = weights / weights.max()
    center = weights @ x / weights.sum()
    mean = weights @ shares / weights.sum()
    spread = float(weights @ (x - center) ** 2)
    slope = float(weights @ ((x - center) * (shares - mean))) / spread
    rest = shares - mean - slope * (x - center)
    unit = float(errors.min()) ** 2  # variance of a group of weight 1
    scatter = float(weights @ rest**2) / max(n - 2, 1)
    error = np.sqrt(max(scatter, unit) / spread)
    p = 2.0 * float(stdtr(max(n - 2, 1), -abs(slope) / error))
    third = max(1, n // 3)
    first = float(np.average(shares[:third], weights=weights[:third]))
    last = float(np.average(shares[-third:], weights=weights[-third:]))
    if abs(last - first) < _LEAST_CHANGE or (last - first) * slope < 0:
        return _Change(p, "")
    word = "rose" if last > first else "fell"
    ends = f"from {percent(first).removesuffix(' %')} to {percent(last)}"
    return _Change(p, f"{label} {word} {ends}")


def _difference(label: str, shares: Float, errors: Float, keys: list[str]) -> _Change:
    """Cochran's test of equal shares."""
    weights = 1.0 / errors**2
    mean = weights @ shares / weights.sum()
    p = float(chdtrc(len(shares) - 1, float(weights @ (shares - mean) ** 2)))
    low, high = _extremes(shares, errors)
    if shares[high] - shares[low] < _LEAST_CHANGE:
        return _Change(p, "")
    ends = [f"{percent(float(shares[i]))} ({keys[i]})" for i in (low, high)]
    return _Change(p, f"{label} differs: from {ends[0]} to {ends[1]}")


def _extremes(values: Float, errors: Float) -> tuple[int, int]:
    """The groups that are surely low and high: those of the lowest upper end, the highest lower.

    The least and the largest value are mostly those of groups of few rows.
    """
    half = normal_quantile(_LEVEL) * errors
    low, high = int(np.argmin(values + half)), int(np.argmax(values - half))
    if values[low] < values[high]:
        return low, high
    middle = float(np.average(values, weights=1.0 / errors**2))
    apart = (values - middle) / errors  # no single group is sure
    return int(np.argmin(apart)), int(np.argmax(apart))


def _misfits(tracking: Tracking) -> list[str]:
    """Groups that the components do not fit, the largest misfit first."""
    bad = misfits(tracking)
    tested = int((~np.isnan(tracking.p_value)).sum())
    texts = []
    if len(bad) >= _FEWEST and 2 * len(bad) > tested:
        texts.append(
            f"the components do not fit {len(bad):,} of {tested:,} groups that were tested: look "
            "first at the certificate of the model, whether it fits its own rows"
        )
    for g in bad[:_MOST_SAID]:
        key = tracking.keys[g]
        extra = tracking.unexplained.get(key)
        text = "the components do not fit" if extra is None else extra.text
        texts.append(f"in {group_label(tracking, key)} {text}")
    if len(bad) > _MOST_SAID:
        texts.append(f"in {len(bad) - _MOST_SAID} more groups the components do not fit")
    return texts


# -- order ------------------------------------------------------------------------------------


def series_of(tracking: Tracking) -> dict[tuple[Any, ...], list[int]]:
    """Numbers of the groups in their order, by all keys but the last; one series without order."""
    series = dict[tuple[Any, ...], list[int]]()
    if not tracking.is_ordered:
        return {(): list(range(len(tracking)))}
    for g, key in enumerate(tracking.keys):
        series.setdefault(key[:-1], []).append(g)
    return {
        name: sorted(groups, key=lambda g: place_of(tracking.keys[g][-1]))
        for name, groups in series.items()
    }


def place_of(value: Any) -> tuple[Any, ...]:
    """What a key is sorted by: numbers within texts count as numbers, missing values come last.

    Values of different types are sorted by type.

    Examples
    --------
    >>> sorted(["week 10", "week 9", None], key=place_of)
    ['week 9', 'week 10', None]
    """
    if isinstance(value, str):
        parts = re.split(r"(\d+)", value)
        return (0, "text", *(int(x) if i % 2 else x for i, x in enumerate(parts)))
    kind = "number" if isinstance(value, Real) else type(value).__name__
    return (1,) if value is None else (0, kind, value)


_TIME = re.compile(
    r"\s*(\d{4}([-/.]?(q[1-4]|w?\d{1,2})([-/.]\d{1,2})?)?([t ]\d.*)?|(week|day|month|year|w|q|kw)"
    r"[ _-]*\d+)\s*",
    re.IGNORECASE,
)


def looks_ordered(values: list[Any]) -> bool:
    """Whether the values of a key are times or numbers: dates, weeks, 2024-05, week 31.

    Examples
    --------
    >>> looks_ordered(["2024-W01", "2024-W02"]), looks_ordered(["EU", "US"]), looks_ordered([3, 4])
    (True, False, True)
    """
    known = [value for value in values if value is not None]
    if not known or any(isinstance(value, bool) for value in known):
        return False
    if all(isinstance(value, int | float | date | datetime | np.generic) for value in known):
        return not any(isinstance(value, np.bool_ | np.str_) for value in known)
    return all(isinstance(value, str) and _TIME.fullmatch(value) for value in known)
