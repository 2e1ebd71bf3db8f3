"""The answer from rows, and from an answer in standardized features to the result.

Standard errors and certificate have a generator of their own and need no rows but a sample: an
estimator computes them when they are asked for, and gets the bits of `momentmix.fit`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import log
from typing import Any

import numpy as np

from momentmix.families.distribution import with_joined_values
from momentmix.findings.finding import FATAL, found
from momentmix.fitting.background import mean_log_prob, share_of, wide_density
from momentmix.fitting.choose import Choice
from momentmix.fitting.em.em import bic, information_rows, log_likelihood
from momentmix.fitting.em.passes import full_passes
from momentmix.fitting.halves import Halves
from momentmix.fitting.inference.certify import CERTIFICATE_SEED, certify_rows
from momentmix.fitting.inference.findings import find_constants, find_dropped
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.outcome import JoinedColumns, StandardFit, better_number
from momentmix.fitting.problem import Problem
from momentmix.fitting.result import BegunFit
from momentmix.mixture.mixture import mixture_of_parameters
from momentmix.mixture.prior import VARIANCE_FLOOR
from momentmix.tables.rows import Rows
from momentmix.tables.schema import Schema


def answer_from_rows(problem: Problem, choice: Choice) -> StandardFit:
    """The answer by passes over the rows from the best candidate."""
    assert problem.sample is not None
    context, best = problem.context, choice.candidates[0]
    sample = problem.sample.of_blocks(choice.blocks).around(choice.within)
    with context.clock.stage("passes"):
        done = full_passes(sample, best.parameters, context)
    order = context.order_of(done.parameters)
    p = done.parameters[order]  # before anything is drawn from it
    features, counts = information_rows(sample, p.flat().size, context.rng)
    is_survey = counts is not None and not sample.rows.is_frequency
    certify = partial(
        certify_rows,
        sample.without_rows(),
        p,
        replace(context, rng=np.random.default_rng(CERTIFICATE_SEED)),
        features,
        counts,
        is_survey,
        Halves.of_answer(sample, p, context),
        choice.again and choice.again.ordered(order),
    )
    tried = choice.tried
    if tried:
        score = log_likelihood(sample.judges, p)
        value = bic(p, sample.moments.n_counted, score)
        final = [replace(t, log_likelihood=score, bic=value) if t.chosen else t for t in tried]
        tried = tuple(final)
    notes = [choice.note] if choice.note else []
    return StandardFit(
        sample.moments, p, certify, notes, best.name, done, tried, choice.joined
    )  # fmt: skip


def in_data_units(problem: Problem, answer: StandardFit) -> BegunFit:
    """The result without standard errors and certificate: all columns, in the units of the data."""
    context, rows, schema = problem.context, problem.rows, problem.table.schema
    moments = problem.columns.truncated(answer.moments.order)
    joined = [value for value, *_ in answer.parameters.blocks.missing]
    laws = with_joined_values(moments.laws, answer.moments.columns[joined].tolist())
    place = answer.moments.columns, moments.n_features, VARIANCE_FLOOR, laws
    embedded = answer.parameters.embedded(*place).normalized()
    order = context.order_of(answer.parameters)
    p = embedded[order].without_seen(moments.n_rows).restored(moments.shift, moments.scale)
    names = moments.feature_names if schema is None else None  # a schema has those of columns
    mixture = mixture_of_parameters(p, names, schema)
    n_rows, log_likelihood, units, passes = answer.moments.n_rows, None, 0.0, answer.passes
    if rows is not None and passes is not None:
        with context.clock.stage("log-likelihood"):
            log_likelihood = mean_log_prob(rows, mixture, schema, context)
        units = passes.log_likelihood - log_likelihood
    findings = find_constants(moments)
    if isinstance(problem.table.data, Rows):
        findings += find_dropped(moments, problem.table.data.dropped)
    if context.checked is not None:
        are_taken = context.background is not False
        findings = context.checked.outliers.findings(moments, are_taken) + findings
    n_counted = answer.moments.n_counted
    findings += better_number(answer.tried, n_counted)
    if passes is not None and not passes.converged:
        findings.append(found(FATAL, "not-converged", max_passes=context.max_passes))
    if context.background is True:
        assert isinstance(problem.table.data, Rows)
        with context.clock.stage("background"):
            every = problem.table.data
            far = every.take(context.checked.outliers.places)
            wide = wide_density(far, moments, embedded).restored(moments.shift, moments.scale)
            background = mixture_of_parameters(wide, names, schema)
            share = share_of(every, mixture, background, schema, context)
            mixture, n_rows = mixture.with_background(background, share), every.n_rows
            log_likelihood = mean_log_prob(every, mixture, schema, context)
    bic = None
    if log_likelihood is not None:
        # Constant columns have no parameters.
        n_free = embedded.n_free - 2 * embedded.n_components * int(moments.constant.sum())
        bic = n_free * log(n_counted) - 2.0 * n_counted * log_likelihood
    facts: dict[str, Any] = {
        "n_rows": n_rows,
        "order": answer.moments.order,
        "winner": answer.winner,
        "n_passes": 1 if passes is None else 1 + passes.n_passes,
        "converged": passes is None or passes.converged,
        "log_likelihood": log_likelihood,
        "bic": bic,
        "notes": [*problem.table.notes, *answer.notes],
        "tried": tuple(
            replace(t, log_likelihood=t.log_likelihood - units, bic=t.bic + 2.0 * n_counted * units)
            for t in answer.tried
        ),
        "joined": _joined_columns(answer, moments, schema),
        "mixture": mixture,
        "moments": moments,
        "summary": problem.summary,
        "schema": schema,
        "stages": context.clock.stages,
        "log_likelihoods": [] if passes is None else [x - units for x in passes.log_likelihoods],
    }
    return BegunFit(facts, answer.certify, findings, place, order)


def _joined_columns(
    answer: StandardFit, moments: StandardMoments, schema: Schema | None
) -> tuple[JoinedColumns, ...]:
    """The joined columns and why they were joined, with the names of all columns."""
    joined = answer.joined
    if not joined:
        columns = answer.moments.columns
        joined = tuple(
            JoinedColumns(tuple(columns[list(group)].tolist()), "given")
            for group in answer.parameters.blocks.joined
        )
    if schema is None:
        return tuple(block.with_names(moments.feature_names) for block in joined)
    found = []
    for block in joined:
        columns = tuple(schema.column_of[j] for j in block.columns)
        found.append(replace(block, columns=columns).with_names(schema.column_names))
    return tuple(found)
