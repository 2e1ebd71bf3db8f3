"""`MomentGaussianMixture`: the fit behind the interface of scikit-learn; no mathematics."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from momentmix._typing import Float
from momentmix.capacity import choose_order
from momentmix.errors import (
    CertificateWarning,
    FitWarning,
    InputError,
    InputTypeError,
    warn_caller,
)
from momentmix.fitting.api import fit
from momentmix.fitting.result import FitResult
from momentmix.locks import ForkSafeLock, one_at_a_time
from momentmix.mixture.mixture import Mixture
from momentmix.rows.arrays import is_foreign, namespace
from momentmix.rows.protocol import ArrayRows, DeviceRows, HeldRows
from momentmix.rows.validation import (
    LARGEST_TO_FIT,
    LARGEST_VALUE,
    as_device_rows,
    as_weights,
    check_values,
    for_sklearn,
)
from momentmix.summary.summary import MomentSummary

Method = TypeVar("Method", bound=Callable[..., Any])

_FITTED = {
    "result_", "mixture_", "weights_", "means_", "covariances_", "precisions_",
    "precisions_cholesky_", "n_iter_", "converged_", "lower_bound_", "certificate_",
    "standard_errors_", "n_components_",
}  # fmt: skip
_WARNED_OF = {"constant-column", "duplicate-columns", "outlier-influence", "outlier-rows"}
_MOST_REPEATED = 10, 10_000  # times the rows, and rows more: memory stays near that of the rows
_LOCKS: WeakKeyDictionary[Any, ForkSafeLock] = WeakKeyDictionary()  # by estimator; never pickled


def _repeated(rows: Float, weights: Float) -> Float | None:
    """Rows repeated as often as their weights say, if these are whole and not many."""
    times, more = _MOST_REPEATED
    if (weights != np.floor(weights)).any() or weights.sum() > times * len(rows) + more:
        return None
    return np.repeat(rows, weights.astype(np.int64), axis=0)


def _keeps_state(method: Method) -> Method:
    """The method, one thread at a time; if it fails, the estimator is as it was before."""

    @one_at_a_time
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


class MomentGaussianMixture(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Mixture of Gaussians with diagonal covariances, from one pass of moments.

    Methods and attributes are those of ``sklearn.mixture.GaussianMixture`` with
    ``covariance_type="diag"``. A fit whose certificate does not pass warns, once and with the
    reasons (`CertificateWarning`); one that could not be tested does not.

    Parameters
    ----------
    n_components : int or "auto", default=1
        "auto": the number of least BIC; after `fit_summary`, `partial_fit` and with refine=None the
        smallest number whose moments the test accepts. ``result_.tried`` lists what was tried.
    order : int or "auto", default="auto"
        Highest order of the moments.
    method : {"robust", "paper"}, default="robust"
        "paper" is Algorithm 5.1 as printed.
    refine : {"auto", "em"} or None, default="auto"
        "auto": EM passes where there are rows. None: the pure moment answer.
    variance_floor : float, default=1e-6
        Least variance of a component, as a fraction of the feature's variance.
    max_iter : int, default=100
        Passes over all rows at most.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same bits.
    n_threads : int or None, default=None
        Threads; all cores by default. The answer does not depend on it.

    Attributes
    ----------
    n_components_ : int
        Number of components, also where "auto" chose it.
    weights_ : array of shape (n_components,)
        Heaviest component first.
    means_ : array of shape (n_components, n_features)
    covariances_ : array of shape (n_components, n_features)
        Variances.
    precisions_, precisions_cholesky_ : array of shape (n_components, n_features)
        1 / variances, and their square roots.
    converged_ : bool
    n_iter_ : int
        Passes over the rows.
    lower_bound_ : float
        Log-likelihood per row; NaN after `fit_summary` and `partial_fit`.
    certificate_ : Certificate
        Whether the fit can be trusted, and why not: ``certificate_.verdict`` is "passed",
        "not passed" or "untested".
    standard_errors_ : StandardErrors or None
        Of weights, means and variances; None for method="paper".
    summary_ : MomentSummary
        Of the rows seen; a row of whole weight 3 counts as three rows after `fit`.
    mixture_ : Mixture
    result_ : FitResult
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        Where the rows had names.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(-3, 1, (400, 4)), rng.normal(3, 1, (600, 4))])
    >>> model = MomentGaussianMixture(n_components=2, random_state=0).fit(rows)
    >>> model.weights_.round(2).tolist()
    [0.6, 0.4]
    >>> model.predict([[3.0, 3.0, 3.0, 3.0]]).tolist()
    [0]
    """

    summary_: MomentSummary

    def __init__(
        self,
        n_components: int | Literal["auto"] = 1,
        *,
        order: int | Literal["auto"] = "auto",
        method: Literal["robust", "paper"] = "robust",
        refine: Literal["auto", "em"] | None = "auto",
        variance_floor: float = 1e-6,
        max_iter: int = 100,
        random_state: Any = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.order = order
        self.method = method
        self.refine = refine
        self.variance_floor = variance_floor
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads

    # -- fitting ------------------------------------------------------------------------------

    @_keeps_state
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MomentGaussianMixture:
        """Fit to rows.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : None
            Not used.
        sample_weight : array of shape (n_samples,), optional
            Frequencies. Whole numbers stand for repeated rows. With other weights the answer comes
            from the weighted moments alone, without passes over the rows.

        Returns
        -------
        MomentGaussianMixture
            This estimator.
        """
        data = self._validated(X, reset=True, largest=LARGEST_TO_FIT)
        if isinstance(data, DeviceRows) and sample_weight is not None:
            raise InputError(
                "sample_weight needs NumPy rows; X is an array of another library. Pass "
                "MomentSummary.update(X, sample_weight) to fit_summary, or X as a NumPy array."
            )
        weights = as_weights(sample_weight, data.n_rows)
        self._forget()
        if weights is not None:
            repeated = _repeated(data.rows, weights)
            if repeated is None:
                return self._fit_weighted(data.rows, weights)
            data = ArrayRows(repeated, feature_names=data.feature_names)
        return self._fit_to(data)

    def _fit_weighted(self, rows: Float, weights: Float) -> MomentGaussianMixture:
        if self.refine == "em":
            raise InputError(
                'refine="em" needs weights that are whole numbers. Use refine="auto", or repeat '
                "the rows."
            )
        self.summary_ = self._new_summary(rows.shape[1]).update(rows, weights)
        return self._fit_to(self.summary_)

    @_keeps_state
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None
    ) -> MomentGaussianMixture:
        """Add rows to the summary; the fit is made when it is first used.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : None
            Not used.
        sample_weight : array of shape (n_samples,), optional
            Frequencies.
        """
        first = not hasattr(self, "summary_")
        data = self._validated(X, reset=first, fewest=1, largest=LARGEST_TO_FIT)
        summary: MomentSummary = self._new_summary(data.n_features) if first else self.summary_
        summary.update(data.rows, sample_weight)
        self._forget()
        self.summary_, self._pending = summary, True
        return self

    @_keeps_state
    def fit_summary(self, summary: MomentSummary) -> MomentGaussianMixture:
        """Fit to a summary of rows; `partial_fit` goes on from it."""
        if not isinstance(summary, MomentSummary):
            raise InputTypeError(
                f"fit_summary needs a MomentSummary; got {type(summary).__name__}. Use fit() for "
                "rows."
            )
        self._forget()
        self.summary_ = summary.copy()  # partial_fit adds to it; the caller's stays as it is
        self.n_features_in_ = summary.n_features
        if summary.feature_names is not None:
            self.feature_names_in_ = np.array(summary.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self._fit_to(self.summary_)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to rows, and give the most probable component of each."""
        return self.fit(X, y, sample_weight).predict(X)

    def _validated(
        self, X: Any, reset: bool, fewest: int = 2, largest: float = LARGEST_VALUE
    ) -> HeldRows:
        """Checked rows; where `reset`, number and names of the features are set from them."""
        if is_foreign(X):  # values are checked when they are summed
            device_rows = as_device_rows(X, None if reset else self.n_features_in_)
            if reset:
                self.n_features_in_ = int(device_rows.shape[1])
                self.__dict__.pop("feature_names_in_", None)
            return DeviceRows(device_rows)
        X, names = for_sklearn(X)
        options: dict[str, Any] = {
            "dtype": [np.float64, np.float32],
            "ensure_all_finite": False,
            "ensure_min_samples": fewest if reset else 1,
        }
        if names is not None and not reset and hasattr(self, "feature_names_in_"):
            self._check_names(names)
            rows = check_array(X, **options)
        else:
            rows = validate_data(self, X, reset=reset, **options)
            if names is not None and reset:
                self.feature_names_in_ = np.array(names, dtype=object)
        check_values(rows, self._names(), largest=largest)
        return ArrayRows(np.asarray(rows, dtype=np.float64), feature_names=self._names())

    def _check_names(self, names: tuple[str, ...]) -> None:
        expected = self.feature_names_in_.tolist()
        if list(names) != expected:
            raise InputError(
                "the feature names should match those that were passed during fit: "
                f"{', '.join(map(ascii, expected))}; got {', '.join(map(ascii, names))}."
            )

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names)

    def _new_summary(self, n_features: int) -> MomentSummary:
        """An empty summary of the orders that a fit needs."""
        if self.order == "auto":
            order = choose_order(n_features, self.n_components, method=self.method)
        else:
            order = self.order
        squared_order = max(order - 2, 0) if self.method == "paper" else None
        return MomentSummary(
            n_features, order, self._names(), squared_order, n_threads=self.n_threads
        )

    def _seed(self) -> Any:
        state = self.random_state
        if state is None or isinstance(state, int | np.integer | np.random.Generator):
            return state
        return int(check_random_state(state).randint(2**31 - 1))

    def _fit_to(self, data: Any) -> MomentGaussianMixture:
        """Fit to rows or a summary, and set the attributes from the result."""
        result = fit(
            data, self.n_components, self.order, self.method, self.refine, self._seed(),
            variance_floor=self.variance_floor, max_passes=self.max_iter,
            n_threads=self.n_threads,
        )  # fmt: skip
        mixture = result.mixture
        self.result_, self.mixture_ = result, mixture
        if result.summary is not None:  # fitted to rows
            self.summary_ = result.summary
        self.n_components_ = mixture.n_components
        self.weights_, self.means_ = mixture.weights, mixture.means
        self.covariances_ = mixture.variances
        with np.errstate(divide="ignore"):
            self.precisions_ = 1.0 / mixture.variances
        self.precisions_cholesky_ = np.sqrt(self.precisions_)
        self.n_iter_, self.converged_ = result.n_passes, bool(result.converged)
        self.lower_bound_ = np.nan if result.log_likelihood is None else result.log_likelihood
        self.certificate_ = result.certificate
        self.standard_errors_ = None if result.uncertainty is None else result.standard_errors
        self._warn(result)
        return self

    def _warn(self, result: FitResult) -> None:
        if not self.converged_:
            warn_caller(
                f"not converged after max_iter={self.max_iter} passes; allow more.",
                ConvergenceWarning,
            )
        for finding in result.certificate.findings:
            if finding.name in _WARNED_OF:
                warn_caller(finding.text, FitWarning)
        if result.certificate.verdict == "not passed":
            reasons = " ".join(result.certificate.reasons)
            warn_caller(f"the certificate did not pass: {reasons}", CertificateWarning)

    def _forget(self) -> None:
        for name in (*_FITTED, "summary_", "_pending"):
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not there: fitted attributes while rows are waiting for a fit.
        if name in _FITTED:
            with self._lock.held():  # another thread may be at it
                if name not in self.__dict__ and self.__dict__.get("_pending"):
                    self._fit_pending()
                if name in self.__dict__:
                    return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _fit_pending(self) -> None:
        self._pending = False
        try:
            self._fit_to(self.summary_)
        except BaseException:
            self._pending = True
            raise

    @property
    def _lock(self) -> ForkSafeLock:
        return _LOCKS.setdefault(self, ForkSafeLock())

    # -- using --------------------------------------------------------------------------------

    def _mixture(self) -> Mixture:
        check_is_fitted(self)
        mixture: Mixture = self.mixture_
        return mixture

    def predict(self, X: Any) -> Any:
        """Most probable component of each row, of shape (n_samples,).

        Rows of another array library (torch, CuPy, JAX, …) give an array of that library, where
        they lie; so do `predict_proba` and `score_samples`.
        """
        return self._mixture().predict(self._validated(X, reset=False).rows)

    def predict_proba(self, X: Any) -> Any:
        """Probability of each component, of shape (n_samples, n_components)."""
        return self._mixture().responsibilities(self._validated(X, reset=False).rows)

    def score_samples(self, X: Any) -> Any:
        """Log-density of each row, of shape (n_samples,)."""
        return self._mixture().log_prob(self._validated(X, reset=False).rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of the rows."""
        total, n = self._total(X)
        return total / n

    def sample(self, n_samples: int = 1) -> tuple[Float, NDArray[np.int64]]:
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
        r, d = self.means_.shape
        return int(r * (2 * d + 1) - 1)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on the rows: lower is better."""
        total, n = self._total(X)
        return float(-2 * total + self._n_parameters() * np.log(n))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on the rows: lower is better."""
        return float(-2 * self._total(X)[0] + 2 * self._n_parameters())

    def to_sklearn(self) -> Any:
        """The same mixture as a fitted ``sklearn.mixture.GaussianMixture``."""
        from sklearn.mixture import GaussianMixture

        check_is_fitted(self)
        twin = GaussianMixture(len(self.weights_), covariance_type="diag")
        for name in (
            "weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_",
            "converged_", "n_iter_", "lower_bound_", "n_features_in_", "feature_names_in_",
        ):  # fmt: skip
            if hasattr(self, name):
                value = getattr(self, name)
                setattr(twin, name, value.copy() if isinstance(value, np.ndarray) else value)
        twin.lower_bounds_ = [self.lower_bound_]
        return twin
