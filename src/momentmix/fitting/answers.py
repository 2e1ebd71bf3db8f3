"""The answer from rows: passes from the best start, standard errors, certificate.

Standard errors and certificate have a generator of their own and need no rows but a sample: an
estimator computes them when they are asked for, and gets the bits of `momentmix.fit`.

*Support.* Where a mixture with one component less passes the same test, the moments do not need the
last component. Where another mixture with as many components fits about as well and sorts rows
otherwise, the moments do not tell the two apart. With rows, the number is supported if the
likelihood or the moments reject one component less.

*Predicted loss.* The test asks whether the model is wrong; with few rows it accepts answers that
are worthless. The loss is what their noise costs: rows and labels are drawn from the fitted
mixture, and the accuracies of that mixture and of mixtures drawn from its covariance are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import log, nan

import numpy as np

from momentmix._typing import Float
from momentmix.capacity import robust_rank
from momentmix.findings.finding import FATAL, found
from momentmix.fitting.choose import Choice
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Sample, bic, information_rows, joint_of, log_likelihood
from momentmix.fitting.em.passes import full_passes
from momentmix.fitting.em.pooling import one_less
from momentmix.fitting.em.scores import information_matrix
from momentmix.fitting.halves import Again, Halves
from momentmix.fitting.inference.certificate import Certificate, Support
from momentmix.fitting.inference.description import describe, described_by_effect
from momentmix.fitting.inference.findings import (
    LEAST_ROWS_PER_PARAMETER,
    collect_findings,
    weight_findings,
)
from momentmix.fitting.inference.missing_dependence import about_missing
from momentmix.fitting.inference.over_identification import (
    CLEAR_P_VALUE,
    UNTESTABLE,
    OverIdentification,
    check_conditions,
)
from momentmix.fitting.inference.tested_conditions import gaps_together
from momentmix.fitting.inference.uncertainty import (
    Uncertainty,
    uncertainty_after_em,
)
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.outcome import CLEAR_LOSS, StandardFit
from momentmix.fitting.problem import Problem
from momentmix.mixture.density import most_probable
from momentmix.mixture.gaussian import features_of
from momentmix.mixture.gaussian import sample as drawn_rows
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.separation import separation_of
from momentmix.parallel import begin

DRAWN_ROWS = 2500  # drawn to compare mixtures: the same for all, so that differences are precise
_DRAWS = 20  # of parameters: enough for the ninth decile of the loss
_STEPS = 40  # of EM after a merge
_FEW_ROWS = 2500  # for a first look, with ten rows a parameter at least
CERTIFICATE_SEED = 41  # of certificates: one mixture has one verdict, whatever the seed of the fit


def answer_from_rows(problem: Problem, choice: Choice) -> StandardFit:
    """The answer by passes over the rows from the best candidate."""
    assert problem.sample is not None
    context, best = problem.context, choice.candidates[0]
    sample = problem.sample.of_blocks(choice.blocks)
    with context.clock.stage("passes"):
        done = full_passes(sample, best.parameters, context)
    p = done.parameters[context.order_of(done.parameters)]  # before anything is drawn from it
    features, counts = information_rows(sample, p.flat().size, context.rng)
    is_survey = counts is not None and not sample.rows.is_frequency
    halves = Halves.of_answer(sample, p, context)
    evidence = RowEvidence(sample.without_rows(), p, context, features, counts, is_survey, halves)
    tried = choice.tried
    if tried:
        score = log_likelihood(sample.judges, p)
        value = bic(p, sample.moments.n_counted, score)
        final = [replace(t, log_likelihood=score, bic=value) if t.chosen else t for t in tried]
        tried = tuple(final)
    notes = [choice.note] if choice.note else []
    return StandardFit(
        sample.moments, p, evidence, notes, best.name, done, tried, choice.joined
    )  # fmt: skip


@dataclass(frozen=True)
class RowEvidence:
    """What standard errors and certificate need of a fit to rows: a sample, not the rows."""

    sample: Sample
    parameters: Parameters
    context: FitContext
    features: Float  # of the rows for the outer product of scores, (n_statistics, n)
    counts: Float | None  # what these count as
    is_survey: bool  # whether the weights are no frequencies
    halves: Halves

    def certify(self) -> tuple[Uncertainty, Certificate]:
        """Compute standard errors and certificate."""
        p, moments, support = self.parameters, self.sample.moments, None
        context = replace(self.context, rng=np.random.default_rng(CERTIFICATE_SEED))
        test = begin(partial(run_test, moments, p, context, True), context.n_threads)
        with context.clock.stage("standard errors"):
            uncertainty = self._uncertainty()
        if p.n_components > 1:
            with context.clock.stage("support"):
                support = support_from_rows(self.sample, p, context)
        with context.clock.stage("halves"):
            again = self.halves.compare(p)._replace(cut=self.halves.cut(p))
        certificate = certify(moments, p, test, uncertainty, support, context, again=again)
        if not p.blocks.missing:
            findings = certificate.findings
            missing = about_missing(moments, p, self.features, self.counts, findings)
            certificate = replace(certificate, findings=[*findings, *missing])
        return uncertainty, certificate

    def _uncertainty(self) -> Uncertainty:
        """Covariance of the parameters, from scores of rows and their weights."""
        p, moments, features, counts = (
            self.parameters, self.sample.moments, self.features, self.counts,
        )  # fmt: skip
        prior = self.context.prior(moments, p.blocks, moments.n_counted, p.n_components)
        n_threads, of_scores = self.context.n_threads, None
        if self.is_survey and counts is not None:
            of_scores = information_matrix(features, p, n_threads, counts**2)
        found = uncertainty_after_em(
            p, information_matrix(features, p, n_threads, counts), moments.n_effective,
            of_scores, gaps_together(moments, p), prior,
        )  # fmt: skip
        if features.shape[1] < p.n_free:  # scores of so few rows say nothing of some directions
            found = replace(found, factor=np.full_like(found.factor, nan))
        return found


# -- certificate -----------------------------------------------------------------------------------


def run_test(
    moments: StandardMoments, p: Parameters, context: FitContext, after_rows: bool = False
) -> OverIdentification:
    """The over-identification test of what can be tested; it may run on another thread."""
    part = None if _has_few_rows(moments, p) else moments.testable(p)
    if part is None:
        return UNTESTABLE
    # What would accept any other mixture tests nothing.
    if part[0] is not moments and p.n_components > robust_rank(
        part[0].n_features, part[0].order, part[1].blocks
    ):
        return UNTESTABLE
    rng, noise = np.random.default_rng(CERTIFICATE_SEED), context.noise(part[0])
    return check_conditions(*part, rng, after_rows=after_rows, noise=noise)


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
    again: Again | None = None,
) -> Certificate:
    """Test (which may be under way), predicted loss, findings, and what halves gave `again`."""
    with context.clock.stage("certificate"):
        loss = 0.0
        if _has_few_rows(moments, parameters) or (
            support is not None and support.supported is False
        ):
            loss = nan  # of parameters that are not identified, errors say nothing
        elif parameters.n_components > 1:
            loss = predicted_loss(parameters, uncertainty, context.rng, usable)
        p, after_rows = parameters, usable is None
        test = begun()  # which other threads may have worked on meanwhile
        capacity = robust_rank(moments.n_features, moments.order, p.blocks)
        order = context.order_of(p)
        ordered = p[order]  # findings name components by number
        findings = collect_findings(moments, ordered, test, capacity, after_rows, context.checked)
        if not _has_few_rows(moments, parameters):
            findings += weight_findings(uncertainty, order)
        found_again, description = np.zeros(0), described_by_effect(test)
        if again is not None:
            found_again = again.reproducibility[order]
            if again.cut and test.is_rejected:
                places = sorted(int(np.flatnonzero(order == i)[0]) for i in again.cut)
                findings.append(found(FATAL, "cut", components=places))
            description = describe(again.unseen, moments, test.is_rejected)
            if description.misfits:
                apart = [f"distance {description.columns[x]:.2f}" for x in description.misfits]
                findings.append(found(FATAL, "column-shape", description.misfits, asides=apart))
        return Certificate(
            test, loss, findings, p.n_components, support, after_rows, found_again,
            separation_of(ordered, lambda z: joint_of(features_of(z, p.blocks), ordered)),
            description,
        )  # fmt: skip


def predicted_loss(
    answer: Parameters,
    uncertainty: Uncertainty,
    rng: np.random.Generator,
    finish: Callable[[Parameters], Parameters] | None = None,
) -> float:
    """Loss of accuracy that nine of ten draws of the parameters stay below.

    Not the mean: where components overlap strongly the true loss exceeded it in half of the cases.
    """
    rows, labels = drawn_rows(answer, DRAWN_ROWS, rng)
    features = features_of(rows, answer.blocks)
    drawn = uncertainty.draw(rng, _DRAWS)

    def accuracy(parameters: Parameters) -> float:
        return float((most_probable(joint_of(features, parameters)) == labels).mean())

    drawn = drawn if finish is None else finish(drawn)
    losses = accuracy(answer) - np.array([accuracy(drawn[k]) for k in range(_DRAWS)])
    return max(0.0, float(np.quantile(losses, 0.9)))


# -- support of the number of components --------------------------------------------------------


def support_from_rows(sample: Sample, parameters: Parameters, context: FitContext) -> Support:
    """Whether the likelihood or the moments reject one component less."""
    p, moments, features = parameters, sample.moments, sample.features
    n, n_sampled = moments.n_counted, features.shape[1]
    structure = moments.structure(p.blocks)
    price = 0.5 * p.blocks.n_parameters * log(n) / n  # of the last component, in nats a row
    large = log_likelihood(sample.judges, p)
    for size in sorted({min(max(_FEW_ROWS, 10 * p.n_free), n_sampled), n_sampled}):
        few, clear = features[:, :size], price + CLEAR_LOSS + p.n_free / size
        # Where every merge stays far below, further steps would not change the answer.
        smaller = one_less(
            few, p, structure, _STEPS, n_threads=context.n_threads, least_gain=price / 20,
            target=log_likelihood(few, p) - clear,
        )  # fmt: skip
        loss = large - log_likelihood(sample.judges, smaller)
        if loss > clear:
            break
    part = moments.testable(smaller)
    # From few rows the test rejects columns that are not normal, and finds no groups.
    if loss <= price and part is not None and not _has_few_rows(part[0], part[1]):
        noise = context.noise(part[0])
        test = check_conditions(*part, context.rng, correlations=False, noise=noise)
        if test.testable and test.p_value < CLEAR_P_VALUE:
            return Support(
                p.n_components, True, f"the moments reject {fewer_components(p.n_components)}"
            )
    return support_by_bic(p.n_components, loss, price)


def support_by_bic(r: int, loss: float, price: float) -> Support:
    """Whether r components are supported, if one less loses so many nats a row, and BIC asks."""
    fewer = fewer_components(r)
    if loss > price:
        return Support(r, True, f"BIC rejects {fewer}")
    text = (
        f"{fewer} explain{'s' if r == 2 else ''} the rows as well: the last one gains "
        f"{loss:.2g} nats a row, and BIC asks for {price:.2g}."
    )
    return Support(r, False, text)


def fewer_components(r: int) -> str:
    """One component less, in words."""
    return f"{r - 1} component{'s' if r > 2 else ''}"
