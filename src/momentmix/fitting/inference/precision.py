"""Is the answer too imprecise? Loss of accuracy that the parameters' errors cause.

An over-identification test asks whether the model is wrong; with few rows it accepts answers that
are worthless. This asks what their noise costs: rows and labels are drawn from the fitted mixture,
and the accuracies of that mixture and of mixtures drawn from its covariance are compared.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.inference.standard_errors import Uncertainty
from momentmix.mixture.density import joint_densities, most_probable
from momentmix.mixture.gaussian import coefficients, features_of, sample
from momentmix.mixture.parameters import Parameters

_ROWS = 2500  # both accuracies are of the same rows, so that their difference is precise
_DRAWS = 20  # enough for the ninth decile


def predicted_loss(
    answer: Parameters,
    uncertainty: Uncertainty,
    rng: np.random.Generator,
    finish: Callable[[Parameters], Parameters] | None = None,
    joint_of: Callable[[Float], Callable[[Parameters], Float]] | None = None,
) -> float:
    """Loss of accuracy that nine of ten draws of the parameters stay below.

    Not the mean: the covariance is a linear picture of errors that are not, and where components
    overlap strongly the true loss exceeded the mean in half of the cases.

    Parameters
    ----------
    answer : Parameters
        The mixture that is used for prediction, standardized features.
    uncertainty : Uncertainty
    rng : numpy Generator
    finish : callable, optional
        What turns drawn parameters into a usable density (floors); by default they are one.
    joint_of : callable, optional
        What makes of rows the joint densities (r, n) of a mixture; by default all values are seen.
    """
    rows, labels = sample(answer, _ROWS, rng)
    joint = _joint_of(rows, answer) if joint_of is None else joint_of(rows)
    drawn = uncertainty.draw(rng, _DRAWS)
    if finish is not None:
        drawn = Parameters.stack([finish(drawn[k]) for k in range(_DRAWS)])

    def accuracy(parameters: Parameters) -> float:
        return float((most_probable(joint(parameters)) == labels).mean())

    losses = [accuracy(answer) - accuracy(drawn[k]) for k in range(_DRAWS)]
    return max(0.0, float(np.quantile(losses, 0.9)))


def _joint_of(rows: Float, answer: Parameters) -> Callable[[Parameters], Float]:
    features = features_of(rows, answer.blocks)
    return lambda p: np.asarray(joint_densities(coefficients(p), features))
