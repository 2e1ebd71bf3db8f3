"""Two families that the library does not have, as a user would add them: a class each."""

from __future__ import annotations

import numpy as np

from momentmix.families.counts import CountFamily


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
