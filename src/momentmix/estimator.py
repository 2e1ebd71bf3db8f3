"""`MomentGaussianMixture`: the fit behind the interface of scikit-learn; adds no mathematics."""

from __future__ import annotations

import warnings
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

from momentmix.arrays import is_foreign, namespace
from momentmix.capacity import choose_order
from momentmix.errors import FitWarning, InputError, InputTypeError
from momentmix.fitting.api import fit
from momentmix.fitting.result import FitResult
from momentmix.locks import ForkSafeLock, one_at_a_time
from momentmix.mixture.mixture import DiagonalMixture
from momentmix.rows.containers import check_dtype, has_mask, plain_array
from momentmix.rows.protocol import ArrayRows, DeviceRows, HeldRows
from momentmix.rows.tables import FramePiece, is_frame
from momentmix.rows.validation import (
    LARGEST_TO_FIT,
    LARGEST_VALUE,
    as_weights,
    check_feature_names,
    checked_values,
    warn_integers,
)
from momentmix.summary.device_shard import as_device_rows
from momentmix.summary.summary import MomentSummary

__all__ = ["MomentGaussianMixture"]

Float = NDArray[np.float64]
Method = TypeVar("Method", bound=Callable[..., Any])

_FITTED = {
    "result_", "mixture_", "weights_", "means_", "covariances_", "precisions_",
    "precisions_cholesky_", "n_iter_", "converged_", "lower_bound_", "certificate_",
    "standard_errors_",
}  # fmt: skip
_TOLD = {"constant-column", "duplicate-columns", "outlier-influence"}  # findings that warn
_FEW_REPEATED = 10_000  # rows, beyond ten times those given
_LOCKS: WeakKeyDictionary[Any, ForkSafeLock] = WeakKeyDictionary()  # by estimator; never pickled


def _other_names(X: Any) -> list[str] | None:
    """Names of a polars or Arrow table, which not every scikit-learn reads; None for the rest."""
    if hasattr(X, "iloc") or not is_frame(X):
        return None
    names = FramePiece(X).column_names
    return None if names is None else list(names)


