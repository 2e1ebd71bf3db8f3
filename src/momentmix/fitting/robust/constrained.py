"""Fits whose components share covariances ("tied") or have one variance each ("spherical").

The M-step of `VariancePrior` obeys the constraint, so that search and passes are those of every
fit. Here is what the constraint means besides: what it goes with, which parameters are free, and
whether the rows speak against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from typing import Any, get_args

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.findings.finding import FATAL, Finding, found
from momentmix.findings.messages import NEED_ROWS, Message, options
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import Table
from momentmix.fitting.em.em import log_likelihood, run_batch
from momentmix.fitting.em.sample import Sample
from momentmix.mixture.parameters import Parameters, component_places
from momentmix.mixture.prior import Constraint, Structure, VariancePrior

_STEPS = 20  # of EM without the constraint: what it gains shows in the first few


def check_constraint(
    constraint: Any, table: Table, n_components: Any, blocks: Any, refine: str | None
) -> None:
    """Raise where the constraint does not go with the data or the other options."""
    if constraint not in get_args(Constraint):
        raise InputError(f'constraint must be "tied" or "spherical"; got {constraint!r}.')
    if isinstance(table.data, StandardMoments) or refine is None:
        text = (
            f"{constraint} covariances are fitted by passes over the rows; there are none from a "
            "summary, and with "
        )
        cure = Message(". Use diagonal covariances, or ", NEED_ROWS, ".")
        raise InputError(Message(text, options(refine=None), cure))
    if table.schema is not None:
        text = (
            f"{constraint} covariances are for numbers without missing cells; these columns have "
            "families or missing cells. Leave the constraint out, or the rows with such cells: "
        )
        raise InputError(Message(text, options(missing="drop"), "."))
    if n_components == "auto":
        raise InputError(
            f'n_components="auto" does not go with {constraint} covariances. Give a number, and '
            "compare those of several fits by BIC."
        )
    if isinstance(blocks, str) or (constraint == "spherical" and blocks is not None):
        raise InputError(
            f"{constraint} covariances do not go with blocks={blocks!r}. Give the blocks of tied "
            "covariances as lists, and none for spherical ones."
        )


def check_varying(constraint: Constraint, all_columns: StandardMoments) -> None:
    """Raise where a column is constant, and one variance is to hold for all columns."""
    if constraint == "spherical" and all_columns.constant.any():
        name = all_columns.column_name(int(np.flatnonzero(all_columns.constant)[0]))
        raise InputError(
            f"column {name} is constant, so that one variance cannot hold for all columns. Leave "
            "the column out, or use diagonal covariances."
        )


def free_parameters(p: Parameters, structure: Structure) -> Float | None:
    """Which of log ω, μ and relative changes of Σ move together; (n_parameters, n_free).

    Covariances that are equal change alike, whatever their units.
    """
    if structure.constraint is None:
        return None
    d = p.blocks.n_features
    places = component_places(p)
    group = np.arange(places.size)
    spread = places[:, 1 + d :]
    group[spread] = spread[:1] if structure.constraint == "tied" else spread[:, :1]
    return np.asarray(group[:, None] == np.unique(group), dtype=np.float64)


def constraint_findings(
    sample: Sample, moments: StandardMoments, p: Parameters, context: FitContext
) -> Iterator[Finding]:
    """Whether BIC rejects the constraint: EM without it gains more than its parameters cost."""
    structure = context.structure(moments, p.blocks)
    bare = moments.structure(context.variance_floor, p.blocks)
    free = VariancePrior.of_rows(sample.features.shape[1], p.n_components, bare)
    released = run_batch(sample.features, p[None], free, _STEPS, context.n_threads)[0][0]
    gain = log_likelihood(sample.judges, released) - log_likelihood(sample.judges, p)
    matrix = free_parameters(p, structure)
    assert matrix is not None
    n, n_released = moments.n_counted, p.n_places - matrix.shape[1]
    price = 0.5 * n_released * log(n) / n
    if n_released and gain > price:
        yield found(
            FATAL,
            "constraint",
            remedy={"covariance_type": "full" if p.blocks.joined else "diag"},
            constraint=structure.constraint,
            gain=float(gain),
            price=price,
        )
