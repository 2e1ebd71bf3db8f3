"""Families of columns: one module each, and nobody else names one.

`register` makes another family work as ``families={"column": "its name"}``. See
`momentmix.families.family.Family` for what a family answers.
"""

from momentmix.families.family import Family, register
from momentmix.families.gaussian import Gaussian, Log, Log1p
from momentmix.families.levels import Bernoulli, Categorical
from momentmix.families.poisson import Poisson

__all__ = ["Family", "register"]

for _family in (Gaussian(), Bernoulli(), Categorical(), Poisson(), Log(), Log1p()):
    register(_family)
