"""What to do next: each finding as an action, with the columns or groups that it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from momentmix.fitting.inference.certificate import (
    LARGEST_LOSS,
    Certificate,
    rejected_lines,
)
from momentmix.fitting.inference.findings import Finding, Severity
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.overall import column_names
from momentmix.reporting.action_words import ASK_FOR_MORE, NO_NUMBER, WORDS
from momentmix.wording import listed

_MOST_LISTED = 6  # columns in an action
_MISFIT, _UNSUPPORTED = "the moments do not fit", "not supported"
_DIFFER = "Averages of the data differ from those of the model by more than chance."
_USUAL_CAUSES = (
    "Too few groups, or columns that move together within a group, are the usual causes."
)
_LOGARITHMS = "Take logarithms of"
_SHAPES = frozenset({"column-shape", "skewed-column"})
# Findings that can be the cause of a misfit.
_CAUSES = frozenset({
    "column-shape", "heavy-tails", "correlated-columns", "dependent-columns", "dispersion",
    "discrete-column", "repeated-value", "independent-column", "skewed-column", "count-column",
})  # fmt: skip
_CODE = re.compile(r"\b(?:blocks|families)=(?:\"auto\"|\[.*\]|\{.*\}(?: \(--families [^)]*\))?)")
_GROUPS = re.compile(r"\bcomponents? ((?:\d+ \(\d+ rows\)(?:, )?)+)")
_NUMBERED = re.compile(r"\bcolumns? (?:[a-z ]+: )?(\d+(?:(?:, | and )\d+)*)")


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


def actions(certificate: Certificate, mixture: Mixture) -> list[Action]:
    """What to do, the most important first.

    Where the moments do not fit, what may be the cause of that is needed as well. Logarithms come
    before all else, and then nothing is said of the number of groups, which will change; nor do
    actions ask for more groups and for fewer at once.
    """
    misfit = _has(certificate, _MISFIT)
    number = _number_asked(certificate)
    alike: dict[tuple[str, Severity], list[Finding]] = {}
    for finding in sorted(certificate.findings, key=lambda f: f.severity is not Severity.FATAL):
        is_cause = finding.name == "skewed-column" or (misfit and finding.name in _CAUSES)
        is_needed = is_cause and finding.severity is Severity.WARNING and not certificate.passed
        severity = Severity.FATAL if is_needed else finding.severity
        alike.setdefault((finding.name, severity), []).append(finding)
    found = [_of_findings(own, severity, mixture, number) for (_, severity), own in alike.items()]
    found.sort(key=lambda action: not action.text.startswith(_LOGARITHMS))
    found += _of_tests(certificate, number)
    order = [Severity.FATAL, Severity.WARNING, Severity.NOTE]
    return sorted(found, key=lambda action: order.index(action.severity))


def _has(certificate: Certificate, start: str) -> bool:
    return any(reason.startswith(start) for reason in certificate.reasons)


def _number_asked(c: Certificate) -> str:
    """Which number of groups the actions may ask for: "fewer", "more", or "" for none."""
    named = {f.name for f in c.findings}
    if any(_logarithms_in(f) for f in c.findings):
        return ""
    if "spurious-components" in named or _has(c, _UNSUPPORTED):
        return "fewer"
    shaped = any(f.name in ASK_FOR_MORE and f.severity is Severity.FATAL for f in c.findings)
    if shaped or _has(c, _MISFIT):
        return "more"
    fewer = (NO_NUMBER.keys() - ASK_FOR_MORE) & named or c.predicted_loss > LARGEST_LOSS
    return "fewer" if fewer else "more"


def _logarithms_in(finding: Finding) -> str:
    """The code that takes logarithms, where a finding has it."""
    code = _CODE.search(finding.text) if finding.name in _SHAPES else None
    return "" if code is None else code[0]


def _of_findings(
    findings: list[Finding], severity: Severity, mixture: Mixture, number: str
) -> Action:
    """One action for findings of one name, about one column each or several."""
    name = findings[0].name
    text, why = WORDS.get(name, ("Read this finding.", ""))
    if name in NO_NUMBER and number != ("more" if name in ASK_FOR_MORE else "fewer"):
        text = NO_NUMBER[name]
    names = list(dict.fromkeys(x for f in findings for x in columns_in(f.text, mixture)))
    logs = next((code for f in findings if (code := _logarithms_in(f))), "")
    if logs and name == "column-shape":
        taken = [x for x in names if f"{x!a}: 'log" in logs] or names
        others = [x for x in names if x not in taken]
        text = f"{_LOGARITHMS} {_quoted(taken)}."
        text += f" Transform {_quoted(others)} otherwise, or leave out." if others else ""
    groups = [g for f in findings for g in groups_in(f.text)]
    words = {
        "columns": _quoted(names) or "the columns named below",
        "groups": f"Group{'s' * (len(groups) != 1)} {listed([str(g) for g in groups], 5)}",
    }
    codes = [found[0] for f in findings if (found := _CODE.search(f.text)) is not None]
    code = codes[0].replace("…", ascii(names[0])) if codes and names else ""
    details = " ".join(finding.text for finding in findings)
    if not logs or name != "column-shape":
        text = text.format_map(words)
    return Action(text, why.format_map(words), severity, code, details)


def _quoted(names: list[str]) -> str:
    return listed([f"“{x}”" for x in names], _MOST_LISTED)


def _of_tests(c: Certificate, number: str) -> list[Action]:
    """What the tests of the certificate ask for, beside the findings."""
    found = [action for reason in c.reasons if (action := _of_reason(c, reason, number))]
    if found and not number:  # logarithms first: all else may change
        why = " ".join(action.why for action in found)
        details = " ".join(action.details for action in found)
        text = "Then fit again: the number of groups may change."
        found = [Action(text, why, Severity.FATAL, "", details)]
    own = {f.text for f in c.findings}
    for reason in c.untested:
        if reason not in own:
            text = "Give the rows in place of a summary, more columns, or ask for fewer groups."
            if number != "fewer":
                text = "Give the rows in place of a summary, or more columns."
            why = "There are too few averages to compare, so that a misfit could not be seen."
            found.append(Action(text, why, Severity.WARNING, "", reason))
    return found


def _of_reason(c: Certificate, reason: str, number: str) -> Action | None:
    """What to do about a reason that is no finding."""
    r = c.n_components
    if reason.startswith(_MISFIT):
        text, why = "Ask for more groups.", f"{_DIFFER} {_USUAL_CAUSES}"
        if _CAUSES & {f.name for f in c.findings}:
            again = "with more groups if it still does not fit" if number == "more" else ""
            text, why = f"Then fit again{', ' * bool(again)}{again}.", _DIFFER
        elif number != "more":
            text = "Look at the columns where the thin line leaves the gray."
        details = "; ".join([reason, *rejected_lines(c.test)])
    elif reason.startswith(_UNSUPPORTED):
        text = f"Ask for fewer groups: {r - 1} in place of {r}." if r > 1 else "Fit again."
        why, details = "Fewer groups, or others, describe the data as well.", reason
    elif reason.startswith("too imprecise"):
        text = "Collect more rows, or ask for fewer groups."
        if number != "fewer":
            text = "Collect more rows."
        why = "The groups overlap so much that the rows do not fix where one ends."
        details = reason
    else:
        return None
    return Action(text, why, Severity.FATAL, "", details)


# -- what a finding is about -------------------------------------------------------------------


def columns_in(text: str, mixture: Mixture) -> list[str]:
    """Names of the columns that a finding is about, in its order."""
    names = column_names(mixture)
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
