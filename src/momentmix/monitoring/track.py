"""`track`: the shares of a model's components in each group of a cube, from moments alone.

Data flow: model and cube → `FoundGroups` (moments) → `WeighedGroups` (weights, tests) → `Tracking`.
The mathematics is in ``group_weights.py`` (weights, intervals, test), ``fixed_components.py`` (what
the components say of moments), ``shared_errors.py`` (what groups together say of the components),
``moved_columns.py`` (what does not fit) and ``shrinkage.py`` (the whole as prior).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.findings.messages import Message, options
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.inference.standard_errors import normal_quantile
from momentmix.monitoring.shares.found_groups import FoundGroups
from momentmix.monitoring.shares.group_moments import Groups
from momentmix.monitoring.shares.moved_columns import MovedColumns, Unexplained
from momentmix.monitoring.shares.shrinkage import Prior, shrink
from momentmix.monitoring.shares.tracked_model import TrackedModel
from momentmix.monitoring.shares.weighed_groups import WeighedGroups
from momentmix.monitoring.track_words import looks_ordered
from momentmix.monitoring.tracking import Tracking
from momentmix.parallel import few_threads
from momentmix.progress import check_asked, step
from momentmix.summary.summary import MomentSummary
from momentmix.wording import plural

_ASSUMED_ROWS = 10_000  # of a mixture alone
_SMALL = True  # matrices of at most 170 moments, on which BLAS threads mostly wait for each other
_MOST_EXPLAINED = 200  # groups that do not fit, of which it is said where


def track(
    model: Any,
    cube: Mapping[Any, MomentSummary] | str | os.PathLike[str],
    *,
    level: float = 0.95,
    prior: Literal["whole"] | None = None,
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
        The errors of its components are part of the intervals and of the test. A `FitResult` knows
        them, a model file the number of its rows; see `model_rows` for a `Mixture` alone. Groups
        that the components fit tell more about them where they have more rows together.
    cube : SummaryCube, path of its file, or dict of keys and MomentSummary
        Columns are matched by name; those that the model has not are left out.
    level : float, default=0.95
        Of the intervals of the shares.
    prior : {"whole"}, optional
        Shrink the shares of small groups to the mean of all groups, as far as the groups differ no
        more than their noise says. Groups that have no shares, as those in other units, take no
        part. Tests are the same.
    model_rows : float, optional
        Rows that a `Mixture` was fitted to; by default as many as the cube holds, but at most
        10,000: of a mixture of more, groups together tell the components about as well.
        ``math.inf`` stands for components that are known exactly.
    ordered : bool, optional
        Whether the last key is an order, as times are, in which trends are looked for; by default
        it is where its values are dates, numbers, or texts such as 2024-05 and week 31.
    names : sequence of str, optional
        Names of the components; those of `Mixture.profile` by default.
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
    ...     mixture = mm.DiagonalMixture([0.9 - number / 10, 0.1 + number / 10], means, variances)
    ...     return mm.summarize(mixture.sample(2000, random_state=number)[0])
    >>> model = mm.DiagonalMixture([0.5, 0.5], means, variances)
    >>> tracking = mm.track(model, {number: week(number) for number in range(5)})
    >>> [round(float(share), 2) for share in tracking.weights[:, 1]]
    [0.1, 0.2, 0.3, 0.4, 0.52]
    """
    z = normal_quantile(level)
    if prior not in (None, "whole"):
        raise InputError(f'prior must be "whole" or None; got {prior!r}.')
    tracked = TrackedModel.of(model)
    if isinstance(cube, str | os.PathLike):
        cube = _loaded(cube)
    with step("Reading groups", check_asked(progress)):
        groups = Groups.of(cube, tracked.mixture)
    n_rows = np.array([own.n_rows for own in groups.facts], dtype=np.int64)
    if not n_rows.any():
        raise InputError("no group of the cube holds rows; summarize some first.")
    if tracked.n_rows is None or model_rows is not None:
        tracked = _with_rows(tracked, model_rows, int(n_rows.sum()))
    tracked, groups, left_out = _without_joined_missing(tracked, groups)
    with few_threads(_SMALL), step("Tracking groups", progress):
        found = FoundGroups.of(tracked, groups)
        weighed = WeighedGroups(found, z)
    law = _shrink(found, weighed, z) if prior == "whole" else None
    p_values = np.array([own.test.p_value for own in found.found])
    fits = _accepted(p_values)
    profile_names = tuple(tracked.mixture.profile(names).names)
    tables = _tables(found)
    is_ordered = looks_ordered([key[-1] for key in groups.keys]) if ordered is None else ordered
    return Tracking(
        groups.key_names, groups.keys, n_rows, tables.weights, tables.low, tables.high,
        p_values, fits, np.array([own.test.effect_size for own in found.found]),
        profile_names, float(level), bool(is_ordered), tables.errors, _notes(found, left_out),
        _explained(found, weighed, fits), law, tracked.mixture,
    )  # fmt: skip


