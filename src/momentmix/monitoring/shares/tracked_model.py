"""The model whose components are followed, and how well its components are known.

A `FitResult` has the covariance of its parameters. A model file has the number of rows and standard
errors: the covariance is then the inverse of the information of so many rows, from rows that are
drawn from the mixture, and raised to the standard errors of a fit to moments alone. A `Mixture` by
itself counts as known.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError, InputTypeError
from momentmix.fitting.em.scores import information_matrix
from momentmix.fitting.inference.uncertainty import uncertainty_after_em
from momentmix.fitting.record import load_fit
from momentmix.fitting.result import FitResult
from momentmix.lazy import lazy_property
from momentmix.mixture import gaussian
from momentmix.mixture.columns import parameters_of
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import ColumnValues
from momentmix.mixture.parameters import Parameters
from momentmix.tables.schema import Schema
from momentmix.wording import option

# Rows for the information, and for each parameter: the inverse of a covariance of 20 rows for each
# is too large by about 1 / 20.
_DRAWS, _PER_PARAMETER = 8000, 20
_HARDLY = 1e-4  # of the square of a constant: what fits give it as its variance is less
_LEAST_VARIANCE = 1e-12  # of a feature, over the square of its size


@dataclass(frozen=True)
class StandardComponents:
    """Components of standardized features."""

    parameters: Parameters
    shift: Float
    scale: Float
    factor: Float | None  # the covariance of the parameters is factor factorᵀ, where it is known
    constant: tuple[int, ...] = ()  # features of one value when the model was fitted


@dataclass(frozen=True)
class TrackedModel:
    """A mixture of all columns, and what is known of the errors of its components."""

    whole: Mixture
    result: FitResult | None = None  # where its covariance of the parameters can be used
    n_rows: float | None = None  # where components are not known exactly
    errors: ColumnValues | None = None  # of a fit to moments alone

    @classmethod
    def of(cls, model: Any) -> TrackedModel:
        """A mixture, a result, a fitted estimator, or the path of a model file."""
        if isinstance(model, str | os.PathLike):
            mixture, record = load_fit(model)
            if record is None:
                return cls(mixture)
            errors = record.standard_errors if record.refine == "none" else None
            return cls(mixture, None, float(record.n_rows), errors)
        result = model if isinstance(model, FitResult) else getattr(model, "result_", None)
        if isinstance(result, FitResult):
            known = result if result.uncertainty is not None else None
            return cls(result.mixture, known, float(result.n_rows))
        own = model if isinstance(model, Mixture) else getattr(model, "mixture_", None)
        if not isinstance(own, Mixture):
            raise InputTypeError(
                "model must be a Mixture, a FitResult, a fitted estimator or the path of a model "
                f"file; got {type(model).__name__}."
            )
        return cls(own)

    @lazy_property
    def columns(self) -> list[int]:
        """Columns that are used: products of joined ones with gaps are no moments of the model."""
        joined = [j for block in self.whole.blocks if len(block.columns) > 1 for j in block.columns]
        lost = {j for j in joined if self.whole.columns[j].has_missing}
        kept = [j for j in range(self.whole.n_columns) if j not in lost]
        if not kept:
            raise InputError(
                "all columns of the model are joined and have missing cells, and the moments of "
                "such columns do not identify shares. Fit without blocks, or with "
                f"{option(missing='drop')}."
            )
        return kept

    @lazy_property
    def mixture(self) -> Mixture:
        """The mixture of the columns that are used."""
        every = len(self.columns) == self.whole.n_columns
        return self.whole if every else self.whole.select(self.columns)

    def standard(self, schema: Schema | None) -> StandardComponents:
        """Return parameters of standardized features, with their covariance."""
        mixture, result = self.mixture, self.result
        if result is not None and mixture is self.whole and result.schema == schema:
            moments, uncertainty = result.moments, result.uncertainty
            assert uncertainty is not None
            p = mixture.parameters.standardized(moments.shift, moments.scale)
            constant = np.flatnonzero(moments.constant)
            factor: Float | None = uncertainty.factor
            shift, scale = moments.shift, moments.scale
        else:
            p = mixture.parameters
            if schema is not None and schema != mixture.schema:
                p = parameters_of(mixture.weights, mixture.blocks, schema)
            shift = p.weights @ p.means
            total = p.weights @ (p.variances + (p.means - shift) ** 2)
            size = np.maximum(np.abs(shift), 1.0)
            scale = np.sqrt(np.maximum(total, _LEAST_VARIANCE * size**2))
            constant = _find_constant(p)
            p = p.standardized(shift, scale)
            factor = None if self.n_rows is None else self._factor(p, scale, self.n_rows)
        if factor is not None and factor.shape[1] > factor.shape[0]:
            factor = np.linalg.qr(factor.T)[1].T  # the same covariance of fewer columns
        return StandardComponents(p, shift, scale, factor, tuple(constant.tolist()))

    def _factor(self, p: Parameters, scale: Float, n_rows: float) -> Float:
        """Factor of the covariance of the most probable parameters, if the mixture is right."""
        n_draws = max(_DRAWS, _PER_PARAMETER * p.n_places)
        rows, _ = gaussian.sample(p.normalized(), n_draws, np.random.default_rng(0))
        information = information_matrix(gaussian.features_of(rows, p.blocks), p)
        uncertainty = uncertainty_after_em(p, information, n_rows)
        given = None if self.errors is None else self.errors.means[:, self.columns]
        ratio = 1.0
        if given is not None and given.shape == p.means.shape:
            own, given = uncertainty.deviations().means, given / scale
            known = np.isfinite(given) & (own > 0)
            ratio = max(1.0, float(np.median(given[known] / own[known]))) if known.any() else 1.0
        return uncertainty.factor * ratio


def _find_constant(p: Parameters) -> Int:
    """Features that seem to be constant: the same in all components, with hardly any variance."""
    same = (np.ptp(p.means, axis=0) == 0) & (np.ptp(p.variances, axis=0) == 0)
    size = np.maximum(p.means[0] ** 2, 1.0)
    return np.flatnonzero(same & (p.variances[0] <= _HARDLY * size) & (p.n_components > 1))
