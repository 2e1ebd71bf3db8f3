"""Whether missing cells depend on the component alone, as missing="model" says, by the rows.

| symbol | name here |
|---|---|
| s_j − q_ij: whether cell j is observed, less its mean in component i | `_Scores.residuals` |
| z_k − μ_ik, 0 where the cell is missing | `_Scores.residuals` |
| h = Σ_i γ_i (s_j − q_ij) (z_k − μ_ik), k of another column: score of a dependence | `_Scores` |
| h = Σ_i γ_i He₃(u_ij), u = (z_j − μ_ij) / σ_ij where observed: score of skewness | `_Scores` |
| e = h − B s, s the scores of parameters, B = E[h sᵀ] E[s sᵀ]⁻¹ in the model | ``slopes`` |
| √n mean(e) / deviation(e) ~ N(0, 1) if the model holds: Neyman's C(α) test | ``deviates`` |

B and a deviation are those of rows drawn from the model; that of the data counts where it is
larger, which keeps the level where few rows carry a product or values have heavy tails.

Selection by a cell's own value shows where its column is correlated with another within components,
or becomes skewed. Where neither happens, no table shows it. A page that is missing may itself
become a component, given which its cells are independent: the values of its rows are then like
those of a mixture of the other components, and support no component.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from momentmix._typing import Float
from momentmix.findings.finding import FATAL, Finding, found
from momentmix.fitting.em.scores import Scores
from momentmix.fitting.inference.correlations import CORRELATION_THAT_MATTERS
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.density import joint_densities, responsibilities
from momentmix.mixture.gaussian import coefficients, features_of, sample, values_of
from momentmix.mixture.parameters import Parameters

_LEVEL = 0.01  # of all tests of a fit together, divided among them
_SKEWNESS_THAT_MATTERS = 0.1  # of observed cells; a mean is then off by a tenth of a deviation
_MOST_ROWS = 5000  # of the data and of the model: an effect that matters is 7 standard errors
_FEWEST_DRAWS = 30.0  # that carry the score of a parameter
_MOST_PARAMETERS = 1000  # that are projected away: with more, their scores take seconds
_RIDGE = 1e-9  # of the scores' mean variance: those of the weights are dependent
_STEPS = 100  # of EM for the shares of other components, which have no other parameters
_SEED = 41
_MOST_TESTS = 2000  # of pairs, those of the largest effects: 80 MB for 5,000 rows


def about_missing(
    moments: StandardMoments,
    p: Parameters,
    features: Float,
    counts: Float | None,
    others: Iterable[Finding],
) -> Iterator[Finding]:
    """Yield findings where rows T(z), which count as `counts`, contradict missing="model".

    Where `others` name shapes of complete columns too, shapes say nothing of missing cells.
    """
    laws = [law for law in p.blocks.laws if law.has_missing and not law.at_random]
    if not laws:
        return
    step = -(-features.shape[1] // _MOST_ROWS)
    features = np.ascontiguousarray(features[:, ::step])
    weights = np.ones(features.shape[1]) if counts is None else counts[::step]
    weights = weights / weights.mean()
    shaped = {x for f in others if f.kind == "column-shape" for x in f.columns}
    incomplete = set(moments.columns_of(law.features[0] for law in laws))
    for finding in _about_dependence(_Scores(p), moments, features, weights):
        if finding.kind != "selected-values" or shaped <= incomplete:
            yield finding
    if p.n_components > 1:
        only_missing = np.flatnonzero(_differ_in_missing_alone(p, features, weights)).tolist()
        if only_missing:
            yield found(FATAL, "missing-groups", components=only_missing)


def _about_dependence(
    of: _Scores, moments: StandardMoments, features: Float, weights: Float
) -> Iterator[Finding]:
    n_tests = of.size
    of, units = of.candidates(features, weights)
    if not of.size:
        return
    deviates, effects = _tested(of, features, weights, units)
    is_clear = np.abs(deviates) > -ndtri(_LEVEL / (2 * n_tests))
    pairs, skewness = np.split(effects, [len(of.pairs)])
    is_pair, is_skewed = np.split(is_clear, [len(of.pairs)])
    chosen = np.flatnonzero(is_pair & (np.abs(pairs) > CORRELATION_THAT_MATTERS))
    chosen = chosen[np.argsort(-np.abs(pairs[chosen]))]
    if chosen.size:
        named: dict[Any, list[Any]] = {}  # of the levels of a category, the pair that depends most
        for (j, k), value in zip(of.pairs[chosen].tolist(), pairs[chosen].tolist(), strict=True):
            words = moments.part(k).words, moments.part(j).words
            named.setdefault(words, [*words, -value if k not in of.observed else value])
        columns = moments.columns_of(of.pairs[chosen].ravel().tolist())
        yield found(FATAL, "shared-gaps", columns, pairs=list(named.values()))
    shapes = np.flatnonzero(is_skewed & (np.abs(skewness) > _SKEWNESS_THAT_MATTERS))
    if shapes.size:
        columns = moments.columns_of(of.numbers[place].features[0] for place in shapes)
        asides = [f"skewness {skewness[place]:+.2f}" for place in shapes]
        yield found(FATAL, "selected-values", columns, asides=asides)


def _tested(of: _Scores, features: Float, weights: Float, units: Float) -> tuple[Float, Float]:
    """Deviates of the tests and sizes of the effects, correlations or skewnesses, (m,) each.

    Means of the scores divided by `units` are effects.
    """
    rng = np.random.default_rng(_SEED)
    drawn_features = features_of(sample(of.p, _MOST_ROWS, rng)[0], of.p.blocks)
    drawn, scores = of(drawn_features, np.ones(_MOST_ROWS))
    # At bounds, as of a cell that a component never has, few rows would decide on the slopes; the
    # fit is a maximum, so that there the mean score is 0 anyway.
    second, fourth = (scores**2).sum(axis=1), (scores**4).sum(axis=1)
    is_known = second**2 > _FEWEST_DRAWS * fourth
    scores = scores[is_known]
    normal = scores @ scores.T
    normal[np.diag_indices_from(normal)] += _RIDGE * np.trace(normal) / max(len(normal), 1)
    slopes = np.linalg.solve(normal, scores @ drawn.T).T
    by_model = np.sqrt(((drawn - slopes @ scores) ** 2).mean(axis=1))
    products, scores = of(features, weights)
    products -= slopes @ scores[is_known]
    means = products @ weights / weights.size
    noise = np.sqrt(((products - means[:, None]) ** 2) @ weights**2) / weights.size
    noise = np.maximum(noise, by_model * np.sqrt(weights @ weights) / weights.size)
    is_new = by_model > 1e-12 * units
    deviates = np.divide(means, noise, where=is_new, out=np.zeros_like(means))
    return deviates, np.divide(means, units, where=is_new, out=np.zeros_like(means))


class _Scores:
    """Scores of what is tested, and of the parameters, for rows of one mixture."""

    def __init__(self, p: Parameters) -> None:
        laws = [law for law in p.blocks.laws if law.has_missing]
        self.p, self.laws = p, laws
        tested = [law for law in laws if not law.at_random]
        self.numbers = [law for law in tested if law.n_values and law.family.joins]
        self.observed = [law.features[-1] for law in laws]
        column = np.arange(p.blocks.n_features)
        for law in laws:
            column[list(law.features)] = law.features[-1]
        pairs = [
            (j, k)
            for j in (law.features[-1] for law in tested)
            for k in range(column.size)
            if column[k] != j and (k not in self.observed or k < j)
        ]
        self.pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)

    @property
    def size(self) -> int:
        """Number of tests."""
        return len(self.pairs) + len(self.numbers)

    def residuals(self, values: Float, i: int) -> Float:
        """Features less their means in component i, those of a cell given that it is observed."""
        p = self.p
        found = values - p.means[i][:, None]
        for law in self.laws:
            (*own, s), (means, variances) = law.features, p.of_law(law)
            both = np.eye(len(own) + 1, dtype=np.int64)[:-1]
            both[:, -1] = 1
            joint = law.moments(means, variances, both)[:, i] - means[i, :-1] * means[i, -1]
            found[own] -= (joint / variances[i, -1])[:, None] * found[s]
        return np.asarray(found)

    def candidates(self, features: Float, weights: Float) -> tuple[_Scores, Float]:
        """Return the tests of effects near those that matter, and what makes their means effects.

        Products of matrices show them: the mean scores of the parameters are nearly 0, so that
        means of products, divided by their units, are the effects.
        """
        n_features = self.p.blocks.n_features
        products, thirds = np.zeros((n_features,) * 2), np.zeros((2, len(self.numbers)))
        for _, share, own, shapes in self._by_component(features):
            products += (own * (share * weights)) @ own.T
            thirds += np.array([[x @ weights for x in pair] for pair in shapes]).reshape(-1, 2).T
        (j, k), scale = self.pairs.T, np.sqrt(np.diag(products))
        units = scale[j] * scale[k]  # sums of squares: the effects are correlations
        effects = np.abs(products[j, k]) / np.maximum(units, 1e-300)
        near = np.flatnonzero(effects > CORRELATION_THAT_MATTERS / 2)
        near = near[np.argsort(-effects[near], kind="stable")[:_MOST_TESTS]]
        skewed = np.flatnonzero(np.abs(thirds[0]) > _SKEWNESS_THAT_MATTERS / 2 * thirds[1])
        of = copy(self)
        of.pairs, of.numbers = self.pairs[near], [self.numbers[i] for i in skewed]
        return of, np.concatenate([units[near], thirds[1, skewed]]) / weights.size

    def _by_component(self, features: Float) -> Iterator[tuple[int, Float, Float, list[Any]]]:
        """Component, shares of the rows, residuals, and of each number He₃ and observed cells."""
        shares, _ = responsibilities(joint_densities(coefficients(self.p), features))
        values = values_of(features, self.p.blocks)
        for i, share in enumerate(shares):
            own, shapes = self.residuals(values, i), []
            for law in self.numbers:
                observed = share * (values[law.features[1]] > law.observed_middle)
                variance = law.value_of(*self.p.of_law(law)).variance[i, 0]
                u = own[law.features[0]] / np.sqrt(variance)
                shapes.append((observed * (u * u - 3) * u, observed))
            yield i, share, own, shapes

    def __call__(self, features: Float, weights: Float) -> tuple[Float, Float]:
        """Scores of tests (m, n) and of parameters, for each row."""
        p, score_of, (j, k) = self.p, Scores(self.p), self.pairs.T
        tested, scores = np.zeros((self.size, weights.size)), []
        for i, share, own, shapes in self._by_component(features):
            tested[: len(j)] += own[j] * (own[k] * share)
            for place, (third, _) in enumerate(shapes, len(j)):
                tested[place] += third
            if p.n_places <= _MOST_PARAMETERS:
                scores.append(score_of(i, features, share))
                scores[-1][0] -= p.weights[i]
        return tested, np.concatenate(scores or [np.zeros((0, weights.size))])


def _differ_in_missing_alone(p: Parameters, features: Float, weights: Float) -> NDArray[np.bool_]:
    """Which components BIC supports only by what is missing, (r,).

    The observed values of their rows are as probable under a mixture of the other components.
    """
    r, shares = p.n_components, responsibilities(joint_densities(coefficients(p), features))[0]
    even = replace(p, weights=np.ones(r))
    laws = tuple(replace(law, at_random=True) if law.has_missing else law for law in p.blocks.laws)
    of_values = replace(even, blocks=replace(p.blocks, laws=laws))
    n_observed = sum(law.has_missing and not law.at_random for law in p.blocks.laws)
    found = np.zeros(r, dtype=bool)
    for c in range(r):
        own, gains = shares[c] * weights, []
        for q in (of_values, even):
            joint = joint_densities(coefficients(q), features)
            others, mix = np.delete(joint, c, axis=0), np.full(r - 1, 1 / (r - 1))
            top = others.max(axis=0)
            ratios = np.exp(others - top)
            for _ in range(_STEPS):
                before, mix = mix, mix * (ratios @ (own / np.maximum(mix @ ratios, 1e-300)))
                mix /= max(mix.sum(), 1e-300)
                if np.abs(mix - before).max() < 1e-6:
                    break
            mixed = np.log(np.maximum(mix @ ratios, 1e-300))
            gains.append(2 * float(own @ (joint[c] - top - mixed)))
        price = log(max(own.sum(), 2.0))
        n_values = p.blocks.n_parameters - 1 - n_observed
        found[c] = gains[0] < n_values * price and gains[1] - gains[0] > n_observed * price
    return found
