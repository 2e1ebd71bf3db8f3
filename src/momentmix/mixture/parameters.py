"""Parameters of one mixture, or of a batch of mixtures with as many components each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int


class HasParameters(Protocol):
    """What has the parameters of a mixture: `Parameters`, and `DiagonalMixture`."""

    @property
    def weights(self) -> Float:
        """Weights of the components."""

    @property
    def means(self) -> Float:
        """Means of the components."""

    @property
    def variances(self) -> Float:
        """Variances of the components."""


@dataclass(frozen=True)
class Parameters:
    """Weights (r,), means (r, d) and variances (r, d); a batch has a leading axis more in each."""

    weights: Float
    means: Float
    variances: Float

    @property
    def n_components(self) -> int:
        """Number of components r."""
        return int(self.weights.shape[-1])

    @property
    def n_free(self) -> int:
        """Number of free parameters of one mixture: the weights sum to 1."""
        r, d = self.means.shape[-2:]
        return int(r * (2 * d + 1) - 1)

    def __getitem__(self, index: Any) -> Parameters:
        """One or some mixtures of a batch, or some components of one mixture."""
        return Parameters(self.weights[index], self.means[index], self.variances[index])

    @classmethod
    def stack(cls, mixtures: Sequence[Parameters]) -> Parameters:
        """A batch of mixtures."""
        return cls(
            np.array([p.weights for p in mixtures]),
            np.array([p.means for p in mixtures]),
            np.array([p.variances for p in mixtures]),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Parameters]) -> Parameters:
        """Components of several mixtures, or mixtures of several batches, one after the other."""
        return cls(
            np.concatenate([p.weights for p in parts]),
            np.concatenate([p.means for p in parts]),
            np.concatenate([p.variances for p in parts]),
        )

    def flat(self) -> Float:
        """All parameters of one mixture in one vector of length r + 2rd."""
        return np.concatenate([self.weights, self.means.ravel(), self.variances.ravel()])

    def embedded(self, columns: Int, n_features: int, variance: float) -> Parameters:
        """The same features as `columns` among others, which have mean 0 and `variance`."""
        if columns.size == n_features:
            return self
        means = np.zeros((self.n_components, n_features))
        variances = np.full_like(means, variance)
        means[:, columns], variances[:, columns] = self.means, self.variances
        return Parameters(self.weights, means, variances)

    def normalized(self) -> Parameters:
        """The same with weights of sum 1."""
        total = self.weights.sum(axis=-1, keepdims=True)
        return Parameters(self.weights / total, self.means, self.variances)


def parameters_from(flat: NDArray[Any], n_components: int) -> Parameters:
    """Inverse of `Parameters.flat`; from numbers 0, 1, … the places of the parameters in it."""
    r = n_components
    d = (flat.size // r - 1) // 2
    means, variances = flat[r : r + r * d], flat[r + r * d :]
    return Parameters(flat[:r], means.reshape(r, d), variances.reshape(r, d))
