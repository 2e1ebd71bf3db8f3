"""Whether moments or rows support the number of components, and the answer is the only one.

Where a mixture with one component less passes the same test, the moments do not need the last
component, and its parameters are not identified by them. Where another mixture with as many
components fits about as well and sorts rows otherwise, the moments do not tell the two apart. With
rows, the number is supported if the likelihood or the moments reject one component less.
"""

from __future__ import annotations

from math import log

import numpy as np

from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import log_likelihood
from momentmix.fitting.em.merging import one_less
from momentmix.fitting.em.sample import Sample
from momentmix.fitting.inference.over_identification import (
    CLEAR_P_VALUE,
    check_conditions,
    p_value_text,
)
from momentmix.fitting.inference.support import Support
from momentmix.fitting.moment.moment_fit import MomentFit
from momentmix.mixture.density import joint_densities, most_probable
from momentmix.mixture.gaussian import coefficients, features_of, sample
from momentmix.mixture.matching import clustering_accuracy
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure

LARGEST_DISAGREEMENT = 0.02  # share of rows; twice the loss of accuracy that a certificate allows
_ROWS = 2500  # drawn to compare two mixtures
_STEPS = 40  # of EM after a merge
_FEW_ROWS = 2500  # for a first look, with ten rows a parameter at least
_CLEAR_LOSS = 0.02  # nats a row: far more than two samples, or the prior of the variances, differ


def support_from_moments(
    moments: StandardMoments, fit: MomentFit, smaller: MomentFit, rng: np.random.Generator
) -> Support:
    """Whether the moments need the components of `fit`; `smaller` has one less."""
    r = fit.parameters.n_components
    test = check_conditions(moments, smaller.raw, rng, correlations=False)
    fewer = f"{r - 1} component{'s' if r > 2 else ''}"
    if test.testable and test.p_value >= CLEAR_P_VALUE:
        return Support(
            r,
            False,
            f"{fewer} fit{'s' if r == 2 else ''} the moments too (least p-value "
            f"{p_value_text(test.p_value)}), so that they do not determine {r}. Use fewer "
            "components, more rows, or the rows themselves.",
        )
    shares = [disagreement(fit.parameters, rival, rng) for rival in fit.rivals]
    if max(shares, default=0.0) > LARGEST_DISAGREEMENT:
        return Support(
            r,
            False,
            f"another mixture of {r} components fits the moments as well and sorts "
            f"{max(shares):.0%} of the rows otherwise. Use a higher order, more rows, or the rows "
            "themselves.",
        )
    if not test.testable:
        return Support(
            r,
            None,
            f"the moments cannot tell whether {fewer} would do: there are not more of them than "
            "parameters. Use more features, a higher order, or the rows themselves.",
        )
    return Support(r, True, f"the moments reject {fewer}")


def disagreement(first: Parameters, second: Parameters, rng: np.random.Generator) -> float:
    """Share of rows of the first mixture that the second one sorts otherwise."""
    rows, _ = sample(first.normalized(), _ROWS, rng)
    features = features_of(rows, first.blocks)
    labels = [most_probable(joint_densities(coefficients(p), features)) for p in (first, second)]
    return 1.0 - clustering_accuracy(*labels)


def support_from_rows(
    sample: Sample, moments: StandardMoments, parameters: Parameters, context: FitContext
) -> Support:
    """Whether the likelihood or the moments reject one component less."""
    r, n = parameters.n_components, moments.n_counted
    # Of the last component, in nats a row.
    structure = context.structure(moments, parameters.blocks)
    price = 0.5 * structure.n_own(parameters.blocks) * log(n) / n
    smaller, loss = _best_smaller(sample, structure, parameters, context, price)
    fewer = f"{r - 1} component{'s' if r > 2 else ''}"
    if loss > price:
        return Support(r, True, f"BIC rejects {fewer}")
    test = check_conditions(
        moments, smaller, context.rng, correlations=False, noise=context.noise(moments)
    )
    if test.testable and test.p_value < CLEAR_P_VALUE:
        return Support(r, True, f"the moments reject {fewer}")
    return Support(
        r,
        False,
        f"{fewer} explain{'s' if r == 2 else ''} the rows as well: the last one gains "
        f"{loss:.2g} nats a row, and BIC asks for {price:.2g}. Use fewer components or "
        "more rows.",
    )


def _best_smaller(
    sample: Sample,
    structure: Structure,
    parameters: Parameters,
    context: FitContext,
    price: float,
) -> tuple[Parameters, float]:
    """One component less, and what it loses on the judging rows, in nats a row.

    A part of the rows is enough where it loses far more than the price: parameters from n rows cost
    about n_parameters / 2n nats on others.
    """
    large = log_likelihood(sample.judges, parameters)
    few = max(_FEW_ROWS, 10 * parameters.n_free)
    for n in sorted({min(few, sample.features.shape[1]), sample.features.shape[1]}):
        features = sample.features[:, :n]
        clear = price + _CLEAR_LOSS + parameters.n_free / n
        # Where every merge stays far below, further steps would not change the answer.
        target = log_likelihood(features, parameters) - clear
        smaller = one_less(
            features, parameters, structure, _STEPS, n_threads=context.n_threads,
            least_gain=price / 20, target=target,
        )  # fmt: skip
        loss = large - log_likelihood(sample.judges, smaller)
        if loss > clear:
            break
    return smaller, loss
