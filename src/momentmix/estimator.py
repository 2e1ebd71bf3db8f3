"""`MomentGaussianMixture`: the fit behind the interface of scikit-learn; no mathematics."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from momentmix.capacity import choose_order
from momentmix.covariance_types import (
    CovarianceType,
    asked_blocks,
    check_for_moments,
    covariance_attributes,
    joined_columns,
)
from momentmix.errors import InputError, InputTypeError
from momentmix.estimator_methods import MixtureMethods
from momentmix.fitted_state import keeps_state
from momentmix.fitting.api import fit
from momentmix.fitting.pipeline import AskedBlocks, known_blocks
from momentmix.mixture.blocks import Blocks
from momentmix.rows.arrays import is_foreign
from momentmix.rows.protocol import ArrayRows, DeviceRows, HeldRows
from momentmix.rows.validation import (
    LARGEST_TO_FIT,
    LARGEST_VALUE,
    as_device_rows,
    check_values,
    for_sklearn,
)
from momentmix.rows.weighted import with_weights
from momentmix.summary.summary import MomentSummary

_SHARED = (  # with scikit-learn's, beside the covariances
    "weights_", "means_", "converged_", "n_iter_", "lower_bound_", "n_features_in_",
    "feature_names_in_",
)  # fmt: skip


class MomentGaussianMixture(MixtureMethods):
    """Mixture of Gaussians from one pass of moments, and EM where there are rows.

    Methods and attributes are those of ``sklearn.mixture.GaussianMixture``. A fit whose
    certificate does not pass warns, once and with the reasons (`CertificateWarning`); one that
    could not be tested does not.

    Parameters
    ----------
    n_components : int or "auto", default=1
        "auto": the number of least BIC; after `fit_summary`, `partial_fit` and with refine=None the
        smallest number whose moments the test accepts. ``result_.tried`` lists what was tried.
    covariance_type : {"diag", "block", "full", "auto"}, default="diag"
        "diag": columns are independent within components. "block": those of one block may be
        correlated there. "full": all may. "auto": columns are joined where it pays, by BIC with
        rows. Without rows there must be three blocks or more.
    blocks : list of lists of int or str, optional
        Columns of each block, by number or name, for covariance_type="block"; columns that are not
        named are blocks of their own.
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
    covariances_ : array of shape (n_components, n_features) or (…, n_features, n_features)
        Variances for covariance_type="diag", else matrices, 0 between blocks.
    precisions_, precisions_cholesky_ : array of the shape of `covariances_`
        Inverses of the covariances, and their (upper triangular) square roots.
    blocks_ : list of lists of int or str
        Columns that are joined, also where "auto" chose them.
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

    _fitted = frozenset({
        "result_", "mixture_", "weights_", "means_", "covariances_", "precisions_",
        "precisions_cholesky_", "blocks_", "n_iter_", "converged_", "lower_bound_", "certificate_",
        "standard_errors_", "n_components_",
    })  # fmt: skip

    def __init__(
        self,
        n_components: int | Literal["auto"] = 1,
        *,
        covariance_type: CovarianceType = "diag",
        blocks: Any = None,
        order: int | Literal["auto"] = "auto",
        method: Literal["robust", "paper"] = "robust",
        refine: Literal["auto", "em"] | None = "auto",
        variance_floor: float = 1e-6,
        max_iter: int = 100,
        random_state: Any = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.blocks = blocks
        self.order = order
        self.method = method
        self.refine = refine
        self.variance_floor = variance_floor
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads

    # -- fitting ------------------------------------------------------------------------------

    @keeps_state
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MomentGaussianMixture:
        """Fit to rows.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : None
            Not used.
        sample_weight : array of shape (n_samples,), optional
            Whole numbers stand for repeated rows; others are relative, as in `momentmix.fit`.

        Returns
        -------
        MomentGaussianMixture
            This estimator.
        """
        data = self._validated(X, reset=True, largest=LARGEST_TO_FIT)
        weighted = data if sample_weight is None else with_weights(data, sample_weight)
        self._forget()
        return self._fit_to(weighted)

    @keeps_state
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
        if first:
            self._check_moments("partial_fit keeps moments, not rows")
        summary: MomentSummary = self._new_summary(data.n_features) if first else self.summary_
        summary.update(data.rows, sample_weight)
        self._forget()
        self.summary_, self._pending = summary, True
        return self

    @keeps_state
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

    def _rows_to_predict(self, X: Any) -> Any:
        return self._validated(X, reset=False).rows

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

    def _asked_blocks(self) -> AskedBlocks:
        return asked_blocks(self.covariance_type, self.blocks, self.n_features_in_)

    def _known_blocks(self) -> Blocks | None:
        return known_blocks(self._asked_blocks(), self.n_features_in_, self._names())

    def _check_moments(self, what: str) -> None:
        if self.n_components != 1:  # one component is known from the moments, whatever its blocks
            check_for_moments(self._known_blocks(), what)

    def _new_summary(self, n_features: int) -> MomentSummary:
        """An empty summary of the orders that a fit needs."""
        if self.order == "auto":
            order = choose_order(
                n_features, self.n_components, method=self.method, blocks=self._known_blocks()
            )
        else:
            order = self.order
        squared_order = max(order - 2, 0) if self.method == "paper" else None
        return MomentSummary(
            n_features, order, self._names(), squared_order, n_threads=self.n_threads
        )

    def _fit_to(self, data: Any) -> MomentGaussianMixture:
        """Fit to rows or a summary, and set the attributes from the result."""
        result = fit(
            data, self.n_components, self.order, self.method, self.refine, self._seed(),
            blocks=self._asked_blocks(), variance_floor=self.variance_floor,
            max_passes=self.max_iter, n_threads=self.n_threads,
        )  # fmt: skip
        mixture = result.mixture
        self.blocks_ = joined_columns(mixture)
        self.__dict__.update(covariance_attributes(mixture, self.covariance_type == "diag"))
        self._set_from(result)
        return self

    def to_sklearn(self) -> Any:
        """The same mixture as a fitted ``sklearn.mixture.GaussianMixture``.

        Its covariance_type is "full" where columns are joined, else "diag". Its `bic` and `aic`
        then count the covariances between blocks too, which are 0 here.
        """
        from sklearn.mixture import GaussianMixture

        mixture = self._mixture()
        diagonal = mixture.parameters.blocks.is_diagonal
        twin = GaussianMixture(len(self.weights_), covariance_type="diag" if diagonal else "full")
        values = {name: getattr(self, name) for name in _SHARED if hasattr(self, name)}
        for name, value in {**values, **covariance_attributes(mixture, diagonal)}.items():
            setattr(twin, name, value.copy() if isinstance(value, np.ndarray) else value)
        twin.lower_bounds_ = [self.lower_bound_]
        return twin
