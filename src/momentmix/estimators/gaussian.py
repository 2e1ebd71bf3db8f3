"""`MomentGaussianMixture`: the fit behind the interface of scikit-learn; no mathematics."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import validate_data

from momentmix._typing import Float
from momentmix.arrays import is_tensor
from momentmix.capacity import choose_order
from momentmix.errors import CapacityError, InputError
from momentmix.estimators.methods import MixtureMethods
from momentmix.fitting.data import known_blocks
from momentmix.fitting.result import BegunFit
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summary import MomentSummary
from momentmix.tables.memory import as_device_rows, for_sklearn
from momentmix.tables.opening import Reading
from momentmix.tables.rows import ArrayRows
from momentmix.tables.validation import LARGEST_TO_FIT, LARGEST_VALUE, check_values, ordered_weights


class MomentGaussianMixture(MixtureMethods):
    """Mixture of Gaussians: EM from starts that compete; from a summary, by moments alone.

    Methods and attributes are those of ``sklearn.mixture.GaussianMixture``; parameters are those of
    `momentmix.fit`. `certificate_`, `standard_errors_` and `result_` are computed when one of them,
    or a display, is asked for; a certificate that does not pass warns then, once (`FitWarning`).
    Until then a sample of the rows is kept; copies and pickles are computed first, and keep none.

    Parameters
    ----------
    n_components : int, "auto" or "bic", default=1
        "auto": the largest number whose components other rows would give again, for groups. "bic":
        the number of least BIC, for densities. After `fit_summary` and `partial_fit` both are the
        smallest number whose moments the test accepts. ``result_.tried`` lists what was tried.
    max_components : int, default=20
        The largest number that "auto" and "bic" try.
    covariance_type : {"diag", "full"}, default="diag"
        "diag": columns are independent within components. "full": all may be correlated, for which
        rows are needed. `MomentMixture` has blocks of columns.
    missing : {"error", "mar"}, default="error"
        What missing cells (NaN) get: an error, or the likelihood is that of the seen cells, which
        are missing at random, as in `momentmix.fit`.
    background : bool or "auto", default=False
        Whether a fixed wide density takes rows that belong to no group, with label −1, as in
        `momentmix.fit`. False, as in scikit-learn: rows far from all others are part of the groups,
        and `predict_proba` sums to 1.
    max_passes : int, default=100
        EM passes over all rows at most. With 0 the best start is returned, unimproved.
    start : Mixture or array of shape (n_components, n_features), optional
        A mixture, or means, that EM starts from, instead of the best of many starts. Components
        come in its order. Without rows it gives the order alone.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same bits.
    verbose : int, default=0
        Whether to print the stages as they begin. 0 prints nothing; in a terminal or a notebook a
        fit of more than a second shows a progress bar, which is erased at its end.
    n_threads : int or None, default=None
        Threads; all cores by default. The answer does not depend on it.

    Attributes
    ----------
    n_components_ : int
        Number of components, also where it was chosen.
    weights_ : array of shape (n_components,)
        Heaviest component first, or in the order of `start`.
    means_ : array of shape (n_components, n_features)
    covariances_ : array of shape (n_components, n_features) or (…, n_features, n_features)
        Variances for covariance_type="diag", else matrices.
    precisions_, precisions_cholesky_ : array of the shape of `covariances_`
        Inverses of the covariances, and their (upper triangular) square roots.
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
        Of weights, means and variances; Computed when asked for.
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
        covariance_type: Literal["diag", "full"] = "diag",
        missing: Literal["error", "mar"] = "error",
        background: bool | Literal["auto"] = False,
        max_passes: int = 100,
        start: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
    ) -> None:
        self._set_parameters(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "mar"
        return tags

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
        sample_weight = ordered_weights(sample_weight, X)
        first = "summary_" not in self.__dict__
        rows = self._checked(X, reset=first, fewest=1)
        summary: MomentSummary = self._new_summary(rows.shape[1]) if first else self.summary_
        summary.update(rows, sample_weight)
        self._forget()
        self.summary_ = summary
        return self

    def _checked(self, X: Any, reset: bool, fewest: int = 2) -> Any:
        """Check rows; where `reset`, set number and names of the features from them."""
        if self.missing not in ("error", "mar"):
            raise InputError(f"missing must be 'error' or 'mar'; got {self.missing!r}.")
        if is_tensor(X):  # values are checked when they are summed
            rows = as_device_rows(X, None if reset else self.n_features_in_)
            if reset:
                self.n_features_in_ = int(rows.shape[1])
                self._set_names(None)
            return rows
        X, names = for_sklearn(X)
        if names is not None:
            import pandas as pd

            X = pd.DataFrame(X, columns=list(names))
        rows = validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False,
            ensure_min_samples=fewest if reset else 1,
        )  # fmt: skip
        is_fit = reset or fewest == 1  # partial_fit
        known = np.nan_to_num(rows, posinf=np.inf, neginf=-np.inf) if self._has_gaps else rows
        check_values(known, self._names(), largest=LARGEST_TO_FIT if is_fit else LARGEST_VALUE)
        return np.asarray(rows, dtype=np.float64)

    @property
    def _has_gaps(self) -> bool:
        return bool(self.missing == "mar")

    def _new_summary(self, n_features: int) -> MomentSummary:
        """Return an empty summary of the orders that a fit needs, if moments allow for one."""
        blocks = None
        if self._is_full():
            if self.n_components != 1:
                raise CapacityError(
                    "partial_fit keeps moments, not rows, and from moments alone components of "
                    "full covariances cannot be told apart. Use fit() with all rows, or "
                    'covariance_type="diag".'
                )
            blocks = known_blocks([list(range(n_features))], n_features, self._names())
        order = choose_order(n_features, self.n_components, blocks=blocks)
        return MomentSummary(n_features, order, self._names(), n_threads=self.n_threads)

    def _is_full(self) -> bool:
        if self.covariance_type not in ("diag", "full"):
            raise InputError(
                f"covariance_type must be 'diag' or 'full'; got {self.covariance_type!r}. For "
                "blocks of columns use MomentMixture."
            )
        return bool(self.covariance_type == "full")

    def _data_options(self, data: Any) -> tuple[Any, dict[str, Any]]:
        self._is_full()
        options: dict[str, Any] = {"blocks": self.covariance_type}
        names = self._names()
        if isinstance(data, MomentSummary) or (self._has_gaps and names is None):
            return data, options
        if self._has_gaps and names is not None:
            options |= {"families": dict.fromkeys(names, "gaussian")}
            options |= {"reading": Reading(columns=list(names))}
            return dict(zip(names, data.T, strict=True)), options
        is_array = isinstance(data, np.ndarray)
        return ArrayRows(data, names if is_array else None), options

    def _set_from(self, begun: BegunFit, summary: MomentSummary | None) -> None:
        mixture = begun.facts["mixture"]
        self.__dict__.update(_covariance_attributes(mixture, self._is_full()))
        super()._set_from(begun, summary)


def _covariance_attributes(mixture: Mixture, is_full: bool) -> dict[str, Float]:
    """Return covariances and precisions as scikit-learn shapes them."""
    if is_full:
        covariances = mixture.covariances
        roots = _precision_roots(covariances)
        precisions = roots @ roots.swapaxes(1, 2)
    else:
        covariances = mixture.variances
        with np.errstate(divide="ignore"):
            precisions = 1.0 / covariances
        roots = np.sqrt(precisions)
    return {"covariances_": covariances, "precisions_": precisions, "precisions_cholesky_": roots}


def _precision_roots(covariances: Float) -> Float:
    """Return upper triangular P with P Pᵀ = Σ⁻¹, by way of the correlations: in any units."""
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    correlations = covariances / deviations[:, :, None] / deviations[:, None, :]
    lower = np.linalg.cholesky(correlations)
    inverse = np.linalg.solve(lower, np.broadcast_to(np.eye(lower.shape[1]), lower.shape))
    return np.triu(inverse.swapaxes(1, 2)) / deviations[:, :, None]
