"""Standard errors and the certificate of an answer, made once, when they are asked for.

*Predicted loss.* The test asks whether the model is wrong; with few rows it accepts answers that
are worthless. The loss is what their noise costs: rows and labels are drawn from the fitted
mixture, and the accuracies of that mixture and of mixtures drawn from its covariance are compared.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from momentmix._typing import Float
from momentmix.capacity import robust_rank
from momentmix.findings.finding import FATAL, found
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Sample, bic, joint_of, log_likelihood
from momentmix.fitting.halves import Again, Halves
from momentmix.fitting.inference.certificate import Certificate, Support
from momentmix.fitting.inference.completed_rows import completed, is_missing_at_random
from momentmix.fitting.inference.description import describe, described_by_effect
from momentmix.fitting.inference.findings import (
    LEAST_ROWS_PER_PARAMETER,
    collect_findings,
    weight_findings,
)
from momentmix.fitting.inference.missing_cells import about_missing
from momentmix.fitting.inference.one_trait import bic_of_one_trait
from momentmix.fitting.inference.over_identification import (
    UNTESTABLE,
    OverIdentification,
    check_conditions,
)
from momentmix.fitting.inference.uncertainty import Uncertainty, uncertainty_after_em
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.density import most_probable
from momentmix.mixture.gaussian import features_of
from momentmix.mixture.gaussian import sample as drawn_rows
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.separation import separation_of
from momentmix.tables.rows import proportional_places

DRAWN_ROWS = 2500  # drawn to compare mixtures: the same for all, so that differences are precise
_DRAWS = 20  # of parameters: enough for the ninth decile of the loss
CERTIFICATE_SEED = 41  # of certificates: one mixture has one verdict, whatever the seed of the fit


def certify_rows(
    sample: Sample,
    p: Parameters,
    context: FitContext,
    features: Float,
    counts: Float | None,
    is_survey: bool,
    halves: Halves,
    again: Again | None = None,
) -> tuple[Uncertainty, Certificate]:
    """Standard errors and certificate of a fit to rows, of which T(z) of some are `features`.

    `again` is what the choice of the number has found of the same halves.
    """
    moments = sample.moments
    with context.clock.stage("standard errors"):
        prior = context.prior(moments, p.blocks, moments.n_counted, p.n_components)
        uncertainty = uncertainty_after_em(
            p, features, moments.n_effective, prior, counts, is_survey, context.n_threads
        )
    with context.clock.stage("halves"):
        again = again or halves.compare(p)
        if p.n_components > 1:
            trait, score = bic_of_one_trait(sample), log_likelihood(sample.judges, p)
            if trait is not None and trait < bic(p, moments.n_counted, score):
                again = again._replace(fitted=np.full_like(again.fitted, -inf))
    rows = features
    if counts is not None:  # as many as can be drawn without copies
        rows = features[:, proportional_places(counts, int(counts.sum() / counts.max()))]
    tested = moments, p
    # Weights of a survey depend on the rows: moments vary more than those of rows without weights.
    if is_missing_at_random(p) or (is_survey and rows.shape[1] < features.shape[1]):
        tested = completed(moments, p, rows)
    certificate = certificate_of(moments, p, tested, uncertainty, None, context, again)
    if not p.blocks.missing:
        known = certificate.findings
        known.extend([*about_missing(moments, p, features, counts, known)])
    return uncertainty, certificate


def certificate_of(
    moments: StandardMoments,
    p: Parameters,
    tested: tuple[StandardMoments, Parameters],
    uncertainty: Uncertainty,
    support: Support | None,
    context: FitContext,
    again: Again | None = None,
) -> Certificate:
    """Test of the moments `tested`, predicted loss, findings, and what halves gave `again`."""
    from_rows = again is not None
    with context.clock.stage("certificate"):
        loss, has_few_rows = 0.0, _has_few_rows(moments, p)
        if has_few_rows or (support is not None and support.supported is False):
            loss = nan  # of parameters that are not identified, errors say nothing
        elif p.n_components > 1:
            loss = predicted_loss(p, uncertainty, context.rng)
        test = run_test(*tested, from_rows)
        order = context.order_of(p)
        ordered = p[order]  # findings name components by number
        capacity = robust_rank(moments.n_features, moments.order, p.blocks)
        findings = collect_findings(
            moments, ordered, test, capacity, from_rows, context.checked,
            (tested[0], tested[1][order]),
        )  # fmt: skip
        if not has_few_rows:
            findings += weight_findings(uncertainty, order)
        stability, description = np.zeros(0), described_by_effect(test)
        if again is not None:
            stability = again.reproducibility[order]
            segments = np.flatnonzero(again.segments(test.is_rejected is True)[order]).tolist()
            if segments:
                findings.append(found(FATAL, "continuum", components=segments))
            description = describe(again.unseen, moments, test.is_rejected)
            if description.misfits:
                apart = [f"distance {description.columns[x]:.2f}" for x in description.misfits]
                findings.append(found(FATAL, "column-shape", description.misfits, asides=apart))
        return Certificate(
            test, loss, findings, p.n_components, support, from_rows, stability,
            separation_of(ordered, lambda z: joint_of(features_of(z, p.blocks), ordered)),
            description,
        )  # fmt: skip


def run_test(moments: StandardMoments, p: Parameters, after_rows: bool) -> OverIdentification:
    """The over-identification test, where there are rows enough."""
    if _has_few_rows(moments, p):
        return UNTESTABLE
    return check_conditions(
        moments, p, np.random.default_rng(CERTIFICATE_SEED), after_rows=after_rows
    )


def _has_few_rows(moments: StandardMoments, parameters: Parameters) -> bool:
    """Whether neither test nor errors say anything, which is a fatal finding."""
    return moments.n_effective < LEAST_ROWS_PER_PARAMETER * parameters.n_free


def predicted_loss(answer: Parameters, uncertainty: Uncertainty, rng: np.random.Generator) -> float:
    """Loss of accuracy that nine of ten draws of the parameters stay below.

    Not the mean: where components overlap strongly the true loss exceeded it in half of the cases.
    """
    rows, labels = drawn_rows(answer, DRAWN_ROWS, rng)
    features = features_of(rows, answer.blocks)
    drawn = uncertainty.draw(rng, _DRAWS)

    def accuracy(parameters: Parameters) -> float:
        return float((most_probable(joint_of(features, parameters)) == labels).mean())

    losses = accuracy(answer) - np.array([accuracy(drawn[k]) for k in range(_DRAWS)])
    return max(0.0, float(np.quantile(losses, 0.9)))
