"""An answer from a pool of proposed means: choice, polish of the means, spreads, joint polish."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix._typing import Float
from momentmix.errors import DecompositionError
from momentmix.findings.messages import NEED_ROWS, Message
from momentmix.fitting.conditions.conditions import Conditions
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.moment.polish import Bounds, Polished, Stopping, parameter_bounds, polish
from momentmix.fitting.moment.selection import select_means
from momentmix.fitting.moment.variances import fit_spread
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure

ROUGH = 0.5  # tolerance of the cost while the noise is renewed or rounds compete
PATIENCE = 1e-3  # share of the cost; a slow start is left to the next round's candidates


def implied_noise(conditions: Conditions, parameters: Parameters, n_effective: float) -> Float:
    """Standard errors of the observed values that the parameters imply, of shape (n,)."""
    noise = np.sqrt(conditions.row_variances(parameters) / n_effective)
    # The weights sum to 1 without noise. Far below the others, but not 0, since it is divided by.
    noise[0] = 1e-3 / np.sqrt(n_effective)
    return noise


def select_and_polish(
    moments: StandardMoments,
    plain: Conditions,
    pool: Float,
    r: int,
    structure: Structure,
    previous: Parameters | None = None,
) -> Parameters:
    """Choice among the pool, polish of the means; noise equal at first, then that of `previous`."""
    spread = np.ones(plain.size) if previous is None else np.sqrt(plain.row_variances(previous))
    spread[0] = 0.1  # the weights sum to 1: a tenth of the noise of a moment
    noise = spread / np.sqrt(moments.n_effective)
    weights, means = select_means(plain, pool, noise, r)
    if not weights.size:
        raise DecompositionError(
            Message(
                f"the moments of {moments.n_rows} rows gave no candidate for {r} components. Use "
                "more rows, fewer components, or ",
                NEED_ROWS,
                ".",
            ),
            condition="independence-basis",
        )
    # No two features of one block: the covariances within blocks do not matter.
    start = Parameters(weights, means, np.ones_like(means))
    stopping = Stopping(40, ROUGH, PATIENCE)
    bounds = parameter_bounds(moments, float(np.max(structure.floor)), start.n_components)
    means_only = polish(plain, start, bounds, noise, stopping, with_variances=False).parameters
    weights, means = means_only.weights / means_only.weights.sum(), means_only.means
    return fit_spread(moments, weights, means, structure)


def joint_polish(
    full: Conditions,
    start: Parameters,
    moments: StandardMoments,
    bounds: Bounds,
    stops: list[Stopping],
) -> Polished:
    """Rounds of Levenberg–Marquardt, each with the noise that the parameters before imply."""
    done = Polished(start, np.inf, np.ones(full.size), 1e-3)
    for stopping in stops:
        noise = implied_noise(full, done.parameters, moments.n_effective)
        done = polish(full, done.parameters, bounds, noise, stopping, damping=done.damping)
        done = replace(done, parameters=done.parameters.normalized())
    return done


def split_heaviest(start: Parameters, r: int, rng: np.random.Generator) -> Parameters:
    """Split the heaviest components until there are r, where the pool gave fewer."""
    p = start
    while p.n_components < r:
        i = int(p.weights.argmax())
        offset = 0.3 * rng.normal(size=p.means.shape[1])  # well within a feature's deviation of 1
        p = Parameters.concatenate([p, p[i : i + 1]])
        p.means[i] -= offset
        p.means[-1] += offset
        p.weights[[i, -1]] /= 2
    return p
