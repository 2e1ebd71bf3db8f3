"""The answer: a mixture by blocks of columns, Gaussian ones or those of other families.

| paper symbol | name here | shape |
|---|---|---|
| ω_i | ``weights`` | (n_components,) |
| μ_i | ``means`` | (n_components, n_features) |
| Σ_i | ``covariances`` | (n_components, n_features, n_features) |
| diag Σ_i | ``variances`` | (n_components, n_features) |
| (M_m)_{Ω_m} (high-tensor-moment) | ``moment_tensor(m)`` | (C(d, m),) |
| (M_m)_{L_j} | ``squared_moments(j, m−2)`` | (C(d−1, m−2),) |

Differs from the paper: covariances within blocks of columns, columns of other families and missing
cells; without them, nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from momentmix._typing import Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError, InputTypeError, ModelFileError
from momentmix.families.block import Block
from momentmix.families.column import Level
from momentmix.html.notebook import Markup, box
from momentmix.index_sets import sets_without
from momentmix.mixture.matching import in_same_columns, match_components
from momentmix.mixture.model_file import (
    blocks_in,
    model_document,
    read_model,
    write_model,
)
from momentmix.mixture.parameter_table import ParameterTable
from momentmix.mixture.parameters import Parameters, checked_parameters, parameters_of_matrices
from momentmix.mixture.profile import Profile, profile_of
from momentmix.mixture.row_methods import RowMethods
from momentmix.mixture.tables.block_features import (
    blocks_of,
    column_covariances,
    column_means,
    parameters_of,
    placed,
    renamed,
    schema_of,
    selected,
    with_floor,
)
from momentmix.mixture.tables.conditional import blocks_given, column_numbers
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.tables.names import check_feature_names
from momentmix.tables.schema import Schema
from momentmix.wording import cut, listed, no_group, percent, plural

_MOST_WEIGHTS = 8  # in a repr


class Mixture(RowMethods):
    """Mixture of Gaussians: blocks of columns are independent within each component.

    The columns of one block may be correlated there. Mixtures do not change once they are made.
    `Mixture.from_blocks` makes mixtures of other families and of columns with missing cells. They
    have a `schema`, and rows are then tables: see `means` and `blocks` for their parameters.

    Parameters
    ----------
    weights : array of shape (n_components,)
        Non-negative, sum 1.
    means : array of shape (n_components, n_features)
    covariances : array of shape (n_components, n_features, n_features)
        Symmetric, positive semidefinite, 0 between blocks. A density needs them positive definite.
    blocks : list of lists of int or str, optional
        Columns by number or name; those not named are blocks of their own. By default the blocks
        that the zeros of the covariances show.
    feature_names : sequence of str, optional
        Data frames are matched by name: their columns may stand in another order, but not have
        other names. Plain arrays go by position.

    Attributes
    ----------
    means, variances : arrays of shape (n_components, n_features)
        Of the value of each column where it is seen: for yes/no answers the probability of the
        second level, for counts the rate, for categories NaN. NaN too where a component never sees
        the column. Of a column with a transform, those of log(y) or log(1 + y).
    schema : Schema or None
        The columns of the table and how they become features; None where the columns are numbers
        without missing cells.
    parameters : Parameters
        Of the features.
    background : Mixture or None
        A fixed wide density for rows that belong to no group: those far from all others. It is no
        component: `weights` are those of the groups and sum to 1.
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

    weights: Float
    means: Float
    variances: Float
    background: Mixture | None = None
    _blocks: tuple[Block, ...]

    def __init__(
        self,
        weights: ArrayLike,
        means: ArrayLike,
        covariances: ArrayLike,
        blocks: Iterable[Iterable[int | str]] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        names = None if feature_names is None else check_feature_names(feature_names)
        p = parameters_of_matrices(weights, means, covariances, blocks, names)
        self._set(p, names)

    def _set(self, p: Parameters, feature_names: Sequence[str] | None) -> None:
        """Keep checked parameters and names."""
        names = feature_names
        if names is not None:
            names = check_feature_names(names, p.blocks.n_features)
        self.__dict__.update(
            weights=p.weights, means=p.means, variances=p.variances, feature_names=names,
            parameters=p,
        )  # fmt: skip

    @classmethod
    def from_blocks(cls, weights: ArrayLike, blocks: Iterable[Block]) -> Mixture:
        """A mixture of blocks of any family.

        Parameters
        ----------
        weights : array of shape (n_components,)
            Non-negative, sum 1.
        blocks : sequence of GaussianBlock, BernoulliBlock and blocks of other families
            Given the component they are independent. Their columns follow one another, unless the
            blocks have numbers of columns.

        Examples
        --------
        >>> from momentmix import BernoulliBlock, GaussianBlock
        >>> age = GaussianBlock.of([30.0, 60.0], [25.0, 100.0], "age", seen=[0.5, 1.0])
        >>> smokes = BernoulliBlock([0.75, 0.25], ("no", "yes"), names="smokes")
        >>> mixture = Mixture.from_blocks([0.5, 0.5], [age, smokes])
        >>> mixture.means.tolist()
        [[30.0, 0.75], [60.0, 0.25]]
        >>> mixture.predict({"age": [None, 70], "smokes": ["yes", None]}).tolist()
        [0, 1]
        """
        shares = real_array("weights", weights, 1)
        found = placed(blocks, len(shares))
        return _of_blocks(shares, found, schema_of(found))

    def _set_table(self, weights: Float, blocks: tuple[Block, ...], schema: Schema) -> None:
        """Keep blocks of columns, and check the parameters of their features."""
        p = parameters_of(weights, blocks, schema)
        p = checked_parameters(
            p.weights, p.means, p.variances, p.covariances, p.blocks, schema.feature_names
        )
        means, variances = column_means(blocks, schema.n_columns)
        self.__dict__.update(
            weights=p.weights, means=means, variances=variances, parameters=p,
            feature_names=schema.column_names, schema=schema, _blocks=blocks,
        )  # fmt: skip

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a mixture does not change: {name} cannot be set. Make a new one.")

    @property
    def n_components(self) -> int:
        """Number of components r."""
        return int(self.weights.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features d; of columns, where the mixture has a schema."""
        return int(self.means.shape[1])

    @property
    def n_columns(self) -> int:
        """Number of columns; the same as `n_features`."""
        return self.n_features

    @property
    def covariances(self) -> Float:
        """Covariance matrices, of shape (n_components, n_features, n_features), made on demand.

        NaN in the rows and columns of categories.
        """
        if self.schema is None:
            matrices = self.parameters.matrices
        else:
            matrices = column_covariances(self._blocks, self.n_columns)
        matrices.setflags(write=False)
        return matrices

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks with their parameters, ordered by their first columns.

        `GaussianBlock`, or the block of another family.
        """
        if self.schema is not None:
            return self._blocks
        return blocks_of(self.parameters, Schema(self.columns))

    def level_probabilities(self, column: int | str) -> dict[Level, Float]:
        """Probability of each level of a yes/no column or of categories, where it is seen.

        Parameters
        ----------
        column : int or str
            Number or name.

        Returns
        -------
        dict
            Arrays of shape (n_components,) by level; NaN in a component that never sees the column.

        Examples
        --------
        >>> from momentmix import CategoricalBlock
        >>> plans = CategoricalBlock([[0.7, 0.3], [0.2, 0.8]], ("basic", "gold"), names="plan")
        >>> Mixture.from_blocks([0.5, 0.5], [plans]).level_probabilities("plan")["gold"].tolist()
        [0.3, 0.8]
        """
        number = int(self._numbers([column])[0])
        block = next(block for block in self.blocks if number in block.columns)
        if found := block.by_level:
            return found
        names = self.feature_names or range(self.n_columns)
        pairs = zip(names, self.columns, strict=True)
        others = ", ".join([ascii(name) for name, own in pairs if own.levels][:8])
        raise InputError(
            f"column {names[number]!a} is {block.family} and has no levels; "
            + (f"those with levels are: {others}." if others else "no column has any.")
        )

    def to_frame(self) -> Any:
        """The parameters as a pandas frame: a row for each component, column and parameter.

        Returns
        -------
        pandas.DataFrame
            Columns component, column, parameter ("weight", "mean", "variance", "rate",
            "probability", "seen", "covariance"), level, estimate, standard_error, low and high. The
            last three are NaN: `FitResult.to_frame` has them. Yes/no columns have the probability
            of their second level; numbers stand for columns without names. A covariance has the
            names of both columns, "a, b".

        Examples
        --------
        >>> mixture = Mixture([1.0], [[3.0]], [[[2.0]]], feature_names=["age"])
        >>> mixture.to_frame()[["column", "parameter", "estimate"]].to_numpy().tolist()
        [[None, 'weight', 1.0], ['age', 'mean', 3.0], ['age', 'variance', 2.0]]
        """
        return ParameterTable(self).to_frame()

    # -- derived mixtures ---------------------------------------------------------------------

    def profile(self, names: Sequence[str] | None = None) -> Profile:
        """Return the differences of each component from the others, in words.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the components; made of what is different by default.

        Examples
        --------
        >>> weights, means = [0.75, 0.25], [[126.0, 60.0], [109.0, 54.0]]
        >>> mixture = DiagonalMixture(weights, means, [[9.0, 4.0]] * 2, ["flow", "temperature"])
        >>> print(mixture.profile())
        0  high flow: 75 % of rows; flow high (126 against 109), temperature high (60 against 54)
        1  low flow: 25 % of rows; flow low (109 against 126), temperature low (54 against 60)
        """
        return profile_of(self, names)

    def select(self, columns: Sequence[int | str]) -> Mixture:
        """The mixture of some of the columns, by number or name: their marginal law."""
        numbers = self._numbers(columns)
        part = _of_blocks(self.weights, selected(self.blocks, numbers), self._part(numbers))
        if self.background is None:
            return part
        return part.with_background(
            self.background.select(numbers.tolist()), self.background_weight
        )

    def marginal(self, features: Sequence[int | str]) -> Mixture:
        """The same as `select`."""
        return self.select(features)

    def condition(self, values: Mapping[int | str, Any]) -> Mixture:
        """The mixture of the other columns, given the values of some in one row.

        A background takes no part: this is the law of the groups.

        Parameters
        ----------
        values : dict, or a row of a data frame
            Value by number or name of the known column; levels too, where the mixture has a
            `schema`. A column with a missing value (None, NaN) is not known.
        """
        weights, blocks, others = blocks_given(self.without_background(), values)
        return _of_blocks(weights, blocks, self._part(others))

    def align(self, other: Mixture) -> Mixture:
        """The other mixture with its components in the order of those here that they match.

        Both have as many components, and the same columns: in any order where they have names.
        """
        if not isinstance(other, Mixture):
            raise InputTypeError(f"other must be a mixture; got {type(other).__name__}.")
        other = in_same_columns(self, other)
        order = match_components(self, other)
        blocks = tuple(block.chosen(order) for block in other.blocks)
        found = _of_blocks(other.weights[order], blocks, Schema(other.columns))
        return found.with_background(other.background, other.background_weight)

    def with_variance_floor(self, floor: ArrayLike) -> Mixture:
        """The same mixture with every variance at least `floor` (a number or one per feature).

        In a block of several columns no combination of them varies less than it would with
        independent columns of these variances; the floor must be positive there. Only Gaussian
        columns have variances of their own.
        """
        found = _of_blocks(self.weights, with_floor(self.blocks, floor), Schema(self.columns))
        return found.with_background(self.background, self.background_weight)

    def with_background(self, background: Mixture | None, weight: float) -> Self:
        """The same groups beside a background, which takes a share of the rows.

        Parameters
        ----------
        background : Mixture or None
            A wide density of the same columns and blocks; None: no background.
        weight : float
            Share of the rows that belong to no group, from 0 to 1.

        Examples
        --------
        >>> groups = DiagonalMixture([0.5, 0.5], [[-2.0], [2.0]], [[1.0], [1.0]])
        >>> mixture = groups.with_background(DiagonalMixture([1.0], [[0.0]], [[400.0]]), 0.01)
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
        if self.schema is not None:  # one schema makes the features of both
            background = _of_blocks(background.weights, background.blocks, self.schema)
        twin = copy(self)
        twin.__dict__.update(background=background, background_weight=float(weight))
        return twin

    def with_feature_names(self, feature_names: Sequence[str] | None) -> Self:
        """The same mixture with other names of its columns, or none."""
        names = feature_names
        if names is not None:
            names = check_feature_names(names, self.n_features)
        twin = copy(self)
        twin.__dict__["feature_names"] = names
        if self.schema is not None:
            blocks = tuple(
                block.at(block.columns, names and tuple(names[j] for j in block.columns))
                for block in self._blocks
            )
            twin.__dict__.update(schema=renamed(self.schema, names), _blocks=blocks)
        if self.background is not None:
            twin.__dict__["background"] = self.background.with_feature_names(names)
        return twin

    def _numbers(self, columns: Sequence[int | str]) -> Int:
        return column_numbers(columns, self.n_features, self.feature_names)

    def _part(self, numbers: Int) -> Schema:
        """The schema of some columns."""
        return Schema(tuple(self.columns[j] for j in numbers))

    # -- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mixture as readable JSON, whole or not at all; `load` gives the same bits."""
        write_model(path, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON, as docs/model-file.md describes them."""
        return model_document(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a mixture written by `save`; refuses anything that is not one.

        A mixture without joined columns is a `DiagonalMixture`.
        """
        contents = read_model(path)
        try:
            schema = contents["schema"]
            mixture = _mixture_in(contents, schema)
            if "background" in contents:
                own = contents["background"]
                mixture = mixture.with_background(_mixture_in(own, schema), own["weight"])
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"{path} does not hold a mixture: {str(error)[:400]}") from error
        if not isinstance(mixture, cls):
            what = "whose columns are correlated within components"
            if mixture.schema is not None:
                what = "of other families or with missing cells"
            raise ModelFileError(
                f"{path} holds a mixture {what}, not a DiagonalMixture. Use Mixture.load."
            )
        return mixture

    def __repr__(self) -> str:
        r, d = self.n_components, self.n_columns
        shares = listed([percent(weight) for weight in self.weights], _MOST_WEIGHTS)
        columns = f"{d} column{plural(d)}"
        if self.schema is not None:
            counts = Counter(column.family for column in self.schema.columns)
            columns += ": " + ", ".join(f"{n} {family}" for family, n in counts.items())
        elif self.parameters.blocks.joined:
            columns += f", joined {cut(str(self.parameters.blocks.joined), 200)}"
        if self.background is not None:
            shares += f"; {no_group(self.background_weight)}"
        return f"{type(self).__name__}({r} component{plural(r)}: {shares}; {columns})"

    def _repr_html_(self) -> str:
        return box(repr(self), Markup(self.profile()._repr_html_()))


@dataclass(frozen=True, eq=False, repr=False)
class DiagonalMixture(Mixture):
    """Mixture of Gaussians whose covariances are diagonal.

    Parameters
    ----------
    weights : array of shape (n_components,)
        Non-negative, sum 1.
    means : array of shape (n_components, n_features)
    variances : array of shape (n_components, n_features)
        Non-negative. A density needs them positive.
    feature_names : sequence of str, optional
        Data frames are matched by name: their columns may stand in another order, but not have
        other names. Plain arrays go by position.

    Examples
    --------
    >>> mixture = DiagonalMixture([0.5, 0.5], [[-2.0], [2.0]], [[1.0], [1.0]])
    >>> mixture.predict([[-1.0], [3.0]]).tolist()
    [0, 1]
    """

    weights: Float
    means: Float
    variances: Float
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._set(checked_parameters(self.weights, self.means, self.variances), self.feature_names)

    def with_variance_floor(self, floor: ArrayLike) -> DiagonalMixture:
        """The same mixture with every variance at least `floor` (a number or one per feature)."""
        found = replace(self, variances=np.maximum(self.variances, floor))
        return found.with_background(self.background, self.background_weight)

    # -- exact moments ------------------------------------------------------------------------

    def moment_tensor(self, order: int) -> IncompleteSymmetricTensor:
        """Exact moments with distinct indices: Σ_i ω_i μ_i^{⊗m} on Ω_m (high-tensor-moment)."""
        # (C(d, m),)  incomplete_tensor, high-tensor-moment
        return IncompleteSymmetricTensor.from_factors(self.means, order, self.weights)

    def squared_moments(self, feature: int, order: int) -> Float:
        """Exact E[y_j² y_I] for all I of `order` features other than j, in colex order."""
        sets = sets_without(self.n_features, order, feature)
        products = self.means[:, sets].prod(axis=2)  # (r, C(d−1, order))
        second = self.weights * (self.means[:, feature] ** 2 + self.variances[:, feature])
        return np.asarray(second @ products)  # (C(d−1, order),)  moment-structure


def mixture_from(
    parameters: Parameters,
    feature_names: Sequence[str] | None = None,
    schema: Schema | None = None,
) -> Mixture:
    """A mixture of parameters of features: a `DiagonalMixture` where no columns are joined."""
    p = parameters
    if schema is not None:
        if feature_names is not None:
            schema = renamed(schema, check_feature_names(feature_names, schema.n_columns))
        return _of_blocks(p.weights, blocks_of(p, schema), schema.modeled())
    if p.blocks.is_diagonal:
        names = None if feature_names is None else tuple(feature_names)
        return DiagonalMixture(p.weights, p.means, p.variances, names)
    checked = checked_parameters(
        p.weights, p.means, p.variances, p.covariances, p.blocks, feature_names
    )
    mixture = Mixture.__new__(Mixture)
    mixture._set(checked, feature_names)
    return mixture


def _mixture_in(contents: dict[str, Any], schema: Schema) -> Mixture:
    """The mixture in the contents of a model file, without its background."""
    return _of_blocks(contents["weights"], blocks_in(contents, schema), schema)


def _of_blocks(weights: Float, blocks: tuple[Block, ...], schema: Schema) -> Mixture:
    """A mixture of blocks that have been checked; plain where the features are the columns."""
    if schema.is_plain:
        return mixture_from(parameters_of(weights, blocks, schema), schema.column_names)
    mixture = Mixture.__new__(Mixture)
    mixture._set_table(weights, blocks, schema)
    return mixture
