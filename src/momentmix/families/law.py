"""`Law`: the distribution of the features of one column within a component.

| symbol | name here | shape |
|---|---|---|
| μ: means of the block's features within a component | ``means`` | (…, k) |
| v: their variances; all but the `free` ones follow from the means | ``variances`` | (…, k) |
| t(z): statistics beside z and z² | `Law.own_statistics` | (m, n) |
| log p(z) = c · (z, z², t, 1) | `Law.coefficients` | (…, 2k + m + 1) |
| sums of (z, z², t, 1) → μ, v | `Law.m_step` | |
| E z^e of exponents e, and its derivatives by μ and v | `Law.moments`, `Law.slopes` | |
| ∂ log p(z) / ∂ (μ, v) = table · (z, z², t, 1) | `Law.scores` | (…, 2k, 2k + m + 1) |

Log-densities are linear in the statistics (z, z², t, 1), up to a term that is the same in all
components, so that one matrix product serves all laws. Most laws need no t. A law whose values are
whole numbers can take the indicators of each of them: the log-density is then any function of the
value, and the sums are a weighted histogram. `Law.rescaled` is the law of (z − shift) / scale.
Densities are of the features in the units of the data, whatever the units of z.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int

LEAST_VARIANCE = 1e-6  # of a value, in units of its variance over all rows
PSEUDO_ROWS = 1.0  # of the prior of a component: as if one row were like all rows together
# Rows of a component that show an outcome, beside the prior's. With fewer, rows show no more than
# that the outcome is rare: their scores are the same for all, and look like scores of weights.
_FEWEST_ROWS = 0.5
_STEP = 1e-6  # of a probability or rate, for a derivative: its error is about as large


class SeenValue(NamedTuple):
    """Probability of being seen (…,), and mean and variance of the value, (…, 1) each."""

    q: Float
    mean: Float
    variance: Float


class Prior(Protocol):
    """The part of `momentmix.mixture.prior.VariancePrior` that laws use."""

    def variances(self, counts: Float, squares: Float, floor: float) -> Float: ...
    def log_terms(self, values: Float) -> Float: ...
    def slope(self, eigenvalues: Float, width: float) -> Float: ...
    def curvature(self, eigenvalues: Float, width: float) -> Float: ...


@dataclass(frozen=True)
class Law(ABC):
    """The distribution of the features of one column within a component.

    Parameters
    ----------
    features : tuple of int
        Numbers of the features, ascending.

    Attributes
    ----------
    noun : str
        A value of the law, in findings, where its variance follows from its mean, or is bounded.
    wider : str
        The family of values that vary more; empty where there is none.
    is_gaussian : bool
        Whether features without missing cells need no law.
    has_gaps : bool
        Whether cells may be missing; the last feature is then 1 where they are seen.
    at_random : bool
        Whether cells are missing at random: the density is that of seen cells alone, and the last
        feature has the mean of all rows in every component.
    by_law : tuple of str
        Parameters that are arrays, with an entry for each law, in a law that is several.
    """

    features: tuple[int, ...]
    noun: ClassVar[str] = ""
    wider: ClassVar[str] = ""
    is_gaussian: ClassVar[bool] = False
    has_gaps = False  # fields of laws that can have gaps
    at_random = False
    by_law: ClassVar[tuple[str, ...]] = ()

    @property
    def free(self) -> tuple[bool, ...]:
        """Whether each variance is a parameter of its own; the others follow from the means."""
        return (False,) * len(self.features)

    @property
    def n_own(self) -> int:
        """Number of statistics beside z and z²."""
        return 0

    def own_statistics(self, values: Any, xp: Any = np) -> Any:
        """Return t(z) of features (…, k, n), of shape (…, n_own, n), by the library `xp`."""
        return values[..., :0, :]

    def covering(self, largest: float) -> Self:
        """The same for values up to this one, which may need fewer statistics."""
        return self

    @property
    def compiled(self) -> tuple[int, tuple[Any, ...]] | None:
        """Kind of the law in native/laws.h, and its numbers; None where it has no compiled maps."""
        return None

    @property
    def value_law(self) -> Law:
        """The law of the value where it is seen."""
        return self

    @property
    def value_feature(self) -> int | None:
        """The feature of a number that may be missing; None for all other laws."""
        return None

    @property
    def seen_middle(self) -> float:
        """The last feature lies above it where a cell is seen, if cells may be missing."""
        return 0.5

    @property
    def n_values(self) -> int:
        """Features that distinguish components: all but the one of whether a cell is seen."""
        return len(self.features) - self.has_gaps

    def value_of(self, means: Float, variances: Float) -> SeenValue:
        """Probability of being seen, mean and variance of the value of one feature."""
        return SeenValue(np.ones(means.shape[:-1]), means, variances)

    def chain(self, found: SeenValue, means: Float) -> Float:
        """∂ (mean, variance, q) of the value of one feature / ∂ (μ, v), of shape (…, 3, 2k)."""
        return np.broadcast_to(np.eye(3, 2), (*found.q.shape, 3, 2))

    def with_floor(self, least: float) -> Self:
        """The same where no component's value varies less than that.

        In units of the feature; of a value that may be missing, of its variance over all rows.
        """
        return self

    def floored(self, variances: Float, overall: Float) -> Float:
        """Variances of at least what the law allows; `overall` is the variance of all rows."""
        return variances

    def at(self, features: tuple[int, ...]) -> Self:
        """The same law of features with other numbers."""
        return replace(self, features=features)

    @property
    def kind(self) -> tuple[object, ...]:
        """Laws of the same kind can be stacked."""
        return type(self), len(self.features), self.n_own, self.at_random

    @classmethod
    def stacked(cls, laws: Sequence[Self]) -> Self:
        """Several laws of this kind as one, in an axis before that of the features.

        It serves EM: `completed`, `coefficients`, `m_step` and `log_prior` of means (…, n, k).
        """
        own: dict[str, Any] = {x: np.array([getattr(law, x) for law in laws]) for x in cls.by_law}
        return replace(laws[0], **own)

    @abstractmethod
    def rescaled(self, shift: Float, scale: Float) -> Self:
        """The law of (z − shift) / scale."""

    def without(self, place: int, value: float) -> Law | None:
        """The law where the feature at a place is always `value`, and left out; None: Gaussian."""
        return None

    def completed(self, means: Float, variances: Float) -> tuple[Float, Float]:
        """The nearest means that the law allows, and the variances that belong to them."""
        return means, variances

    @abstractmethod
    def coefficients(self, means: Float, variances: Float) -> Float:
        """The log-density as a linear function of (z, z², t, 1), of shape (…, 2k + n_own + 1)."""

    @abstractmethod
    def m_step(
        self, counts: Float, sums: Float, squares: Float, own: Float, prior: Prior
    ) -> tuple[Float, Float]:
        """Most probable means and variances from sums of 1, (…, 1), z and z², (…, k), and t."""

    @abstractmethod
    def log_prior(self, means: Float, variances: Float, prior: Prior) -> Float:
        """Logarithm of the prior density of each component up to a constant, (…,)."""

    @abstractmethod
    def prior_slopes(self, means: Float, variances: Float, prior: Prior) -> tuple[Float, Float]:
        """Slope of `log_prior` by (μ, v), (r, 2k), and its curvature, (r, 2k, 2k)."""

    @abstractmethod
    def moments(self, means: Float, variances: Float, exponents: Int) -> Float:
        """E z^e of one mixture for exponents (n, k), of shape (n, r)."""

    def products(self, means: Float, variances: Float, exponents: Int) -> Float:
        """E z^e z^f of all pairs of exponents (n, k), of shape (r, n, n)."""
        n, k = exponents.shape
        sums = (exponents[:, None] + exponents).reshape(-1, k)
        distinct, place = np.unique(sums, axis=0, return_inverse=True)
        found = self.moments(means, variances, distinct)[place.ravel()]
        return np.ascontiguousarray(found.T).reshape(-1, n, n)

    @abstractmethod
    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
        """Derivatives of `moments` by (μ, v), of shape (n, 2k, r)."""

    @abstractmethod
    def scores(self, means: Float, variances: Float) -> Float:
        """∂ log p(z) / ∂ (μ, v) as linear functions of (z, z², t, 1), (…, 2k, 2k + n_own + 1)."""

    @abstractmethod
    def sample(self, means: Float, variances: Float, n: int, rng: np.random.Generator) -> Float:
        """Features (n, k) drawn from the law with means (k,) and variances (k,)."""

    def sample_seen(
        self, means: Float, variances: Float, n: int, rng: np.random.Generator
    ) -> Float:
        """The same, given that no cell is missing."""
        return self.sample(means, variances, n, rng)

    @abstractmethod
    def quadrature(
        self, place: int, means: Float, variances: Float, degree: int
    ) -> tuple[Float, Float]:
        """Values of one feature and weights, (r, n) each, exact for polynomials of this degree."""

    @abstractmethod
    def positive(self, means: Float, variances: Float) -> tuple[Float, Float]:
        """Numbers that are positive in every law of this kind, (r, n), by (μ, v), (r, n, 2k).

        Where cells may be missing, the first is the probability that they are.
        """

    @abstractmethod
    def with_positive(self, values: Float, means: Float, variances: Float) -> tuple[Float, Float]:
        """Means and variances where these numbers are others."""

    @property
    @abstractmethod
    def prior_positive(self) -> Float:
        """Return what the row of the prior adds to the sums of `positive`; NaN: no bound."""

    def at_zero(self, means: Float, variances: Float, counts: Float) -> NDArray[np.bool_]:
        """Return whether `counts` rows (r,) cannot distinguish `positive` numbers (r, n) from 0."""
        values, prior = self.positive(means, variances)[0], self.prior_positive
        shown = counts[:, None] * values + PSEUDO_ROWS * values - prior
        return np.asarray(shown < _FEWEST_ROWS)  # never for NaN

    def turns(self, means: Float, variances: Float, numbers: Int) -> Float:
        """∂(μ, v) by some numbers of `positive`, (n, 2k), where others keep their proportions."""
        values, ends = self.positive(means[None], variances[None])[0], []
        for m in numbers:
            moved = values.copy()
            moved[0, m] += _STEP
            after = self.with_positive(moved, means[None], variances[None])
            ends.append(np.concatenate([after[0][0] - means, after[1][0] - variances]) / _STEP)
        return np.array(ends)

    def unseen(
        self, means: Float, variances: Float, counts: Float
    ) -> tuple[NDArray[np.bool_], Float, Float]:
        """Where no cell is seen, (r,): slopes (r, n, 2k) and errors (r, n) of other numbers."""
        r, k = means.shape
        return np.zeros(r, dtype=bool), np.zeros((r, 0, 2 * k)), np.zeros((r, 0))

    def probability_seen(self, means: Float, variances: Float) -> Float | None:
        """Probability of being seen, of shape (r,); None where it is no part of the model."""
        is_modeled = self.has_gaps and not self.at_random
        return 1.0 - self.positive(means, variances)[0][:, 0] if is_modeled else None

    def without_seen(
        self, means: Float, variances: Float, which: NDArray[np.bool_]
    ) -> tuple[Float, Float]:
        """Means and variances where some components, (r,), never see the cell."""
        return means, variances

    def widened(self, means: Float, variances: Float, factors: Float) -> tuple[Float, Float]:
        """Means and variances where the value's own variance is so many times as large, (r,)."""
        return means, variances

    def is_new(self, exponents: Int) -> NDArray[np.bool_]:
        """Return whether monomials (n, k) are no linear combination of lower ones, (n,)."""
        return np.ones(len(exponents), dtype=bool)

    def base_measure(self, rows: Float) -> Float | None:
        """Return the part of the log-density of rows (n, d) beside its linear function of T; (n,).

        None where it has nothing.
        """
        return None


def with_joined_values(laws: tuple[Law, ...], values: Collection[int]) -> tuple[Law, ...]:
    """The laws where these features are values of joined columns.

    A joined value is Gaussian, and left out of the density where its cell is missing. The law is
    that of ``seen`` alone.
    """
    found = (law.without(0, 0.0) if law.value_feature in values else law for law in laws)
    return tuple(law for law in found if law is not None)


def first(values: Float) -> Any:
    """The number of the first feature; one for each law of a stack."""
    found = values[..., 0]
    return float(found) if np.ndim(found) == 0 else found


def padded(table: Float, k: int) -> Float:
    """Linear functions of (z, 1), (…, k + 1), as functions of (z, z², 1), (…, 2k + 1)."""
    zeros = np.zeros((*table.shape[:-1], k))
    return np.concatenate([table[..., :k], zeros, table[..., k:]], axis=-1)
