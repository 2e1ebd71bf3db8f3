"""`FitOptions`: the keywords of `momentmix.fit`, for all who fit, and as files keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from momentmix.fitting.data import AskedBlocks, families_of
from momentmix.tables.learning import Families
from momentmix.tables.opening import READ_ALL, Reading
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import Missing, TableRows

Auto = Literal["auto"]
Number = int | Literal["auto", "bic"]

_AS_GIVEN = ("sample_weight", "start")  # arrays
_WITHOUT_EFFECT = ("progress", "n_threads")  # on the answer


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Keywords of `fit`; those that say how a table is read are one, `reading`."""

    n_components: Number = "auto"
    blocks: AskedBlocks = None
    families: Families = None
    missing: Missing = "error"
    background: bool | Auto = "auto"
    sample_weight: Any = None
    max_components: int = 20
    start: Any = None
    max_passes: int = 100
    random_state: int | np.random.Generator | None = None
    n_threads: int | None = None
    progress: Callable[[str], None] | bool | None = None
    reading: Reading = field(default=READ_ALL)

    def __post_init__(self) -> None:
        for x in fields(self):
            if x.name not in (*_AS_GIVEN, "reading"):
                object.__setattr__(self, x.name, _plain(getattr(self, x.name)))

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> FitOptions:
        """Return the options of these keywords of `fit`."""
        others = dict(keywords)
        reading = {x.name: _plain(others.pop(x.name)) for x in fields(Reading) if x.name in others}
        return cls(**others, reading=Reading(**reading))

    def changed(self, data: Any = None) -> dict[str, Any]:
        """Return keywords that differ from their defaults, as a file keeps them: no arrays.

        With rows that were opened before, their options are among them.
        """
        changed = dict[str, Any]()
        for options in (self, self.reading):
            for x in fields(options):
                value = getattr(options, x.name)
                value = families_of(value) if isinstance(value, Schema) else value
                if is_plain(value) and value != x.default and x.name not in _WITHOUT_EFFECT:
                    changed[x.name] = value
        if isinstance(data, TableRows):
            if data.chosen and data.column_names is not None:
                changed["columns"] = list(data.column_names)
            if data.missing != "error":
                changed["missing"] = data.missing
        return changed


def is_plain(value: Any) -> bool:
    """Whether a value is as JSON has it."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str | int) and is_plain(x) for key, x in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, str | int | float)


def _plain(value: Any) -> Any:
    """Return a value with lists and numbers of Python in place of those of NumPy and pandas."""
    if isinstance(value, dict):
        return {_plain(key): _plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value.tolist() if hasattr(value, "tolist") else value
