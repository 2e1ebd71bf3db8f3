"""Remedies: options that findings suggest, fitted to a sample of the rows and compared.

| symbol | name here |
|---|---|
| g = log p'(y) − log p(y) of a left-out row, p' with the remedy | ``gains`` |
| mean of g, and its standard error | ``gain``, ``error`` |

Two thirds of a sample are fitted with the options as they are and with each remedy, and the other
third is compared: the same rows for all. A remedy helps if the gain is above two standard errors,
or if other rows give the groups again that did not before and the gain is not below.

Only changes whose densities are comparable are tried: logarithms, joined columns, another number of
components, a background, and cells that are missing at random where their rows were dropped.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError, MomentmixError
from momentmix.families.column import LOG, LOG1P, Column
from momentmix.findings.finding import FATAL, Finding
from momentmix.findings.remedy import FEWEST_ROWS, NOT_COMPARED, Remedy
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.data import table_of
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.description import Description
from momentmix.fitting.outcome import FitFacts
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.progress import detail
from momentmix.tables.opening import Reading, path_list
from momentmix.tables.rows import Rows
from momentmix.tables.schema import Schema, plain_schema
from momentmix.tables.table_rows import TableRows
from momentmix.tables.validation import as_weights
from momentmix.wording import listed, plural

Fit = Callable[..., FitResult]
Change = dict[str, Any]  # keywords of `fit`

_SEED = 38
_ROWS = 4500  # of the sample
_MOST_TRIED = 5
_ERRORS = 2.0  # standard errors by which left-out rows have to be described better
_LEAST_GAIN = 1e-3  # nats a row: less changes nothing, however many rows show it
_MISFIT = 0.03  # distance of a column from the rows that is worth a trial; "close" ends at 0.1
_LOST = 0.5  # reproducibility of a group that is not there
_FALL = 0.1  # of a reproducibility, beyond what two halves of some thousand rows vary by
_FOUND = ("n_components", "blocks")  # by a fit, where nothing else was given
_MOST_NAMED = 4
_MOST_PATHS = 3  # in a command; of more, as of a folder, DATA stands for all
_DEFAULTS = {"blocks": "diag"}
_READING = vars(Reading())  # keywords that say how a table is read
_TAILS = {"heavy-tails", "outlier-influence", "repeated-value"}  # which a logarithm may take in


class Suggestion(NamedTuple):
    """A change that a finding suggests, in words too."""

    words: str
    change: Change


class Effect(NamedTuple):
    """The gain of a change, in nats a left-out row."""

    words: str
    change: Change
    result: FitResult  # of the sample
    gain: float
    error: float
    is_larger: bool  # whether there are more components
    reproducibility: float = nan  # the least, of all rows of the sample


@dataclass(frozen=True)
class SplitRows:
    """Some rows as they were given, in two parts, and how to fit them."""

    train: Any  # dict of columns, or array
    test: Any
    features: tuple[Float, Float]
    weights: tuple[Float, Float] | None
    schema: Schema
    fit: Fit

    def fitted(self, options: Mapping[str, Any], every: bool = False) -> FitResult | None:
        """The fit of the first part, or of every row; None where it is refused."""
        own = {**options, "progress": False, "random_state": _SEED}
        rows = self.train if not every else self.schema.decode(np.vstack(self.features))
        if self.weights is not None:
            own["sample_weight"] = np.concatenate(self.weights) if every else self.weights[0]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.fit(rows, **own)
        except MomentmixError:
            return None


def with_remedies(fit: Fit, data: Any, options: dict[str, Any], how: str) -> FitResult:
    """Fit, and try remedies; `fit` is `momentmix.fit`."""
    if how != "try":
        raise InputError(f'remedies must be "try" or None; got {how!r}.')
    if hasattr(data, "read") and not hasattr(data, "to_numpy"):  # a stream, which is read once
        reading = {key: options.pop(key) for key in _READING.keys() & options.keys()}
        data = Reading.of(reading).open(data, options.get("missing", "error"))
    result = fit(data, **options)
    offers = try_remedies(fit, data, options, result.mixture, result.certificate)
    notes = [*result.notes, *([NOT_COMPARED] if offers is None else [])]
    return replace(result, remedies=offers, notes=notes)


def try_remedies(
    fit: Fit,
    data: Any,
    options: Mapping[str, Any],
    mixture: Mixture,
    certificate: Certificate,
    offered: Mapping[str, Any] | None = None,
    is_auto: bool = False,
) -> list[Remedy] | None:
    """Remedies that help a fit, best first; none where it passed, None where no rows can tell.

    They are offered as changes of `offered`, the options for a table from which `data` were taken.
    Where the number of components `is_auto`, other numbers were tried on all rows already.
    """
    if certificate.passed:
        return []
    rows = _sample(fit, data, options, mixture)
    if rows is None:
        return None
    suggestions = list(_suggested(certificate, options, mixture, rows))
    if is_auto:
        suggestions = [x for x in suggestions if "n_components" not in x.change]
    if not suggestions:
        return []
    families = {_key(rows.schema, j): _family(c) for j, c in enumerate(mixture.columns)}
    own = {**{k: x for k, x in options.items() if k not in _READING}, "families": families}
    base = rows.fitted(own)
    if base is None:
        return []
    found: list[Effect] = []
    for trial in suggestions[:_MOST_TRIED]:
        detail(trial.words)
        effect = _effect(rows, own, base, trial, is_auto)
        if effect is not None:
            again = _confirmed(rows, own, effect, certificate)
            found += [] if again is None else [effect._replace(reproducibility=again)]
    # A mixture of more components always describes more.
    found.sort(key=lambda o: -o.gain + _ERRORS * o.error * o.is_larger)
    kept = found[:1]
    for o in found[1:]:  # what helps beside the best, not in its place
        first, is_new = found[0], all(o.change.keys() != x.change.keys() for x in kept)
        is_new |= "families" in o.change
        if is_new and _effect(rows, merged(own, first.change), first.result, o) is not None:
            kept.append(o)
    whole, before = offered, float(certificate.reproducibility.min())
    inputs = tuple(_paths(data))
    if whole is None:
        whole, inputs = options, () if isinstance(data, TableRows) else inputs
    return [
        Remedy(o.words, merged(whole, o.change), o.gain, o.error, o.reproducibility, before, inputs)
        for o in kept
        if not _is_refused(data, merged(options, o.change))
    ]


def _confirmed(
    sample: SplitRows, own: Mapping[str, Any], effect: Effect, certificate: Certificate
) -> float | None:
    """The least reproducibility with a change, of all rows of the sample; None: groups are lost.

    Fits of a part of the rows show too little of whether other rows give their groups again.
    """
    result = sample.fitted(merged(own, effect.change), every=True)
    if result is None or (_is_found(certificate) and not _is_found(result.certificate)):
        return None
    return float(result.reproducibility.min())


def _is_refused(data: Any, options: Mapping[str, Any]) -> bool:
    """Whether cells of other rows than those of the sample do not suit their families."""
    reading = Reading(**{key: x for key, x in options.items() if key in _READING})
    try:
        table_of(data, options.get("families"), options.get("missing", "error"), reading)
    except MomentmixError:
        return True
    return False


def _effect(
    sample: SplitRows,
    own: Mapping[str, Any],
    base: FitResult,
    trial: Suggestion | Effect,
    is_auto: bool = False,
) -> Effect | None:
    """Return the gain of a change of these options; None unless it helps."""
    words, change = trial[:2]
    result = sample.fitted(merged(own, change))
    if result is None:
        return None
    more = result.mixture.n_components - base.mixture.n_components
    if is_number := "n_components" in change:  # "auto": the number that it found
        if more == 0:
            return None
        r = result.mixture.n_components
        others = {k: x for k, x in change.items() if x != own.get(k, _DEFAULTS.get(k))}
        words = f"{words}, {r} group{plural(r)}" if len(others) > 1 else f"{r} group{plural(r)}"
        change = {**others, "n_components": r}
    try:
        before, after = (x.mixture.log_prob(sample.test, unseen="missing") for x in (base, result))
    except MomentmixError:  # left-out cells that do not suit the change, as the logarithm of −1
        return None
    gains = np.asarray(after) - np.asarray(before)
    weights = np.ones(len(gains)) if sample.weights is None else sample.weights[1]
    weights = weights / weights.sum()
    gain = float(weights @ gains)
    error = float(np.sqrt(weights**2 @ (gains - gain) ** 2))
    was_found, is_found = _is_found(base.certificate), _is_found(result.certificate)
    helps = gain > max(_ERRORS * error, _LEAST_GAIN)
    if is_number:  # the groups have to be found again
        helps = is_found and (helps or (not was_found and gain > -_ERRORS * error))
    elif helps and result.reproducibility.min() < min(_LOST, base.reproducibility.min() - _FALL):
        # Of a better density fewer groups may be found again.
        if is_auto or isinstance(own.get("n_components", "auto"), str):
            return None
        number = {"n_components": "auto", "blocks": own.get("blocks", "diag")}
        return _effect(sample, own, base, Suggestion(words, {**number, **change}))
    return Effect(words, change, result, gain, error, more > 0) if helps else None


def _is_found(c: Certificate) -> bool:
    """Whether other rows give all groups again; groups of moments alone are not looked for."""
    again = c.reproducibility
    return bool((again >= c.needed).all() or np.isnan(again).all())


def merged(options: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Options with a change, in one complete call."""
    together = {**options, **change}
    if "n_components" in change:
        together.pop("max_components", None)
    if "families" in change:
        together["families"] = {**dict_of(options.get("families")), **change["families"]}
        given = options.get("families")
        if isinstance(given, Schema) and any(c.has_missing for c in given.columns):
            together.setdefault("missing", "model")
    return {key: value for key, value in together.items() if value is not None}


