"""The answer from rows: passes from the best start, standard errors, certificate.

Standard errors and certificate have a generator of their own and need no rows but a sample: an
estimator computes them when they are asked for, and gets the bits of `momentmix.fit`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.choose import Choice
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Sample, bic, information_rows, log_likelihood
from momentmix.fitting.em.passes import full_passes
from momentmix.fitting.halves import Halves
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.certify import CERTIFICATE_SEED, certify_rows
from momentmix.fitting.inference.uncertainty import (
    Uncertainty,
)
from momentmix.fitting.outcome import StandardFit
from momentmix.fitting.problem import Problem
from momentmix.mixture.parameters import Parameters


def answer_from_rows(problem: Problem, choice: Choice) -> StandardFit:
    """The answer by passes over the rows from the best candidate."""
    assert problem.sample is not None
    context, best = problem.context, choice.candidates[0]
    sample = problem.sample.of_blocks(choice.blocks).around(choice.within)
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
        context = replace(self.context, rng=np.random.default_rng(CERTIFICATE_SEED))
        return certify_rows(
            self.sample, self.parameters, context, self.features, self.counts, self.is_survey,
            self.halves,
        )  # fmt: skip
