"""What both estimators do: the state of a fit, predictions, draws and criteria."""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from momentmix.arrays import namespace
from momentmix.errors import FitWarning, InputError, InputTypeError, read_more, warn_caller
from momentmix.fitting.api import begin_fit
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.standard_errors import StandardErrors
from momentmix.fitting.options import FitOptions
from momentmix.fitting.result import BegunFit, FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.summary.column_facts import schema_of
from momentmix.summary.summary import MomentSummary
from momentmix.tables.validation import ordered_weights

_WARNED_OF = {"constant-column", "duplicate-columns", "outlier-influence", "outlier-rows"}


class MixtureMethods(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Methods of an estimator whose class gives `partial_fit`, `_checked` and `_data_options`.

    Rows of `partial_fit` wait in `summary_` until a method needs the fit; attributes of the fit are
    not there until then. Standard errors and certificate are computed when they are asked for: the
    begun fit keeps a sample of the rows, and a copy is computed before it is made.
    """

    def _set_parameters(self, given: dict[str, Any]) -> None:
        """Set attributes to the arguments of `__init__`, as scikit-learn wants them."""
        self.__dict__.update({name: given[name] for name in self._get_param_names()})

    def _checked(self, X: Any, reset: bool, fewest: int = 2) -> Any:
        """Return rows as the fit or the mixture takes them, checked as scikit-learn does."""
        raise NotImplementedError

    def _data_options(self, data: Any) -> tuple[Any, dict[str, Any]]:
        """Return data and options of `fit` that say what the columns are."""
        raise NotImplementedError

    # -- fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows.

        Parameters
        ----------
        X : array or table of shape (n_samples, n_features)
        y : None
            Not used.
        sample_weight : array of shape (n_samples,), optional
            As in `momentmix.fit`: whole numbers stand for repeated rows, others are relative.
        """
        weights = ordered_weights(sample_weight, X)
        return self._fit_to(self._checked(X, reset=True), weights)

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
            return self._fit_to(self.summary_)
        if not isinstance(summary, MomentSummary):
            raise InputTypeError(
                f"fit_summary needs a MomentSummary; got {type(summary).__name__}. Use fit() for "
                "rows."
            )
        schema = schema_of(summary)
        self.n_features_in_ = schema.n_columns
        self._set_names(schema.column_names)
        return self._fit_to(summary.copy())  # partial_fit adds to it, not to that of the caller

    def _fit_to(self, data: Any, sample_weight: Any = None) -> Self:
        """Fit to rows or a summary, and set the attributes."""
        summary = data if isinstance(data, MomentSummary) else None
        data, options = self._data_options(data)
        name = type(self).__name__
        begun = begin_fit(
            data,
            FitOptions(
                n_components=self.n_components,
                max_components=self.max_components,
                missing=self.missing,
                background=self.background,
                sample_weight=sample_weight,
                start=self.start,
                random_state=self._seed(),
                max_passes=self.max_passes,
                n_threads=self.n_threads,
                progress=(lambda x: print(f"{name}: {x}", flush=True)) if self.verbose else None,
                **options,
            ),
        )
        self._forget()
        self._set_from(begun, summary)
        return self

    def _seed(self) -> Any:
        is_old = isinstance(self.random_state, np.random.RandomState)
        return int(self.random_state.randint(2**31 - 1)) if is_old else self.random_state

    def _set_from(self, begun: BegunFit, summary: MomentSummary | None) -> None:
        """Set the attributes that every estimator has."""
        facts, mixture = begun.facts, begun.facts["mixture"]
        self._begun: BegunFit | None = begun
        self._result: FitResult | None = None
        self._has_warned = False
        self.mixture_, self.n_components_ = mixture, mixture.n_components
        self.weights_, self.means_ = mixture.weights, mixture.means
        self.summary_ = facts["summary"] if summary is None else summary
        self.n_iter_, self.converged_ = facts["n_passes"] - 1, bool(facts["converged"])
        score = facts["log_likelihood"]
        self.lower_bound_ = np.nan if score is None else score
        # After each step, as scikit-learn has them; those of a result are before.
        self.lower_bounds_ = [*facts["log_likelihoods"], self.lower_bound_][1:]
        if not self.converged_:
            warn_caller(
                f"not converged after {self.max_passes} passes over the rows; allow more with "
                "max_passes.",
                ConvergenceWarning,
            )

    def _forget(self) -> None:
        """Delete the attributes of the last fit, but not number and names of the columns."""
        for name in list(self.__dict__):
            if name.endswith("_") and not name.endswith("_in_"):
                del self.__dict__[name]

    def _set_names(self, names: Any) -> None:
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a fit, or rows that methods can make one of."""
        return "summary_" in self.__dict__

    # -- certificate --------------------------------------------------------------------------

    @property
    def result_(self) -> FitResult:
        """The result, as `momentmix.fit` returns it; the first look at it may warn."""
        result = self._computed()
        if not self._has_warned:
            self._has_warned = True
            _warn_of(result.certificate)
        return result

    @property
    def certificate_(self) -> Certificate:
        """Whether the fit can be trusted, and why not."""
        return self.result_.certificate

    @property
    def standard_errors_(self) -> StandardErrors | None:
        """Standard errors of weights, means and variances, where they are known."""
        result = self.result_
        return result.standard_errors if result.has_errors else None

    def _computed(self) -> FitResult:
        if "mixture_" not in self.__dict__:
            raise NotFittedError(
                "there is no fit yet. Call fit, or after partial_fit fit_summary() or a method "
                "that needs the fit, as predict."
            )
        if self._begun is not None:
            self._result, self._begun = self._begun.finish(), None
        return cast(FitResult, self._result)

    def __getstate__(self) -> dict[str, Any]:
        if "mixture_" in self.__dict__:
            self._computed()
        return cast(dict[str, Any], super().__getstate__())

    # -- using --------------------------------------------------------------------------------

    def _mixture(self) -> Mixture:
        check_is_fitted(self)
        if "mixture_" not in self.__dict__:
            self.fit_summary()
        mixture: Mixture = self.mixture_
        return mixture

    def _row_options(self) -> dict[str, Any]:
        """Return options of the mixture's methods that take rows."""
        return {}

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to rows, and return the most probable component of each."""
        return self.fit(X, y, sample_weight).predict(X)

    def predict(self, X: Any) -> Any:
        """Most probable component of each row, of shape (n_samples,).

        Tensors of torch give a tensor, as do `predict_proba` and `score_samples`.
        """
        return self._mixture().predict(self._checked(X, reset=False), **self._row_options())

    def predict_proba(self, X: Any) -> Any:
        """Probability of each component, of shape (n_samples, n_components)."""
        return self._mixture().predict_proba(self._checked(X, reset=False), **self._row_options())

    def score_samples(self, X: Any) -> Any:
        """Log-density of each row, of shape (n_samples,)."""
        return self._mixture().log_prob(self._checked(X, reset=False), **self._row_options())

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of the rows."""
        total, n = self._total(X)
        return total / n

    def sample(self, n_samples: int = 1) -> tuple[Any, NDArray[np.int64]]:
        """Draw rows and their components, of shapes (n_samples, n_features) and (n_samples,)."""
        if n_samples < 1:
            raise InputError(f"n_samples must be at least 1; got {n_samples}.")
        return self._mixture().sample(n_samples, self._seed())

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on the rows: lower is better."""
        total, n = self._total(X)
        return float(-2 * total + self._mixture().parameters.n_free * np.log(n))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on the rows: lower is better."""
        return float(-2 * self._total(X)[0] + 2 * self._mixture().parameters.n_free)

    def _total(self, X: Any) -> tuple[float, int]:
        """Sum of the log-densities, and the number of rows."""
        scores = self.score_samples(X)
        return float(namespace(scores).sum(scores)), int(scores.shape[0])


def _warn_of(certificate: Certificate) -> None:
    """Warn of a certificate that did not pass, or of columns and rows that need a look."""
    if is_refused := certificate.verdict == "not passed":
        reasons = list(certificate.reasons)
    else:
        reasons = [x.text for x in certificate.findings if x.kind in _WARNED_OF]
    if reasons:
        text = "the certificate did not pass: " if is_refused else ""
        more = f"{len(reasons) - 1} more: " if len(reasons) > 1 else ""
        more += f"print certificate_, {read_more('the-certificate-did-not-pass')}"
        warn_caller(f"{text}{reasons[0].rstrip('.')} ({more})", FitWarning)
