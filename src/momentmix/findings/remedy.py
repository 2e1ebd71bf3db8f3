"""`Remedy`: other options of a fit that were tried on left-out rows, and help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from shlex import quote
from typing import Any

from momentmix.findings.messages import SCHEMA, Message, either, options

# Keywords of `fit` that the command names otherwise, lacks, or does not need.
_OPTIONS = {"random_state": "seed"}
_NO_OPTION = {"sample_weight", "start", "constraint", "tol", "thorough", "variance_floor"}
_NO_MATTER = {"n_threads", "progress"}


@dataclass(frozen=True)
class Remedy:
    """Other options of a fit that were tried on a sample of the rows, and help.

    Attributes
    ----------
    change : str
        What is different, in words.
    options : mapping
        All keywords: ``mm.fit(data, **options)`` runs it. They are those of the fit, with the
        change.
    gain : float
        By how many nats a row the log-density of left-out rows is larger, above two standard errors
        in most cases; about 0 where other rows give the groups again and did not before. Where a
        column is left out, it is that of the other columns. Where cells of a column become missing
        at random, it is that of its seen cells, given the others of their row.
    error : float
        Standard error of the gain.
    reproducibility, before : float
        How well other rows give the groups of the sample again, the least of them, with the remedy
        and without; see `Certificate`.
    inputs : tuple of str
        Paths of the data, for `shell`.
    """

    change: str
    options: Mapping[str, Any]
    gain: float
    error: float
    reproducibility: float
    before: float
    inputs: tuple[str, ...] = ()

    @property
    def python(self) -> str:
        """The call in Python; arrays and mixtures go by the names of their keywords."""
        parts = ["data"]
        for key, value in self.options.items():
            is_plain = value is None or isinstance(value, str | int | float | list | dict | tuple)
            parts.append(str(options(**{key: value})) if is_plain else f"{key}={key}")
        return f"mm.fit({', '.join(parts)})"

    @property
    def shell(self) -> str:
        """The command; empty where it has no such options."""
        given = {k: x for k, x in self.options.items() if k not in _NO_MATTER and x is not None}
        families = given.get("families", {})
        has_levels = not all(isinstance(family, str) for family in families.values())
        if has_levels or _NO_OPTION & given.keys():
            return ""
        named = {_OPTIONS.get(key, key): value for key, value in given.items()}
        if "refine" in self.options and self.options["refine"] is None:
            named["refine"] = None
        text = options(**named).shell
        inputs = " ".join(map(quote, self.inputs or ("DATA",)))
        return "" if SCHEMA in text else f"momentmix fit {inputs} {text} -o model.json"

    def __str__(self) -> str:
        text = f"with {self.change}: held out {self.gain:+.2g} nats a row"
        if isnan(self.reproducibility) or isnan(self.before):
            return text
        return f"{text}, groups found again {self.before:.2f} → {self.reproducibility:.2f}"

    @property
    def code(self) -> Message:
        """The call; `code.shell` is the command."""
        return either(self.python, self.shell or self.python)
