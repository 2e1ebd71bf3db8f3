"""`MomentMixture`: mixed columns behind the interface of scikit-learn; no mathematics."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import validate_data

from momentmix.arrays import is_foreign, to_numpy
from momentmix.errors import InputError
from momentmix.estimators.fitted_state import keeps_state
from momentmix.estimators.methods import MixtureMethods
from momentmix.fitting.api import fit
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summarize import summarize
from momentmix.summary.summary import MomentSummary
from momentmix.tables.encoding import Unseen
from momentmix.tables.learning import Families
from momentmix.tables.memory import frame_labels, frame_names, is_frame, refuse_dask
from momentmix.tables.schema import Schema, plain_schema
from momentmix.tables.table_rows import Missing


class MomentMixture(MixtureMethods):
    """Mixture of columns of any family: numbers, yes/no answers, categories, counts.

    Cells may be missing. Methods are those of scikit-learn's density estimators. Where all columns
    are numbers without gaps, `MomentGaussianMixture` does the same with scikit-learn's attributes.

    Parameters
    ----------
    n_components : int or "auto", default=1
        "auto": the number of least BIC; after `fit_summary` and `partial_fit` the smallest number
        whose moments the test accepts.
    families : dict, optional
        Family of a column, by name or number, as in `momentmix.fit`. Others are guessed.
    missing : {"model", "drop", "error"}, default="model"
        What missing cells get: they are part of the model, their rows are left out, or an error.
    unseen : {"error", "missing"}, default="error"
        What a level gets, in rows to predict, that no row of the fit had: an error, or its cell is
        left out.
    blocks : None, "auto" or list of lists of int or str, default=None
        Columns that may be correlated within components.
    order : int or "auto", default="auto"
        Highest order of the moments.
    refine : {"auto", "em"} or None, default="auto"
        "auto": EM passes where there are rows. None: the pure moment answer.
    variance_floor : float, default=1e-6
        Least variance of a component, as a fraction of the feature's variance.
    max_iter : int, default=100
        Passes over all rows at most; 0: the best start as it is.
    tol : float or None, default=None
        Passes end when less than so many nats a row are left to gain; None: by standard errors.
    n_init : int, default=1
        1: the search for a start ends when its starts agree. More: all of its starts are made; how
        many does not depend on the number.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same bits.
    warm_start : bool, default=False
        Whether EM starts from the mixture of the last fit, and keeps its order of the components,
        if it has as many components and the same columns.
    verbose : int, default=0
        1 prints the stages as they begin, 2 the seconds before them too. 0 prints nothing; in a
        terminal or a notebook a fit of more than a second shows a progress bar, which is erased at
        its end (see `momentmix.fit`).
    n_threads : int or None, default=None
        Threads; all cores by default. The answer does not depend on it.
    n_jobs : int or None, default=None
        scikit-learn's name of n_threads; −1 is all cores. Give one of both.

    Attributes
    ----------
    n_components_ : int
    weights_ : array of shape (n_components,)
        Heaviest component first.
    means_ : array of shape (n_components, n_features)
        In the units of each column; probabilities of yes/no answers, NaN for categories.
    schema_ : Schema or None
        How columns became features; None where the features are the columns.
    mixture_ : Mixture
    result_ : FitResult
    certificate_ : Certificate
    standard_errors_ : StandardErrors or None
    summary_ : MomentSummary
    converged_ : bool
    n_iter_ : int
        Passes over the rows after that for the moments; 0 after `fit_summary` and `partial_fit`.
    lower_bound_ : float
        Log-likelihood per row; NaN after `fit_summary` and `partial_fit`.
    lower_bounds_ : list of float
        The same at each pass whose step was kept.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        Where the rows had names.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> group = rng.random(2000) < 0.4
    >>> answers = (rng.random((2000, 8)) < np.where(group, 0.9, 0.2)[:, None]).astype(float)
    >>> answers[rng.random(answers.shape) < 0.1] = np.nan
    >>> model = MomentMixture(2, families={j: "bernoulli" for j in range(8)}, random_state=0)
    >>> model.fit(answers).weights_.round(1).tolist()
    [0.6, 0.4]
    """

    _fitted = frozenset({
        "result_", "mixture_", "weights_", "means_", "schema_", "n_iter_", "converged_",
        "lower_bound_", "lower_bounds_", "certificate_", "standard_errors_", "n_components_",
    })  # fmt: skip

    def __init__(
        self,
        n_components: int | Literal["auto"] = 1,
        *,
        families: Families = None,
        missing: Missing = "model",
        unseen: Unseen = "error",
        blocks: Any = None,
        order: int | Literal["auto"] = "auto",
        refine: Literal["auto", "em"] | None = "auto",
        variance_floor: float = 1e-6,
        max_iter: int = 100,
        tol: float | None = None,
        n_init: int = 1,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_threads: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.families = families
        self.missing = missing
        self.unseen = unseen
        self.blocks = blocks
        self.order = order
        self.refine = refine
        self.variance_floor = variance_floor
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_threads = n_threads
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    # -- fitting ------------------------------------------------------------------------------

    @keeps_state
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MomentMixture:
        """Fit to a table: array, data frame, Arrow table or dict of columns.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : None
            Not used.
        sample_weight : array of shape (n_samples,), optional
            Whole numbers stand for repeated rows; others are relative, as in `momentmix.fit`.
        """
        table = self._checked(X, reset=True)
        previous = self._previous()
        self._forget()
        return self._fit_to(table, previous, sample_weight)

    @keeps_state
    def partial_fit(self, X: Any, y: Any = None) -> MomentMixture:
        """Add rows to the summary; the fit is made when a method needs it.

        Attributes of the fit are there after that, or after `fit_summary` without a summary. The
        first part says what the columns are, and which levels categories have unless they are given
        in `families`.
        """
        first = "summary_" not in self.__dict__
        table = self._checked(X, reset=first, fewest=1)
        if first:
            order = None if self.order == "auto" else self.order
            summary = summarize(table, order, families=self.families, missing=self.missing)
        else:
            known = self.summary_
            schema = known.schema or plain_schema(known.n_features, known.feature_names)
            summary = known + summarize(table, known.order, families=schema, missing=self.missing)
        self._forget()
        self.summary_, self._pending = summary, True
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to a table, and give the most probable component of each row."""
        return self.fit(X, y, sample_weight).predict(X)

    def _fit_to(
        self, data: Any, previous: Mixture | None = None, sample_weight: Any = None
    ) -> MomentMixture:
        is_summary = isinstance(data, MomentSummary)
        families = self.families
        if is_summary and data.schema is not None:
            families = None
        result = fit(
            data, self.n_components, self.order, "robust", self.refine, self._seed(),
            blocks=self.blocks, sample_weight=sample_weight, families=families,
            missing=self.missing, variance_floor=self.variance_floor,
            start=self._start_of(previous), **self._fit_options(),
        )  # fmt: skip
        self.schema_ = result.schema
        self._set_from(result)
        return self

    # -- tables -------------------------------------------------------------------------------

    def _checked(self, X: Any, reset: bool, fewest: int = 2) -> Any:
        """A table whose columns are those of the fit; frames and dicts are left as they are."""
        refuse_dask(X)
        if is_foreign(X):
            X = to_numpy(X)
        if isinstance(X, Mapping) or is_frame(X):
            self._check_columns(X, reset)
            return X
        rows = validate_data(
            self, X, reset=reset, dtype=None, ensure_all_finite=False,
            ensure_min_samples=fewest if reset else 1,
        )  # fmt: skip
        return _numbers_if_all(rows)

    def _check_columns(self, X: Any, reset: bool) -> None:
        names = tuple(map(str, X)) if isinstance(X, Mapping) else frame_names(X, None)
        n = len(X) if isinstance(X, Mapping) else len(frame_labels(X))
        if reset:
            self.n_features_in_ = n
            self._set_names(names)
            return
        if n != self.n_features_in_:
            raise InputError(
                f"X has {n} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )

    def _rows_to_predict(self, X: Any) -> Any:
        mixture, rows = self._mixture(), self._checked(X, reset=False)
        if self.missing == "error":
            Schema(mixture.columns).encode(rows)  # raises where a cell is missing
        return rows

    def _row_options(self) -> dict[str, Any]:
        return {"unseen": self.unseen}

    def _mixture(self) -> Mixture:
        """The mixture; where missing cells are modeled, one that leaves unknown ones out.

        Rows of the fit without any missing cell give a mixture of numbers, which knows of none.
        """
        mixture = super()._mixture()
        if self.missing != "model" or mixture.schema is not None:
            return mixture
        twin = copy(mixture)
        object.__setattr__(twin, "schema", Schema(mixture.columns))
        return twin

    def impute(self, X: Any, draws: int | None = None) -> Any:
        """The table with missing cells filled from the mixture; `draws` tables drawn from it."""
        mixture = self._mixture()
        rows = self._checked(X, reset=False)
        return mixture.impute(rows, self._seed(), draws, **self._row_options())


def _numbers_if_all(rows: Any) -> Any:
    """Objects that are all numbers, as numbers; others are left to the schema."""
    if rows.dtype.kind != "O":
        return rows
    try:
        return rows.astype(np.float64)  # None becomes NaN
    except (TypeError, ValueError):
        return rows
