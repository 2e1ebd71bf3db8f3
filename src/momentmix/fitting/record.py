"""What a saved model remembers of its fit: the certificate, the intervals, and how it was made.

The record is the optional key ``fit`` of a model file (docs/model-file.md). It holds no clock and
no machine, so that the same fit gives the same bytes.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._version import __version__
from momentmix.errors import InputTypeError, ModelFileError
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.findings import Finding, Severity
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.fitting.inference.standard_errors import Intervals, StandardErrors
from momentmix.fitting.record_fields import Fields
from momentmix.mixture.mixture import DiagonalMixture
from momentmix.mixture.model_file import read_model, write_model

Float = NDArray[np.float64]

__all__ = ["FitRecord", "load_fit", "save_fit", "versions"]

_VERSION = 1
_PARAMETERS = ("weights", "means", "variances")


def versions() -> dict[str, str]:
    """Versions of everything that the numbers of a fit depend on."""
    import scipy

    return {
        "momentmix": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


@dataclass(frozen=True)
class FitRecord:
    """What is known of a fit once the rows and the program that made it are gone.

    Attributes
    ----------
    n_rows, order, n_passes : int
    method, refine, winner : str
    converged : bool
    log_likelihood : float or None
        Per row; None without rows.
    notes : tuple of str
    certificate : Certificate
    standard_errors : StandardErrors or None
    intervals : Intervals or None
        95 %; None for method="paper".
    versions : dict of str
        Of momentmix, Python, NumPy and SciPy.
    command : str or None
        The command line, or whatever the caller wrote there.
    seed : int or None
    """

    n_rows: int
    order: int
    method: str
    refine: str
    winner: str
    n_passes: int
    converged: bool
    log_likelihood: float | None
    notes: tuple[str, ...]
    certificate: Certificate
    standard_errors: StandardErrors | None
    intervals: Intervals | None
    versions: dict[str, str] = field(default_factory=versions)
    command: str | None = None
    seed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is not finite becomes None."""
        errors, ends = self.standard_errors, self.intervals
        return {
            "version": _VERSION,
            "n_rows": int(self.n_rows),
            "order": int(self.order),
            "method": self.method,
            "refine": self.refine,
            "winner": self.winner,
            "n_passes": int(self.n_passes),
            "converged": bool(self.converged),
            "log_likelihood_per_row": _finite(self.log_likelihood),
            "notes": list(self.notes),
            "certificate": _certificate_to_dict(self.certificate),
            "standard_errors": None
            if errors is None
            else {name: _listed(getattr(errors, name)) for name in _PARAMETERS},
            "intervals": None
            if ends is None
            else {name: [_listed(end) for end in getattr(ends, name)] for name in _PARAMETERS},
            "versions": dict(self.versions),
            "command": None if self.command is None else str(self.command),
            "seed": _seed(self.seed),
        }

    @classmethod
    def from_dict(cls, document: Any, mixture: DiagonalMixture) -> FitRecord:
        """The record of `to_dict`; ValueError where it is not one of a fit of this mixture."""
        found = Fields(document, "fit")
        version = found.integer("version", 1)
        if version != _VERSION:
            raise ValueError(f"fit has version {version}; this momentmix reads version {_VERSION}")
        r, d = mixture.n_components, mixture.n_features
        shapes = {"weights": (r,), "means": (r, d), "variances": (r, d)}
        errors, ends = found.optional("standard_errors"), found.optional("intervals")
        record = cls(
            n_rows=found.integer("n_rows", 1),
            order=found.integer("order", 1),
            method=found.text("method"),
            refine=found.text("refine"),
            winner=found.text("winner"),
            n_passes=found.integer("n_passes", 0),
            converged=found.boolean("converged"),
            log_likelihood=found.optional_number("log_likelihood_per_row"),
            notes=tuple(found.texts("notes")),
            certificate=_certificate_from_dict(found.object("certificate"), r),
            standard_errors=None if errors is None else _errors_from(errors, shapes),
            intervals=None if ends is None else _intervals_from(ends, shapes),
            versions=found.text_map("versions"),
            command=found.optional_text("command"),
            seed=found.optional_integer("seed"),
        )
        found.finish()
        return record


