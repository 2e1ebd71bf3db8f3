"""`track`: the shares of a model's components in each group of a cube, from moments alone.

Model and cube have one schema and one origin and unit for all features; the mathematics of a group
is in ``shares.py``. The errors of the model's components are part of the intervals and of the test.
Their covariance is the inverse of the information of as many rows as the fit had, as large as the
standard errors of the fit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.errors import InputError, InputTypeError, printable
from momentmix.fitting.em.scores import information_matrix
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.inference.standard_errors import normal_quantile
from momentmix.fitting.inference.uncertainty import uncertainty_after_em
from momentmix.fitting.outcome import FitFacts
from momentmix.fitting.record import load_fit
from momentmix.fitting.result import FitResult
from momentmix.groups.compare import holm
from momentmix.groups.cube import SummaryCube
from momentmix.groups.keys import natural_order
from momentmix.groups.shares import FixedComponents, Shares
from momentmix.json_fields import plain
from momentmix.mixture import gaussian
from momentmix.mixture.columns import parameters_of
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameters import Parameters
from momentmix.parallel import few_threads
from momentmix.progress import check_asked, counting, step
from momentmix.summary.column_facts import schema_of
from momentmix.summary.layout import Layout
from momentmix.summary.readings import flat_moments, readings_of_many
from momentmix.summary.summary import MomentSummary
from momentmix.summary.totals import read_about
from momentmix.tables.names import column_label, match_names
from momentmix.tables.schema import Schema, joined, plain_schema
from momentmix.wording import aligned, cut, cut_lines, option, p_text, percent, plural

_ASSUMED_ROWS = 10_000  # of a mixture alone
# Rows for the information, and for each parameter: the inverse of a covariance of 20 rows for each
# is too large by about 1 / 20.
_DRAWS, _PER_PARAMETER = 8000, 20
_HARDLY = 1e-4  # of the square of a constant: what fits give it as its variance is less
_LEAST_VARIANCE = 1e-12  # of a feature, over the square of its size
_HIGHEST_ORDER = 2
_AT_ONCE = 256  # groups whose moments are read together; for more it takes no less time each
_LARGEST = 1e200  # moment of standardized values: products with it are finite
_SMALL = True  # matrices of at most 170 moments, where BLAS threads are mostly idle
_MOST_PRINTED, _MOST_NAMED = 60, 10  # groups in a table, half of them the first; that do not fit
_LETTERS = 24  # of the name of a component in the head of a table
_TIME = re.compile(
    r"\s*(\d{4}([-/.]?(q[1-4]|w?\d{1,2})([-/.]\d{1,2})?)?([t ]\d.*)?|(week|day|month|year|w|q|kw)"
    r"[ _-]*\d+)\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, repr=False)
class Tracking:
    """Shares of a model's components in groups.

    Attributes
    ----------
    key_names : tuple of str
    keys : list of tuples
        One for each group, in the order of the cube.
    n_rows : array of int of shape (n_groups,)
    weights, low, high : arrays of shape (n_groups, n_components)
        Shares, and the ends of their intervals; NaN for a group of no rows.
    p_value : array of shape (n_groups,)
        Of the test whether the components fit the group; NaN where nothing can be tested.
    effect_size : array of shape (n_groups,)
        Root mean square misfit of a moment, in units of one row's standard deviation; does not
        grow with the number of rows.
    names : tuple of str
        Names of the components.
    level : float
        Of the intervals.
    is_ordered : bool
        Whether the last key is a time or another order.
    notes : dict
        What is to be said of single groups, by key.
    """

    key_names: tuple[str, ...]
    keys: list[tuple[Any, ...]]
    n_rows: NDArray[np.int64]
    weights: Float
    low: Float
    high: Float
    p_value: Float
    effect_size: Float
    names: tuple[str, ...]
    level: float
    is_ordered: bool
    notes: dict[tuple[Any, ...], str] = field(default_factory=dict)

    @property
    def fits(self) -> NDArray[np.bool_]:
        """False where the test rejects: p-values by Holm's rule over all groups below 1 %."""
        return np.asarray(~(holm(self.p_value) < LEAST_P_VALUE))

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.names)

    def __len__(self) -> int:
        return len(self.keys)

    def misfits(self) -> list[int]:
        """Numbers of the groups that the components do not fit, the largest misfit first."""
        sizes = np.nan_to_num(self.effect_size, nan=np.inf)
        bad: list[int] = np.flatnonzero(~self.fits).tolist()
        return sorted(bad, key=lambda g: -sizes[g])

    def verdict(self) -> str:
        """Whether the components fit the groups, in a sentence."""
        bad, n = self.misfits(), len(self)
        groups = f"{n:,} group{plural(n)}"
        if not bad:
            return f"the components fit all of {groups}."
        names = "; ".join(self.group_label(g) for g in bad[:_MOST_NAMED])
        more = f"; and {len(bad) - _MOST_NAMED:,} more" if len(bad) > _MOST_NAMED else ""
        order = ", largest misfit first" if len(bad) > 1 else ""
        cure = ""
        if 2 * len(bad) > np.isfinite(self.p_value).sum() > 2:
            cure = " Look at the certificate of the model, whether it fits its own rows."
        text = f"the components do not fit {len(bad):,} of {groups}{order}: {names}{more}.{cure}"
        return printable(text)

    def group_label(self, number: int) -> str:
        """A group in a sentence: "week 31", "EU, 2024-05-06"."""
        key = self.keys[number]
        return f"{self.key_names[0]} {key_text(key)}" if len(key) == 1 else key_text(key)

    def series(self) -> dict[tuple[Any, ...], list[int]]:
        """Numbers of groups in order, by all keys but the last; one series without an order."""
        if not self.is_ordered:
            return {(): list(range(len(self)))}
        found: dict[tuple[Any, ...], list[int]] = {key[:-1]: [] for key in self.keys}
        for g in sorted(range(len(self)), key=lambda g: natural_order(self.keys[g][-1])):
            found[self.keys[g][:-1]].append(g)
        return found

    def to_frame(self) -> Any:
        """One row for each group, as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            The keys; n_rows; weight_0, low_0, high_0, weight_1, … of each component; p_value,
            fits, effect_size, note.
        """
        import pandas as pd

        keys = {name: [key[i] for key in self.keys] for i, name in enumerate(self.key_names)}
        columns: dict[str, Any] = {"n_rows": self.n_rows}
        for c in range(self.n_components):
            tables = {"weight": self.weights, "low": self.low, "high": self.high}
            columns |= {f"{name}_{c}": table[:, c] for name, table in tables.items()}
        columns |= {name: getattr(self, name) for name in ("p_value", "fits", "effect_size")}
        columns["note"] = [self.notes.get(key, "") for key in self.keys]
        return pd.DataFrame(keys | columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for strict JSON; what is not finite is None."""
        arrays = ("n_rows", "weights", "low", "high", "p_value", "fits", "effect_size")
        columns = {name: getattr(self, name) for name in arrays}
        groups = [
            {"key": dict(zip(self.key_names, map(_plain_key, key), strict=True))}
            | {name: column[g] for name, column in columns.items()}
            | {"note": self.notes.get(key)}
            for g, key in enumerate(self.keys)
        ]
        head = {"components": list(self.names), "level": self.level, "verdict": self.verdict()}
        found: dict[str, Any] = plain(head | {"groups": groups})
        return found

    def lines(self, rest: str = "to_frame() has all") -> list[str]:
        """The verdict and a table of groups, the `rest` of which is elsewhere."""
        n, fits = len(self), self.fits
        heads = [f"{c} {cut(name, _LETTERS)}" for c, name in enumerate(self.names)]
        groups = list(range(n))
        if n > _MOST_PRINTED:
            groups[_MOST_PRINTED // 2 : -_MOST_PRINTED // 2] = []
        rows = [[*self.key_names, "rows", *heads, "p-value", "fits"]]
        rows += [self._cells(g, bool(fits[g])) for g in groups]
        lines = aligned([list(map(printable, row)) for row in rows])
        more = n - len(groups)
        if more:
            lines.insert(1 + len(groups) // 2, f"… {more:,} more group{plural(more)}; {rest}")
        return [self.verdict(), "", *lines, "", f"shares with {percent(self.level)} intervals"]

    def _cells(self, g: int, fits: bool) -> list[str]:
        ends = zip(self.weights[g], 100 * self.low[g], 100 * self.high[g], strict=True)
        shares = [
            "-" if share != share else f"{percent(share)} ({_end(low)}–{_end(high)})"
            for share, low, high in ends
        ]
        said = "yes" if fits else "NO"
        if np.isnan(self.p_value[g]):
            said = "untested" if self.n_rows[g] else "no rows"
        keys = ["missing" if value is None else str(value) for value in self.keys[g]]
        return [*keys, f"{self.n_rows[g]:,}", *shares, p_text(float(self.p_value[g])), said]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        n, r = len(self), self.n_components
        head = f"Tracking({n} group{plural(n)}, {r} component{plural(r)})"
        return cut_lines(f"{head}: {self.verdict()}")


def _end(percents: float) -> str:
    return f"{percents:.0f}" if percents >= 9.95 or percents == 0 else f"{percents:.1f}"


def key_text(key: tuple[Any, ...]) -> str:
    """A key as texts name it."""
    return cut(printable(", ".join("missing" if x is None else str(x) for x in key)), 60)


def _plain_key(value: Any) -> Any:
    """A key as JSON has it: dates as texts."""
    item = value.item() if hasattr(value, "item") else value
    return item if item is None or isinstance(item, str | int | float) else str(item)


def looks_ordered(values: list[Any]) -> bool:
    """Whether the values of a key are times or numbers: dates, weeks, 2024-05, week 31."""
    known = [value for value in values if value is not None]
    if not known or any(isinstance(value, bool | np.bool_) for value in known):
        return False
    if all(isinstance(value, int | float | date | np.number) for value in known):
        return True
    return all(isinstance(value, str) and _TIME.fullmatch(value) for value in known)


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
        The errors of its components are part of the intervals and of the test; see `model_rows`
        for a `Mixture` alone.
    cube : SummaryCube, path of its file, or dict of keys and MomentSummary
        Columns are matched by name; others are left out.
    level : float, default=0.95
        Of the intervals of the shares.
    model_rows : float, optional
        Rows that a `Mixture` was fitted to; by default as many as the cube holds, but at most
        10,000. ``math.inf`` means components without errors.
    ordered : bool, optional
        Whether the last key is an order, as times are; by default it is where its values are
        dates, numbers, or texts such as 2024-05 and week 31. Pictures draw lines then.
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
    tracked = _Model.of(model)
    if isinstance(cube, str | os.PathLike):
        cube = SummaryCube.load(cube)
    with few_threads(_SMALL), step("Tracking groups", check_asked(progress)):
        keys, groups, key_names = _groups_of(cube, tracked)
        n_rows = np.array([group.n_rows for group in groups], dtype=np.int64)
        if tracked.n_rows is None or model_rows is not None:
            tracked = tracked.with_rows(model_rows, int(n_rows.sum()))
        schema = _common_schema(tracked.mixture, keys, groups)
        layout = _common_layout(groups, schema)
        p, shift, scale, factor = tracked.standardized(schema)
        constant = _constant(tracked.mixture, p, shift, scale)
        components = FixedComponents.of(p, layout, constant, factor)
        if components.rank < p.n_components:
            raise InputError(
                f"the moments of the cube identify at most {components.rank} of the "
                f"{p.n_components} components, so that their shares are not known. Summarize with "
                "a higher order, or fit fewer components."
            )
        moments = _moments(groups, layout, schema, shift, scale)
        moments = moments[:, components.monomials.places(layout)]
        moments[~(np.abs(moments) < _LARGEST).all(axis=1)] = np.nan
        if np.isnan(moments).all():
            raise InputError(
                "values of all groups lie so far from those of the model that their moments are "
                "not known; are the units the same?"
            )
        found, notes = list[Shares](), dict[tuple[Any, ...], str]()
        with counting("Tracking groups", len(keys), "groups") as count:
            for key, group, own in zip(keys, groups, moments, strict=True):
                count(1)
                if not np.isnan(own).any():
                    found.append(components.shares(own, group.effective_rows, z))
                    said = [_note(group, constant, tracked.mixture), tracked.note]
                    notes[key] = "; ".join(filter(None, said))
                    continue
                found.append(Shares(*np.full((3, p.n_components), np.nan)))
                far = "values so far away that their powers are not known"
                notes[key] = far if group.n_rows else "no rows"
    weights, low, high, p_values, effects = map(np.array, zip(*found, strict=True))
    is_ordered = looks_ordered([key[-1] for key in keys]) if ordered is None else ordered
    return Tracking(
        key_names, keys, n_rows, weights, low, high, p_values, effects,
        tuple(tracked.mixture.profile(names).names), float(level), bool(is_ordered),
        {key: note for key, note in notes.items() if note},
    )  # fmt: skip


# -- the model ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Model:
    """A mixture of the columns that are used, and what is known of its errors."""

    mixture: Mixture
    names: tuple[str, ...] | None  # of all columns of the model
    n_columns: int
    columns: list[int]  # of these, the ones that are used
    note: str = ""
    n_rows: float | None = None  # that it was fitted to
    mean_errors: Float | None = None

    @classmethod
    def of(cls, model: Any) -> _Model:
        """A mixture, a result, a fitted estimator, or the path of a model file."""
        result: Any = getattr(model, "result_", model)
        if isinstance(model, str | os.PathLike):
            mixture, result = load_fit(model)
        else:
            mixture = getattr(result, "mixture", getattr(model, "mixture_", model))
        if not isinstance(mixture, Mixture):
            raise InputTypeError(
                "model must be a Mixture, a FitResult, a fitted estimator or the path of a model "
                f"file; got {type(model).__name__}."
            )
        n_rows, errors = None, None
        if isinstance(result, FitFacts):
            n_rows = float(result.n_rows)
            record: Any = result.record() if isinstance(result, FitResult) else result
            errors = record.standard_errors and record.standard_errors.means
        # Products of joined columns with missing cells are no moments of the model.
        every = list(range(mixture.n_columns))
        whole = mixture.feature_names, mixture.n_columns
        wide = {j for block in mixture.blocks if len(block.columns) > 1 for j in block.columns}
        lost = [j for j in sorted(wide) if mixture.columns[j].has_missing]
        if not lost:
            return cls(mixture, *whole, every, "", n_rows, errors)
        kept = [j for j in every if j not in lost]
        if not kept:
            raise InputError(
                "all columns of the model are joined and have missing cells, and the moments of "
                "such columns do not identify shares. Fit without blocks, or with "
                f"{option(missing='drop')}."
            )
        names = mixture.feature_names or tuple(map(str, every))
        note = f"without the joined column{plural(len(lost))} "
        note += f"{', '.join(names[j] for j in lost)}, which have missing cells"
        return cls(mixture.select(kept), *whole, kept, note, n_rows)

    def with_rows(self, model_rows: float | None, n_cube: int) -> _Model:
        """The same fitted to so many rows."""
        if model_rows is None:
            model_rows = float(min(n_cube, _ASSUMED_ROWS))
        elif isinstance(model_rows, bool | str) or not model_rows > 0:
            raise InputError(
                f"model_rows must be a positive number, or math.inf; got {model_rows!r}."
            )
        return replace(self, n_rows=float(model_rows), mean_errors=None)

    def standardized(self, schema: Schema | None) -> tuple[Parameters, Float, Float, Float | None]:
        """Parameters of standardized features, shift and scale, and a factor of Cov θ̂."""
        p = self.mixture.parameters
        if schema is not None and schema != self.mixture.schema:
            p = parameters_of(self.mixture.weights, self.mixture.blocks, schema)
        shift = p.weights @ p.means
        total = p.weights @ (p.variances + (p.means - shift) ** 2)
        size = np.maximum(np.abs(shift), 1.0)
        scale = np.sqrt(np.maximum(total, _LEAST_VARIANCE * size**2))
        p = p.standardized(shift, scale)
        factor = self._factor(p, scale) if self.n_rows and self.n_rows < inf else None
        if factor is not None and factor.shape[1] > factor.shape[0]:
            factor = np.linalg.qr(factor.T)[1].T  # the same covariance of fewer columns
        return p, shift, scale, factor

    def _factor(self, p: Parameters, scale: Float) -> Float:
        """Factor of the covariance of the most probable parameters, if the mixture is right."""
        n_draws = max(_DRAWS, _PER_PARAMETER * p.n_places)
        rows, _ = gaussian.sample(p.normalized(), n_draws, np.random.default_rng(0))
        information = information_matrix(gaussian.features_of(rows, p.blocks), p)
        uncertainty = uncertainty_after_em(p, information, self.n_rows or 1.0)
        given, ratio = self.mean_errors, 1.0
        if given is not None and given.shape == p.means.shape:  # those of moments are larger
            own, given = uncertainty.deviations().means, given / scale
            known = np.isfinite(given) & (own > 0)
            ratio = max(1.0, float(np.median(given[known] / own[known]))) if known.any() else 1.0
        return uncertainty.factor * ratio


def _constant(mixture: Mixture, p: Parameters, shift: Float, scale: Float) -> Int:
    """Features that are constant: the same in all components, with hardly any variance."""
    if p.n_components == 1:
        return np.empty(0, dtype=np.int64)
    same = (np.ptp(p.means, axis=0) == 0) & (np.ptp(p.variances, axis=0) == 0)
    size = np.maximum((shift / scale) ** 2, 1.0)
    return np.flatnonzero(same & (p.variances[0] <= _HARDLY * size))


# -- the groups --------------------------------------------------------------------------------


def _groups_of(
    cube: Any, tracked: _Model
) -> tuple[list[tuple[Any, ...]], list[MomentSummary], tuple[str, ...]]:
    """Keys, summaries with the columns of the model, and names of the keys."""
    if not isinstance(cube, Mapping):
        raise InputTypeError(
            "cube must be a SummaryCube, or a dict of keys and summaries; got "
            f"{type(cube).__name__}. mm.summarize_by makes one from rows."
        )
    pairs = [(key if isinstance(key, tuple) else (key,), s) for key, s in cube.items()]
    groups = [_prepared(key, summary, tracked) for key, summary in pairs]
    keys = [key for key, _ in pairs]
    if not any(group.n_rows for group in groups):
        what = "no group of the cube holds rows" if groups else "the cube has no groups"
        raise InputError(f"{what}; check its filter, or summarize more rows.")
    if len({len(key) for key in keys}) > 1:
        raise InputError("keys must have as many parts each; some have more than others.")
    numbered = [f"key {i}" for i in range(len(keys[0]))] if len(keys[0]) > 1 else ["group"]
    return keys, groups, tuple(getattr(cube, "key_names", numbered))


def _prepared(key: tuple[Any, ...], summary: Any, tracked: _Model) -> MomentSummary:
    """The summary of low order with the columns of the model, in its order."""
    if not isinstance(summary, MomentSummary):
        raise InputTypeError(
            f"group {key_text(key)}: expected a MomentSummary; got {type(summary).__name__}."
        )
    schema, names, n_columns = schema_of(summary), tracked.names, tracked.n_columns
    places = list(range(n_columns))
    if names is None or schema.column_names is None:
        if schema.n_columns != n_columns:
            raise InputError(
                f"group {key_text(key)} has {schema.n_columns} columns, the model {n_columns}. "
                "Summarize the columns that the model was fitted to."
            )
    elif names != schema.column_names:
        try:
            places = match_names(names, schema.column_names, "the model", others=True)
        except InputError as error:
            raise InputError(f"group {key_text(key)}: {error}") from None
    places = [places[j] for j in tracked.columns]
    low = summary.truncate(min(summary.order, _HIGHEST_ORDER, len(places)), 0)
    return low if places == list(range(schema.n_columns)) else low.select(places)


def _common_schema(
    mixture: Mixture, keys: Sequence[tuple[Any, ...]], groups: Sequence[MomentSummary]
) -> Schema | None:
    """The schema that summaries and mixture have in common; None of plain numbers."""
    found, numbers = mixture.schema, plain_schema(mixture.n_columns, mixture.feature_names)
    # Families may have been given to the fit of a summary of numbers.
    are_numbers = mixture.schema is None or mixture.schema.n_features == mixture.n_columns
    are_numbers &= not any(column.transform for column in mixture.columns)
    for schema, key in {group.schema: key for group, key in zip(groups, keys, strict=True)}.items():
        if schema == found == mixture.schema or (schema is None and are_numbers):
            continue
        try:
            found = joined(found or numbers, schema or numbers)
        except InputError as error:
            raise InputError(f"group {key_text(key)} and the model differ: {error}") from None
        for j, (known, column) in enumerate(zip(mixture.columns, found.columns, strict=True)):
            if column.has_missing and not known.has_missing:
                raise InputError(
                    f"group {key_text(key)} has missing cells in "
                    f"{column_label(j, mixture.feature_names)}, the model has none. Fit the model "
                    f"with {option(missing='model')} to all rows, or summarize with "
                    'missing="drop".'
                )
    return found


def _common_layout(groups: Sequence[MomentSummary], schema: Schema | None) -> Layout:
    """The moments up to order 2 that all groups have in common."""
    known = [group._layout for group in groups if group.n_rows]
    d = known[0].n_features if schema is None else schema.n_features
    return Layout(d, min(own.order for own in known), 0, min(own.high for own in known))


def _moments(
    groups: Sequence[MomentSummary],
    layout: Layout,
    schema: Schema | None,
    shift: Float,
    scale: Float,
) -> Float:
    """Moments of groups in units of the model, (n, n_entries); NaN of no rows and of overflows."""
    found, alike = np.full((len(groups), layout.n_entries), np.nan), dict[Layout, list[int]]()
    totals = [group._totals() for group in groups]
    for g, group in enumerate(groups):
        if schema is not None and group.schema is not None and group.schema != schema:
            totals[g] = read_about(totals[g], schema)
        if group.n_rows:
            alike.setdefault(totals[g].layout, []).append(g)
    for own, every in alike.items():
        places = layout.places_in(own)
        for start in range(0, len(every), _AT_ONCE):
            some = every[start : start + _AT_ONCE]
            found[some] = readings_of_many([totals[g] for g in some], shift, scale)[:, places]
            for g in [g for g in some if np.isnan(found[g]).any()]:  # of which one overflows
                with suppress(InputError):
                    found[g] = flat_moments(totals[g], shift, scale)[places]
    return found


def _note(group: MomentSummary, constant: Int, mixture: Mixture) -> str:
    """Which features were constant in the model and are not in a group."""
    wrong = constant[group.minimum[constant] != group.maximum[constant]] if group.n_rows else ()
    column_of = None if mixture.schema is None else mixture.schema.column_of
    columns = [int(j) if column_of is None else column_of[j] for j in wrong]
    if not columns:
        return ""
    labels = ", ".join(column_label(j, mixture.feature_names) for j in columns)
    return f"{labels} was constant in the model and is not here; it takes no part"
