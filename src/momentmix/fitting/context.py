"""Shared by all stages of a fit: the options of the call, random numbers, and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from momentmix._typing import Int
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.progress import tell


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
        self.stages.append((name, time.perf_counter() - start))


@dataclass(frozen=True)
class FitContext:
    """Options of one call of `fit`, and what its stages share.

    All random numbers come from `rng`, stage after stage. `checked` has an excerpt of the rows;
    None without rows. `start` is a `Start` in standardized features once the moments are known.
    """

    rng: np.random.Generator
    max_passes: int = 100
    n_threads: int = 1
    clock: Clock = field(default_factory=Clock)
    checked: Any = None  # of a stage above: inference.checked_rows.CheckedRows
    start: Any = None  # as it was given, then a Start
    max_components: int = 20  # where the number is chosen
    background: bool | Literal["auto"] = False

    def prior(
        self, moments: StandardMoments, blocks: Blocks | None, n_rows: int, n_components: int
    ) -> VariancePrior:
        """Prior of the variances of so many components, from so many rows."""
        return VariancePrior.of_rows(n_rows, n_components, moments.structure(blocks))

    def order_of(self, parameters: Parameters) -> Int:
        """Numbers of the components in the order of the result, of shape (r,)."""
        if self.start is not None:
            order: Int = self.start.order_of(parameters)
            return order
        return np.argsort(-parameters.weights / parameters.weights.sum(), kind="stable")
