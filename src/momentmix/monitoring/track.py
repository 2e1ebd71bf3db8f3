"""`track`: the shares of a model's components in each group of a cube, from moments alone.

Model and cube → `Groups` → `weigh` (moments, weights, intervals, tests: ``shares/``) → `Tracking`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from momentmix.errors import InputError
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.inference.standard_errors import normal_quantile
from momentmix.groups.compare import holm
from momentmix.groups.cube import SummaryCube
from momentmix.monitoring.shares.groups import Group, Groups, weigh
from momentmix.monitoring.shares.tracked_model import TrackedModel
from momentmix.monitoring.tracking import Tracking
from momentmix.monitoring.trends import looks_ordered
from momentmix.parallel import few_threads
from momentmix.progress import check_asked, step
from momentmix.summary.summary import MomentSummary
from momentmix.wording import plural

_ASSUMED_ROWS = 10_000  # of a mixture alone
_SMALL = True  # matrices of at most 170 moments, where BLAS threads are mostly idle


def track(
    model: Any,
    cube: Mapping[Any, MomentSummary] | str | os.PathLike[str],
    *,
    level: float = 0.95,
    model_rows: float | None = None,
    ordered: bool | None = None,
    names: Sequence[str] | None = None,
    progress: bool | None = None,
) -> Tracking:
    """Shares of a model's components in each group of a cube, with the components fixed.

    The moments of a group are linear in the shares. They are found by least squares with the
    covariance that the model gives the moments, non-negative and of sum 1. No rows are needed.

    Parameters
    ----------
    model : Mixture, FitResult, fitted estimator, or path of a model file
        The errors of its components are part of the intervals and of the test. A `FitResult` holds
        them, a model file the number of its rows; see `model_rows` for a `Mixture` alone. Groups
        that the components fit replace them where they have more rows together.
    cube : SummaryCube, path of its file, or dict of keys and MomentSummary
        Columns are matched by name; others are left out.
    level : float, default=0.95
        Of the intervals of the shares.
    model_rows : float, optional
        Rows that a `Mixture` was fitted to; by default as many as the cube holds, but at most
        10,000: of a mixture of more, groups together determine the components about as well.
        ``math.inf`` means components without errors.
    ordered : bool, optional
        Whether the last key is an order, as times are, in which trends are looked for; by default
        it is where its values are dates, numbers, or texts such as 2024-05 and week 31.
    names : sequence of str, optional
        Names of the components; from `Mixture.profile` by default.
    progress : bool, optional
        Whether to show a progress bar on standard error. By default in a terminal or a notebook, if
        it takes longer than a second.

    Returns
    -------
    Tracking
        A row for each group: shares, intervals, and whether the components still fit.

    Examples
    --------
    >>> import momentmix as mm
    >>> means, variances = [[-3.0, 0.0], [3.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]
    >>> def week(number):
    ...     mixture = mm.Mixture.diagonal([0.9 - number / 10, 0.1 + number / 10], means, variances)
    ...     return mm.summarize(mixture.sample(2000, random_state=number)[0])
    >>> model = mm.Mixture.diagonal([0.5, 0.5], means, variances)
    >>> tracking = mm.track(model, {number: week(number) for number in range(5)})
    >>> [round(float(share), 2) for share in tracking.weights[:, 1]]
    [0.1, 0.2, 0.3, 0.4, 0.52]
    """
    z = normal_quantile(level)
    tracked = TrackedModel.of(model)
    if isinstance(cube, str | os.PathLike):
        cube = SummaryCube.load(cube)
    with step("Reading groups", check_asked(progress)):
        groups = Groups(cube, tracked)
    n_rows = np.array([own.n_rows for own in groups.groups], dtype=np.int64)
    if not n_rows.any():
        raise InputError("no group of the cube holds rows; summarize some first.")
    if tracked.n_rows is None or model_rows is not None:
        tracked = _with_rows(tracked, model_rows, int(n_rows.sum()))
    found, keys = groups.groups, [own.key for own in groups.groups]
    with few_threads(_SMALL), step("Tracking groups", progress):
        weigh(groups, tracked, z)
    p_values = np.array([own.test.p_value for own in found])
    fits = ~(holm(p_values) < LEAST_P_VALUE)
    unknown = (np.full(tracked.whole.n_components, np.nan),) * 4
    shares = (own.weights or unknown for own in found)
    weights, low, high, errors = map(np.array, zip(*shares, strict=True))
    is_ordered = looks_ordered([key[-1] for key in keys]) if ordered is None else ordered
    return Tracking(
        groups.key_names, keys, n_rows, weights, low, high, p_values, fits,
        np.array([own.test.effect_size for own in found]),
        tuple(tracked.mixture.profile(names).names), float(level), bool(is_ordered), errors,
        _notes(found, tracked),
    )  # fmt: skip


def _with_rows(tracked: TrackedModel, model_rows: float | None, n_cube: int) -> TrackedModel:
    if model_rows is None:
        return replace(tracked, n_rows=float(min(n_cube, _ASSUMED_ROWS)))
    known: Any = model_rows
    is_number = isinstance(known, int | float | np.integer | np.floating)
    if not is_number or isinstance(known, bool) or not known > 0:
        raise InputError(f"model_rows must be a positive number, or math.inf; got {known!r}.")
    return replace(tracked, result=None, n_rows=None if known == inf else float(known))


def _notes(groups: list[Group], tracked: TrackedModel) -> dict[tuple[Any, ...], str]:
    whole, text = tracked.whole, ""
    names = whole.feature_names or tuple(map(str, range(whole.n_columns)))
    left_out = [name for j, name in enumerate(names) if j not in tracked.columns]
    if left_out:
        text = f"without the joined column{plural(len(left_out))} {', '.join(left_out)}, which "
        text += "have missing cells"
    notes = ((own.key, own.note if own.n_rows else "no rows") for own in groups)
    both = {key: "; ".join(filter(None, [note, text])) for key, note in notes}
    return {key: note for key, note in both.items() if note}
