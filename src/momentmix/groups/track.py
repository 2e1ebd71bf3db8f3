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
from dataclasses import dataclass
from datetime import date
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError, printable
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.inference.standard_errors import normal_quantile
from momentmix.fitting.inference.uncertainty import uncertainty_after_em
from momentmix.fitting.record import mixture_and_result
from momentmix.groups.compare import holm
from momentmix.groups.cube import SummaryCube
from momentmix.groups.keys import natural_order
from momentmix.groups.shares import FixedComponents, Products, Shares
from momentmix.json_fields import plain
from momentmix.mixture import gaussian
from momentmix.mixture.columns import parameters_of
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameters import Parameters
from momentmix.parallel import few_threads
from momentmix.progress import row_counter, step
from momentmix.summary.column_facts import schema_of
from momentmix.summary.readings import Moments
from momentmix.summary.summary import MomentSummary, read_in
from momentmix.tables.names import column_label, match_names
from momentmix.tables.schema import Schema, joined, plain_schema
from momentmix.wording import aligned, cut, option, p_text, percent, plural

# Rows for the information, and for each parameter: the inverse of a covariance of 20 rows for each
# is too large by about 1 / 20.
_DRAWS, _PER_PARAMETER = 8000, 20
_LEAST_VARIANCE = 1e-12  # of a feature, over the square of its size
_MOST_PRINTED, _MOST_NAMED = 60, 10  # groups in a table, half of them the first; that do not fit
_LETTERS = 24  # of the name of a component in the head of a table
_TIME = re.compile(r"\d{4}\b.*|\d{4}-?[WQwq]\d.*|(week|day|month|year|[wqWQ])[ _-]*\d+")


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
    notes : tuple of str
        Which columns take no part, and why.
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
    notes: tuple[str, ...]

    @property
    def fits(self) -> NDArray[np.bool_]:
        """False where the test rejects: p-values by Holm's rule over all groups below 1 %."""
        return np.asarray(~(holm(self.p_value) < LEAST_P_VALUE))

    def __len__(self) -> int:
        return len(self.keys)

    def misfits(self) -> list[int]:
        """Numbers of the groups that the components do not fit, the largest misfit first."""
        sizes = np.nan_to_num(self.effect_size, nan=np.inf)
        return sorted(np.flatnonzero(~self.fits).tolist(), key=lambda g: -sizes[g])

    def verdict(self) -> str:
        """Whether the components fit the groups, in a sentence."""
        bad, groups = self.misfits(), f"{len(self):,} group{plural(len(self))}"
        if not bad:
            return f"the components fit all of {groups}."
        name = f"{self.key_names[0]} " if len(self.key_names) == 1 else ""
        names = "; ".join(name + key_text(self.keys[g]) for g in bad[:_MOST_NAMED])
        more = f"; and {len(bad) - _MOST_NAMED:,} more" if len(bad) > _MOST_NAMED else ""
        order = ", largest misfit first" if len(bad) > 1 else ""
        cure = ""
        if 2 * len(bad) > np.isfinite(self.p_value).sum() > 2:
            cure = " Look at the certificate of the model, whether it fits its own rows."
        text = f"the components do not fit {len(bad):,} of {groups}{order}: {names}{more}.{cure}"
        return printable(text)

    def series(self) -> dict[tuple[Any, ...], list[int]]:
        """Numbers of groups in the order of the last key, by all other keys."""
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
            fits, effect_size.
        """
        import pandas as pd

        columns: dict[str, Any] = {
            name: [key[i] for key in self.keys] for i, name in enumerate(self.key_names)
        }
        columns["n_rows"] = self.n_rows
        for c in range(len(self.names)):
            columns |= {
                f"{name[:6]}_{c}": getattr(self, name)[:, c] for name in ("weights", "low", "high")
            }
        columns |= {name: getattr(self, name) for name in ("p_value", "fits", "effect_size")}
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for strict JSON; what is not finite is None."""
        head = {"components": self.names, "level": self.level, "verdict": self.verdict()}
        groups = [
            {name: str(x) if isinstance(x, date) else x for name, x in row.items()}
            for row in self.to_frame().to_dict("records")
        ]
        found: dict[str, Any] = plain(head | {"notes": self.notes, "groups": groups})
        return found

    def lines(self) -> list[str]:
        """The verdict and a table of groups, without the middle of a long one."""
        n, fits = len(self), self.fits
        groups = list(range(n))
        if n > _MOST_PRINTED:
            groups[_MOST_PRINTED // 2 : -_MOST_PRINTED // 2] = []
        heads = [f"{c} {cut(name, _LETTERS)}" for c, name in enumerate(self.names)]
        rows = [[*self.key_names, "rows", *heads, "p-value", "fits"]]
        rows += [self._cells(g, bool(fits[g])) for g in groups]
        lines = aligned([list(map(printable, row)) for row in rows])
        if more := n - len(groups):
            lines.insert(
                1 + len(groups) // 2, f"… {more:,} more groups; to_frame() (-o shares.csv) has all"
            )
        said = [f"shares with {percent(self.level)} intervals", *(f"note: {x}" for x in self.notes)]
        return [self.verdict(), *lines, *said]

    def _cells(self, g: int, fits: bool) -> list[str]:
        shares = [
            "-" if share != share else f"{percent(share)} ({percent(low)} to {percent(high)})"
            for share, low, high in zip(self.weights[g], self.low[g], self.high[g], strict=True)
        ]
        said = "yes" if fits else "NO"
        if np.isnan(self.p_value[g]):
            said = "untested" if self.n_rows[g] else "no rows"
        keys = ["missing" if value is None else str(value) for value in self.keys[g]]
        return [*keys, f"{self.n_rows[g]:,}", *shares, p_text(float(self.p_value[g])), said]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        n, r = len(self), len(self.names)
        return f"Tracking({n} group{plural(n)}, {r} component{plural(r)}): {self.verdict()}"


def key_text(key: tuple[Any, ...]) -> str:
    """A key as texts name it."""
    return cut(printable(", ".join("missing" if x is None else str(x) for x in key)), 60)


def looks_ordered(values: Sequence[Any]) -> bool:
    """Whether the values of a key are times or numbers: dates, weeks, 2024-05, week 31."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, bool | np.bool_) for value in known):
        return False
    kinds = (Real, date, np.datetime64)
    is_ordered = (isinstance(x, kinds) or bool(_TIME.fullmatch(str(x).strip())) for x in known)
    return bool(known) and all(is_ordered)


def track(
    model: Any,
    cube: Mapping[Any, MomentSummary] | str | os.PathLike[str],
    *,
    level: float = 0.95,
    progress: bool | None = None,
) -> Tracking:
    """Shares of a model's components in each group of a cube, with the components fixed.

    The moments of a group are linear in the shares. They are found by least squares with the
    covariance that the model gives the moments, non-negative and of sum 1. No rows are needed.

    Parameters
    ----------
    model : Mixture, FitResult, fitted estimator, or path of a model file
        The errors of its components are part of the intervals and of the test; a `Mixture` alone
        has none.
    cube : SummaryCube, path of its file, or dict of keys and MomentSummary
        Columns are matched by name; others are left out.
    level : float, default=0.95
        Of the intervals of the shares.
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
    [0.1, 0.2, 0.31, 0.4, 0.52]
    """
    z = normal_quantile(level)
    mixture, result = mixture_and_result(model)
    if isinstance(cube, str | os.PathLike):
        cube = SummaryCube.load(cube)
    if not isinstance(cube, Mapping):
        raise InputTypeError(
            "cube must be a SummaryCube, or a dict of keys and summaries; got "
            f"{type(cube).__name__}. mm.summarize_by makes one from rows."
        )
    # BLAS threads are mostly idle with matrices of at most 170 moments.
    with few_threads(True), step("Tracking groups", progress):
        count = row_counter(len(cube), unit="groups")
        keys = [key if isinstance(key, tuple) else (key,) for key in cube]
        if len({len(key) for key in keys}) > 1:
            raise InputError("keys must have as many parts each; some have more than others.")
        used, notes = _usable_columns(mixture)
        groups = [
            _prepared(key, group, mixture, used)
            for key, group in zip(keys, cube.values(), strict=True)
        ]
        if not any(group.n_rows for group in groups):
            what = "no group of the cube holds rows" if groups else "the cube has no groups"
            raise InputError(f"{what}; check its filter, or summarize more rows.")
        part = mixture if len(used) == mixture.n_columns else mixture.select(used)
        schema = _common_schema(part, keys, groups)
        p, shift, scale = _standardized(part, schema)
        orders = [group.order for group in groups if group.n_rows]
        factor = None if result is None else _factor(p, scale, result)
        components = FixedComponents.of(p, Products.of(p, min(orders) > 1), factor)
        if components.rank < p.n_components:
            raise InputError(
                f"the moments of the cube identify at most {components.rank} of the "
                f"{p.n_components} components, so that their shares are not known. Summarize with "
                "a higher order, or fit fewer components."
            )
        found = list[Shares]()
        for group in groups:
            count(1)
            moments = _moments(group, schema, shift, scale)
            unknown = Shares(*np.full((3, p.n_components), np.nan))
            n = group.effective_rows
            found.append(unknown if moments is None else components.shares(moments, n, z))
    weights, low, high, p_values, effects = map(np.array, zip(*found, strict=True))
    if np.isnan(weights).all():
        raise InputError(
            "values of all groups lie so far from those of the model that their moments are not "
            "known; are the units the same?"
        )
    numbered = [f"key {i}" for i in range(len(keys[0]))] if len(keys[0]) > 1 else ["group"]
    n_rows = np.array([group.n_rows for group in groups], dtype=np.int64)
    return Tracking(
        tuple(getattr(cube, "key_names", numbered)), keys, n_rows, weights, low, high, p_values,
        effects, tuple(part.profile().names), float(level), tuple(notes),
    )  # fmt: skip


# -- the model ---------------------------------------------------------------------------------


def _usable_columns(mixture: Mixture) -> tuple[list[int], list[str]]:
    """Columns that are used: not joined ones with missing cells, whose products are no moments."""
    wide = {j for block in mixture.blocks if len(block.columns) > 1 for j in block.columns}
    lost = [j for j in sorted(wide) if mixture.columns[j].has_missing]
    kept = [j for j in range(mixture.n_columns) if j not in lost]
    if not kept:
        raise InputError(
            "all columns of the model are joined and have missing cells, and the moments of "
            "such columns do not identify shares. Fit without blocks, or with "
            f"{option(missing='drop')}."
        )
    labels = ", ".join(column_label(j, mixture.feature_names) for j in lost)
    return kept, [f"{labels}: joined, with missing cells; takes no part"] if lost else []


def _standardized(mixture: Mixture, schema: Schema | None) -> tuple[Parameters, Float, Float]:
    """Parameters of standardized features, shift and scale."""
    p = mixture.parameters
    if schema is not None and schema != mixture.schema:
        p = parameters_of(mixture.weights, mixture.blocks, schema)
    shift = p.weights @ p.means
    total = p.weights @ (p.variances + (p.means - shift) ** 2)
    size = np.maximum(np.abs(shift), 1.0)
    scale = np.sqrt(np.maximum(total, _LEAST_VARIANCE * size**2))
    # Moments about round numbers are read from exact sums several times as fast.
    exponents = np.frexp(scale)[1]
    shift = np.ldexp(np.round(np.ldexp(shift, -exponents)), exponents)
    return p.standardized(shift, scale), shift, scale


def _factor(p: Parameters, scale: Float, result: Any) -> Float:
    """Factor of the covariance of the estimates, as if the mixture were right."""
    n_draws = max(_DRAWS, _PER_PARAMETER * p.n_places)
    rows, _ = gaussian.sample(p.normalized(), n_draws, np.random.default_rng(0))
    features = gaussian.features_of(rows, p.blocks)
    uncertainty = uncertainty_after_em(p, features, float(result.n_rows))
    factor, ratio = uncertainty.factor, 1.0
    errors = result.standard_errors if result.has_errors else None
    if errors is not None and errors.means.shape == p.means.shape:
        # Those of a fit to moments, or of a model that is not quite right, are larger.
        smallest, given = uncertainty.deviations().means, errors.means / scale
        known = np.isfinite(given) & (smallest > 0)
        ratio = max(1.0, float(np.median(given[known] / smallest[known]))) if known.any() else 1.0
    if factor.shape[1] > factor.shape[0]:
        factor = np.linalg.qr(factor.T)[1].T  # the same covariance of fewer columns
    return factor * ratio


# -- the groups --------------------------------------------------------------------------------


def _prepared(
    key: tuple[Any, ...], summary: Any, mixture: Mixture, used: list[int]
) -> MomentSummary:
    """The summary of low order with the columns of the model that are used, in its order."""
    if not isinstance(summary, MomentSummary):
        raise InputTypeError(
            f"group {key_text(key)}: expected a MomentSummary; got {type(summary).__name__}."
        )
    names, others, places = mixture.feature_names, schema_of(summary).column_names, used
    n_columns = schema_of(summary).n_columns
    if names is None or others is None:
        if n_columns != mixture.n_columns:
            raise InputError(
                f"group {key_text(key)} has {n_columns} columns, the model {mixture.n_columns}. "
                "Summarize the columns that the model was fitted to."
            )
    elif names != others:
        try:
            places = match_names(names, others, "the model", others=True)
        except InputError as error:
            raise InputError(f"group {key_text(key)}: {error}") from None
        places = [places[j] for j in used]
    low = summary.truncate(min(summary.order, 2, len(places)), 0)
    return low if places == list(range(n_columns)) else low.select(places)


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
        for j, (of_model, column) in enumerate(zip(mixture.columns, found.columns, strict=True)):
            if column.has_missing and not of_model.has_missing:
                raise InputError(
                    f"group {key_text(key)} has missing cells in "
                    f"{column_label(j, mixture.feature_names)}, the model has none. Fit the model "
                    f"with {option(missing='model')} to all rows, or summarize with "
                    'missing="drop".'
                )
    return found


def _moments(
    group: MomentSummary, schema: Schema | None, shift: Float, scale: Float
) -> Moments | None:
    """Moments of a group in units of the model; None of no rows, and where they overflow."""
    if not group.n_rows:
        return None
    if schema is not None and group.schema is not None and group.schema != schema:
        group = read_in(group, schema)
    try:
        return group.moments(shift, scale)
    except InputError:
        return None
