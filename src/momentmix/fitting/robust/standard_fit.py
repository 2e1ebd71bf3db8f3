"""A fit before it goes back to the units of the data."""

from __future__ import annotations

from dataclasses import dataclass

from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.standard_errors import Uncertainty
from momentmix.fitting.outcome import Diagnostics, Provenance
from momentmix.mixture.parameters import Parameters


@dataclass(frozen=True)
class StandardFit:
    """A fit in standardized features, constant columns left out."""

    moments: StandardMoments
    parameters: Parameters
    uncertainty: Uncertainty
    provenance: Provenance
    diagnostics: Diagnostics
