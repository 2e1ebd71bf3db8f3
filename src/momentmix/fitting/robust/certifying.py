"""The last stage of an answer: over-identification test, predicted loss, findings → certificate."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

import numpy as np

from momentmix.capacity import robust_rank
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.findings import LEAST_ROWS_PER_PARAMETER, collect_findings
from momentmix.fitting.inference.of_rows.row_findings import row_findings
from momentmix.fitting.inference.over_identification import (
    BOOTSTRAP_BELOW,
    UNTESTABLE,
    OverIdentification,
    check_conditions,
)
from momentmix.fitting.inference.precision import predicted_loss
from momentmix.fitting.inference.standard_errors import Uncertainty
from momentmix.fitting.inference.support import Support
from momentmix.mixture.parameters import Parameters
from momentmix.parallel import begin


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