def dict_of(families: Any) -> dict[Any, Any]:
    """Families by column, also those of a schema."""
    if isinstance(families, Schema):
        return {_key(families, j): _family(c) for j, c in enumerate(families.columns)}
    return dict(families or {})


def _key(schema: Schema, number: int) -> str | int:
    names = schema.column_names
    return number if names is None else names[number]


def _family(column: Column) -> Any:
    has_levels = len(column.levels) > 2 or (column.levels and column.levels != (0, 1))
    return list(column.levels) if has_levels else column.family_name


def _paths(data: Any) -> list[str]:
    """Paths of the data, where they are files, and not many."""
    if not isinstance(data, TableRows):
        return path_list(data)
    names = [source.name for source in data.sources if not source.in_memory]
    return names if len(names) <= _MOST_PATHS and all(map(os.path.exists, names)) else []


def options_offered(mixture: Mixture, facts: FitFacts) -> dict[str, Any]:
    """Options of a fit of a table that gives a mixture again, with the number of its components."""
    own = options_of(mixture, facts)
    if facts.options is None:
        if mixture.feature_names is not None:
            own["columns"] = list(mixture.feature_names)
        return own
    found = {k: own[k] for k in _FOUND if k in own}
    given = {k: x for k, x in facts.options.items() if k not in (*_FOUND, "max_components")}
    return {**found, **given}


