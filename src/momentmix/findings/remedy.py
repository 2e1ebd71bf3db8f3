"""`Remedy`: other options of a fit that were tried on left-out rows, and help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan
from shlex import quote
from typing import Any

from momentmix.findings.messages import SCHEMA, Message, either, options

# Keywords of `fit` that the command names otherwise, lacks, or does not need.
_OPTIONS = {"random_state": "seed"}
_NO_OPTION = {"sample_weight", "start"}
_NO_MATTER = {"n_threads", "progress"}
FEWEST_ROWS = 60  # to try remedies
NOTHING_HELPS = (
    "Nothing that the findings suggest helps: left-out rows gain nothing, or groups are lost."
)
NOT_COMPARED = f"remedies were not tried: that needs {FEWEST_ROWS} rows at least, on this machine"
TO_TRY = Message(
    either('Pass remedies="try" to try', "`momentmix report --data` tries"),
    " on left-out rows what the findings suggest.",
)


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
        in most cases; about 0 where other rows give the groups again and did not before.
    error : float
        Standard error of the gain.
    reproducibility, before : float
        How well other rows give the groups of the sample again, the least of them, with the remedy
        and without; see `Certificate`.
    inputs : tuple of str or None
        Paths of the data, for `python` and `shell`; empty where they are not files, None where they
        are rows that were opened before, which the command cannot name.
    others : tuple of str
        Keywords whose values, as arrays, a file does not keep.
    """

    change: str
    options: Mapping[str, Any]
    gain: float
    error: float
    reproducibility: float
    before: float
    inputs: tuple[str, ...] | None = ()
    others: tuple[str, ...] = ()

    def without_objects(self) -> Remedy:
        """The same with plain options only, the names of others beside them."""
        kept = {key: x for key, x in self.options.items() if is_plain(x)}
        others = (*self.others, *(key for key in self.options if key not in kept))
        return replace(self, options=kept, others=others)

    @property
    def python(self) -> str:
        """The call in Python; arrays and mixtures go by the names of their keywords."""
        own = self.without_objects()
        keywords = [str(options(**{key: x})) for key, x in own.options.items()]
        paths = list(self.inputs or ())
        data = ascii(paths[0] if len(paths) == 1 else paths) if paths else "data"
        return f"mm.fit({', '.join([data, *keywords, *(f'{key}={key}' for key in own.others)])})"

    @property
    def shell(self) -> str:
        """The command; empty where it has no such options."""
        if self.inputs is None or self.without_objects().others:
            return ""
        given = {k: x for k, x in self.options.items() if k not in _NO_MATTER and x is not None}
        families = given.get("families", {})
        has_levels = not all(isinstance(family, str) for family in families.values())
        if has_levels or _NO_OPTION & given.keys():
            return ""
        named = {_OPTIONS.get(key, key): value for key, value in given.items()}
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


def is_plain(value: Any) -> bool:
    """Whether a value is as JSON has it."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str | int) and is_plain(x) for key, x in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, str | int | float)
