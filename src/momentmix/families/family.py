"""`Family`: all that depends on the family of a column, in the units of the column.

| symbol | name here | shape |
|---|---|---|
| y: a number, a count, or indicators of all levels but the first | | (…, k) |
| E y and Var y within a component | ``mean``, ``variance`` | (…, k) |
| t(y): statistics beside y and y² | `statistics` | (m, n) |
| log p(y) = c · (y, y², t, 1) + h(y) | `coefficients`, `base` | (…, 2k + m + 1) |
| sums of (y, y², t, 1) → E y, Var y | `m_step` | |
| points y and their weights, for sums in the place of means | `support` | (r, n, k), (r, n) |

Derivatives are taken by complex steps (`derivatives`): functions of (E y, Var y) take complex
numbers, and bounds (`clipped`) leave the imaginary part as it is.

`momentmix.families.distribution` adds standardized features and missing cells. A new family is one
class and `register(MyFamily())`; of counts, a `momentmix.families.counts.CountFamily`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float, Int
from momentmix.errors import InputError, InputTypeError
from momentmix.wording import option

if TYPE_CHECKING:
    from momentmix.families.block import Block
    from momentmix.families.column import Column

LEAST_PROBABILITY = 1e-9  # within a component: its logarithm stays finite
LEAST_VARIANCE = 1e-6  # of a value, in units of its variance over all rows
PSEUDO_ROWS = 1.0  # of the prior of a component: as if one row were like all rows together
# Rows of a component that show an outcome, beside the prior's. With fewer, rows show no more than
# that the outcome is rare: their scores are the same for all, and look like scores of weights.
FEWEST_ROWS = 0.5
_NARROWEST = 1e-9  # deviation beside the range of all components
_NARROWEST_DRAWN = 1e-3  # the same beside the width of a picture
_MOST_POINTS = 500  # of the distribution functions of all components


class Prior(Protocol):
    """The part of `momentmix.mixture.prior.VariancePrior` that families use."""

    def variances(self, counts: Float, squares: Float, floor: Any) -> Float: ...
    def log_terms(self, values: Float) -> Float: ...


class Overall(NamedTuple):
    """The value over all rows; the prior of a component is that one row is like them."""

    mean: Float  # (…, k)
    variance: Float
    observed: Float  # probability, (…,)
    least: Float  # least variance of a component beside `variance`, (…, 1)
    statistics: Float = np.zeros(0)  # E t, (…, m)

    @property
    def all_statistics(self) -> Float:
        """Means of (y, y², t, 1), of shape (…, 2k + m + 1)."""
        parts = self.mean, self.variance + self.mean**2, self.statistics
        shape = self.mean.shape[:-1]
        rows = [np.broadcast_to(x, (*shape, x.shape[-1])) for x in parts]
        return np.concatenate([*rows, np.ones((*shape, 1))], axis=-1)


_STEP = 2.0**-300  # of a derivative: its square vanishes, so that no difference is taken


def derivatives(function: Callable[[Any], Any], x: Float, free: Iterable[int]) -> Float:
    """∂f / ∂x of shape (…, p), for f of shape (…) or (…, m) at x of shape (…, p); 0 if not free.

    The derivative of f at x is the imaginary part of f(x + i·step) / step.
    """
    found = None
    for j in free:
        moved = x.astype(np.complex128)
        moved[..., j] += 1j * _STEP
        slope = function(moved).imag / _STEP
        found = np.zeros((*slope.shape, x.shape[-1])) if found is None else found
        found[..., j] = slope
    return np.zeros((*function(x).shape, x.shape[-1])) if found is None else found


def clipped(x: Any, least: Any, most: Any = None) -> Any:
    """x within bounds; its complex step, if any, as it is."""
    real = np.maximum(x.real, least)
    real = real if most is None else np.minimum(real, most)
    return real + 1j * x.imag if np.iscomplexobj(x) else real


def log1p(x: Any) -> Any:
    """log(1 + x) with all digits, also of complex steps."""
    return np.log1p(x.real) + 1j * x.imag / (1 + x.real) if np.iscomplexobj(x) else np.log1p(x)


class Quantity(NamedTuple):
    """A number of each component, (r,)."""

    values: Float
    scale: str  # of its interval: "plain", "log" or "logit"
    counts: Float | None = None
    at_zero: NDArray[np.bool_] | None = None  # where none of the `counts` rows shows anything else
    at_one: NDArray[np.bool_] | None = None
    least: float = -np.inf  # of its interval
    slopes: Float = np.zeros(0)  # derivatives, (r, 2k)


class Quantities(NamedTuple):
    """The numbers that describe a column; None where it has no such number.

    `levels` are probabilities, or what `Family.entries` names beside the mean and the variance.
    """

    mean: Quantity | None
    variance: Quantity | None
    observed: Quantity | None = None
    levels: tuple[Quantity, ...] = ()

    @property
    def numbers(self) -> list[Quantity]:
        """All that are not None, in the order of the fields."""
        return [x for x in (*self[:3], *self.levels) if x is not None]

    def with_slopes(self, slopes: Iterable[Float]) -> Quantities:
        """The same with derivatives of `numbers`."""
        rest = iter(slopes)
        mean, variance, observed = (x and x._replace(slopes=next(rest)) for x in self[:3])
        levels = tuple(x._replace(slopes=next(rest)) for x in self.levels)
        return Quantities(mean, variance, observed, levels)


class Family(ABC):
    """All that depends on the family of a column."""

    name: ClassVar[str] = ""  # as in ``families={"column": name}``
    noun: ClassVar[str] = ""  # of its values in texts: "numbers", "counts"
    singular: ClassVar[str] = ""  # a value, in findings about its variance
    parameters: ClassVar[Mapping[str, int]] = {}  # of its blocks, and their numbers of axes
    # Names of the mean, the variance and `Block.others` in tables of parameters. Without any, the
    # probabilities of all levels are the parameters.
    entries: ClassVar[tuple[str, ...]] = ()
    transform: ClassVar[str] = ""  # what is taken of numbers before they are Gaussian
    n_levels: ClassVar[int | None] = 0  # of a column; None: two or more
    is_whole: ClassVar[bool] = False  # whether values are whole numbers, drawn as bars
    joins: ClassVar[bool] = False  # whether columns may be correlated within components
    free: ClassVar[bool] = False  # whether the variance is a parameter; else the mean gives it
    least: ClassVar[float] = -np.inf  # least value
    compiled: ClassVar[int | None] = None  # number of its maps in native/families.h, if any
    block_of: Callable[
        ..., Block
    ]  # makes its blocks from `parameters`, ``seen``, and levels or transforms
    requirement: ClassVar[str] = ""  # the values that are allowed, as the beginning of an error
    alternatives: ClassVar[str] = "'gaussian'"  # families of values that are not allowed

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def has_levels(self) -> bool:
        """Whether columns have levels."""
        return self.n_levels != 0

    # -- cells ------------------------------------------------------------------------------------

    def check(self) -> None:  # noqa: B027 - most have nothing to check
        """Raise where parts of the family do not belong together; called by `register`."""

    def invalid(self, numbers: Array) -> NDArray[np.bool_] | None:
        """Return which numbers the family does not allow; None where it allows all."""
        return None

    def check_values(self, numbers: Array, place: Any) -> None:
        """Raise where a number is not allowed; `place(row)` names its cell."""
        with np.errstate(invalid="ignore"):
            wrong = self.invalid(numbers)
        if wrong is not None and wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"{self.requirement}; {place(row)}, is {numbers[row]:.17g}. Correct the cell or "
                f"set it to missing, or take the column as {self.alternatives} in "
                f"{option(families=...)}."
            )

    def forward(self, values: Float) -> Float:
        """T(y) where the family is a `transform`, −inf or NaN for numbers out of its range."""
        return values

    def inverse(self, values: Float) -> Float:
        """The numbers y of T(y)."""
        return values

    def log_slope(self, values: Float) -> Float:
        """Return log dT/dy at the numbers T(y): the log-density of y is that of T(y) and this."""
        return np.zeros_like(values)

    # -- the distribution of a value --------------------------------------------------------------

    @property
    def n_statistics(self) -> int:
        """Number m of statistics beside y and y²."""
        return 0

    def statistics(self, values: Any, xp: Any = np) -> Any:
        """Return t(y) of values (…, 1, n), of shape (…, m, n), by the library `xp`."""
        return values[..., :0, :]

    @property
    def nodes(self) -> tuple[int, Float]:
        """Numbers that say what t is, for compiled code."""
        return 0, np.zeros(0)

    def covering(self, largest: float) -> Self:
        """The same for values up to this one, which may need fewer statistics."""
        return self

    def overall(self, overall: Overall) -> Overall:
        """The same as the family allows it, with means of t(y)."""
        mean, variance = self.completed(overall.mean, overall.variance)
        return overall._replace(mean=mean, variance=variance)

    def completed(self, mean: Float, variance: Float) -> tuple[Float, Float]:
        """Return the nearest means that are allowed, and the variances that belong to them."""
        return mean, variance

    @abstractmethod
    def coefficients(self, mean: Float, variance: Float) -> Float:
        """Return log p(y) as a linear function of (y, y², t, 1), of shape (…, 2k + m + 1)."""

    @abstractmethod
    def m_step(
        self, n: Float, sums: Float, squares: Float, t_sums: Float, overall: Overall, prior: Prior
    ) -> tuple[Float, Float]:
        """Most probable mean and variance from sums of 1, (…, 1), y and y², (…, k), and t."""

    def base(self, values: Float) -> Float | None:
        """Return h(y), the part of log p(y) that is the same in all components; None: 0."""
        return None

    def log_prior(self, mean: Float, variance: Float, overall: Overall, prior: Prior) -> Float:
        """Logarithm of the prior density of each component up to a constant, (…,)."""
        table = self.coefficients(mean, variance)
        return np.asarray(PSEUDO_ROWS * (table * overall.all_statistics).sum(axis=-1))

    @abstractmethod
    def support(self, mean: Float, variance: Float, degree: int) -> tuple[Float, Float]:
        """Values (r, n, k) and their weights (r, n): sums are means of polynomials of a degree."""

    def is_new(self, exponents: Int) -> NDArray[np.bool_]:
        """Whether powers (n, k) are no linear combination of lower ones, (n,)."""
        return np.ones(len(exponents), dtype=bool)

    @abstractmethod
    def sample(self, mean: Float, variance: Float, n: int, rng: np.random.Generator) -> Float:
        """Draw values (n, k) of one component, of means (k,) and variances (k,)."""

    # -- numbers with bounds ----------------------------------------------------------------------

    @abstractmethod
    def positive(self, mean: Float, variance: Float) -> Float:
        """Numbers that are never negative, linear in (E y, Var y), of shape (r, n)."""

    @abstractmethod
    def with_positive(self, values: Float, mean: Float, variance: Float) -> tuple[Float, Float]:
        """Means and variances where these numbers are others."""

    def at_zero(
        self, mean: Float, variance: Float, counts: Float, overall: Overall
    ) -> NDArray[np.bool_]:
        """Whether `counts` rows (r,) cannot distinguish `positive` numbers (r, n) from 0."""
        of_prior = PSEUDO_ROWS * self.positive(overall.mean[None], overall.variance[None])
        rows = (counts[:, None] + PSEUDO_ROWS) * self.positive(mean, variance) - of_prior
        return np.asarray(rows < FEWEST_ROWS)

    # -- parameters of columns --------------------------------------------------------------------

    def block(self, column: Column, mean: Float, variance: Float, seen: Float | None) -> Block:
        """Return the parameters of a column from means and variances (r, k) of its value."""
        raise NotImplementedError

    def read_block(self, values: Mapping[str, Any], columns: list[Column]) -> Block:
        """Return the block of `parameters` and ``seen`` of a model file; ValueError if none."""
        parameters = {key: values[key] for key in (*self.parameters, "seen")}
        if self.has_levels:
            parameters["levels"] = columns[0].levels
        if self.joins:
            parameters["transforms"] = tuple(column.transform for column in columns)
        return self.block_of(**parameters)

    def quantities(
        self, mean: Float, variance: Float, counts: Float, zero: NDArray[np.bool_]
    ) -> Quantities:
        """Numbers that describe the value, without slopes; `zero` as of `at_zero`."""
        raise NotImplementedError

    # -- pictures and advice ----------------------------------------------------------------------

    def log_density(self, values: Float, mean: Float, variance: Float) -> Float:
        """Return log p(y) of values (n,) or (r, n) for parameters (r, 1), of shape (r, n)."""
        y = np.broadcast_to(values, (len(mean), values.shape[-1]))[:, None]
        table = self.coefficients(mean, variance)[:, None]
        statistics = np.concatenate([y, y * y, self.statistics(y)], axis=1)
        logs = table[..., -1] + (table[..., :-1] @ statistics)[:, 0]
        base = self.base(values)
        return np.asarray(logs if base is None else logs + base)

    def curve(
        self, means: Float, deviations: Float, limits: tuple[float, float]
    ) -> tuple[Float, Float]:
        """Return points (n,) of an axis, and the density or probability of each component, (r, n).

        `means` and `deviations` have shape (r, 1). Levels have no curve.
        """
        low, high = limits
        if self.is_whole:
            first, last = max(low + 0.5, self.least), high - 0.5
            grid = np.arange(first, last + 1, max(1.0, np.floor((last - first) / 500)))
            return grid, np.exp(self.log_density(grid, means, deviations**2))
        width = np.maximum(deviations, _NARROWEST_DRAWN * (high - low))
        near = (means + width * np.linspace(-4, 4, 41)).ravel()
        near = near[(near > low) & (near < high)]
        grid = np.unique(np.concatenate([np.linspace(low, high, 300), near]))
        return grid, np.exp(self.log_density(grid, means, width**2))

    def below(self, means: Float, deviations: Float) -> tuple[Float, Float]:
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
    except (AttributeError, NotImplementedError) as error:
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
