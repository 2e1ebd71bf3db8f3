"""The model whose components are followed, and how well its components are known.

A `FitResult` has the covariance of its parameters. A model file has the number of rows and standard
errors: the covariance is then the inverse of the information of so many rows, from rows that are
drawn from the mixture, and raised to the standard errors of a fit to moments alone. A `Mixture` by
itself counts as known.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputTypeError
from momentmix.fitting.em.scores import information_matrix
from momentmix.fitting.inference.standard_errors import Uncertainty, uncertainty_after_em
from momentmix.fitting.record import load_fit
from momentmix.fitting.result import FitResult
from momentmix.mixture import gaussian
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import ColumnValues
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.tables.block_features import parameters_of
from momentmix.tables.schema import Schema

_DRAWS = 8000  # rows for the information; more than there are parameters
_PER_PARAMETER = 20
_HARDLY = 1e-4  # of the square of a constant: what fits give it as its variance is less
_LEAST_VARIANCE = 1e-12  # of a feature, over the square of its size


@dataclass(frozen=True)
class TrackedModel:
    """A mixture, and what is known of the errors of its components.

    Attributes
    ----------
    mixture : Mixture
    result : FitResult or None
        Where its covariance of the parameters can be used.
    n_rows : float or None
        Rows that the mixture was fitted to; None where it counts as known.
    errors : ColumnValues or None
        Standard errors of a fit to moments alone, which the information does not know.
    """

    mixture: Mixture
    result: FitResult | None = None
    n_rows: float | None = None
    errors: ColumnValues | None = None

    @classmethod
    def of(cls, model: Any) -> TrackedModel:
        """A mixture, a result, a fitted estimator, or the path of a model file."""
        if isinstance(model, str | os.PathLike):
            mixture, record = load_fit(model)
            if record is None:
                return cls(mixture)
            from_moments = record.refine == "none"
            errors = record.standard_errors if from_moments else None
            return cls(mixture, None, float(record.n_rows), errors)
        if isinstance(model, Mixture):
            return cls(model)
        result = model if isinstance(model, FitResult) else getattr(model, "result_", None)
        own = result.mixture if isinstance(result, FitResult) else getattr(model, "mixture_", None)
        if not isinstance(own, Mixture):
            raise InputTypeError(
                "model must be a Mixture, a FitResult, a fitted estimator or the path of a model "
                f"file; got {type(model).__name__}."
            )
        if not isinstance(result, FitResult):
            return cls(own)
        known = result if result.uncertainty is not None else None
        return cls(own, known, float(result.n_rows))

    def select(self, columns: list[int]) -> TrackedModel:
        """The model of some of the columns."""
        errors = self.errors
        if errors is not None:
            errors = replace(errors, means=errors.means[:, columns])
        return TrackedModel(self.mixture.select(columns), None, self.n_rows, errors)

    def standard(self, schema: Schema | None) -> StandardComponents:
        """Parameters of standardized features, with their covariance.

        `schema` is that of the summaries; None where features are columns.
        """
        mixture, result = self.mixture, self.result
        if result is not None and result.schema == schema:
            moments, uncertainty = result.moments, result.uncertainty
            assert uncertainty is not None
            p = mixture.parameters.standardized(moments.shift, moments.scale)
            constant = tuple(np.flatnonzero(moments.constant).tolist())
            factor = _short(uncertainty.factor)
            return StandardComponents(p, moments.shift, moments.scale, factor, constant)
        p = mixture.parameters
        if schema is not None and schema != mixture.schema:
            p = parameters_of(mixture.weights, mixture.blocks, schema)
        shift = p.weights @ p.means
        total = p.weights @ (p.variances + (p.means - shift) ** 2)
        size = np.maximum(np.abs(shift), 1.0)
        scale = np.sqrt(np.maximum(total, _LEAST_VARIANCE * size**2))
        constant = _constant(p)
        p = p.standardized(shift, scale)
        return StandardComponents(p, shift, scale, self._factor(p, scale), constant)

    def _factor(self, p: Parameters, scale: Float) -> Float | None:
        if self.n_rows is None:
            return None
        uncertainty = information_bound(p, self.n_rows)
        factor = uncertainty.factor
        if self.errors is not None and self.errors.means.shape == p.means.shape:
            own = uncertainty.deviations().means
            given = self.errors.means / scale
            known = np.isfinite(given) & (own > 0)
            if known.any():
                factor = factor * max(1.0, float(np.median(given[known] / own[known])))
        return _short(factor)


@dataclass(frozen=True)
class StandardComponents:
    """Components of standardized features.

    Attributes
    ----------
    parameters : Parameters
    shift, scale : arrays of shape (d,)
    factor : array of shape (n_places, k), or None
        The covariance of the parameters is factor factorᵀ.
    constant : tuple of int
        Features that had one value only when the model was fitted.
    """

    parameters: Parameters
    shift: Float
    scale: Float
    factor: Float | None
    constant: tuple[int, ...] = ()


def information_bound(parameters: Parameters, n_rows: float) -> Uncertainty:
    """Covariance of the most probable parameters of `n_rows` rows, if the mixture is right."""
    p = parameters
    n_draws = max(_DRAWS, _PER_PARAMETER * p.n_places)
    rows, _ = gaussian.sample(p.normalized(), n_draws, np.random.default_rng(0))
    features = gaussian.features_of(rows, p.blocks)
    return uncertainty_after_em(p, information_matrix(features, p), n_rows)


def _constant(p: Parameters) -> tuple[int, ...]:
    """Features that seem to be constant: the same in all components, with hardly any variance."""
    if p.n_components == 1:
        return ()
    same = (np.ptp(p.means, axis=0) == 0) & (np.ptp(p.variances, axis=0) == 0)
    size = np.maximum(p.means[0] ** 2, 1.0)
    return tuple(np.flatnonzero(same & (p.variances[0] <= _HARDLY * size)).tolist())


def _short(factor: Float) -> Float:
    """A factor of the same covariance with no more columns than rows."""
    if factor.shape[1] <= factor.shape[0]:
        return factor
    return np.asarray(np.linalg.qr(factor.T)[1].T)
