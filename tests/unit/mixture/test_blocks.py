"""Blocks of features: partitions, places, and what users may ask for."""

import numpy as np
import pytest

from momentmix.errors import InputError, InputTypeError
from momentmix.mixture.blocks import Blocks, blocks_from, spread_of
from momentmix.mixture.parameters import Parameters

BLOCKS = Blocks.of(6, [[5, 1, 4], [0, 3]])


def parameters(rng, blocks=BLOCKS, r=3):
    d = blocks.n_features
    roots = rng.normal(size=(r, d, 2 * d))
    spread = spread_of(roots @ roots.swapaxes(1, 2) / (2 * d), blocks)
    means = rng.normal(size=(r, d))
    weights = rng.dirichlet(np.full(r, 5.0))
    return Parameters(weights, means, spread[:, :d], spread[:, d:], blocks)


def test_a_partition_has_all_features_in_order():
    assert BLOCKS.joined == ((0, 3), (1, 4, 5))
    assert BLOCKS.partition == ((0, 3), (1, 4, 5), (2,))
    assert BLOCKS.block_of.tolist() == [0, 1, 2, 0, 1, 1]
    assert BLOCKS.single.tolist() == [2]
    assert BLOCKS.pairs.tolist() == [[0, 3], [1, 4], [1, 5], [4, 5]]
    assert (BLOCKS.n_pairs, BLOCKS.n_spread) == (4, 10)
    assert not BLOCKS.is_diagonal
    assert Blocks(3).is_diagonal


def test_users_give_names_or_numbers():
    names = ["length", "width", "weight"]
    assert blocks_from([["weight", 0]], 3, names).joined == ((0, 2),)
    assert blocks_from([[2, 0], [1]], 3).joined == ((0, 2),)
    assert blocks_from((), 3).is_diagonal


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ([[0, 1], [1, 2]], InputError, "column 1 is 2 times"),
        ([[0, 0]], InputError, "column 0 is 2 times"),
        ([["length"]], InputError, "'length'; the columns have no names"),
        ([[0, 3]], InputError, "3; give a name, or a number from 0 to 2"),
        ([0, 1], InputTypeError, "each block must be a list of columns"),
        ("full", InputTypeError, "blocks must be a list of lists"),
        ([[0.5, 1]], InputError, "0.5; give a name"),
        ([[True, 1]], InputError, "True; give a name"),
    ],
)
def test_blocks_that_cannot_be(groups, error, message):
    with pytest.raises(error, match=message):
        blocks_from(groups, 3)