def _check_columns(X: Any) -> None:
    """Refuse names that several columns have; warn of integers, which scikit-learn casts."""
    if isinstance(X, np.ndarray):
        warn_integers(X)
    elif is_frame(X) and len(X.columns):
        frame = FramePiece(X, "X")
        if frame.column_names is not None:
            check_feature_names(frame.column_names)
        if hasattr(X, "iloc"):  # of others `table` warns
            frame.warn_of_integers(range(frame.n_columns))


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
    ``covariance_type="diag"``.

    Parameters
    ----------
    n_components : int or "auto", default=1
        "auto" takes the smallest number that the certificate accepts.
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
        Whether the fit can be trusted, and why not.
    standard_errors_ : StandardErrors or None
        Of weights, means and variances; None for method="paper".
    summary_ : MomentSummary
        Of the rows seen; a row of whole weight 3 counts as three rows after `fit`.
    mixture_ : DiagonalMixture
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
        rows = self._validated(X, reset=True, largest=LARGEST_TO_FIT)
        if is_foreign(rows) and sample_weight is not None:
            raise InputError(
                "sample_weight needs NumPy rows; X is an array of another library. Pass "
                "MomentSummary.update(X, sample_weight) to fit_summary, or X as a NumPy array."
            )
        weights = as_weights(sample_weight, rows.shape[0])
        self._forget()
        repeated = rows if weights is None else self._repeated(rows, weights)
        if repeated is not None:
            self._take(*self._fit_rows(repeated))
            return self
        if self.refine == "em":
            raise InputError(
                'refine="em" needs weights that are whole numbers. Use refine="auto", or repeat '
                "the rows."
            )
        summary = self._new_summary(rows.shape[1]).update(rows, weights)
        self._take(self._call(summary), summary)
        return self

    def _fit_rows(self, rows: Any) -> tuple[FitResult, MomentSummary]:
        """The fit of rows, and the summary that its one pass for the moments made."""
        made: list[MomentSummary] = []

        def new_summary(order: int, squared_order: int) -> MomentSummary:
            made.append(self._summary_of_order(rows.shape[1], order, squared_order))
            return made[-1]

        held: HeldRows = DeviceRows(rows) if is_foreign(rows) else ArrayRows(rows)
        held.new_summary = new_summary
        result = self._call(held)
        (summary,) = made
        return result, summary

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
        rows = self._validated(X, reset=first, fewest=1, largest=LARGEST_TO_FIT)
        summary: MomentSummary = self._new_summary(rows.shape[1]) if first else self.summary_
        summary.update(rows, sample_weight)
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
        summary = summary.copy()  # partial_fit adds to it; the caller's stays as it is
        result = self._call(summary)
        self._forget()
        self.n_features_in_ = summary.n_features
        if summary.feature_names is not None:
            self.feature_names_in_ = np.array(summary.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._take(result, summary)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to rows, and give the most probable component of each."""
        return self.fit(X, y, sample_weight).predict(X)

    def _validated(
        self, X: Any, reset: bool, fewest: int = 2, largest: float = LARGEST_VALUE
    ) -> Any:
        if is_foreign(X):
            return self._validated_there(X, reset)
        if hasattr(X, "dask") or hasattr(X, "__dask_graph__"):
            raise InputTypeError(
                "X is a Dask collection, which would be pulled into memory. Use momentmix.dask: "
                "fit_summary(momentmix.dask.summarize(X, order)) to fit, "
                "momentmix.dask.predict(model.mixture_, X) to predict."
            )
        if has_mask(X):
            X = plain_array(X)  # NaN where a number is masked; refused below
        if getattr(getattr(X, "dtype", None), "kind", None) == "V":
            check_dtype(X.dtype, "X")  # scikit-learn takes the values of a single field
        if getattr(getattr(X, "dtype", None), "kind", None) in ("M", "m"):
            raise InputTypeError(
                f"X must hold real numbers; it has dtype {X.dtype}. Convert times to numbers in a "
                "unit of your choice first, e.g. X / np.timedelta64(1, 's')."
            )
        options: dict[str, Any] = {
            "dtype": [np.float64, np.float32],
            "ensure_all_finite": False,
            "ensure_min_samples": fewest if reset else 1,
        }
        _check_columns(X)
        names = _other_names(X)
        if names is not None:
            X = FramePiece(X).table()
        if names is not None and not reset and hasattr(self, "feature_names_in_"):
            self._check_names(names)
            rows = check_array(X, **options)
        else:
            rows = validate_data(self, X, reset=reset, **options)
            if names is not None and reset:
                self.feature_names_in_ = np.array(names, dtype=object)
        checked_values(rows, getattr(self, "feature_names_in_", None), largest=largest)
        return np.asarray(rows, dtype=np.float64)

    def _validated_there(self, X: Any, reset: bool) -> Any:
        """An array of another library as it is; its values are checked where they are used."""
        rows = as_device_rows(X, None if reset else self.n_features_in_)
        if reset:
            self.n_features_in_ = int(rows.shape[1])
            self.__dict__.pop("feature_names_in_", None)
        return rows

    def _check_names(self, names: list[str]) -> None:
        known = self.feature_names_in_.tolist()
        if names != known:
            raise InputError(
                "the feature names should match those that were passed during fit: "
                f"{', '.join(map(ascii, known))}; got {', '.join(map(ascii, names))}."
            )

    def _new_summary(self, n_features: int) -> MomentSummary:
        order = self.order
        if order == "auto":
            order = choose_order(n_features, self.n_components, method=self.method)
        squared = max(order - 2, 0) if self.method == "paper" else None
        return self._summary_of_order(n_features, order, squared)

    def _summary_of_order(self, n_features: int, order: int, squared: int | None) -> MomentSummary:
        names = getattr(self, "feature_names_in_", None)
        return MomentSummary(
            n_features, order, None if names is None else list(names), squared,
            n_threads=self.n_threads,
        )  # fmt: skip

    def _repeated(self, rows: Float, weights: Float) -> Float | None:
        """Rows repeated as often as their weights say, if these are whole and not many."""
        if (weights != np.floor(weights)).any() or weights.sum() > 10 * len(rows) + _FEW_REPEATED:
            return None
        return np.repeat(rows, weights.astype(np.int64), axis=0)

    def _call(self, data: Any) -> FitResult:
        return fit(
            data, self.n_components, self.order, self.method, self.refine, self._seed(),
            variance_floor=self.variance_floor, max_passes=self.max_iter,
            n_threads=self.n_threads,
        )  # fmt: skip

    def _seed(self) -> Any:
        state = self.random_state
        if state is None or isinstance(state, int | np.integer | np.random.Generator):
            return state
        return int(check_random_state(state).randint(2**31 - 1))

    def _take(self, result: FitResult, summary: MomentSummary) -> None:
        mixture = result.mixture
        self.result_, self.mixture_ = result, mixture
        self.summary_ = summary
        self.weights_, self.means_ = mixture.weights, mixture.means
        self.covariances_ = mixture.variances
        with np.errstate(divide="ignore"):
            self.precisions_ = 1.0 / mixture.variances
        self.precisions_cholesky_ = np.sqrt(self.precisions_)
        self.n_iter_, self.converged_ = result.n_passes, bool(result.converged)
        self.lower_bound_ = np.nan if result.log_likelihood is None else result.log_likelihood
        self.certificate_ = result.certificate
        self.standard_errors_ = None if result.uncertainty is None else result.standard_errors
        if not self.converged_:
            warnings.warn(
                f"not converged after max_iter={self.max_iter} passes; allow more.",
                ConvergenceWarning,
                stacklevel=4,
            )
        for finding in result.certificate.findings:
            if finding.name in _TOLD:
                warnings.warn(finding.text, FitWarning, stacklevel=4)

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
            self._take(self._call(self.summary_), self.summary_)
        except BaseException:
            self._pending = True
            raise

    @property
    def _lock(self) -> ForkSafeLock:
        return _LOCKS.setdefault(self, ForkSafeLock())

    # -- using --------------------------------------------------------------------------------

    def _fitted(self, X: Any) -> tuple[DiagonalMixture, Any]:
        check_is_fitted(self)
        return self.mixture_, self._validated(X, reset=False)

    def predict(self, X: Any) -> Any:
        """Most probable component of each row, of shape (n_samples,).

        Rows of another array library (torch, CuPy, JAX, …) give an array of that library, where
        they lie; so do `predict_proba` and `score_samples`.
        """
        mixture, rows = self._fitted(X)
        return mixture.predict(rows)

    def predict_proba(self, X: Any) -> Any:
        """Probability of each component, of shape (n_samples, n_components)."""
        mixture, rows = self._fitted(X)
        return mixture.responsibilities(rows)

    def score_samples(self, X: Any) -> Any:
        """Log-density of each row, of shape (n_samples,)."""
        mixture, rows = self._fitted(X)
        return mixture.log_prob(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of the rows."""
        total, n = self._total(X)
        return total / n

    def sample(self, n_samples: int = 1) -> tuple[Float, NDArray[np.int64]]:
        """Draw rows and their components, of shapes (n_samples, n_features) and (n_samples,)."""
        check_is_fitted(self)
        if n_samples < 1:
            raise InputError(f"n_samples must be at least 1; got {n_samples}.")
        return self.mixture_.sample(n_samples, self._seed())

    def _total(self, X: Any) -> tuple[float, int]:
        """Sum of the log-densities, and the number of rows."""
        scores = self.score_samples(X)
        total = namespace(scores).sum(scores) if is_foreign(scores) else scores.sum()
        return float(total), int(scores.shape[0])

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
