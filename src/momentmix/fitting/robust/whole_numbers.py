"""Families of columns of whole numbers without one: which predicts left-out cells best.

| symbol | name here | shape |
|---|---|---|
| γ_i(z_-j): shares of the components by all other columns | ``others``, their logarithms | (r, n) |
| p_i(y): probability of a whole number within a component | `Family.fit_cells` | (r, n_values) |
| log Σ_i γ_i(z_-j) p_i(y_j) | ``scores`` of left-out cells | (n,) |

Gaussian groups of all columns come first, as many as BIC wants. A family is fitted to a column
within them by EM, on one half of the rows and then on the other, and predicts the cells that were
left out. Densities and probabilities are not comparable: a Gaussian predicts the cell that is
rounded to y. Where columns may be joined, it also predicts by the other columns of its component:
a column that is better as a part of a block stays Gaussian.

Gaussian groups of counts are not those of counts, and families with more parameters make up for
that. So columns that leave the Gaussian are compared once more within groups by the first family of
counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from momentmix._typing import Float, Int
from momentmix.families.column import Column
from momentmix.families.distribution import MOST_FLOOR
from momentmix.families.family import FAMILIES, LEAST_VARIANCE, Family
from momentmix.families.gaussian import LEAST_STEPS
from momentmix.fitting.conditions.standard_moments import StandardMoments, laws_without
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import AskedBlocks, Table, known_blocks
from momentmix.fitting.em.em import log_likelihood, run_batch
from momentmix.fitting.em.search import quick_fit
from momentmix.fitting.robust.number_of_components import bic
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.density import joint_densities, log_sums, responsibilities
from momentmix.mixture.gaussian import coefficients, features_of, m_step
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.tables.rows import Rows, proportional_places
from momentmix.tables.schema import Schema, plain_schema
from momentmix.wording import listed, option

_ROWS = 2000  # that are looked at: of as many, families that differ by 0.02 nats are told apart
_FEWEST_ROWS = 50  # with fewer, all columns are numbers
_FAR = 8.0  # deviations from the mean: such rows decide nothing
_NUMBERS = (1, 2, 4)  # of groups
_GROUP_STEPS = 10  # of EM for groups by counts
_STEPS = 6  # of EM for one column; 40 give the same families
_CLEAR_ERRORS = 2.0  # standard errors by which a family has to predict better
_FEW_STEPS, _FAR_BEHIND = 1, 6.0  # a family that is so many errors behind after these is left out
# Cells that are expected beyond the largest number, and rows that have it, where a scale of answers
# ends. Counts do not end: they have to predict better by so many nats.
_MOST_BEYOND, _AT_THE_END, _GAIN_ON_SCALE = 7.0, 10, 0.1
_SCALE = 20  # largest number of a scale of answers
_MOST_LISTED = 5  # columns in a note
_SEED = 36


class TakenAs(NamedTuple):
    """The family that a column is taken as, and its gain over a Gaussian, in nats a cell."""

    family: Family
    gain: float


def with_counts(table: Table, blocks: AskedBlocks, start: Any, n_threads: int) -> Table:
    """Return the table with families of columns that nobody said, and a note that says why.

    Columns of blocks that were asked for stay numbers; where the fit starts from a mixture, columns
    have its families.
    """
    assert not isinstance(table.data, StandardMoments)
    names = table.data.feature_names
    schema = table.schema or plain_schema(table.data.n_features, names)
    known = known_blocks(blocks, schema.n_columns, schema.column_names)
    joined = {j for block in known.joined for j in block} if known is not None else set()
    columns = [j for j in table.may_count if j not in joined]
    if isinstance(start, Mixture) and len(start.columns) == schema.n_columns:
        found = {j: TakenAs(start.columns[j].model, np.nan) for j in columns}
        found = {j: taken for j, taken in found.items() if taken.family.is_whole}
    else:
        found = choose_families(table.data, schema, columns, known is None, n_threads)
    for j, taken in found.items():
        schema = schema.with_column(j, family=taken.family.name)
    if not found:
        return table
    notes = table.notes if isinstance(start, Mixture) else (*table.notes, _note(found, schema))
    return replace(table, schema=schema, notes=notes)


def _note(found: Mapping[int, TakenAs], schema: Schema) -> str:
    """Return one line on all columns that are not taken as numbers."""
    parts = []
    for family in dict.fromkeys(taken.family for taken in found.values()):
        own = {j: taken.gain for j, taken in found.items() if taken.family is family}
        names = listed([ascii(schema.columns[j].name) for j in own], _MOST_LISTED)
        gains = sorted({f"{gain:.2f}" for gain in (min(own.values()), max(own.values()))})
        parts.append(
            f"{names} taken as {family.noun}: {family.name} predicts left-out cells "
            f"{' to '.join(gains)} nats better than gaussian"
        )
    example = option(families={schema.columns[min(found)].name: Column.family})
    taken = "it" if len(found) == 1 else ascii(schema.columns[min(found)].name)
    return f"{'; '.join(parts)}; {example} takes {taken} as a number"


def choose_families(
    rows: Rows, schema: Schema, columns: Collection[int], joins: bool, n_threads: int = 1
) -> dict[int, TakenAs]:
    """Return what some columns are taken as, by number, where it is another family than theirs.

    With `joins`, columns may be correlated within components.
    """
    rng = np.random.default_rng(_SEED)  # the answer does not depend on the seed of the fit
    values = _looked_at(rows, rng)
    if len(values) < _FEWEST_ROWS:
        return {}
    context = FitContext(rng, n_threads=n_threads)
    groups, found, counts = _Groups(values, schema, context), {}, schema
    gains: dict[int, float] = {}
    for j in columns:
        cells = _seen_cells(values, schema, j)[1]
        if len(cells) < _FEWEST_ROWS or len(np.unique(cells)) < 3:
            continue
        column, own = groups.column(j), schema.columns[j].model
        first = column.scores(own, _FEW_STEPS)
        families = [f for f in _others(own) if column.errors(f, first, _FEW_STEPS) > -_FAR_BEHIND]
        if not families:
            continue
        known = column.scores(own)
        if joins and schema.seen_of(j) is None:
            known = max(known, groups.joined_scores(j), key=np.mean)
        best = max(families, key=lambda f: column.scores(f).mean())
        if column.errors(best, known) > _CLEAR_ERRORS:
            gains[j] = float((column.scores(best) - known).mean())
            counts = counts.with_column(j, family=best.name)
    if not gains:
        return {}
    simple = counts  # all that count by the first family of counts
    for j in gains:
        name = next(f.name for f in _others(schema.columns[j].model) if f.is_whole)
        simple = simple.with_column(j, family=name)
    # Probabilities, both: BIC decides whose groups they are.
    both = [_Groups(values, each, context, groups.fits) for each in (simple, counts)]
    groups = min(both, key=lambda own: own.bic)
    for j, gain in gains.items():
        column, best = groups.column(j), counts.columns[j].model
        scores = column.scores(best)
        # Of families that predict about as well, the simplest.
        taken = next(
            f
            for f in _others(schema.columns[j].model)
            if f is best or column.errors(f, scores, price=False) > -_CLEAR_ERRORS
        )
        if not _has_others(rows, schema.features_of(j)[0], taken):
            found[j] = TakenAs(taken, gain)
    return found


def _others(family: Family) -> Iterator[Family]:
    """Return the families but one, in the order of their registration: simple ones first."""
    return (f for f in FAMILIES.values() if f is not family)


def _looked_at(rows: Rows, rng: np.random.Generator) -> Float:
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


def _seen_cells(values: Float, schema: Schema, j: int) -> tuple[NDArray[np.bool_], Float]:
    """Return which cells of a column are seen, (n,), and those."""
    feature, seen = schema.features_of(j)[0], schema.seen_of(j)
    is_seen = np.ones(len(values), bool) if seen is None else values[:, seen] > 0
    return is_seen, values[is_seen, feature] + schema.columns[j].center


def _has_others(rows: Rows, feature: int, family: Family) -> bool:
    """Return whether any row has a number that the family does not allow."""

    def count(block: Any, counts: Float | None = None) -> tuple[int]:
        wrong = family.invalid(block[:, feature])
        return (0 if wrong is None else int(wrong.sum()),)

    return bool(rows.sum_blocks(count)[0])


class _Column:
    """Cells of a column that are seen, and what the other columns tell of their components."""

    def __init__(self, cells: Float, others: Float, shares: Float) -> None:
        self.values, self.places = np.unique(cells, return_inverse=True)
        if self.values[-1] <= _SCALE:
            self.values, self.places = np.arange(self.values[-1] + 1), cells.astype(np.int64)
        self.others = others  # (r, n), logarithms of shares by the other columns
        self.shares = shares  # (r, n), by all columns
        self._known: dict[tuple[Family, int], tuple[Float, float]] = {}

    def scores(self, family: Family, n_steps: int = _STEPS) -> Float:
        """Return log-probabilities (n,) of cells, each by a fit to the other half of the rows."""
        return self._predict(family, n_steps)[0]

    def errors(
        self, family: Family, known: Float, n_steps: int = _STEPS, price: bool = True
    ) -> float:
        """Return standard errors by which a family predicts better than `known` scores, (n,).

        −∞ where it does not allow the cells. The `price` is that of scales of answers.
        """
        if family.fit_cells(self.values, np.ones((1, len(self.values)))) is None:
            return -np.inf
        scores, needed = self._predict(family, n_steps)
        gains = scores - known - needed * price
        return float(gains.mean() * len(gains) ** 0.5 / max(gains.std(), 1e-300))

    def _predict(self, family: Family, n_steps: int) -> tuple[Float, float]:
        """Return the scores, and by how many nats they have to be better."""
        if (family, n_steps) in self._known:
            return self._known[family, n_steps]
        n, k = len(self.places), len(self.values)
        half, found, beyond = np.arange(n) % 2 == 0, np.empty(n), 0.0
        overall = np.bincount(self.places, minlength=k) / n  # a row for each component
        for train in (half, ~half):
            places, others, shares = (
                self.places[train],
                self.others[:, train],
                self.shares[:, train],
            )
            for _ in range(n_steps):
                own = np.array([np.bincount(places, share, k) for share in shares]) + overall
                logs: Any = family.fit_cells(self.values, own)
                shares = responsibilities(others + logs[:, places])[0]
            found[~train] = log_sums(self.others[:, ~train] + logs[:, self.places[~train]])
            beyond += float(shares.sum(axis=1) @ (1.0 - np.exp(logs).sum(axis=1)))
        ends = family.is_whole and self.values[-1] <= _SCALE and n * overall[-1] > _AT_THE_END
        price = _GAIN_ON_SCALE if ends and beyond > _MOST_BEYOND else 0.0
        self._known[family, n_steps] = found, price
        return found, price


class _Groups:
    """Groups of some rows, by the families of a schema; `starts` are others of all numbers."""

    def __init__(
        self,
        values: Float,
        schema: Schema,
        context: FitContext,
        starts: Sequence[Parameters] = (),
    ) -> None:
        self.values, self.schema = values, schema
        shift, scale = values.mean(axis=0), values.std(axis=0)
        constant = scale <= 1e-12 * np.abs(shift)
        scale = np.where(constant, 1.0, scale)
        self.features = np.flatnonzero(~constant)  # of the rows
        own = (law.covering(float(values[:, law.features[0]].max())) for law in schema.laws())
        laws = Blocks(len(scale), laws=tuple(own)).rescaled(shift, scale).laws
        blocks = Blocks(self.features.size, laws=laws_without(laws, constant))
        self.z = ((values - shift) / scale)[:, self.features]
        is_whole = (values == np.floor(values)).all(axis=0)
        floors = np.where(is_whole, np.minimum((LEAST_STEPS / scale) ** 2, MOST_FLOOR), 0.0)
        structure = Structure(np.maximum(floors, LEAST_VARIANCE)[self.features], blocks)
        table = features_of(self.z, blocks)
        if starts:
            shares = [
                responsibilities(joint_densities(coefficients(p), features_of(self.z, p.blocks)))[0]
                for p in starts
            ]
            priors = [VariancePrior.of_rows(len(values), len(x), structure) for x in shares]
            begun = (
                m_step(x @ table.T, prior)[None] for x, prior in zip(shares, priors, strict=True)
            )
            runs = (
                run_batch(table, p, prior, _GROUP_STEPS, context.n_threads)
                for p, prior in zip(begun, priors, strict=True)
            )
            self.fits = [run.batch[0] for run in runs]
        else:
            self.fits = [quick_fit(table, r, structure, context) for r in _NUMBERS]
        prices = [bic(p, len(values), log_likelihood(table, p)) for p in self.fits]
        self.bic, self.parameters = min(prices), self.fits[int(np.argmin(prices))]

    def _joint(self, features: Int, rows: Any = slice(None)) -> Float:
        """Return log-densities of the components in some features of some rows, (r, n)."""
        p, z = self.parameters, self.z[rows]
        if not features.size:
            return np.repeat(np.log(p.weights)[:, None], len(z), axis=1)
        if features.size < p.blocks.n_features:
            p, z = p.restricted(features), z[:, features]
        return np.asarray(joint_densities(coefficients(p), features_of(z, p.blocks)))

    def column(self, j: int) -> _Column:
        """Return the cells of a column."""
        is_seen, cells = _seen_cells(self.values, self.schema, j)
        own = np.isin(self.features, self.schema.features_of(j))
        others = self._joint(np.flatnonzero(~own), is_seen)
        others -= log_sums(others.copy())
        every = self._joint(np.arange(own.size), is_seen)
        return _Column(cells, others, responsibilities(every)[0])

    @lazy_property
    def _halves(self) -> list[tuple[NDArray[np.bool_], Float, Float, Float]]:
        """Which rows are left out; their log-densities, (r, n), by Gaussians of the others.

        Then the inverse covariances P of numbers, (r, k, k), and P (z − μ), (r, n, k).
        """
        gaussian, every = self.parameters.blocks.gaussian, np.arange(self.z.shape[1])
        z, joint = self.z[:, gaussian], self._joint(np.setdiff1d(every, gaussian))
        shares, d = responsibilities(self._joint(every))[0], gaussian.size
        even, found = np.arange(len(z)) % 2 == 0, []
        for train in (even, ~even):
            weights = shares[:, train] / np.maximum(shares[:, train].sum(axis=1), 1.0)[:, None]
            means = weights @ z[train]
            gaps = z[train] - means[:, None]
            matrices = (gaps * weights[..., None]).swapaxes(1, 2) @ gaps
            trust = shares[:, train].sum(axis=1)  # with few rows they are near the diagonal
            trust = (trust / (trust + 2 * d))[:, None, None]
            matrices *= np.where(np.eye(d, dtype=bool), 1.0, trust)
            inverses = np.linalg.inv(matrices + 1e-3 * np.eye(d))
            gaps = z[~train] - means[:, None]
            turned = gaps @ inverses
            logs = 0.5 * np.linalg.slogdet(inverses)[1][:, None]
            logs = joint[:, ~train] + logs - 0.5 * (turned * gaps).sum(axis=2)
            found.append((~train, logs, inverses, turned))
        return found

    def joined_scores(self, j: int) -> Float:
        """Return log-probabilities (n,) of cells by Gaussians of all numbers together."""
        cells = _seen_cells(self.values, self.schema, j)[1]
        own = self.features[self.parameters.blocks.gaussian] == self.schema.features_of(j)[0]
        place, unit, found = int(np.argmax(own)), float(cells.std()), np.empty(len(cells))
        for left_out, logs, inverses, turned in self._halves:
            variances = 1.0 / inverses[:, place, place][:, None]
            gaps = turned[:, :, place] * variances  # from the mean given the other columns
            others = logs + 0.5 * (np.log(variances) + gaps**2 / variances)
            widths = np.sqrt(np.maximum(unit**2 * variances, LEAST_STEPS**2) - 1 / 12)
            ends = -np.abs(unit * gaps) + np.array([-0.5, 0.5])[:, None, None]
            cell = np.log(np.maximum(np.diff(ndtr(ends / widths), axis=0)[0], 1e-300))
            found[left_out] = log_sums(others + cell) - log_sums(others)
        return found
