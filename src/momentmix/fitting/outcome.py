"""Facts of a fit beside the mixture, and an answer before it has the units of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from momentmix.findings.finding import FATAL, Finding, found
from momentmix.fitting.em.passes import Refined
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.parameters import Parameters
from momentmix.wording import listed

_MOST_NAMED = 12  # columns in a line
CLEAR_LOSS = 0.02  # nats a row: far more than two samples, or the prior of the variances, differ
# Of BIC, very strong evidence (Kass and Raftery, 1995); and CLEAR_LOSS nats a row, by which quick
# searches of the same rows hardly differ.
_FAR = 10.0


@dataclass(frozen=True)
class Trial:
    """A number of components that "auto" tried; NaN stands for what was not computed.

    Attributes
    ----------
    n_components : int
    p_value : float
        Of the over-identification test at this number.
    log_likelihood : float
        Per row, in the units of the data.
    bic : float
        Bayesian information criterion, in the units of the data: lower is better.
    chosen : bool
    reproducibility : tuple of float
        Of each component, as in `Certificate`; empty where it was not computed.
    """

    n_components: int
    p_value: float
    log_likelihood: float
    bic: float
    chosen: bool
    reproducibility: tuple[float, ...] = ()

    @property
    def least_reproducibility(self) -> float:
        """Of the least reproducible component; NaN where it is unknown."""
        return float(np.min(self.reproducibility)) if self.reproducibility else nan


@dataclass(frozen=True)
class JoinedColumns:
    """Columns that may be correlated within components, and why they were joined.

    Attributes
    ----------
    columns : tuple of int
    why : str
        "given" by the caller; by how much BIC is lower than with each of these columns apart, if
        the shares of the rows stay as they are; or the largest correlation that the test of the
        moments names.
    names : tuple of str or None
        Names of the columns, where they have names.
    """

    columns: tuple[int, ...]
    why: str
    names: tuple[str, ...] | None = None

    def with_names(self, feature_names: Sequence[str] | None) -> JoinedColumns:
        """The same with the names of all columns, where they have names."""
        names = None if feature_names is None else tuple(feature_names[j] for j in self.columns)
        return replace(self, names=names)

    def __str__(self) -> str:
        names = self.names or tuple(f"column {j}" for j in self.columns)
        return f"{listed(names, _MOST_NAMED)}: {self.why}"


@dataclass(frozen=True)
class StandardFit:
    """A fit in standardized features, constant columns left out.

    The parameters are final; `certify` computes standard errors and certificate.

    `passes` is None where the answer is that of moments alone. Other fields are as in a
    `FitResult`, but log-likelihoods are those of standardized features, and `joined` has numbers of
    columns alone.
    """

    moments: StandardMoments
    parameters: Parameters
    certify: Callable[[], tuple[Uncertainty, Certificate]]
    notes: Sequence[str] = ()
    winner: str = "moments"
    passes: Refined | None = None
    tried: tuple[Trial, ...] = ()
    joined: tuple[JoinedColumns, ...] = ()


def better_number(tried: tuple[Trial, ...], n_rows: float) -> list[Finding]:
    """A finding where one component more or less than chosen has a far lower BIC."""
    chosen = next((t for t in tried if t.chosen), None)
    if chosen is None:
        return []
    far = max(_FAR, 2.0 * CLEAR_LOSS * n_rows)
    beside = [t for t in tried if abs(t.n_components - chosen.n_components) == 1]
    gain, better = max(((chosen.bic - t.bic, t.n_components) for t in beside), default=(nan, 0))
    if not gain > far:
        return []
    return [found(FATAL, "better-number", better=better, gain=gain, nats=gain / (2.0 * n_rows))]
