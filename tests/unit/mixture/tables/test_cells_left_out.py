"""Missing cells and unseen levels are left out of the density: SciPy, and sums over levels."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats
from scipy.special import logsumexp
from unit.mixture.table_truths import NAMES, PLANS, all_families

import momentmix as mm
from momentmix.errors import FitWarning, InputError

GAPS = [(), (0,), (1,), (0, 1), (1, 3), (0, 1, 2), (0, 1, 2, 3)]


def diagonal():
    rng = np.random.default_rng(0)
    return mm.Mixture.diagonal(
        [0.2, 0.5, 0.3],
        3 * rng.standard_normal((3, 4)),
        rng.uniform(0.5, 2.0, (3, 4)),
        tuple("abcd"),
    )


def joined():
    rng = np.random.default_rng(1)
    factor = rng.standard_normal((3, 3, 5))
    covariances = np.zeros((3, 4, 4))
    covariances[:, :3, :3], covariances[:, 3, 3] = factor @ factor.swapaxes(1, 2), [1.0, 2.0, 3.0]
    means = 3 * rng.standard_normal((3, 4))
    return mm.Mixture([0.2, 0.5, 0.3], means, covariances, feature_names=tuple("abcd"))


def with_gaps(mixture, n_each=5):
    """Rows with each pattern of missing cells."""
    rows = mixture.sample(n_each * len(GAPS), random_state=2)[0]
    for i, gaps in enumerate(GAPS):
        rows[i :: len(GAPS), list(gaps)] = np.nan
    return rows


def joint_logs(mixture, rows):
    """log ω_i p_i of the cells that each row has, by SciPy, of shape (n, r)."""
    table = np.tile(np.log(mixture.weights), (len(rows), 1))
    for row, logs in zip(rows, table, strict=True):
        kept = np.flatnonzero(~np.isnan(row))
        for i in range(mixture.n_components) if kept.size else ():
            law = stats.multivariate_normal(
                mixture.means[i, kept], mixture.covariances[i][np.ix_(kept, kept)]
            )
            logs[i] += law.logpdf(row[kept])
    return table


# -- missing cells of mixtures of numbers -------------------------------------------------------


@pytest.mark.parametrize("make", [diagonal, joined])
def test_missing_cells_are_marginalized(make, monkeypatch):
    mixture = make()
    rows = with_gaps(mixture)
    logs = joint_logs(mixture, rows)
    total = logsumexp(logs, axis=1)
    for _ in range(2):
        np.testing.assert_allclose(mixture.log_prob(rows), total, rtol=1e-11, atol=1e-12)
        shares = mixture.predict_proba(rows)
        np.testing.assert_allclose(shares, np.exp(logs - total[:, None]), rtol=1e-9, atol=1e-15)
        np.testing.assert_array_equal(mixture.predict(rows), logs.argmax(axis=1))
        monkeypatch.setattr("momentmix.mixture.density._BLOCK", 2)  # two rows at a time


def test_a_row_without_cells_has_the_weights():
    mixture, nothing = joined(), [[None] * 4]
    np.testing.assert_allclose(mixture.log_prob(nothing), 0.0, atol=1e-14)
    np.testing.assert_allclose(mixture.predict_proba(nothing)[0], mixture.weights, rtol=1e-14)
    assert mixture.predict(nothing).tolist() == [1]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_a_column_that_is_missing_in_all_rows(make):
    mixture = joined()
    rows = mixture.sample(5, random_state=4)[0]
    columns = {name: rows[:, j].tolist() for j, name in enumerate("abcd")}
    found = mixture.log_prob(make({**columns, "b": [None] * 5}))
    np.testing.assert_allclose(
        found, mixture.select("acd").log_prob(rows[:, [0, 2, 3]]), rtol=1e-11
    )


def test_infinite_numbers_have_no_density():
    mixture = joined()
    rows = with_gaps(mixture)
    rows[8, 1], rows[4, 0] = np.inf, -np.inf  # row 8 lacks a cell as well
    assert np.isnan(rows[8]).any()
    assert np.flatnonzero(np.isnan(mixture.log_prob(rows))).tolist() == [4, 8]
    with pytest.raises(InputError, match=r"row 4 holds infinity.*set such cells to missing"):
        mixture.predict(rows)
    with pytest.raises(InputError, match="row 1 holds infinity"):
        mixture.predict(rows[7:])
    with pytest.raises(InputError, match=r"row 4, column 0 \('a'\) is -inf.*missing"):
        mixture.predict({name: rows[:, j] for j, name in enumerate("abcd")})


# -- levels that no training row had ------------------------------------------------------------


def cells(**changes):
    row = {"age": 40.0, "smokes": "yes", "visits": 2, "plan": "gold", "x": 0.5, "y": -1.0}
    return {k: [v] for k, v in {**row, "calls": 3, "member": True, **changes}.items()}


@pytest.mark.filterwarnings("ignore:none of the .* cells:momentmix.errors.FitWarning")
@pytest.mark.parametrize(
    ("column", "value", "values"),
    [
        ("smokes", "sometimes", ("no", "yes")),  # no cell of it is missing in the model
        ("smokes", 3.0, ("no", "yes")),
        ("plan", "platinum", (*PLANS, None)),  # has the probability of being seen
        ("member", 2, (False, True, None)),
    ],
)
def test_unseen_levels_are_left_out(column, value, values):
    """Σ over all that the cell may hold, missing too where the model has it, is the marginal."""
    mixture = all_families()
    every = [mixture.log_prob(cells(**{column: level})) for level in values]
    row = cells(**{column: value})
    found = mixture.log_prob(row, unseen="missing")
    np.testing.assert_allclose(found, logsumexp(every, axis=0), rtol=1e-11)
    others = [name for name in NAMES if name != column]
    marginal, rest = mixture.select(others), {name: row[name] for name in others}
    np.testing.assert_allclose(found, marginal.log_prob(rest), rtol=1e-11)
    shares = mixture.predict_proba(row, unseen="missing")
    np.testing.assert_allclose(shares, marginal.predict_proba(rest), rtol=1e-10)
    assert mixture.predict(row, unseen="missing")[0] == shares[0].argmax()
    for use in (mixture.log_prob, mixture.predict, mixture.predict_proba):
        with pytest.raises(InputError, match=rf"'{column}'\) must hold its levels.*unseen=.mis"):
            use(row)


@pytest.fixture(scope="module")
def of_levels():
    """A mixture whose levels are whole numbers, and one whose levels are text."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 300)
    level = np.where(rng.random(300) < 0.8, group + 1, 2 - group)
    table = {"x": rng.normal(group, 0.7), "y": rng.normal(group, 0.7), "k": level}
    families = {"k": "categorical"}
    whole = mm.fit(table, 2, families=families, random_state=0).mixture
    text = mm.fit({**table, "k": level.astype(str)}, 2, families=families, random_state=0).mixture
    return table, whole, text


@pytest.mark.parametrize("n_rows", [1, 300])
def test_a_column_of_another_type_is_not_left_out_in_silence(of_levels, n_rows, tmp_path):
    table, whole, text = of_levels
    table = {name: column[:n_rows] for name, column in table.items()}
    as_text = {**table, "k": table["k"].astype(str)}
    as_objects = {**table, "k": np.array(table["k"].tolist(), dtype=object)}
    for mixture, rows in [(whole, as_text), (text, table), (text, as_objects)]:
        kinds = "numbers" if mixture is whole else "text"
        said = rf"none of the {n_rows} cells of column 2 \('k'\) .*levels are {kinds}, the cells"
        for method in (mixture.predict, mixture.log_prob):
            with pytest.warns(FitWarning, match=said):
                method(rows, unseen="missing")
        with pytest.raises(InputError, match="must hold its levels"):
            mixture.predict(rows)
