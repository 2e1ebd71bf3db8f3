"""Mixtures with blocks, and their exact moments."""

from itertools import pairwise

import numpy as np

from momentmix.fitting.moments.monomials import BlockMonomials
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.index_sets import index_sets, sets_without
from momentmix.mixture.blocks import Blocks, spread_of
from momentmix.mixture.parameters import Parameters


def blocks_of(sizes):
    edges = np.cumsum([0, *sizes])
    return Blocks.of(int(edges[-1]), [range(a, b) for a, b in pairwise(edges)])


def block_law(sizes, r, seed, spread=1.5):
    """Random means, and correlations of each block and component of at most 0.9."""
    rng, blocks = np.random.default_rng(seed), blocks_of(sizes)
    d = blocks.n_features
    weights, matrices = rng.uniform(0.5, 1.5, size=r), np.zeros((r, d, d))
    for block in blocks.partition:
        k = len(block)
        for matrix in matrices:
            root = rng.normal(size=(k, k + 1))
            products = root @ root.T
            scale = np.sqrt(np.diagonal(products))
            correlation = 0.9 * products / scale / scale[:, None] + 0.1 * np.eye(k)
            deviations = rng.uniform(0.6, 1.4, size=k)
            matrix[np.ix_(block, block)] = correlation * deviations * deviations[:, None]
    means = spread * rng.normal(size=(r, d))
    start = Parameters(weights / weights.sum(), means, np.ones_like(means), None, blocks)
    return start.with_spread(spread_of(matrices, blocks))


def standardized(p):
    """The mixture of standardized features, and their means and deviations."""
    mean = p.weights @ p.means
    scale = np.sqrt(p.weights @ (p.variances + (p.means - mean) ** 2))
    j, k = p.blocks.pairs.T
    covariances = p.covariances / (scale[j] * scale[k])
    z = Parameters(
        p.weights, (p.means - mean) / scale, p.variances / scale**2, covariances, p.blocks
    )
    return z, mean, scale


def monomials_of(exponents, blocks):
    """BlockMonomials of exponents (n, d)."""
    return BlockMonomials(np.asarray(exponents), blocks)


def exact_block_moments(p, order=4, n_rows=10**12):
    """Moments without noise of a mixture with blocks."""
    z, mean, scale = standardized(p)
    d = p.blocks.n_features

    def means_of(features, exponents):
        features = np.asarray(features, dtype=np.int64)
        if not features.shape[1]:
            return np.ones(len(features))
        table = np.zeros((len(features), d), dtype=np.int64)
        np.put_along_axis(table, features, np.broadcast_to(exponents, features.shape), axis=1)
        return BlockMonomials(table, z.blocks).model(z)

    orders = [means_of(index_sets(d, s), 1) for s in range(order + 1)]
    squared = []
    for q in range(3):
        others = [sets_without(d, q, j) for j in range(d)]
        tables = [np.column_stack([np.full(len(o), j), o]) for j, o in enumerate(others)]
        squared.append(np.array([means_of(table, [2] + [1] * q) for table in tables]))
    every = np.arange(d)[:, None]
    cubed = [
        means_of(np.column_stack([np.full(d - 1, j), np.delete(np.arange(d), j)]), [3, 1])
        for j in range(d)
    ]
    return StandardMoments(
        d, order, tuple(orders), tuple(squared), n_rows, float(n_rows), mean, scale,
        mean - 20 * scale, mean + 20 * scale,
        powers=np.array([means_of(every, p) for p in range(3, 7)]),
        cubed=np.array(cubed), two_squares=means_of(index_sets(d, 2), 2),
    )  # fmt: skip
