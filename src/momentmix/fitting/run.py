"""One call of `fit` by the robust method: the stages, their clock, and what is known so far.

| paper symbol | name here |
|---|---|
| r, m | ``n_components``, ``order`` |
| {(ω_i, μ_i, Σ_i)} | ``Parameters`` of standardised features, until `Run.result` |

Differs from the paper: see the stages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from momentmix.capacity import check_order, choose_order, robust_rank, usable_orders
from momentmix.errors import CapacityError, DecompositionError, InputError
from momentmix.fitting.automatic import choose_by_bic, choose_from_moments
from momentmix.fitting.conditions.conditions import Parameters, build_conditions
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.em.passes import full_passes
from momentmix.fitting.em.sample import Sample, draw_sample, information_rows
from momentmix.fitting.em.scores import information_matrix, settle_floored
from momentmix.fitting.em.search import Candidate, Kind, Origin, ranked_candidates
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.findings import collect_findings, find_constants
from momentmix.fitting.inference.over_identification import OverIdentification, check_conditions
from momentmix.fitting.inference.precision import predicted_loss
from momentmix.fitting.inference.standard_errors import Uncertainty, after_em, of_moment_fit
from momentmix.fitting.inputs import summarised
from momentmix.fitting.moment.moment_fit import (
    MomentFit,
    fit_moments,
    one_component,
    resolvable_variances,
)
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import DiagonalMixture
from momentmix.rows.protocol import Rows

Float = NDArray[np.float64]
Auto = Literal["auto"]

__all__ = ["Run"]

MOST_COMPONENTS = 12  # cap of n_components="auto"
ROWS_PER_PARAMETER = 5  # with fewer, moments are too noisy to be worth a candidate beside EM starts


def capacity(moments: StandardMoments) -> int:
    """Most components that these moments tell apart."""
    return robust_rank(moments.n_features, moments.order)


@dataclass
class Run:
    """One call of `fit`: what is known, and the clock.

    Constant columns take no part: the moments of all columns are `whole`, every step works with
    `varying`, those of the features that vary, and `result` puts the constants back.
    """

    rows: Rows | None
    given: StandardMoments | None
    order: int | Auto
    refine: bool
    rng: np.random.Generator
    floor: float
    max_passes: int
    n_threads: int
    progress: Callable[[str], None] | None
    whole: StandardMoments = field(init=False)
    varying: StandardMoments = field(init=False)
    stages: list[tuple[str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        """Result of `work`, its time noted under `name`."""
        if self.progress is not None:
            self.progress(name)
        start = time.perf_counter()
        result = work()
        self.stages.append((name, time.perf_counter() - start))
        return result

    @property
    def n_features(self) -> int:
        """Number of features d."""
        if self.given is not None:
            return self.given.n_features
        assert self.rows is not None
        return self.rows.n_features

    def moments_for(self, n_components: int | Auto) -> StandardMoments:
        """Moments of the features that vary, up to the order asked for or chosen."""
        self.whole = self.moments_of_all(n_components)
        self.varying = self.whole.varying()
        if self.order != "auto" or n_components == "auto":
            return self.varying
        available = self.varying.order
        order = choose_order(self.varying.n_features, n_components, available)
        return self.varying.truncated(order)

    def moments_of_all(self, n_components: int | Auto) -> StandardMoments:
        """Moments of all columns: those given, or from a pass over the rows."""
        order = None if self.order == "auto" else check_order(self.order, self.n_features)
        if self.given is not None:
            return self.given if order is None else self.given.truncated(order)
        rows, chosen = self.rows, order or choose_order(self.n_features, n_components)
        found: StandardMoments = self.timed(
            "moments", lambda: summarised(rows, chosen, self.n_threads)
        )
        return found

    # -- a given number of components ---------------------------------------------------------

    def fit(self, n_components: int) -> FitResult:
        """Fit a given number of components."""
        moments = self.moments_for(n_components)
        if moments.n_rows < n_components:
            raise InputError(
                f"n_components={n_components} needs at least that many rows; got "
                f"{moments.n_rows}. Ask for fewer components."
            )
        if self.rows is None or not self.refine:
            return self.fit_without_rows(moments, n_components)
        return self.fit_with_rows(moments, n_components)

    def fit_without_rows(self, moments: StandardMoments, r: int) -> FitResult:
        """The pure moment answer; the order is raised while the certificate asks for it."""
        self.check_capacity(moments, r)
        result = self.moment_result(moments, r)
        while not result.certificate.passed and moments.order < self.varying.order:
            moments = self.varying.truncated(moments.order + 1)
            self.notes.append(f"order raised to {moments.order}: the certificate did not pass")
            again = self.moment_result(moments, r)
            if again.certificate.passed or again.certificate.p_value > result.certificate.p_value:
                result = again
        return result

    def moment_result(self, moments: StandardMoments, r: int) -> FitResult:
        """Moment answer, standard errors and certificate at one order."""
        answer = self.timed("moment fit", lambda: self.moment_answer(moments, r, strict=True))
        uncertainty = self.timed(
            "standard errors",
            lambda: of_moment_fit(
                answer.conditions,
                answer.raw,
                answer.noise,
                moments.n_effective,
                self.rng,
                self.n_threads,
            ),
        )

        def finish(p: Parameters) -> Parameters:
            return resolvable_variances(p, answer.deviations, self.floor)

        certificate = self.certify(moments, answer.parameters, uncertainty, finish)
        return self.result(
            moments, answer.parameters, certificate, uncertainty, "none", "moments", [], 1, True,
            None,
        )  # fmt: skip

    def moment_answer(self, moments: StandardMoments, r: int, strict: bool) -> MomentFit:
        """Parameters from moments; `strict` where they are the answer and not a start."""
        if r == 1:
            p = one_component(moments, self.floor)
            conditions = build_conditions(moments, 1, 0)
            noise = np.sqrt(conditions.row_variances(p) / moments.n_effective)
            noise[0] = 1e-3 / np.sqrt(moments.n_effective)
            tiny = Parameters(
                np.zeros(1), np.full_like(p.means, 1e-12), np.full_like(p.means, 1e-12)
            )
            return MomentFit(p, p, tiny, 0.0, 1, conditions, noise)
        steps, rounds = ((10, 6), 3) if strict else ((6, 4), 2)
        return fit_moments(moments, r, self.rng, self.floor, rounds, strict, steps)

    def check_capacity(self, moments: StandardMoments, r: int) -> None:
        """Raise where moments of this order cannot tell r components apart."""
        most, d = capacity(moments), moments.n_features
        if r <= most:
            return
        enough = next((m for m in usable_orders(d, d) if robust_rank(d, m) >= r), None)
        cure = "At"
        if enough is not None:
            cure = f"Use order={enough} (up to {robust_rank(d, enough)}), or at"
        kind = "features" if d == self.n_features else "features that vary"
        raise CapacityError(
            f"order={moments.order} with {d} {kind} identifies at most {most} component"
            f"{'s' if most > 1 else ''} from moments alone; n_components={r} was asked. "
            f'{cure} most {most}; with the rows at hand, refine="auto" fits any number.'
        )

    # -- with rows ----------------------------------------------------------------------------

    def fit_with_rows(self, moments: StandardMoments, r: int) -> FitResult:
        """Candidates, passes over the rows, standard errors and certificate."""
        rows = self.rows
        assert rows is not None
        floor = np.full(moments.n_features, self.floor)
        sample = draw_sample(rows, moments, self.rng)
        if r == 1:
            found = [Candidate(Origin(Kind.CLOSED_FORM), one_component(moments, self.floor), 0.0)]
        else:
            found = self.candidates(moments, sample, r, floor)
        start, winner = found[0].parameters, found[0].name
        bare = found[0].origin.is_before_em
        done = self.timed(
            "passes",
            lambda: full_passes(
                rows, moments, start, sample, floor, self.max_passes, self.n_threads, bare
            ),
        )
        p = done.parameters
        features = information_rows(rows, moments, sample, p.flat().size, self.rng)

        def standard_errors() -> Uncertainty:
            information = information_matrix(features, p, self.n_threads)
            settle_floored(information, p, self.floor)
            return after_em(p, information, moments.n_effective)

        uncertainty = self.timed("standard errors", standard_errors)
        certificate = self.certify(moments, p, uncertainty, lambda q: q, from_rows=True)
        if not done.converged:
            self.notes.append(f"stopped after max_passes={self.max_passes} passes, not converged")
        # Densities of raw rows, not of standardised ones, and of all columns.
        units = float(np.log(self.whole.scale).sum())
        units += 0.5 * float(np.log(2 * np.pi * self.floor)) * int(self.whole.constant.sum())
        candidates = [(c.name, c.score - units) for c in found] if r > 1 else []
        value = done.log_likelihood - units
        return self.result(
            moments, p, certificate, uncertainty, "em", winner, candidates, 1 + done.n_passes,
            done.converged, value,
        )  # fmt: skip

    def candidates(
        self, moments: StandardMoments, sample: Sample, r: int, floor: Float
    ) -> list[Candidate]:
        """Starts for the passes, best first; the moment answer among them where it can be had."""
        known: Parameters | None = None
        enough = moments.n_rows >= ROWS_PER_PARAMETER * r * (2 * moments.n_features + 1)
        if enough and r <= capacity(moments):
            with suppress(DecompositionError):  # the other candidates remain
                known = self.timed(
                    "moment fit", lambda: self.moment_answer(moments, r, strict=False).parameters
                )
        found: list[Candidate] = self.timed(
            "candidates",
            lambda: ranked_candidates(sample, known, r, floor, self.rng, self.n_threads),
        )
        return found

    # -- both ---------------------------------------------------------------------------------

    def certify(
        self,
        moments: StandardMoments,
        p: Parameters,
        uncertainty: Uncertainty,
        finish: Callable[[Parameters], Parameters],
        from_rows: bool = False,
    ) -> Certificate:
        """Test, predicted loss and findings about parameters of standardised features."""

        def work() -> Certificate:
            test = check_conditions(moments, p, self.rng)
            loss = 0.0
            if p.n_components > 1:
                loss = predicted_loss(p, uncertainty, self.rng, finish)
            most = capacity(moments)
            findings = collect_findings(moments, p, test, most, self.floor, from_rows)
            findings += find_constants(self.whole)
            return Certificate(test, loss, findings, p.n_components)

        return self.timed("certificate", work)  # type: ignore[no-any-return]

    def result(
        self, moments: StandardMoments, p: Parameters, certificate: Certificate,
        uncertainty: Uncertainty, refine: str, winner: str, candidates: list[tuple[str, float]],
        n_passes: int, converged: bool, value: float | None,
    ) -> FitResult:  # fmt: skip
        """Everything in the units of the data, all columns, heaviest component first."""
        whole = self.whole.truncated(moments.order)
        place = (moments.columns, whole.n_features, self.floor)
        p, uncertainty = p.embedded(*place), uncertainty.embedded(*place)
        weights = p.weights / p.weights.sum()
        order = np.argsort(-weights, kind="stable")
        mixture = DiagonalMixture(weights[order], p.means[order], p.variances[order])
        return FitResult(
            whole.restore(mixture), certificate, whole.n_rows, moments.order, "robust", refine,
            winner, candidates, n_passes, converged, value, list(self.stages),
            uncertainty.reordered(order), whole, list(self.notes),
        )  # fmt: skip

    # -- n_components="auto" ------------------------------------------------------------------

    def fit_automatic(self) -> FitResult:
        """Smallest number of components that the moments accept; else BIC, or an elbow."""
        moments = self.moments_for("auto")
        most = min(MOST_COMPONENTS, capacity(moments))
        affordable = moments.n_rows // (ROWS_PER_PARAMETER * (2 * moments.n_features + 1))
        most = max(1, min(most, affordable))

        def effect(r: int) -> OverIdentification:
            answer = self.moment_answer(moments, r, strict=True)
            return check_conditions(moments, answer.parameters, self.rng, bootstrap=False)

        accepted, chosen, note = self.timed(
            "number of components", lambda: choose_from_moments(moments, most, effect, self.rng)
        )
        rows = self.rows
        if not accepted and rows is not None and self.refine:
            chosen, note = self.timed(
                "number by BIC",
                lambda: choose_by_bic(rows, moments, MOST_COMPONENTS, self.floor, self.rng),
            )
        self.notes.append(note)
        if self.rows is None or not self.refine:
            return self.fit_without_rows(moments, chosen)
        return self.fit_with_rows(moments, chosen)
