"""`report`: a model, and optionally data, as one HTML file."""

from __future__ import annotations

import os
from typing import Any

from momentmix.atomic_file import atomic_write
from momentmix.errors import InputTypeError
from momentmix.estimators.gaussian import MomentGaussianMixture
from momentmix.fitting.record import FitRecord, load_fit
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.progress import step, tell
from momentmix.reporting.data_facts import gather
from momentmix.reporting.page import Contents, page
from momentmix.reporting.pictures import draw


def report(
    model: Any,
    path: str | os.PathLike[str],
    data: Any = None,
    *,
    command: str | None = None,
    data_name: str | None = None,
) -> None:
    """Write a report on a fit as one HTML file that needs no network.

    Parameters
    ----------
    model : path, FitResult, MomentGaussianMixture or Mixture
        A model file written by ``momentmix fit`` or `FitResult.save` holds the certificate and the
        intervals; a bare mixture does not.
    path : str or path
        The file; it is replaced atomically if it exists.
    data : MomentSummary or anything that `open_rows` takes, optional
        Rows for the pictures and the residuals, or a summary for the residuals alone. For an
        estimator the default is its own summary.
    command, data_name : str, optional
        Command line and name of the data, for the last section.

    Examples
    --------
    >>> import tempfile, pathlib, momentmix as mm
    >>> mixture = mm.DiagonalMixture([0.5, 0.5], [[-2.0], [2.0]], [[1.0], [1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "report.html")
    ...     mm.report(mixture, file)
    ...     file.read_text()[:15]
    '<!DOCTYPE html>'
    """
    mixture, record = _mixture_and_record(model)
    model_name = os.fspath(model) if isinstance(model, str | os.PathLike) else None
    if data is None and isinstance(model, MomentGaussianMixture):
        data = getattr(model, "summary_", None)
    with step("Report"):
        tell("reading rows")
        facts = None if data is None else gather(mixture, data)
        tell("pictures")
        if record is None:
            pictures = draw(mixture, None, facts)
        else:
            pictures = draw(mixture, record.intervals, facts, record.tried)
        contents = Contents(mixture, record, facts, pictures, model_name, data_name, command)
        atomic_write(path, page(contents).encode())


def _mixture_and_record(model: Any) -> tuple[Mixture, FitRecord | None]:
    record: FitRecord | None
    if isinstance(model, str | os.PathLike):
        mixture, record = load_fit(model)
    elif isinstance(model, Mixture):
        mixture, record = model, None
    elif isinstance(model, FitResult):
        mixture, record = model.mixture, model.record()
    elif isinstance(model, MomentGaussianMixture):
        result = getattr(model, "result_", None)
        if result is None:
            raise InputTypeError("this MomentGaussianMixture is not fitted yet; call fit first.")
        seed = model.random_state if isinstance(model.random_state, int) else None
        mixture, record = result.mixture, result.record(seed=seed)
    else:
        raise InputTypeError(
            "a report needs the path of a model, a FitResult, a fitted MomentGaussianMixture or a "
            f"Mixture; got {type(model).__name__}."
        )
    return mixture, record
