"""What a fit's user should know, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from momentmix.fitting.conditions.conditions import Parameters
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.over_identification import OverIdentification

__all__ = ["Finding", "Severity", "collect_findings", "find_constants"]

MANY_ROWS_PER_COMPONENT = 50
CORRELATION_THAT_MATTERS = 0.1


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


def collect_findings(
    moments: StandardMoments,
    parameters: Parameters,
    test: OverIdentification,
    capacity: int,
    variance_floor: float,
    from_rows: bool = False,
) -> list[Finding]:
    """All findings about a fit of standardised features; `from_rows` after EM passes."""
    found = _about_size(moments, parameters, capacity, from_rows)
    found += _about_components(moments, parameters, variance_floor)
    found += _about_columns(moments, test)
    if test.overdispersed_model:
        found.append(
            Finding(
                "no-power",
                Severity.FATAL,
                f"the test says nothing: a statistic of {test.statistic:.3g} on "
                f"{test.degrees_of_freedom} degrees of freedom is far below chance, as where a few "
                "extreme rows carry the moments. Trim or transform heavy-tailed columns.",
            )
        )
    if test.testable and test.condition_number > 1e4:
        found.append(
            Finding(
                "conditioning",
                Severity.WARNING,
                f"the parameters are barely determined by the moments (condition number "
                f"{test.condition_number:.1g}); some components may be interchangeable. Use fewer "
                "components, a higher order, or more rows.",
            )
        )
    return found


def _about_size(
    moments: StandardMoments, p: Parameters, capacity: int, from_rows: bool
) -> list[Finding]:
    r, d = p.means.shape
    n, n_parameters = moments.n_effective, r * (2 * d + 1) - 1
    found = []
    if r > capacity:
        found.append(
            Finding(
                "over-capacity",
                Severity.WARNING if from_rows else Severity.FATAL,
                f"not identified from these moments: order {moments.order} with {d} features "
                f"tells at most {capacity} component{'s' if capacity > 1 else ''} apart, "
                f"{r} were asked." + " The answer rests on the rows alone." * from_rows,
            )
        )
    elif r > 1 and r == capacity and not from_rows:
        found.append(
            Finding(
                "capacity-margin",
                Severity.WARNING,
                f"{r} components are the most that order {moments.order} with {d} features "
                "identifies; a higher order leaves a margin.",
            )
        )
    if n < 2 * n_parameters:
        found.append(
            Finding(
                "too-few-rows",
                Severity.FATAL,
                f"too few rows: {n:.0f} rows for {n_parameters} parameters. Use at least "
                f"{2 * n_parameters} rows, or fewer components.",
            )
        )
    return found


def _about_components(moments: StandardMoments, p: Parameters, floor: float) -> list[Finding]:
    found = []
    expected = moments.n_effective * p.weights
    light = np.flatnonzero(expected < MANY_ROWS_PER_COMPONENT)
    if light.size:
        listed = ", ".join(f"{i} ({expected[i]:.0f} rows)" for i in light[:5])
        found.append(
            Finding(
                "light-components",
                Severity.WARNING,
                f"component{'s' if light.size > 1 else ''} {listed} hold few rows; their means and "
                "variances are rough.",
            )
        )
    at_floor = (p.variances <= 1.01 * floor).sum()
    if at_floor:
        found.append(
            Finding(
                "variance-floor",
                Severity.NOTE,
                f"{at_floor} variance{'s' if at_floor > 1 else ''} at the floor "
                f"({floor:.1g} of the feature's variance).",
            )
        )
    return found


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
    return [Finding("constant-column", Severity.WARNING, text)]


def _about_columns(moments: StandardMoments, test: OverIdentification) -> list[Finding]:
    found = []
    if moments.order >= 2 and moments.n_features >= 2:
        d = moments.n_features
        pairs = [(i, k) for k in range(d) for i in range(k)]
        copies = [q for q, c in zip(pairs, moments.orders[2], strict=True) if abs(c) > 0.999]
        if copies:
            first, second = (_column(moments, j) for j in copies[0])
            found.append(
                Finding(
                    "duplicate-columns",
                    Severity.WARNING,
                    f"columns {first} and {second} are copies of each other up to shift and "
                    "scale: this is no mixture of independent features. Keep one.",
                )
            )
    strong = [
        c
        for c in test.correlations
        if abs(c.value) > CORRELATION_THAT_MATTERS and abs(c.deviates) > 6
    ]
    if strong and test.testable and test.p_value < 0.01:
        places = {column: j for j, column in enumerate(moments.columns.tolist())}
        listed = "; ".join(
            f"{_column(moments, places[c.first])} and {_column(moments, places[c.second])} "
            f"(about {c.value:+.2f})"
            for c in strong[:3]
        )
        found.append(
            Finding(
                "correlated-columns",
                Severity.WARNING,
                f"columns correlated within components: {listed}. A diagonal mixture spends "
                "components on that; rotate or drop such columns.",
            )
        )
    found += _about_outliers(moments)
    return found


def _about_outliers(moments: StandardMoments) -> list[Finding]:
    low = (moments.shift - moments.minimum) / moments.scale
    high = (moments.maximum - moments.shift) / moments.scale
    farthest = np.maximum(low, high)
    # One row's share in a third moment against that moment's noise 1/√N.
    influence = farthest**3 / np.sqrt(moments.n_effective)
    j = int(influence.argmax())
    if influence[j] > 10 and farthest[j] > 8:
        return [
            Finding(
                "outlier-influence",
                Severity.WARNING,
                f"column {_column(moments, j)} has a value {farthest[j]:.3g} standard deviations "
                f"from its mean; that one row moves third moments by {influence[j]:.2g} times "
                "their noise. Check it.",
            )
        ]
    return []
