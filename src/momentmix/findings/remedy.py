"""`Remedy`: other options of a fit that were tried on left-out rows, and help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

from momentmix.wording import in_python

FEWEST_ROWS = 60  # to try remedies
NOTHING_HELPS = (
    "Nothing that the findings suggest helps: left-out rows gain nothing, or groups are lost."
)
NOT_COMPARED = f"remedies were not tried: that needs {FEWEST_ROWS} rows at least, on this machine"
TO_TRY = 'mm.fit(..., remedies="try") tries on left-out rows what the findings suggest.'


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
    inputs : tuple of str
        Paths of the data, for `python`; empty where they are not files.
    others : tuple of str
        Keywords whose values, as arrays, a file does not keep.
    """

    change: str
    options: Mapping[str, Any]
    gain: float
    error: float
    reproducibility: float
    before: float
    inputs: tuple[str, ...] = ()
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
        paths = list(self.inputs)
        data = in_python(paths[0] if len(paths) == 1 else paths) if paths else "data"
        keywords = [f"{key}={in_python(x)}" for key, x in own.options.items()]
        return f"mm.fit({', '.join([data, *keywords, *(f'{key}={key}' for key in own.others)])})"

    def __str__(self) -> str:
        text = f"with {self.change}: held out {self.gain:+.2g} nats a row"
        if isnan(self.reproducibility) or isnan(self.before):
            return text
        return f"{text}, groups found again {self.before:.2f} → {self.reproducibility:.2f}"


def is_plain(value: Any) -> bool:
    """Whether a value is as JSON has it."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str | int) and is_plain(x) for key, x in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, str | int | float)


def python_values(value: Any) -> Any:
    """A value with lists and numbers of Python in place of those of NumPy and pandas."""
    if isinstance(value, dict):
        return {python_values(key): python_values(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(python_values, value))
    return value.tolist() if hasattr(value, "tolist") else value
