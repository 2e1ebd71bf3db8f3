"""The result of a fit, and how it is printed."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from momentmix import __version__
from momentmix._typing import Float, Int
from momentmix.errors import InputError, printable
from momentmix.findings.finding import FATAL, Finding
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.standard_errors import (
    StandardErrors,
    column_errors,
    column_intervals,
    normal_quantile,
)
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.outcome import JoinedColumns, Trial
from momentmix.html.notebook import Markup, box, bullets, folded
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.model_file import save_model
from momentmix.mixture.parameter_table import Intervals, ParameterTable
from momentmix.mixture.profile import Profile, profile_of
from momentmix.summary.summary import MomentSummary
from momentmix.tables.schema import Schema
from momentmix.wording import cut, cut_lines, listed, no_group, percent, plural, whole_percent

_MOST_REASONS, _MOST_NOTES = 2, 2  # in the answer; `details` has all of them
_LETTERS = 160  # of a note in the answer
MOST_TRIALS_PRINTED = 8  # numbers of components; all of them are in `tried`
MOST_COLUMNS_PRINTED = 8  # of one family


def versions() -> dict[str, str]:
    """Versions of everything that the numbers of a fit depend on."""
    import scipy

    return {
        "momentmix": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


@dataclass(frozen=True)
class BegunFit:
    """A fit whose mixture is final; it keeps a sample of the rows, and not the rows.

    The `facts` are the attributes of the result but certificate and uncertainty; `columns` say
    where the features that vary are among all, and `order` is that of the components.
    """

    facts: dict[str, Any]
    certify: Callable[[], tuple[Uncertainty, Certificate]]
    findings: list[Finding]
    columns: tuple[Any, ...]
    order: Int

    def finish(self) -> FitResult:
        """Compute standard errors and certificate."""
        uncertainty, certificate = self.certify()
        certificate = replace(certificate, findings=certificate.findings + self.findings)
        again = tuple(certificate.reproducibility.tolist())
        tried = tuple(
            replace(
                t,
                p_value=t.p_value if isnan(t.p_value) else certificate.p_value,
                reproducibility=again if t.reproducibility else (),
            )
            if t.chosen
            else t
            for t in self.facts["tried"]
        )
        return FitResult(
            **{**self.facts, "tried": tried},
            certificate=certificate,
            uncertainty=uncertainty.embedded(*self.columns).reordered(self.order),
        )


class SavedErrors(NamedTuple):
    """Standard errors and intervals of 95 % of a fit in a model file."""

    standard_errors: StandardErrors | None
    intervals: Intervals | None


@dataclass(frozen=True, kw_only=True, repr=False)
class FitResult:
    """A fitted mixture with everything that was learned on the way, also as a file keeps it.

    Attributes
    ----------
    mixture : Mixture
        In the units of the data.
    certificate : Certificate
    n_rows, order : int
        Rows of the fit, and the highest order of the moments. Rows far from all others, which a
        background takes, are not behind the moments.
    winner : str
        The candidate that the answer came from.
    n_passes : int
        Passes over all rows: one for the moments, the rest EM or scoring steps.
    converged : bool
    log_likelihood, bic : float or None
        Mean of ``mixture.log_prob`` over the rows that were used, by their weights, and the
        Bayesian information criterion, the lower the better; None without rows. Rows that were
        dropped or have weight 0 are not used.
    notes : sequence of str
    tried : tuple of Trial
        What n_components="auto" tried, by number of components; empty where a number was given.
    joined : tuple of JoinedColumns
        Columns that were joined, and why; empty for diagonal covariances.
    options : mapping or None
        Keywords of `fit` that were given and differ from its defaults, without arrays; None where
        they are not known.
    versions : mapping of str
        Of momentmix, Python, NumPy and SciPy.
    command : str or None
        The command line, or whatever the caller wrote there.
    uncertainty : Uncertainty or None
        Covariance of the parameters of standardized features; None where it is not known, as in
        files.
    moments : StandardMoments or None
        That the mixture was fitted to, or that began its fit; None in files, as what follows.
    summary : MomentSummary or None
        Of the rows, from the one pass for the moments; None where no rows were given.
    schema : Schema or None
        How columns became features; None where the features are the columns.
    stages : list of (str, float)
        Stages and their seconds.
    log_likelihoods : sequence of float
        Per row, at each EM or scoring pass whose step was kept; empty without rows.
    saved : SavedErrors or None
        Standard errors and intervals, where a file held them.
    """

    mixture: Mixture
    certificate: Certificate
    n_rows: int
    order: int
    winner: str
    n_passes: int
    converged: bool
    log_likelihood: float | None = None
    bic: float | None = None
    notes: Sequence[str] = ()
    tried: tuple[Trial, ...] = ()
    joined: tuple[JoinedColumns, ...] = ()
    options: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=versions)
    command: str | None = None
    uncertainty: Uncertainty | None = None
    moments: StandardMoments | None = None
    summary: MomentSummary | None = None
    schema: Schema | None = None
    stages: Sequence[tuple[str, float]] = ()
    log_likelihoods: Sequence[float] = ()
    saved: SavedErrors | None = None

    @property
    def reproducibility(self) -> Float:
        """How well other rows give each component again, (n_components,); see `Certificate`."""
        return self.certificate.reproducibility

    @property
    def separation(self) -> Float:
        """Depth of the valley between each pair of components, of shape (r, r)."""
        return self.certificate.separation

    @property
    def is_continuum(self) -> Any:
        """Which components are segments of a continuum, (n_components,); see `Certificate`."""
        return self.certificate.is_continuum

    @property
    def seed(self) -> int | None:
        """The ``random_state`` of the fit, where it was an integer."""
        seed = (self.options or {}).get("random_state")
        return seed if isinstance(seed, int) else None

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
    def has_errors(self) -> bool:
        """Whether standard errors and intervals are known."""
        return self.uncertainty is not None or self.saved is not None

    @property
    def standard_errors(self) -> StandardErrors:
        """Standard errors of weights, means and variances, in the units of the data."""
        if self.saved is not None and self.saved.standard_errors is not None:
            return self.saved.standard_errors
        return column_errors(*self._uncertainty_of_columns(), self.schema)

    def intervals(self, level: float = 0.95) -> Intervals:
        """Intervals of weights, means and variances, in the units of the data; 95 % by default.

        A fit that was loaded from a file has no others.
        """
        normal_quantile(level)  # raises where it is no level
        if self.saved is None or self.saved.intervals is None:
            return column_intervals(*self._uncertainty_of_columns(), self.schema, level)
        if level != 0.95:
            raise InputError(f"a saved fit has intervals of 0.95; level={level} was asked.")
        return self.saved.intervals

    def _uncertainty_of_columns(self) -> tuple[Uncertainty, StandardMoments]:
        if self.uncertainty is None or self.moments is None:
            raise InputError("this fit has no standard errors.")
        return self.uncertainty, self.moments

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
        normal_quantile(level)  # raises where it is no level
        if not self.has_errors:
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
        weights = self.intervals().weights if self.has_errors else None
        again: Float | None = self.reproducibility
        if self.certificate.rows_depend:  # neither says what other rows would give
            weights = again = None
        return profile_of(self.mixture, names, self.n_rows, again, weights, self.separation)

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

    def to_dict(self, command: str | None = None) -> dict[str, Any]:
        """The record of this fit in a model file, as plain values."""
        record = import_module("momentmix.fitting.record")  # which makes results of files
        fields: dict[str, Any] = record.record_of(self, command)
        return fields

    def save(self, path: str | os.PathLike[str], *, command: str | None = None) -> None:
        """Write the mixture together with the record of its fit, whole or not at all.

        `Mixture.load` reads the mixture, `report` and ``momentmix report`` the record too.

        Parameters
        ----------
        path : str or path
        command : str, optional
            How the fit was made, for the record.
        """
        save_model(path, self.mixture, self.to_dict(command))

    def __repr__(self) -> str:
        verdict = self.certificate.verdict
        head = f"FitResult: {self._kind()}, {self.n_rows} rows; certificate {verdict}"
        return cut_lines("\n".join([head, str(self.profile())]))

    def _repr_html_(self) -> str:
        facts = [f"moments up to order {self.order}", self._refinement()]
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
            f"{verdict}{', segments of a continuum' if self.is_continuum.any() else ''}"
        ]
        against = [*c.reasons, *c.untested]
        lines += [f"  {c.meaning}"] if c.meaning else []
        lines += [f"  - {reason}" for reason in against[:_MOST_REASONS]]
        profile = self.profile()
        for group in profile if r > 1 else ():
            share = f"{percent(group.share)} of rows"
            share += f" ({group.interval})" if group.interval else ""
            lines.append(f"  {group.component}  {share}: {group.text or 'much like the others'}")
        if profile.background_weight:
            lines.append(f"  {no_group(profile.background_weight)}")
        width = max(len(a.question) for a in c.answers)
        lines += [f"  {a.question:<{width}} {a}" for a in c.answers]
        lines += [f"  note: {cut(note, _LETTERS)}" for note in self.notes[:_MOST_NOTES]]
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
            f"  {'moments':<20} up to order {self.order}",
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
        if not self.certificate.after_rows:
            return "none: the pure moment answer"
        state = "converged" if self.converged else "NOT converged"
        return f"EM, {self.n_passes} passes over the rows in all, {state}"
