"""Is the answer too imprecise? Loss of accuracy that the parameters' errors cause.

| paper symbol | name here |
|---|---|
| rows and labels drawn from the fitted mixture | ``rows``, ``labels`` |
| accuracy of the fitted mixture − accuracy of one drawn from its covariance | ``losses`` |

An over-identification test asks whether the model is wrong; with few rows it accepts answers that
are worthless. This asks what their noise costs.

Differs from the paper: the paper has no such step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from momentmix.fitting.conditions.conditions import Parameters
from momentmix.fitting.em.em import coefficients, features_of
from momentmix.fitting.inference.standard_errors import Uncertainty

Float = NDArray[np.float64]

__all__ = ["predicted_loss"]

_ROWS = 2500
_DRAWS = 20


def predicted_loss(
    answer: Parameters,
    uncertainty: Uncertainty,
    rng: np.random.Generator,
    finish: Callable[[Parameters], Parameters],
) -> float:
    """Loss of accuracy that nine of ten draws of the parameters stay below.

    Not the mean: the covariance is a linear picture of errors that are not, and where components
    overlap strongly the true loss exceeded the mean in half of the cases.

    Parameters
    ----------
    answer : Parameters
        The mixture that is used for prediction, standardised features.
    uncertainty : Uncertainty
    rng : numpy Generator
    finish : callable
        What turns drawn parameters into a usable density (floors).
    """
    labels = rng.choice(answer.n_components, size=_ROWS, p=answer.weights)
    noise = rng.standard_normal((_ROWS, answer.means.shape[1]))
    rows = answer.means[labels] + noise * np.sqrt(answer.variances)[labels]
    features = features_of(rows)
    best = float((_predict(answer, features) == labels).mean())
    losses = []
    for _ in range(_DRAWS):
        drawn = finish(uncertainty.draw(rng))
        losses.append(best - float((_predict(drawn, features) == labels).mean()))
    return max(0.0, float(np.quantile(losses, 0.9)))


def _predict(parameters: Parameters, features: Float) -> NDArray[np.int64]:
    table = coefficients(parameters.weights, parameters.means, parameters.variances)
    return np.asarray((table @ features).argmax(axis=0))
