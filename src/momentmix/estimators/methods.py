"""What the estimators have in common: predictions, draws and criteria, as scikit-learn has them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from momentmix.arguments import check_count
from momentmix.arrays import namespace
from momentmix.errors import (
    CertificateWarning,
    FitWarning,
    InputError,
    InputTypeError,
    warn_caller,
)
from momentmix.estimators.fitted_state import FittedState, keeps_state
from momentmix.estimators.sklearn_names import can_start, progress_of, threads_of
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summary import MomentSummary

_WARNED_OF = {"constant-column", "duplicate-columns", "outlier-influence", "outlier-rows"}


class MixtureMethods(FittedState, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Methods of a fitted estimator; a class gives `_rows_to_predict` and the fit."""

    n_components: Any
    max_iter: int
    tol: float | None
    n_init: int
    random_state: Any
    warm_start: bool
    verbose: int
    n_threads: int | None
    n_jobs: int | None

    def _rows_to_predict(self, X: Any) -> Any:
        """Rows as the mixture takes them, checked as scikit-learn does."""
        raise NotImplementedError

    def _repr_html_inner(self) -> str:
        return self._with_result(super()._repr_html_inner())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_result(bundle["text/html"])
        return bundle

    def _with_result(self, html: str) -> str:
        """The diagram of scikit-learn, and the result below it once there is one."""
        result = vars(self).get("result_")
        return html if result is None else f"{html}{result._repr_html_()}"

    def _set_from(self, result: FitResult) -> None:
        """Set the attributes that every estimator has, and warn where there is reason to."""
        mixture = result.mixture
        self.result_, self.mixture_ = result, mixture
        if result.summary is not None:  # fitted to rows
            self.summary_ = result.summary
        self.n_components_ = mixture.n_components
        self.weights_, self.means_ = mixture.weights, mixture.means
        self.n_iter_, self.converged_ = result.n_passes - 1, bool(result.converged)
        self.lower_bound_ = np.nan if result.log_likelihood is None else result.log_likelihood
        # After each step, as scikit-learn has them; those of a result are before.
        self.lower_bounds_ = [*result.log_likelihoods, self.lower_bound_][1:]
        self.certificate_ = result.certificate
        self.standard_errors_ = None if result.uncertainty is None else result.standard_errors
        self._warn(result)

    @keeps_state
    def fit_summary(self, summary: MomentSummary | None = None) -> Self:
        """Fit to a summary of rows; `partial_fit` goes on from it.

        Parameters
        ----------
        summary : MomentSummary, optional
            By default that of the rows so far, `summary_`: the fit that `partial_fit` leaves to
            the first method that needs it.
        """
        if summary is None:
            if "summary_" not in self.__dict__:
                raise NotFittedError(
                    "fit_summary() without a summary fits the rows that partial_fit added, and "
                    "there are none. Call partial_fit first, or give a MomentSummary."
                )
            self._fit_summary()
            return self
        if not isinstance(summary, MomentSummary):
            raise InputTypeError(
                f"fit_summary needs a MomentSummary; got {type(summary).__name__}. Use fit() for "
                "rows."
            )
        self._forget()
        self.summary_ = summary.copy()  # partial_fit adds to it; the caller's stays as it is
        schema = summary.schema
        self.n_features_in_ = summary.n_features if schema is None else schema.n_columns
        self._set_names(summary.feature_names if schema is None else schema.column_names)
        self._fit_to(self.summary_)
        return self

    def _set_names(self, names: Any) -> None:
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names)

    def _fit_options(self) -> dict[str, Any]:
        """Options of `momentmix.fit` that the names of scikit-learn stand for."""
        return {
            "max_passes": check_count("max_iter", self.max_iter, 0),
            "tol": self.tol,
            "thorough": check_count("n_init", self.n_init, 1) > 1,
            "n_threads": self._threads(),
            "progress": progress_of(self.verbose, type(self).__name__),
        }

    def _threads(self) -> int | None:
        return threads_of(self.n_threads, self.n_jobs)

    def _previous(self) -> Mixture | None:
        """The mixture of the last fit, where `warm_start` asks for it."""
        return self.__dict__.get("mixture_") if self.warm_start else None

    def _start_of(self, previous: Mixture | None) -> Mixture | None:
        """The mixture of the last fit, where it can be a start of this one."""
        own = (self.n_components, self._names(), self.n_features_in_)
        return previous if can_start(previous, *own) else None

    def _seed(self) -> Any:
        state = self.random_state
        if state is None or isinstance(state, int | np.integer | np.random.Generator):
            return state
        return int(check_random_state(state).randint(2**31 - 1))

    def _warn(self, result: FitResult) -> None:
        if not self.converged_:
            warn_caller(
                f"not converged after max_iter={self.max_iter} passes; allow more.",
                ConvergenceWarning,
            )
        for finding in result.certificate.findings:
            if finding.kind in _WARNED_OF:
                warn_caller(finding.text, FitWarning)
        if result.certificate.verdict == "not passed":
            reasons = " ".join(result.certificate.reasons)
            warn_caller(f"the certificate did not pass: {reasons}", CertificateWarning)

    # -- using --------------------------------------------------------------------------------

    def _mixture(self) -> Mixture:
        check_is_fitted(self)
        self._fit_pending()
        mixture: Mixture = self.mixture_
        return mixture

    def _row_options(self) -> dict[str, Any]:
        """Options of the mixture's methods that take rows."""
        return {}

    def predict(self, X: Any) -> Any:
        """Most probable component of each row, of shape (n_samples,).

        Rows of another array library (torch, CuPy, JAX, …) give an array of that library, where
        they lie; so do `predict_proba` and `score_samples`.
        """
        return self._mixture().predict(self._rows_to_predict(X), **self._row_options())

    def predict_proba(self, X: Any) -> Any:
        """Probability of each component, of shape (n_samples, n_components)."""
        return self._mixture().responsibilities(self._rows_to_predict(X), **self._row_options())

    def score_samples(self, X: Any) -> Any:
        """Log-density of each row, of shape (n_samples,)."""
        return self._mixture().log_prob(self._rows_to_predict(X), **self._row_options())

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of the rows."""
        total, n = self._total(X)
        return total / n

    def sample(self, n_samples: int = 1) -> tuple[Any, NDArray[np.int64]]:
        """Draw rows and their components, of shapes (n_samples, n_features) and (n_samples,)."""
        mixture = self._mixture()
        if n_samples < 1:
            raise InputError(f"n_samples must be at least 1; got {n_samples}.")
        return mixture.sample(n_samples, self._seed())

    def _total(self, X: Any) -> tuple[float, int]:
        """Sum of the log-densities, and the number of rows."""
        scores = self.score_samples(X)
        return float(namespace(scores).sum(scores)), int(scores.shape[0])

    def _n_parameters(self) -> int:
        return self._mixture().parameters.n_free

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on the rows: lower is better."""
        total, n = self._total(X)
        return float(-2 * total + self._n_parameters() * np.log(n))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on the rows: lower is better."""
        return float(-2 * self._total(X)[0] + 2 * self._n_parameters())
