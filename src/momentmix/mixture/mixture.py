"""The answer: a mixture of Gaussians with diagonal covariances.

| paper symbol | name here | shape |
|---|---|---|
| ω_i | ``weights`` | (n_components,) |
| μ_i | ``means`` | (n_components, n_features) |
| diag Σ_i | ``variances`` | (n_components, n_features) |
| (M_m)_{Ω_m} (high-tensor-moment) | ``moment_tensor(m)`` | (C(d, m),) |
| (M_m)_{L_j} | ``squared_moments(j, m−2)`` | (C(d−1, m−2),) |

Differs from the paper: nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError, ModelFileError
from momentmix.index_sets import sets_without
from momentmix.mixture.density import Density, Reduction, log_sums, most_probable, posteriors
from momentmix.mixture.gaussian import sample
from momentmix.mixture.model_file import read_model, write_model
from momentmix.mixture.parameters import Parameters
from momentmix.rows.arrays import check_real, is_foreign, namespace
from momentmix.rows.containers import plain_array
from momentmix.rows.names import check_feature_names, feature_number
from momentmix.rows.validation import rows_for
from momentmix.tensor.incomplete_tensor import IncompleteSymmetricTensor


def _checked_labels(labels: Any) -> Any:
    """Labels as they are; raise where one is −1: a row that no component is the best for."""
    xp, bad = namespace(labels), labels < 0
    if bool(xp.any(bad)):
        row = int(xp.argmax(xp.astype(bad, xp.int64)))
        raise InputError(
            f"row {row} holds NaN or infinity, or lies more than 1e154 standard deviations away, "
            "so that no component is its most probable one. Drop or impute such rows, or bring "
            "them to the units of the model."
        )
    return labels


@dataclass(frozen=True, eq=False)
class DiagonalMixture:
    """Mixture of Gaussians whose covariances are diagonal.

    Parameters
    ----------
    weights : array of shape (n_components,)
        Non-negative, sum 1.
    means : array of shape (n_components, n_features)
    variances : array of shape (n_components, n_features)
        Non-negative. A density needs them positive.
    feature_names : sequence of str, optional
        Data frames are matched by name: their columns may stand in another order, but not have
        other names. Plain arrays go by position.

    Examples
    --------
    >>> mixture = DiagonalMixture([0.5, 0.5], [[-2.0], [2.0]], [[1.0], [1.0]])
    >>> mixture.predict([[-1.0], [3.0]]).tolist()
    [0, 1]
    """

    weights: Float
    means: Float
    variances: Float
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, ndim in (("weights", 1), ("means", 2), ("variances", 2)):
            array = np.array(plain_array(getattr(self, name)), dtype=np.float64)
            if array.ndim != ndim:
                raise InputError(f"{name} must have {ndim} dimension(s); got {array.ndim}.")
            if not np.isfinite(array).all():
                raise InputError(f"{name} must be finite; it holds NaN or infinity.")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        r = self.weights.shape[0]
        if r < 1 or self.means.shape[0] != r or self.means.shape != self.variances.shape:
            raise InputError(
                "weights, means and variances must have shapes (r,), (r, d), (r, d) with r ≥ 1; "
                f"got {self.weights.shape}, {self.means.shape}, {self.variances.shape}."
            )
        with np.errstate(over="ignore"):
            total = self.weights.sum()
        if (self.weights < 0).any() or abs(total - 1) > 1e-9:
            raise InputError(
                f"weights must be non-negative with sum 1; the least is {self.weights.min():.4g}, "
                f"the sum {total:.12g}."
            )
        if (self.variances < 0).any():
            raise InputError(f"variances must be non-negative; got {self.variances.min():.4g}.")
        if self.feature_names is not None:
            names = check_feature_names(self.feature_names, self.means.shape[1])
            object.__setattr__(self, "feature_names", names)

    @property
    def n_components(self) -> int:
        """Number of components r."""
        return int(self.weights.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.means.shape[1])

    @property
    def _parameters(self) -> Parameters:
        return Parameters(self.weights, self.means, self.variances)

    # -- density ------------------------------------------------------------------------------

    def _map_rows(self, rows: Any, reduce: Reduction) -> Any:
        """`reduce` of log ω_i + log N(y; μ_i, Σ_i) of each row, in the library of the rows."""
        if is_foreign(rows):
            self._check_density(rows)
            check_real(rows)
            return Density.of_mixture(self._parameters).map_rows(rows, reduce)
        array = rows_for(rows, self.feature_names)
        if array.dtype.kind not in "fiu":
            raise InputTypeError(f"rows must be real numbers; got dtype {array.dtype}.")
        self._check_density(array)
        return Density.of_mixture(self._parameters).map_rows(array, reduce)

    def _check_density(self, array: Any) -> None:
        """Raise where rows have another shape, or where the mixture has no density."""
        if array.ndim != 2 or array.shape[1] != self.n_features:
            raise InputError(
                f"rows must have shape (n_rows, {self.n_features}), one column per feature of the "
                f"mixture; got {tuple(array.shape)}."
            )
        if (self.variances == 0).any():
            i, j = np.argwhere(self.variances == 0)[0]
            feature = j if self.feature_names is None else ascii(self.feature_names[j])
            raise InputError(
                f"component {i} has variance 0 in feature {feature}, so it has no density there; "
                "fit with a variance floor, or use with_variance_floor()."
            )

    def log_prob(self, rows: Any) -> Any:
        """Log-density of each row, of shape (n_rows,).

        The columns of a data frame are matched by name, and NaN stands for masked numbers, which
        give NaN; so for `responsibilities`. `predict` refuses NaN.

        Rows of another array library (torch, CuPy, JAX, …) give an array of that library, computed
        in float64 where the rows lie; so do `responsibilities` and `predict`.
        """
        return self._map_rows(rows, log_sums)

    def responsibilities(self, rows: Any) -> Any:
        """Posterior probability of each component, of shape (n_rows, n_components)."""
        return self._map_rows(rows, posteriors)

    def predict(self, rows: Any) -> Any:
        """Most probable component of each row, of shape (n_rows,); rows must be finite."""
        return _checked_labels(self._map_rows(rows, most_probable))

    def sample(
        self, n_rows: int, random_state: int | np.random.Generator | None = None
    ) -> tuple[Float, NDArray[np.int64]]:
        """Draw rows and the component of each, of shapes (n_rows, n_features) and (n_rows,)."""
        return sample(self._parameters, n_rows, np.random.default_rng(random_state))

    # -- derived mixtures ---------------------------------------------------------------------

    def marginal(self, features: Sequence[int | str]) -> DiagonalMixture:
        """The mixture of some of the features, by number or name."""
        names, d = self.feature_names, self.n_features
        columns = [int(feature_number(feature, names)) for feature in features]
        if not columns or min(columns) < -d or max(columns) >= d:
            raise InputError(f"features must be numbers in 0…{d - 1} or names; got {features!r}.")
        chosen = None if names is None else tuple(names[j] for j in columns)
        return DiagonalMixture(
            self.weights, self.means[:, columns], self.variances[:, columns], chosen
        )

    def with_variance_floor(self, floor: ArrayLike) -> DiagonalMixture:
        """The same mixture with every variance at least `floor` (a number or one per feature)."""
        return replace(self, variances=np.maximum(self.variances, floor))

    # -- exact moments ------------------------------------------------------------------------

    def moment_tensor(self, order: int) -> IncompleteSymmetricTensor:
        """Exact moments with distinct indices: Σ_i ω_i μ_i^{⊗m} on Ω_m (high-tensor-moment)."""
        # (C(d, m),)  incomplete_tensor, high-tensor-moment
        return IncompleteSymmetricTensor.from_factors(self.means, order, self.weights)

    def squared_moments(self, feature: int, order: int) -> Float:
        """Exact E[y_j² y_I] for all I of `order` features other than j, in colex order."""
        sets = sets_without(self.n_features, order, feature)
        products = self.means[:, sets].prod(axis=2)  # (r, C(d−1, order))
        second = self.weights * (self.means[:, feature] ** 2 + self.variances[:, feature])
        return np.asarray(second @ products)  # (C(d−1, order),)  moment-structure

    # -- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mixture as readable JSON, whole or not at all; `load` gives the same bits."""
        write_model(path, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; ``feature_names`` only where there are any."""
        document: dict[str, Any] = {
            "weights": self.weights.tolist(),
            "means": self.means.tolist(),
            "variances": self.variances.tolist(),
        }
        if self.feature_names is not None:
            document["feature_names"] = list(self.feature_names)
        return document

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DiagonalMixture:
        """Read a mixture written by `save`; refuses anything that is not one."""
        document = read_model(path)
        names = document.get("feature_names")
        try:
            return cls(document["weights"], document["means"], document["variances"], names)
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"{path} does not hold a mixture: {str(error)[:400]}") from error

    def __repr__(self) -> str:
        return f"DiagonalMixture(n_components={self.n_components}, n_features={self.n_features})"
