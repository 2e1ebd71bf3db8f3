"""What a fit gives back, and how it prints itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from momentmix.errors import InputError, printable
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.standard_errors import (
    Intervals,
    StandardErrors,
    Uncertainty,
    intervals,
    standard_errors,
)
from momentmix.fitting.record import FitRecord, save_fit
from momentmix.mixture.mixture import DiagonalMixture

__all__ = ["FitResult"]


@dataclass(frozen=True)
class FitResult:
    """A fitted mixture with everything that was learned on the way.

    Attributes
    ----------
    mixture : DiagonalMixture
        In the units of the data.
    certificate : Certificate
    n_rows, order : int
    method, refine : str
        What was done; `refine` is "em" or "none".
    winner : str
        The candidate that the answer came from.
    candidates : list of (str, float)
        Candidates and their log-likelihood per row on the judging rows, best first.
    n_passes : int
        Passes over all rows: one for the moments, the rest EM or scoring steps.
    converged : bool
    log_likelihood : float or None
        Per row, in the units of the data; None without rows.
    stages : list of (str, float)
        Stages and their seconds.
    uncertainty : Uncertainty or None
        Covariance of the parameters of standardised features; None for method="paper".
    residual : float or None
        Relative residual of the decomposed tensor, for method="paper".
    """

    mixture: DiagonalMixture
    certificate: Certificate
    n_rows: int
    order: int
    method: str
    refine: str
    winner: str
    candidates: list[tuple[str, float]]
    n_passes: int
    converged: bool
    log_likelihood: float | None
    stages: list[tuple[str, float]]
    uncertainty: Uncertainty | None
    moments: StandardMoments
    notes: list[str] = field(default_factory=list)
    residual: float | None = None

    @property
    def standard_errors(self) -> StandardErrors:
        """Standard errors of weights, means and variances, in the units of the data."""
        return standard_errors(self._known_uncertainty(), self.moments)

    def intervals(self) -> Intervals:
        """95 % intervals of weights, means and variances, in the units of the data."""
        return intervals(self._known_uncertainty(), self.moments)

    def _known_uncertainty(self) -> Uncertainty:
        if self.uncertainty is None:
            raise InputError(
                'method="paper" gives no standard errors; use method="robust" for them.'
            )
        return self.uncertainty

    def record(self, command: str | None = None, seed: int | None = None) -> FitRecord:
        """What a saved model remembers of this fit."""
        known = self.uncertainty is not None
        return FitRecord(
            self.n_rows, self.order, self.method, self.refine, self.winner, self.n_passes,
            self.converged, self.log_likelihood, tuple(self.notes), self.certificate,
            self.standard_errors if known else None, self.intervals() if known else None,
            command=command, seed=seed,
        )  # fmt: skip

    def save(
        self,
        path: str | os.PathLike[str],
        feature_names: Sequence[str] | None = None,
        *,
        command: str | None = None,
        seed: int | None = None,
    ) -> None:
        """Write the mixture together with the record of its fit, whole or not at all.

        `DiagonalMixture.load` reads the mixture, `report` and ``momentmix report`` the record too.

        Parameters
        ----------
        path : str or path
        feature_names : sequence of str, optional
            By default those of the mixture.
        command : str, optional
            How the fit was made, for the record.
        seed : int, optional
            The ``random_state`` it was made with, for the record.
        """
        mixture = self.mixture
        if feature_names is not None:
            mixture = replace(mixture, feature_names=tuple(feature_names))
        save_fit(path, mixture, self.record(command, seed))

    @property
    def seconds(self) -> float:
        """Time of all stages together."""
        return sum(seconds for _, seconds in self.stages)

    def __str__(self) -> str:
        m = self.mixture
        head = (
            f"Mixture of {m.n_components} diagonal Gaussian{'s' if m.n_components > 1 else ''}, "
            f"{m.n_features} feature{'s' if m.n_features > 1 else ''}, {self.n_rows} rows"
        )
        lines = [head, f"  method               {self.method}, moments up to order {self.order}"]
        lines.append(f"  refinement           {self._refinement()}")
        lines.append(f"  answer from          {self.winner}")
        if self.log_likelihood is not None:
            lines.append(f"  log-likelihood/row   {self.log_likelihood:.6g}")
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.stages)
        lines.append(f"  time                 {self.seconds:.2f} s ({parts})")
        lines += [f"  note                 {note}" for note in self.notes]
        return "\n".join([*map(printable, lines), str(self.certificate)])

    def _refinement(self) -> str:
        if self.refine == "none":
            return "none: the pure moment answer"
        state = "converged" if self.converged else "NOT converged"
        return f"EM, {self.n_passes} passes over the rows in all, {state}"
