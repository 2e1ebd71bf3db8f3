"""What to do next: each finding as an action, with the columns or groups that it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from momentmix.displays.style import full_names_of
from momentmix.fitting.inference.certificate import (
    LARGEST_LOSS,
    UNTESTED,
    Certificate,
    rejected_lines,
)
from momentmix.fitting.inference.findings import Finding, Severity
from momentmix.mixture.mixture import Mixture
from momentmix.wording import listed

_MOST_LISTED = 6  # columns in an action
_MISFIT = "the moments do not fit"
# Findings that can be the cause of a misfit.
_CAUSES = frozenset({
    "column-shape", "heavy-tails", "correlated-columns", "dependent-columns", "dispersion",
    "discrete-column", "repeated-value", "independent-column",
})  # fmt: skip
_CODE = re.compile(r"\b(?:blocks|families)=(?:\"auto\"|\[.*\]|\{.*\})")
_GROUPS = re.compile(r"\bcomponents? ((?:\d+ \(\d+ rows\)(?:, )?)+)")
_NUMBERED = re.compile(r"\bcolumns? (?:correlated within components: )?(\d+(?:(?:, | and )\d+)*)")


@dataclass(frozen=True)
class Action:
    """Something to do, and why.

    Attributes
    ----------
    text : str
        What to do, in plain words.
    why : str
        The reason, in plain words.
    severity : Severity
        FATAL: without it the model does not pass.
    code : str
        Keywords of `fit` that do it; may be empty.
    details : str
        The finding in the words of statistics.
    """

    text: str
    why: str
    severity: Severity
    code: str = ""
    details: str = ""


# Name of a finding → what to do, and why. {columns} and {groups} are filled in from its text.
WORDS: dict[str, tuple[str, str]] = {
    "over-capacity": (
        "Ask for fewer groups, or give more columns.",
        "There are too few columns to tell so many groups apart by averages alone.",
    ),
    "capacity-margin": (
        "Ask for fewer groups, or summarize with a higher order.",
        "This is the largest number of groups that these columns can tell apart.",
    ),
    "too-few-rows": (
        "Collect more rows, or ask for fewer groups.",
        "There are too few rows to describe so many groups.",
    ),
    "empty-level": (
        "Leave out values that no row has: {columns}.",
        "A category that nobody has says nothing about the groups.",
    ),
    "constant-column": (
        "Leave out {columns}.",
        "All rows have the same value there.",
    ),
    "duplicate-columns": (
        "Keep only one of {columns}.",
        "They are copies of each other, and would count twice.",
    ),
    "column-shape": (
        "Look at {columns}: take logarithms, leave out, or ask for more groups.",
        "Within a group the values do not follow the shape that the model expects.",
    ),
    "correlated-columns": (
        "Join columns that move together: {columns}.",
        "Within a group one rises or falls with the other, which the model does not allow for.",
    ),
    "dependent-columns": (
        "Ask for more groups, or keep only one of {columns}.",
        "Within a group one depends on the other, which the model does not allow for.",
    ),
    "outlier-influence": (
        "Check the largest and smallest values of {columns}.",
        "One row lies so far from the others that it changes the answer.",
    ),
    "outlier-rows": (
        "Check the rows that lie far from all others.",
        "Typing errors and codes for missing values such as -999 are the usual cause.",
    ),
    "heavy-tails": (
        "Take logarithms of {columns}, or cut off extreme values.",
        "There are more extreme values than the model expects.",
    ),
    "no-power": (
        "Cut off extreme values, or take logarithms.",
        "A few extreme rows dominate all averages, so that the test cannot see a misfit.",
    ),
    "conditioning": (
        "Ask for fewer groups, or collect more rows.",
        "Some groups are so alike that the data hardly tell them apart.",
    ),
    "spurious-components": (
        "Ask for fewer groups.",
        "{groups}: only a handful of rows.",
    ),
    "light-components": (
        "Read small groups with care, or ask for fewer.",
        "{groups}: few rows, so that the numbers are rough.",
    ),
    "variance-floor": (
        "Look at {columns}.",
        "In some group nearly all rows have the same value there.",
    ),
    "dispersion": (
        "Ask for more groups, or take {columns} as numbers in place of counts.",
        "The counts vary more or less within a group than counts of independent events do.",
    ),
    "missing-by-component": (
        "Nothing to do: cells of {columns} are missing more often in some groups.",
        "The model allows for it. Dropping such rows would change the shares of the groups.",
    ),
    "never-seen": (
        "Leave out {columns}, unless such rows cannot have a value.",
        "In some group the cell is always missing, so that nothing is known of it there.",
    ),
    "no-information": (
        "You may leave out {columns}.",
        "The values are about the same in all groups.",
    ),
    "duplicate-rows": (
        "Keep one of each of the rows that are copies.",
        "Copies are counted as if they were separate observations.",
    ),
    "ordered-rows": (
        "Use every few rows only, or remove the trend first: {columns}.",
        "Neighboring rows are alike, as in a time series, so that there is less information than "
        "the number of rows suggests.",
    ),
    "row-number": (
        "Leave out {columns}.",
        "The values grow evenly from row to row: a row number or a time, not a measurement.",
    ),
    "discrete-column": (
        "Say what {columns} is: a count, a yes/no answer or a category.",
        "There are few different values, and the model takes them for measurements.",
    ),
    "repeated-value": (
        "Check the value that repeats in {columns}.",
        "If it stands for “missing”, leave such rows out or mark the cells as missing.",
    ),
    "rounded-column": (
        "Use values of {columns} that are not rounded, if there are any.",
        "They are rounded so coarsely that it blurs the groups.",
    ),
    "independent-column": (
        "Leave out {columns}, or fit it alone.",
        "It has a shape of its own that is unrelated to the other columns.",
    ),
    "constraint": (
        "Allow the groups to have different spreads.",
        "The rows do not agree with the restriction that was asked for (covariance_type).",
    ),
    UNTESTED: (
        "Check the model on rows that were not used for the fit.",
        "Joined columns with missing cells have no test.",
    ),
}


def actions(certificate: Certificate, mixture: Mixture) -> list[Action]:
    """What to do, the most important first.

    Where the moments do not fit, what may be the cause of that is needed as well.
    """
    misfit = any(reason.startswith(_MISFIT) for reason in certificate.reasons)
    alike: dict[tuple[str, Severity], list[Finding]] = {}
    for finding in sorted(certificate.findings, key=lambda f: f.severity is not Severity.FATAL):
        needed = misfit and finding.name in _CAUSES and finding.severity is Severity.WARNING
        severity = Severity.FATAL if needed else finding.severity
        alike.setdefault((finding.name, severity), []).append(finding)
    found = [_of_findings(own, severity, mixture) for (_, severity), own in alike.items()]
    found += _of_tests(certificate)
    order = [Severity.FATAL, Severity.WARNING, Severity.NOTE]
    return sorted(found, key=lambda action: order.index(action.severity))


def _of_findings(findings: list[Finding], severity: Severity, mixture: Mixture) -> Action:
    """One action for findings of one name, about one column each or several."""
    text, why = WORDS.get(findings[0].name, ("Read this finding.", ""))
    names = list(dict.fromkeys(x for f in findings for x in columns_in(f.text, mixture)))
    groups = [g for f in findings for g in groups_in(f.text)]
    words = {
        "columns": listed([f"“{x}”" for x in names], _MOST_LISTED) or "the columns named below",
        "groups": f"Group{'s' * (len(groups) != 1)} {listed([str(g) for g in groups], 5)}",
    }
    codes = [found[0] for f in findings if (found := _CODE.search(f.text)) is not None]
    code = codes[0].replace("…", ascii(names[0])) if codes and names else ""
    details = " ".join(finding.text for finding in findings)
    return Action(text.format_map(words), why.format_map(words), severity, code, details)


def _of_tests(c: Certificate) -> list[Action]:
    """What the tests of the certificate ask for, beside the findings."""
    found, r = [], c.n_components
    named = {f.name for f in c.findings}
    for reason in c.reasons:
        if reason.startswith(_MISFIT):
            text = "Ask for more groups."
            why = (
                "Averages of the data differ from those of the model by more than chance. Too few "
                "groups, or columns that move together within a group, are the usual causes."
            )
            if _CAUSES & named:
                text = "Then fit again, with more groups if it still does not fit."
                why = "Averages of the data differ from those of the model by more than chance."
            details = "; ".join([reason, *rejected_lines(c.test)])
            found.append(Action(text, why, Severity.FATAL, "", details))
        elif reason.startswith("not supported"):
            text = f"Ask for fewer groups: {r - 1} in place of {r}." if r > 1 else "Fit again."
            why = "Fewer groups, or others, describe the data as well."
            found.append(Action(text, why, Severity.FATAL, "", reason))
    if c.predicted_loss > LARGEST_LOSS:
        text = "Collect more rows, or ask for fewer groups."
        why = "The groups overlap so much that the rows do not fix where one ends."
        details = next(reason for reason in c.reasons if reason.startswith("too imprecise"))
        found.append(Action(text, why, Severity.FATAL, "", details))
    own = {f.text for f in c.findings}
    for reason in c.untested:
        if reason not in own:
            text = "Give the rows in place of a summary, more columns, or ask for fewer groups."
            why = "There are too few averages to compare, so that a misfit could not be seen."
            found.append(Action(text, why, Severity.WARNING, "", reason))
    return found


# -- what a finding is about -------------------------------------------------------------------


def columns_in(text: str, mixture: Mixture) -> list[str]:
    """Names of the columns that a finding is about, in its order."""
    names = full_names_of(mixture)
    numbered = _NUMBERED.search(text)
    if numbered is not None:  # of rows without names
        numbers = [int(x) for x in re.findall(r"\d+", numbered[1])]
        return [names[j] for j in numbers if j < len(names)]
    places: dict[str, int] = {}
    for feature, name in _features(mixture, names):
        place = text.find(ascii(feature))
        if place >= 0:
            places[name] = min(place, places.get(name, place))
    return sorted(places, key=lambda name: places[name])


def _features(mixture: Mixture, names: list[str]) -> Iterable[tuple[str, str]]:
    """Names of columns and of their features, each with that of the column."""
    yield from ((name, name) for name in names)
    if mixture.schema is not None and mixture.schema.feature_names is not None:
        for j, feature in zip(mixture.schema.column_of, mixture.schema.feature_names, strict=True):
            yield feature, names[j]


def groups_in(text: str) -> list[int]:
    """Numbers of the components that a finding is about."""
    found = _GROUPS.search(text)
    return [] if found is None else [int(x) for x in re.findall(r"(\d+) \(", found[1])]
