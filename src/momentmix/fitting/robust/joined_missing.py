"""The answer where joined columns have missing cells: EM over the rows by pattern.

candidates of columns apart, of complete rows, and of rows filled by draws of one component → EM by
pattern on a sample → the best → passes over all rows → standard errors → certificate

The draws serve to find starts, and nothing else: EM leaves them behind. The moments of features
that are 0 where a cell is missing say nothing simple of joined columns: the certificate is
untested.
"""

from __future__ import annotations

from functools import cache, partial
from math import log

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.findings.finding import NOTE, found
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Pass, Sample, information_rows
from momentmix.fitting.em.passes import climb
from momentmix.fitting.em.patterns import (
    PatternLayout,
    PatternRows,
    drawn_values,
    pattern_information,
    pattern_sums,
    run_patterns,
    single_component,
)
from momentmix.fitting.em.pooling import merges_by_bound
from momentmix.fitting.em.search import Candidate, ranked_candidates
from momentmix.fitting.inference.certificate import Certificate, Support
from momentmix.fitting.inference.description import describe
from momentmix.fitting.inference.findings import (
    NO_TEST,
    component_findings,
    weight_findings,
)
from momentmix.fitting.inference.over_identification import UNTESTABLE
from momentmix.fitting.inference.uncertainty import uncertainty_after_em
from momentmix.fitting.inference.whitening import gaps_together
from momentmix.fitting.outcome import Rest, StandardFit
from momentmix.fitting.robust.answers import (
    CERTIFICATE_SEED,
    find_candidates,
    predicted_loss,
    support_by_bic,
)
from momentmix.fitting.robust.halves import Halves, fresh_starts
from momentmix.mixture.density import most_probable
from momentmix.mixture.gaussian import features_of, values_of
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VARIANCE_FLOOR, Structure, VariancePrior
from momentmix.mixture.separation import separation_of

_STEPS = 30  # of EM on a sample for each start
_MOST_SAMPLED = 20000  # rows of these steps
_ROWS_PER_PARAMETER = 5  # complete rows, for starts of them alone
_MERGES = 4  # pairs whose merge costs least by a bound
_LEAST_GAIN = 1e-5  # nats a row of a step on the sample
MOST_STARTS = 3  # of each kind


def answer_by_patterns(
    sample: Sample, layout: PatternLayout, n_components: int, context: FitContext
) -> StandardFit:
    """The answer where joined columns have missing cells."""
    check_pairs(sample, layout)
    candidates = find_candidates(sample, n_components, context)[:MOST_STARTS]
    if n_components > 1:
        with context.clock.stage("candidates"):
            for other in start_samples(sample, layout, n_components, context):
                candidates += ranked_candidates(other, n_components, context)[:MOST_STARTS]
    return fit_patterns(sample, layout, candidates, context)


def check_pairs(sample: Sample, layout: PatternLayout) -> None:
    """Raise where two columns of a block are hardly ever seen in the same row."""
    values = values_of(sample.all_features, sample.blocks).T
    for features in layout.wide:
        is_seen = (~layout.gaps(values, features)).astype(np.float64)
        together = is_seen.T @ is_seen
        if together.min() < features.size + 1:
            j, k = np.unravel_index(int(together.argmin()), together.shape)
            names = [sample.moments.column_name(int(features[place])) for place in (j, k)]
            raise InputError(
                f"columns {names[0]} and {names[1]} are in one block, but almost never seen in "
                f"the same row ({together.min():.0f} of {len(values)} rows), so that their "
                "covariance cannot be known. Take one of them out of the block."
            )


def start_samples(
    sample: Sample, layout: PatternLayout, n_components: int, context: FitContext
) -> list[Sample]:
    """Rows of the sample without gaps: all with draws for missing values, and the complete ones."""
    values = values_of(sample.all_features, sample.blocks).T[:_MOST_SAMPLED]
    rows = layout.rows(values)
    single = single_component(rows, VARIANCE_FLOOR)
    tables = [drawn_values(rows, values, single, context.rng)]
    gaps = np.hstack([layout.gaps(values, features) for features in layout.wide])
    complete = values[~gaps.any(axis=1)]
    if len(complete) >= _ROWS_PER_PARAMETER * n_components * layout.blocks.n_parameters:
        tables.append(complete)
    found_features = (features_of(table, layout.blocks) for table in tables)
    return [
        Sample(sample.rows, sample.moments, features, features, True, layout.blocks)
        for features in found_features
    ]