# -- files ------------------------------------------------------------------------------------


def save_fit(path: str | os.PathLike[str], mixture: DiagonalMixture, record: FitRecord) -> None:
    """Write a model file with the record of its fit in it, whole or not at all."""
    write_model(path, {**mixture.to_dict(), "fit": record.to_dict()})


def load_fit(path: str | os.PathLike[str]) -> tuple[DiagonalMixture, FitRecord | None]:
    """The mixture of a model file, and the record of its fit where the file holds one."""
    mixture = DiagonalMixture.load(path)
    document = read_model(path).get("fit")
    if document is None:
        return mixture, None
    try:
        return mixture, FitRecord.from_dict(document, mixture)
    except ValueError as error:
        raise ModelFileError(
            f"{path}: the record of the fit is damaged: {error}. Fit again, or remove the key "
            '"fit"; the mixture itself is whole.'
        ) from None


# -- parts ------------------------------------------------------------------------------------


def _certificate_to_dict(certificate: Certificate) -> dict[str, Any]:
    test = certificate.test
    return {
        "passed": bool(certificate.passed),
        "statistic": _finite(test.statistic),
        "degrees_of_freedom": int(test.degrees_of_freedom),
        "p_value": _finite(test.p_value),
        "effect_size": _finite(test.effect_size),
        "bootstrapped": bool(test.bootstrapped),
        "condition_number": _finite(test.condition_number),
        "predicted_loss": _finite(certificate.predicted_loss),
        "findings": [
            {"name": f.name, "severity": f.severity.value, "text": f.text}
            for f in certificate.findings
        ],
    }


def _certificate_from_dict(found: Fields, n_components: int) -> Certificate:
    passed = found.boolean("passed")
    test = OverIdentification(
        statistic=found.number("statistic"),
        degrees_of_freedom=found.integer("degrees_of_freedom"),
        p_value=found.number("p_value", 0.0, 1.0),
        effect_size=found.number("effect_size", 0.0),
        bootstrapped=found.boolean("bootstrapped"),
        condition_number=found.number("condition_number", 0.0),
        correlations=[],  # the findings name those that matter
    )
    findings = []
    for entry in found.list("findings"):
        one = Fields(entry, "fit.certificate.findings")
        severity = Severity(one.text("severity"))
        findings.append(Finding(one.text("name"), severity, one.text("text")))
        one.finish()
    loss = found.number("predicted_loss", 0.0, 1.0)
    found.finish()
    certificate = Certificate(test, loss, findings, n_components)
    if certificate.passed != passed:
        raise ValueError(
            f"fit.certificate says passed={passed}, its numbers say {certificate.passed}"
        )
    return certificate


def _errors_from(found: Fields, shapes: dict[str, tuple[int, ...]]) -> StandardErrors:
    arrays = [found.array(name, shapes[name]) for name in _PARAMETERS]
    found.finish()
    if any((array < 0).any() for array in arrays):
        raise ValueError("fit.standard_errors must not be negative")
    return StandardErrors(*arrays)


def _intervals_from(found: Fields, shapes: dict[str, tuple[int, ...]]) -> Intervals:
    ends = []
    for name in _PARAMETERS:
        low, high = found.array(name, (2, *shapes[name]))
        if name != "means" and (low < 0).any():
            raise ValueError(f"fit.intervals.{name} must not be negative")
        if (low > high).any():
            raise ValueError(f"fit.intervals.{name} must have the lower ends first")
        ends.append((low, high))
    found.finish()
    return Intervals(*ends)


def _seed(seed: Any) -> int | None:
    if seed is None:
        return None
    try:
        return index(seed)
    except TypeError:
        raise InputTypeError(f"seed must be an integer or None; got {seed!r}.") from None


def _finite(value: float | None) -> float | None:
    """JSON knows no NaN."""
    return None if value is None or not np.isfinite(value) else float(value)


def _listed(array: Float) -> Any:
    if array.ndim == 1:
        return [_finite(v) for v in array.tolist()]
    return [_listed(row) for row in array]
