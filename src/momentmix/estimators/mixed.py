"""`MomentMixture`: mixed columns behind the interface of scikit-learn; no mathematics."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import validate_data

from momentmix.arrays import is_tensor, plain_array, to_numpy
from momentmix.errors import InputError
from momentmix.estimators.methods import MixtureMethods
from momentmix.fitting.result import BegunFit
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summarize import summarize
from momentmix.summary.summary import MomentSummary
from momentmix.tables.encoding import Unseen
from momentmix.tables.learning import Families
from momentmix.tables.memory import frame_labels, frame_names, is_frame, refuse_dask
from momentmix.tables.schema import Schema, plain_schema
from momentmix.tables.table_rows import Missing, keeps_gaps


class MomentMixture(MixtureMethods):
    """Mixture of columns of any family: numbers, yes/no answers, categories, counts.

    Cells may be missing. Methods are those of scikit-learn's density estimators. Where all columns
    are numbers without gaps, `MomentGaussianMixture` does the same with scikit-learn's attributes.

    Parameters
    ----------
    n_components : int, "auto" or "bic", default=1
        "auto": the largest number whose components other rows would give again, for groups. "bic":
        the number of least BIC, for densities. After `fit_summary` and `partial_fit` both are the
        smallest number whose moments the test accepts.
    max_components : int, default=20
        The largest number that "auto" and "bic" try.
    families : dict, optional
        Family of a column, by name, pattern or number, as in `momentmix.fit`. Others are guessed.
    missing : {"error", "mar", "model", "drop"}, default="error"
        What missing cells get, as in `momentmix.fit`: an error; the likelihood of the seen cells;
        a probability of being seen that belongs to the component; or their rows are left out.
    unseen : {"error", "missing"}, default="error"
        What a level gets, in rows to predict, that no row of the fit had: an error, or its cell is
        left out.
    blocks : None, "auto", "diag" or list of lists of int or str, default=None
        Columns that may be correlated within components. None: "auto" where `fit` chooses the
        number of components, else "diag", none.
    background : bool or "auto", default="auto"
        As in `momentmix.fit`, whose tables have typing errors and codes as often as numbers: rows
        far from all others belong to no group, and `predict` gives −1 for them.
    max_passes, start, random_state, verbose, n_threads
        As for `MomentGaussianMixture`.

    Attributes
    ----------
    n_components_ : int
    weights_ : array of shape (n_components,)
        Heaviest component first.
    means_ : array of shape (n_components, n_features)
        In the units of each column; probabilities of yes/no answers, NaN for categories.
    schema_ : Schema or None
        How columns became features; None where the features are the columns.
    mixture_, summary_
        As for `MomentGaussianMixture`.
    result_, certificate_, standard_errors_
        Computed when they are asked for, as for `MomentGaussianMixture`.
    converged_, n_iter_, lower_bound_, lower_bounds_, n_features_in_, feature_names_in_
        As for `MomentGaussianMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> group = rng.random(2000) < 0.4
    >>> answers = (rng.random((2000, 8)) < np.where(group, 0.9, 0.2)[:, None]).astype(float)
    >>> answers[rng.random(answers.shape) < 0.1] = np.nan
    >>> families = {j: "bernoulli" for j in range(8)}
    >>> model = MomentMixture(2, families=families, missing="mar", random_state=0)
    >>> model.fit(answers).weights_.round(1).tolist()
    [0.6, 0.4]
    """

    def __init__(
        self,
        n_components: int | Literal["auto", "bic"] = 1,
        *,
        max_components: int = 20,
        families: Families = None,
        missing: Missing = "error",
        unseen: Unseen = "error",
        blocks: Any = None,
        background: bool | Literal["auto"] = "auto",
        max_passes: int = 100,
        start: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
    ) -> None:
        self._set_parameters(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def partial_fit(self, X: Any, y: Any = None) -> MomentMixture:
        """Add rows to the summary; the fit is made when a method needs it.

        Attributes of the fit are there after that, or after `fit_summary` without a summary. The
        first part says what the columns are, and which levels categories have unless they are given
        in `families`.
        """
        first = "summary_" not in self.__dict__
        table = self._checked(X, reset=first, fewest=1)
        if first:
            summary = summarize(table, families=self.families, missing=self.missing)
        else:
            known = self.summary_
            schema = known.schema or plain_schema(known.n_features, known.feature_names)
            summary = known + summarize(table, known.order, families=schema, missing=self.missing)
        self._forget()
        self.summary_ = summary
        return self

    def _data_options(self, data: Any) -> tuple[Any, dict[str, Any]]:
        has_schema = isinstance(data, MomentSummary) and data.schema is not None
        return data, {"blocks": self.blocks, "families": None if has_schema else self.families}

    def _set_from(self, begun: BegunFit, summary: MomentSummary | None) -> None:
        self.schema_ = begun.facts["schema"]
        super()._set_from(begun, summary)

    # -- tables -------------------------------------------------------------------------------

    def _checked(self, X: Any, reset: bool, fewest: int = 2) -> Any:
        """Return a table with the columns of the fit; frames and dicts stay as they are."""
        refuse_dask(X)
        if is_tensor(X):
            X = to_numpy(X)
        if not isinstance(X, Mapping) and not is_frame(X):
            X = plain_array(X) if isinstance(X, list | tuple) else X
            rows = validate_data(
                self, X, reset=reset, dtype=None, ensure_all_finite=False,
                ensure_min_samples=fewest if reset else 1,
            )  # fmt: skip
            return self._without_gaps(_numbers_if_all(rows), reset)
        n = len(X) if isinstance(X, Mapping) else len(frame_labels(X))
        if reset:
            self.n_features_in_ = n
            self._set_names(tuple(map(str, X)) if isinstance(X, Mapping) else frame_names(X, None))
        elif n != self.n_features_in_:
            raise InputError(
                f"X has {n} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return self._without_gaps(X, reset)

    def _without_gaps(self, table: Any, reset: bool) -> Any:
        """Return a table to predict; raise where a cell is missing and none may be."""
        if not reset and self.missing == "error" and "mixture_" in self.__dict__:
            Schema(self.mixture_.columns).encode(table)
        return table

    def _row_options(self) -> dict[str, Any]:
        return {"unseen": self.unseen}

    def _mixture(self) -> Mixture:
        """Return the mixture; where cells may be missing, one that leaves unknown ones out."""
        mixture = super()._mixture()
        if not keeps_gaps(self.missing) or mixture.schema is not None:
            return mixture
        twin = copy(mixture)
        object.__setattr__(twin, "schema", Schema(mixture.columns))
        return twin


def _numbers_if_all(rows: Any) -> Any:
    """Return objects that are all numbers as numbers; others are left to the schema."""
    if rows.dtype.kind != "O":
        return rows
    try:
        return rows.astype(np.float64)  # None becomes NaN
    except (TypeError, ValueError):
        return rows