def fit_patterns(
    sample: Sample, layout: PatternLayout, candidates: list[Candidate], context: FitContext
) -> StandardFit:
    """EM by pattern from the best of the candidates, standard errors and certificate."""
    rows, moments, n = sample.rows, sample.moments, sample.rows.n_counted
    values = values_of(sample.all_features, sample.blocks).T
    with context.clock.stage("starts by pattern"):
        few, floor = layout.rows(values[:_MOST_SAMPLED]), moments.floors()
        total = single_component(few, floor).matrices[0]
        structure = Structure.of_total(floor, layout.blocks, total)
        raised = [structure.raised(layout.started(c.parameters)) for c in candidates]
        starts, reached = zip(*(_run(few, start, structure) for start in raised), strict=True)
        place = int(np.argmax(reached))
        start = starts[place]
    prior = VariancePrior.of_rows(n, start.n_components, structure)
    features, _ = information_rows(sample, start.n_places, context.rng)
    scored = values_of(features, sample.blocks).T  # standardized rows (n, d)
    information_of = partial(pattern_information, layout, scored)

    def sums_of(p: Parameters) -> Pass:
        sums = partial(pattern_sums, moments=moments, layout=layout, p=p)
        return Pass(*rows.sum_blocks(sums, context.n_threads))

    with context.clock.stage("passes"):
        scoring = information_of if len(scored) >= 8 * start.n_free else None
        done = climb(sums_of, scoring, start, prior, n, context)
    p, r = done.parameters[context.order_of(done.parameters)], start.n_components
    halves = _PatternHalves(sample, context, layout, structure)

    @cache
    def rest() -> Rest:
        with context.clock.stage("standard errors"):
            uncertainty = uncertainty_after_em(
                p, information_of(p), moments.n_effective, together=gaps_together(moments, p),
                prior=prior,
            )  # fmt: skip
        with context.clock.stage("certificate"):
            support, loss, rng = None, 0.0, np.random.default_rng(CERTIFICATE_SEED)
            if r > 1:
                support = _support(few, p, structure, moments.n_counted)
                loss = predicted_loss(p, uncertainty, rng, joint_of=lambda z: layout.rows(z).joint)
            again = halves.compare(p)
            findings = [
                found(NOTE, "untested", reason=NO_TEST),
                *component_findings(moments, p),
                *weight_findings(uncertainty, np.arange(r)),
            ]
            separation = separation_of(p, lambda z: layout.rows(z).joint(p))
            certificate = Certificate(
                UNTESTABLE, loss, findings, r, support, True, again.reproducibility,
                separation, describe(again.unseen, moments, None),
            )  # fmt: skip
        return Rest(uncertainty, certificate)

    notes, winner = ["joined columns with missing cells: EM by missing pattern"], candidates[place]
    return StandardFit(moments, p, rest, notes, winner.name, passes=done, layout=layout)


class _PatternHalves(Halves):
    """Halves of rows whose joined columns have missing cells."""

    def __init__(
        self, sample: Sample, context: FitContext, layout: PatternLayout, structure: Structure
    ) -> None:
        super().__init__(sample, context)
        self.layout, self.structure = layout, structure
        self.values = values_of(self.sample.features, sample.blocks).T

    def features(self, p: Parameters) -> Float:
        """Features of all rows; 0 stands for joined values that are missing."""
        return features_of(self.values, p.blocks)

    def labels(self, p: Parameters) -> Int:
        """Component of each row, by what is seen of it."""
        return np.asarray(most_probable(self.layout.rows(self.values).joint(p)))

    def fitted(self, places: NDArray[np.bool_], p: Parameters, seed: list[int]) -> Parameters:
        """The best of EM by pattern from `p` and from starts of the columns apart."""
        own, r = self.sample, p.n_components
        features = np.ascontiguousarray(own.features[:, places])
        prior = self.context.prior(own.moments, own.blocks, features.shape[1], r)
        fresh = map(self.layout.started, fresh_starts(features, r, prior, seed))
        starts = [p, *map(self.structure.raised, fresh)]
        rows = self.layout.rows(self.values[places])
        return max((_run(rows, q, self.structure) for q in starts), key=lambda run: run[1])[0]


def _run(rows: PatternRows, start: Parameters, structure: Structure) -> tuple[Parameters, float]:
    """A few EM steps on rows in memory, and the objective."""
    prior = VariancePrior.of_rows(rows.features.shape[1], start.n_components, structure)
    return run_patterns(rows, start, prior, _STEPS, _LEAST_GAIN)


def _support(rows: PatternRows, p: Parameters, structure: Structure, n: int) -> Support:
    """Whether BIC rejects one component less."""
    price, n_sampled = 0.5 * p.blocks.n_parameters * log(n) / n, rows.features.shape[1]
    starts = [merged for _, merged in merges_by_bound(p, _MERGES)]
    smaller = [_run(rows, start, structure)[0] for start in starts]
    best = max(rows.sums(q)[1] for q in smaller) / n_sampled
    return support_by_bic(p.n_components, rows.sums(p)[1] / n_sampled - best, price)
