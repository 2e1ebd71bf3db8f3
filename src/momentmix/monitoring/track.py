"""`track`: the shares of a model's components in each group of a cube, from moments alone.

The mathematics is in ``group_weights.py`` (weights, intervals, test), ``fixed_components.py`` (what
the components say of moments), ``shared_errors.py`` (what groups together say of the components)
and ``shrinkage.py`` (the whole as prior).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from typing import Any, Literal

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.inference.standard_errors import normal_quantile
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.monitoring.group_means import (
    GroupMeans,
    group_means,
    moving_columns,
    moving_features,
)
from momentmix.monitoring.shares.component_sets import FEW_ROWS, ComponentSets
from momentmix.monitoring.shares.fixed_components import FixedComponents, Shape
from momentmix.monitoring.shares.group_moments import Groups, read, read_flat
from momentmix.monitoring.shares.group_weights import (
    FitTest,
    GroupWeights,
    check_fit,
    estimate,
    linear_weights,
    settled_weights,
)
from momentmix.monitoring.shares.mean_spreads import find_spreads
from momentmix.monitoring.shares.moved_means import (
    FEW_TO_MOVE,
    GroupMoments,
    MovedGroup,
    MovedMeans,
)
from momentmix.monitoring.shares.shared_errors import Part, find_shared_errors
from momentmix.monitoring.shares.shrinkage import Estimator, Prior, shrink
from momentmix.monitoring.shares.tracked_model import StandardComponents, TrackedModel
from momentmix.monitoring.shares.unseen import Unexplained, Unseen
from momentmix.monitoring.track_words import looks_ordered
from momentmix.monitoring.tracking import Tracking
from momentmix.progress import check_asked, counting, step
from momentmix.rows.names import column_label
from momentmix.schema.schema import Schema
from momentmix.summary.summary import MomentSummary
from momentmix.wording import plural

_FAR = 1e15  # a statistic beyond is that of values in other units, or of wild rows
_ASSUMED_ROWS = 10_000  # of a mixture alone
_AT_ONCE = 256  # groups whose moments are read together
_MOST_USED = 300  # groups, the largest, that tell the errors of the components
_MOST_EXPLAINED = 200  # groups that do not fit, of which it is said where


def track(
    model: Any,
    cube: Mapping[Any, MomentSummary] | str | os.PathLike[str],
    *,
    level: float = 0.95,
    prior: Literal["whole"] | None = None,
    means: Literal["fixed", "group"] = "fixed",
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
    means : {"fixed", "group"}
        "group" gives each group means of its own in columns of numbers, drawn to those of the
        model as far as the groups differ no more than their noise says (`Tracking.means`). Shares
        are then those of the moved components, and the test asks whether components that differ
        between groups as far as these do explain the group.
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
    if means not in ("fixed", "group"):
        raise InputError(f'means must be "fixed" or "group"; got {means!r}.')
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
    work = _Work.of(tracked, groups, FEW_TO_MOVE if means == "group" else FEW_ROWS)
    own_means, law = None, None
    with step("Tracking groups", progress):
        found = work.read()
        if means == "group":
            work = work.moving(found)
            own_means = work.move(found, z)
        else:
            work = work.corrected(found)
            work.weigh(found, z)
    if prior == "whole":
        law = work.shrink(found, z)
    profile_names = tuple(tracked.mixture.profile(names).names)
    fits = _accepted(np.array([own.test.p_value for own in found]))
    unexplained = work.explained(found, fits, profile_names)
    r = tracked.mixture.n_components
    values = [[part(own, r) for own in found] for part in (_weights, _low, _high, _errors)]
    weights, low, high, errors = (np.array(table) for table in values)
    notes = {groups.keys[g]: own.note for g, own in enumerate(found) if own.note}
    if left_out:
        text = f"without the joined column{plural(len(left_out))} {', '.join(left_out)}, which "
        text += "have missing cells"
        notes = {key: "; ".join(filter(None, [notes.get(key), text])) for key in groups.keys}
    is_ordered = looks_ordered([key[-1] for key in groups.keys]) if ordered is None else ordered
    return Tracking(
        groups.key_names, groups.keys, n_rows, weights, low, high,
        np.array([own.test.p_value for own in found]), fits,
        np.array([own.test.effect_size for own in found]),
        profile_names, float(level), bool(is_ordered), errors, notes, unexplained, law,
        tracked.mixture, own_means,
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
        if isinstance(block, GaussianBlock) and len(block.columns) > 1:
            lost |= {j for j in block.columns if tracked.mixture.columns[j].has_missing}
    if not lost:
        return tracked, groups, []
    n_columns = tracked.mixture.n_columns
    kept = [j for j in range(n_columns) if j not in lost]
    if not kept:
        raise InputError(
            "all columns of the model are joined and have missing cells, and the moments of such "
            "columns do not tell shares. Fit without blocks, or with missing='drop'."
        )
    names = tracked.mixture.feature_names or tuple(map(str, range(n_columns)))
    left_out = [names[j] for j in sorted(lost)]
    return tracked.select(kept), groups.select(kept), left_out


@dataclass
class _Found:
    """What was found of one group."""

    n: float
    degree: int
    moments: Float | None
    weights: GroupWeights | None
    test: FitTest
    note: str = ""
    start: GroupMoments | None = None
    moved: MovedGroup | None = None


_UNTESTED = FitTest(float("nan"), 0, float("nan"), float("nan"))


@dataclass(frozen=True)
class _Work:
    """Model, groups, and the moments that are used."""

    tracked: TrackedModel
    groups: Groups
    schema: Schema | None
    model: StandardComponents
    sets: ComponentSets
    moved: MovedMeans | None = None

    @classmethod
    def of(cls, tracked: TrackedModel, groups: Groups, few_rows: int) -> _Work:
        schema = groups.schema(tracked.mixture)
        model = tracked.standard(schema)
        sizes = [own.n_effective for own in groups.facts if own.n_rows]
        sets = ComponentSets(model, _shape(groups, schema, model, 4), few_rows)
        if max(sets.degree_for(n) for n in sizes) <= 3:  # fewer moments are read in less time
            sets = ComponentSets(model, _shape(groups, schema, model, 3), few_rows)
        return cls(tracked, groups, schema, model, sets)

    def read(self) -> list[_Found]:
        """Moments of all groups."""
        found, summaries = list[_Found](), self.groups.summaries()
        with counting("Reading groups", len(self.groups.facts), "groups") as count:
            while chunk := list(islice(summaries, _AT_ONCE)):
                own = [summary for summary in chunk if summary.n_rows]
                flat = iter(self._flat(own) if own else np.empty(0))
                found += [self._group(s, next(flat) if s.n_rows else None) for s in chunk]
                count(len(chunk))
        return found

    def _flat(self, summaries: list[MomentSummary]) -> Float:
        model = self.model
        return read_flat(summaries, self.sets.shape, self.schema, model.shift, model.scale)

    def _group(self, summary: MomentSummary, flat: Float | None) -> _Found:
        """The moments of one group that are used."""
        if flat is None:
            return _Found(0.0, 0, None, None, _UNTESTED, "no rows")
        n, note = summary.effective_rows, self._varying(summary)
        degree: int | None = self.sets.degree_for(n)
        while degree is not None:
            moments = flat[self.sets.of(degree).positions]
            if np.isfinite(moments).all():
                return _Found(n, degree, moments, None, _UNTESTED, note)
            degree = self.sets.lower(degree)
        text = "values so far away that their powers are not known"
        return _Found(n, 0, None, None, _UNTESTED, text)

    def weigh(self, found: list[_Found], z: float) -> None:
        """Weights, intervals and tests of all groups."""
        with counting("Tracking groups", len(found), "groups") as count:
            for own in found:
                if own.moments is not None:
                    components, draws = self.sets.of(own.degree), self.sets.draws(own.degree)
                    own.weights = estimate(components, own.moments, own.n, z)
                    w = own.weights.weights
                    own.test = check_fit(components, own.moments, own.n, w, draws)
                count(1)

    def corrected(self, found: list[_Found]) -> _Work:
        """The same with the errors of the components that the groups tell."""
        if self.model.factor is None:
            return self
        known = [own for own in found if own.moments is not None]
        largest = sorted(known, key=lambda own: -own.n)[:_MOST_USED]
        errors = find_shared_errors(filter(None, map(self._part, largest)))
        return self if errors is None else replace(self, sets=self.sets.corrected(errors))

    def _part(self, own: _Found) -> Part | None:
        """A group for the errors of the components, if they fit it."""
        components, moments = self.sets.of(own.degree), own.moments
        assert moments is not None
        weights = settled_weights(components, moments, own.n)
        for draws in (None, self.sets.draws(own.degree)):  # the latter take long, and raise it
            if not check_fit(components, moments, own.n, weights, draws).p_value < LEAST_P_VALUE:
                break
        else:
            return None
        return Part(components, moments, own.n, weights)

    def _varying(self, summary: MomentSummary) -> str:
        """What is to be said of columns that are constant in the model and vary in a group."""
        constant = list(self.model.constant)
        wrong = [j for j in constant if summary.minimum[j] != summary.maximum[j]]
        if not wrong:
            return ""
        names = self.tracked.mixture.feature_names
        labels = ", ".join(column_label(self._column(j), names) for j in wrong)
        return f"{labels} was constant in the model and is not here; it takes no part"

    def _column(self, feature: int) -> int:
        return feature if self.schema is None else self.schema.column_of[feature]

    def moving(self, found: list[_Found]) -> _Work:
        """The same with components whose means differ between groups."""
        columns = self._moving_columns()
        if not columns:
            raise InputError(
                'means="group" needs a column of numbers that varies and has no missing cells; '
                "the model has none."
            )
        features = moving_features(columns, self.schema)
        for own in found:
            if own.moments is not None:
                w = settled_weights(self.sets.of(own.degree), own.moments, own.n)
                own.start = GroupMoments(own.degree, own.moments, own.n, w)
        groups = [own.start for own in found if own.start is not None]
        return replace(
            self, moved=MovedMeans(self.sets, features, *find_spreads(self.sets, features, groups))
        )

    def _moving_columns(self) -> list[int]:
        constant = {self._column(feature) for feature in self.model.constant}
        return [j for j in moving_columns(self.tracked.mixture) if j not in constant]

    def move(self, found: list[_Found], z: float) -> GroupMeans:
        """Put weights and tests with means of their own in place of those of fixed components."""
        assert self.moved is not None
        with counting("Tracking groups", len(found), "groups") as count:
            for own in found:
                if own.start is not None:
                    own.moved = self.moved.group(own.start)
                    own.weights = self.moved.weights_of(own.start, own.moved, z)
                    own.test = self.moved.check(own.start, own.moved)
                count(1)
        mixture, columns = self.tracked.mixture, self._moving_columns()
        moves = [own.moved for own in found]
        return group_means(self.groups, moves, self.moved, self.model, mixture, columns, z)

    def shrink(self, found: list[_Found], z: float) -> Prior | None:
        """Put weights with the whole as prior in place of those of each group alone."""
        known = _known(found)
        r = self.tracked.mixture.n_components
        if len(known) < 2 or r == 1:
            return None
        estimators: list[Estimator] = [self._estimator(own) for own in known]
        total = sum(own.n for own in known)
        start = sum(own.n / total * own.weights.weights for own in known if own.weights)
        law, answers = shrink(estimators, np.asarray(start))
        for own, answer in zip(known, answers, strict=True):
            if answer is None:
                continue
            half = z * np.sqrt(np.maximum(np.diagonal(answer.covariance), 0.0))
            low, high = answer.weights - half, answer.weights + half
            assert own.weights is not None
            own.weights = replace(
                own.weights,
                weights=answer.weights,
                low=np.maximum(low, 0.0),
                high=np.minimum(high, 1.0),
            )
        return law

    def explained(
        self, found: list[_Found], fits: Any, names: tuple[str, ...]
    ) -> dict[tuple[Any, ...], Unexplained]:
        """What the components do not explain in groups that they do not fit."""
        unseen, answers = None, dict[tuple[Any, ...], Unexplained]()
        for g, own in enumerate(found):
            if fits[g] or own.moments is None or len(answers) >= _MOST_EXPLAINED:
                continue
            unseen = unseen or Unseen(self.tracked.mixture, self.model, self.schema, names)
            assert own.weights is not None
            excess = own.test.statistic - own.test.degrees_of_freedom
            components, moments = self._nearest(own)
            answers[self.groups.keys[g]] = (
                unseen.explain(components, moments, own.n, own.weights.weights, excess)
                if excess < _FAR
                else unseen.far(components, moments)
            )
        return answers

    def _nearest(self, own: _Found) -> tuple[FixedComponents, Float]:
        """The components that a group was tested with, and its moments."""
        assert own.moments is not None
        if self.moved is None or own.moved is None or own.start is None:
            return self.sets.of(own.degree), own.moments
        near = self.moved.components(own.degree, own.moved.moves)
        return near, self.moved.target(own.start, near, own.moved.weights, own.moved.moves)

    def _estimator(self, own: _Found) -> Estimator:
        moved, start, place = self.moved, own.start, own.moved
        if moved is not None and start is not None and place is not None:
            return lambda at: moved.linear_weights(start, place, at)
        moments = own.moments
        assert moments is not None
        return lambda at: linear_weights(self.sets.of(own.degree), moments, own.n, at)


def _shape(groups: Groups, schema: Schema | None, model: StandardComponents, order: int) -> Shape:
    """The moments up to an order that all groups hold."""
    left = {own.layout for own in groups.facts if own.n_rows}
    shapes = list[Shape]()
    for own, summary in zip(groups.facts, groups.summaries(), strict=True):
        if own.n_rows and own.layout in left:
            with suppress(InputError):  # of values so far away that the next group is asked
                shapes.append(Shape.of(read(summary, order, schema, model.shift, model.scale)))
                left.remove(own.layout)
        if not left:
            break
    if not shapes:
        raise InputError(
            "values of all groups lie so far from those of the model that their moments are not "
            "known; are the units the same?"
        )
    return Shape(
        shapes[0].n_features,
        min(shape.order for shape in shapes),
        min(shape.squared_order for shape in shapes),
        all(shape.has_powers for shape in shapes),
        all(shape.has_pairs for shape in shapes),
    )


def _known(found: list[_Found]) -> list[_Found]:
    """Groups whose weights are known."""
    return [own for own in found if own.weights is not None]


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


def _weights(own: _Found, r: int) -> Float:
    return np.full(r, np.nan) if own.weights is None else own.weights.weights


def _low(own: _Found, r: int) -> Float:
    return np.full(r, np.nan) if own.weights is None else own.weights.low


def _high(own: _Found, r: int) -> Float:
    return np.full(r, np.nan) if own.weights is None else own.weights.high


def _errors(own: _Found, r: int) -> Float:
    if own.weights is None:
        return np.full(r, np.nan)
    return np.sqrt(np.maximum(np.diagonal(own.weights.noise), 0.0))
