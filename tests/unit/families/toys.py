"""Two families that the library does not have, as a user would add them: a class or two each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from momentmix.families.count import CountBlock, CountFamily, CountLaw


@dataclass(frozen=True)
class GeometricLaw(CountLaw):
    """Failures before the first success: log p(y) = y log(λ / (1 + λ)) − log(1 + λ)."""

    noun: ClassVar[str] = "a geometric count"

    def log_mass(self, counts, rates):
        return counts * (np.log(rates) - np.log1p(rates)) - np.log1p(rates)

    def variance_of(self, rates):
        return rates * (1.0 + rates)


@dataclass(frozen=True, eq=False)
class GeometricBlock(CountBlock):
    family: ClassVar[str] = "geometric"


class Geometric(CountFamily):
    name = "geometric"
    law_type = GeometricLaw
    block_type = GeometricBlock


N_PLACES = 12


LOGS = np.log1p(np.arange(N_PLACES, dtype=float))


def _mean_of(powers):
    """Means of p(y) ∝ (1 + y)^−a, and their derivatives by a."""
    logits = -powers[..., None] * LOGS
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    means = p @ np.arange(N_PLACES)
    return means, means * (p @ LOGS) - p @ (LOGS * np.arange(N_PLACES))


GRID = np.sinh(np.linspace(-6.0, 6.0, 4001))  # exponents: dense about 0
GRID_MEANS = _mean_of(GRID)[0]


def powers_of(rates):
    """The exponents that have these means: from a table, and by Newton's steps."""
    powers = np.interp(-np.asarray(rates), -GRID_MEANS, GRID)
    for _ in range(2):
        means, slopes = _mean_of(powers)
        powers = powers + (rates - means) / np.minimum(slopes, -1e-12)
    return powers


@dataclass(frozen=True)
class ZipfLaw(CountLaw):
    """Ranks 0 … 11: log p(y) = −a log(1 + y) + c is not linear in y, so a histogram is needed."""

    noun: ClassVar[str] = "a rank by Zipf's law"
    n_cells: ClassVar[int] = N_PLACES

    def log_mass(self, counts, rates):
        powers = powers_of(rates)
        logits = -powers[..., None] * LOGS
        top = logits.max(axis=-1)
        total = top + np.log(np.exp(logits - top[..., None]).sum(axis=-1))
        return -powers * np.log1p(counts) - total

    def variance_of(self, rates):
        cells = np.arange(N_PLACES, dtype=float)
        rates = np.asarray(rates)[..., None]
        return (np.exp(self.log_mass(cells, rates)) * (cells - rates) ** 2).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class ZipfBlock(CountBlock):
    family: ClassVar[str] = "zipf"


class Zipf(CountFamily):
    name = "zipf"
    noun = "ranks"
    requirement = "ranks must be integers from 0 to 11"
    law_type = ZipfLaw
    block_type = ZipfBlock
