"""What is known of a fit apart from the answer: the parts that a result and a record share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import nan
from typing import Any, Generic, TypeVar, overload

from momentmix.fitting.inference.certificate import Certificate
from momentmix.wording import short_repr

T = TypeVar("T")


@dataclass(frozen=True)
class Provenance:
    """How an answer was made.

    Attributes
    ----------
    n_rows, order : int
        Rows behind the moments (outliers that were left out do not count), and the highest order
        of the moments.
    method, refine : str
        `method` is "robust" or "paper"; `refine` is "em" or "none".
    winner : str
        The candidate that the answer came from.
    n_passes : int
        Passes over all rows: one for the moments, the rest EM or scoring steps.
    converged : bool
    """

    n_rows: int
    order: int
    method: str
    refine: str
    winner: str
    n_passes: int
    converged: bool


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
    """

    n_components: int
    p_value: float
    log_likelihood: float
    bic: float
    chosen: bool


class JoinReason(Enum):
    """Why columns were joined; the value is its name in files."""

    GIVEN = "given"
    BIC = "BIC"
    PREDICTION = "prediction"
    CORRELATION = "correlation"


@dataclass(frozen=True)
class JoinedColumns:
    """Columns that may be correlated within components, and why they were joined.

    Attributes
    ----------
    columns : tuple of int
    names : tuple of str or None
        Names of the columns, where they have names.
    reason : JoinReason
        GIVEN: by the caller. BIC: it falls. PREDICTION: left-out rows are predicted better,
        although BIC does not fall. CORRELATION: the test of the moments names them.
    bic_gain : float
        By how much BIC is lower than with each of these columns apart, if the shares of the rows
        stay as they are; NaN without rows, and where columns were given.
    correlation : float
        The largest within the block that the test of the moments names; NaN with rows.
    """

    columns: tuple[int, ...]
    reason: JoinReason
    bic_gain: float = nan
    correlation: float = nan
    names: tuple[str, ...] | None = None

    def named(self, feature_names: Sequence[str] | None) -> JoinedColumns:
        """The same with the names of all columns, where they have names."""
        names = None if feature_names is None else tuple(feature_names[j] for j in self.columns)
        return replace(self, names=names)

    @property
    def why(self) -> str:
        """The reason in words."""
        if self.reason is JoinReason.BIC:
            return f"BIC falls by {self.bic_gain:.0f}"
        if self.reason is JoinReason.PREDICTION:
            return "left-out rows are predicted better"
        if self.reason is JoinReason.CORRELATION:
            return f"correlated within components by the test ({self.correlation:+.2f})"
        return "given"

    def __str__(self) -> str:
        listed = self.names or tuple(f"column {j}" for j in self.columns)
        return f"{', '.join(listed)}: {self.why}"


@short_repr
@dataclass(frozen=True)
class Diagnostics:
    """How good an answer is, and what happened on the way to it.

    Attributes
    ----------
    log_likelihood : float or None
        Mean of ``mixture.log_prob`` over the rows that were used, by their weights; None without
        rows. Rows that were dropped, have weight 0 or lie far from all others are not used.
    notes : sequence of str
    certificate : Certificate
    candidates : list of (str, float)
        Candidates and their log-likelihood per row on the judging rows, best first. This, `stages`
        and `residual` are not saved with a model.
    stages : list of (str, float)
        Stages and their seconds.
    residual : float or None
        Relative residual of the decomposed tensor, for method="paper".
    tried : tuple of Trial
        What n_components="auto" tried, by number of components; empty where a number was given.
    joined : tuple of JoinedColumns
        Columns that were joined, and why; empty for diagonal covariances.
    log_likelihoods : list of float
        Per row, at each EM or scoring pass whose step was kept; empty without rows. Not saved.
    """

    log_likelihood: float | None
    notes: Sequence[str]
    certificate: Certificate
    candidates: list[tuple[str, float]] = field(default_factory=list)
    stages: list[tuple[str, float]] = field(default_factory=list)
    residual: float | None = None
    tried: tuple[Trial, ...] = ()
    joined: tuple[JoinedColumns, ...] = ()
    log_likelihoods: list[float] = field(default_factory=list)


class PartOf(Generic[T]):
    """An attribute of a part that the owner of the part shows under the same name."""

    def __init__(self, part: str) -> None:
        self.part = part

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.__doc__ = f"`{name}` of `{self.part}`."  # for help() and the pages

    @overload
    def __get__(self, owner: None, kind: type) -> PartOf[T]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> T: ...
    def __get__(self, owner: object | None, kind: type) -> Any:
        return self if owner is None else getattr(getattr(owner, self.part), self.name)


class FitFacts:
    """The attributes of `Provenance` and `Diagnostics` that are saved with a model."""

    n_rows = PartOf[int]("provenance")
    order = PartOf[int]("provenance")
    method = PartOf[str]("provenance")
    refine = PartOf[str]("provenance")
    winner = PartOf[str]("provenance")
    n_passes = PartOf[int]("provenance")
    converged = PartOf[bool]("provenance")
    log_likelihood = PartOf["float | None"]("diagnostics")
    notes = PartOf[Sequence[str]]("diagnostics")
    certificate = PartOf[Certificate]("diagnostics")
    tried = PartOf["tuple[Trial, ...]"]("diagnostics")
    joined = PartOf["tuple[JoinedColumns, ...]"]("diagnostics")
