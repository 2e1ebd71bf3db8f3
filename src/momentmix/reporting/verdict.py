"""Does the model fit the data, and what to do next."""

from __future__ import annotations

import re

from momentmix.fitting.inference.certificate import Certificate, rejected_lines
from momentmix.fitting.inference.findings import Severity
from momentmix.html.markup import escaped, folded, items
from momentmix.mixture.overall import column_names
from momentmix.reporting.actions import Action, actions, columns_in
from momentmix.reporting.contents import Contents
from momentmix.reporting.words import NO_RECORD, answers, verdict

_NUMBERED = re.compile(r"\bcolumns? (?:[a-z ]+: )?\d")
_BANNERS = {  # CSS class and words of each verdict
    "passed": ("good", "✓ Yes"),
    "not passed": ("bad", "✗ No"),
    "untested": ("plain", "? Not tested"),
}
_LABELS = {
    Severity.FATAL: "Needed",
    Severity.WARNING: "Worth a look",
    Severity.NOTE: "Good to know",
}
_KINDS = {Severity.FATAL: "bad", Severity.WARNING: "warn", Severity.NOTE: "plain"}


def fit_section(c: Contents) -> list[str]:
    """Yes, no or not tested, and why."""
    if c.record is None:
        text = escaped(NO_RECORD)
        return [f'<p class="verdict plain"><strong>? Not tested</strong> {text}</p>']
    certificate = c.record.certificate
    kind, word = _BANNERS[certificate.verdict]
    text = escaped(verdict(certificate))
    parts = [f'<p class="verdict {kind}"><strong>{word}</strong> {text}</p>', '<dl class="asked">']
    for answer in answers(certificate):
        short = f'<span class="answer">{escaped(answer.short)}.</span>'
        parts.append(f"<div><dt>{escaped(answer.question)}</dt>")
        parts.append(f"<dd>{short} {escaped(answer.text)}</dd></div>")
    parts.append("</dl>")
    return [*parts, folded("The statistics behind this", *_statistics(certificate))]


def _statistics(c: Certificate) -> list[str]:
    numbers = [f"{a.question} {a.numbers}" for a in answers(c) if a.numbers]
    parts = [f"<p>Certificate: {escaped(c.verdict)}.</p>", items(numbers)]
    if c.reasons:
        parts += ["<p>Reasons against the fit:</p>", items(c.reasons)]
    rejected = rejected_lines(c.test)
    if rejected:
        parts += ["<p>Moments that do not fit:</p>", items(rejected)]
    if c.untested:
        parts += ["<p>Not tested:</p>", items(c.untested)]
    others = [f for f in c.findings if f.severity is not Severity.FATAL]
    if others:
        parts += ["<p>Also found:</p>", items(str(f) for f in others)]
    return parts


def next_section(c: Contents) -> list[str]:
    """Actions, the most important first; those that need nothing are folded."""
    found = [] if c.record is None else actions(c.record.certificate, c.mixture)
    if c.facts is not None:
        warned = Severity.WARNING
        said = set() if c.record is None else {f.name for f in c.record.certificate.findings}
        found += [Action(text, "", warned) for text in c.facts.findings(c.names, said)]
        order = list(_LABELS)
        found.sort(key=lambda action: order.index(action.severity))
    to_do = [a for a in found if a.severity is not Severity.NOTE]
    noted = [a for a in found if a.severity is Severity.NOTE]
    parts = [_listed(to_do)] if to_do else [f"<p>{_nothing(c)}</p>"]
    if noted:
        parts.append(folded(f"Good to know: {len(noted)}", _listed(noted)))
    texts = [] if c.record is None else [f.text for f in c.record.certificate.findings]
    if c.mixture.feature_names is not None and any(_NUMBERED.search(t) for t in texts):
        listed = ", ".join(f"{j} {name}" for j, name in enumerate(c.names))
        parts.append(f'<p class="soft">Columns are numbered from 0: {escaped(listed)}.</p>')
    return parts


def columns_to_see(c: Contents) -> set[str]:
    """Names of the columns that an action is about."""
    if c.record is None:
        return set()
    findings = [f for f in c.record.certificate.findings if f.severity is not Severity.NOTE]
    plain = {x for finding in findings for x in columns_in(finding.text, c.mixture)}
    pairs = zip(column_names(c.mixture), c.names, strict=True)
    return {shown for name, shown in pairs if name in plain}


def _nothing(c: Contents) -> str:
    use = "<code>momentmix predict</code> gives the group of every row."
    if c.record is None:
        return f"Fit the model with a record of the fit, to know whether it can be trusted. {use}"
    return f"Nothing needs to be changed. {use}"


def _listed(found: list[Action]) -> str:
    return f'<ol class="actions">{"".join(map(_item, found))}</ol>'


def _item(action: Action) -> str:
    label = f'<span class="tag {_KINDS[action.severity]}">{_LABELS[action.severity]}</span>'
    why = f" <span>{escaped(action.why)}</span>" if action.why else ""
    code = f" <code>{escaped(action.code)}</code>" if action.code else ""
    details = folded("In the words of statistics", f"<p>{escaped(action.details)}</p>")
    return (
        f"<li>{label} <strong>{escaped(action.text)}</strong>{why}{code}"
        f"{details if action.details else ''}</li>"
    )
