"""Whether to believe a fit, and what to do next: the certificate in plain words.

Findings that have one sentence become one action.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from momentmix.findings.finding import FATAL, NOTE, WARNING, Finding, Severity
from momentmix.fitting.inference.certificate import (
    Answer,
    Certificate,
)
from momentmix.html.markup import escaped, folded, items
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import column_names
from momentmix.reporting.contents import Contents, verdict

_NO_RECORD = (
    "This model file holds no record of a fit, so there are no certificate and no intervals. "
    "momentmix fit, and FitResult.save in Python, write one."
)
_BANNERS = {  # CSS class and words of each verdict
    "passed": ("good", "✓ Passed"),
    "useful": ("good", "✓ Useful"),
    "not passed": ("bad", "✗ Not passed"),
    "untested": ("plain", "? Not tested"),
}
_LABELS = {  # CSS class and words of each severity
    FATAL: ("bad", "Needed"),
    WARNING: ("warn", "Worth a look"),
    NOTE: ("plain", "Good to know"),
}


def first_screen(c: Contents) -> str:
    """Return the verdict, what to do first where a fit did not pass, and the three answers."""
    certificate = None if c.record is None else c.record.certificate
    kind, word = _BANNERS["untested" if certificate is None else certificate.verdict]
    text = _NO_RECORD if certificate is None else verdict(certificate)
    parts = [f'<p class="verdict {kind}"><strong>{word}</strong> {escaped(text)}</p>']
    if certificate is not None:
        if certificate.verdict == "not passed":
            first = actions(certificate, c.mixture)[:1]
            link = '<a href="#next">First:</a>'
            parts += [f'<p class="first">{link} {_words(x)}</p>' for x in first]
        parts.append(_asked(certificate.answers))
    return "\n".join(parts)


def _asked(answers: list[Answer]) -> str:
    """Return questions with their answers beside one another."""
    parts = (
        f'<div><dt>{escaped(a.question)}</dt><dd><span class="answer">{escaped(a.short)}:</span> '
        f"{escaped(a.text)}</dd></div>"
        for a in answers
    )
    return f'<dl class="asked">{"".join(parts)}</dl>'


def statistics_of(c: Certificate) -> list[str]:
    """Return the numbers of a certificate, and its findings in the words of statistics."""
    numbers = [f"{name}: {value}" for name, value in c.numbers()]
    if c.support is not None:
        numbers.append(f"number of groups: {c.support.text}")
    return [f"<p>Certificate: {escaped(c.verdict)}.</p>", items(numbers)]


# -- what to do ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Action:
    """Something to do, and why, in plain words."""

    text: str
    why: str
    severity: Severity  # FATAL: without it the groups do not serve


def actions(certificate: Certificate, mixture: Mixture) -> list[Action]:
    """Return actions for the findings of a certificate, the most important first.

    Other options of a fit are no action here: those that help are found by trying them.
    """
    todo = [action_of(f, mixture) for f in [*certificate.findings, *certificate.tests]]
    if certificate.verdict == "useful":  # nothing has to be done
        todo = [replace(x, severity=WARNING) if x.severity is FATAL else x for x in todo]
    return sorted(todo, key=_rank)


def _rank(action: Action) -> int:
    """Return the place of an action: the most severe come first."""
    return -list(Severity).index(action.severity)


def action_of(found: Finding, mixture: Mixture) -> Action:
    """Return the action for a finding, with names of columns."""
    names: dict[Any, Any] = dict(enumerate(column_names(mixture)))
    columns = dict.fromkeys(names.get(x, x) for x in found.columns)
    finding = replace(found, columns=tuple(columns))
    return Action(
        _of_groups(finding.advice),
        _of_groups(finding.text),
        finding.severity,
    )


def _of_groups(text: str) -> str:
    """Return a sentence in which components are groups."""
    text = text.replace("components", "groups").replace("component", "group")
    return text[:1].upper() + text[1:]


def next_section(c: Contents) -> list[str]:
    """Return actions, the most important first; notes are folded."""
    findings = [] if c.record is None else c.record.certificate.findings
    todo = [] if c.record is None else actions(c.record.certificate, c.mixture)
    noted = [action for action in todo if action.severity is NOTE]
    todo = todo[: len(todo) - len(noted)]
    use = "<code>momentmix predict</code> gives the group of every row."
    nothing = "Nothing needs to be changed."
    if c.record is None:
        nothing = "Fit the model with a record of the fit, to know whether it can be trusted."
    parts = [_listed(todo) if todo else f"<p>{nothing} {use}</p>"]
    if noted:
        parts.append(folded(f"Good to know: {len(noted)}", _listed(noted)))
    is_numbered = any(isinstance(column, int) for f in findings for column in f.columns)
    if c.mixture.feature_names is not None and is_numbered:
        listed = ", ".join(f"{j} {name}" for j, name in enumerate(c.names))
        parts.append(f'<p class="soft">Columns are numbered from 0: {escaped(listed)}.</p>')
    return parts


def _listed(found: list[Action]) -> str:
    return f'<ol class="actions">{"".join(map(_item, found))}</ol>'


def _item(action: Action) -> str:
    kind, label = _LABELS[action.severity]
    return f'<li><span class="tag {kind}">{label}</span> {_words(action)}</li>'


def _words(action: Action) -> str:
    return f"<strong>{escaped(action.text)}</strong> <span>{escaped(action.why)}</span>"
