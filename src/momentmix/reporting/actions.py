"""What to do next: findings of one kind as one action, in plain words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from momentmix.findings.finding import FATAL, WARNING, Finding, Severity
from momentmix.findings.messages import Message
from momentmix.fitting.inference.certificate import Certificate, rejected_lines
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import column_names

_DIFFER = "Averages of the data differ from those of the model by more than chance."
_SHAPES = frozenset({"column-shape", "skewed-column"})  # their remedy is a logarithm


@dataclass(frozen=True)
class Action:
    """Something to do, and why, in plain words."""

    text: str
    why: str
    severity: Severity  # FATAL: without it the model does not pass
    code: Message  # keywords of `fit` that do it; may be empty
    details: str  # the findings in the words of statistics
    is_logarithm: bool = False  # whether it is to take logarithms, which comes first


def actions(certificate: Certificate, mixture: Mixture) -> list[Action]:
    """Return what to do, the most important first.

    Where the moments do not fit, what may be the cause of that is needed as well. Logarithms come
    before all else, and then nothing is said of the number of groups, which will change; nor do
    actions ask for more groups and for fewer at once.
    """
    c, number = certificate, _number_asked(certificate)
    is_misfit = any(f.kind == "misfit" for f in c.tests)
    alike: dict[tuple[str, Severity], list[Finding]] = {}
    for finding in sorted(c.findings, key=lambda f: f.severity is not FATAL):
        is_cause = finding.kind == "skewed-column" or (is_misfit and finding.entry.is_cause)
        is_needed = is_cause and finding.severity is WARNING and not c.passed
        severity = FATAL if is_needed else finding.severity
        alike.setdefault((finding.kind, severity), []).append(finding)
    todo = [
        replace(action_of(own, mixture, number), severity=severity)
        for (_, severity), own in alike.items()
    ]
    todo.sort(key=lambda action: not action.is_logarithm)
    return by_severity([*todo, *_of_tests(c, mixture, number)])


def by_severity(found: Iterable[Action]) -> list[Action]:
    """Return the same actions, those that are needed first."""
    return sorted(found, key=lambda action: -list(Severity).index(action.severity))


def _number_asked(c: Certificate) -> str:
    """Which number of groups the actions may ask for: "fewer", "more", or "" for none."""
    findings = [*c.findings, *c.tests]
    if any(_is_logarithm(f) for f in findings):
        return ""
    if any(f.kind in ("spurious-components", "unsupported") for f in findings):
        return "fewer"
    if any(f.entry.asks == "more" and f.severity is FATAL for f in findings):
        return "more"
    return "fewer" if any(f.entry.asks == "fewer" for f in findings) else "more"


def _is_logarithm(finding: Finding) -> bool:
    return finding.kind in _SHAPES and "families" in finding.remedy


def action_of(findings: list[Finding], mixture: Mixture, number: str = "") -> Action:
    """Return one action for findings of one kind, about one column each or several."""
    names = column_names(mixture)
    finding = reduce(_together, (_named(f, names) for f in findings))
    entry = finding.entry
    template = entry.action if entry.asks in ("", number) else entry.other_action
    return Action(
        finding.in_plain_words(template),
        finding.in_plain_words(entry.why),
        finding.severity,
        finding.code,
        " ".join(f.text for f in findings),
        _is_logarithm(finding),
    )


def _named(finding: Finding, names: list[str]) -> Finding:
    """Return the finding with names for columns that it numbers."""

    def name(column: Any) -> Any:
        known = isinstance(column, int) and column < len(names)
        return names[column] if known else column

    return replace(finding, columns=tuple(map(name, finding.columns)))


def _together(first: Finding, second: Finding) -> Finding:
    """Return a finding about the columns and components of both."""
    columns = tuple(dict.fromkeys([*first.columns, *second.columns]))
    remedy = {**second.remedy, **first.remedy}
    if "families" in first.remedy and "families" in second.remedy:
        remedy["families"] = {**first.remedy["families"], **second.remedy["families"]}
    components = first.components + second.components
    return replace(first, columns=columns, components=components, remedy=remedy)


def _of_tests(c: Certificate, mixture: Mixture, number: str) -> list[Action]:
    """Return what the tests of the certificate ask for, beside the findings."""
    reasons = [_of_test(c, f, mixture, number) for f in c.tests if f.severity is FATAL]
    if reasons and not number:  # logarithms first: all else may change
        reasons = [
            Action(
                "Then fit again: the number of groups may change.",
                " ".join(action.why for action in reasons),
                FATAL,
                Message(),
                " ".join(action.details for action in reasons),
            )
        ]
    others = [f for f in c.tests if f.severity is not FATAL]
    return [*reasons, *(action_of([f], mixture, number) for f in others)]


def _of_test(c: Certificate, finding: Finding, mixture: Mixture, number: str) -> Action:
    action = action_of([finding], mixture, number)
    if finding.kind != "misfit":
        return action
    details = f"{finding.text} {'; '.join(rejected_lines(c.test))}"
    if not any(f.entry.is_cause for f in c.findings):
        return replace(action, details=details)
    again = ", with more groups if it still does not fit" if number == "more" else ""
    return replace(action, text=f"Then fit again{again}.", why=_DIFFER, details=details)
