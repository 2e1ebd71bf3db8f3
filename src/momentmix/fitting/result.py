"""The result of a fit, and how it is printed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from math import isnan, log
from typing import Any

from momentmix._typing import Int
from momentmix.errors import InputError, printable
from momentmix.findings.finding import FATAL, Finding
from momentmix.fitting.inference.standard_errors import (
    StandardErrors,
    column_errors,
    column_intervals,
    normal_quantile,
)
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.outcome import Evidence, FitFacts
from momentmix.fitting.record import FitRecord, save_fit
from momentmix.html.notebook import Markup, box, bullets, folded
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import Intervals, ParameterTable
from momentmix.mixture.profile import Profile
from momentmix.summary.summary import MomentSummary
from momentmix.tables.schema import Schema
from momentmix.wording import cut_lines, listed, plural, whole_percent

_MOST_REASONS, _MOST_NOTES = 2, 2  # in the answer; `details` has all of them
MOST_TRIALS_PRINTED = 8  # numbers of components; all of them are in `tried`
MOST_COLUMNS_PRINTED = 8  # of one family


@dataclass(frozen=True)
class BegunFit:
    """A fit whose mixture is final; it keeps a sample of the rows, and not the rows.

    The `facts` are those of the result but standard errors and certificate; `columns` say where
    the features that vary are among all, and `order` is that of the components.
    """

    facts: dict[str, Any]
    evidence: Evidence
    findings: list[Finding]
    columns: tuple[Any, ...]
    order: Int

    def finish(self) -> FitResult:
        """Compute standard errors and certificate."""
        uncertainty, certificate = self.evidence.certify()
        certificate = replace(certificate, findings=certificate.findings + self.findings)
        uncertainty = uncertainty.embedded(*self.columns).reordered(self.order)
        result = FitResult(**self.facts, certificate=certificate, uncertainty=uncertainty)
        return result.with_final_trial()


@dataclass(frozen=True, kw_only=True, repr=False)
class FitResult(FitFacts):
    """A fitted mixture with everything that was learned on the way.

    It has the attributes that a file keeps, those of `FitFacts`, and the following.

    Attributes
    ----------
    mixture : Mixture
        In the units of the data.
    moments : StandardMoments
        That the mixture was fitted to, or that began its fit.
    uncertainty : Uncertainty or None
        Covariance of the parameters of standardized features; None where it is not known.
    summary : MomentSummary or None
        Of the rows, from the one pass for the moments; None where no rows were given.
    schema : Schema or None
        How columns became features; None where the features are the columns.
    stages : list of (str, float)
        Stages and their seconds.
    log_likelihoods : sequence of float
        Per row, at each EM or scoring pass whose step was kept; empty without rows.
    """

    mixture: Mixture
    moments: StandardMoments
    uncertainty: Uncertainty | None = None
    summary: MomentSummary | None = None
    schema: Schema | None = None
    stages: Sequence[tuple[str, float]] = ()
    log_likelihoods: Sequence[float] = ()

    def with_final_trial(self) -> FitResult:
        """The result whose chosen trial has the figures of the final fit."""
        tried = list(self.tried)
        for i, t in enumerate(tried):
            if t.chosen:
                p_value = t.p_value if isnan(t.p_value) else self.certificate.p_value
                again = tuple(self.reproducibility.tolist()) if t.reproducibility else ()
                tried[i] = replace(t, p_value=p_value, reproducibility=again)
        return replace(self, tried=tuple(tried))

    @property
    def bic(self) -> float | None:
        """Bayesian information criterion, the lower the better; None without rows."""
        if self.log_likelihood is None:
            return None
        p = self.mixture.parameters
        n_fixed = 2 * p.n_components * int(self.moments.constant.sum())  # of constant columns
        n = self.moments.n_counted
        return (p.n_free - n_fixed) * log(n) - 2.0 * n * self.log_likelihood

    def predict(self, data: Any) -> Any:
        """Return the most probable component of each row, −1 for rows in no group.

        Parameters
        ----------
        data : array, data frame, path, or what else `Mixture.predict` takes

        Returns
        -------
        array of int of shape (n_rows,)

        Examples
        --------
        >>> import numpy as np
        >>> import momentmix as mm
        >>> rows = np.random.default_rng(0).normal([[0.0, 0.0], [9.0, 9.0]] * 100)
        >>> mm.fit(rows, 2, random_state=0).predict([[0.0, 0.0], [9.0, 9.0]]).tolist()
        [0, 1]
        """
        return self.mixture.predict(data)

    @property
    def standard_errors(self) -> StandardErrors:
        """Standard errors of weights, means and variances, in the units of the data."""
        return column_errors(self._known_uncertainty(), self.moments, self.schema)

    def intervals(self, level: float = 0.95) -> Intervals:
        """Intervals of weights, means and variances, in the units of the data; 95 % by default."""
        return column_intervals(self._known_uncertainty(), self.moments, self.schema, level)

    def to_frame(self, level: float = 0.95) -> Any:
        """The parameters with standard errors and intervals, as a pandas frame.

        Parameters
        ----------
        level : float, default=0.95
            Of the intervals.

        Returns
        -------
        pandas.DataFrame
            As `Mixture.to_frame`, with standard_error and the ends of the intervals, low and high;
            NaN where there are none.
        """
        if self.uncertainty is None:
            normal_quantile(level)  # raises where it is no level
            return self.mixture.to_frame()
        table = ParameterTable(self.mixture, self.standard_errors, self.intervals(level))
        return table.to_frame()

    def profile(self, names: Sequence[str] | None = None) -> Profile:
        """Return the differences of each component from the others, in words.

        As `Mixture.profile`, without differences that are smaller than two standard errors.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the components; made of what is different by default.
        """
        return self.record().profile(self.mixture, names)

    def plot(self, kind: str | None = None, data: Any = None) -> Any:
        """Draw a picture of the fit; `momentmix.displays` has these with more options.

        Parameters
        ----------
        kind : {"means", "columns", "pairs", "trials"}, optional
            By default "means", or "columns" where there is one component.
        data : rows, optional
            Drawn by "columns" and "pairs".

        Returns
        -------
        MeansDisplay, ColumnsDisplay, PairsDisplay or TrialsDisplay
        """
        displays = import_module("momentmix.displays")  # loaded where it is asked for
        kind = kind or ("means" if self.mixture.n_components > 1 else "columns")
        if kind not in ("means", "columns", "pairs", "trials"):
            raise InputError(f'kind must be "means", "columns", "pairs" or "trials"; got {kind!r}.')
        display = getattr(displays, f"{kind.capitalize()}Display")
        if kind in ("means", "trials"):
            return display.from_estimator(self)
        return display.from_estimator(self, data)

    def report(
        self, path: str | os.PathLike[str] | None = None, data: Any = None, **options: Any
    ) -> Any:
        """Show a report in a notebook, or write it to a file, as `momentmix.report`.

        Parameters
        ----------
        path : str or path, optional
            The file; without one, the page is returned, which notebooks show.
        data : rows, optional
            For the pictures.
        **options
            As for `momentmix.report`.
        """
        return import_module("momentmix").report(self, path, data, **options)

    def suggest(self, data: Any, sample_weight: Any = None) -> list[Any]:
        """Return changes of this fit that help on rows that were held out, the best first.

        At most 4,500 rows are fitted again, in two thirds, with each of these that the findings
        speak for: logarithms of skewed columns, another number of components, joined columns, a
        background, and ``missing="mar"`` where rows were dropped. A change helps if the held-out
        third gains more than two standard errors of log-density, or if other rows give its groups
        again and did not before; groups must not be lost.

        Parameters
        ----------
        data : rows
            The table that was fitted, as it was given to `fit`: 60 rows at least.
        sample_weight : array of shape (n_rows,), optional
            As it was given to `fit`.

        Returns
        -------
        list of Suggestion
            With the attributes change, options, gain, error, reproducibility, before, and python.
            Empty where the fit passed and where nothing helps.
        """
        suggestions: list[Any] = import_module("momentmix.fitting.suggest").suggest(
            self, data, sample_weight
        )
        return suggestions

    def _known_uncertainty(self) -> Uncertainty:
        if self.uncertainty is None:
            raise InputError("this fit has no standard errors.")
        return self.uncertainty

    def record(self, command: str | None = None, seed: int | None = None) -> FitRecord:
        """The record of this fit in a saved model."""
        facts = {field.name: getattr(self, field.name) for field in fields(FitFacts)}
        has_errors = self.uncertainty is not None
        return FitRecord(
            **{**facts, "notes": tuple(self.notes)},
            standard_errors=self.standard_errors if has_errors else None,
            intervals=self.intervals() if has_errors else None,
            command=command,
            seed=seed,
        )

    def save(
        self,
        path: str | os.PathLike[str],
        feature_names: Sequence[str] | None = None,
        *,
        command: str | None = None,
        seed: int | None = None,
    ) -> None:
        """Write the mixture together with the record of its fit, whole or not at all.

        `Mixture.load` reads the mixture, `report` and ``momentmix report`` the record too.

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
            mixture = mixture.with_feature_names(feature_names)
        save_fit(path, mixture, self.record(command, seed))

    def __repr__(self) -> str:
        verdict = self.certificate.verdict
        head = f"FitResult: {self._kind()}, {self.n_rows} rows; certificate {verdict}"
        return cut_lines("\n".join([head, str(self.profile())]))

    def _repr_html_(self) -> str:
        facts = [f"{self.method}, moments up to order {self.order}", self._refinement()]
        if self.log_likelihood is not None:
            facts.append(f"log-likelihood per row {self.log_likelihood:.6g}")
        facts += [f"joined columns: {columns}" for columns in self.joined]
        facts += self.notes
        title = f"{self._kind()}, {self.n_rows:,} rows"
        parts = [Markup(self.profile()._repr_html_()), Markup(self.certificate._repr_html_())]
        return box(title, *parts, folded("How it was fitted", bullets(facts)))

    def __str__(self) -> str:
        """The answer: the verdict, what qualifies it, and a line for each group."""
        c, r = self.certificate, self.mixture.n_components
        columns = self.mixture.n_columns
        verdict = c.verdict.upper() if c.verdict in ("not passed", "untested") else c.verdict
        lines = [
            f"{r} group{plural(r)} in {self.n_rows:,} rows, {columns} column{plural(columns)}: "
            f"{verdict}"
        ]
        against = [*c.reasons, *c.untested]
        lines += [f"  {c.meaning}"] if c.meaning else []
        lines += [f"  - {reason}" for reason in against[:_MOST_REASONS]]
        lines += [f"  {line}" for line in str(self.profile()).split("\n")]
        width = max(len(a.question) for a in c.answers)
        lines += [f"  {a.question:<{width}} {a}" for a in c.answers]
        lines += [f"  note: {note}" for note in self.notes[:_MOST_NOTES]]
        others = [f for f in c.findings if f.severity is not FATAL and f.kind != "untested"]
        n_more = len(against[_MOST_REASONS:]) + len(self.notes[_MOST_NOTES:]) + len(others)
        if n_more:
            lines.append(
                f"  {n_more} more finding{plural(n_more)} and the figures: details() (--verbose)"
            )
        return "\n".join(map(printable, lines))

    def details(self) -> str:
        """Return how the mixture was fitted and the whole certificate, as text.

        Examples
        --------
        >>> import momentmix as mm
        >>> result = mm.fit(mm.example_table("penguins"), 3, missing="drop")
        >>> print(result.details())  # doctest: +ELLIPSIS
        Mixture of 3 ...
        """
        lines = [
            f"{self._kind()}, {self.n_rows} rows",
            *self._families(),
            f"  {'method':<20} {self.method}, moments up to order {self.order}",
            f"  {'refinement':<20} {self._refinement()}",
            f"  {'answer from':<20} {self.winner}",
        ]
        if self.log_likelihood is not None:
            lines.append(f"  {'log-likelihood/row':<20} {self.log_likelihood:.6g}")
        times = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.stages)
        total = sum(seconds for _, seconds in self.stages)
        lines.append(f"  {'time':<20} {total:.2f} s ({times})")
        lines += [f"  {'joined':<20} {columns}" for columns in self.joined]
        lines += [f"  {'note':<20} {note}" for note in self.notes]
        lines += self._trials()
        return "\n".join([*map(printable, lines), str(self.certificate)])

    def _kind(self) -> str:
        """Number of components and of columns, in words."""
        r, d = self.mixture.means.shape
        if self.schema is not None:
            return f"Mixture of {r} component{plural(r)}, {d} column{plural(d)}"
        is_diagonal = self.mixture.parameters.blocks.is_diagonal
        kind = "diagonal Gaussian" if is_diagonal else "Gaussian"
        return f"Mixture of {r} {kind}{plural(r)}, {d} feature{plural(d)}"

    def _families(self) -> list[str]:
        """Lines with the columns of each family, and those with missing cells."""
        if self.schema is None:
            return []
        return [
            f"  {label:<20} {listed(names, MOST_COLUMNS_PRINTED)}"
            for label, names in self.schema.by_family()
        ]

    def _trials(self) -> list[str]:
        """A short table of what "auto" tried: the numbers next to the chosen one."""
        if not self.tried:
            return []
        chosen = next((i for i, trial in enumerate(self.tried) if trial.chosen), 0)
        most = MOST_TRIALS_PRINTED
        first = max(0, min(chosen - most // 2, len(self.tried) - most))
        shown = self.tried[first : first + most]
        rows = [("r", "p-value", "log-lik./row", "BIC", "least reproducibility", "")]
        for t in shown:
            numbers = zip((t.p_value, t.log_likelihood, t.bic), ("2g", "6g", "1f"), strict=True)
            p, score, bic = ("-" if x != x else f"{x:.{digits}}" for x, digits in numbers)
            least = t.least_reproducibility
            again = "-" if least != least else whole_percent(least)
            chosen_too = "chosen" if t.chosen else ""
            rows.append((str(t.n_components), p, score, bic, again, chosen_too))
        known = [column for column in zip(*rows, strict=True) if set(column[1:]) != {"-"}]
        padded = ([text.rjust(max(map(len, column))) for text in column] for column in known)
        lines = ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]
        if len(shown) < len(self.tried):
            lines.append(f"{len(self.tried) - len(shown)} more in FitResult.tried")
        labels = ["components tried", *[""] * (len(lines) - 1)]
        return [f"  {label:<20} {line}" for label, line in zip(labels, lines, strict=True)]

    def _refinement(self) -> str:
        if self.refine == "none":
            return "none: the pure moment answer"
        state = "converged" if self.converged else "NOT converged"
        return f"EM, {self.n_passes} passes over the rows in all, {state}"
