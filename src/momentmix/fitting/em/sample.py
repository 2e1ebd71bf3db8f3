"""Rows in memory for the steps that look at them often: candidates, scores, information."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.gaussian import (
    features_of,
    standardized_features,
    values_of,
)
from momentmix.tables.rows import Rows
from momentmix.tables.weights import proportional_places

FEWEST_SAMPLED, MOST_NUMBERS = 4000, 10**7  # rows, and numbers of the features of a sample
ALL_ROWS_BELOW = 20000  # with fewer rows, candidates are made on all of them: it takes seconds
# Multiplications that the outer product of the scores of a sample may take: a second or two.
_SCORING_WORK = 10**10
# Rows of the outer product: a variance is then known to 1.4 %, and with 50 rows a parameter it is
# at most 2 % too large.
_INFORMATION_ROWS, _ROWS_PER_PARAMETER = 10_000, 50


class Sample(NamedTuple):
    """Features of standardized rows, to work on and to judge by, each (n_statistics, n)."""

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
        return Sample(features, features if self.is_all else judges, self.is_all, blocks)

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


def draw_sample(rows: Rows, moments: StandardMoments, rng: np.random.Generator) -> Sample:
    """All rows if they are few; otherwise one sample to work on and one to judge by.

    Few rows are sorted before they are shuffled, so that the order they come in does not matter.
    Of rows that count differently, each is drawn as often as it counts.
    """
    n, is_all = rows.n_counted, rows.n_counted <= ALL_ROWS_BELOW
    size = min(n, 2 * ALL_ROWS_BELOW)
    if rows.row_counts is not None:
        values = _drawn_by_counts(rows, rows.row_counts, moments, size, rng)
    else:
        values = _taken(rows, moments, _random_places(n, size, rng))
    if is_all:
        values = values[np.lexsort(values.T)]
    features = _features(values[rng.permutation(size)], moments)
    if is_all:
        return Sample(features, features, True, moments.alone)
    half = size // 2
    return Sample(features[:, :half], features[:, half:], False, moments.alone)


def _drawn_by_counts(
    rows: Rows, counts: Float, moments: StandardMoments, size: int, rng: np.random.Generator
) -> Float:
    """About `size` of the rows, each as often as it counts; few rows in an order of their own."""
    offset = float(rng.uniform())
    if rows.n_rows > 2 * ALL_ROWS_BELOW:
        return _taken(rows, moments, proportional_places(counts, size, offset))
    # Neighbors in a sorted order are alike: draws at equal distances differ less from all rows.
    values = _taken(rows, moments, np.arange(rows.n_rows))
    order = np.lexsort((counts, *values.T))
    return values[order[proportional_places(counts[order], size, offset)]]


def information_rows(
    rows: Rows,
    moments: StandardMoments,
    sample: Sample,
    n_parameters: int,
    rng: np.random.Generator,
) -> tuple[Float, Float | None]:
    """Rows for the outer product of scores, with the features of the sample's blocks.

    All where they are few; otherwise as many as standard errors need. The second part is how many
    rows each counts as, where they have weights.
    """
    size = max(_INFORMATION_ROWS, _ROWS_PER_PARAMETER * n_parameters)
    if rows.row_counts is None:
        if sample.is_all:
            return sample.features, None
        if size <= sample.features.shape[1]:
            return sample.features[:, :size], None
        if rows.is_remote or size <= sample.features.shape[1] + sample.judges.shape[1]:
            return sample.all_features[:, :size], None
    else:
        size = max(size, 2 * ALL_ROWS_BELOW)  # heavy rows are few among all
    places = _random_places(rows.n_rows, min(size, rows.n_rows), rng)
    features = _features(_taken(rows, moments, places), moments, sample.blocks)
    return features, None if rows.row_counts is None else rows.row_counts[places]


def _random_places(n: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers of `size` of n rows, ascending."""
    return np.arange(n) if size == n else np.sort(rng.choice(n, size=size, replace=False))


def _taken(rows: Rows, moments: StandardMoments, places: NDArray[np.int64]) -> Float:
    """Rows with these numbers, the columns that vary."""
    values = rows.take(places)
    return values[:, moments.columns] if moments.n_features < values.shape[1] else values


def _features(values: Float, moments: StandardMoments, blocks: Blocks | None = None) -> Float:
    """T(z) of standardized rows z, written where it stays."""
    blocks = blocks or moments.alone
    features = np.empty((blocks.n_statistics, len(values)))
    standardized_features(values, moments.shift, 1.0 / moments.scale, blocks, features)
    return features
