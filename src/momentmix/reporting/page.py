"""The HTML page of a report, section by section."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from momentmix.displays.style import joined_columns, strongest_pairs, value_names_of
from momentmix.fitting.inference.certificate import rejected_lines
from momentmix.fitting.inference.findings import Severity
from momentmix.fitting.inference.standard_errors import Intervals
from momentmix.fitting.record import FitRecord, versions
from momentmix.html.markup import (
    Cell,
    definition_table,
    escaped,
    items,
    section,
    sortable_table,
)
from momentmix.mixture.mixture import Mixture
from momentmix.reporting.data_facts import DataFacts
from momentmix.reporting.families import (
    component_cells,
    component_headings,
    data_tables,
    families_of,
    parameter_tables,
)
from momentmix.reporting.pictures import Picture
from momentmix.reporting.words import answers, verdict

_NUMBERED = re.compile(r"\bcolumns? (correlated within components: )?\d")
_NO_RECORD = (
    "This model file holds no record of a fit, so there are no certificate and no intervals. "
    "momentmix fit, and FitResult.save in Python, write one."
)
_SECTIONS = (
    ("summary", "Summary"),
    ("certificate", "Can this fit be trusted?"),
    ("tried", "Number of components: what was tried"),
    ("components", "Components"),
    ("parameters", "Parameters with 95 % intervals"),
    ("pictures", "Pictures"),
    ("data", "Quality of the data"),
    ("made", "How this was made"),
)

_MOST_PAIRS = 20  # pairs of joined columns in the table, the strongest of them

_BANNERS = {  # CSS class and words of each verdict
    "passed": ("good", "✓ Passed"),
    "not passed": ("bad", "✗ Not passed"),
    "untested": ("plain", "? Untested"),
}


@dataclass(frozen=True)
class Contents:
    """What a report shows.

    Attributes
    ----------
    mixture : Mixture
    record : FitRecord or None
    facts : DataFacts or None
        Facts about the data; None if no data were given.
    pictures : sequence of Picture
    model_name, data_name : str or None
        Names of files.
    command : str or None
        The command that made the report.
    """

    mixture: Mixture
    record: FitRecord | None
    facts: DataFacts | None
    pictures: Sequence[Picture]
    model_name: str | None = None
    data_name: str | None = None
    command: str | None = None

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return value_names_of(self.mixture)

    @property
    def intervals(self) -> Intervals | None:
        """95 % intervals, if the record of the fit has them."""
        return None if self.record is None else self.record.intervals


def page(c: Contents) -> str:
    """The HTML file as text."""
    style, script = (
        files("momentmix.reporting").joinpath(name).read_text(encoding="utf-8")
        for name in ("style.css", "sort.js")
    )
    m = c.mixture
    title = (
        f"Mixture of {m.n_components} component{'s' if m.n_components > 1 else ''}, "
        f"{m.n_features} {'feature' if m.schema is None else 'column'}"
        f"{'s' if m.n_features > 1 else ''}"
    )
    makers = (_summary, _certificate, _tried, _components, _parameters, _pictures, _data, _made)
    made = [(*names, make(c)) for names, make in zip(_SECTIONS, makers, strict=True)]
    sections = [(name, heading, parts) for name, heading, parts in made if parts]
    body = "\n".join(section(name, heading, *parts) for name, heading, parts in sections)
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading, _ in sections)
    lead = f"Report on {c.model_name}." if c.model_name else "Report on a fitted mixture."
    # The browser may run only this script and style, and load nothing.
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)} – momentmix report</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">To the contents</a>
<header>
<h1>{escaped(title)}</h1>
<p>{escaped(lead)}</p>
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main id="main">
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# -- sections ---------------------------------------------------------------------------------


def _summary(c: Contents) -> list[str]:
    m, record, facts = c.mixture, c.record, c.facts
    entries: list[tuple[str, object]] = [
        ("Components", m.n_components),
        ("Features" if m.schema is None else "Columns", m.n_features),
        *families_of(m),
    ]
    joined = joined_columns(m) if record is None or not record.joined else record.joined
    entries += [("Joined columns", str(columns)) for columns in joined]
    if record is not None:
        refined = (
            f"EM, {record.n_passes} passes over the rows in all"
            + ("" if record.converged else ", not converged")
            if record.refine == "em"
            else "none: the parameters come from the moments alone"
        )
        entries += [
            ("Rows fitted", f"{record.n_rows:,}"),
            ("Method", f"{record.method}, moments up to order {record.order}"),
            ("Refinement", refined),
            ("Parameters from", record.winner),
        ]
        if record.log_likelihood is not None:
            entries.append(("Log-likelihood per row", f"{record.log_likelihood:.6g}"))
        entries += [("Note", note) for note in record.notes]
    if facts is not None and facts.log_likelihood is not None:
        label = "Log-likelihood per row of the data given here"
        entries.append((label, f"{facts.log_likelihood:.6g}"))
    return [_banner(record), definition_table("summary-table", "The fit at a glance", entries)]


def _banner(record: FitRecord | None) -> str:
    if record is None:
        return f'<p class="verdict plain"><strong>No certificate</strong> {escaped(_NO_RECORD)}</p>'
    kind, word = _BANNERS[record.certificate.verdict]
    text = escaped(verdict(record.certificate))
    return f'<p class="verdict {kind}"><strong>Certificate: {word}</strong> {text}</p>'


def _certificate(c: Contents) -> list[str]:
    if c.record is None:
        return [f"<p>{escaped(_NO_RECORD)}</p>"]
    certificate = c.record.certificate
    parts = []
    for answer in answers(certificate):
        parts.append(f"<h3>{escaped(answer.question)}</h3>")
        short = f'<span class="answer">{escaped(answer.short)}.</span>'
        parts.append(f"<p>{short} {escaped(answer.text)}</p>")
    if certificate.reasons:
        parts += ["<h3>Reasons against it</h3>", items(certificate.reasons)]
    rejected = rejected_lines(certificate.test)
    if rejected:
        parts += ["<h3>Moments that do not fit</h3>", items(rejected)]
    if certificate.untested:
        parts += ["<h3>Not tested</h3>", items(certificate.untested)]
    others = [f for f in certificate.findings if f.severity is not Severity.FATAL]
    if others:
        parts += ["<h3>Also found</h3>", items(str(f) for f in others)]
    numbered = any(_NUMBERED.search(f.text) for f in certificate.findings)
    if c.mixture.feature_names is not None and numbered:  # a model of rows without names
        listed = ", ".join(f"{j} {name}" for j, name in enumerate(c.names))
        parts.append(f'<p class="soft">Columns are numbered from 0: {escaped(listed)}.</p>')
    return parts


def _tried(c: Contents) -> list[str]:
    if c.record is None or not c.record.tried:
        return []
    text = (
        "The number of components was chosen automatically. A p-value below 0.01 says that a "
        "number does not fit the moments. BIC weighs the likelihood of the rows against the number "
        "of parameters: lower is better."
    )
    headings = ["Components", "p-value", "Log-likelihood per row", "BIC", "Chosen"]
    rows = []
    for t in c.record.tried:
        cells = [
            Cell(str(t.n_components), float(t.n_components)),
            Cell.number(t.p_value, digits=2),
            Cell.number(t.log_likelihood, digits=6),
            Cell.number(t.bic, digits=9),
        ]
        chosen = "yes" if t.chosen else "no"
        rows.append([*cells, Cell(chosen, chosen)])
    caption = "One row for each number of components that was tried"
    return [f"<p>{text}</p>", sortable_table("tried-table", caption, headings, rows)]


def _components(c: Contents) -> list[str]:
    m, ends = c.mixture, c.intervals
    counts = None if c.facts is None else c.facts.counts
    headings = ["Component", "Weight"]
    headings += ["Rows"] if counts is not None else []
    headings += component_headings(m)
    rows = []
    for i in range(m.n_components):
        low, high = (None, None) if ends is None else (ends.weights[0][i], ends.weights[1][i])
        row = [Cell(str(i), float(i)), Cell.number(m.weights[i], low, high)]
        if counts is not None:
            row.append(Cell(f"{counts[i]:,}", float(counts[i])))
        row += component_cells(m, i)
        rows.append(row)
    hint = '<p class="soft hint">Click a heading to sort the table (needs scripts).</p>'
    return [hint, sortable_table("component-table", "One row for each component", headings, rows)]


def _parameters(c: Contents) -> list[str]:
    note = (
        "Each number is followed by its 95 % interval."
        if c.intervals is not None
        else "No intervals are recorded for this model."
    )
    tables = [_parameter_table(c)]
    if c.mixture.schema is not None:
        tables = parameter_tables(c.mixture, c.intervals)
    return [f'<p class="soft">{note}</p>', *tables, *_correlations(c)]


def _parameter_table(c: Contents) -> str:
    m, ends = c.mixture, c.intervals
    headings = ["Component", "Feature", "Mean", "Standard deviation", "Variance"]
    rows = []
    for i in range(m.n_components):
        for j, name in enumerate(c.names):
            mean, variance = float(m.means[i, j]), float(m.variances[i, j])
            cells = [Cell.number(mean), Cell.number(variance**0.5), Cell.number(variance)]
            if ends is not None:
                low, high = (float(end[i, j]) for end in ends.means)
                least, most = (float(end[i, j]) for end in ends.variances)
                cells = [
                    Cell.number(mean, low, high),
                    Cell.number(variance**0.5, least**0.5, most**0.5),
                    Cell.number(variance, least, most),
                ]
            rows.append([Cell(str(i), float(i)), Cell(name, name), *cells])
    caption = "Means and spreads of every feature in every component"
    return sortable_table("parameter-table", caption, headings, rows)


def _correlations(c: Contents) -> list[str]:
    """A table of the strongest correlations of joined columns, where there are any."""
    p, ends = c.mixture.parameters, None if c.intervals is None else c.intervals.covariances
    if not p.blocks.n_pairs:
        return []
    shown = strongest_pairs(c.mixture, _MOST_PAIRS)
    column_of = range(len(c.names)) if c.mixture.schema is None else c.mixture.schema.column_of
    rows = []
    for i in range(c.mixture.n_components):
        for place in shown:
            j, k = (column_of[feature] for feature in p.blocks.pairs[place])
            low, high = (None, None) if ends is None else (float(end[i, j, k]) for end in ends)
            names = f"{c.names[j]}, {c.names[k]}"
            correlation = Cell.number(p.correlations[i, place], digits=3)
            covariance = Cell.number(p.covariances[i, place], low, high)
            rows.append([Cell(str(i), float(i)), Cell(names, names), correlation, covariance])
    text = "Joined columns may be correlated within components; all others are independent there."
    if len(shown) < p.blocks.n_pairs:
        text += f" Shown are the {len(shown)} most correlated of {p.blocks.n_pairs} pairs."
    headings = ["Component", "Columns", "Correlation", "Covariance"]
    caption = "Correlations of joined columns within components"
    table = sortable_table("correlation-table", caption, headings, rows)
    return [f'<p class="soft">{text}</p>', table]


def _pictures(c: Contents) -> list[str]:
    parts = [
        f"<h3>{escaped(p.title)}</h3>\n"
        f'<figure id="picture-{p.name}">'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(p.title)}">'
        f'<img src="{p.address}" alt="{escaped(p.alt)}"></div>'
        f"<figcaption>{escaped(p.caption)}</figcaption></figure>"
        for p in c.pictures
    ]
    if c.facts is None:
        text = "Give the data (--data) for rows in the pictures and the residuals of the moments."
        parts.append(f'<p class="soft">{text}</p>')
    return parts


def _data(c: Contents) -> list[str]:
    if c.facts is None:
        text = "No data were given to this report (--data)."
        return [f"<p>{text}</p>"]
    s = c.facts.summary
    findings = c.facts.findings(c.names)
    parts = [
        items(findings) if findings else "<p>Nothing unusual was found.</p>",
        f'<p class="soft">{s.n_rows:,} rows were checked for constant columns, copies of columns, '
        "values far from the mean, and rows that are improbable under the model.</p>",
    ]
    if s.schema is not None:
        return [*parts, *data_tables(c.mixture, s.schema, s)]
    headings = ["Feature", "Minimum", "Mean", "Maximum", "Standard deviation"]
    columns = (s.minimum, s.mean, s.maximum, s.deviation)
    rows = [
        [Cell(c.names[j], c.names[j]), *(Cell.number(column[j]) for column in columns)]
        for j in range(s.n_features)
    ]
    return [*parts, sortable_table("data-table", "Columns of the data", headings, rows)]


def _made(c: Contents) -> list[str]:
    entries: list[tuple[str, object]] = []
    if c.record is not None:
        if c.record.command is not None:
            entries.append(("Fitted by", c.record.command))
        seed = "not recorded" if c.record.seed is None else c.record.seed
        entries.append(("Seed", seed))
        made = ", ".join(f"{name} {number}" for name, number in c.record.versions.items())
        entries.append(("Fitted with", made))
    if c.model_name is not None:
        entries.append(("Model", c.model_name))
    if c.data_name is not None:
        entries.append(("Data", c.data_name))
    if c.command is not None:
        entries.append(("Report by", c.command))
    now = ", ".join(f"{name} {number}" for name, number in versions().items())
    entries.append(("Report with", now))
    note = '<p class="soft">The same model and data give the same report, byte for byte.</p>'
    return [definition_table("made-table", "Versions, commands and seed", entries), note]
