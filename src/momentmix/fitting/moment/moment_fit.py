"""A mixture from moments alone: candidates, selection, polish, variances, in rounds.

| paper symbol | name here |
|---|---|
| {(ω_i, μ_i, Σ_i)} | ``MomentFit.parameters``, of standardized features |
| ‖ρ‖² / (n − n_parameters), ρ as in ``polish.py`` | ``misfit`` |

Each round draws further partitions and lets the pool of all candidates, the last answer's means
included, compete again. Rounds end when the misfit is that of the noise, or after a fixed number.

Differs from the paper: everything after the decomposition. The last step is new: a plug-in density
with a variance far below what its estimate can resolve is useless (log-likelihoods fall by tens
of nats), so each variance is replaced by its mean given estimate, standard error and sign, and the
uncertainty of the mean is added. With exact moments both corrections vanish.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from momentmix._typing import Float
from momentmix.errors import DecompositionError
from momentmix.fitting.conditions.conditions import Conditions, build_conditions
from momentmix.fitting.conditions.derivative import by_feature, derivative
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.over_identification import (
    HIGHEST_POWER,
    LEAST_P_VALUE,
    OverIdentification,
    check_conditions,
)
from momentmix.fitting.inference.standard_errors import curvature_root
from momentmix.fitting.moment.candidates import draw_candidates
from momentmix.fitting.moment.polish import Polished, Stopping, parameter_bounds, polish
from momentmix.fitting.moment.selection import select_means
from momentmix.fitting.moment.splits import split_starts
from momentmix.fitting.moment.variances import fit_variances
from momentmix.mixture.parameters import Parameters, parameters_from

HIGHEST_PLAIN = 4  # orders that take part in selection and polish; candidates may use more
GOOD_MISFIT = 1.0  # ‖ρ‖² per degree of freedom; good optima sit at 0.4–0.6 since noises correlate
DRAWS_PER_ROUND = 12
ROUGH = 0.5  # tolerance of the cost while the noise is renewed or rounds compete
PATIENCE = 1e-3  # share of the cost; a slow start is left to the next round's candidates
LARGE = 2000  # parameters from which a round takes most of a minute: one only


class Effort(NamedTuple):
    """How long the moments are worked on.

    Parameters
    ----------
    max_rounds : int
        Rounds of further candidates while the misfit stays above the noise. The second one of an
        answer splits components of a coarser one, the others draw partitions.
    joint_steps : tuple of int
        Levenberg–Marquardt steps at most, one number per renewal of the noise.
    to_the_end : bool
        Whether a round counts as good only if the over-identification test accepts it, and the
        best one is polished until it rests. Otherwise a misfit at the noise is enough.
    """

    max_rounds: int
    joint_steps: tuple[int, ...]
    to_the_end: bool


ANSWER = Effort(4, (10, 6), True)
START = Effort(2, (6, 4), False)  # passes over the rows improve on it: fewer rounds and steps


@dataclass(frozen=True)
class MomentFit:
    """The answer from moments, in standardized features.

    Attributes
    ----------
    parameters : Parameters
        With variances raised to what the moments can resolve.
    raw, deviations : Parameters
        The parameters as polished, and their standard errors as if noises were independent.
    conditions : Conditions
        That were matched.
    noise : array of shape (n_conditions,)
        Standard errors of their observed values.
    """

    parameters: Parameters
    raw: Parameters
    deviations: Parameters
    conditions: Conditions
    noise: Float


def one_component(moments: StandardMoments, floor: float) -> Parameters:
    """One component: mean 0 and variance 1 of standardized features, in closed form."""
    mean = moments.orders[1][None, :]
    variance = np.maximum(moments.squared[0][:, 0] - mean[0] ** 2, floor)
    return Parameters(np.ones(1), mean, variance[None, :])


def fit_moments(
    moments: StandardMoments,
    n_components: int,
    rng: np.random.Generator,
    floor: float = 1e-6,
    effort: Effort = ANSWER,
) -> MomentFit:
    """Weights, means and variances from moments alone.

    Parameters
    ----------
    moments : StandardMoments
    n_components : int
        Within the capacity of the robust method at this order.
    rng : numpy Generator
    floor : float
        Least variance of a standardized feature.
    effort : Effort
    """
    r, d = n_components, moments.n_features
    if r == 1:
        return _closed_form(moments, floor)
    n_parameters = r * (2 * d + 1)
    limit = max(4000, 4 * n_parameters)  # conditions: time is bounded, parameters over-determined
    plain = build_conditions(moments, HIGHEST_PLAIN, limit=limit, rng=rng)
    full = build_conditions(moments, HIGHEST_PLAIN, 2, limit, rng, HIGHEST_POWER)
    pool = np.zeros((0, d))
    best, least = None, np.inf
    rounds = effort.max_rounds if n_parameters < LARGE else 1
    for number in range(rounds):
        if number == 1 and effort.to_the_end:
            options = _polished_splits(moments, full, r, rng, floor)
        else:
            pool = np.concatenate([pool, draw_candidates(moments, r, DRAWS_PER_ROUND, rng)])
            previous = None if best is None else best.parameters
            start = _select_and_polish(moments, plain, pool, r, floor, previous)
            if start.n_components < r:
                start = _split_heaviest(start, r, rng)
            stops = [Stopping(steps, ROUGH, PATIENCE) for steps in effort.joint_steps]
            options = [_joint_polish(full, start, moments, floor, stops)]
            pool = np.concatenate([pool, options[0].parameters.means])
        if rounds == 1:
            best = options[0]
            break
        misfits = [option.cost / max(full.size - n_parameters, 1) for option in options]
        if not effort.to_the_end and misfits[0] < GOOD_MISFIT:
            best = options[0]
            break
        # Costs in units of different noises say little; the test weighs all options alike.
        tests = [_test(moments, option.parameters, rng) for option in options]
        for option, test in zip(options, tests, strict=True):
            if best is None or test.statistic < least:
                best, least = option, test.statistic
        if any(_is_accepted(test) for test in tests):
            break
    assert best is not None
    if effort.to_the_end:
        # The standard errors are those of the minimum, so the minimum has to be reached. A step
        # costs about n_parameters³ operations: the number is that of a few seconds.
        stop = Stopping(int(np.clip(2e11 / n_parameters**3, 5, 40)), tolerance=1e-3)
        best = _joint_polish(full, best.parameters, moments, floor, [stop], best.damping)
    deviations = _standard_deviations(full, best.parameters, best.noise)
    answer = resolvable_variances(best.parameters, deviations, floor)
    return MomentFit(answer, best.parameters, deviations, full, best.noise)


def _polished_splits(
    moments: StandardMoments,
    full: Conditions,
    n_components: int,
    rng: np.random.Generator,
    floor: float,
) -> list[Polished]:
    """The best starts that split a component of an answer with one component less."""
    parent = fit_moments(moments, n_components - 1, rng, floor, START).raw
    # One noise for all, or costs could not be compared.
    noise = _noise(full, parent, moments.n_effective)
    bounds = parameter_bounds(moments, floor, n_components)
    short, long = Stopping(6, ROUGH, PATIENCE), Stopping(12, ROUGH, PATIENCE)
    polished = [
        polish(full, start, bounds, noise, short) for start in split_starts(moments, parent)
    ]
    polished.sort(key=lambda p: p.cost)
    return [
        _joint_polish(full, p.parameters.normalized(), moments, floor, [long] * 2)
        for p in polished[:2]
    ]


def _closed_form(moments: StandardMoments, floor: float) -> MomentFit:
    """The same for one component; its variances are known as well as those of the columns."""
    p, conditions = one_component(moments, floor), build_conditions(moments, 1, 0)
    negligible = np.full_like(p.means, 1e-12)
    deviations = Parameters(np.zeros(1), negligible, negligible)
    return MomentFit(p, p, deviations, conditions, _noise(conditions, p, moments.n_effective))


def _noise(conditions: Conditions, parameters: Parameters, n_effective: float) -> Float:
    """Standard errors of the observed values that the parameters imply, of shape (n,)."""
    noise = np.sqrt(conditions.row_variances(parameters) / n_effective)
    # The weights sum to 1 without noise. Far below the others, but not 0, since it is divided by.
    noise[0] = 1e-3 / np.sqrt(n_effective)
    return noise


def _test(moments: StandardMoments, p: Parameters, rng: np.random.Generator) -> OverIdentification:
    return check_conditions(moments, p, rng, bootstrap=False, correlations=False)


def _is_accepted(test: OverIdentification) -> bool:
    return not test.testable or test.p_value >= LEAST_P_VALUE


def _select_and_polish(
    moments: StandardMoments,
    plain: Conditions,
    pool: Float,
    r: int,
    floor: float,
    previous: Parameters | None = None,
) -> Parameters:
    """Choice among the pool, polish of the means; noise equal at first, then that of `previous`."""
    spread = np.ones(plain.size) if previous is None else np.sqrt(plain.row_variances(previous))
    spread[0] = 0.1  # the weights sum to 1: a tenth of the noise of a moment
    noise = spread / np.sqrt(moments.n_effective)
    weights, means = select_means(plain, pool, noise, r)
    if not weights.size:
        raise DecompositionError(
            f"the moments of {moments.n_rows} rows gave no candidate for {r} components. Use more "
            "rows, fewer components, or pass the rows themselves with refine='auto'.",
            condition="independence-basis",
        )
    start = Parameters(weights, means, np.ones_like(means))
    stopping = Stopping(40, ROUGH, PATIENCE)
    bounds = parameter_bounds(moments, floor, start.n_components)
    means_only = polish(plain, start, bounds, noise, stopping, with_variances=False).parameters
    weights, means = means_only.weights / means_only.weights.sum(), means_only.means
    return Parameters(weights, means, fit_variances(moments, weights, means, floor))


def _joint_polish(
    full: Conditions,
    start: Parameters,
    moments: StandardMoments,
    floor: float,
    stops: list[Stopping],
    damping: float = 1e-3,
) -> Polished:
    """Rounds of Levenberg–Marquardt, each with the noise that the parameters before imply."""
    bounds = parameter_bounds(moments, floor, start.n_components)
    done = Polished(start, np.inf, np.ones(full.size), damping)
    for stopping in stops:
        noise = _noise(full, done.parameters, moments.n_effective)
        done = polish(full, done.parameters, bounds, noise, stopping, damping=done.damping)
        p = done.parameters
        p = Parameters(p.weights / p.weights.sum(), p.means, p.variances)
        done = replace(done, parameters=p)
    return done


def _split_heaviest(start: Parameters, r: int, rng: np.random.Generator) -> Parameters:
    """Split the heaviest components until there are r, where the pool gave fewer."""
    weights, means, variances = start.weights, start.means, start.variances
    while weights.size < r:
        i = int(weights.argmax())
        offset = 0.3 * rng.normal(size=means.shape[1])  # well within a feature's deviation of 1
        means = np.concatenate([means, means[i : i + 1] + offset])
        means[i] -= offset
        variances = np.concatenate([variances, variances[i : i + 1]])
        weights = np.append(weights, weights[i] / 2)
        weights[i] /= 2
    return Parameters(weights, means, variances)


def resolvable_variances(
    parameters: Parameters, deviations: Parameters, floor: float
) -> Parameters:
    """Variances that the moments can resolve, for use in a density.

    A variance v̂ with standard error s becomes E[v | v̂, v ≥ 0] = v̂ + s·φ(v̂/s)/Φ(v̂/s), plus the
    squared standard error of its mean.
    """
    ratio = parameters.variances / deviations.variances
    log_density = -0.5 * ratio**2 - 0.5 * np.log(2 * np.pi)
    raised = deviations.variances * np.exp(log_density - log_ndtr(ratio)) + deviations.means**2
    # No component is wider than all rows together: standardized features have variance 1.
    widest = np.maximum(parameters.variances, 1.0)
    variances = np.minimum(parameters.variances + raised, widest)
    return Parameters(parameters.weights, parameters.means, np.maximum(variances, floor))


def _standard_deviations(
    conditions: Conditions, parameters: Parameters, noise: Float
) -> Parameters:
    """Standard errors as if the noise of the conditions were independent."""
    r, d = parameters.means.shape
    flat = np.empty(r + 2 * r * d)
    flat[by_feature(r, d)] = curvature_root(derivative(conditions, parameters, noise)).deviations()
    return parameters_from(flat, r)
