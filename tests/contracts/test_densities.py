"""Densities of mixtures of all families are those that earlier versions gave."""

from pathlib import Path

import numpy as np
import pytest

from .family_mixtures import cases, rows_of

FROZEN = Path(__file__).with_name("densities.npz")  # the rows, and what commit 7c52438 made of them
CASES = {name: mixture for name, mixture, _ in cases()}


def table_of(frozen, name):
    """The rows of a case."""
    columns = {}
    for key in frozen.files:
        case, _, column = key.partition("/")
        if case == name and column not in ("log_prob", "shares"):
            values = frozen[key]
            is_text = values.dtype.kind == "U"
            columns[column] = np.where(values == "", None, values) if is_text else values
    return columns


@pytest.mark.parametrize("name", CASES)
def test_densities_are_the_frozen_ones(name):
    with np.load(FROZEN) as frozen:
        rows = table_of(frozen, name)
        log_prob, shares = frozen[f"{name}/log_prob"], frozen[f"{name}/shares"]
    np.testing.assert_allclose(CASES[name].log_prob(rows), log_prob, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(CASES[name].predict_proba(rows), shares, atol=1e-12)
    np.testing.assert_array_equal(CASES[name].predict(rows), shares.argmax(axis=1))


if __name__ == "__main__":
    arrays = {}
    for name, mixture, seed in cases():
        table = rows_of(name, mixture, seed)
        for column, values in table.items():
            if values.dtype == object:
                values = np.array(["" if x is None else x for x in values])
            arrays[f"{name}/{column}"] = values
        arrays[f"{name}/log_prob"] = mixture.log_prob(table)
        arrays[f"{name}/shares"] = mixture.predict_proba(table)
    np.savez_compressed(FROZEN, **arrays)
