"""A fit before it goes back to the units of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from momentmix._typing import Float
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.em.em import standardized_density
from momentmix.fitting.em.patterns import Layout, pattern_sums
from momentmix.fitting.inference.standard_errors import Uncertainty
from momentmix.fitting.outcome import Diagnostics, Provenance
from momentmix.mixture.parameters import Parameters


@dataclass(frozen=True)
class StandardFit:
    """A fit in standardized features, constant columns left out.

    A `layout` is that of joined columns with missing cells.
    """

    moments: StandardMoments
    parameters: Parameters
    uncertainty: Uncertainty
    provenance: Provenance
    diagnostics: Diagnostics
    layout: Layout | None = None

    def sums(self, block: Any, counts: Float | None = None) -> tuple[Float, float, float]:
        """EM statistics of some rows, their log-likelihood, and how many they count as."""
        if self.layout is not None:
            return pattern_sums(block, self.moments, self.layout, self.parameters)
        return standardized_density(self.moments, self.parameters).em_sums(block, counts)
