"""Families of columns of whole numbers without one: counts or numbers, by their dispersion.

| symbol | name here | shape |
|---|---|---|
| γ_i(z_-j): shares of the components by all other columns | ``shares`` | (r, n) |
| p_i(y): probability of a whole number within a component | `Family.fit_cells` | (r, n_values) |
| log Σ_i γ_i(z_-j) p_i(y_j) | ``scores`` | (n,) |
| ½ log (1 − R²), R² of a column by the others within components | added to a Gaussian's | |

A family of counts has to predict the cells better than a Gaussian, which predicts the cell that is
rounded to y: counts are skewed, and vary as much as their means or more. Where columns may be
joined, the Gaussian also knows the other columns of its component.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.families.column import Column
from momentmix.families.distribution import MOST_FLOOR
from momentmix.families.family import FAMILIES, LEAST_VARIANCE, Family
from momentmix.families.gaussian import LEAST_STEPS
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import AskedBlocks, Table, known_blocks
from momentmix.fitting.em.em import bic, log_likelihood
from momentmix.fitting.em.search import quick_fit
from momentmix.mixture.density import joint_densities, log_sums, responsibilities
from momentmix.mixture.gaussian import coefficients, features_of
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.prior import Structure
from momentmix.tables.rows import Rows, proportional_places
from momentmix.tables.schema import Schema, plain_schema
from momentmix.wording import listed, option

_ROWS = 2000  # that are looked at: of as many, families that differ by 0.02 nats are told apart
_FEWEST_ROWS = 50  # with fewer, all columns are numbers
_FAR = 8.0  # deviations from the mean: such rows decide nothing
_NUMBERS = (1, 2, 4)  # of groups, by BIC
_ERRORS = 2.5  # standard errors by which a family has to predict better
# A column up to this number, which so many rows have, may be a scale of answers, which ends there:
# counts do not end, and have to predict better by so many nats.
_SCALE, _AT_THE_END, _PRICE = 20, 10, 0.2
_MOST_LISTED = 5  # columns in a note
_SEED = 36  # the answer does not depend on the seed of the fit


def with_counts(table: Table, blocks: AskedBlocks, start: Any) -> Table:
    """Return the table with families of columns that nobody said, and a note that says which.

    Columns of blocks that were asked for stay numbers; where the fit starts from a mixture, columns
    have its families.
    """
    assert isinstance(table.data, Rows)
    names = table.data.feature_names
    schema = table.schema or plain_schema(table.data.n_features, names)
    known = known_blocks(blocks, schema.n_columns, schema.column_names)
    joined = {j for block in known.joined for j in block} if known is not None else set()
    columns = [j for j in table.may_count if j not in joined]
    if isinstance(start, Mixture) and len(start.columns) == schema.n_columns:
        found = {j: start.columns[j].model for j in columns if start.columns[j].model.is_whole}
        notes = table.notes
    else:
        found = choose_families(table.data, schema, columns, known is None)
        notes = (*table.notes, *_notes(found, schema))
    if not found:
        return table
    for j, family in found.items():
        schema = schema.with_column(j, family=family.name)
    return replace(table, schema=schema, notes=notes)


def _notes(found: dict[int, Family], schema: Schema) -> list[str]:
    """Return one note on all columns that are not taken as numbers."""
    parts = []
    for family in dict.fromkeys(found.values()):
        names = [ascii(schema.columns[j].name) for j in found if found[j] is family]
        what = f"{listed(names, _MOST_LISTED)} taken as {family.noun}"
        parts.append(f"{what}: {family.name} predicts the cells better than gaussian")
    if not parts:
        return []
    name = schema.columns[min(found)].name
    taken = "it" if len(found) == 1 else ascii(name)
    cure = f"{option(families={name: Column.family})} takes {taken} as a number"
    return [f"{'; '.join(parts)}; {cure}"]


def choose_families(
    rows: Rows, schema: Schema, columns: Collection[int], joins: bool
) -> dict[int, Family]:
    """Return the families of columns that are counts; with `joins`, columns may be correlated."""
    values = _excerpt(rows, np.random.default_rng(_SEED))
    if len(values) < _FEWEST_ROWS:
        return {}
    deviations = values.std(axis=0)
    features = np.flatnonzero(deviations > 1e-12 * np.abs(values.mean(axis=0)))
    z = ((values - values.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0))[:, features]
    is_whole = (values[:, features] == np.floor(values[:, features])).all(axis=0)
    floors = np.where(is_whole, (LEAST_STEPS / deviations[features]) ** 2, 0.0)
    structure = Structure(np.clip(floors, LEAST_VARIANCE, MOST_FLOOR))
    table, context = features_of(z), FitContext(np.random.default_rng(_SEED))
    fits = [quick_fit(table, r, structure, context) for r in _NUMBERS]
    p = min(fits, key=lambda p: bic(p, len(z), log_likelihood(table, p)))
    every = responsibilities(joint_densities(coefficients(p), table))[0]
    centered = [z - share @ z / max(share.sum(), 1e-9) for share in every]
    within = sum((x.T * share) @ x for x, share in zip(centered, every, strict=True)) / len(z)
    within = within + 1e-3 * np.eye(features.size)
    left_over = 1.0 / (np.diagonal(within) * np.diagonal(np.linalg.inv(within)))  # 1 − R²
    found = dict[int, Family]()
    for j in columns:
        feature, seen = schema.features_of(j)[0], schema.seen_of(j)
        place = np.flatnonzero(features == feature)
        is_seen = np.ones(len(z), bool) if seen is None else values[:, seen] > 0
        cells = values[is_seen, feature] + schema.columns[j].center
        if len(cells) < _FEWEST_ROWS or len(np.unique(cells)) < 3:
            continue
        others = np.flatnonzero(~np.isin(features, schema.features_of(j)))
        joint = np.log(p.weights)[:, None] + np.zeros(len(cells))
        if others.size:
            part = p.restricted(others)
            joint = joint_densities(coefficients(part), features_of(z[np.ix_(is_seen, others)]))
        related = 0.5 * np.log(left_over[place[0]]) if joins and seen is None else 0.0
        family = _family_of(cells, responsibilities(joint)[0], schema.columns[j].model, related)
        if family is not None and not _has_others(rows, feature, family):
            found[j] = family
    return found


def _family_of(cells: Float, shares: Float, usual: Family, related: float) -> Family | None:
    """Return the family of counts that predicts cells (n,) clearly better than the usual one."""
    values, places = np.unique(cells, return_inverse=True)
    overall = np.bincount(places) / len(places)  # a row for each component
    histograms = np.array([np.bincount(places, share) for share in shares]) + overall
    scores = dict[Family, Float]()
    for family in FAMILIES.values():
        logs = family.fit_cells(values, histograms)
        if logs is not None and (family is usual or family.is_whole):
            scores[family] = log_sums(np.log(np.maximum(shares, 1e-300)) + logs[:, places])
    own, n = scores.pop(usual) - related, len(cells)
    is_scale = values[-1] <= _SCALE and n * overall[-1] > _AT_THE_END

    def errors(gains: Float) -> float:
        return float(gains.mean() * n**0.5 / max(gains.std(), 1e-300))

    if not scores:
        return None
    best = scores[max(scores, key=lambda family: scores[family].mean())]
    if errors(best - own - _PRICE * is_scale) < _ERRORS:
        return None
    # Of families that predict about as well, the simplest.
    return next(family for family, own in scores.items() if errors(best - own) < _ERRORS)


def _excerpt(rows: Rows, rng: np.random.Generator) -> Float:
    """Return some of the rows in random order, without those far from all others."""
    if rows.is_remote:  # a pass over all of them, as long as one over the first
        n_rows = rows.n_rows
        values = rows.take(np.arange(0, n_rows, max(1, n_rows // _ROWS)))
    else:
        places, values = rows.excerpt(5 * _ROWS)
    if rows.row_counts is not None and len(values):
        values = values[proportional_places(rows.row_counts[places], len(places))]
    values = values[rng.permutation(len(values))[:_ROWS]]
    for _ in range(2 if len(values) else 0):  # the first rows that go may hide others
        distances = np.abs(values - values.mean(axis=0))
        values = values[(distances <= _FAR * values.std(axis=0)).all(axis=1)]
    return values


def _has_others(rows: Rows, feature: int, family: Family) -> bool:
    """Return whether any row has a number that the family does not allow."""

    def count(block: Any, counts: Float | None = None) -> tuple[int]:
        wrong = family.invalid(block[:, feature])
        return (0 if wrong is None else int(wrong.sum()),)

    return bool(rows.sum_blocks(count)[0])