def _loaded(path: str | os.PathLike[str]) -> Mapping[Any, MomentSummary]:
    from momentmix.cube.cube import SummaryCube

    cube: Mapping[Any, MomentSummary] = SummaryCube.load(path)
    return cube


def _with_rows(tracked: TrackedModel, model_rows: float | None, n_cube: int) -> TrackedModel:
    if model_rows is None:
        return replace(tracked, n_rows=float(min(n_cube, _ASSUMED_ROWS)))
    known: Any = model_rows
    if (
        isinstance(known, bool)
        or not isinstance(known, int | float | np.integer | np.floating)
        or not known > 0
    ):
        raise InputError(f"model_rows must be a positive number, or math.inf; got {known!r}.")
    return replace(tracked, result=None, n_rows=None if known == inf else float(known))


def _without_joined_missing(
    tracked: TrackedModel, groups: Groups
) -> tuple[TrackedModel, Groups, list[str]]:
    """Leave out joined columns with missing cells: their products are no moments of the model."""
    lost = set[int]()
    for block in tracked.mixture.blocks:
        if len(block.columns) > 1:
            lost |= {j for j in block.columns if tracked.mixture.columns[j].has_missing}
    if not lost:
        return tracked, groups, []
    n_columns = tracked.mixture.n_columns
    kept = [j for j in range(n_columns) if j not in lost]
    if not kept:
        text = (
            "all columns of the model are joined and have missing cells, and the moments of such "
            "columns do not tell shares. Fit without blocks, or with "
        )
        raise InputError(Message(text, options(missing="drop"), "."))
    names = tracked.mixture.feature_names or tuple(map(str, range(n_columns)))
    left_out = [names[j] for j in sorted(lost)]
    return tracked.select(kept), groups.select(kept), left_out


@few_threads(_SMALL)
def _shrink(groups: FoundGroups, weighed: WeighedGroups, z: float) -> Prior | None:
    """Put weights with the whole as prior in place of those of each group alone."""
    known = [(own, own.weights) for own in groups.found if own.weights is not None]
    if len(known) < 2 or groups.tracked.mixture.n_components == 1:
        return None
    total = sum(own.n for own, _ in known)
    start = sum(own.n / total * weights.weights for own, weights in known)
    law, answers = shrink([weighed.estimator(own) for own, _ in known], np.asarray(start))
    for (own, weights), answer in zip(known, answers, strict=True):
        if answer is None:
            continue
        half = z * np.sqrt(np.maximum(np.diagonal(answer.covariance), 0.0))
        low, high = np.maximum(answer.weights - half, 0.0), np.minimum(answer.weights + half, 1.0)
        own.weights = replace(weights, weights=answer.weights, low=low, high=high)
    return law


@few_threads(_SMALL)
def _explained(
    groups: FoundGroups, weighed: WeighedGroups, fits: Any
) -> dict[tuple[Any, ...], Unexplained]:
    """What the components do not explain in groups that they do not fit."""
    answers, moved = dict[tuple[Any, ...], Unexplained](), None
    for own, key, is_fit in zip(groups.found, groups.groups.keys, fits, strict=True):
        if is_fit or own.weights is None or len(answers) >= _MOST_EXPLAINED:
            continue
        moved = moved or MovedColumns(groups.tracked.mixture, groups.schema)
        assert own.moments is not None
        components, w = weighed.components(own), own.weights.weights
        answers[key] = moved.find(components, own.moments, own.n, w, own.test)
    return answers


def _accepted(p_values: Float) -> Any:
    """Groups that are not rejected by Holm's rule at 1 % over all groups."""
    fits = np.ones(len(p_values), dtype=bool)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    for rank, g in enumerate(order.tolist()):
        if p_values[g] * (len(order) - rank) >= LEAST_P_VALUE:
            break
        fits[g] = False
    return fits


class _Tables(NamedTuple):
    """Weights of all groups, of shape (n_groups, r) each; NaN where they are not known."""

    weights: Float
    low: Float
    high: Float
    errors: Float


def _tables(groups: FoundGroups) -> _Tables:
    unknown = np.full(groups.tracked.mixture.n_components, np.nan)
    rows = []
    for own in groups.found:
        w = own.weights
        if w is None:
            rows.append((unknown,) * 4)
        else:
            rows.append((w.weights, w.low, w.high, np.sqrt(np.maximum(np.diagonal(w.noise), 0))))
    return _Tables(*(np.array(column) for column in zip(*rows, strict=True)))


def _notes(groups: FoundGroups, left_out: list[str]) -> dict[tuple[Any, ...], str]:
    """What is to be said of single groups."""
    keys = groups.groups.keys
    notes = {key: own.note for key, own in zip(keys, groups.found, strict=True) if own.note}
    if left_out:
        text = f"without the joined column{plural(len(left_out))} {', '.join(left_out)}, which "
        text += "have missing cells"
        notes = {key: "; ".join(filter(None, [notes.get(key), text])) for key in keys}
    return notes
