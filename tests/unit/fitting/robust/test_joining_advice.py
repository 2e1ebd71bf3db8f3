"""The advice on correlated columns: blocks, printed as code that `fit` takes."""

from dataclasses import replace

import numpy as np

from momentmix.fitting.data import rows_of, summarized
from momentmix.fitting.inference.findings import collect_findings
from momentmix.fitting.inference.over_identification import Correlation, OverIdentification
from momentmix.mixture.blocks import Blocks, blocks_from
from momentmix.mixture.parameters import Parameters

NAMES = ("length", "width", "height", "größe", "mass", "age")


def drawn(pairs, d=6):
    """Rows whose columns have these correlations, and no other ones."""
    table = np.eye(d)
    for (j, k), value in pairs.items():
        table[j, k] = table[k, j] = value
    return np.random.default_rng(0).multivariate_normal(np.zeros(d), table, 3000)


def advice(pairs, names=None, d=6, from_rows=True, blocks=None, rows=None):
    """Text and code where the test reports these correlations of pairs of columns."""
    rows = np.random.default_rng(0).standard_normal((3000, d)) if rows is None else rows
    moments = replace(summarized(rows_of(rows), 2, 1)[0], feature_names=names)
    p = Parameters(np.ones(1), np.zeros((1, d)), np.ones((1, d)), None, blocks)
    found = [Correlation(j, k, value, 20.0) for (j, k), value in pairs.items()]
    test = OverIdentification(900.0, 100, 1e-9, 0.1, False, found)
    findings = collect_findings(moments, p, test, 9, from_rows)
    return next(((f.text, f.remedy) for f in findings if f.kind == "correlated-columns"), None)


def test_one_pair_by_name():
    rows = drawn({(0, 1): 0.9})
    text, remedy = advice({(0, 1): 1.0}, NAMES, rows=rows)
    about = f"'length' and 'width' (about {np.corrcoef(rows.T)[0, 1]:+.2f})."
    assert text == f"columns correlated within components: {about}"
    assert remedy == {"blocks": [["length", "width"]]}
    assert advice({(0, 1): 0.05}, NAMES) is None
    assert advice({(0, 1): 1.0}, NAMES) is None  # an estimate at its bound, and nothing measured
    assert "about" not in advice({(0, 1): 0.5}, NAMES)[0]  # different signs in the components


def test_pairs_that_share_a_column_become_one_block():
    pairs = {(4, 5): 0.5, (0, 2): -0.4, (2, 1): 0.3, (1, 0): 0.2}
    text, remedy = advice(pairs, rows=drawn(pairs))
    assert remedy == {"blocks": [[0, 1, 2], [4, 5]]}
    assert "0 and 2 (about -0.40)" in text  # the estimate, close to what the rows show
    assert text.count("about") == 3
    named, remedy = advice({(3, 4): 0.5}, NAMES)
    assert named.isascii()
    assert blocks_from(remedy["blocks"], 6, NAMES).joined == ((3, 4),)


def test_blocks_of_the_fit_stay_joined():
    blocks = Blocks.of(6, [[0, 1], [4, 5]])
    assert advice({(1, 2): 0.5}, blocks=blocks)[1] == {"blocks": [[0, 1, 2], [4, 5]]}
    assert advice({(0, 1): 0.5}, blocks=blocks) is None


def test_pairs_that_link_most_columns_are_left_to_auto():
    assert advice({(0, j): 0.5 for j in range(1, 5)})[1] == {"blocks": "auto"}
    assert advice({(0, 1): 0.5}, d=2)[1] == {"blocks": [[0, 1]]}
