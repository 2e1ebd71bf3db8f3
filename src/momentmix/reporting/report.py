"""`report`: a model, and optionally data, as one HTML file."""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from momentmix.atomic_file import atomic_write
from momentmix.displays.rows import shown_rows
from momentmix.displays.style import check_drawable
from momentmix.errors import InputError, InputTypeError, needed, printable, without_secrets
from momentmix.fitting.record import mixture_and_result
from momentmix.fitting.result import FitResult, versions
from momentmix.html.palette import COLORS, ink_on
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.separation import separation_words
from momentmix.progress import step, tell
from momentmix.reporting import page
from momentmix.reporting.pictures import MOST_POINTS, SETTINGS, draw_columns, draw_pairs
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import open_rows
from momentmix.tables.opening import Reading, path_list
from momentmix.tables.table_rows import TableRows
from momentmix.wording import cut, no_group, percent, plural

_HEIGHT = "40rem"  # in a notebook; the page scrolls within
_MOST_ROWS = 4000  # in the pictures; more points hide one another and make the file large
_LETTERS = 60  # of the name of the data in the title
_FIGURES = re.compile(r" \([\d.]+\)")  # of an answer, which the first screen leaves out


@dataclass(frozen=True, repr=False)
class ReportPage:
    """A report that a notebook shows; `html` is the page."""

    html: str

    def _repr_html_(self) -> str:
        style = f"width:100%;height:{_HEIGHT};border:1px solid rgba(128,128,128,.35)"
        return f'<iframe sandbox style="{style}" srcdoc="{escape(self.html)}"></iframe>'


def report(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    data: Any = None,
    *,
    names: Sequence[str] | None = None,
    date: datetime.date | str | None = None,
    command: str | None = None,
    data_name: str | None = None,
) -> ReportPage | None:
    """Write a report on a fit as one HTML file that needs no network and no scripts.

    It begins with the verdict and its three answers. Then come a card for each component, all of
    them side by side, what to do next, pictures of columns and of pairs of columns; all parameters
    and statistics for experts are folded away.

    Parameters
    ----------
    model : path, FitResult, MomentGaussianMixture, MomentMixture or Mixture
        A model file written by ``momentmix fit`` or `FitResult.save` holds the certificate and the
        intervals; a bare mixture does not.
    path : str or path, optional
        The file; it is replaced atomically if it exists. Without one, the page is returned.
    data : anything that `open_rows` takes, optional
        Rows for the pictures, read as those of the fit were; without, there is the model alone.
    names : sequence of str, optional
        Names of the components, one for each; made of what is different in them by default.
    date : date or str, optional
        Date of the report, such as "2025-01-31"; today by default. The same model, data and date
        give the same bytes.
    command, data_name : str, optional
        Command line and name of the data; by default the name of the file that `data` is.

    Returns
    -------
    ReportPage or None
        Where there is no path: a page that notebooks show, with the attribute `html`.

    Examples
    --------
    >>> import tempfile, pathlib, momentmix as mm
    >>> mixture = mm.Mixture.diagonal([0.5, 0.5], [[-2.0], [2.0]], [[1.0], [1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "report.html")
    ...     mm.report(mixture, file, names=["cold", "warm"])
    ...     file.read_text()[:15]
    '<!DOCTYPE html>'
    """
    mixture, result = mixture_and_result(model)
    try:
        today = datetime.datetime.now(datetime.UTC).date()
        day = today if date is None else datetime.date.fromisoformat(str(date))
    except ValueError:
        raise InputError(f"date must be a date such as '2025-01-31'; got {date!a}.") from None
    profile = (result or mixture).profile(names)
    if data_name is None:
        paths = map(without_secrets, path_list(data) if data is not None else [])
        data_name = ", ".join(os.path.basename(os.path.normpath(path)) for path in paths)
    made_of = {
        "Model": os.fspath(model) if isinstance(model, str | os.PathLike) else "",
        "Data": without_secrets(data_name),
        "Report by": without_secrets(command or ""),
        "Report with": ", ".join(f"{name} {number}" for name, number in versions().items()),
    }
    made_of = {label: text for label, text in made_of.items() if text}
    check_drawable(mixture)
    n_rows = None if result is None else result.n_rows
    rows = components = None
    with step("Report"):
        if data is not None:
            tell("reading rows")
            opened = _opened(data, mixture, result)
            rows, components, n_rows = shown_rows(mixture, opened, _MOST_ROWS)
        tell("pictures")
        from matplotlib import style as styles

        with styles.context(["default", SETTINGS]):
            columns = draw_columns(mixture, rows)
            pairs = draw_pairs(mixture, rows, components)
    certificate = None if result is None else result.certificate
    intervals = result.intervals() if result is not None and result.has_errors else None
    heat, n_left_out = page.side_by_side(mixture)
    parameters, parameter_notes = page.parameter_rows(mixture, intervals)
    style, policy = _style()
    sections = {
        "groups": "What are the groups?",
        "numbers": "The groups side by side" if len(profile) > 1 else "",
        "next": "What to do next",
        "columns": "What do the columns look like?",
        "pairs": "Which pairs of columns separate the groups?" if pairs else "",
        "experts": "For experts",
    }
    text = _template().render(
        title=_title(mixture, n_rows, made_of.get("Data", "")),
        style=style,
        policy=policy,
        day=day,
        model_name=made_of.get("Model"),
        sections=[pair for pair in sections.items() if pair[1]],
        certificate=certificate,
        verdict=certificate and page.verdict(certificate),
        actions=certificate and page.actions(certificate, mixture),
        profile=list(profile),
        background=mixture.background is not None and no_group(mixture.background_weight),
        heat=heat,
        n_levels_left_out=n_left_out,
        has_logarithm=any(column.transform for column in mixture.columns),
        columns=columns,
        n_columns=mixture.n_columns,
        has_rows=rows is not None,
        pairs=pairs,
        n_points=0 if components is None else min(len(components), MOST_POINTS),
        parameters=parameters,
        parameter_notes=parameter_notes,
        tried=[page.trial_row(trial) for trial in result.tried] if result else [],
        made=[*page.facts(mixture, result), *made_of.items()],
    )
    if path is None:
        return ReportPage(text)
    atomic_write(path, text.encode())
    return None


