"""`FitResult.suggest`: changes of a fit, compared on rows that were held out.

| symbol | name here |
|---|---|
| g = log p'(y) − log p(y) of a held-out row, p' with the change | ``gains`` |
| mean of g, and its standard error | ``gain``, ``error`` |

Two thirds of a sample of the rows are fitted as they were and with each change; the other third is
compared, the same rows for all. Only changes whose densities are comparable are tried: logarithms
(a density is that of the column itself), another number of components, joined columns, a
background, and cells missing at random where their rows were dropped.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError, MomentmixError
from momentmix.families.column import LOG, LOG1P, Column
from momentmix.fitting.api import fit
from momentmix.fitting.data import families_of, table_of
from momentmix.fitting.result import FitResult
from momentmix.progress import detail, step
from momentmix.summary.summary import MomentSummary
from momentmix.tables.opening import Reading
from momentmix.tables.rows import Rows
from momentmix.tables.schema import Schema, plain_schema
from momentmix.tables.table_rows import Missing
from momentmix.tables.validation import as_weights
from momentmix.wording import in_python, listed, plural

_SEED = 38
_FEWEST_ROWS = 60  # a third of them tell gains of half a nat
_MOST_ROWS = 4500  # of the sample: a change takes seconds, and tells gains of a hundredth of a nat
_ERRORS = 2.0  # standard errors by which held-out rows have to be described better
_LEAST_GAIN = 1e-3  # nats a row: less changes nothing, however many rows show it
_FALL = 0.1  # of a reproducibility: two halves of some thousand rows vary by as much
_MISFIT = 0.03  # distance of a column from the rows that is worth a trial; "close" ends at 0.1
_SKEWED = {"column-shape", "outlier-influence", "discrete-column"}
_NEEDLESS = {"unsupported", "spurious-components", "continuum", "unknown-weights"}
_MISFITS = {"misfit", "correlated-columns"}
_MOST_NAMED = 4
_READING = vars(Reading())  # keywords that say how a table is read


@dataclass(frozen=True)
class Suggestion:
    """A change of a fit that held-out rows speak for.

    Attributes
    ----------
    change : str
        What is different, in words.
    options : dict
        All keywords: ``mm.fit(data, **options)`` fits with the change.
    gain, error : float
        By how many nats a row the log-density of held-out rows is larger, and its standard error.
    reproducibility, before : float
        How well other rows give the groups of the sample again, the least of them, with the change
        and without; see `Certificate`.
    """

    change: str
    options: dict[str, Any]
    gain: float
    error: float
    reproducibility: float
    before: float

    @property
    def python(self) -> str:
        """The call in Python."""
        keywords = [f"{key}={in_python(x)}" for key, x in self.options.items()]
        return f"mm.fit({', '.join(['data', *keywords])})"

    def __str__(self) -> str:
        text = f"with {self.change}: held out {self.gain:+.2g} nats a row"
        if not (isnan(self.reproducibility) or isnan(self.before)):
            text += f", reproducibility {self.before:.2f} → {self.reproducibility:.2f}"
        return f"{text}: {self.python}"


@dataclass(frozen=True)
class _Sample:
    """Some rows as they were given, two thirds of them to fit and one to compare."""

    rows: Any  # dict of columns, or array
    train: Any
    test: Any
    weights: tuple[Float, ...] | None  # of these three

    def fit(self, options: Mapping[str, Any], all_rows: bool = False) -> FitResult | None:
        """Fit the first part, or all rows; None where the options do not suit them."""
        weights = None if self.weights is None else self.weights[0 if all_rows else 1]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = self.rows if all_rows else self.train
                keywords = {**options, "random_state": _SEED, "progress": False}
                return fit(rows, **keywords, sample_weight=weights)
        except MomentmixError:
            return None

    def gain(self, before: FitResult, after: FitResult) -> tuple[float, float] | None:
        """Mean gain of held-out rows and its standard error; None where cells have no density."""
        try:
            old, new = (x.mixture.log_prob(self.test, unseen="missing") for x in (before, after))
        except MomentmixError:  # as the logarithm of −1
            return None
        gains = np.asarray(new) - np.asarray(old)
        weights = np.ones(len(gains)) if self.weights is None else self.weights[2]
        weights = weights / weights.sum()
        gain = float(weights @ gains)
        return gain, float(np.sqrt(weights**2 @ (gains - gain) ** 2))


def suggest(result: FitResult, data: Any, sample_weight: Any = None) -> list[Suggestion]:
    """Return changes that help, the largest gain first; see `FitResult.suggest`."""
    if result.certificate.verdict == "passed":
        return []
    options = {"n_components": "auto", **(result.options or {})}
    sample = _sample_of(result, data, options, sample_weight)
    model = {key: x for key, x in options.items() if key not in _READING}
    model["families"] = families_of(Schema(result.mixture.columns))
    suggestions = dict[str, Suggestion]()
    with step("Suggestions"):
        train, whole = sample.fit(model), sample.fit(model, all_rows=True)
        if train is None or whole is None:
            return []
        for words, change in _changes(result, options, sample):
            detail(words)
            found = _compared(sample, options, model, (train, whole), words, change)
            if found is not None:
                suggestions.setdefault(found.python, found)

    def rank(found: Suggestion) -> float:
        """Return the gain; more groups describe more, and come after a change that says as much."""
        is_number = found.options.get("n_components", "auto") != options["n_components"]
        return found.gain - (_ERRORS * found.error if is_number else 0.0)

    return sorted(suggestions.values(), key=rank, reverse=True)


def _compared(
    sample: _Sample,
    options: dict[str, Any],
    model: dict[str, Any],
    fits: tuple[FitResult, FitResult],
    words: str,
    change: dict[str, Any],
) -> Suggestion | None:
    """The change with its gain; None unless it helps.

    `fits` are those of the first part and of all rows, without the change. Groups that other rows
    give again must not be lost. Another number of groups helps, too, if they are given again and
    were not before, without a loss of likelihood.
    """
    together, (train, whole) = _merged(model, change), fits
    new_train = sample.fit(together)
    compared = None if new_train is None else sample.gain(train, new_train)
    if compared is None:
        return None
    (gain, error), is_number = compared, "n_components" in change
    helps = gain > max(_ERRORS * error, _LEAST_GAIN)
    if not helps and not (is_number and gain > -_ERRORS * error):
        return None
    new = sample.fit(together, all_rows=True)
    if new is None:
        return None
    least, before = (float(x.reproducibility.min()) for x in (new, whole))
    is_kept, was_kept = (not len(x.certificate.not_reproduced) for x in (new, whole))
    if is_number:
        r = new.mixture.n_components
        if r == whole.mixture.n_components and "families" not in change:
            return None
        given = {key: x for key, x in change.items() if key != "blocks" or key in options}
        change = {**given, "n_components": r}
        words = f"{words}{' and ' if words else ''}{r} group{plural(r)}"
        helps = is_kept and (helps or not was_kept)
    is_lost = not is_kept and (was_kept or least < before - _FALL)
    if is_lost or not helps:
        return None
    return Suggestion(words, _merged(options, change), gain, error, least, before)


def _merged(options: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Options with a change, families by column."""
    families = {**options.get("families", {}), **change.get("families", {})}
    together = {**options, **change, **({"families": families} if families else {})}
    needless = "max_components" if isinstance(together["n_components"], int) else "n_components"
    return {key: x for key, x in together.items() if key != needless or x == "bic"}


