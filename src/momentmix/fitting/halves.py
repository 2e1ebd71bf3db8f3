"""Would other rows give the same components? Fits of random halves, compared row by row.

| symbol | name here | shape |
|---|---|---|
| A_i, B_i: rows that the fits of two halves give to component i | ``labels`` | (n,) |
| |A_i ∩ B_k| / |A_i ∪ B_k| | `jaccard` | (r, r) |
| least index of A_i, B_i and the rows of the answer, median of splits | `reproducibility` | (r,) |
| v: depth of the valley that the mixture has between i and k | ``depth`` | |
| a, b: rows near its lowest point, and near the lower of both tops | ``low``, ``top`` | |
| a log 2q + b log 2(1 − q), q = (1 − v) / (2 − v), v ≤ ½ | `evidence` | (r, r) |

A half is fitted by EM from the answer and from fresh starts: from the answer alone a local optimum
would always be found again. The splits are the same for every seed and for every mixture of the
same rows, so that numbers of components are compared on the same halves.

A mixture of Gaussians has gaps where rows have none, as between the halves of a uniform box. So
rows are counted. The evidence for a gap is a likelihood ratio: of a rows beside b, if there are as
few as in a valley of the mixture, or half as many in a deep one, or if there are as many in the
valley as at the top. A gap is shown by rows that a half was not fitted to, and contradicted where
not even the rows that the mixture was fitted to have it: of many columns, directions between groups
that few rows give are far from those of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components

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
from momentmix.mixture.gaussian import features_of, values_of
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
_CENTERINGS = 2  # of the prior of covariances, by those of the half
CLEARLY = 0.95  # parts of one cloud are found again in up to 0.94
CONTRADICTED = -2.0  # nats: rows are seven times as likely where there is no gap
_CLAIMED, _DEEP = 0.25, 0.5  # valleys of the mixture: the least and the most that rows have to show
_WINDOW = 0.1  # of the distance of two means, to either side, in which rows are counted
_POINTS = 61  # between two means
# Of log-odds of rows that are no numbers, in units of their median: at the boundary and around it.
_BOUNDARY, _MIDDLE = 0.3, 0.15


class Again(NamedTuple):
    """How well halves give a mixture again, and the fits of halves with the rows of the others."""

    reproducibility: Float  # (r,)
    separation: Float  # (r, r)
    evidence: (
        Float  # (r, r), of unseen rows for gaps of the mixture, in nats; NaN where it has none
    )
    fitted: Float  # the same of the rows that the mixture was fitted to
    unseen: list[tuple[Parameters, Float]]  # features (n_statistics, n) of rows not fitted to

    def ordered(self, order: Int) -> Again:
        """The same with the components in another order."""
        pairs = np.ix_(order, order)
        tables = self.separation[pairs], self.evidence[pairs], self.fitted[pairs]
        unseen = [(q[order], features) for q, features in self.unseen]
        return Again(self.reproducibility[order], tables[0], tables[1], tables[2], unseen)

    @property
    def is_contradicted(self) -> bool:
        """Whether rows contradict a gap that the mixture has."""
        return bool((self.fitted < CONTRADICTED).any())

    @property
    def has_gaps(self) -> bool:
        """Whether the mixture has a valley between every two, and rows contradict none."""
        return not self.is_contradicted and not np.isnan(self._pairs).any()

    @property
    def is_shown(self) -> bool:
        """Whether rows show a valley between every two."""
        return bool((self._pairs > 0).all())

    @property
    def _pairs(self) -> Float:
        return self.evidence[np.triu_indices(len(self.evidence), 1)]

    @property
    def n_parts(self) -> int:
        """Number of parts with gaps between them, of components without."""
        without = (self.separation < LEAST_GAP) | (self.fitted < CONTRADICTED)
        return int(connected_components(without)[0])

    def segments(self, is_rejected: bool) -> NDArray[np.bool_]:
        """Components that are segments of a continuum, (r,).

        Rows contradict a gap of the mixture, or it has none and is not exact: components within
        each other are no segments where nothing speaks against the mixture. Where in addition
        halves give all of them again clearly, one doubtful gap is none either: of right mixtures
        of answers with levels, one in some tables has it. One trait behind the columns is no doubt:
        it makes the evidence −∞.
        """
        is_clear = not is_rejected and self.reproducibility.min() >= CLEARLY
        without = (self.separation < LEAST_GAP) & is_rejected
        contradicted = np.isneginf(self.fitted) if is_clear else self.fitted < CONTRADICTED
        return np.asarray((without | contradicted).any(axis=1))


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

    def splits(self, most: int = MOST_SPLITS) -> Iterator[tuple[int, Int]]:
        """Number of each split, and the half that each row is in."""
        for number in range(most):
            rng = np.random.default_rng([_SEED, number])
            yield number, (rng.permutation(int(self.group.max()) + 1) % 2)[self.group]

    def features(self, p: Parameters) -> Float:
        """Features of all rows for mixtures like `p`; those of the last blocks are kept."""
        if self._kept is None or self._kept.blocks != p.blocks:
            self._kept = self.sample.of_blocks(p.blocks)
        return self._kept.features

    def fitted(self, places: NDArray[np.bool_], p: Parameters, seed: list[int]) -> Parameters:
        """The best mixture of some rows that EM finds from `p` and from fresh starts."""
        features, r = np.ascontiguousarray(self.features(p)[:, places]), p.n_components
        moments, n = self.sample.moments, features.shape[1]
        prior = self.context.prior(moments, p.blocks, n, r)
        batch = Parameters.stack([p, *fresh_starts(features, r, prior, seed)])
        batch, values = settle(features, batch, prior, _STEPS)
        best = batch[int(values.argmax())]
        for _ in range(_CENTERINGS if moments.within is not None else 0):
            within = np.tensordot(best.weights, best.matrices, 1)  # of these rows alone
            prior = self.context.prior(replace(moments, within=within), p.blocks, n, r)
            best = settle(features, best[None], prior, _STEPS)[0][0]
        return best

    def compare(
        self, p: Parameters, needed: float = LEAST_REPRODUCIBILITY, most: int = MOST_SPLITS
    ) -> Again:
        """Fit the halves of several splits; fewer where it is clear whether `needed` is reached."""
        r, features = p.n_components, self.features(p)
        unseen = list[tuple[Parameters, Float]]()
        labels, joints = most_probable(joint_of(features, p)), list[Float]()
        n_splits = MOST_SPLITS if self.group.size < _FEW_ROWS else SPLITS
        indices = list[Float]()
        for number, half in self.splits(most):

            def work(side: int) -> Parameters:
                return self.fitted(half == side, p, [_SEED, number, side])  # noqa: B023

            fits = list(map_in_order(work, (0, 1), min(self.context.n_threads, 2)))
            if r == 1:
                unseen = [(q, features[:, half != side]) for side, q in enumerate(fits)]
                none = np.full((1, 1), np.nan)
                return Again(np.ones(1), none, none, none, unseen)
            both = [joint_of(features, q) for q in fits]
            index, orders = found_again(labels, [most_probable(joint) for joint in both], r)
            indices.append(index)
            for side, order in enumerate(orders):
                unseen.append((fits[side][order], features[:, half != side]))
                joints.append(both[side][order][:, half != side])
            reached = (np.array(indices) > needed + _CLOSE).sum(axis=0).min()
            missed = (np.array(indices) < needed).sum(axis=0).max()
            middle = np.median(indices, axis=0).min()
            # The median of all lies on the side where most of them are.
            is_clear = max(reached, missed) > n_splits // 2
            is_lost = number == 0 and middle < _FAR * needed
            is_known = number + 1 >= n_splits and abs(middle - needed) > _CLOSE
            if is_clear or is_lost or is_known:
                break
        reproducibility, unknown = np.median(indices, axis=0), np.full((r, r), np.nan)
        if most == 1:
            return Again(reproducibility, unknown, unknown, unknown, unseen)
        separation = separation_of(p, lambda z: joint_of(features_of(z, p.blocks), p))
        evidence = gap_evidence(p, separation, unseen, joints) / len(indices)
        joint = joint_of(features, p)
        fitted = gap_evidence(p, separation, [(p, features)], [joint])
        return Again(reproducibility, separation, evidence, fitted, unseen)


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


def found_again(labels: Int, others: list[Int], n_components: int) -> tuple[Float, list[Int]]:
    """Least Jaccard index of each component's rows in the answer and two fits, (r,).

    Also the orders of the components of both that are those of the answer.
    """
    tables = [jaccard(labels, other, n_components) for other in others]
    i, k = orders = [linear_sum_assignment(-table)[1] for table in tables]
    between = jaccard(others[0], others[1], n_components)[i, k]
    rows = np.arange(n_components)
    return np.minimum(between, np.minimum(tables[0][rows, i], tables[1][rows, k])), orders


def jaccard(first: Int, second: Int, n_components: int) -> Float:
    """Rows that two labels share over the rows that have either, (r, r)."""
    both = np.zeros((n_components, n_components))
    np.add.at(both, (first, second), 1.0)
    either = both.sum(axis=1)[:, None] + both.sum(axis=0) - both
    return np.asarray(both / np.maximum(either, 1.0))


# -- gaps -----------------------------------------------------------------------------------------


def gap_evidence(
    p: Parameters,
    separation: Float,
    unseen: list[tuple[Parameters, Float]],
    joints: list[Float],
) -> Float:
    """Evidence of rows for the gaps between components, (r, r), summed over fits of halves.

    `joints` are log-densities of components and unseen rows, weights included.
    """
    r = p.n_components
    evidence = np.full((r, r), np.nan)
    for i, k in combinations(range(r), 2):
        valleys = list[Valley]()
        for (q, features), joint in zip(unseen, joints, strict=True):
            labels = most_probable(joint)
            mine, other = labels == i, labels == k
            if p.blocks.laws:
                sides = (joint[i] - joint[k])[mine], (joint[k] - joint[i])[other]
                valleys.append(log_odds_valley(separation[i, k], sides))
            else:
                z = values_of(features[:, mine | other], q.blocks)
                valleys.append(normal_valley(q[[i, k]], z))
        v, low, top = np.array(valleys).T
        depth = min(float(np.median(v)), _DEEP)
        if depth >= _CLAIMED:
            share = (1.0 - depth) / (2.0 - depth)
            logs = np.log(2.0 * np.array([share, 1.0 - share]))
            evidence[i, k] = low.sum() * logs[0] + top.sum() * logs[1]
    return np.asarray(np.fmax(evidence, evidence.T))


class Valley(NamedTuple):
    """A valley between two components of a mixture, and rows near it."""

    depth: float
    low: int = 0  # rows near the lowest point
    top: int = 0  # rows near the top that has fewer of them


def normal_valley(p: Parameters, z: Float) -> Valley:
    """The valley along the direction that tells two normal components apart best.

    `z` are the rows (d, n) of both.
    """
    direction = np.linalg.solve(p.matrices.sum(axis=0), p.means[0] - p.means[1])
    ends = p.means @ direction
    deviations = np.sqrt(np.einsum("i,kij,j->k", direction, p.matrices, direction))
    if not deviations.all():  # equal means
        return Valley(0.0)
    grid = np.linspace(ends[0], ends[1], _POINTS)
    scaled = (grid - ends[:, None]) / deviations[:, None]
    # In logarithms: densities between components far apart underflow.
    heights = np.log(np.maximum(p.weights, LEAST_WEIGHT) / deviations)
    logs = np.logaddexp(*(heights[:, None] - 0.5 * scaled**2))
    below = below_tops(logs)
    low = int(below.argmin())
    tops = int(logs[:low].argmax()) if low else 0, low + int(logs[low:].argmax())
    distances = np.abs(direction @ z - grid[[low, *tops]][:, None])
    counts = (distances < _WINDOW * abs(ends[1] - ends[0])).sum(axis=1)
    return Valley(1.0 - float(np.exp(below[low])), int(counts[0]), int(counts[1:].min()))


def log_odds_valley(depth: float, sides: tuple[Float, Float]) -> Valley:
    """Rows at the boundary and around the middle of either component, by their log-odds."""
    valleys = list[Valley]()
    for odds in sides:
        middle = np.median(odds) if odds.size else 0.0
        low, top = odds < _BOUNDARY * middle, np.abs(odds - middle) < _MIDDLE * middle
        valleys.append(Valley(depth, int(low.sum()), int(top.sum())))
    return max(valleys, key=lambda valley: valley.low / max(valley.top, 1))
