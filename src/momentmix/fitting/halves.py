"""Would other rows give the same components? Fits of random halves, compared row by row.

| symbol | name here | shape |
|---|---|---|
| A_i, B_i: rows that the fits of two halves give to component i | ``labels`` | (n,) |
| |A_i ∩ B_k| / |A_i ∪ B_k| | `jaccard` | (r, r) |
| least index of A_i, B_i and the rows of the answer; its median over splits | ``indices`` | (r,) |

A half is fitted by EM from the answer and from fresh starts: from the answer alone a local optimum
would always be found again. The splits are the same for every seed and for every mixture of the
same rows, so that numbers of components are compared on the same halves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from momentmix._typing import Float, Int
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import (
    MOST_NUMBERS,
    Sample,
    draw_sample,
    joint_of,
    run_batch,
    settle,
)
from momentmix.fitting.em.starts import LEAST_WEIGHT, random_starts, seeded_starts
from momentmix.fitting.inference.certificate import LEAST_REPRODUCIBILITY
from momentmix.mixture.density import most_probable
from momentmix.mixture.gaussian import values_of
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.mixture.separation import LEAST_GAP, below_tops, separation_of
from momentmix.parallel import map_in_order

_SEED = 35  # of the splits
ROWS = 6000  # of both halves: more find groups that fewer would not, and take longer
LEAST_OF_A_COMPONENT = 200  # rows of the smallest component in each half, where there are as many
SPLITS, MOST_SPLITS = 3, 7  # more where the median of three is close to what is needed
_FEW_ROWS = 1000  # whose halves differ more, and cost little: they are split more often
_CLOSE, _FAR = 0.1, 0.5  # of what is needed: within, or after one split so far below
# Fresh starts of a half: of each kind, EM steps on so many rows, and those that go on.
_SEEDED, _RANDOM, _SHORT_STEPS, _SHORT_ROWS, _KEPT = 3, 2, 15, 3000, 2
_STEPS = 60
# BIC asks too much for covariances that borrow strength from each other: where gaps are clear, more
# components than it wants may count.
BEYOND_BIC, CLEAR_GAP = 0.8, 0.5
FROM_ONE = 0.95  # where BIC wants one, or nearly so: parts of one cloud of 300 rows reach 0.94
_CENTERINGS = 2  # of the prior of covariances, by those of the half
_CLAIMED, _SHOWN = 0.25, 0.5  # a valley of the mixture, and the part of it that rows have to show
_ERROR = 0.35  # of the valley, at most, of what rows show: else too few rows lie near it
_WINDOW = 0.1  # of the distance of two means, to either side, in which rows are counted
_POINTS = 61  # between two means


class Again(NamedTuple):
    """How well halves give a mixture again, and the fits of halves with the rows of the others."""

    reproducibility: Float  # (r,)
    unseen: list[tuple[Parameters, Float]]  # features (n_statistics, n) of rows not fitted to
    cut: tuple[int, ...] = ()  # two components that are parts of one cloud, where it was looked for


class Halves:
    """Rows of a sample in random halves."""

    def __init__(self, sample: Sample, context: FitContext, n_rows: int = ROWS) -> None:
        self.context, rng = context, np.random.default_rng(_SEED)
        features, rows = sample.ordered().all_features, sample.rows
        size = min(n_rows, max(ROWS, MOST_NUMBERS // sample.blocks.n_statistics), rows.n_counted)
        if size > features.shape[1]:
            drawn = draw_sample(rows, sample.moments, rng, size)
            features = drawn.of_blocks(sample.blocks).all_features
        features = features[:, :size]
        kept = sample.without_rows()  # nor do estimators keep them until this is computed
        self.sample = kept._replace(features=features, judges=features, is_all=True)
        self._kept: Sample | None = None
        n = features.shape[1]
        self.group = np.arange(n)  # rows of one group are never parted
        is_survey = rows.row_counts is not None and not rows.is_frequency
        if is_survey or (context.checked is not None and context.checked.n_duplicates):
            # Duplicates, like the copies of a heavy row that were drawn, are one observation.
            copies = np.unique(values_of(features, sample.blocks), axis=1, return_inverse=True)[1]
            self.group = copies.ravel()

    @classmethod
    def of_answer(cls, sample: Sample, p: Parameters, context: FitContext) -> Halves:
        """Halves with enough rows of the smallest component, where there are as many."""
        needed = 2 * LEAST_OF_A_COMPONENT / max(float(p.weights.min()), 1e-6)
        return cls(sample, context, max(ROWS, ceil(needed)))

    def center(self, within: Float | None) -> None:
        """Give the prior of covariances the center of a mixture that is compared next."""
        self.sample = self.sample.around(within)

    def splits(self) -> Iterator[tuple[int, Int]]:
        """Number of each split, and the half that each row is in."""
        for number in range(MOST_SPLITS):
            rng = np.random.default_rng([_SEED, number])
            yield number, (rng.permutation(int(self.group.max()) + 1) % 2)[self.group]

    def features(self, p: Parameters) -> Float:
        """Features of all rows for mixtures like `p`; those of the last blocks are kept."""
        if self._kept is None or self._kept.blocks != p.blocks:
            self._kept = self.sample.of_blocks(p.blocks)
        return self._kept.features

    def labels(self, p: Parameters) -> Int:
        """Component of each row."""
        return np.asarray(most_probable(joint_of(self.features(p), p)))

    def fitted(self, places: NDArray[np.bool_], p: Parameters, seed: list[int]) -> Parameters:
        """The best mixture of some rows that EM finds from `p` and from fresh starts."""
        features, r = np.ascontiguousarray(self.features(p)[:, places]), p.n_components
        moments, n = self.sample.moments, features.shape[1]
        prior = self.context.prior(moments, p.blocks, n, r)
        batch = Parameters.stack([p, *fresh_starts(features, r, prior, seed)])
        batch, values = settle(features, batch, prior, _STEPS)
        for _ in range(_CENTERINGS if moments.within is not None else 0):
            best = batch[int(values.argmax())]  # of these rows alone
            within = np.tensordot(best.weights, best.matrices, 1)
            prior = self.context.prior(replace(moments, within=within), p.blocks, n, r)
            batch, values = settle(features, batch, prior, _STEPS)
        return batch[int(values.argmax())]

    def compare(self, p: Parameters, needed: float = LEAST_REPRODUCIBILITY) -> Again:
        """Fit the halves of several splits; fewer where it is clear whether `needed` is reached."""
        r, own = p.n_components, self.labels(p)
        n_splits = MOST_SPLITS if self.group.size < _FEW_ROWS else SPLITS
        indices, unseen = list[Float](), list[tuple[Parameters, Float]]()
        for number, half in self.splits():

            def work(side: int) -> Parameters:
                return self.fitted(half == side, p, [_SEED, number, side])  # noqa: B023

            fits = list(map_in_order(work, (0, 1), min(self.context.n_threads, 2)))
            unseen += [(q, self.features(p)[:, half != side]) for side, q in enumerate(fits)]
            if r == 1:
                return Again(np.ones(1), unseen)
            indices.append(found_again(own, self.labels(fits[0]), self.labels(fits[1]), r))
            reached = (np.array(indices) > needed + _CLOSE).sum(axis=0).min()
            missed = (np.array(indices) < needed).sum(axis=0).max()
            middle = np.median(indices, axis=0).min()
            # The median of all lies on the side where most of them are.
            is_clear = max(reached, missed) > n_splits // 2
            is_lost = number == 0 and middle < _FAR * needed
            is_known = number + 1 >= n_splits and abs(middle - needed) > _CLOSE
            if is_clear or is_lost or is_known:
                break
        return Again(np.asarray(np.median(indices, axis=0)), unseen)

    def cut(self, p: Parameters) -> tuple[int, ...]:
        """Two components of numbers with a gap between them that the rows do not show."""
        return () if p.blocks.laws else cut_between(self.features(p), p)

    def has_gaps(self, p: Parameters, unseen: list[tuple[Parameters, Float]]) -> bool:
        """Whether rows that fits of halves have not seen show gaps between all components."""
        if p.blocks.laws:
            return bool(np.nanmin(separation_of(p)) >= LEAST_GAP)
        own, found = self.labels(p), list[list[Valley]]()
        for q, features in unseen:
            alike = jaccard(own, self.labels(q), p.n_components)
            found.append(list(valleys(features, q[linear_sum_assignment(-alike)[1]])))
        for pair in zip(*found, strict=True):
            depths, lowest, tops = np.array([valley[1:] for valley in pair]).T
            if lowest.sum() > (1.0 - _SHOWN * np.median(depths)) * tops.sum() or not tops.any():
                return False
        return True


def fresh_starts(
    features: Float, n_components: int, prior: VariancePrior, seed: list[int]
) -> list[Parameters]:
    """The best of a few short EM runs of these rows; none for one component."""
    if n_components == 1:
        return []
    features, arguments = features[:, :_SHORT_ROWS], (prior, np.random.default_rng(seed))
    seeded = seeded_starts(features, n_components, _SEEDED, *arguments)
    random = random_starts(features, n_components, _RANDOM, *arguments)
    batch = Parameters.concatenate([seeded, random])
    batch, values, _ = run_batch(features, batch, prior, _SHORT_STEPS)
    return [batch[int(k)] for k in np.argsort(-values, kind="stable")[:_KEPT]]


def found_again(own: Int, first: Int, second: Int, n_components: int) -> Float:
    """Least Jaccard index of each component's rows in the answer and two fits, (r,)."""
    tables = [jaccard(own, other, n_components) for other in (first, second)]
    i, k = (linear_sum_assignment(-table)[1] for table in tables)
    between = jaccard(first, second, n_components)[i, k]
    rows = np.arange(n_components)
    return np.minimum(between, np.minimum(tables[0][rows, i], tables[1][rows, k]))


