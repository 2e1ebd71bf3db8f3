"""What the components leave of the moments of a group, and what would explain it."""

from __future__ import annotations

import numpy as np

from momentmix._typing import Float
from momentmix.monitoring.shares.fixed_components import FixedComponents, Root
from momentmix.monitoring.shares.group_weights import bounded, group_covariance


class Residual:
    """The whitened residual of a group, and directions with the weights projected out."""

    def __init__(self, components: FixedComponents, moments: Float, n: float, w: Float) -> None:
        self._root = Root(group_covariance(components, n, w))
        means = self._root.whiten(components.means)
        self.noise = float(np.sqrt(2.0 * self._root.rank))  # of the statistic, if all is right
        self._target = self._root.whiten(moments)
        self.weights = bounded(means, self._target)
        self._fitted = components.means @ self.weights
        self.residual = self._root.whiten(moments - self._fitted)
        own = means[:, self.weights > 0]
        self._basis = np.linalg.qr(own[:, 1:] - own[:, :1])[0]

    def best(self, directions: Float) -> tuple[int, float, float]:
        """Number, gain and size of the direction (q, k) that explains most."""
        gains, sizes = self.gains(directions)
        place = int(np.argmax(gains))
        return place, float(gains[place]), float(sizes[place])

    def gains(self, directions: Float) -> tuple[Float, Float]:
        """What directions (q, k) explain, and their sizes then, (k,) each."""
        white = self._root.whiten(directions)
        white -= self._basis @ (self._basis.T @ white)
        lengths = np.maximum((white**2).sum(axis=0), 1e-300)
        sizes = (self.residual @ white) / lengths
        return sizes**2 * lengths, sizes

    def gain(self, means: Float) -> float:
        """What is explained by components with other means (q, r)."""
        white = self._root.whiten(means)
        rest = self._target - white @ bounded(white, self._target)
        return float(self.residual @ self.residual - rest @ rest)

    def best_share(self, moments: Float) -> tuple[int, float, float]:
        """The same for rows of components with these moments (q, k), whose share is positive."""
        directions = moments - self._fitted[:, None]
        white = self._root.whiten(directions)
        white -= self._basis @ (self._basis.T @ white)
        lengths = np.maximum((white**2).sum(axis=0), 1e-300)
        shares = (self.residual @ white) / lengths
        gains = np.where((shares > 0) & (shares <= 1), shares**2 * lengths, 0.0)
        place = int(np.argmax(gains))
        return place, float(gains[place]), float(shares[place])
