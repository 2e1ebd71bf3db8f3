"""What every stage of a fit may use: the options of the call, random numbers, and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.rows_checked import CheckedRows
from momentmix.fitting.inference.weighted_noise import MomentSpread


@dataclass(frozen=True)
class Clock:
    """Names and seconds of the stages that are done; `progress` is told each name at its start."""

    progress: Callable[[str], None] | None = None
    stages: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; one that raises is not listed."""
        if self.progress is not None:
            self.progress(name)
        start = time.perf_counter()
        yield
        self.stages.append((name, time.perf_counter() - start))


@dataclass(frozen=True)
class FitContext:
    """Options of one call of `fit`.

    Parameters
    ----------
    variance_floor : float
        Least variance of a standardized feature.
    max_passes, n_threads : int
    rng : numpy Generator
        All random numbers of the call come from it, stage after stage.
    clock : Clock
    checked : CheckedRows or None
        An excerpt of the rows, and those left out; None where the fit has no rows.
    """

    variance_floor: float
    max_passes: int
    n_threads: int
    rng: np.random.Generator
    clock: Clock
    checked: CheckedRows | None = None

    def noise(self, moments: StandardMoments) -> MomentSpread | None:
        """How the moments of weighted rows vary; None where the model knows it."""
        return None if self.checked is None else self.checked.noise(moments)
