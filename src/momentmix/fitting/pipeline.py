"""From rows or moments to a fitted mixture: the order of the steps.

| paper symbol | name here |
|---|---|
| y_1 … y_N | ``data``, ``rows`` |
| r, m | ``n_components``, ``order`` |
| {(ω_i, μ_i, Σ_i)} | ``FitResult.mixture`` |

rows or moments → order → moment answer → (candidates from rows → passes over rows) → certificate

Differs from the paper: method="robust" throughout; method="paper" is Algorithm 5.1 as printed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from momentmix.capacity import check_count, robust_rank
from momentmix.core.mixture import DiagonalMixture
from momentmix.core.row_blocks import ArrayRows, RowBlocks
from momentmix.core.standard_moments import StandardMoments
from momentmix.errors import CapacityError, InputError
from momentmix.fitting.automatic import choose_by_bic, choose_from_moments, choose_order
from momentmix.fitting.certificate import Certificate
from momentmix.fitting.conditions import Parameters, build_conditions
from momentmix.fitting.findings import collect_findings
from momentmix.fitting.inputs import moments_of, rows_of, summarised
from momentmix.fitting.moment_fit import (
    MomentFit,
    fit_moments,
    one_component,
    resolvable_variances,
)
from momentmix.fitting.over_identification import OverIdentification, check_conditions
from momentmix.fitting.precision import predicted_loss
from momentmix.fitting.printed import fit_as_printed
from momentmix.fitting.refine import (
    Candidate,
    best_candidate,
    draw_sample,
    full_passes,
    information_rows,
)
from momentmix.fitting.result import FitResult
from momentmix.fitting.scores import information_matrix
from momentmix.fitting.standard_errors import Uncertainty, after_em, of_moment_fit

Float = NDArray[np.float64]
Auto = Literal["auto"]

__all__ = ["fit"]

MOST_COMPONENTS = 12  # cap of n_components="auto"
ROWS_PER_PARAMETER = 5  # with fewer, moments are too noisy to be worth a candidate beside EM starts


def fit(
    data: Any,
    n_components: int | Auto,
    order: int | Auto = "auto",
    method: Literal["robust", "paper"] = "robust",
    refine: Literal["auto", "em"] | None = "auto",
    random_state: int | np.random.Generator | None = None,
    *,
    variance_floor: float = 1e-6,
    max_passes: int = 100,
    n_threads: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> FitResult:
    """Fit a mixture of diagonal Gaussians.

    Parameters
    ----------
    data : array of shape (n_rows, n_features), MomentSummary or StandardMoments
        Rows, or a summary of them.
    n_components : int or "auto"
        "auto" takes the smallest number that the certificate accepts.
    order : int or "auto"
        Highest order of the moments.
    method : {"robust", "paper"}
        "paper" is Algorithm 5.1 as printed.
    refine : {"auto", "em"} or None
        "auto": EM passes when rows are at hand and the method is "robust". None: the pure moment
        answer. "em" with a summary is an error.
    random_state : int, Generator or None
        The same seed gives the same bits.
    variance_floor : float
        Least variance of a component, as a fraction of the feature's variance.
    max_passes : int
        Passes over all rows at most.
    n_threads : int, optional
        Threads for passes over rows; all cores by default. The answer does not depend on it.
    progress : callable, optional
        Called with the name of each stage as it begins.

    Returns
    -------
    FitResult

    Examples
    --------
    >>> import numpy as np
    >>> truth = DiagonalMixture([0.4, 0.6], [[-2.0] * 5, [2.0] * 5], np.ones((2, 5)))
    >>> rows, labels = truth.sample(2000, random_state=0)
    >>> result = fit(rows, 2, random_state=0)
    >>> result.mixture.weights.round(1).tolist() in ([0.4, 0.6], [0.6, 0.4])
    True
    """
    _check_choices(method, refine)
    if not 0 < variance_floor < 1:
        raise InputError(f"variance_floor must lie between 0 and 1; got {variance_floor}.")
    if method == "paper":
        return fit_as_printed(data, n_components, order, refine, random_state, variance_floor)
    moments = moments_of(data)
    if moments is not None and refine == "em":
        raise InputError(
            'refine="em" needs the rows, and a summary holds none. Pass the rows, or use '
            'refine="auto" (no passes for a summary).'
        )
    rows = None if moments is not None else rows_of(data)
    run = _Run(
        rows, moments, order, refine is not None, np.random.default_rng(random_state),
        variance_floor, check_count("max_passes", max_passes, 1),
        n_threads or os.cpu_count() or 1, progress,
    )  # fmt: skip
    # Many small products: more than one BLAS thread each makes them slower.
    with threadpool_limits(1, "blas"):
        if n_components == "auto":
            return run.fit_automatic()
        return run.fit(check_count("n_components", n_components, 1))


def _check_choices(method: str, refine: str | None) -> None:
    if method not in ("robust", "paper"):
        raise InputError(f'method must be "robust" or "paper"; got {method!r}.')
    if refine not in ("auto", "em", None):
        raise InputError(f'refine must be "auto", "em" or None; got {refine!r}.')


@dataclass
class _Run:
    """One call of `fit`: what is known, and the clock."""

    rows: Float | None
    given: StandardMoments | None
    order: int | Auto
    refine: bool
    rng: np.random.Generator
    floor: float
    max_passes: int
    n_threads: int
    progress: Callable[[str], None] | None
    stages: list[tuple[str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        if self.progress is not None:
            self.progress(name)
        start = time.perf_counter()
        result = work()
        self.stages.append((name, time.perf_counter() - start))
        return result

    @property
    def n_features(self) -> int:
        if self.given is not None:
            return self.given.n_features
        assert self.rows is not None
        return int(self.rows.shape[1])

    def moments_for(self, n_components: int) -> StandardMoments:
        """Moments up to the order that was asked or that `n_components` needs."""
        available = None if self.given is None else self.given.order
        order = self.order
        if order == "auto":
            order = choose_order(self.n_features, n_components, available)
        else:
            order = check_count("order", order, min(3, self.n_features))
            if order > self.n_features:
                raise InputError(
                    f"order={order} needs that many features; there are {self.n_features}. Use "
                    f'order="auto" or at most {self.n_features}.'
                )
        if self.given is not None:
            return self.given.truncated(order)
        rows = self.rows
        assert rows is not None
        found: StandardMoments = self.timed(
            "moments", lambda: summarised(rows, order, self.n_threads)
        )
        return found

    # -- a given number of components ---------------------------------------------------------

    def fit(self, n_components: int) -> FitResult:
        n_rows = self.given.n_rows if self.given is not None else self.rows.shape[0]  # type: ignore[union-attr]
        if n_rows < n_components:
            raise InputError(
                f"n_components={n_components} needs at least that many rows; got {n_rows}. Ask "
                "for fewer components."
            )
        moments = self.moments_for(n_components)
        if self.rows is None or not self.refine:
            return self.fit_without_rows(moments, n_components)
        return self.fit_with_rows(moments, n_components)

    def fit_without_rows(self, moments: StandardMoments, r: int) -> FitResult:
        self.check_capacity(moments, r)
        result = self.moment_result(moments, r)
        held = self.given.order if self.given is not None else moments.order
        while self.order == "auto" and not result.certificate.passed and moments.order < held:
            moments = self.given.truncated(moments.order + 1)  # type: ignore[union-attr]
            self.notes.append(f"order raised to {moments.order}: the certificate did not pass")
            again = self.moment_result(moments, r)
            if again.certificate.passed or again.certificate.p_value > result.certificate.p_value:
                result = again
        return result

    def moment_result(self, moments: StandardMoments, r: int) -> FitResult:
        answer = self.timed("moment fit", lambda: self.moment_answer(moments, r, strict=True))
        uncertainty = self.timed(
            "standard errors",
            lambda: of_moment_fit(
                answer.conditions, answer.raw, answer.noise, moments.n_effective, self.rng
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
        most = robust_rank(moments.n_features, moments.order)
        if r <= most:
            return
        d = moments.n_features
        enough = [m for m in range(3, d + 1) if robust_rank(d, m) >= r]
        cure = (
            f"Use order={enough[0]} (up to {robust_rank(d, enough[0])}), or at" if enough else "At"
        )
        raise CapacityError(
            f"order={moments.order} with {d} features identifies at most {most} component"
            f"{'s' if most > 1 else ''} from moments alone; n_components={r} was asked. "
            f'{cure} most {most}; with the rows at hand, refine="auto" fits any number.'
        )

    # -- with rows ----------------------------------------------------------------------------

    def fit_with_rows(self, moments: StandardMoments, r: int) -> FitResult:
        assert self.rows is not None
        rows: RowBlocks = ArrayRows(self.rows)
        floor = np.full(moments.n_features, self.floor)
        if r == 1:
            start, candidates = one_component(moments, self.floor), []
            sample = draw_sample(rows, moments, self.rng)
            winner = "closed form"
        else:
            known = None
            n_parameters = r * (2 * moments.n_features + 1)
            enough = moments.n_rows >= ROWS_PER_PARAMETER * n_parameters
            if enough and r <= robust_rank(moments.n_features, moments.order):
                known = self.timed(
                    "moment fit", lambda: self.moment_answer(moments, r, strict=False)
                )
            sample = draw_sample(rows, moments, self.rng)
            found: list[Candidate] = self.timed(
                "candidates",
                lambda: best_candidate(
                    sample, None if known is None else known.parameters, r, floor, self.rng
                ),
            )
            start, winner = found[0].parameters, found[0].name
            shift = float(np.log(moments.scale).sum())
            candidates = [(c.name, c.score - shift) for c in found]
        bare = winner.endswith("before EM")
        done = self.timed(
            "passes",
            lambda: full_passes(
                rows, moments, start, sample, floor, self.max_passes, self.n_threads, bare
            ),
        )
        p = done.parameters
        features = information_rows(rows, moments, sample, p.flat().size, self.rng)
        uncertainty = self.timed(
            "standard errors",
            lambda: after_em(p, information_matrix(features, p), moments.n_effective),
        )
        certificate = self.certify(moments, p, uncertainty, lambda q: q, from_rows=True)
        if not done.converged:
            self.notes.append(f"stopped after max_passes={self.max_passes} passes, not converged")
        value = done.log_likelihood - float(np.log(moments.scale).sum())
        return self.result(
            moments, p, certificate, uncertainty, "em", winner, candidates, 1 + done.n_passes,
            done.converged, value,
        )  # fmt: skip

    # -- both ---------------------------------------------------------------------------------

    def certify(
        self,
        moments: StandardMoments,
        p: Parameters,
        uncertainty: Uncertainty,
        finish: Callable[[Parameters], Parameters],
        from_rows: bool = False,
    ) -> Certificate:
        def work() -> Certificate:
            test = check_conditions(moments, p, self.rng)
            loss = 0.0
            if p.n_components > 1:
                loss = predicted_loss(p, uncertainty, self.rng, finish)
            capacity = robust_rank(moments.n_features, moments.order)
            findings = collect_findings(moments, p, test, capacity, self.floor, from_rows)
            return Certificate(test, loss, findings, p.n_components)

        return self.timed("certificate", work)  # type: ignore[no-any-return]

    def result(
        self, moments: StandardMoments, p: Parameters, certificate: Certificate,
        uncertainty: Uncertainty, refine: str, winner: str, candidates: list[tuple[str, float]],
        n_passes: int, converged: bool, value: float | None,
    ) -> FitResult:  # fmt: skip
        weights = p.weights / p.weights.sum()
        order = np.argsort(-weights, kind="stable")  # heaviest first: a stable way to name them
        mixture = DiagonalMixture(weights[order], p.means[order], p.variances[order])
        return FitResult(
            moments.restore(mixture), certificate, moments.n_rows, moments.order, "robust", refine,
            winner, candidates, n_passes, converged, value, list(self.stages),
            uncertainty.reordered(order), moments, list(self.notes),
        )  # fmt: skip

    # -- n_components="auto" ------------------------------------------------------------------

    def fit_automatic(self) -> FitResult:
        """Smallest number of components that the moments accept; else BIC, or an elbow."""
        moments = self.given if self.given is not None else self.moments_for(8)
        if self.given is not None and self.order != "auto":
            moments = self.moments_for(2)
        most = min(MOST_COMPONENTS, robust_rank(moments.n_features, moments.order))
        affordable = moments.n_rows // (ROWS_PER_PARAMETER * (2 * moments.n_features + 1))
        most = max(1, min(most, affordable))

        def effect(r: int) -> OverIdentification:
            answer = self.moment_answer(moments, r, strict=True)
            return check_conditions(moments, answer.parameters, self.rng, bootstrap=False)

        accepted, chosen, note = self.timed(
            "number of components", lambda: choose_from_moments(moments, most, effect, self.rng)
        )
        if not accepted and self.rows is not None and self.refine:
            rows: RowBlocks = ArrayRows(self.rows)
            chosen, note = self.timed(
                "number by BIC",
                lambda: choose_by_bic(rows, moments, MOST_COMPONENTS, self.floor, self.rng),
            )
        self.notes.append(note)
        if self.rows is None or not self.refine:
            return self.fit_without_rows(moments, chosen)
        return self.fit_with_rows(moments, chosen)
