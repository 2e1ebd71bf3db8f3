"""Findings: what the user of a fit should know, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE, OverIdentification
from momentmix.index_sets import index_sets
from momentmix.mixture.parameters import Parameters

LEAST_ROWS_PER_COMPONENT = 50  # with fewer, a mean is off by 1/√50 = 0.14 deviations or more
CORRELATION_THAT_MATTERS = 0.1  # with many rows, smaller ones are significant and change little
SIGNIFICANT_DEVIATES = 6  # not reached by chance, however many pairs are tested
COPY_CORRELATION = 0.999  # two different measurements are rarely so close
LARGE_CONDITION_NUMBER = 1e4  # errors grow by it: few moments are known to four digits


class Severity(Enum):
    """How much a finding weighs: a fatal one fails the certificate."""

    NOTE = "note"
    WARNING = "warning"
    FATAL = "fatal"


@dataclass(frozen=True)
class Finding:
    """One finding: a short name for programs, a sentence for people."""

    name: str
    severity: Severity
    text: str

    def __str__(self) -> str:
        return f"[{self.severity.value}] {self.text}"


def _warning(name: str, text: str) -> Finding:
    return Finding(name, Severity.WARNING, text)


def _fatal(name: str, text: str) -> Finding:
    return Finding(name, Severity.FATAL, text)


def _plural(count: int) -> str:
    return "s" if count > 1 else ""


def collect_findings(
    moments: StandardMoments,
    parameters: Parameters,
    test: OverIdentification,
    capacity: int,
    variance_floor: float,
    from_rows: bool = False,
) -> list[Finding]:
    """All findings about a fit of standardized features; `from_rows` after EM passes."""
    return [
        *_about_size(moments, parameters, capacity, from_rows),
        *_about_components(moments, parameters, variance_floor),
        *_about_copies(moments),
        *_about_correlations(moments, test),
        *_about_outliers(moments),
        *_about_test(test),
    ]


def _about_size(
    moments: StandardMoments, p: Parameters, capacity: int, from_rows: bool
) -> Iterator[Finding]:
    r, d = p.means.shape
    n, n_parameters = moments.n_effective, r * (2 * d + 1) - 1
    if r > capacity:
        text = (
            f"not identified from these moments: order {moments.order} with {d} features tells at "
            f"most {capacity} component{_plural(capacity)} apart, {r} were asked."
        )
        if from_rows:
            yield _warning("over-capacity", text + " The answer rests on the rows alone.")
        else:
            yield _fatal("over-capacity", text)
    elif r > 1 and r == capacity and not from_rows:
        yield _warning(
            "capacity-margin",
            f"{r} components are the most that order {moments.order} with {d} features "
            "identifies; a higher order leaves a margin.",
        )
    if n < 2 * n_parameters:
        yield _fatal(
            "too-few-rows",
            f"too few rows: {n:.0f} rows for {n_parameters} parameters. Use at least "
            f"{2 * n_parameters} rows, or fewer components.",
        )


def _about_components(moments: StandardMoments, p: Parameters, floor: float) -> Iterator[Finding]:
    expected = moments.n_effective * p.weights
    light = np.flatnonzero(expected < LEAST_ROWS_PER_COMPONENT)
    if light.size:
        listed = ", ".join(f"{i} ({expected[i]:.0f} rows)" for i in light[:5])
        yield _warning(
            "light-components",
            f"component{_plural(light.size)} {listed} hold few rows; their means and variances "
            "are rough.",
        )
    at_floor = int((p.variances <= 1.01 * floor).sum())
    if at_floor:
        text = f"{at_floor} variance{_plural(at_floor)} at the floor ({floor:.1g} of the feature's "
        yield Finding("variance-floor", Severity.NOTE, text + "variance).")


def _column(moments: StandardMoments, j: int) -> str:
    """A column of the rows as findings name it: by its name, escaped, or by its number."""
    if moments.feature_names is None:
        return str(moments.columns[j])
    return ascii(moments.feature_names[j])


def find_constants(moments: StandardMoments) -> list[Finding]:
    """What to say of columns that hold one value only, which the fit leaves out."""
    columns = np.flatnonzero(moments.constant)
    if not columns.size:
        return []
    listed = ", ".join(_column(moments, j) for j in columns[:8]) + ", …" * (columns.size > 8)
    text = f"columns {listed} hold one value only; they take no part in the fit and get"
    if columns.size == 1:
        text = f"column {listed} holds one value only; it takes no part in the fit and gets"
    text += f" the variance floor. Leave {'it' if columns.size == 1 else 'them'} out."
    return [_warning("constant-column", text)]


def _about_copies(moments: StandardMoments) -> Iterator[Finding]:
    if moments.order < 2:
        return
    pairs = index_sets(moments.n_features, 2)
    copies = pairs[np.abs(moments.orders[2]) > COPY_CORRELATION]
    if len(copies):
        first, second = (_column(moments, j) for j in copies[0])
        yield _warning(
            "duplicate-columns",
            f"columns {first} and {second} are copies of each other up to shift and scale: this "
            "is no mixture of independent features. Keep one.",
        )


def _about_correlations(moments: StandardMoments, test: OverIdentification) -> Iterator[Finding]:
    strong = [
        c
        for c in test.correlations
        if abs(c.value) > CORRELATION_THAT_MATTERS and abs(c.deviates) > SIGNIFICANT_DEVIATES
    ]
    if strong and test.testable and test.p_value < LEAST_P_VALUE:
        places = {column: j for j, column in enumerate(moments.columns.tolist())}
        listed = "; ".join(
            f"{_column(moments, places[c.first])} and {_column(moments, places[c.second])} "
            f"(about {c.value:+.2f})"
            for c in strong[:3]
        )
        yield _warning(
            "correlated-columns",
            f"columns correlated within components: {listed}. A diagonal mixture spends "
            "components on that; rotate or drop such columns.",
        )


def _about_outliers(moments: StandardMoments) -> Iterator[Finding]:
    low, high = moments.standard_range
    farthest = np.maximum(-low, high)
    # One row's share in a third moment against that moment's noise 1/√N.
    influence = farthest**3 / np.sqrt(moments.n_effective)
    j = int(influence.argmax())
    # Normal rows reach 6 deviations, and then by chance: neither alone is an outlier.
    if influence[j] > 10 and farthest[j] > 8:
        yield _warning(
            "outlier-influence",
            f"column {_column(moments, j)} has a value {farthest[j]:.3g} standard deviations "
            f"from its mean; that one row moves third moments by {influence[j]:.2g} times their "
            "noise. Check it.",
        )


def _about_test(test: OverIdentification) -> Iterator[Finding]:
    if test.overdispersed_model:
        yield _fatal(
            "no-power",
            f"the test says nothing: a statistic of {test.statistic:.3g} on "
            f"{test.degrees_of_freedom} degrees of freedom is far below chance, as where a few "
            "extreme rows carry the moments. Trim or transform heavy-tailed columns.",
        )
    if test.testable and test.condition_number > LARGE_CONDITION_NUMBER:
        yield _warning(
            "conditioning",
            f"the parameters are barely determined by the moments (condition number "
            f"{test.condition_number:.1g}); some components may be interchangeable. Use fewer "
            "components, a higher order, or more rows.",
        )