def jaccard(first: Int, second: Int, n_components: int) -> Float:
    """Rows that two labels share over the rows that have either, (r, r)."""
    both = np.zeros((n_components, n_components))
    np.add.at(both, (first, second), 1.0)
    either = both.sum(axis=1)[:, None] + both.sum(axis=0) - both
    return np.asarray(both / np.maximum(either, 1.0))


class Valley(NamedTuple):
    """The valley between two components: what the mixture claims, and rows near it."""

    pair: tuple[int, int]
    depth: float  # 0 where it is too shallow to be looked for
    lowest: int = 0  # rows near the lowest point
    tops: int = 0  # rows near the top that has fewer of them


def valleys(features: Float, p: Parameters) -> Iterator[Valley]:
    """Return the valleys between all pairs of components.

    Along the direction that tells the two apart best, rows near the lowest point of the mixture's
    density are counted, and rows near the tops to both sides.
    """
    labels = most_probable(joint_of(features, p))
    z, matrices = values_of(features, p.blocks), p.matrices
    for i in range(p.n_components):
        for k in range(i):
            direction = np.linalg.solve(matrices[i] + matrices[k], p.means[i] - p.means[k])
            ends = p.means[[i, k]] @ direction
            deviations = np.sqrt([direction @ matrices[a] @ direction for a in (i, k)])
            depth = 0.0
            if deviations.all():  # means differ
                grid = np.linspace(ends[0], ends[1], _POINTS)
                scaled = (grid - ends[:, None]) / deviations[:, None]
                # In logarithms: densities between components far apart underflow.
                heights = np.log(np.maximum(p.weights[[i, k]], LEAST_WEIGHT) / deviations)
                logs = np.logaddexp(*(heights[:, None] - 0.5 * scaled**2))
                below = below_tops(logs)
                low = int(below.argmin())
                depth = 1.0 - float(np.exp(below[low]))
            if depth < _CLAIMED:
                yield Valley((k, i), 0.0)
                continue
            tops = int(logs[:low].argmax()), low + int(logs[low:].argmax())
            x = direction @ z[:, (labels == i) | (labels == k)]
            width = _WINDOW * abs(ends[1] - ends[0])
            counts = (int((np.abs(x - grid[a]) < width).sum()) for a in (low, *tops))
            lowest, first, second = counts
            yield Valley((k, i), depth, lowest, min(first, second))


def is_clear(p: Parameters, reproducibility: float) -> bool:
    """Whether components have gaps between them and so high a least reproducibility."""
    least = BEYOND_BIC if p.n_components > 2 else FROM_ONE
    return bool(reproducibility >= least and np.nanmin(separation_of(p)) >= CLEAR_GAP)


def cut_between(features: Float, p: Parameters) -> tuple[int, ...]:
    """Two components with a valley between them that the rows do not show; () for none."""
    for valley in valleys(features, p):
        # The error of the ratio has to be small beside the valley, or nothing is known.
        error = np.sqrt(1.0 / max(valley.lowest, 1) + 1.0 / max(valley.tops, 1))
        is_known = error < _ERROR * valley.depth
        if is_known and valley.lowest > (1.0 - _SHOWN * valley.depth) * valley.tops:
            return valley.pair
    return ()
