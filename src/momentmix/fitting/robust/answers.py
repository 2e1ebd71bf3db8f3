"""Answers from rows: candidates, passes from the best, standard errors, certificate.

Answers from moments alone end with the same certificate. Standard errors and certificate have a
generator of their own and need no rows but the sample: an estimator computes them when they are
asked for, and gets the bits of `momentmix.fit`.

*Support.* Where a mixture with one component less passes the same test, the moments do not need the
last component. Where another mixture with as many components fits about as well and sorts rows
otherwise, the moments do not tell the two apart. With rows, the number is supported if the
likelihood or the moments reject one component less.

*Predicted loss.* The test asks whether the model is wrong; with few rows it accepts answers that
are worthless. The loss is what their noise costs: rows and labels are drawn from the fitted
mixture, and the accuracies of that mixture and of mixtures drawn from its covariance are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import inf, log, nan

import numpy as np

from momentmix._typing import Float
from momentmix.capacity import robust_rank
from momentmix.findings.finding import FATAL, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Sample, information_rows, joint_of, log_likelihood
from momentmix.fitting.em.passes import full_passes
from momentmix.fitting.em.pooling import one_less
from momentmix.fitting.em.scores import information_matrix
from momentmix.fitting.em.search import (
    Candidate,
    StartKind,
    StartOrigin,
    given_candidate,
    ranked_candidates,
    single_component,
)
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
    p_value_text,
)
from momentmix.fitting.inference.uncertainty import (
    Uncertainty,
    uncertainty_after_em,
    uncertainty_by_column,
)
from momentmix.fitting.inference.whitening import gaps_together
from momentmix.fitting.moment.moment_fit import MomentFit
from momentmix.fitting.outcome import Rest, StandardFit
from momentmix.fitting.robust.halves import Again, Halves
from momentmix.mixture.density import most_probable
from momentmix.mixture.gaussian import features_of
from momentmix.mixture.gaussian import sample as drawn_rows
from momentmix.mixture.matching import clustering_accuracy
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.separation import separation_of
from momentmix.parallel import begin
from momentmix.wording import percent

BegunTest = Callable[[], OverIdentification]

ROWS_PER_PARAMETER = 5  # with fewer, moments are too noisy for an answer that helps
LARGEST_DISAGREEMENT = 0.02  # share of rows; twice the loss of accuracy that a certificate allows
_ROWS = 2500  # drawn to compare mixtures: the same for all, so that differences are precise
_DRAWS = 20  # of parameters: enough for the ninth decile of the loss
_STEPS = 40  # of EM after a merge
_FEW_ROWS = 2500  # for a first look, with ten rows a parameter at least
CERTIFICATE_SEED = 41  # of certificates: one mixture has one verdict, whatever the seed of the fit
CLEAR_LOSS = 0.02  # nats a row: far more than two samples, or the prior of the variances, differ


def answer_from_rows(
    sample: Sample, n_components: int, context: FitContext, found: Sequence[Candidate] = ()
) -> StandardFit:
    """The answer by passes over the rows from the best candidate; `found` are known candidates."""
    candidates = list(found) or find_candidates(sample, n_components, context)
    best, moments = candidates[0], sample.moments
    with context.clock.stage("passes"):
        done = full_passes(sample, best.parameters, context)
    p = done.parameters[context.order_of(done.parameters)]  # before anything is drawn from it
    features, counts = information_rows(sample, p.flat().size, context.rng)
    weights: list[Float | None] = [counts]
    if counts is not None and not sample.rows.is_frequency:
        weights.append(counts**2)
    halves = Halves.of_answer(sample, p, context)
    kept = sample.without_rows()  # which may have changed when `rest` is computed

    @cache
    def rest() -> Rest:
        own, support = replace(context, rng=np.random.default_rng(CERTIFICATE_SEED)), None
        test = begin_test(moments, p, own, after_rows=True)
        with own.clock.stage("standard errors"):
            uncertainty = _uncertainty(kept, p, own, features, weights)
        if p.n_components > 1:
            with own.clock.stage("support"):
                support = support_from_rows(kept, p, own)
        with own.clock.stage("halves"):
            again = halves.compare(p)._replace(cut=halves.cut(p))
        certificate = certify(moments, p, test, uncertainty, support, own, again=again)
        if not p.blocks.missing:
            missing = about_missing(moments, p, features, counts, certificate.findings)
            certificate = replace(certificate, findings=[*certificate.findings, *missing])
        return Rest(uncertainty, certificate)

    if not context.defers:
        rest()  # while another thread works on the test
    return StandardFit(moments, p, rest, (), best.name, passes=done)


def _uncertainty(
    sample: Sample, p: Parameters, context: FitContext, features: Float, weights: list[Float | None]
) -> Uncertainty:
    """Covariance of the parameters after the passes, from features of rows and their weights."""
    moments = sample.moments
    prior = context.prior(moments, sample.blocks, moments.n_counted, p.n_components)
    is_plain = p.blocks.is_diagonal and not p.blocks.laws and all(w is None for w in weights)
    if is_plain and features.shape[1] < p.n_free:
        return uncertainty_by_column(p, features, moments.n_effective, prior)
    # No name for a matrix: it may be large, and is given away.
    matrices = [information_matrix(features, p, context.n_threads, w) for w in weights]
    of_scores = matrices[1] if len(matrices) > 1 else None
    n = moments.n_effective
    together = gaps_together(moments, p)
    found = uncertainty_after_em(p, matrices.pop(0), n, of_scores, together, prior)
    if features.shape[1] < p.n_free:  # scores of so few rows say nothing of some directions
        found = replace(found, factor=np.full_like(found.factor, nan))
    return found


def find_candidates(sample: Sample, n_components: int, context: FitContext) -> list[Candidate]:
    """Starts for the passes, best first."""
    if n_components == 1:
        single = single_component(sample, sample.blocks, context)
        return [Candidate(StartOrigin(StartKind.CLOSED_FORM), single, 0.0)]
    with context.clock.stage("candidates"):
        if context.start is not None:
            return [given_candidate(sample, context.start, context)]
        return ranked_candidates(sample, n_components, context)


# -- certificate -----------------------------------------------------------------------------------


def begin_test(
    moments: StandardMoments, parameters: Parameters, context: FitContext, after_rows: bool = False
) -> BegunTest:
    """Return a function that gives the over-identification test, which may run on another thread.

    It then shares the time of the standard errors and of the support of r.
    """
    part = None if _has_few_rows(moments, parameters) else moments.testable(parameters)
    if part is None:
        return lambda: UNTESTABLE
    has_gaps, (moments, parameters) = part[0] is not moments, part
    # What would accept any other mixture tests nothing.
    most = robust_rank(moments.n_features, moments.order, parameters.blocks) if has_gaps else inf
    if parameters.n_components > most:
        return lambda: UNTESTABLE
    noise = context.noise(moments)
    test = partial(check_conditions, moments, parameters, after_rows=after_rows, noise=noise)
    return begin(cache(lambda: test(np.random.default_rng(CERTIFICATE_SEED))), context.n_threads)


def _has_few_rows(moments: StandardMoments, parameters: Parameters) -> bool:
    """Whether neither test nor errors say anything, which is a fatal finding."""
    return moments.n_effective < LEAST_ROWS_PER_PARAMETER * parameters.n_free


def certify(
    moments: StandardMoments,
    parameters: Parameters,
    begun: BegunTest,
    uncertainty: Uncertainty,
    support: Support | None,
    context: FitContext,
    usable: Callable[[Parameters], Parameters] | None = None,
    again: Again | None = None,
) -> Certificate:
    """Test (as `begin_test` gave it), predicted loss, findings, and what halves gave `again`."""
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
    rows, labels = drawn_rows(answer, _ROWS, rng)
    features = features_of(rows, answer.blocks)
    drawn = uncertainty.draw(rng, _DRAWS)

    def accuracy(parameters: Parameters) -> float:
        return float((most_probable(joint_of(features, parameters)) == labels).mean())

    drawn = drawn if finish is None else finish(drawn)
    losses = accuracy(answer) - np.array([accuracy(drawn[k]) for k in range(_DRAWS)])
    return max(0.0, float(np.quantile(losses, 0.9)))


# -- support of the number of components --------------------------------------------------------


def support_from_moments(
    fit: MomentFit, test: OverIdentification, rng: np.random.Generator
) -> Support:
    """Whether the moments need the components of `fit`; the `test` is that of one less."""
    r = fit.parameters.n_components
    fewer = _fewer(r)
    if test.testable and test.p_value >= CLEAR_P_VALUE:
        text = (
            f"{fewer} fit{'s' if r == 2 else ''} the moments too (least p-value "
            f"{p_value_text(test.p_value)}), so that they do not determine {r}."
        )
        return Support(r, False, text)
    shares = [disagreement(fit.parameters, rival, rng) for rival in fit.rivals]
    if max(shares, default=0.0) > LARGEST_DISAGREEMENT:
        text = (
            f"another mixture of {r} components fits the moments as well and sorts "
            f"{percent(max(shares))} of the rows otherwise."
        )
        return Support(r, False, text)
    if not test.testable:
        text = (
            f"the moments cannot tell whether {fewer} would do: there are not more of them than "
            "parameters."
        )
        return Support(r, None, text)
    return Support(r, True, f"the moments reject {fewer}")


def disagreement(first: Parameters, second: Parameters, rng: np.random.Generator) -> float:
    """Share of rows of the first mixture that the second one sorts otherwise."""
    features = features_of(drawn_rows(first.normalized(), _ROWS, rng)[0], first.blocks)
    labels = [most_probable(joint_of(features, p)) for p in (first, second)]
    return 1.0 - clustering_accuracy(*labels)


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
            return Support(p.n_components, True, f"the moments reject {_fewer(p.n_components)}")
    return support_by_bic(p.n_components, loss, price)


def support_by_bic(r: int, loss: float, price: float) -> Support:
    """Whether r components are supported, if one less loses so many nats a row, and BIC asks."""
    if loss > price:
        return Support(r, True, f"BIC rejects {_fewer(r)}")
    text = (
        f"{_fewer(r)} explain{'s' if r == 2 else ''} the rows as well: the last one gains "
        f"{loss:.2g} nats a row, and BIC asks for {price:.2g}."
    )
    return Support(r, False, text)


def _fewer(r: int) -> str:
    return f"{r - 1} component{'s' if r > 2 else ''}"
