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


@dataclass(frozen=True)
class TrialsLaw(CountLaw):
    """Trials up to the first success, from 1 on: log p(y) = (y − 1) log q + log(1 − q)."""

    noun: ClassVar[str] = "a number of trials"
    least: ClassVar[int] = 1

    def log_mass(self, counts, rates):
        return (counts - 1.0) * np.log1p(-1.0 / rates) - np.log(rates)

    def variance_of(self, rates):
        return rates * (rates - 1.0)


@dataclass(frozen=True, eq=False)
class TrialsBlock(CountBlock):
    family: ClassVar[str] = "trials"


class Trials(CountFamily):
    name = "trials"
    noun = "trials"
    law_type = TrialsLaw
    block_type = TrialsBlock
