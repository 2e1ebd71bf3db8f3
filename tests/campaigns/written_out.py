"""The moments of a layout, one product at a time, from their description alone."""

from itertools import combinations

import numpy as np


def monomials(section, d):
    """The features of each product of a section in the order of the file, repeated as they are."""

    def colex(members, size):
        return sorted(combinations(members, size), key=lambda chosen: chosen[::-1])

    others = [[i for i in range(d) if i != j] for j in range(d)]
    if section.kind == "distinct":
        return colex(range(d), section.size)
    if section.kind == "squared":
        return [(j, j, *c) for j in range(d) for c in colex(others[j], section.size)]
    if section.kind == "power":
        return [(j,) * section.size for j in range(d)]
    if section.kind == "cubed":
        return [(j, j, j, k) for j in range(d) for k in others[j]]
    assert section.kind == "two squares"
    return [(j, j, k, k) for j, k in colex(range(d), 2)]


def written_out(layout, points, weights):
    """The flat vector of a layout, for points of shape (n_rows, n_features)."""
    flat = np.full(layout.n_entries, np.nan)
    for section in layout.sections:
        products = [points[:, list(s)].prod(axis=1) for s in monomials(section, layout.n_features)]
        flat[section.place] = [(weights * product).sum() for product in products]
    return flat