# -- what can be tried ----------------------------------------------------------------------------


def _changes(
    result: FitResult, options: dict[str, Any], sample: _Sample
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Words and keywords for the findings of a fit, those of columns first."""
    kinds = {f.kind for f in [*result.certificate.findings, *result.certificate.tests]}
    number, blocks = options["n_components"], options.get("blocks", "diag")
    logarithms = _logarithms(result, sample)
    if logarithms:
        words = f"the logarithm of {listed([str(name) for name in logarithms], _MOST_NAMED)}"
        yield words, {"families": logarithms}
        if isinstance(number, int):  # groups that only cut a column's tail are too many then
            yield words, {"families": logarithms, "n_components": "auto"}
    if options.get("background") is False:
        yield "a background for far rows", {"background": "auto"}
    if "dropped-differ" in kinds:
        yield "cells missing at random", {"missing": "mar"}
    if not isinstance(number, int):
        return
    joinable = sum(column.model.joins for column in result.mixture.columns)
    if blocks == "diag" and joinable > 1 and kinds & _MISFITS:
        yield "columns joined where it pays", {"blocks": "auto"}
    if number > 1 and kinds & _NEEDLESS:
        yield "", {"n_components": number - 1}
    yield "", {"n_components": "auto", "blocks": blocks}


def _logarithms(result: FitResult, sample: _Sample) -> dict[str | int, str]:
    """Logarithms of columns that the fit describes badly, positive and skewed to the right."""
    certificate = result.certificate
    named = {x for f in certificate.findings if f.kind in _SKEWED for x in f.columns}
    named |= {x for x, distance in certificate.description.columns.items() if distance > _MISFIT}
    families = dict[str | int, str]()
    for j, column in enumerate(result.mixture.columns):
        name = j if result.mixture.feature_names is None else result.mixture.feature_names[j]
        if name not in named or not column.model.joins or column.transform:
            continue
        cells = sample.rows[name] if isinstance(sample.rows, dict) else sample.rows[:, j]
        offsets = cells - np.nanmean(cells)
        if np.nanmin(cells) >= 0 and np.nanmean(offsets**3) > 0:
            families[name] = LOG if np.nanmin(cells) else LOG1P
    return families


def _sample_of(
    result: FitResult, data: Any, options: Mapping[str, Any], sample_weight: Any
) -> _Sample:
    """Rows of the table, with cells as they were before families were chosen."""
    reading = Reading(**{key: x for key, x in options.items() if key in _READING})
    families = {
        name: Column.family if family in (LOG, LOG1P) else family
        for name, family in families_of(Schema(result.mixture.columns)).items()
    }
    missing: Missing = "error" if options.get("missing", "error") == "error" else "mar"
    is_summary = isinstance(data, MomentSummary)
    rows = None if is_summary else table_of(data, families, missing, reading).data
    if not isinstance(rows, Rows) or rows.is_remote:
        raise InputError("suggest compares fits on held-out rows; give rows on this machine.")
    weights = as_weights(sample_weight, rows.n_rows)
    places = np.arange(rows.n_rows) if weights is None else np.flatnonzero(weights > 0)
    if len(places) < _FEWEST_ROWS:
        raise InputError(
            f"suggest compares fits on held-out rows; it needs {_FEWEST_ROWS} rows at least, got "
            f"{len(places)}."
        )
    rng = np.random.default_rng(_SEED)
    places = rng.permutation(places)[:_MOST_ROWS]
    schema = rows.schema or plain_schema(rows.n_features, rows.feature_names)
    n_held_out = len(places) // 3
    parts = places, places[n_held_out:], places[:n_held_out]
    whole, train, test = (schema.decode(rows.take(np.sort(part))) for part in parts)
    part_weights = None if weights is None else tuple(weights[np.sort(part)] for part in parts)
    return _Sample(whole, train, test, part_weights)
