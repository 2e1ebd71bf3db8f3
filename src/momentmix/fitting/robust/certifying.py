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
from momentmix.mixture.prior import Structure
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

    It then shares the time of the standard errors and of the support of r. A test that may need a
    bootstrap waits for its turn to draw. `after_rows`: see `choose_conditions`.
    """
    if _has_few_rows(moments, parameters):
        return lambda: UNTESTABLE
    noise = context.noise(moments)
    if moments.n_effective < BOOTSTRAP_BELOW:
        return lambda: check_conditions(
            moments, parameters, context.rng, after_rows=after_rows, noise=noise
        )

    def test() -> OverIdentification:
        # Where there are too many conditions, some are drawn: the same for every seed.
        rng = np.random.default_rng(0)
        return check_conditions(moments, parameters, rng, after_rows=after_rows, noise=noise)

    return begin(test, context.n_threads)


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
    """Test, predicted loss and findings.

    `begun` is what `begin_test` gave. After passes over the rows, parameters drawn from
    `uncertainty` are a density as they are; `usable` makes one of those of a moment answer.
    """
    with context.clock.stage("certificate"):
        loss = 0.0
        if _has_few_rows(moments, parameters) or (
            support is not None and support.supported is False
        ):
            loss = nan  # of parameters that are not identified, errors say nothing
        elif parameters.n_components > 1:
            loss = predicted_loss(parameters, uncertainty, context.rng, usable)
        found, checked = None, context.checked
        if checked is not None and len(checked.values):  # they are there, and no remote ones
            found = row_findings(
                checked, moments, parameters, usable is None, context.variance_floor
            )
        test = begun()  # which other threads may have worked on meanwhile
        findings = collect_findings(
            moments,
            parameters[context.order_of(parameters)],  # findings name components by number
            test,
            robust_rank(moments.n_features, moments.order, parameters.blocks),
            context.variance_floor,
            from_rows=usable is None,
            checked=checked,
            shown=found,
        )
        return Certificate(
            test, loss, findings, parameters.n_components, support, after_rows=usable is None
        )


# -- predicted loss -----------------------------------------------------------------------------


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

    `finish` turns drawn parameters into a usable density (floors); by default they are one.
    `joint_of` makes of rows the joint densities (r, n) of a mixture; by default all values are
    seen.
    """
    rows, labels = sample(answer, _ROWS, rng)
    joint = (joint_of or partial(_joint_of, blocks=answer.blocks))(rows)
    drawn = uncertainty.draw(rng, _DRAWS)
    if finish is not None:
        drawn = Parameters.stack([finish(drawn[k]) for k in range(_DRAWS)])

    def accuracy(parameters: Parameters) -> float:
        return float((most_probable(joint(parameters)) == labels).mean())

    losses = [accuracy(answer) - accuracy(drawn[k]) for k in range(_DRAWS)]
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
    joint = _joint_of(sample(first.normalized(), _ROWS, rng)[0], first.blocks)
    return 1.0 - clustering_accuracy(most_probable(joint(first)), most_probable(joint(second)))


def support_from_rows(
    sample: Sample, moments: StandardMoments, parameters: Parameters, context: FitContext
) -> Support:
    """Whether the likelihood or the moments reject one component less."""
    r, n = parameters.n_components, moments.n_counted
    # Of the last component, in nats a row.
    structure = context.structure(moments, parameters.blocks)
    price = 0.5 * structure.n_own(parameters.blocks) * log(n) / n
    smaller, loss = _best_smaller(sample, structure, parameters, context, price)
    if loss <= price:
        test = check_conditions(
            moments, smaller, context.rng, correlations=False, noise=context.noise(moments)
        )
        if test.testable and test.p_value < CLEAR_P_VALUE:
            return Support(r, True, f"the moments reject {_fewer(r)}")
    return support_by_bic(r, loss, price)


def support_by_bic(r: int, loss: float, price: float) -> Support:
    """Whether r components are supported, if one less loses so many nats a row, and BIC asks."""
    if loss > price:
        return Support(r, True, f"BIC rejects {_fewer(r)}")
    return Support(
        r,
        False,
        f"{_fewer(r)} explain{'s' if r == 2 else ''} the rows as well: the last one gains "
        f"{loss:.2g} nats a row, and BIC asks for {price:.2g}. Use fewer components or more rows.",
    )


def _fewer(r: int) -> str:
    return f"{r - 1} component{'s' if r > 2 else ''}"


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
