"""Expectation–maximization: one pass over all rows, and runs of many mixtures on a sample of them.

Sums of blocks of rows are added in the order of the blocks: the bits do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import log
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import to_numpy
from momentmix.fitting.em.patterns import complete_sums
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.density import (
    TILE_ENTRIES,
    Density,
    compiled_products,
    joint_densities,
    log_sums,
    mean_log_densities,
    responsibilities,
    statistics_of,
)
from momentmix.mixture.gaussian import (
    coefficients,
    features_of,
    m_step,
    values_of,
)
from momentmix.mixture.missing import Pattern, correct_joint, patterns
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.native import code
from momentmix.parallel import map_in_order
from momentmix.tables.rows import Rows, proportional_places

MOST_COMPILED = 16  # features of a block: the rotations of wider matrices take longer than LAPACK
_ROUND = 5  # EM steps between looks at the gains
_ROUNDS_AHEAD = 20.0  # a mixture that needs more rounds like the last does not catch up
FEWEST_SAMPLED, MOST_NUMBERS = 4000, 10**7  # rows, and numbers of the features of a sample
_ORDER_SEED = 5  # of one fixed order of the rows; most frozen answers are those of this one
ALL_ROWS_BELOW = 20000  # with fewer rows, candidates are made on all of them: it takes seconds
# Multiplications that the outer product of the scores of a sample may take: a second or two.
_SCORING_WORK = 10**10
# Rows of the outer product: a variance is then known to 1.4 %, and with 50 rows a parameter it is
# at most 2 % too large.
_INFORMATION_ROWS, _ROWS_PER_PARAMETER = 10_000, 50


class Pass(NamedTuple):
    """Sums of one pass: statistics (r, n_statistics), total log-likelihood, number of rows."""

    statistics: Float
    log_likelihood: float
    n_rows: int


def em_pass(
    rows: Rows, moments: StandardMoments, parameters: Parameters, n_threads: int = 1
) -> Pass:
    """One pass over all rows: statistics and log-likelihood of standardized features."""
    return Pass(*rows.sum_blocks(row_sums(moments, parameters), n_threads))


def row_sums(
    moments: StandardMoments, parameters: Parameters
) -> Callable[..., tuple[Float, float, float]]:
    """A function that gives the sums of a pass for a block of rows, and for what they count as."""
    if not parameters.blocks.missing:
        return standardized_density(moments, parameters).em_sums

    def sums(block: Any, counts: Float | None = None) -> tuple[Float, float, float]:
        values = to_numpy(block)[:, moments.columns]
        features = _features(values, moments, parameters.blocks)
        found = patterns(features, parameters.blocks)
        statistics, logs = _sums(features, parameters, found, counts)
        n = float(logs.size if counts is None else counts.sum())
        return statistics, float(logs.sum()), n

    return sums


def joint_of(features: Float, parameters: Parameters) -> Float:
    """Log-densities of components and rows T(z), weights included, (…, r, n)."""
    joint = joint_densities(coefficients(parameters), features)
    if parameters.blocks.missing:
        correct_joint(joint, parameters, patterns(features, parameters.blocks))
    return np.asarray(joint)


def _sums(
    features: Float, p: Parameters, found: list[Pattern], counts: Float | None = None
) -> tuple[Float, Float]:
    """Statistics (…, r, n_statistics) and log-densities (…, n) of rows with missing cells."""
    joint = joint_densities(coefficients(p), features)
    correct_joint(joint, p, found)
    shares, logs = responsibilities(joint)
    if counts is not None:
        shares, logs = shares * counts, logs * counts
    statistics = shares @ features.T
    complete_sums(statistics, p, shares, found)
    return statistics, logs


def standardized_density(moments: StandardMoments, parameters: Parameters) -> Density:
    """Densities of rows in standardized features, those that vary."""
    table, inverse = coefficients(parameters), 1.0 / moments.scale
    return Density(table, parameters, moments.shift, inverse, moments.columns)


class Run(NamedTuple):
    """A batch of k mixtures after EM steps, objectives before the last step, gains before it."""

    batch: Parameters
    values: Float
    gains: Float


def run_batch(
    features: Float, start: Parameters, prior: VariancePrior, n_steps: int, n_threads: int = 1
) -> Run:
    """Return k mixtures after EM steps on rows in memory, features of shape (n_statistics, n)."""
    if code is not None and start.blocks.widest <= MOST_COMPILED and not start.blocks.missing:
        layout = prior.structure.layout(start.blocks)
        if layout is not None:
            return _compiled_steps(features, start, prior, n_steps, n_threads, layout)
    k, r = start.weights.shape
    n_groups = min(k, n_threads)
    if code is None:
        # Mixtures share a product until its tile of densities is as wide as the cache allows,
        # whatever the number of threads.
        n_groups = int(np.clip(k * r * features.shape[1] // TILE_ENTRIES, 1, k))
    edges = np.linspace(0, k, n_groups + 1).astype(int)
    found = patterns(features, start.blocks)

    def run(batch: Parameters) -> Run:
        values = before = np.full(len(batch.weights), -np.inf)
        for step in range(n_steps):
            if batch.blocks.missing:
                statistics, logs = _sums(features, batch, found)
                mean_log = logs.mean(axis=-1)
            else:
                table = coefficients(batch)
                statistics, mean_log = statistics_of(table, features, batch.blocks)
            if step >= n_steps - 2:
                log_prior = prior.log_density(batch) / features.shape[1]
                before, values = values, mean_log + log_prior
            batch = m_step(statistics, prior)
        return Run(batch, values, values - before)

    groups = [start[a:b] for a, b in pairwise(edges)]
    batches, values, gains = zip(*map_in_order(run, groups, min(n_threads, n_groups)), strict=True)
    return Run(Parameters.concatenate(batches), np.concatenate(values), np.concatenate(gains))


def _compiled_steps(
    features: Float,
    start: Parameters,
    prior: VariancePrior,
    n_steps: int,
    n_threads: int,
    layout: tuple[Any, ...],
) -> Run:
    """`run_batch` in one call of compiled code."""
    blocks = start.blocks
    weights, means, spread = (np.array(x) for x in (start.weights, start.means, start.spread))
    values = np.full((2, len(weights)), -np.inf)
    sides = (prior.floor, prior.structure.units)
    floor = np.array([np.broadcast_to(x, means.shape[-1:]) for x in sides], dtype=np.float64)
    done = code.em_steps(
        features, n_steps, weights.shape[-1], n_threads, prior.scale, prior.added_squares, floor,
        compiled_products(blocks, blocks.n_features), *layout, weights, means, spread, values,
    )  # fmt: skip
    if not done:
        raise np.linalg.LinAlgError("a covariance matrix is not positive definite")
    d = blocks.n_features
    batch = Parameters(weights, means, spread[..., :d], spread[..., d:], blocks)
    return Run(batch, values[1], values[1] - values[0])


def settle(
    features: Float,
    start: Parameters,
    prior: VariancePrior,
    max_steps: int,
    n_threads: int = 1,
    least_gain: float = 5e-5,
    target: float | None = None,
    least_steps: int = _ROUND,
) -> tuple[Parameters, Float]:
    """EM of a batch in rounds of five steps; the parameters and their last objectives, (k,).

    After `least_steps` a mixture stops where a round gains less than `least_gain` nats a row, or
    where it cannot catch up with the best, or with `target` (−∞: all go on).
    """
    settled, k = start.copy(), len(start.weights)
    active, last = np.arange(k), np.full(k, -np.inf)
    for done in range(0, max_steps, _ROUND):
        n_steps = min(_ROUND, max_steps - done)
        batch, values, gains = run_batch(features, settled[active], prior, n_steps, n_threads)
        settled[active] = batch
        last[active] = values
        if done + n_steps < least_steps:
            continue
        best = last.max() if target is None else target
        gains = _ROUND * gains
        active = active[(gains > least_gain) & (values + _ROUNDS_AHEAD * gains >= best)]
        if not active.size:
            break
    return settled, last


def log_likelihoods(features: Float, batch: Parameters) -> Float:
    """Mean log-density of the rows under each mixture of a batch, of shape (k,)."""
    if batch.blocks.missing:
        return np.asarray(log_sums(joint_of(features, batch)).mean(axis=-1))
    return mean_log_densities(coefficients(batch), features, batch.blocks)


def log_likelihood(features: Float, parameters: Parameters) -> float:
    """Mean log-density of the rows under one mixture."""
    return float(log_likelihoods(features, parameters[None])[0])


def bic(parameters: Parameters, n_rows: int, log_likelihood: float) -> float:
    """Bayesian information criterion of rows with this log-likelihood each, on average."""
    return parameters.n_free * log(n_rows) - 2.0 * n_rows * log_likelihood


def objectives(features: Float, batch: Parameters, prior: VariancePrior) -> Float:
    """The objective of EM: mean log-density of a row plus the log prior over the rows; (k,)."""
    values = log_likelihoods(features, batch) + prior.log_density(batch) / features.shape[1]
    return np.asarray(values)


# -- rows in memory -------------------------------------------------------------------------------


class Sample(NamedTuple):
    """Features of some rows of a fit, to work on and to judge by, each (n_statistics, n)."""

    rows: Rows
    moments: StandardMoments
    features: Float
    judges: Float
    is_all: bool
    blocks: Blocks

    def of_blocks(self, blocks: Blocks) -> Sample:
        """The same rows with the features that mixtures of these blocks need."""
        if blocks == self.blocks:
            return self
        most = max(FEWEST_SAMPLED, MOST_NUMBERS // blocks.n_statistics)
        features, judges = (
            features_of(values_of(x, self.blocks)[:, :most].T, blocks)
            for x in (self.features, self.judges)
        )
        judges = features if self.is_all else judges
        return self._replace(features=features, judges=judges, blocks=blocks)

    def around(self, within: Float | None) -> Sample:
        """The same with a prior around the covariance pooled within components, (d, d)."""
        return self._replace(moments=replace(self.moments, within=within))

    def without_rows(self) -> Sample:
        """The same sample, which does not keep all rows in memory."""
        return self._replace(rows=cast(Rows, None))

    def ordered(self) -> Sample:
        """The same in an order that depends on the rows alone; of a part of the rows as it is."""
        if not self.is_all:
            return self
        order = row_order(values_of(self.features, self.blocks))
        order = np.random.default_rng(_ORDER_SEED).permutation(order)
        features = np.ascontiguousarray(self.features[:, order])
        return self._replace(features=features, judges=features)

    @property
    def all_features(self) -> Float:
        """Features of all rows of the sample."""
        return self.features if self.is_all else np.hstack([self.features, self.judges])

    def scoring_features(self, n_parameters: int) -> Float | None:
        """Rows for the information matrix of scoring steps; None where they are too few."""
        features, fewest = self.all_features, 8 * n_parameters
        if features.shape[1] < fewest:
            return None
        most = max(ALL_ROWS_BELOW, _ROWS_PER_PARAMETER * n_parameters)
        return features[:, : max(fewest, min(most, _SCORING_WORK // n_parameters**2))]


def draw_sample(
    rows: Rows,
    moments: StandardMoments,
    rng: np.random.Generator,
    most: int = 2 * ALL_ROWS_BELOW,
) -> Sample:
    """All rows if they are few; otherwise one sample to work on and one to judge by."""
    n, is_all = rows.n_counted, rows.n_counted <= ALL_ROWS_BELOW
    size = min(n, most)
    if rows.row_counts is None:
        values = _taken(rows, moments, _random_places(n, size, rng))
    elif rows.n_rows > most:
        offset = float(rng.uniform())
        values = _taken(rows, moments, proportional_places(rows.row_counts, size, offset))
    else:
        # Neighbors in a sorted order are alike: draws at equal distances differ less from all rows.
        offset, values = float(rng.uniform()), _taken(rows, moments, np.arange(rows.n_rows))
        order = np.lexsort((rows.row_counts, *values.T))
        values = values[order[proportional_places(rows.row_counts[order], size, offset)]]
    if is_all:  # sorted first: the order that rows come in does not matter
        values = values[row_order((values - moments.shift).T / moments.scale[:, None])]
    features = _features(values[rng.permutation(size)], moments)
    judges, half = features, size // 2
    if not is_all:
        features, judges = features[:, :half], features[:, half:]
    return Sample(rows, moments, features, judges, is_all, moments.alone)


def row_order(values: Float) -> Int:
    """An order of standardized rows (d, n) that depends neither on order nor on signs of columns.

    Rows that differ in these alone come by their values.
    """
    weights = 1.0 / np.arange(1.0, len(values) + 1)
    sizes = np.round(weights @ np.sort(np.abs(values), axis=0), 9)
    return np.lexsort((weights @ values, sizes))


def information_rows(
    sample: Sample, n_parameters: int, rng: np.random.Generator
) -> tuple[Float, Float | None]:
    """Features of rows for the outer product of scores, and how much each counts, if weighted."""
    rows, moments = sample.rows, sample.moments
    size = max(_INFORMATION_ROWS, _ROWS_PER_PARAMETER * n_parameters)
    if rows.row_counts is None:
        return sample.all_features[:, : None if sample.is_all else size], None
    size = max(size, 2 * ALL_ROWS_BELOW)  # heavy rows are few among all
    places = _random_places(rows.n_rows, min(size, rows.n_rows), rng)
    features = _features(_taken(rows, moments, places), moments, sample.blocks)
    return features, rows.row_counts[places]


def _random_places(n: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers of `size` of n rows, ascending."""
    return np.arange(n) if size == n else np.sort(rng.choice(n, size=size, replace=False))


def _taken(rows: Rows, moments: StandardMoments, places: NDArray[np.int64]) -> Float:
    """Rows with these numbers, the columns that vary."""
    values = rows.take(places)
    return values[:, moments.columns] if moments.n_features < values.shape[1] else values


def _features(values: Float, moments: StandardMoments, blocks: Blocks | None = None) -> Float:
    """T(z) of standardized rows z, written where it stays."""
    return features_of(values, blocks or moments.alone, moments.shift, 1.0 / moments.scale)
