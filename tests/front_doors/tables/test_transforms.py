"""Logarithms of columns through every door: fit, summaries, findings, displays, commands."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

FAMILIES = {"income": "log", "spent": "log1p"}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    n = 3000
    label = rng.random(n) < 0.4
    return pd.DataFrame(
        {
            "income": np.exp(rng.normal(np.where(label, 10.0, 11.5), 0.5)),
            "age": rng.normal(np.where(label, 30.0, 55.0), 6.0),
            "spent": np.expm1(np.abs(rng.normal(np.where(label, 2.0, 4.0), 0.5))),
            "score": rng.normal(np.where(label, -1.0, 2.0), 1.0),
        }
    )


def with_gaps(rows):
    gaps = np.random.default_rng(4).random(rows.shape) < 0.1
    gaps[:, 3] = False
    return rows.mask(gaps)


def logs_of(rows):
    return rows.assign(income=np.log(rows["income"]), spent=np.log1p(rows["spent"]))


def log_jacobian(rows):
    logs = logs_of(rows)
    return -(logs["income"].fillna(0.0) + logs["spent"].fillna(0.0)).to_numpy()


@pytest.fixture(scope="module")
def result(rows):
    return mm.fit(rows, 2, families=FAMILIES, random_state=0)


# -- fits ---------------------------------------------------------------------------------------


def assert_same_answer(found, wanted, rows):
    """The same bits as a fit to the logarithms; the likelihood is that of the rows."""
    np.testing.assert_array_equal(found.mixture.weights, wanted.mixture.weights)
    np.testing.assert_array_equal(found.mixture.means, wanted.mixture.means)
    np.testing.assert_array_equal(found.mixture.variances, wanted.mixture.variances)
    np.testing.assert_array_equal(found.standard_errors.means, wanted.standard_errors.means)
    assert found.certificate.p_value == wanted.certificate.p_value
    if found.log_likelihood is not None:
        mean = log_jacobian(rows).mean()
        assert found.log_likelihood == pytest.approx(wanted.log_likelihood + mean, rel=1e-12)
        scores = found.mixture.log_prob(rows)
        assert found.log_likelihood == pytest.approx(scores.mean(), rel=1e-9)


def test_a_fit_is_that_of_the_logarithms(rows, result):
    assert_same_answer(result, mm.fit(logs_of(rows), 2, random_state=0), rows)
    assert result.certificate.verdict == "passed"
    assert "  log                  income\n  log1p                spent\n" in result.details()


def test_with_missing_cells(rows):
    gapped = with_gaps(rows)
    found = mm.fit(gapped, 2, families=FAMILIES, missing="model", random_state=0)
    assert_same_answer(found, mm.fit(logs_of(gapped), 2, missing="model", random_state=0), gapped)
    dropped = mm.fit(gapped, 2, families=FAMILIES, missing="drop", random_state=0)
    wanted = mm.fit(logs_of(gapped), 2, missing="drop", random_state=0)
    assert_same_answer(dropped, wanted, gapped.dropna())


@pytest.mark.parametrize("missing", ["error", "model"])
def test_with_joined_columns(rows, missing):
    table, blocks = rows if missing == "error" else with_gaps(rows), [["income", "age"]]
    options = {"blocks": blocks, "missing": missing, "random_state": 0}
    found = mm.fit(table, 2, families=FAMILIES, **options)
    wanted = mm.fit(logs_of(table), 2, **options)
    np.testing.assert_array_equal(found.mixture.covariances, wanted.mixture.covariances)
    assert found.mixture.blocks[0].transforms == ("log", "")
    np.testing.assert_array_equal(
        found.standard_errors.covariances, wanted.standard_errors.covariances
    )
    likelihood = found.mixture.log_prob(table).mean()
    # By missing pattern, the passes end before the last step.
    assert found.log_likelihood == pytest.approx(likelihood, rel=1e-6)


def test_numbers_of_components_are_compared_in_the_units_of_the_data(rows):
    found = mm.fit(rows, "auto", families=FAMILIES, random_state=0)
    wanted = mm.fit(logs_of(rows), "auto", random_state=0)
    assert found.mixture.n_components == wanted.mixture.n_components == 2
    shift = -2.0 * log_jacobian(rows).sum()
    for own, other in zip(found.tried, wanted.tried, strict=True):
        assert own.bic == pytest.approx(other.bic + shift, rel=1e-12, nan_ok=True)


def test_weights_and_files_and_the_estimator(rows, result, tmp_path):
    path = tmp_path / "rows.csv"
    with_gaps(rows).to_csv(path, index=False)
    options = {"families": FAMILIES, "missing": "model", "random_state": 0}
    found = mm.fit(mm.open_rows(path, missing="model"), 2, **options)
    wanted = mm.fit(with_gaps(rows), 2, **options)
    assert [c.transform for c in found.schema.columns] == ["log", "", "log1p", ""]
    np.testing.assert_allclose(found.mixture.means, wanted.mixture.means, rtol=1e-6)
    model = mm.MomentMixture(2, families=FAMILIES, random_state=0).fit(rows)
    np.testing.assert_array_equal(model.mixture_.means, result.mixture.means)
    np.testing.assert_array_equal(model.score_samples(rows), result.mixture.log_prob(rows))
    assert model.bic(rows) == pytest.approx(
        result.mixture.parameters.n_free * np.log(len(rows))
        - 2.0 * result.mixture.log_prob(rows).sum()
    )


# -- summaries ----------------------------------------------------------------------------------


def test_summaries_hold_the_logarithms(rows, tmp_path):
    parts = [with_gaps(rows)[:1000], rows[1000:]]
    options = {"families": FAMILIES, "missing": "model"}
    a, b = (mm.summarize(part, 4, shard_id=str(k), **options) for k, part in enumerate(parts))
    total = a + b
    assert total == b + a
    logs = [
        mm.summarize(logs_of(p), 4, missing="model", shard_id=str(k)) for k, p in enumerate(parts)
    ]
    np.testing.assert_array_equal(total.mean, (logs[0] + logs[1]).mean)
    np.testing.assert_array_equal(total.variance, (logs[0] + logs[1]).variance)
    total.save(tmp_path / "s.mms")
    loaded = mm.MomentSummary.load(tmp_path / "s.mms")
    assert loaded.schema == total.schema
    loaded.save(tmp_path / "again.mms")
    assert (tmp_path / "again.mms").read_bytes() == (tmp_path / "s.mms").read_bytes()
    found, wanted = (mm.fit(s, 2, random_state=0) for s in (loaded, logs[0] + logs[1]))
    np.testing.assert_array_equal(found.mixture.means, wanted.mixture.means)
    more = mm.MomentSummary.load(tmp_path / "s.mms").update(rows[:10])
    assert more.n_rows == total.n_rows + 10


def test_other_transforms_are_refused(rows):
    log = mm.summarize(rows, 3, families=FAMILIES)
    plain = mm.summarize(rows, 3)
    words = r"a column must have one family; column 0 \('income'\) is "
    for pair in ((log, plain), (plain, log)):
        with pytest.raises(mm.InputError, match=words):
            _ = pair[0] + pair[1]
    other = mm.summarize(rows, 3, families={"income": "log1p", "spent": "log1p"})
    with pytest.raises(mm.InputError, match=r"Pass the same for both: families={.income.: .log.}"):
        _ = log + other
    for summary in (plain, log):
        with pytest.raises(mm.InputError, match="a summary holds the families of its columns"):
            mm.fit(summary, 2, families={"income": "log1p"})
