"""Rows whose cells missing at random are filled by draws, and the mixture that they follow.

Moments of the cells that are observed do not test a mixture: cells may be missing by what other
columns hold. Where missing cells are drawn given the observed ones of their row, by the mixture,
the completed rows follow it if it is right: the observed part is as the rows have it, and the rest
is drawn from its own conditional distribution. What is drawn agrees with the mixture, right or
wrong: the test of completed rows is the weaker the more cells are missing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.data import moments_of
from momentmix.fitting.em.em import joint_of
from momentmix.fitting.em.patterns import draw_missing
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.density import responsibilities
from momentmix.mixture.gaussian import features_of, values_of
from momentmix.mixture.parameters import Parameters
from momentmix.summary.summarize import summarize

_DIGITS = 9  # of yes/no answers and their sums, which are equal up to rounding
_SEED = 43


def is_missing_at_random(p: Parameters) -> bool:
    """Whether cells of some column are missing at random."""
    return bool(p.blocks.missing) or any(law.at_random for law in p.blocks.laws)


def filled(p: Parameters, values: Float, rng: np.random.Generator) -> Float:
    """Features (d, n) with draws for cells that are missing at random, given those observed."""
    laws = [law for law in p.blocks.laws if law.at_random]
    if not laws and not p.blocks.missing:
        return values
    features = features_of(values.T, p.blocks)
    shares, _ = responsibilities(joint_of(features, p))
    ends, complete = np.cumsum(shares, axis=0), values.copy()
    labels = (rng.random(len(values[0])) * ends[-1] >= ends[:-1]).sum(axis=0)
    draw_missing(complete, features, p, labels, rng)
    for law in laws:
        own = list(law.features)
        for i in range(p.n_components):
            rows = np.flatnonzero((values[own[-1]] < law.observed_middle) & (labels == i))
            drawn = law.sample_observed(p.means[i, own], p.variances[i, own], rows.size, rng)
            complete[np.ix_(own, rows)] = drawn.T
    return complete.round(_DIGITS)  # levels that were drawn are those of rows up to rounding


def completed(
    moments: StandardMoments, p: Parameters, features: Float
) -> tuple[StandardMoments, Parameters]:
    """Moments of completed rows T(z), and the mixture of their features."""
    rows = filled(p, values_of(features, p.blocks), np.random.default_rng(_SEED))
    means, variances, laws = p.means.copy(), p.variances.copy(), []
    flags = {seen for _, seen, _ in p.blocks.missing}
    for law in p.blocks.laws:
        if not law.at_random and law.features[-1] not in flags:
            laws.append(law)
            continue
        flags.add(law.features[-1])
        value, own = law.value_of(*p.of_law(law)), list(law.features[:-1])
        shift, scale = (x[:-1] for x in law.units)
        means[:, own], variances[:, own] = (value.mean - shift) / scale, value.variance / scale**2
        complete = law.without(law.n_values)
        if complete is not None and complete.features:
            laws.append(complete)
    kept = np.array([j for j in range(p.blocks.n_features) if j not in flags])
    number = {j: place for place, j in enumerate(kept.tolist())}
    joined = [[number[j] for j in block] for block in p.blocks.joined]
    own_laws = tuple(law.at(tuple(number[j] for j in law.features)) for law in laws)
    blocks = Blocks.of(kept.size, joined, own_laws)
    q = Parameters(p.weights, means[:, kept], variances[:, kept], p.covariances, blocks)
    found = moments_of(summarize(rows[kept].T, order=min(moments.order, kept.size)))
    q = q.standardized(found.shift, found.scale)
    names = moments.feature_names
    return replace(
        found,
        laws=q.blocks.laws,
        columns=moments.columns[kept],
        parts=moments.parts,
        feature_names=None if names is None else tuple(names[j] for j in kept),
    ), q
