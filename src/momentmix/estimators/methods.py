"""Methods of all estimators: state of the fit, predictions, draws and criteria."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from momentmix.arrays import namespace
from momentmix.errors import (
    FitWarning,
    InputError,
    InputTypeError,
    check_count,
    read_more,
    warn_caller,
)
from momentmix.fitting.result import BegunFit, FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summary import MomentSummary

_WARNED_OF = {"constant-column", "duplicate-columns", "outlier-influence", "outlier-rows"}


_WHEN_ASKED = ("result_", "certificate_", "standard_errors_")

Method = TypeVar("Method", bound=Callable[..., Any])


def keeps_state(method: Method) -> Method:
    """Run a method; if it fails, the estimator is as it was before."""

    @wraps(method)
    def guarded(self: Any, *arguments: Any, **options: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return method(self, *arguments, **options)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return cast(Method, guarded)


class MixtureMethods(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Methods of an estimator whose class gives `fit`, `_fit_to` and `_rows_to_predict`.

    Rows of `partial_fit` wait in `summary_` until a method needs the fit: `_pending` is True then.
    Looking at an attribute never makes a fit: `hasattr`, `repr`, copies and debuggers look at many.
    Of a fit that was made, `_WHEN_ASKED` are computed when one of them is looked at: `_unasked` is
    the function that does it, or its result after a copy was made, which keeps no sample of rows.
    """

    def _set_parameters(self, given: dict[str, Any]) -> None:
        """Set attributes to the arguments of `__init__`, as scikit-learn wants them."""
        self.__dict__.update({name: given[name] for name in self._get_param_names()})

    def _fit_to(self, data: Any) -> Any:
        """Fit to rows or a summary, and set the attributes."""
        raise NotImplementedError

    def _rows_to_predict(self, X: Any) -> Any:
        """Return rows as the mixture takes them, checked as scikit-learn does."""
        raise NotImplementedError

    # -- state --------------------------------------------------------------------------------

    def _forget(self) -> Mixture | None:
        """Forget the last fit; return its mixture where `warm_start` asks for it."""
        previous = self.__dict__.get("mixture_") if self.warm_start else None
        for name in [name for name in self.__dict__ if _is_fitted(name)]:
            del self.__dict__[name]
        return previous

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not there.
        if name in _WHEN_ASKED:
            self._finish()
            if name in self.__dict__:
                return self.__dict__[name]
        if _is_fitted(name) and self.__dict__.get("_pending"):
            raise NotFittedError(  # an AttributeError too
                f"{name} is not known yet: partial_fit added rows, and no fit was made since. Call "
                "fit_summary(), or a method that needs the fit, as predict."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(_WHEN_ASKED if "_unasked" in self.__dict__ else ())})

    def __getstate__(self) -> dict[str, Any]:
        self._compute()
        state: dict[str, Any] = super().__getstate__()
        return state

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a fit, or rows that methods can make one of."""
        return "mixture_" in self.__dict__ or bool(self.__dict__.get("_pending"))

    # -- fitting ------------------------------------------------------------------------------

    def _set_from(self, begun: BegunFit) -> None:
        """Set the attributes that every estimator has."""
        facts, mixture = begun.facts, begun.facts["mixture"]
        for name in _WHEN_ASKED:  # those of the last fit
            self.__dict__.pop(name, None)
        self.mixture_, self._unasked = mixture, begun.finish
        if facts["summary"] is not None:  # fitted to rows
            self.summary_ = facts["summary"]
        self.n_components_ = mixture.n_components
        self.weights_, self.means_ = mixture.weights, mixture.means
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

    def _compute(self) -> FitResult | None:
        """Compute the result at the first request, and keep it in place of the function."""
        unasked = self.__dict__.get("_unasked")
        if callable(unasked):
            unasked = self._unasked = unasked()
        return cast("FitResult | None", unasked)

    def _finish(self) -> None:
        """Set what was not asked for before, and warn where there is reason to."""
        result = self._compute()
        if result is None:
            return
        errors = None if result.uncertainty is None else result.standard_errors
        self.result_, self.certificate_, self.standard_errors_ = result, result.certificate, errors
        del self._unasked
        is_refused, certificate = result.certificate.verdict == "not passed", result.certificate
        others = [f for f in certificate.findings if f.kind in _WARNED_OF]
        reasons = certificate.reasons if is_refused else [f.text for f in others]
        if reasons:
            text = "the certificate did not pass: " * is_refused + reasons[0].rstrip(".")
            more = f"{len(reasons) - 1} more: " if len(reasons) > 1 else ""
            text += f" ({more}print certificate_, {read_more('the-certificate-did-not-pass')})"
            warn_caller(text, FitWarning)

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
            self._fit_to(self.summary_)
            self._pending = False
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

    def _fit_options(self, previous: Mixture | None) -> dict[str, Any]:
        """Return options of `fit` that all estimators have; a warm start is from `previous`."""
        return {
            "n_components": self.n_components,
            "max_components": self.max_components,
            "background": self.background,
            "start": previous if self._can_start(previous) else self.start,
            "random_state": self._seed(),
            "max_passes": self.max_passes,
            "n_threads": self.n_threads,
            "progress": _progress_of(self.verbose, type(self).__name__),
        }

    def _can_start(self, previous: Mixture | None) -> bool:
        """Whether the last mixture has as many components as this fit, and the same columns."""
        if previous is None or previous.n_components != self.n_components:
            return False
        names = previous.feature_names
        same = names is None or names == self._names()
        return same and previous.means.shape[1] == self.n_features_in_

    def _seed(self) -> Any:
        state = self.random_state
        if state is None or isinstance(state, int | np.integer | np.random.Generator):
            return state
        return int(check_random_state(state).randint(2**31 - 1))

    # -- using --------------------------------------------------------------------------------

    def _mixture(self) -> Mixture:
        check_is_fitted(self)
        if self.__dict__.get("_pending"):
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
        return self._mixture().predict(self._rows_to_predict(X), **self._row_options())

    def predict_proba(self, X: Any) -> Any:
        """Probability of each component, of shape (n_samples, n_components)."""
        return self._mixture().predict_proba(self._rows_to_predict(X), **self._row_options())

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

    def _repr_html_inner(self) -> str:
        return self._with_result(super()._repr_html_inner())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_result(bundle["text/html"])
        return bundle

    def _with_result(self, html: str) -> str:
        """Put the result below the diagram of scikit-learn, once there is one."""
        result = getattr(self, "result_", None)
        return html if result is None else f"{html}{result._repr_html_()}"

    def _total(self, X: Any) -> tuple[float, int]:
        """Sum of the log-densities, and the number of rows."""
        scores = self.score_samples(X)
        return float(namespace(scores).sum(scores)), int(scores.shape[0])

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on the rows: lower is better."""
        total, n = self._total(X)
        return float(-2 * total + self._mixture().parameters.n_free * np.log(n))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on the rows: lower is better."""
        return float(-2 * self._total(X)[0] + 2 * self._mixture().parameters.n_free)


def _is_fitted(name: str) -> bool:
    """Whether an attribute is what a fit finds, not what it is given."""
    is_result = name.endswith("_") and not name.startswith("_")
    return name in ("_pending", "_unasked") or (is_result and not name.endswith("_in_"))


def _progress_of(verbose: int, name: str) -> Callable[[str], None] | None:
    """Return a function that prints the stages; from 2 on, with the seconds before each."""
    level = int(verbose) if isinstance(verbose, bool) else verbose
    if not check_count("verbose", level, 0):
        return None
    begin = time.perf_counter()

    def show(stage: str) -> None:
        seconds = f", after {time.perf_counter() - begin:.2f} s" if verbose > 1 else ""
        print(f"{name}: {stage}{seconds}", flush=True)

    return show
