"""Shared by all stages of a fit: the options of the call, random numbers, and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from momentmix._typing import Int
from momentmix.fitting.conditions.monomial_covariance import MomentSpread
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.em.starts import Start
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.progress import finish, tell

# Shares of the stages in the time of a fit, as measured on tables of a thousand to a million rows.
_SHARES = {
    "moments": 3, "checks of rows": 2, "number of components": 60, "diagonal blocks": 8,
    "full blocks": 12, "blocks": 6, "candidates": 12, "passes": 6, "moment fit": 30,
    "standard errors": 3, "support": 2, "halves": 5, "certificate": 8, "log-likelihood": 2,
}  # fmt: skip

_BY_MOMENTS = 30  # share of the choice of the number from moments, most of which has a known rank


def planned_stages(has_rows: bool, is_chosen: bool, joins: bool) -> dict[str, float]:
    """Shares of the stages of a fit whose number of components or blocks may be chosen."""
    left_out = {"moments", "checks of rows", "passes", "standard errors", "halves"}
    left_out |= {"log-likelihood", "candidates", "blocks", "diagonal blocks", "full blocks"}
    if has_rows:
        left_out = {"moment fit", "candidates" if joins else "blocks"}
        left_out |= {"diagonal blocks", "full blocks"} if is_chosen or not joins else set()
    left_out |= set() if is_chosen else {"number of components"}
    shares = _SHARES if has_rows else {**_SHARES, "number of components": _BY_MOMENTS}
    return {stage: share for stage, share in shares.items() if stage not in left_out}


@dataclass(frozen=True)
class Clock:
    """Names and seconds of the stages that are done."""

    progress: Callable[[str], None] | None = None
    stages: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; one that raises is not listed."""
        tell(name)
        if self.progress is not None:
            self.progress(name)
        start = time.perf_counter()
        yield
        finish(name)
        self.stages.append((name, time.perf_counter() - start))


@dataclass(frozen=True)
class FitContext:
    """Options of one call of `fit`, and what its stages share.

    All random numbers come from `rng`, stage after stage. `checked` has an excerpt of the rows;
    None without rows. `start` is in standardized features once the moments are known. A fit that
    `defers` leaves standard errors and certificate for later.
    """

    rng: np.random.Generator
    max_passes: int = 100
    n_threads: int = 1
    clock: Clock = field(default_factory=Clock)
    checked: Any = None  # of a stage above: inference.checked_rows.CheckedRows
    thorough: bool = False
    start: Start | None = None
    max_components: int = 20  # where the number is chosen
    background: bool | Literal["auto"] = False
    far: Any = None  # inference.outliers.Outliers that a fit before this one has found
    defers: bool = False

    def prior(
        self, moments: StandardMoments, blocks: Blocks | None, n_rows: int, n_components: int
    ) -> VariancePrior:
        """Prior of the variances of so many components, from so many rows."""
        return VariancePrior.of_rows(n_rows, n_components, moments.structure(blocks))

    def order_of(self, parameters: Parameters) -> Int:
        """Numbers of the components in the order of the result, of shape (r,)."""
        if self.start is not None:
            return self.start.order_of(parameters)
        return np.argsort(-parameters.weights / parameters.weights.sum(), kind="stable")

    def noise(self, moments: StandardMoments) -> MomentSpread | None:
        """Covariance of the moments of weighted rows; None where it follows from the model."""
        return None if self.checked is None else self.checked.noise(moments)
