"""Families that the library does not have, as a user would add them: a class each."""

from __future__ import annotations

import numpy as np

from momentmix.families.counts import CountFamily
from momentmix.families.gaussian import Transformed


class Geometric(CountFamily):
    """Failures before the first success: log p(y) = y log(λ / (1 + λ)) − log(1 + λ)."""

    name = "geometric"
    singular = "a geometric count"

    def log_mass(self, counts, rates):
        return counts * (np.log(rates) - np.log1p(rates)) - np.log1p(rates)

    def variance_of(self, rates):
        return rates * (1.0 + rates)


class Trials(CountFamily):
    """Trials up to the first success, from 1 on: log p(y) = (y − 1) log q + log(1 − q)."""

    name = "trials"
    noun = "trials"
    singular = "a number of trials"
    least = 1

    def log_mass(self, counts, rates):
        return (counts - 1.0) * np.log1p(-1.0 / rates) - np.log(rates)

    def variance_of(self, rates):
        return rates * (rates - 1.0)


class SquareRoot(Transformed):
    """Numbers whose square roots are Gaussian: dT/dy = 1 / (2 T)."""

    name = transform = "sqrt"
    noun = "square roots"
    requirement = "numbers of a sqrt column must not be negative"

    def invalid(self, numbers):
        return numbers < 0

    def forward(self, values):
        return np.sqrt(values)

    def inverse(self, values):
        return values**2

    def log_slope(self, values):
        return -np.log(2 * np.abs(values))
