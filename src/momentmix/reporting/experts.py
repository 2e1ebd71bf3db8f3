"""Folded parts for experts: the fit, residuals, correlations, trials, data, versions."""

from __future__ import annotations

from collections.abc import Iterator

from momentmix.fitting.record import versions
from momentmix.html.markup import Cell, definition_table, escaped, folded, sortable_table
from momentmix.mixture.parameter_table import joined_columns
from momentmix.reporting.contents import Contents
from momentmix.reporting.pictures import Picture
from momentmix.reporting.tables import correlation_table, data_tables


def expert_section(c: Contents) -> list[str]:
    """Return folded parts."""
    made = definition_table("made-table", "Versions, commands and seed", _makers(c))
    note = "The same model, data and date give the same report, byte for byte."
    parts = [
        ("glance", "The fit at a glance", _glance(c)),
        ("residuals", "Residuals of the moments", _figure(c.pictures.residuals)),
        ("correlations", "Correlations within groups", correlation_table(c)),
        ("tried", "Number of components: what was tried", _tried(c)),
        ("data", "Quality of the data", _data(c)),
        ("made", "How this was made", [made, f'<p class="soft">{note}</p>']),
    ]
    return [folded(title, *inner, name=name) for name, title, inner in parts if inner]


def _figure(picture: Picture | None) -> list[str]:
    """Return a picture of the full width of the page, where there is one."""
    if picture is None:
        return []
    return [
        f'<figure id="picture-{picture.name}" class="full">'
        f'<img src="{picture.address}" alt="{escaped(picture.alt)}">'
        f"<figcaption>{escaped(picture.caption)}</figcaption></figure>"
    ]


def _glance(c: Contents) -> list[str]:
    m, record, facts = c.mixture, c.record, c.facts
    entries: list[tuple[str, object]] = [
        ("Components", m.n_components),
        ("Features" if m.schema is None else "Columns", m.n_features),
    ]
    families = [] if m.schema is None else m.schema.by_family()
    entries += [(f"Columns: {label}", ", ".join(names)) for label, names in families]
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
    return [definition_table("summary-table", "The fit at a glance", entries)]


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
        numbers = (t.n_components, 20), (t.p_value, 2), (t.log_likelihood, 6), (t.bic, 9)
        cells = [Cell("" if x != x else f"{x:.{n}g}", float(x)) for x, n in numbers]
        chosen = "yes" if t.chosen else "no"
        rows.append([*cells, Cell(chosen, chosen)])
    caption = "One row for each number of components that was tried"
    table = sortable_table("tried-table", caption, headings, rows)
    return [f"<p>{text}</p>", table, *_figure(c.pictures.tried)]


def _data(c: Contents) -> list[str]:
    if c.facts is None:
        return ["<p>No data were given to this report (--data).</p>"]
    s = c.facts.summary
    text = (
        f"{s.n_rows:,} rows were checked for constant columns, copies of columns, values far from "
        "the mean, and rows that are improbable under the model."
    )
    if not c.facts.findings(c.names):
        text += " Nothing unusual was found."
    return [f'<p class="soft">{text}</p>', *data_tables(c.mixture, s)]


def _makers(c: Contents) -> Iterator[tuple[str, object]]:
    if c.record is not None:
        if c.record.command is not None:
            yield "Fitted by", c.record.command
        yield "Seed", "not recorded" if c.record.seed is None else c.record.seed
        yield "Fitted with", _written(c.record.versions)
    named = {"Model": c.model_name, "Data": c.data_name, "Report by": c.command}
    yield from ((label, name) for label, name in named.items() if name is not None)
    yield "Report with", _written(versions())


def _written(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items())
