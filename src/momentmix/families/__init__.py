"""Families of columns: one module each, and nobody else names one.

`register` makes another family work as ``families={"column": "its name"}``. See
`momentmix.families.family.Family` for what a family answers.
"""

from momentmix.families.family import FAMILIES, Family, register
from momentmix.families.gaussian import Gaussian, Log, Log1p
from momentmix.families.levels import Bernoulli, Categorical
from momentmix.families.poisson import Poisson

__all__ = ["Family", "register"]

# The tests check the parts of these, not every import.
for _family in (Gaussian(), Bernoulli(), Categorical(), Poisson(), Log(), Log1p()):
    FAMILIES[_family.name] = _family
