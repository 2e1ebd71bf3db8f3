"""`report`: a model, and optionally data, as one HTML file."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from numbers import Integral
from typing import Any

from momentmix.atomic_file import atomic_write
from momentmix.errors import InputTypeError, without_secrets
from momentmix.fitting.record import FitRecord, load_fit
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.progress import step, tell
from momentmix.reporting.contents import Contents, day_of
from momentmix.reporting.data_facts import gather
from momentmix.reporting.page import page
from momentmix.reporting.pictures import draw
from momentmix.summary.summary import MomentSummary
from momentmix.tables.opening import Reading, open_rows
from momentmix.tables.table_rows import TableRows

_HEIGHT = "40rem"  # in a notebook; the page scrolls within


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
    data : MomentSummary or anything that `open_rows` takes, optional
        Rows for the pictures, or a summary, whose means and shares the pictures show. For an
        estimator the default is its own summary.
    names : sequence of str, optional
        Names of the components, one for each; made of what is different in them by default.
    date : date or str, optional
        Date of the report, such as "2025-01-31"; by default that of SOURCE_DATE_EPOCH where it is
        set, else today. The same model, data and date give the same bytes.
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
    mixture, record = _mixture_and_record(model)
    day = day_of(date)
    profile = mixture.profile(names) if record is None else record.profile(mixture, names)
    model_name = os.fspath(model) if isinstance(model, str | os.PathLike) else None
    if data is None:
        data = getattr(model, "summary_" if hasattr(model, "fit") else "summary", None)
    paths = data
    if record is not None and not (data is None or isinstance(data, MomentSummary | TableRows)):
        data = _opened(data, mixture, record)
    if data_name is None and isinstance(paths, str | os.PathLike):
        data_name = os.path.basename(without_secrets(os.fspath(paths))) or None
    command, data_name = (
        None if text is None else without_secrets(text) for text in (command, data_name)
    )
    with step("Report"):
        tell("reading rows")
        facts = None if data is None else gather(mixture, data)
        tell("pictures")
        pictures = draw(mixture, facts)
        contents = Contents(
            mixture, record, profile, facts, pictures, day, model_name, data_name, command
        )
        made = page(contents)
        if path is None:
            return ReportPage(made)
        atomic_write(path, made.encode())
    return None


def _opened(data: Any, mixture: Mixture, record: FitRecord) -> Any:
    """Open rows as those of the fit were opened, with the columns of the model."""
    known = record.options or {}
    given = {key: x for key, x in known.items() if key in vars(Reading()) and key != "exclude"}
    if mixture.feature_names is not None:
        given["columns"] = list(mixture.feature_names)
    missing = known.get("missing", "error")
    return open_rows(data, missing=missing, **given) if given or missing != "error" else data


def _mixture_and_record(model: Any) -> tuple[Mixture, FitRecord | None]:
    if isinstance(model, str | os.PathLike):
        return load_fit(model)
    if isinstance(model, Mixture):
        return model, None
    if isinstance(model, FitResult):
        return model.mixture, model.record()
    result = getattr(model, "result_", None)  # of an estimator: those take long to import
    if not isinstance(result, FitResult):
        if type(model).__name__ in ("MomentGaussianMixture", "MomentMixture"):
            raise InputTypeError(f"this {type(model).__name__} is not fitted yet; call fit first.")
        raise InputTypeError(
            "a report needs the path of a model, a FitResult, a fitted MomentGaussianMixture or "
            f"MomentMixture, or a Mixture; got {type(model).__name__}."
        )
    seed = int(model.random_state) if isinstance(model.random_state, Integral) else None
    return result.mixture, result.record(seed=seed)
