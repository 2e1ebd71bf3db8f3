"""Last steps of a moment fit by instruments: solve, renew them, solve again.

| symbol | name here |
|---|---|
| θ̂ with mean g = E_θ g, g the instruments | ``solved`` |
| (∂ E g / ∂ θ)⁻¹ V (…)⁻ᵀ / N = Cov θ̂ | the factor that is returned |
| N (‖e(θ̂)‖² − ‖e(start)‖²), e as in ``efficient.py`` | ``_rise`` |

The instruments are those of the start with the covariances that its moments can resolve; those of
the second round are made at the first one's answer. If the model is right, the efficient criterion
of the start's conditions rises by about a χ² with as many degrees of freedom as parameters at most
(Hausman, 1978): a larger rise says that the moments contradict each other, and the answer is left.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from momentmix._typing import Float
from momentmix.fitting.conditions.complete import CompleteMoments
from momentmix.fitting.conditions.conditions import Conditions
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.standard_errors import Uncertainty
from momentmix.fitting.moment.efficient import (
    TOLERANCE,
    Efficient,
    efficient_step,
    factor_of_covariance,
)
from momentmix.fitting.moment.instruments import Instruments
from momentmix.fitting.moment.polish import Bounds
from momentmix.fitting.moment.resolvable import resolvable
from momentmix.mixture import gaussian
from momentmix.mixture.parameters import Parameters

_ROUNDS = 2  # of instruments: a third changes the fourth digit of the likelihood
_STEPS = 6  # two or three are enough from a good start
_DRAWS = 10_000  # rows for the covariance of the instruments: its errors are a few percent
_CLEAR_RISE = 5.0  # standard deviations of the criterion's rise


def instrumental_polish(
    moments: StandardMoments,
    tested: Conditions,
    start: Efficient,
    bounds: Bounds,
    rng: np.random.Generator,
) -> tuple[Parameters, Float] | None:
    """Parameters and a factor of their covariance; None where the model is in doubt.

    `start` is the efficient answer of the conditions `tested`.
    """
    n, complete = moments.n_effective, CompleteMoments(moments)
    conditions, solved, factor = complete.conditions, start.parameters, start.factor
    try:
        for _ in range(_ROUNDS):
            uncertainty = Uncertainty(solved, factor, on_log_scale=False)
            base = resolvable(solved, uncertainty, bounds.structure).normalized()
            instruments, solved = Instruments(complete, base), base
            for _ in range(_STEPS):
                solved, _, gain = efficient_step(conditions, solved, bounds, instruments)
                if n * gain < TOLERANCE:
                    break
            factor = factor_of_covariance(conditions, solved, instruments, n)
        instruments.measure(gaussian.sample(base, _DRAWS, rng)[0])
        factor = factor_of_covariance(conditions, solved, instruments, n)
    except LinAlgError:
        return None
    most = solved.n_free + _CLEAR_RISE * np.sqrt(2 * solved.n_free)
    is_clear = n * _rise(tested, start, solved) > most or not np.isfinite(factor).all()
    return None if is_clear else (solved, factor)


def _rise(tested: Conditions, start: Efficient, solved: Parameters) -> float:
    """How much larger the efficient criterion of some conditions is than at their own answer."""
    before, after = (
        start.whitening.whiten(tested.values - tested.model(p)) for p in (start.parameters, solved)
    )
    return float(after @ after - before @ before)
