"""`Family`: all that depends on the family of a column, and the families by name.

| question | answered by |
|---|---|
| which cells may a column hold? | `Family.n_levels`, `Family.invalid`, `Family.column` |
| how are its features distributed within a component? | `Family.law` (`momentmix.families.law`) |
| what are its parameters, in the units of the column? | `Family.block_of`, `Family.quantities` |
| how are they named, written and read? | `Family.entries`, `Family.parameters`, `Family.noun` |
| how is it drawn? | `Family.curve`, `Family.is_whole` |
| how well does it predict whole numbers? | `Family.fit_cells` |

No other module names a family. A new one is a subclass in a module of its own, and
`register(MyFamily())`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float
from momentmix.errors import InputError, InputTypeError
from momentmix.families.law import Law, SeenValue
from momentmix.families.seen import Seen
from momentmix.wording import option

if TYPE_CHECKING:
    from momentmix.families.block import Block
    from momentmix.families.column import Column

_NARROWEST = 1e-9  # deviation beside the range of all components
_MOST_POINTS = 500  # of the distribution functions of all components
_AS_NUMBER = f"as 'gaussian' in {option(families=...)}."


class Quantity(NamedTuple):
    """A number of each component, (r,), its derivatives by (μ, v) of the features, (r, 2k).

    `scale` is that of its interval: "plain", "log" or "logit". `at_zero` and `at_one` mark where
    none of the `counts` rows of a component shows anything else; None: there is no such bound.
    Intervals stay above `least`.
    """

    values: Float
    slopes: Float
    scale: str
    counts: Float | None = None
    at_zero: NDArray[np.bool_] | None = None
    at_one: NDArray[np.bool_] | None = None
    least: float = -np.inf


class Quantities(NamedTuple):
    """The numbers that describe a column; None where it has no such number.

    `levels` are probabilities, or what `Family.entries` names beside the mean and the variance.
    """

    mean: Quantity | None
    variance: Quantity | None
    seen: Quantity | None = None
    levels: tuple[Quantity, ...] = ()


class Estimate(NamedTuple):
    """The estimate of the features of one column, which is shift + unit · z of the first."""

    law: Law
    means: Float  # (r, k)
    variances: Float  # (r, k)
    counts: Float  # (r,), rows of each component
    shift: float
    unit: float

    @property
    def at_zero(self) -> NDArray[np.bool_]:
        """Whether the rows cannot distinguish numbers of `Law.positive` from 0."""
        return self.law.at_zero(self.means, self.variances, self.counts)


class Value(NamedTuple):
    """The value of a column where it is seen, in units of its feature; of `Estimate`."""

    law: Law
    found: SeenValue
    chain: Float  # (r, 3, 2k), ∂ (mean, variance, q) / ∂ (μ, v) of the features
    counts: Float  # (r,), rows of each component that show it
    zero: NDArray[np.bool_]  # as `Estimate.at_zero`, of numbers of the value

    @property
    def positive(self) -> tuple[Float, Float]:
        """`Law.positive` of the value, with derivatives by (μ, v) of the features."""
        values, slopes = self.law.positive(self.found.mean, self.found.variance)
        return values, slopes @ self.chain[:, :2]


class Family(ABC):
    """All that depends on the family of a column.

    Attributes
    ----------
    name : str
        As in ``families={"column": name}``.
    noun : str
        Name of its values in texts: "numbers", "counts".
    block_type : type of Block
    parameters : mapping of str to int
        Attributes of its blocks that model files hold, and their number of axes.
    entries : tuple of str
        Names of the mean and the variance of a column in tables of parameters: "mean", "rate", …;
        others are in `Block.others`. Without any, the probabilities of all levels are its
        parameters.
    transform : str
        What is taken of numbers before they are Gaussian; "" for all other families.
    n_levels : int or None
        Levels of a column; None: two or more. Of two, the probability of the second says it all.
    is_whole : bool
        Whether values are whole numbers, which are drawn as bars.
    joins : bool
        Whether columns may be correlated within components, and are centered where they have
        missing cells.
    """

    name: ClassVar[str]
    noun: ClassVar[str]
    block_type: ClassVar[type[Any]]
    parameters: ClassVar[Mapping[str, int]]
    entries: ClassVar[tuple[str, ...]] = ()
    transform: ClassVar[str] = ""
    n_levels: ClassVar[int | None] = 0
    is_whole: ClassVar[bool] = False
    joins: ClassVar[bool] = False

    @property
    def has_levels(self) -> bool:
        """Whether columns have levels."""
        return self.n_levels != 0

    # -- cells ----------------------------------------------------------------------------------

    @property
    def least(self) -> float:
        """Least value of a feature."""
        return -np.inf

    @property
    def requirement(self) -> str:
        """The values that are allowed, as the beginning of an error message."""
        return ""

    def check(self) -> None:
        """Raise where parts of the family do not belong together; called by `register`."""
        self.value_law(0)

    def invalid(self, numbers: Array) -> NDArray[np.bool_] | None:
        """Return which numbers the family does not allow; None where it allows all."""
        return None

    def check_values(self, numbers: Array, place: Any) -> None:
        """Raise where a number is not allowed; `place(row)` names its cell."""
        wrong = self.invalid(numbers)
        if wrong is not None and wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"{self.requirement}; {place(row)}, is {numbers[row]:.17g}. Correct the cell, or "
                f"take the column {_AS_NUMBER}"
            )

    def column_of_numbers(
        self, column: Column, label: str, ends: Float, mean: float, variance: float
    ) -> Column:
        """Return the column of this family for a summary of numbers between `ends`."""
        wrong = self.invalid(ends)
        if wrong is not None and wrong.any():
            raise InputError(
                f"{self.requirement}; {label} lies between {ends[0]:.6g} and {ends[1]:.6g}. Take "
                f"it {_AS_NUMBER}"
            )
        return type(column)(column.name, self.name)

    # -- features and parameters ------------------------------------------------------------------

    @abstractmethod
    def value_law(self, feature: int) -> Law:
        """Return the law of the feature of a column without missing cells."""

    def law(self, column: Column, features: tuple[int, ...]) -> Law | None:
        """Return the law of the features of a column; None where they are Gaussian."""
        value = self.value_law(features[0])
        if column.has_missing:
            return Seen(features, value, at_random=column.at_random)
        return None if value.is_gaussian else value

    def block_of(self, column: Column, law: Law, means: Float, variances: Float) -> Block:
        """Return the parameters of a column from means and variances (r, k) of its features."""
        found = law.value_of(means, variances)
        seen = found.q if column.models_gaps else None
        return self.value_block(column, law.value_law, found, seen)

    def value_block(self, column: Column, law: Law, found: SeenValue, seen: Float | None) -> Block:
        """Return the parameters of a column from the parameters of its value."""
        raise NotImplementedError

    def read_block(self, values: Mapping[str, Any], columns: list[Column]) -> Block:
        """Return the block of `parameters` and ``seen`` of a model file; ValueError if none."""
        own = {key: values[key] for key in (*self.parameters, "seen")}
        if self.has_levels:
            own["levels"] = columns[0].levels
        block: Block = self.block_type(**own)
        return block

    def quantities(self, column: Column, e: Estimate) -> Quantities:
        """Return the numbers that describe a column, with their derivatives."""
        law, zero = e.law, e.at_zero
        found = law.value_of(e.means, e.variances)
        chain, own, seen = law.chain(found, e.means), zero, None
        if law.has_gaps:
            own = zero[:, 2:].copy()
            own[:, :1] |= zero[:, 1:2]
            seen = Quantity(found.q, chain[:, 2], "logit", e.counts, zero[:, 1], zero[:, 0])
        value = Value(law.value_law, found, chain, e.counts * found.q, own)
        found_values = self.value_quantities(e, value)
        return found_values._replace(seen=seen) if column.models_gaps else found_values

    def value_quantities(self, e: Estimate, value: Value) -> Quantities:
        """Return the numbers that describe the value of a column where it is seen."""
        raise NotImplementedError

    # -- pictures and advice ----------------------------------------------------------------------

    def curve(
        self, means: Float, deviations: Float, limits: tuple[float, float]
    ) -> tuple[Float, Float]:
        """Return points (n,) of an axis, and the density or probability of each component, (r, n).

        `means` and `deviations` have shape (r, 1). Levels have no curve.
        """
        raise NotImplementedError

    def distribution(self, means: Float, deviations: Float) -> tuple[Float, Float]:
        """Return points (n,), and the probability below each in each component, (r, n).

        `means` and `deviations` have shape (r, 1). By default as of Gaussian numbers.
        """
        from scipy.special import ndtr  # not where rows are only read: it takes long

        known = ~np.isnan(means[:, 0])
        width = float(np.ptp(means[known])) + float(deviations[known].max())
        widths = np.maximum(deviations, _NARROWEST * width + np.finfo(float).tiny)
        n = int(np.clip(_MOST_POINTS // len(means), 17, 41))
        points = np.unique(means[known] + widths[known] * np.linspace(-4, 4, n))
        return points, ndtr((points - means) / widths)

    def fit_cells(self, values: Float, histograms: Float) -> Float | None:
        """Return log-probabilities (r, n) of whole numbers, fitted to weighted histograms (r, n).

        None where the family is none of whole numbers, or does not allow these, (n,).
        """
        return None


# -- the families by name -------------------------------------------------------------------------

FAMILIES: dict[str, Family] = {}


def register(family: Family) -> None:
    """Make ``families={"column": family.name}`` work.

    Parameters
    ----------
    family : Family
        Registered for this process; one of the same name is replaced.
    """
    if not isinstance(family, Family):
        raise InputTypeError(f"register takes a Family; got {type(family).__name__}.")
    try:
        family.check()
    except AttributeError as error:
        raise InputTypeError(f"{type(family).__name__} is not complete: {error}.") from None
    FAMILIES[family.name] = family


def named(name: str) -> Family:
    """Return the family of this name; KeyError where there is none."""
    return FAMILIES[name]


def is_family(name: object) -> bool:
    """Return whether a family has this name."""
    return isinstance(name, str) and name in FAMILIES


def unknown_family(family: object, label: str) -> str:
    """Return the message for a family that does not exist."""
    known = ", ".join(map(repr, FAMILIES))
    return f"families must be {known}, or a list of levels; {label} has {family!a}."
