"""`Schema`: the columns of a table and the numeric features that encode them, as a value.

| family of a column | features |
|---|---|
| gaussian | the number, or its log or log1p |
| bernoulli | indicator of the second level |
| categorical, K levels | K − 1 indicators, of levels[1:] |
| any other | the number |
| any of these with missing cells | (value − center)·seen or indicator·seen, then seen |

The center is 0 for all families but the gaussian one. It has few digits, so that changes of it are
exact; it keeps the numbers near 0 where a cell is missing, as far as their scale goes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from momentmix import json_fields as fields
from momentmix._typing import Float
from momentmix.atomic_file import atomic_write
from momentmix.errors import InputError, NoInputError
from momentmix.families.column import Column, FeaturePart, is_text, is_whole
from momentmix.families.distribution import Distribution, with_joined_values
from momentmix.families.family import FAMILIES, is_family, named
from momentmix.json_fields import Fields, check_version, format_strict, parse_strict
from momentmix.lazy import lazy_property
from momentmix.tables import encoding
from momentmix.tables.memory import MemoryTable
from momentmix.tables.names import column_label, match_names, names_for, number_of
from momentmix.wording import option, short_repr

FORMAT = "momentmix schema"  # of files


@short_repr
@dataclass(frozen=True)
class Schema:
    """The columns of a table, and how they become features.

    Equal if all columns are; True and 1 are the same level.

    Examples
    --------
    >>> plan = Column("plan", "categorical", ("basic", "gold", "silver"))
    >>> schema = Schema((Column("age", has_missing=True, center=32.0), plan))
    >>> schema.feature_names
    ('age', 'age seen', 'plan=gold', 'plan=silver')
    >>> schema.features_of("plan"), schema.column_of, schema.value_features
    (range(2, 4), (0, 0, 1, 1), (0, 2, 3))
    """

    columns: tuple[Column, ...]
    # How the files of its table were read, for others like them: keywords of `open_rows`.
    reading: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    # Columns of whole numbers whose family is a guess: a fit to rows may take them as counts.
    may_count: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError("a schema must have at least one column.")
        if len({column.name is None for column in self.columns}) > 1:
            raise InputError("all columns of a schema must have a name, or none.")
        repeated = [name for name, n in Counter(self.feature_names).items() if n > 1]
        if repeated:
            raise InputError(
                f"features must have different names; {', '.join(map(ascii, repeated[:5]))} "
                "stands for several of them. Rename columns: the features of a column are named "
                "after it and its levels, 'plan=gold' or 'age seen'."
            )

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self._starts[-1]

    @lazy_property
    def column_names(self) -> tuple[str, ...] | None:
        """Names of the columns, or None."""
        return tuple(column.name for column in self.columns if column.name is not None) or None

    @lazy_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, by the numbers of columns that have no names."""
        return tuple(part.feature_name for part in self.feature_parts)

    @lazy_property
    def feature_parts(self) -> tuple[FeaturePart, ...]:
        """The column of each feature, and which part of it the feature is."""
        return tuple(part for i, c in enumerate(self.columns) for part in c.feature_parts(i))

    @lazy_property
    def _starts(self) -> tuple[int, ...]:
        return tuple(accumulate((column.n_features for column in self.columns), initial=0))

    def number_of(self, column: int | str) -> int:
        """Number of a column that is given by number or name."""
        return number_of(column, self.column_names, self.n_columns, "there is no such column:")

    def features_of(self, column: int | str) -> range:
        """Numbers of the features of a column."""
        i = self.number_of(column)
        return range(self._starts[i], self._starts[i + 1])

    def values_of(self, column: int | str) -> range:
        """Numbers of the features of a column, without ``seen``."""
        i = self.number_of(column)
        return range(self._starts[i], self._starts[i] + self.columns[i].n_values)

    def seen_of(self, column: int | str) -> int | None:
        """Number of the feature ``seen`` of a column; None if it has none."""
        i = self.number_of(column)
        return self._starts[i + 1] - 1 if self.columns[i].has_missing else None

    @lazy_property
    def column_of(self) -> tuple[int, ...]:
        """Number of the column of each feature."""
        return tuple(i for i, column in enumerate(self.columns) for _ in range(column.n_features))

    @lazy_property
    def value_features(self) -> tuple[int, ...]:
        """Numbers of the features that are values, not ``seen``."""
        return tuple(j for i in range(self.n_columns) for j in self.values_of(i))

    def distributions(self, joined: Collection[int] = ()) -> tuple[Distribution, ...]:
        """Distributions of features that are not Gaussian; columns of blocks are `joined`."""
        every = (c.distribution(tuple(self.features_of(i))) for i, c in enumerate(self.columns))
        values = {self.features_of(number)[0] for number in joined}
        return with_joined_values(tuple(x for x in every if x is not None), values)

    def by_family(self) -> list[tuple[str, list[str]]]:
        """Names of the columns of each family, transform, and with missing cells, for people."""
        labels = [str(i) if c.name is None else c.name for i, c in enumerate(self.columns)]
        pairs = list(zip(self.columns, labels, strict=True))
        by_name = [
            (name, [label for c, label in pairs if name in (c.family, c.transform)])
            for name in FAMILIES
        ]
        by_name.append(("missing cells", [label for c, label in pairs if c.models_gaps]))
        by_name.append(("missing at random", [label for c, label in pairs if c.at_random]))
        return [(family, names) for family, names in by_name if names]

    @lazy_property
    def is_plain(self) -> bool:
        """Whether the features are the columns: numbers without missing cells."""
        return all(column.is_plain for column in self.columns)

    def at_random(self, is_so: bool = True) -> Schema:
        """The schema where missing cells are missing at random, or where they are modeled."""
        columns = (replace(c, at_random=is_so and c.has_missing) for c in self.columns)
        return replace(self, columns=tuple(columns))

    def modeled(self) -> Schema:
        """The schema of a fitted model: without features of columns missing at random."""
        return Schema(
            tuple(
                replace(c, has_missing=False, center=0.0, at_random=False) if c.at_random else c
                for c in self.columns
            )
        )

    def modeled_cells(self, features: Float) -> encoding.Encoded:
        """Features of the `modeled` schema, and which cells are left out of its density."""
        left_out = np.zeros((len(features), self.n_columns), dtype=bool)
        parts = []
        for number, column in enumerate(self.columns):
            part = features[:, list(self.features_of(number))]
            if column.at_random:
                left_out[:, number] = part[:, -1] < 0.5
                part = part[:, :-1] + column.center
            parts.append(part)
        return encoding.Encoded(np.hstack(parts), left_out if left_out.any() else None)

    def with_column(self, number: int, **changes: Any) -> Schema:
        """The schema with one column changed."""
        column = replace(self.columns[number], **changes)
        return Schema((*self.columns[:number], column, *self.columns[number + 1 :]))

    def encode(self, rows: Any) -> Float:
        """Rows as features, of shape (n_rows, n_features).

        Parameters
        ----------
        rows : array, data frame, Arrow table, list of rows, or dict of columns
            The columns of frames and dicts are matched by name, in any order.

        Raises
        ------
        InputError
            Where a value is outside the range of its family, a level was never seen, or a cell is
            missing in a column that has no ``seen``.
        """
        table = MemoryTable(rows, expected=self.column_names)
        if not table.n_rows:
            raise InputError("rows must hold at least one row; got none. Skip empty blocks.")
        places = self.places_in(table.column_names, table.n_columns, "the schema", "rows")
        ((_, batch),) = table.batches(places)

        def where(row: int, column: int) -> str:
            return f"row {row}, {column_label(column, self.column_names)}"

        encoded = encoding.encode(self.columns, batch, where)
        if encoded.missing is not None:
            raise encoding.missing_cell(encoded.missing, where)
        return encoded.features

    def places_in(
        self, names: Sequence[str] | None, n_columns: int, owner: str, name: str
    ) -> list[int]:
        """Numbers of the columns in a table, by name where both have names; others are left out.

        `owner` has these columns, and `name` is that of the table, for messages.
        """
        expected = self.column_names
        if names is not None and expected is None and n_columns == self.n_columns:
            expected = names_for(None, names)  # warns where names cannot be compared
        if names is not None and expected is not None:
            return match_names(expected, names, owner, others=True)
        if n_columns != self.n_columns:
            raise InputError(
                f"{name} must have the {self.n_columns} columns of {owner}; got {n_columns}. "
                f"Select them with {option(columns=...)}."
            )
        return list(range(n_columns))

    def decode(self, features: Any) -> Any:
        """Features as columns.

        Returns
        -------
        dict of arrays by name, or array of shape (n_rows, n_columns) where columns have no names
            Levels as labels; NaN for a missing number, None for a missing label.
        """
        array = np.asarray(features, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != self.n_features:
            raise InputError(
                f"features must have shape (n_rows, {self.n_features}); got {array.shape}."
            )
        parts = np.split(array, self._starts[1:-1], axis=1)
        columns = [encoding.decode(*pair) for pair in zip(self.columns, parts, strict=True)]
        if self.column_names is not None:
            return dict(zip(self.column_names, columns, strict=True))
        kind = object if any(column.dtype == object for column in columns) else np.float64
        return np.column_stack([column.astype(kind) for column in columns])

    def to_dict(self) -> dict[str, Any]:
        """The schema in plain JSON."""
        return {"columns": [_COLUMN.encode(column) for column in self.columns]}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a JSON file to edit; `load` reads it."""
        usual, kept = _COLUMN.encode(Column(None)), []
        for number, column in enumerate(self.columns):
            facts = _COLUMN.encode(column).items()  # what an editor need not read is left out
            kept.append(
                {k: x for k, x in facts if k in ("name", "family") or x != usual.get(k, "")}
            )
            if number in self.may_count:
                kept[-1]["may_count"] = True
        lines = ",\n  ".join(map(format_strict, kept))
        head = f'"format": "{FORMAT}",\n "version": {_VERSION}'
        head += f',\n "reading": {format_strict(self.reading)}' if self.reading else ""
        text = f'{{{head},\n "columns": [\n  {lines}\n ]}}\n'
        atomic_write(path, text.encode("ascii"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """The schema in a file that `save` or ``momentmix schema`` wrote, perhaps edited since."""
        try:
            document = parse_strict(Path(path).read_bytes().decode())
            if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
                raise ValueError(f'no "format": "{FORMAT}" in it')
            check_version(document, "it", _VERSION)
            columns, reading = document.get("columns"), document.get("reading", {})
            marks = list[Any]()
            if isinstance(columns, list):
                columns = [_without_log_family(column) for column in columns]
                marks = [isinstance(x, dict) and x.pop("may_count", False) for x in columns]
            schema = cls.from_dict({"columns": columns}, "")
            pairs = enumerate(zip(marks, schema.columns, strict=True))
            counts = tuple(i for i, (x, c) in pairs if x and c.family_name == Column.family)
            return replace(schema, reading=_READING(reading, "reading"), may_count=counts)
        except FileNotFoundError:
            raise NoInputError(f"{path} does not exist; check the path.") from None
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path} is not a schema: {str(error).rstrip('.')}. Correct it, or write it again: "
                f"momentmix schema DATA -o {path}."
            ) from None

    @classmethod
    def from_dict(cls, document: Any, place: str = "schema") -> Schema:
        """The schema of `to_dict`; ValueError where it is none."""
        schema: Schema = _FIELDS(document, place)
        return schema


def _without_log_family(column: Any) -> Any:
    """A column as `to_dict` writes it, where "log" was written for its family as in `families`."""
    family = column.get("family") if isinstance(column, dict) else None
    if isinstance(family, str) and is_family(family) and (transform := named(family).transform):
        return {**column, "family": Column.family, "transform": transform}
    return column


def _level(value: Any, place: str) -> Any:
    if not (is_text(value) or is_whole(value)):
        raise ValueError(f"{place} must hold strings, integers or true and false")
    return value


_VERSION = 1
_COLUMN = Fields(
    lambda values: Column(**{**values, "levels": tuple(values.get("levels", ()))}),
    {
        "name": fields.optional(fields.text),
        "family": fields.text,
        "levels": fields.list_of(_level),
        "has_missing": fields.boolean,
        "center": fields.number(),
        "transform": fields.text,
    },
    defaults={"transform": ""},
    may_lack=("family", "levels", "has_missing", "center"),
)
_READING_FIELDS: dict[str, Any] = {
    "delimiter": fields.text,
    "decimal": fields.text,
    "na_values": fields.list_of(fields.text),
    "header": fields.boolean,
}
_READING = Fields(dict, _READING_FIELDS, may_lack=tuple(_READING_FIELDS))
_FIELDS = Fields(
    lambda values: Schema(tuple(values["columns"])), {"columns": fields.list_of(_COLUMN)}
)


@lru_cache(maxsize=64)  # of one object it is seen at once that it is the same schema
def plain_schema(n_columns: int, names: tuple[str, ...] | None = None) -> Schema:
    """The schema of numbers without missing cells."""
    return Schema(tuple(Column(name) for name in names or (None,) * n_columns))


def joined(left: Schema, right: Schema) -> Schema:
    """The schema in which both kinds of rows can be encoded, whatever their order."""
    if left.n_columns != right.n_columns:
        raise InputError(
            f"tables must have the same columns; got {left.n_columns} and {right.n_columns}. "
            "Select the common ones."
        )
    names = left.column_names or right.column_names
    pairs = zip(left.columns, right.columns, strict=True)
    return Schema(tuple(_joined(a, b, column_label(i, names)) for i, (a, b) in enumerate(pairs)))


def _joined(a: Column, b: Column, label: str) -> Column:
    if a.name is not None and b.name is not None and a.name != b.name:
        raise InputError(
            f"tables must have the same columns; {label} is {b.name!a} in the other. Rename or "
            "select the columns."
        )
    name = a.name or b.name
    key = int(label.split()[1]) if name is None else name
    for expected, left, right, wanted in (
        ("one family", a.family_name, b.family_name, a.family_name),
        (
            "the same levels, in one order",
            a.levels,
            b.levels,
            [*dict.fromkeys(a.levels + b.levels)],
        ),
    ):
        if left != right:
            raise InputError(
                f"a column must have {expected}; {label} is {_listed(left)} in one table and "
                f"{_listed(right)} in the other. Pass the same for both: "
                f"{option(families={key: wanted})}."
            )
    # Where one column has integers and the other bools, these are integers.
    are_bools = all(isinstance(level, bool | str) for level in a.levels + b.levels)
    levels = a.levels if are_bools else tuple(map(int, a.levels))
    centers = [column.center for column in (a, b) if column.has_missing]
    center = min(centers, key=lambda c: (abs(c), c), default=0.0)
    return replace(a, name=name, levels=levels, has_missing=bool(centers), center=center)


def _listed(family: str | tuple[Any, ...]) -> str:
    return family if isinstance(family, str) else f"of {', '.join(map(ascii, family))}"
