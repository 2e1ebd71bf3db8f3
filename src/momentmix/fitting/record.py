"""The record of a fit in a saved model: the certificate, the intervals, and how it was made.

The record is the optional key ``fit`` of a model file (docs/file-format.md). It holds neither times
nor the name of the machine, so that the same fit gives the same bytes.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from operator import index
from typing import Any

import numpy as np

from momentmix import __version__
from momentmix._typing import Float
from momentmix.errors import InputTypeError, ModelFileError, without_secrets
from momentmix.findings.finding import Finding, Severity
from momentmix.fitting.inference.certificate import Certificate, Support
from momentmix.fitting.inference.description import Description
from momentmix.fitting.inference.over_identification import ConditionGroup, OverIdentification
from momentmix.fitting.inference.standard_errors import StandardErrors
from momentmix.fitting.outcome import FitFacts, JoinedColumns, JoinReason, Trial
from momentmix.json_fields import (
    Fields,
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
    plain_value,
    text,
    text_map,
    texts,
)
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.model_file import load_model, save_model
from momentmix.mixture.parameter_table import Intervals
from momentmix.mixture.profile import Profile, profile_of
from momentmix.wording import short_repr

_VERSION = 9
_NOT_ALWAYS = ("covariances", "levels", "seen")  # of joined columns, and of families


def versions() -> dict[str, str]:
    """Versions of everything that the numbers of a fit depend on."""
    import scipy

    return {
        "momentmix": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


@short_repr
@dataclass(frozen=True, kw_only=True)
class FitRecord(FitFacts):
    """The record of a fit in a model file: the facts of a `FitResult`, and the following.

    Attributes
    ----------
    standard_errors : StandardErrors or None
    intervals : Intervals or None
        95 %; None where they are not known.
    versions : dict of str
        Of momentmix, Python, NumPy and SciPy.
    command : str or None
        The command line, or whatever the caller wrote there.
    seed : int or None
    """

    standard_errors: StandardErrors | None
    intervals: Intervals | None
    versions: dict[str, str] = field(default_factory=versions)
    command: str | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.command is not None:
            object.__setattr__(self, "command", without_secrets(self.command))
        try:
            object.__setattr__(self, "seed", None if self.seed is None else index(self.seed))
        except TypeError:
            raise InputTypeError(f"seed must be an integer or None; got {self.seed!r}.") from None

    def profile(self, mixture: Mixture, names: Sequence[str] | None = None) -> Profile:
        """Return the components of the mixture of this fit in words; see `FitResult.profile`."""
        weights = None if self.intervals is None else self.intervals.weights
        again: Float | None = self.reproducibility
        if self.certificate.rows_depend:  # neither says what other rows would give
            weights = again = None
        return profile_of(mixture, names, self.n_rows, again, weights, self.separation)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is not finite becomes None."""
        document = _record_fields(0, 0, False).encode(self)  # sizes are checked on reading
        for known in (document["standard_errors"], document["intervals"]):
            for key in _NOT_ALWAYS if known is not None else ():
                if known[key] is None:
                    del known[key]
        return {"version": _VERSION, **document}

    @classmethod
    def from_dict(cls, document: Any, mixture: Mixture) -> FitRecord:
        """The record of `to_dict`; ValueError where it is not one of a fit of this mixture."""
        check_version(document, "fit", _VERSION)
        contents = {key: value for key, value in document.items() if key != "version"}
        (r, d), joined = mixture.means.shape, bool(mixture.parameters.blocks.joined)
        fields = _record_fields(r, d, joined, mixture.schema is not None)
        record: FitRecord = fields(contents, "fit")
        own = [block.columns for block in mixture.blocks if len(block.columns) > 1]
        if record.joined and sorted(found.columns for found in record.joined) != own:
            raise ValueError("fit.joined must list the columns that the mixture joins")
        named = tuple(columns.named(mixture.feature_names) for columns in record.joined)
        description, names = record.certificate.description, mixture.feature_names or ()
        description = replace(description, columns=_by_column(description.columns, names))
        certificate = replace(record.certificate, description=description)
        record = replace(record, joined=named, certificate=certificate)
        if record.options is not None and isinstance(record.options.get("families"), dict):
            families = _by_column(record.options["families"], names)
            record = replace(record, options={**record.options, "families": families})
        return record