def options_of(mixture: Mixture, facts: FitFacts) -> dict[str, Any]:
    """Options of a fit that gave a mixture, as far as it and its record show them."""
    schema = Schema(mixture.columns)
    columns = {_key(schema, j): _family(column) for j, column in enumerate(mixture.columns)}
    families = {key: family for key, family in columns.items() if family != Column.family}
    joined = [[_key(schema, j) for j in b.columns] for b in mixture.blocks if len(b.columns) > 1]
    findings = {f.kind: f for f in facts.certificate.findings}
    options: dict[str, Any] = {"n_components": mixture.n_components}
    options |= {"families": families} if families else {}
    options |= {"blocks": joined} if joined else {}
    if any(column.has_missing for column in mixture.columns):
        options["missing"] = "model"
    elif "missing-at-random" in findings:
        options["missing"] = "mar"
    elif "dropped-differ" in findings:
        options["missing"] = "drop"
    if "outlier-rows" in findings and "background" in findings["outlier-rows"].remedy:
        options["background"] = False
    return options


# -- what findings suggest ------------------------------------------------------------------------


def _suggested(
    c: Certificate, options: Mapping[str, Any], mixture: Mixture, rows: SplitRows
) -> Iterator[Suggestion]:
    """Changes that findings suggest, those of the most severe ones first, each once."""
    findings = sorted([*c.findings, *c.tests], key=lambda f: f.severity is not FATAL)
    kinds = {f.kind for f in findings}
    seen: list[Change] = []
    for trial in (
        *_of_columns(findings, c.description, mixture, rows),
        *_of_rows(kinds, options),
        *_of_blocks(findings, kinds, options, mixture),
        *_of_number(kinds, options),
    ):
        if trial.change not in seen and merged(options, trial.change) != dict(options):
            seen.append(trial.change)
            yield trial


def _of_columns(
    findings: Sequence[Finding], description: Description, mixture: Mixture, rows: SplitRows
) -> Iterator[Suggestion]:
    """Logarithms of columns, those of one kind together."""
    found: list[tuple[Any, str]] = []
    for f in findings:
        own = f.remedy.get("families", {})
        found += [(column, str(x)) for column, x in own.items() if x in (LOG, LOG1P)]
        tails = f.columns if f.kind in _TAILS and not f.remedy else ()
        found += [(column, _logarithm(mixture, rows, column)) for column in tails]
    known = {column for column, family in found if family}
    rough = [x for x, apart in description.columns.items() if apart > _MISFIT and x not in known]
    described = [(column, _logarithm(mixture, rows, column)) for column in rough]
    families: dict[tuple[bool, str], dict[Any, str]] = {}  # those that no finding names apart
    for is_found, pairs in ((True, found), (False, described)):
        for column, family in pairs:
            if family:
                families.setdefault((is_found, family), {})[column] = family
    for (_, family), columns in families.items():
        listed_names = listed([str(x) for x in columns], _MOST_NAMED)
        yield Suggestion(f"{family}({listed_names})", {"families": columns})


