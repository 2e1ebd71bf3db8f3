"""`MomentGaussianMixture`: the fit behind the interface of scikit-learn; no mathematics."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from momentmix.arrays import is_foreign
from momentmix.capacity.monomials import FEWEST_BLOCKS
from momentmix.capacity.ranks import choose_order
from momentmix.errors import CapacityError, InputError
from momentmix.estimators.methods import MixtureMethods, keeps_state
from momentmix.estimators.options import (
    CovarianceType,
    asked_blocks,
    constraint_of,
    covariance_attributes,
    larger_floor,
    start_from,
    threads_of,
    warn_without_effect,
)
from momentmix.fitting.api import begin_fit
from momentmix.fitting.data import known_blocks
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summary import MomentSummary
from momentmix.tables.formats.memory import as_device_rows, for_sklearn
from momentmix.tables.rows import ArrayRows, DeviceRows, HeldRows, with_weights
from momentmix.tables.validation import LARGEST_TO_FIT, LARGEST_VALUE, check_values

_SHARED = (  # with scikit-learn's, beside the covariances
    "weights_", "means_", "converged_", "n_iter_", "lower_bound_", "n_features_in_",
    "feature_names_in_",
)  # fmt: skip


class MomentGaussianMixture(MixtureMethods):
    """Mixture of Gaussians from one pass of moments, and EM where there are rows.

    Methods and attributes are those of ``sklearn.mixture.GaussianMixture``. `certificate_`,
    `standard_errors_` and `result_` are computed when one of them, or a display, is asked for; a
    certificate that does not pass warns then, once (`FitWarning`). Until then a sample of
    the rows is kept; copies and pickles are computed first, and keep none.

    Parameters
    ----------
    n_components : int, "auto" or "bic", default=1
        "auto": the largest number whose components other rows would give again, for groups. "bic":
        the number of least BIC, for densities. After `fit_summary`, `partial_fit` and with
        refine=None both are the smallest number whose moments the test accepts. ``result_.tried``
        lists what was tried.
    max_components : int, default=20
        The largest number that "auto" and "bic" try.
    covariance_type : {"diag", "spherical", "block", "full", "tied", "auto"}, default="diag"
        "diag": columns are independent within components. "spherical": so they are, and have one
        variance there. "block": those of one block may be correlated. "full": all may. "tied": all
        may, and alike in all components. "auto": columns are joined where it pays, by BIC with
        rows. Without rows there must be three blocks or more, and neither "spherical" nor "tied".
    blocks : list of lists of int or str, optional
        Columns of each block, by number or name, for covariance_type="block"; columns that are not
        named are blocks of their own.
    missing : {"error", "mar"}, default="error"
        What missing cells (NaN) get: an error, or the likelihood is that of the seen cells, which
        are missing at random, as in `momentmix.fit`.
    order : int or "auto", default="auto"
        Highest order of the moments.
    method : {"robust", "paper"}, default="robust"
        "paper" is Algorithm 5.1 of the paper, see `fit`.
    refine : {"auto", "em"} or None, default="auto"
        "auto": EM passes where there are rows. None: the pure moment answer.
    background : bool or "auto", default=False
        Whether a fixed wide density takes rows that belong to no group, with label −1, as in
        `momentmix.fit`. False, as in scikit-learn: rows far from all others are part of the groups,
        and `predict_proba` sums to 1.
    variance_floor : float, default=1e-6
        Least variance of a component, as a fraction of the feature's variance.
    reg_covar : float or None, default=None
        Another name of `variance_floor`; the larger of both counts. It is a floor, not added, and
        relative: scikit-learn's where columns have variance 1.
    max_passes : int, default=100
        Passes over all rows at most; 0: the best start as it is.
    max_iter : int or None, default=None
        scikit-learn's name of max_passes. Give one of both.
    tol : float or None, default=None
        Passes end when less than so many nats a row are left to gain; None: by standard errors.
    n_init : int, default=1
        1: the search for a start ends when its starts agree. More: all of its starts are made; how
        many does not depend on the number.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, default="kmeans"
        No effect, and a warning that says so unless it is the default: starts from k-means++ seeds
        and at random compete in every fit.
    means_init : array of shape (n_components, n_features), optional
        Means that EM starts from, instead of the best of many starts. Components come in their
        order. Without rows, and with covariance_type="auto", they give the order alone.
    weights_init, precisions_init : array of shape (n_components,), of that of `precisions_`
        Weights and precisions of that start; without them they come from the rows next to each
        mean, and without `means_init` they have no effect.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same bits.
    warm_start : bool, default=False
        Whether EM starts from the mixture of the last fit, and keeps its order of the components,
        if it has as many components and the same columns.
    verbose : int, default=0
        1 prints the stages as they begin, 2 the seconds before them too. 0 prints nothing; in a
        terminal or a notebook a fit of more than a second shows a progress bar, which is erased at
        its end (see `momentmix.fit`).
    verbose_interval : int, default=10
        No effect, and a warning that says so unless it is the default.
    n_threads : int or None, default=None
        Threads; all cores by default. The answer does not depend on it.
    n_jobs : int or None, default=None
        scikit-learn's name of n_threads; −1 is all cores. Give one of both.

    Attributes
    ----------
    n_components_ : int
        Number of components, also where it was chosen.
    weights_ : array of shape (n_components,)
        Heaviest component first, or in the order of `means_init`.
    means_ : array of shape (n_components, n_features)
    covariances_ : array of shape (n_components, n_features) or (…, n_features, n_features)
        Variances for covariance_type="diag", else matrices, 0 between blocks. One variance for each
        component for "spherical", and one matrix for "tied".
    precisions_, precisions_cholesky_ : array of the shape of `covariances_`
        Inverses of the covariances, and their (upper triangular) square roots.
    blocks_ : list of lists of int or str
        Columns that are joined, also where "auto" chose them.
    converged_ : bool
    n_iter_ : int
        Passes over the rows after that for the moments; 0 after `fit_summary` and `partial_fit`.
    lower_bound_ : float
        Log-likelihood per row; NaN after `fit_summary` and `partial_fit`.
    lower_bounds_ : list of float
        The same at each pass whose step was kept.
    certificate_ : Certificate
        Whether the fit can be trusted, and why not: ``certificate_.verdict`` is "passed",
        "useful", "not passed" or "untested". Computed when it is asked for.
    standard_errors_ : StandardErrors or None
        Of weights, means and variances; None for method="paper". Computed when asked for.
    summary_ : MomentSummary
        Of the rows seen; a row of whole weight 3 counts as three rows after `fit`.
    mixture_ : Mixture
    result_ : FitResult
        As `momentmix.fit` returns it, bit for bit. Computed when it is asked for.
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

    def __init__(
        self,
        n_components: int | Literal["auto", "bic"] = 1,
        *,
        max_components: int = 20,
        covariance_type: CovarianceType = "diag",
        blocks: Any = None,
        missing: Literal["error", "mar"] = "error",
        order: int | Literal["auto"] = "auto",
        method: Literal["robust", "paper"] = "robust",
        refine: Literal["auto", "em"] | None = "auto",
        background: bool | Literal["auto"] = False,
        variance_floor: float = 1e-6,
        reg_covar: float | None = None,
        max_passes: int = 100,
        max_iter: int | None = None,
        tol: float | None = None,
        n_init: int = 1,
        init_params: str = "kmeans",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        n_threads: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._set_parameters(locals())

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
        if self._has_gaps:
            return self._fit_to(data.rows, self._forget(), sample_weight)
        weighted = data if sample_weight is None else with_weights(data, sample_weight)
        return self._fit_to(weighted, self._forget())

    @property
    def _has_gaps(self) -> bool:
        """Whether cells may be missing."""
        if self.missing not in ("error", "mar"):
            raise InputError(f"missing must be 'error' or 'mar'; got {self.missing!r}.")
        return bool(self.missing == "mar")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "mar"
        return tags

    @keeps_state
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None
    ) -> MomentGaussianMixture:
        """Add rows to the summary; the fit is made when a method needs it.

        Attributes of the fit, as `weights_`, are there after that, or after `fit_summary` without a
        summary. Looking at one never makes a fit.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : None
            Not used.
        sample_weight : array of shape (n_samples,), optional
            Frequencies.
        """
        first = "summary_" not in self.__dict__
        data = self._validated(X, reset=first, fewest=1, largest=LARGEST_TO_FIT)
        summary: MomentSummary = self._new_summary(data.n_features) if first else self.summary_
        summary.update(data.rows, sample_weight)
        self._forget()
        self.summary_, self._pending = summary, True
        return self

    def _validated(
        self, X: Any, reset: bool, fewest: int = 2, largest: float = LARGEST_VALUE
    ) -> HeldRows:
        """Check rows; where `reset`, set number and names of the features from them."""
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
            expected = self.feature_names_in_.tolist()
            if list(names) != expected:
                raise InputError(
                    "the feature names should match those that were passed during fit: "
                    f"{', '.join(map(ascii, expected))}; got {', '.join(map(ascii, names))}."
                )
            rows = check_array(X, **options)
        else:
            rows = validate_data(self, X, reset=reset, **options)
            if names is not None and reset:
                self.feature_names_in_ = np.array(names, dtype=object)
        known = np.nan_to_num(rows, posinf=np.inf, neginf=-np.inf) if self._has_gaps else rows
        check_values(known, self._names(), largest=largest)
        return ArrayRows(np.asarray(rows, dtype=np.float64), feature_names=self._names())

    def _rows_to_predict(self, X: Any) -> Any:
        return self._validated(X, reset=False).rows

    def _new_summary(self, n_features: int) -> MomentSummary:
        """Return an empty summary of the orders that a fit needs, if moments allow for one."""
        asked = asked_blocks(self.covariance_type, self.blocks, n_features)
        blocks = known_blocks(asked, n_features, self._names())
        constraint, r = constraint_of(self.covariance_type), self.n_components
        if constraint is not None:
            raise CapacityError(
                f"partial_fit keeps moments, not rows, and {constraint} covariances are fitted by "
                'passes over the rows. Use fit() with all rows, or covariance_type="diag".'
            )
        n_blocks = n_features if blocks is None else len(blocks.partition)
        # One component is known from the moments, whatever its blocks.
        if r != 1 and blocks is not None and not blocks.is_diagonal and n_blocks < FEWEST_BLOCKS:
            raise CapacityError(
                "partial_fit keeps moments, not rows, and moments alone need at least three blocks "
                f"to tell components apart; these are {n_blocks}. Use smaller blocks, or fit() "
                "with rows."
            )
        order = self.order
        if order == "auto":
            order = choose_order(n_features, self.n_components, method=self.method, blocks=blocks)
        squared_order = max(order - 2, 0) if self.method == "paper" else None
        n_threads = threads_of(self.n_threads, self.n_jobs)
        return MomentSummary(n_features, order, self._names(), squared_order, n_threads=n_threads)

    def _fit_to(
        self, data: Any, previous: Mixture | None = None, sample_weight: Any = None
    ) -> MomentGaussianMixture:
        """Fit to rows or a summary, and set the attributes from the result."""
        warn_without_effect(self.init_params, self.verbose_interval)
        start = previous if self._can_start(previous) else start_from(
            self.covariance_type, self.means_init, self.weights_init, self.precisions_init,
            (self.n_components, self.n_features_in_),
        )  # fmt: skip
        blocks = asked_blocks(self.covariance_type, self.blocks, self.n_features_in_)
        options, names = self._fit_options(), self._names()
        families = None
        if isinstance(data, np.ndarray) and names is not None:
            data, families = dict(zip(names, data.T, strict=True)), dict.fromkeys(names, "gaussian")
            options["reading"] = {"columns": list(names)}
        begun = begin_fit(
            data, method=self.method, blocks=blocks, constraint=constraint_of(self.covariance_type),
            variance_floor=larger_floor(self.variance_floor, self.reg_covar), start=start,
            sample_weight=sample_weight, families=families, missing=self.missing, **options,
        )  # fmt: skip
        mixture = begun.draft.mixture
        labels = mixture.feature_names or range(mixture.n_features)
        self.blocks_ = [[labels[j] for j in block] for block in mixture.parameters.blocks.joined]
        self.__dict__.update(covariance_attributes(mixture, self.covariance_type))
        self._set_from(begun)
        return self

    def _n_parameters(self) -> int:
        """Count free parameters: what is held equal counts once."""
        r, d = self._mixture().means.shape
        held = {"tied": d * (d + 1) // 2, "spherical": r}.get(self.covariance_type)
        return super()._n_parameters() if held is None else r - 1 + r * d + held

    def to_sklearn(self) -> Any:
        """The same mixture as a fitted ``sklearn.mixture.GaussianMixture``.

        Its covariance_type is that of this estimator; instead of "block" and "auto" it is "full"
        where columns are joined, else "diag". Its `bic` and `aic` then count the covariances
        between blocks too, which are 0 here.
        """
        from sklearn.mixture import GaussianMixture

        mixture = self._mixture()
        kind: CovarianceType = "diag" if mixture.parameters.blocks.is_diagonal else "full"
        kind = constraint_of(self.covariance_type) or kind
        twin = GaussianMixture(len(self.weights_), covariance_type=kind)
        values = {name: getattr(self, name) for name in _SHARED if hasattr(self, name)}
        for name, value in {**values, **covariance_attributes(mixture, kind)}.items():
            setattr(twin, name, value.copy() if isinstance(value, np.ndarray) else value)
        twin.lower_bounds_ = self.lower_bounds_ or [self.lower_bound_]
        return twin
