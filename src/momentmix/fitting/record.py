"""The record of a fit in a saved model: the certificate, the intervals, and how it was made.

The record is the optional key ``fit`` of a model file (docs/file-format.md). It holds neither times
nor the name of the machine, so that the same fit gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from momentmix.errors import InputTypeError, ModelFileError, without_secrets
from momentmix.findings.finding import Finding, Severity
from momentmix.fitting.inference.certificate import Certificate, Support
from momentmix.fitting.inference.description import Description
from momentmix.fitting.inference.over_identification import ConditionGroup, OverIdentification
from momentmix.fitting.inference.standard_errors import StandardErrors
from momentmix.fitting.outcome import JoinedColumns, Trial
from momentmix.fitting.result import FitResult, SavedErrors
from momentmix.json_fields import (
    Fields,
    anything,
    array,
    boolean,
    check_version,
    choice,
    column,
    integer,
    list_of,
    map_of,
    number,
    optional,
    text,
)
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.model_file import load_model
from momentmix.mixture.parameter_table import Intervals

_VERSION = 11
_NOT_ALWAYS = ("covariances", "levels", "seen")  # of joined columns, and of families


def record_of(result: FitResult, command: str | None = None) -> dict[str, Any]:
    """Plain values of a result, for JSON; what is not finite becomes None."""
    command = result.command if command is None else without_secrets(command)
    saved = result.saved or SavedErrors(None, None)
    if result.uncertainty is not None:
        saved = SavedErrors(result.standard_errors, result.intervals())
    document = _record_fields(result.mixture).encode(replace(result, command=command, saved=saved))
    for errors in (document["standard_errors"], document["intervals"]):
        for key in _NOT_ALWAYS if errors is not None else ():
            if errors[key] is None:
                del errors[key]
    return {"version": _VERSION, **document}


def load_fit(path: str | os.PathLike[str]) -> tuple[Mixture, FitResult | None]:
    """The mixture of a model file, and the result of its fit where the file has its record."""
    mixture, document = load_model(path)
    if document is None:
        return mixture, None
    try:
        return mixture, result_of(document, mixture)
    except ValueError as error:
        raise ModelFileError(
            f"{path}: the record of the fit is damaged: {error}. Fit again, or remove the key "
            '"fit"; the mixture itself is whole.'
        ) from None


def mixture_and_result(model: Any) -> tuple[Mixture, FitResult | None]:
    """The mixture of a model of any kind, and the result of its fit where that is known."""
    if isinstance(model, str | os.PathLike):
        return load_fit(model)
    result = model if isinstance(model, FitResult) else getattr(model, "result_", None)
    mixture = result.mixture if isinstance(result, FitResult) else model
    if not isinstance(mixture, Mixture):
        raise InputTypeError(
            "expected a Mixture, a FitResult, a fitted estimator or the path of a model file; got "
            f"{type(model).__name__}."
        )
    return mixture, result


def result_of(document: Any, mixture: Mixture) -> FitResult:
    """The result of `record_of`; ValueError where it is not one of a fit of this mixture."""
    check_version(document, "fit", _VERSION)
    contents = {key: value for key, value in document.items() if key != "version"}
    result: FitResult = _record_fields(mixture)(contents, "fit")
    blocks = [block.columns for block in mixture.blocks if len(block.columns) > 1]
    if result.joined and sorted(joined.columns for joined in result.joined) != blocks:
        raise ValueError("fit.joined must list the columns that the mixture joins")
    names, certificate, options = mixture.feature_names, result.certificate, result.options
    description = certificate.description
    description = replace(description, columns=_by_column(description.columns, names or ()))
    if options is not None and isinstance(options.get("families"), dict):
        options = {**options, "families": _by_column(options["families"], names or ())}
    return replace(
        result,
        joined=tuple(joined.with_names(names) for joined in result.joined),
        certificate=replace(certificate, description=description),
        options=options,
    )


def _by_column(values: Mapping[Any, Any], names: Sequence[str]) -> dict[Any, Any]:
    """Values by name or number of their column; keys of JSON are texts."""
    return {int(j) if str(j).isdecimal() and j not in names else j: x for j, x in values.items()}


# -- the fields of the file -------------------------------------------------------------------


def _record_fields(mixture: Mixture) -> Fields:
    """Fields of the record of a fit of this mixture."""
    r, d = mixture.means.shape
    shapes: dict[str, tuple[int, ...]] = {"weights": (r,), "means": (r, d), "variances": (r, d)}
    if mixture.parameters.blocks.joined:
        shapes["covariances"] = (r, d, d)
    if mixture.schema is not None:
        shapes["seen"] = (r, d)
    errors = {name: array(*shape, nulls=True) for name, shape in shapes.items()}
    ends = {name: array(2, *shape, nulls=True) for name, shape in shapes.items()}
    if mixture.schema is not None:
        errors["levels"] = map_of(array(r, None, nulls=True))
        ends["levels"] = map_of(array(2, r, None, nulls=True))
    trial: dict[str, Any] = {
        "n_components": integer(1),
        "p_value": number(0.0, 1.0),
        "log_likelihood": number(),
        "bic": number(),
        "chosen": boolean,
        "reproducibility": list_of(number(0.0, 1.0)),
    }
    joined_columns: dict[str, Any] = {
        "columns": lambda value, place: tuple(list_of(integer(0, d - 1))(value, place)),
        "why": text,
    }
    return Fields(
        partial(_result, mixture),
        {
            "n_rows": integer(1),
            "order": integer(1),
            "winner": text,
            "n_passes": integer(0),
            "converged": boolean,
            "log_likelihood_per_row": optional(number()),
            "bic": optional(number()),
            "notes": list_of(text),
            "tried": list_of(Fields(_trial, trial)),
            "joined": list_of(Fields(lambda values: JoinedColumns(**values), joined_columns)),
            "options": optional(map_of(anything)),
            "certificate": _certificate_fields(r),
            "standard_errors": optional(Fields(_standard_errors, errors)),
            "intervals": optional(Fields(_intervals, ends)),
            "versions": map_of(text),
            "command": optional(text),
        },
        attributes={
            "log_likelihood_per_row": "log_likelihood",
            "standard_errors": "saved.standard_errors",
            "intervals": "saved.intervals",
        },
    )


def _certificate_fields(n_components: int) -> Fields:
    group: dict[str, Any] = {
        "name": text,
        "statistic": number(),
        "degrees_of_freedom": integer(),
        "p_value": number(0.0, 1.0),
        "is_shape": boolean,
    }
    test: dict[str, Any] = {
        "statistic": number(),
        "degrees_of_freedom": integer(),
        "p_value": number(0.0, 1.0),
        "effect_size": number(0.0),
        "groups": list_of(
            Fields(lambda values: ConditionGroup(**values), group, defaults={"is_shape": False})
        ),
    }
    support = {"n_components": integer(1), "supported": optional(boolean), "text": text}
    description = {"level": text, "distance": number(0.0), "columns": map_of(number(0.0))}
    finding: dict[str, Any] = {
        "name": text,
        "severity": choice(Severity),
        "text": text,
        "columns": list_of(column),
        "components": list_of(integer(0, n_components - 1)),
        "numbers": map_of(anything),
    }
    empty: dict[str, Any] = {"columns": (), "components": (), "numbers": {}}
    return Fields(
        partial(_certificate, n_components),
        {
            "passed": boolean,
            "verdict": text,
            **test,
            "after_rows": boolean,
            "predicted_loss": number(0.0, 1.0),
            "support": optional(Fields(lambda values: Support(**values), support)),
            "reproducibility": array(n_components, nulls=True),
            "separation": array(n_components, n_components, nulls=True),
            "description": Fields(lambda values: Description(**values), description),
            "findings": list_of(
                Fields(_finding, finding, attributes={"name": "kind"}, defaults=empty)
            ),
        },
        attributes={key: f"test.{key}" for key in test},
    )


def _result(mixture: Mixture, values: dict[str, Any]) -> FitResult:
    certificate, said = values.pop("certificate")
    for key, value in said.items():
        if getattr(certificate, key) != value:
            raise ValueError(
                f"fit.certificate says {key}={repr(value)[:40]}, its numbers say "
                f"{getattr(certificate, key)!r}"
            )
    values |= {key: tuple(values[key]) for key in ("notes", "tried", "joined")}
    values["log_likelihood"] = values.pop("log_likelihood_per_row")
    saved = SavedErrors(values.pop("standard_errors"), values.pop("intervals"))
    return FitResult(
        **values,
        mixture=mixture,
        schema=mixture.schema,
        certificate=certificate,
        saved=None if saved.standard_errors is None or saved.intervals is None else saved,
    )


def _trial(values: dict[str, Any]) -> Trial:
    return Trial(**{**values, "reproducibility": tuple(values["reproducibility"])})


def _finding(values: dict[str, Any]) -> Finding:
    """Return a finding; its text is for other readers."""
    kind, severity, _ = values.pop("name"), values.pop("severity"), values.pop("text")
    columns, components = (tuple(values.pop(key, ())) for key in ("columns", "components"))
    finding = Finding(kind, severity, columns, components, **values)
    try:
        _ = finding.text, finding.advice
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise ValueError(f"fit.certificate.findings: no finding is {kind[:40]!a} so") from None
    return finding


def _certificate(n_components: int, values: dict[str, Any]) -> tuple[Certificate, dict[str, Any]]:
    """The certificate, and what the file says of its verdict."""
    said: dict[str, Any] = {key: values.pop(key) for key in ("passed", "verdict")}
    loss, findings = values.pop("predicted_loss"), values.pop("findings")
    support = values.pop("support")
    groups = {key: values.pop(key) for key in ("reproducibility", "separation", "description")}
    for key in groups.keys() - {"description"}:
        if ((groups[key] < 0) | (groups[key] > 1)).any():
            raise ValueError(f"fit.certificate.{key} must lie between 0 and 1")
    after_rows = values.pop("after_rows")
    test = OverIdentification(**{**values, "groups": tuple(values["groups"])})
    return Certificate(test, loss, findings, n_components, support, after_rows, **groups), said


def _standard_errors(errors: dict[str, Any]) -> StandardErrors:
    levels = errors.pop("levels", None)
    if any((values < 0).any() for values in (*errors.values(), *(levels or {}).values())):
        raise ValueError("fit.standard_errors must not be negative")
    return StandardErrors(**errors, levels=levels)


def _intervals(ends: dict[str, Any]) -> Intervals:
    levels = ends.pop("levels", None)
    for name, (low, high) in {**ends, **(levels or {})}.items():
        if name not in ("means", "covariances") and (low < 0).any():
            raise ValueError(f"fit.intervals.{name} must not be negative")
        if (low > high).any():
            raise ValueError(f"fit.intervals.{name} must have the lower ends first")
    if levels is not None:
        levels = {name: (low, high) for name, (low, high) in levels.items()}
    return Intervals(**{name: (low, high) for name, (low, high) in ends.items()}, levels=levels)