def _logarithm(mixture: Mixture, rows: SplitRows, name: str | int) -> str:
    """The logarithm of a column of numbers that are skewed to the right; empty for others."""
    own = _column(mixture, name)
    if not own.model.joins or own.transform:
        return ""
    cells = np.concatenate([_cells(part, name) for part in (rows.train, rows.test)])
    least, offsets = np.nanmin(cells), cells - np.nanmean(cells)
    if least < 0 or np.nanmean(offsets**3) <= 0:
        return ""
    return LOG if least else LOG1P


def _column(mixture: Mixture, name: str | int) -> Column:
    names = mixture.feature_names
    return mixture.columns[name if isinstance(name, int) else (names or ()).index(name)]


def _of_rows(kinds: set[str], options: Mapping[str, Any]) -> Iterator[Suggestion]:
    """A background for far rows, and other reasons for gaps."""
    if options.get("background") is False:
        yield Suggestion("a background for far rows", {"background": "auto"})
    if "dropped-differ" in kinds:
        yield Suggestion("cells missing at random", {"missing": "mar"})


def _of_blocks(
    findings: Sequence[Finding], kinds: set[str], options: Mapping[str, Any], mixture: Mixture
) -> Iterator[Suggestion]:
    """Columns that are joined."""
    for f in findings:
        blocks = f.remedy.get("blocks")
        if isinstance(blocks, list):
            joined = " and ".join(listed([str(x) for x in block], _MOST_NAMED) for block in blocks)
            yield Suggestion(f"{joined} joined", {"blocks": blocks})
    is_auto = isinstance(options.get("n_components", "auto"), str) and "blocks" not in options
    joinable = sum(column.model.joins for column in mixture.columns)
    misfits = {"misfit", "cut", "correlated-columns"}
    if not is_auto and joinable > 1 and kinds & misfits:
        yield Suggestion("columns joined where it pays", {"blocks": "auto"})


def _of_number(kinds: set[str], options: Mapping[str, Any]) -> Iterator[Suggestion]:
    """The number of components that other rows give again, and one less, where one was given."""
    r = options.get("n_components", "auto")
    if isinstance(r, str):
        return
    if r > 1 and kinds & {"unsupported", "spurious-components", "cut", "unknown-weights"}:
        yield Suggestion("one group less", {"n_components": r - 1})
    blocks = options.get("blocks", "diag")
    yield Suggestion("another number of groups", {"n_components": "auto", "blocks": blocks})


# -- rows and their densities ---------------------------------------------------------------------


def _sample(fit: Fit, data: Any, options: Mapping[str, Any], mixture: Mixture) -> SplitRows | None:
    """Rows in two parts; None where there are too few, and where the data are a summary."""
    reading = Reading(**{key: x for key, x in options.items() if key in _READING})
    given = options.get("families")
    has_gaps = isinstance(given, Schema) and any(column.has_missing for column in given.columns)
    keeps = has_gaps or options.get("missing", "error") != "error"
    logs = (LOG, LOG1P)
    plain = {k: Column.family if str(x) in logs else x for k, x in dict_of(given).items()}
    table = table_of(data, plain or None, "mar" if keeps else "error", reading)
    if isinstance(table.data, StandardMoments) or table.data.is_remote:
        return None
    rows: Rows = table.data
    rng = np.random.default_rng(_SEED)
    weights = as_weights(options.get("sample_weight"), rows.n_rows)
    places = np.arange(rows.n_rows) if weights is None else np.flatnonzero(weights > 0)
    if len(places) < FEWEST_ROWS:
        return None
    places = np.sort(rng.permutation(places)[:_ROWS])
    schema = table.schema or plain_schema(rows.n_features, rows.feature_names)
    features = rows.take(places)
    left_out = np.zeros(len(places), np.bool_)
    left_out[rng.permutation(len(places))[: len(places) // 3]] = True
    parts = features[~left_out], features[left_out]
    train, test = map(schema.decode, parts)
    own = None if weights is None else weights[places]
    counts = None if own is None else (own[~left_out], own[left_out])
    return SplitRows(train, test, parts, counts, schema, fit)


def _cells(rows: Any, column: Any) -> Any:
    return rows[column] if isinstance(rows, dict) else rows[:, column]
