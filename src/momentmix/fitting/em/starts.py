"""Starting points from the rows themselves, or from the caller.

| symbol | name here | shape |
|---|---|---|
| D²-sampled rows (k-means++) | ``seeded_starts`` | (k, r, d) |
| EM step from random responsibilities | ``random_starts`` | (k, r, d) |
| a mixture with one component cut in two | ``split_starts`` | (k, r + 1, d) |

The first two find what the other misses: k-means++ finds components far from the rest, random
responsibilities find components that differ in spread. A cut finds clusters along one column of
many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from momentmix._typing import Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.column import Column
from momentmix.fitting.em.em import joint_of
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.blocks import spread_of
from momentmix.mixture.columns import parameters_of
from momentmix.mixture.density import responsibilities
from momentmix.mixture.gaussian import m_step, values_of
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.tables.schema import Schema

LEAST_WEIGHT = 1e-6
_FEWEST_CUT = 10.0  # rows: a component of fewer is not worth a cut


def seeded_starts(
    features: Float,
    n_components: int,
    n_starts: int,
    prior: VariancePrior,
    rng: np.random.Generator,
) -> Parameters:
    """k-means++ seeds, rows assigned to the nearest; every second start has pooled spread.

    One in four finds its seeds in a random few of the features: components that differ in one
    feature only (a yes/no column, say) are lost among the others.
    """
    values = values_of(features, prior.blocks_for(len(features)))
    d = values.shape[0]
    columns = np.argsort((values**4).sum(axis=1))  # whatever order they come in
    labels = []
    for start in range(n_starts):
        points = values
        if start % 4 == 3:
            points = values[columns[rng.choice(d, size=int(rng.integers(1, max(2, d // 3 + 1))))]]
        labels.append(_assign(points, _seeds(points, n_components, rng)))
    return _from_clusters(features, labels, n_components, prior, np.arange(n_starts) % 2)


def _from_clusters(
    features: Float,
    labels: Sequence[NDArray[np.int64]],
    n_components: int,
    prior: VariancePrior,
    with_spread: NDArray[np.int64],
) -> Parameters:
    """Mixtures of clusters of rows; where marked 1 with each cluster's own spread, else pooled."""
    statistics = np.zeros((len(labels), n_components, features.shape[0]))
    for start, nearest in enumerate(labels):
        for i in range(n_components):
            statistics[start, i] = features[:, nearest == i].sum(axis=1)
    p = m_step(statistics, prior)
    d = p.blocks.n_features
    pooled = p.weights[:, None] @ p.spread  # (n_starts, 1, n_spread)
    pooled[..., :d] = np.maximum(pooled[..., :d], prior.floor)
    # Clusters of few rows have no spread of their own: it counts for half from five rows on.
    trust = statistics[..., -1] * with_spread[:, None]
    share = (trust / (trust + 5.0))[..., None]
    spread = share * p.spread + (1 - share) * pooled
    others = p.blocks.with_law  # their distributions tell their spread
    spread[..., others] = p.spread[..., others]
    p = p.with_spread(spread)
    # A cluster without rows keeps a weight that EM can raise again.
    return replace(p, weights=np.maximum(p.weights, LEAST_WEIGHT)).normalized()


def _seeds(points: Float, n_components: int, rng: np.random.Generator) -> Float:
    n = points.shape[1]
    chosen = [int(rng.integers(n))]
    distances = ((points - points[:, chosen[0], None]) ** 2).sum(axis=0)
    for _ in range(n_components - 1):
        total = distances.sum()
        place = int(rng.integers(n))
        if total > 0:
            place = min(int(np.searchsorted(np.cumsum(distances), rng.uniform() * total)), n - 1)
        chosen.append(place)
        np.minimum(distances, ((points - points[:, place, None]) ** 2).sum(axis=0), out=distances)
    return points[:, chosen].T


def _assign(points: Float, seeds: Float) -> NDArray[np.int64]:
    distances = (seeds**2).sum(axis=1)[:, None] - 2.0 * seeds @ points
    return np.asarray(distances.argmin(axis=0))


def random_starts(
    features: Float,
    n_components: int,
    n_starts: int,
    prior: VariancePrior,
    rng: np.random.Generator,
) -> Parameters:
    """One M-step from responsibilities drawn at random."""
    statistics = []
    for _ in range(n_starts):
        shares = rng.uniform(size=(n_components, features.shape[1]))
        shares /= shares.sum(axis=0)
        statistics.append(shares @ features.T)
    return m_step(np.array(statistics), prior).normalized()


