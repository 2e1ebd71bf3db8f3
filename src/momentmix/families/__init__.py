"""Families of columns: one module each; no other module names one.

`register` makes another family work as ``families={"column": "its name"}``. See
`momentmix.families.family.Family` for the methods of a family.
"""

from momentmix.families.counts import Poisson
from momentmix.families.dispersed_counts import NegativeBinomial
from momentmix.families.family import FAMILIES, Family, register
from momentmix.families.gaussian import Gaussian, Log, Log1p
from momentmix.families.levels import Bernoulli, Categorical

__all__ = ["Family", "register"]

# The tests check the parts of these, not every import.
_FAMILIES = Gaussian(), Bernoulli(), Categorical(), Poisson(), NegativeBinomial(), Log(), Log1p()
for _family in _FAMILIES:
    FAMILIES[_family.name] = _family
