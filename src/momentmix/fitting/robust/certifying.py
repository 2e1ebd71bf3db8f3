"""The last stage of an answer: test, predicted loss, support of the number, findings → certificate.

*Support.* Where a mixture with one component less passes the same test, the moments do not need the
last component, and its parameters are not identified by them. Where another mixture with as many
components fits about as well and sorts rows otherwise, the moments do not tell the two apart. With
rows, the number is supported if the likelihood or the moments reject one component less.

*Predicted loss.* The test asks whether the model is wrong; with few rows it accepts answers that
are worthless. The loss is what their noise costs: rows and labels are drawn from the fitted
mixture, and the accuracies of that mixture and of mixtures drawn from its covariance are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log, nan

import numpy as np

from momentmix._typing import Float
from momentmix.capacity.monomials import robust_rank
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Sample, log_likelihood
from momentmix.fitting.em.pooling import one_less
from momentmix.fitting.inference.certificate import Certificate, Support
from momentmix.fitting.inference.findings import LEAST_ROWS_PER_PARAMETER, collect_findings
from momentmix.fitting.inference.over_identification import (
    BOOTSTRAP_BELOW,
    CLEAR_P_VALUE,
    UNTESTABLE,
    OverIdentification,
    check_conditions,
    p_value_text,
)
from momentmix.fitting.inference.row_findings import row_findings
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moment.moment_fit import MomentFit
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.density import joint_densities, most_probable
from momentmix.mixture.gaussian import coefficients, features_of, sample
from momentmix.mixture.matching import clustering_accuracy
from momentmix.mixture.parameters import Parameters
from momentmix.parallel import begin

LARGEST_DISAGREEMENT = 0.02  # share of rows; twice the loss of accuracy that a certificate allows
_ROWS = 2500  # drawn to compare mixtures: the same for all, so that differences are precise
_DRAWS = 20  # of parameters: enough for the ninth decile of the loss
_STEPS = 40  # of EM after a merge
_FEW_ROWS = 2500  # for a first look, with ten rows a parameter at least
_CLEAR_LOSS = 0.02  # nats a row: far more than two samples, or the prior of the variances, differ


def begin_test(
    moments: StandardMoments, parameters: Parameters, context: FitContext, after_rows: bool = False
) -> Callable[[], OverIdentification]:
    """What gives the over-identification test; with several threads it is under way on one of them.

    It then shares the time of the standard errors and of the support of r.
    """
    if _has_few_rows(moments, parameters):
        return lambda: UNTESTABLE
    noise = context.noise(moments)
    test = partial(check_conditions, moments, parameters, after_rows=after_rows, noise=noise)
    if moments.n_effective < BOOTSTRAP_BELOW:  # a bootstrap draws when it is its turn
        return lambda: test(context.rng)
    # Where there are too many conditions, some are drawn: the same for every seed.
    return begin(lambda: test(np.random.default_rng(0)), context.n_threads)


def _has_few_rows(moments: StandardMoments, parameters: Parameters) -> bool:
    """Whether neither test nor errors say anything, which is a fatal finding."""
    return moments.n_effective < LEAST_ROWS_PER_PARAMETER * parameters.n_free


def certify(
    moments: StandardMoments,
    parameters: Parameters,
    begun: Callable[[], OverIdentification],
    uncertainty: Uncertainty,
    support: Support | None,
    context: FitContext,
    usable: Callable[[Parameters], Parameters] | None = None,
) -> Certificate:
    """Test (as `begin_test` gave it), predicted loss and findings.

    `usable` makes densities of parameters of a moment answer that are drawn from `uncertainty`.
    """
    with context.clock.stage("certificate"):
        loss = 0.0
        if _has_few_rows(moments, parameters) or (
            support is not None and support.supported is False
        ):
            loss = nan  # of parameters that are not identified, errors say nothing
        elif parameters.n_components > 1:
            loss = predicted_loss(parameters, uncertainty, context.rng, usable)
        p, floor, after_rows, found = parameters, context.variance_floor, usable is None, None
        if context.checked is not None and len(context.checked.values):  # no remote rows
            found = row_findings(context.checked, moments, p, after_rows, floor)
        test = begun()  # which other threads may have worked on meanwhile
        capacity = robust_rank(moments.n_features, moments.order, p.blocks)
        ordered = p[context.order_of(p)]  # findings name components by number
        findings = collect_findings(moments, ordered, test, capacity, floor, after_rows, found)
        return Certificate(test, loss, findings, p.n_components, support, after_rows)


# -- predicted loss -----------------------------------------------------------------------------


def predicted_loss(
    answer: Parameters,
    uncertainty: Uncertainty,
    rng: np.random.Generator,
    finish: Callable[[Parameters], Parameters] | None = None,
    joint_of: Callable[[Float], Callable[[Parameters], Float]] | None = None,
) -> float:
    """Loss of accuracy that nine of ten draws of the parameters stay below.

    Not the mean: where components overlap strongly the true loss exceeded it in half of the cases.
    `finish` makes densities of drawn parameters, and `joint_of` joint densities (r, n) of rows.
    """
    rows, labels = sample(answer, _ROWS, rng)
    joint = (joint_of or partial(_joint_of, blocks=answer.blocks))(rows)
    drawn = uncertainty.draw(rng, _DRAWS)

    def accuracy(parameters: Parameters) -> float:
        return float((most_probable(joint(parameters)) == labels).mean())

    draws = [drawn[k] if finish is None else finish(drawn[k]) for k in range(_DRAWS)]
    losses = [accuracy(answer) - accuracy(p) for p in draws]
    return max(0.0, float(np.quantile(losses, 0.9)))


def _joint_of(rows: Float, blocks: Blocks) -> Callable[[Parameters], Float]:
    features = features_of(rows, blocks)
    return lambda p: np.asarray(joint_densities(coefficients(p), features))


# -- support of the number of components --------------------------------------------------------


def support_from_moments(
    moments: StandardMoments, fit: MomentFit, smaller: MomentFit, rng: np.random.Generator
) -> Support:
    """Whether the moments need the components of `fit`; `smaller` has one less."""
    r = fit.parameters.n_components
    test = check_conditions(moments, smaller.raw, rng, correlations=False)
    fewer = _fewer(r)
    if test.testable and test.p_value >= CLEAR_P_VALUE:
        text = (
            f"{fewer} fit{'s' if r == 2 else ''} the moments too (least p-value "
            f"{p_value_text(test.p_value)}), so that they do not determine {r}. Use fewer "
            "components, more rows, or the rows themselves."
        )
        return Support(r, False, text)
    shares = [disagreement(fit.parameters, rival, rng) for rival in fit.rivals]
    if max(shares, default=0.0) > LARGEST_DISAGREEMENT:
        text = (
            f"another mixture of {r} components fits the moments as well and sorts "
            f"{max(shares):.0%} of the rows otherwise. Use a higher order, more rows, or the rows "
            "themselves."
        )
        return Support(r, False, text)
    if not test.testable:
        text = (
            f"the moments cannot tell whether {fewer} would do: there are not more of them than "
            "parameters. Use more features, a higher order, or the rows themselves."
        )
        return Support(r, None, text)
    return Support(r, True, f"the moments reject {fewer}")


def disagreement(first: Parameters, second: Parameters, rng: np.random.Generator) -> float:
    """Share of rows of the first mixture that the second one sorts otherwise."""
    joint = _joint_of(sample(first.normalized(), _ROWS, rng)[0], first.blocks)
    return 1.0 - clustering_accuracy(most_probable(joint(first)), most_probable(joint(second)))


def support_from_rows(sample: Sample, parameters: Parameters, context: FitContext) -> Support:
    """Whether the likelihood or the moments reject one component less.

    A part of the rows is enough where it loses far more than the price: parameters from n rows cost
    about n_parameters / 2n nats on others.
    """
    p, moments, features = parameters, sample.moments, sample.features
    n, n_sampled = moments.n_counted, features.shape[1]
    structure = context.structure(moments, p.blocks)
    price = 0.5 * structure.n_own(p.blocks) * log(n) / n  # of the last component, in nats a row
    large = log_likelihood(sample.judges, p)
    for size in sorted({min(max(_FEW_ROWS, 10 * p.n_free), n_sampled), n_sampled}):
        few, clear = features[:, :size], price + _CLEAR_LOSS + p.n_free / size
        # Where every merge stays far below, further steps would not change the answer.
        smaller = one_less(
            few, p, structure, _STEPS, n_threads=context.n_threads, least_gain=price / 20,
            target=log_likelihood(few, p) - clear,
        )  # fmt: skip
        loss = large - log_likelihood(sample.judges, smaller)
        if loss > clear:
            break
    if loss <= price:
        noise = context.noise(moments)
        test = check_conditions(moments, smaller, context.rng, correlations=False, noise=noise)
        if test.testable and test.p_value < CLEAR_P_VALUE:
            return Support(p.n_components, True, f"the moments reject {_fewer(p.n_components)}")
    return support_by_bic(p.n_components, loss, price)


def support_by_bic(r: int, loss: float, price: float) -> Support:
    """Whether r components are supported, if one less loses so many nats a row, and BIC asks."""
    if loss > price:
        return Support(r, True, f"BIC rejects {_fewer(r)}")
    text = (
        f"{_fewer(r)} explain{'s' if r == 2 else ''} the rows as well: the last one gains "
        f"{loss:.2g} nats a row, and BIC asks for {price:.2g}. Use fewer components or more rows."
    )
    return Support(r, False, text)


def _fewer(r: int) -> str:
    return f"{r - 1} component{'s' if r > 2 else ''}"