def split_starts(features: Float, p: Parameters, prior: VariancePrior) -> Parameters:
    """A few mixtures with one component of `p` cut in two, where its rows ask for it most.

    Cuts go through the mean of columns that are flat or skewed within a component, about the mean
    of a column with heavy tails, and across the axis along which a component is longest.
    """
    z, gaussian = values_of(features, p.blocks), p.blocks.gaussian
    shares, _ = responsibilities(joint_of(features, p))
    flat, odd, long = [], [], []
    for i, share in enumerate(shares):
        count = max(float(share.sum()), _FEWEST_CUT)
        x = z - (z @ share / count)[:, None]
        x /= np.sqrt(np.maximum((x * x) @ share / count, LEAST_WEIGHT))[:, None]
        lengths, axes = np.linalg.eigh((x * share) @ x.T / count)
        long.append((-lengths[-1] * count, i, axes[:, -1] @ x > 0))
        if gaussian.size:
            y = x[gaussian]
            third, fourth = y**3 @ share / count, y**4 @ share / count - 3.0
            j = int(fourth.argmin())
            flat.append((fourth[j] * count, i, y[j] > 0))
            # Jarque and Bera's measure; heavy tails are no better reason than two clusters.
            measure = third**2 / 6 + np.minimum(np.abs(fourth), 2.0) ** 2 / 24
            j = int(measure.argmax())
            is_heavy = fourth[j] > third[j] ** 2
            odd.append((-measure[j] * count, i, np.abs(y[j]) > 1 if is_heavy else y[j] > 0))
    statistics = []
    for options, n_cuts in ((flat, 2), (odd, 1), (long, 2)):
        for _, i, upper in sorted(options, key=lambda option: option[0])[:n_cuts]:
            cut = np.vstack([shares, shares[i] * upper])
            cut[i] *= ~upper
            statistics.append(cut @ features.T)
    return m_step(np.array(statistics), prior).normalized()


@dataclass(frozen=True)
class Start:
    """Means (r, d), weights and covariances (r, d, d) of standardized features.

    Weights and covariances are None where the rows tell them.
    """

    means: Float
    weights: Float | None = None
    covariances: Float | None = None

    @classmethod
    def of(
        cls,
        given: Any,
        n_components: int | str,
        n_features: int,
        moments: StandardMoments,
        schema: Schema | None,
    ) -> Start:
        """The given mixture or means of the features that vary; raise where they do not fit."""
        if isinstance(n_components, str):
            raise InputError(
                "a start has a number of components of its own; got "
                f'n_components="{n_components}". Give that number, or no start.'
            )
        weights = covariances = None
        if not isinstance(given, Mixture):
            means = real_array("start", given)
        else:
            kinds: list[Any] = [(Column.family, ())] * given.n_columns
            if schema is not None:
                kinds = [(c.family, c.levels) for c in schema.columns]
            if kinds != [(c.family, c.levels) for c in given.columns]:
                raise InputError(
                    "a start must have the columns of the rows, of the same families and levels; "
                    "give no start, or that of a fit to such rows."
                )
            p = given.parameters
            if schema is not None:
                p = parameters_of(given.weights, given.blocks, schema)
            means, weights, covariances = p.means, p.weights, p.matrices
        if means.shape != (n_components, n_features):
            raise InputError(
                f"the means of a start must have shape (n_components, n_features) = "
                f"({n_components}, {n_features}); got {means.shape}."
            )
        if np.isnan(means).any():
            raise InputError(
                "a start must have all means; a component of this one never saw a column. Leave "
                "the start out, or give means."
            )
        columns, scale = moments.columns, moments.scale
        if covariances is not None:
            covariances = covariances[:, columns][:, :, columns] / scale[:, None] / scale
        means = np.ascontiguousarray((means[:, columns] - moments.shift) / scale)
        return cls(means, weights, covariances)

    def parameters(self, features: Float, prior: VariancePrior) -> Parameters:
        """The start as a mixture; the features are those of standardized rows."""
        values = values_of(features, prior.blocks_for(len(features)))
        labels, with_spread = [_assign(values, self.means)], np.ones(1, dtype=np.int64)
        p = _from_clusters(features, labels, len(self.means), prior, with_spread)[0]
        p = replace(p, means=self.means).completed()
        if self.weights is not None:
            p = replace(p, weights=np.maximum(self.weights, LEAST_WEIGHT)).normalized()
        if self.covariances is not None:
            spread = np.ascontiguousarray(spread_of(self.covariances, p.blocks))
            p = p.with_spread(spread).completed()
        raised: Parameters = prior.structure.raised(p)
        return raised

    def order_of(self, parameters: Parameters) -> Int:
        """Component of the mixture that belongs to each of the start, by least total distance."""
        distances = self.means[:, None, :] - parameters.means
        return np.asarray(linear_sum_assignment((distances**2).sum(axis=2))[1])