def _title(mixture: Mixture, n_rows: int | None, data_name: str) -> str:
    """The title: ``3 groups in 60,000 rows of customers.csv``."""
    r, d = mixture.n_components, mixture.n_features
    title = f"{r} group{plural(r)} in "
    title += f"{d} column{plural(d)}" if n_rows is None else f"{n_rows:,} rows"
    return f"{title} of {cut(data_name, _LETTERS)}" if data_name else title


# -- the template ------------------------------------------------------------------------------


@cache
def _template() -> Any:
    jinja2 = needed("jinja2", "reports need Jinja2", "momentmix[report]")
    markup = needed("markupsafe", "reports need Jinja2", "momentmix[report]").Markup
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        finalize=lambda x: printable(x) if type(x) is str else x,  # control characters escaped
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "classes": _classes,
        "cut": cut,
        "joined": lambda text: markup(escape(printable(text)).replace(" %", "&nbsp;%")),
        "percent": percent,
        "plain": lambda text: _FIGURES.sub("", text),
        "separation": separation_words,
    }
    return environment.from_string(_resource("page.html.j2"))


def _resource(name: str) -> str:
    return files("momentmix.reporting").joinpath(name).read_text(encoding="utf-8")


def _classes(component: int) -> str:
    """Classes of a component: its color and, where colors repeat, its mark."""
    turn, color = divmod(component, len(COLORS))
    return f"c{color} m{turn}" if turn else f"c{color}"


@cache
def _style() -> tuple[str, str]:
    """The style sheet, and the policy by which a browser uses it and runs and loads nothing."""
    style = _resource("style.css")
    for i, color in enumerate(COLORS):  # of chips, of edges, and of bars
        style += f".c{i}{{--own:{color};--on:{ink_on(color)}}}\n"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return style, (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )


# -- data ----------------------------------------------------------------------------------------


def _opened(data: Any, mixture: Mixture, result: FitResult | None) -> Any:
    """Open rows as those of the fit were opened, with the columns of the model."""
    if isinstance(data, MomentSummary):
        raise InputTypeError("a report draws rows; a summary has none. Leave it out.")
    if result is None or isinstance(data, TableRows):
        return data
    options = result.options or {}
    given = {key: x for key, x in options.items() if key in vars(Reading()) and key != "exclude"}
    if mixture.feature_names is not None:
        given["columns"] = list(mixture.feature_names)
    missing = options.get("missing", "error")
    return open_rows(data, missing=missing, **given) if given or missing != "error" else data
