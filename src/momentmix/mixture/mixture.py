"""`Mixture`: the answer of a fit, a mixture whose columns form blocks of any families.

| paper symbol | name here | shape |
|---|---|---|
| ω_i | ``weights`` | (n_components,) |
| μ_i | ``means`` | (n_components, n_columns) |
| Σ_i | ``covariances`` | (n_components, n_columns, n_columns) |
| diag Σ_i | ``variances`` | (n_components, n_columns) |

Differs from the paper: covariances within blocks of columns, columns of other families, missing
cells and a background.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError, InputTypeError
from momentmix.families.block import Block
from momentmix.families.column import Column, Level
from momentmix.html.notebook import Markup, box
from momentmix.lazy import lazy_property
from momentmix.mixture.columns import (
    blocks_given,
    blocks_of,
    column_covariances,
    column_means,
    column_numbers,
    parameters_of,
    placed,
    renamed,
    schema_of,
    selected,
)
from momentmix.mixture.density import log_sums, most_probable, posteriors
from momentmix.mixture.gaussian import sample
from momentmix.mixture.matching import in_same_columns, match_components
from momentmix.mixture.model_file import load_model, model_contents, save_model
from momentmix.mixture.parameter_table import ParameterTable
from momentmix.mixture.parameters import Parameters, checked_parameters, parameters_of_matrices
from momentmix.mixture.profile import Profile, profile_of
from momentmix.mixture.rows import RowDensity, checked_labels
from momentmix.tables.encoding import Encoded, Unseen
from momentmix.tables.names import check_feature_names, column_label
from momentmix.tables.schema import Schema, plain_schema
from momentmix.wording import cut, listed, no_group, percent, plural

_MOST_WEIGHTS = 8  # in a repr


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Mixture:
    """Mixture of Gaussians: blocks of columns are independent within each component.

    `Mixture.diagonal` takes variances in place of covariances, `Mixture.from_blocks` blocks of any
    families, of columns with or without missing cells.

    Parameters
    ----------
    weights : array of shape (n_components,)
        Non-negative, sum 1.
    means : array of shape (n_components, n_columns)
    covariances : array of shape (n_components, n_columns, n_columns)
        Symmetric, positive semidefinite; their zeros show the blocks. A density needs them positive
        definite.
    feature_names : sequence of str, optional
        Columns of data frames are matched by name, those of arrays by position.

    Attributes
    ----------
    means, variances : arrays of shape (n_components, n_columns)
        Of each column where it is seen, after its transform: for yes/no columns of the second
        level. NaN for categories, and where a component never sees the column.
    blocks : tuple of GaussianBlock and blocks of other families
        Columns with their parameters, ordered by their first columns.
    schema : Schema or None
        How columns become features; None where they are numbers without missing cells.
    parameters : Parameters
        Of the features.
    background : Mixture or None
        A fixed wide density for rows that belong to no group. It is no component: `weights` are
        those of the groups.
    background_weight : float
        Share of the rows that belong to no group; 0.0 without a background.

    Examples
    --------
    >>> covariances = [[[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    >>> mixture = Mixture([1.0], [[0.0, 0.0, 5.0]], covariances, feature_names=["a", "b", "c"])
    >>> [block.columns for block in mixture.blocks]
    [(0, 1), (2,)]
    >>> mixture.condition({"a": 2.0}).means.tolist()
    [[1.6, 5.0]]
    """

    parameters: Parameters
    _schema: Schema
    _blocks: tuple[Block, ...] | None  # None: those of the parameters
    background: Mixture | None
    background_weight: float

    def __init__(
        self,
        weights: ArrayLike,
        means: ArrayLike,
        covariances: ArrayLike,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        names = None if feature_names is None else check_feature_names(feature_names)
        p = parameters_of_matrices(weights, means, covariances, names)
        self._keep(p, _plain_schema(p, names))

    def _keep(
        self,
        parameters: Parameters,
        schema: Schema,
        blocks: tuple[Block, ...] | None = None,
        background: Mixture | None = None,
        background_weight: float = 0.0,
    ) -> None:
        values = parameters, schema, blocks, background, float(background_weight)
        for field, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)

    @classmethod
    def _of(cls, parameters: Parameters, *values: Any) -> Mixture:
        mixture = cls.__new__(cls)
        mixture._keep(parameters, *values)
        return mixture

    @classmethod
    def diagonal(
        cls,
        weights: ArrayLike,
        means: ArrayLike,
        variances: ArrayLike,
        feature_names: Sequence[str] | None = None,
    ) -> Mixture:
        """A mixture of Gaussians whose columns are independent within components.

        Parameters
        ----------
        weights : array of shape (n_components,)
        means, variances : arrays of shape (n_components, n_columns)
            A density needs positive variances.
        feature_names : sequence of str, optional

        Examples
        --------
        >>> mixture = Mixture.diagonal([0.5, 0.5], [[-2.0], [2.0]], [[1.0], [1.0]])
        >>> mixture.predict([[-1.0], [3.0]]).tolist()
        [0, 1]
        """
        p = checked_parameters(weights, means, variances)
        return cls._of(p, _plain_schema(p, feature_names))

    @classmethod
    def from_blocks(cls, weights: ArrayLike, blocks: Iterable[Block]) -> Mixture:
        """A mixture of blocks of any family.

        Parameters
        ----------
        weights : array of shape (n_components,)
            Non-negative, sum 1.
        blocks : sequence of GaussianBlock, BernoulliBlock and blocks of other families
            Their columns follow one another, unless the blocks have numbers of columns.

        Examples
        --------
        >>> from momentmix import BernoulliBlock, GaussianBlock
        >>> age = GaussianBlock([30.0, 60.0], [25.0, 100.0], "age", seen=[0.5, 1.0])
        >>> smokes = BernoulliBlock([0.75, 0.25], ("no", "yes"), names="smokes")
        >>> mixture = Mixture.from_blocks([0.5, 0.5], [age, smokes])
        >>> mixture.means.tolist()
        [[30.0, 0.75], [60.0, 0.25]]
        >>> mixture.predict({"age": [None, 70], "smokes": ["yes", None]}).tolist()
        [0, 1]
        """
        weights = real_array("weights", weights, 1)
        blocks = placed(blocks, len(weights))
        return mixture_of_blocks(weights, blocks, schema_of(blocks))

    # -- parameters ---------------------------------------------------------------------------

    @property
    def n_components(self) -> int:
        """Number of components r."""
        return self.parameters.n_components

    @property
    def n_columns(self) -> int:
        """Number of columns d; the same as `n_features`."""
        return self._schema.n_columns

    n_features = n_columns

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns with their names, families and levels."""
        return self._schema.columns

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, or None."""
        return self._schema.column_names

    @lazy_property
    def schema(self) -> Schema | None:
        """The schema of the table; None where the columns are numbers without missing cells."""
        return None if self._schema.is_plain else self._schema

    @lazy_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks with their parameters, ordered by their first columns."""
        return self._blocks or blocks_of(self.parameters, self._schema)

    @property
    def weights(self) -> Float:
        """Weights of the components, (n_components,)."""
        return self.parameters.weights

    @lazy_property
    def _moments(self) -> tuple[Float, Float]:
        if self.schema is None:
            return self.parameters.means, self.parameters.variances
        return column_means(self.blocks, self.n_columns)

    @property
    def means(self) -> Float:
        """Means of the columns within components."""
        return self._moments[0]

    @property
    def variances(self) -> Float:
        """Variances of the columns within components."""
        return self._moments[1]

    @property
    def covariances(self) -> Float:
        """Covariance matrices, of shape (n_components, n_columns, n_columns), made on demand.

        NaN in the rows and columns of categories.
        """
        if self.schema is None:
            matrices = self.parameters.matrices
        else:
            matrices = column_covariances(self.blocks, self.n_columns)
        matrices.setflags(write=False)
        return matrices

    def level_probabilities(self, column: int | str) -> dict[Level, Float]:
        """Probabilities (n_components,) by level of a yes/no column or of categories.

        Where the column is seen; NaN in a component that never sees it.

        Examples
        --------
        >>> from momentmix import CategoricalBlock
        >>> plans = CategoricalBlock([[0.7, 0.3], [0.2, 0.8]], ("basic", "gold"), names="plan")
        >>> Mixture.from_blocks([0.5, 0.5], [plans]).level_probabilities("plan")["gold"].tolist()
        [0.3, 0.8]
        """
        number = int(self._numbers([column])[0])
        by_level = next(block for block in self.blocks if number in block.columns).by_level
        if not by_level:
            raise InputError(
                f"{column_label(number, self.feature_names)} is {self.columns[number].family} and "
                "has no levels; yes/no columns and categories have."
            )
        return by_level

    def to_frame(self) -> Any:
        """The parameters as a pandas frame: a row for each component, column and parameter.

        Returns
        -------
        pandas.DataFrame
            Columns component, column, parameter ("weight", "mean", "variance", "rate",
            "probability", "seen", "covariance"), level, estimate, standard_error, low and high. The
            last three are NaN: `FitResult.to_frame` has them.

        Examples
        --------
        >>> mixture = Mixture([1.0], [[3.0]], [[[2.0]]], feature_names=["age"])
        >>> mixture.to_frame()[["column", "parameter", "estimate"]].to_numpy().tolist()
        [[None, 'weight', 1.0], ['age', 'mean', 3.0], ['age', 'variance', 2.0]]
        """
        return ParameterTable(self).to_frame()

    def profile(self, names: Sequence[str] | None = None) -> Profile:
        """The differences of each component from the others, in words.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the components; made of what is different by default.

        Examples
        --------
        >>> weights, means = [0.75, 0.25], [[126.0, 60.0], [109.0, 54.0]]
        >>> mixture = Mixture.diagonal(weights, means, [[9.0, 4.0]] * 2, ["flow", "temperature"])
        >>> print(mixture.profile())
        0  high flow: 75 % of rows; flow high (126 against 109), temperature high (60 against 54)
        1  low flow: 25 % of rows; flow low (109 against 126), temperature low (54 against 60)
        """
        return profile_of(self, names)

    # -- rows ---------------------------------------------------------------------------------

    @lazy_property
    def row_density(self) -> RowDensity:
        """Densities of rows, which `log_prob` and `predict` reduce."""
        p, share = self.parameters, self.background_weight
        if self.background is None:
            return RowDensity(p, self._schema)
        b = self.background.parameters
        parts = replace(p, weights=(1 - share) * p.weights), replace(b, weights=share * b.weights)
        return RowDensity(Parameters.concatenate(parts), self._schema, p.n_components)

    @property
    def has_density(self) -> bool:
        """Whether the covariances of all components are positive definite."""
        try:
            return bool(self.row_density.density)
        except InputError:
            return False

    def log_prob(self, rows: Any, *, unseen: Unseen = "error") -> Any:
        """Log-density of each row, of shape (n_rows,).

        Missing cells (NaN, None, masked) are left out of the density. In columns that had missing
        cells in the fit, the probability of being seen is part of it. So for `predict_proba` and
        `predict`. Densities are those of the numbers before any transform.

        Parameters
        ----------
        rows : array, data frame, Arrow table, list of rows, dict of columns, path, or query
            The columns of frames, dicts and files are matched by name; files and queries are read
            in blocks. Tensors of torch give a tensor, computed in float64 where they lie; NaN gives
            NaN there, unless the mixture has a `schema`.
        unseen : {"error", "missing"}, default="error"
            Whether a level that no row of the fit had is an error, or its cell is left out.
        """
        return self.row_density.map_rows(rows, log_sums, unseen)

    def log_prob_of_features(self, features: Any, schema: Schema | None = None) -> Any:
        """`log_prob` for rows that are features of a schema already, as a fit has them."""
        encoded = Encoded(features, None)
        if schema is not None and any(column.at_random for column in schema.columns):
            encoded = schema.modeled_cells(features)
        return self.row_density.map_encoded(encoded, log_sums)

    def predict_proba(self, rows: Any, *, unseen: Unseen = "error") -> Any:
        """Posterior probability of each component, of shape (n_rows, n_components).

        The rest to 1 is the probability of the background. `rows` and `unseen` are as for
        `log_prob`; a row without any known cell has the weights of the components.
        """
        return self.row_density.map_rows(rows, posteriors, unseen)

    def predict(self, rows: Any, *, unseen: Unseen = "error") -> Any:
        """Most probable component of each row, of shape (n_rows,); −1: the background.

        `rows` and `unseen` are as for `log_prob`; infinite numbers are an error.
        """
        labels = self.row_density.map_rows(rows, most_probable, unseen)
        return checked_labels(labels, self.row_density.n_groups)

    def sample(
        self, n_rows: int, random_state: int | np.random.Generator | None = None
    ) -> tuple[Any, NDArray[np.int64]]:
        """Draw rows and the component of each, of shapes (n_rows, n_columns) and (n_rows,).

        Rows of the background have label −1. Where the mixture has a `schema`, the rows are a dict
        of columns by name, with NaN or None for missing cells.
        """
        rng = np.random.default_rng(random_state)
        rows, labels = sample(self.row_density.parameters, n_rows, rng)
        labels[labels >= self.n_components] = -1
        return rows if self.schema is None else self.schema.decode(rows), labels

    # -- derived mixtures ---------------------------------------------------------------------

    def select(self, columns: Sequence[int | str]) -> Mixture:
        """The mixture of some of the columns, by number or name: their marginal distribution."""
        numbers = self._numbers(columns)
        part = mixture_of_blocks(self.weights, selected(self.blocks, numbers), self._part(numbers))
        background = self.background and self.background.select(numbers.tolist())
        return part.with_background(background, self.background_weight)

    def condition(self, values: Mapping[int | str, Any]) -> Mixture:
        """The mixture of the other columns, given the values of some in one row.

        A background takes no part: this is the distribution of the groups.

        Parameters
        ----------
        values : dict, or a row of a data frame
            Value by number or name of the known column; levels too, where the mixture has a
            `schema`. A column with a missing value (None, NaN) is not known.
        """
        weights, blocks, others = blocks_given(self.without_background(), values)
        return mixture_of_blocks(weights, blocks, self._part(others))

    def align(self, other: Mixture) -> Mixture:
        """The other mixture with its components in the order of those here that they match.

        Both have as many components, and the same columns: in any order where they have names.
        """
        if not isinstance(other, Mixture):
            raise InputTypeError(f"other must be a mixture; got {type(other).__name__}.")
        other = in_same_columns(self, other)
        order = match_components(self, other)
        blocks = tuple(block.chosen(order) for block in other.blocks)
        return other._of_same_columns(other.weights[order], blocks)

    def with_background(self, background: Mixture | None, weight: float) -> Mixture:
        """The same groups beside a background, which takes a share of the rows.

        Parameters
        ----------
        background : Mixture or None
            A wide density of the same columns and blocks; None: no background.
        weight : float
            Share of the rows that belong to no group, from 0 to 1.

        Examples
        --------
        >>> groups = Mixture.diagonal([0.5, 0.5], [[-2.0], [2.0]], [[1.0], [1.0]])
        >>> mixture = groups.with_background(Mixture.diagonal([1.0], [[0.0]], [[400.0]]), 0.01)
        >>> mixture.predict([[-1.0], [3.0], [50.0]]).tolist()
        [0, 1, -1]
        """
        if background is None:
            return self.without_background()
        if not 0 <= weight <= 1:
            raise InputError(f"the weight of a background must lie between 0 and 1; got {weight}.")
        kinds = [[replace(c, name=None, center=0.0) for c in m.columns] for m in (self, background)]
        joined = [m.parameters.blocks.joined for m in (self, background)]
        if kinds[0] != kinds[1] or joined[0] != joined[1] or background.background is not None:
            raise InputError(
                "a background must have the columns and the blocks of the mixture, and no "
                f"background of its own; got {background!r}."
            )
        # One schema makes the features of both.
        background = mixture_of_blocks(background.weights, background.blocks, self._schema)
        return Mixture._of(self.parameters, self._schema, self._blocks, background, weight)

    def without_background(self) -> Mixture:
        """The groups alone: the same mixture without its background."""
        return Mixture._of(self.parameters, self._schema, self._blocks)

    def with_feature_names(self, feature_names: Sequence[str] | None) -> Mixture:
        """The same mixture with other names of its columns, or none."""
        names = None
        if feature_names is not None:
            names = check_feature_names(feature_names, self.n_columns)
        blocks = tuple(
            block.at(block.columns, names and tuple(names[j] for j in block.columns))
            for block in self.blocks
        )
        return self._of_same_columns(self.weights, blocks, renamed(self._schema, names))

    def _of_same_columns(
        self, weights: Float, blocks: tuple[Block, ...], schema: Schema | None = None
    ) -> Mixture:
        """A mixture of other blocks of these columns, beside the same background."""
        mixture = mixture_of_blocks(weights, blocks, schema or self._schema)
        return mixture.with_background(self.background, self.background_weight)

    def _numbers(self, columns: Sequence[int | str]) -> Int:
        return column_numbers(columns, self.n_columns, self.feature_names)

    def _part(self, numbers: Int) -> Schema:
        """The schema of some columns."""
        return Schema(tuple(self.columns[j] for j in numbers))

    # -- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mixture as readable JSON, whole or not at all; `load` gives the same bits."""
        save_model(path, self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON, as docs/file-format.md describes them."""
        return model_contents(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mixture:
        """Read a mixture written by `save`; refuses anything that is not one."""
        return load_model(path)[0]

    def __getstate__(self) -> dict[str, Any]:
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**state, "_schema": Schema(self.columns)}  # without what is cached

    def __repr__(self) -> str:
        r, d = self.n_components, self.n_columns
        shares = listed([percent(weight) for weight in self.weights], _MOST_WEIGHTS)
        columns = f"{d} column{plural(d)}"
        if self.schema is not None:
            counts = Counter(column.family for column in self.columns)
            columns += ": " + ", ".join(f"{n} {family}" for family, n in counts.items())
        elif self.parameters.blocks.joined:
            columns += f", joined {cut(str(self.parameters.blocks.joined), 200)}"
        if self.background is not None:
            shares += f"; {no_group(self.background_weight)}"
        return f"Mixture({r} component{plural(r)}: {shares}; {columns})"

    def _repr_html_(self) -> str:
        return box(repr(self), Markup(self.profile()._repr_html_()))


def mixture_of_parameters(
    parameters: Parameters,
    feature_names: Sequence[str] | None = None,
    schema: Schema | None = None,
) -> Mixture:
    """A mixture of parameters of features."""
    p = parameters
    if schema is not None:
        return mixture_of_blocks(p.weights, blocks_of(p, schema), schema.modeled())
    return Mixture._of(_checked(p, feature_names), _plain_schema(p, feature_names))


def mixture_of_blocks(weights: Float, blocks: tuple[Block, ...], schema: Schema) -> Mixture:
    """A mixture of blocks that have been `placed`, with the columns of a schema."""
    p = _checked(parameters_of(weights, blocks, schema), schema.feature_names)
    return Mixture._of(p, schema, None if schema.is_plain else blocks)


def _checked(p: Parameters, names: Sequence[str] | None) -> Parameters:
    return checked_parameters(p.weights, p.means, p.variances, p.covariances, p.blocks, names)


def _plain_schema(p: Parameters, names: Sequence[str] | None) -> Schema:
    d = p.blocks.n_features
    return plain_schema(d, None if names is None else check_feature_names(names, d))