def _by_column(values: Mapping[Any, Any], names: Sequence[str]) -> dict[Any, Any]:
    """Values by name or number of their column; keys of JSON are texts."""
    return {int(j) if str(j).isdecimal() and j not in names else j: x for j, x in values.items()}


# -- files ------------------------------------------------------------------------------------


def save_fit(path: str | os.PathLike[str], mixture: Mixture, record: FitRecord) -> None:
    """Write a model file with the record of its fit in it, whole or not at all."""
    save_model(path, mixture, record.to_dict())


def load_fit(path: str | os.PathLike[str]) -> tuple[Mixture, FitRecord | None]:
    """The mixture of a model file, and the record of its fit where the file holds one."""
    mixture, document = load_model(path)
    if document is None:
        return mixture, None
    try:
        return mixture, FitRecord.from_dict(document, mixture)
    except ValueError as error:
        raise ModelFileError(
            f"{path}: the record of the fit is damaged: {error}. Fit again, or remove the key "
            '"fit"; the mixture itself is whole.'
        ) from None


# -- the fields of the file -------------------------------------------------------------------


def _record_fields(r: int, d: int, joined: bool, has_families: bool = False) -> Fields:
    """Fields of the record of a mixture of r components and d columns, joined in blocks or not."""
    shapes: dict[str, tuple[int, ...]] = {"weights": (r,), "means": (r, d), "variances": (r, d)}
    if joined:
        shapes["covariances"] = (r, d, d)
    if has_families:
        shapes["seen"] = (r, d)
    errors = {name: array(*shape, nulls=True) for name, shape in shapes.items()}
    ends = {name: array(2, *shape, nulls=True) for name, shape in shapes.items()}
    if has_families:
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
        "reason": choice(JoinReason),
        "bic_gain": number(),
        "correlation": number(-1.0, 1.0),
    }
    return Fields(
        _record,
        {
            "n_rows": integer(1),
            "order": integer(1),
            "method": text,
            "refine": text,
            "winner": text,
            "n_passes": integer(0),
            "converged": boolean,
            "log_likelihood_per_row": optional(number()),
            "notes": texts,
            "tried": list_of(Fields(_trial, trial)),
            "joined": list_of(Fields(lambda values: JoinedColumns(**values), joined_columns)),
            "options": optional(map_of(plain_value)),
            "certificate": _certificate_fields(r),
            "standard_errors": optional(Fields(_standard_errors, errors)),
            "intervals": optional(Fields(_intervals, ends)),
            "versions": text_map,
            "command": optional(text),
            "seed": optional(integer(-inf, inf)),
        },
        attributes={"log_likelihood_per_row": "log_likelihood"},
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
        "bootstrapped": boolean,
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
        "numbers": map_of(plain_value),
    }
    empty: dict[str, Any] = {"columns": (), "components": (), "numbers": {}}
    return Fields(
        partial(_certificate, n_components),
        {
            "passed": boolean,
            "verdict": text,
            **test,
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


def _record(values: dict[str, Any]) -> FitRecord:
    certificate, said = values.pop("certificate")
    certificate = replace(certificate, after_rows=values["refine"] == "em")
    for key, value in said.items():
        if getattr(certificate, key) != value:
            raise ValueError(
                f"fit.certificate says {key}={repr(value)[:40]}, its numbers say "
                f"{getattr(certificate, key)!r}"
            )
    for key in ("notes", "tried", "joined"):
        values[key] = tuple(values[key])
    log_likelihood = values.pop("log_likelihood_per_row")
    return FitRecord(certificate=certificate, log_likelihood=log_likelihood, **values)


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
    test = OverIdentification(**{**values, "groups": tuple(values["groups"])})
    return Certificate(test, loss, findings, n_components, support, **groups), said


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
