"""Findings: what the user of a fit should know, in sentences.

Those about moments are here; `component_findings` and the modules of `of_rows` have the others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.conditions.conditions import feature_powers
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.component_findings import at_floor, component_findings
from momentmix.fitting.inference.family_findings import family_findings
from momentmix.fitting.inference.finding import (
    Finding,
    Severity,
    column_names,
    fatal,
    warning,
)
from momentmix.fitting.inference.of_rows.column_shape import shape_words
from momentmix.fitting.inference.of_rows.logarithms import offer_from_moments
from momentmix.fitting.inference.of_rows.row_findings import RowFindings, row_findings
from momentmix.fitting.inference.of_rows.rows_checked import CheckedRows
from momentmix.fitting.inference.of_rows.shape_findings import shape_text
from momentmix.fitting.inference.over_identification import OverIdentification, shape_of
from momentmix.fitting.inference.pair_findings import (
    SIGNIFICANT_DEVIATES,
    about_copies,
    about_correlations,
)
from momentmix.mixture.parameters import Parameters
from momentmix.wording import plural

__all__ = ["Finding", "Severity", "collect_findings", "find_constants"]

LEAST_ROWS_PER_PARAMETER = 2  # with fewer, neither parameters nor their errors are known
LARGE_CONDITION_NUMBER = 1e4  # errors grow by it: few moments are known to four digits
# One row's share of a column's fourth moment or, where that is unknown, of its variance: from
# here on the fit is about this row.
_SHARE_OF_FOURTH_MOMENT, _SHARE_OF_VARIANCE = 0.5, 0.25
_EXCESS_THAT_MATTERS = 1.0  # of a fourth standardized moment; Student's t with 10 degrees has it


def collect_findings(
    moments: StandardMoments,
    parameters: Parameters,
    test: OverIdentification,
    capacity: int,
    variance_floor: float,
    from_rows: bool = False,
    checked: CheckedRows | None = None,
    found: RowFindings | None = None,
) -> list[Finding]:
    """All findings about a fit of standardized features.

    `from_rows` after EM passes; `checked` holds an excerpt of the rows, where there are rows, and
    `found` what `row_findings` says of them, where it is known.
    """
    p = parameters
    if checked is not None and not len(checked.values):  # remote rows
        checked = None
    if checked is not None and found is None:
        found = row_findings(checked, moments, p, from_rows, variance_floor)
    coarse: set[int] = set() if found is None else found.coarse
    influenced = _influenced_feature(moments)
    compared = checked is not None and from_rows and checked.is_everywhere
    heavy = [] if compared else _heavy_tailed(moments, p, influenced)
    outliers = list(_about_outliers(moments, influenced, checked is not None))
    findings = [
        *_about_size(moments, p, capacity, from_rows),
        *component_findings(moments, p, variance_floor, coarse),
        *family_findings(moments, p),
        *about_copies(moments),
        *([] if found is None else found.findings),
        *([] if compared else _about_shapes(moments, p, test)),
        *_about_tails(moments, heavy),
        *outliers,
        *_about_test(test),
    ]
    # Components that serve one row, or one of the values that repeat, leave the other columns
    # correlated within them: that is a consequence, not a cause.
    floored = at_floor(p, variance_floor)[:, sorted(coarse)]
    if not floored.any() and all(f.severity is not Severity.FATAL for f in outliers):
        explained = {*influenced, *heavy, *(set() if found is None else found.explained)}
        findings += about_correlations(moments, p, test, explained, from_rows)
    return findings


def _about_size(
    moments: StandardMoments, p: Parameters, capacity: int, from_rows: bool
) -> Iterator[Finding]:
    r, d = p.means.shape
    n, n_parameters = moments.n_effective, p.n_free
    if r > capacity:
        text = (
            f"not identified from these moments: order {moments.order} with {d} features tells at "
            f"most {capacity} component{plural(capacity)} apart, {r} were asked."
        )
        if from_rows:
            yield warning("over-capacity", text + " The answer rests on the rows alone.")
        else:
            yield fatal("over-capacity", text)
    elif r > 1 and r == capacity and not from_rows:
        yield warning(
            "capacity-margin",
            f"{r} components are the most that order {moments.order} with {d} features "
            "identifies; a higher order leaves a margin.",
        )
    if n < LEAST_ROWS_PER_PARAMETER * n_parameters:
        yield fatal(
            "too-few-rows",
            f"too few rows: {n:.0f} rows for {n_parameters} parameters. Use at least "
            f"{LEAST_ROWS_PER_PARAMETER * n_parameters} rows, or fewer components.",
        )


def find_constants(moments: StandardMoments) -> list[Finding]:
    """What to say of columns that hold one value only, which the fit leaves out."""
    columns = np.flatnonzero(moments.constant & moments.is_number)
    others = np.flatnonzero(moments.constant & ~moments.is_number).tolist()
    levels = [moments.part(j).words for j in others if not moments.part(j).is_seen]
    found = []
    if levels:
        listed = ", ".join(levels)
        found = [
            warning(
                "empty-level",
                f"{listed}: the same in all rows, as of a level that nobody has; components give "
                "it a probability of nearly 0. Leave the level out, or join it with another.",
            )
        ]
    if not columns.size:
        return found
    listed = column_names(moments, columns.tolist())
    text = f"{listed} hold one value only; they take no part in the fit and get"
    if columns.size == 1:
        text = f"{listed} holds one value only; it takes no part in the fit and gets"
    text += f" the variance floor. Leave {'it' if columns.size == 1 else 'them'} out."
    return [*found, warning("constant-column", text)]


def _about_shapes(
    moments: StandardMoments, p: Parameters, test: OverIdentification
) -> Iterator[Finding]:
    """Columns whose powers the test rejects, the worst first."""
    if moments.powers is None:
        return
    features = {shape_of(moments.column_name(j)): j for j in range(moments.n_features)}
    rejected = [features[g.name] for g in test.rejected_groups if g.name in features]
    powers = feature_powers(p, 4)
    gaps = [moments.powers[k] - p.weights @ powers[3 + k] for k in range(2)]
    if rejected:
        words = [(j, shape_words(float(gaps[0][j]), float(gaps[1][j]))) for j in rejected]
        has_law = set(p.blocks.with_law.tolist())
        offers = {j: offer_from_moments(moments, j, has_law) for j in rejected}
        yield warning("column-shape", shape_text(moments, words, offers))


def _influenced_feature(moments: StandardMoments) -> list[int]:
    """The feature whose farthest row moves third moments most, if it moves them too much."""
    farthest = np.where(moments.is_number, _farthest(moments), 0.0)
    # One row's share in a third moment against that moment's noise 1/√N.
    influence = farthest**3 / np.sqrt(moments.n_effective)
    j = int(influence.argmax())
    # Normal rows reach 6 deviations, and then by chance: neither alone is an outlier.
    return [j] if influence[j] > 10 and farthest[j] > 8 else []


def _farthest(moments: StandardMoments) -> Float:
    low, high = moments.standard_range
    return np.maximum(-low, high)


def _about_outliers(
    moments: StandardMoments, influenced: list[int], were_rows_checked: bool
) -> Iterator[Finding]:
    for j in influenced:
        far, n = float(_farthest(moments)[j]), moments.n_effective
        fourth = np.nan if moments.powers is None else float(moments.powers[1, j])
        dominates = far**2 > _SHARE_OF_VARIANCE * n
        if np.isfinite(fourth):
            dominates = far**4 > _SHARE_OF_FOURTH_MOMENT * n * fourth
        text = (
            f"column {moments.column_name(j)} has a value {far:.3g} standard deviations from its "
            f"mean; that one row moves third moments by {far**3 / np.sqrt(n):.2g} times their "
            "noise. "
        )
        if dominates:
            text += "The fit is about this row. Correct it or leave it out."
            yield fatal("outlier-influence", text)
        elif not were_rows_checked:  # else no row lies alone: it is the tail of the column
            yield warning("outlier-influence", text + "Check it.")


def _heavy_tailed(moments: StandardMoments, p: Parameters, others: list[int]) -> list[int]:
    """Features with a larger fourth moment than the mixture's, but for `others`."""
    if moments.powers is None:
        return []
    powers = feature_powers(p, 8)
    fourth, eighth = p.weights @ powers[4], p.weights @ powers[8]
    excess = np.nan_to_num(moments.powers[1] - fourth)
    noise = np.sqrt((eighth - fourth**2) / moments.n_effective)
    heavy = (excess > _EXCESS_THAT_MATTERS) & (excess > SIGNIFICANT_DEVIATES * noise)
    return [j for j in np.flatnonzero(heavy).tolist() if j not in others]


def _about_tails(moments: StandardMoments, heavy: list[int]) -> Iterator[Finding]:
    if heavy:
        names = column_names(moments, heavy)
        yield warning(
            "heavy-tails",
            f"{names}: the fourth moment is larger than the mixture's, as that of heavy tails or "
            "of a small component that was missed. Transform or trim such columns.",
        )


def _about_test(test: OverIdentification) -> Iterator[Finding]:
    if test.overdispersed_model:
        yield fatal(
            "no-power",
            f"the test says nothing: a statistic of {test.statistic:.3g} on "
            f"{test.degrees_of_freedom} degrees of freedom is far below chance, as where a few "
            "extreme rows carry the moments. Trim or transform heavy-tailed columns.",
        )
    if test.testable and test.condition_number > LARGE_CONDITION_NUMBER:
        known = test.condition_number < 1 / np.finfo(float).eps
        condition = f" (condition number {test.condition_number:.1g})" if known else ""
        yield warning(
            "conditioning",
            f"the parameters are barely determined by the moments{condition}; some components may "
            "be interchangeable. Use fewer components, a higher order, or more rows.",
        )
