"""Findings in shares over groups: trends, differences, and groups that do not fit.

A trend is the slope of a weighted regression of the share on the place of the group in its order.
Its standard error is that of the residuals where they scatter more than the shares' own errors. In
groups without an order the test is that of equal shares (χ² of Cochran). p-values are corrected by
Holm's rule over all components and series; only what is below 5 % is a finding.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtrc, stdtr

from momentmix._typing import Float
from momentmix.findings.finding import WARNING, Finding, found
from momentmix.fitting.inference.standard_errors import normal_quantile
from momentmix.groups.compare import holm
from momentmix.monitoring.shares.groups import key_text

if TYPE_CHECKING:
    from momentmix.monitoring.tracking import Tracking

_SAID = 0.05  # p-value, corrected
_FEWEST = 3  # groups with rows: fewer have no trend
_MOST_SAID = 8  # groups that are named one by one
_LEAST_CHANGE = 0.005  # of a share: smaller changes are no news
_LEVEL = 0.95  # of the intervals that decide which groups are low and high


def findings_of(tracking: Tracking) -> list[Finding]:
    """All findings: changes of shares first, then groups that do not fit."""
    p_values, changes = list[float](), list[Finding | None]()
    known = np.asarray(np.isfinite(tracking.weights).all(axis=1))
    if 2 * (known & tracking.fits).sum() >= known.sum():
        known &= tracking.fits  # shares of components that do not fit say little
    for c in range(tracking.n_components if tracking.n_components > 1 else 0):
        for series, every in tracking.series().items():
            groups = [g for g in every if known[g]]
            if len(groups) < (_FEWEST if tracking.is_ordered else 2):
                continue
            shares = tracking.weights[groups, c]
            errors = np.maximum(tracking.errors[groups, c], 1e-9)
            if tracking.is_ordered:
                p, numbers = _trend(shares, errors)
                kind, numbers["series"] = "share-trend", key_text(series)
            else:
                p, numbers = _difference(shares, errors)
                kind, ends = "share-difference", (numbers.pop("low"), numbers.pop("high"))
                low, high = (key_text(tracking.keys[groups[end]]) for end in ends)
                numbers |= {"low": low, "high": high}
            change = found(WARNING, kind, components=[c], name=tracking.names[c], **numbers)
            is_news = abs(numbers["effect"]) >= _LEAST_CHANGE and not numbers.get("is_mixed")
            p_values.append(p)
            changes.append(change if is_news else None)
    is_sure = holm(np.array(p_values)) < _SAID
    said = [change for change, sure in zip(changes, is_sure, strict=True) if change and sure]
    return said + _misfits(tracking)


def _trend(shares: Float, errors: Float) -> tuple[float, dict[str, Any]]:
    """Weighted regression on the place in the order: p-value of the slope, and both ends."""
    n = len(shares)
    x, weights = np.arange(n), 1.0 / errors
    line, covariance = np.polyfit(x, shares, 1, w=weights, cov="unscaled")
    scatter = (((shares - np.polyval(line, x)) * weights) ** 2).sum() / max(n - 2, 1)
    slope, error = float(line[0]), np.sqrt(covariance[0, 0] * max(scatter, 1.0))
    p = 2.0 * float(stdtr(max(n - 2, 1), -abs(slope) / error))
    third = max(1, n // 3)
    first, last = (
        float(np.average(shares[own], weights=weights[own] ** 2))
        for own in (slice(third), slice(-third, None))
    )
    is_mixed = (last - first) * slope < 0
    return p, {"first": first, "second": last, "effect": last - first, "is_mixed": is_mixed}


def _difference(shares: Float, errors: Float) -> tuple[float, dict[str, Any]]:
    """Cochran's test of equal shares: its p-value, and the groups that are surely low and high."""
    weights = 1.0 / errors**2
    mean = weights @ shares / weights.sum()
    p = float(chdtrc(len(shares) - 1, float(weights @ (shares - mean) ** 2)))
    # By the ends of intervals: the least and the largest share are mostly of groups of few rows.
    half = normal_quantile(_LEVEL) * errors
    low, high = int(np.argmin(shares + half)), int(np.argmax(shares - half))
    if not shares[low] < shares[high]:  # no single group is sure
        apart = (shares - float(np.average(shares, weights=weights))) / errors
        low, high = int(np.argmin(apart)), int(np.argmax(apart))
    first, last = float(shares[low]), float(shares[high])
    return p, {"first": first, "second": last, "effect": last - first, "low": low, "high": high}


def _misfits(tracking: Tracking) -> list[Finding]:
    """Groups that the components do not fit, the largest misfit first."""
    bad = tracking.misfits()
    tested = int((~np.isnan(tracking.p_value)).sum())
    findings = []
    if len(bad) >= _FEWEST and 2 * len(bad) > tested:
        findings.append(found(WARNING, "most-groups-misfit", n_groups=len(bad), tested=tested))
    labels = [tracking.group_label(tracking.keys[g]) for g in bad[:_MOST_SAID]]
    findings += [found(WARNING, "group-misfit", group=label) for label in labels]
    if len(bad) > _MOST_SAID:
        findings.append(found(WARNING, "more-groups-misfit", more=len(bad) - _MOST_SAID))
    return findings


# -- order ------------------------------------------------------------------------------------


def place_of(value: Any) -> tuple[Any, ...]:
    """Return the sort key of a value: by type, numbers within texts as numbers, None last."""
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
    """Return whether the values of a key are times or numbers: dates, weeks, 2024-05, week 31."""
    known = [value for value in values if value is not None]
    if not known or any(isinstance(value, bool) for value in known):
        return False
    if all(isinstance(value, int | float | date | datetime | np.generic) for value in known):
        return not any(isinstance(value, np.bool_ | np.str_) for value in known)
    return all(isinstance(value, str) and _TIME.fullmatch(value) for value in known)
