"""Logarithms of columns through every door: fit, summaries, findings, displays, commands."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix import displays

FAMILIES = {"income": "log", "spent": "log1p"}
OPTION = "income=log,spent=log1p"


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
    assert "  log                  income\n  log1p                spent\n" in str(result)


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
    words = r"a column must have one transform; column 0 \('income'\) is "
    for pair in ((log, plain), (plain, log)):
        with pytest.raises(mm.InputError, match=words):
            _ = pair[0] + pair[1]
    other = mm.summarize(rows, 3, families={"income": "log1p", "spent": "log1p"})
    with pytest.raises(mm.InputError, match=r"Pass the same for both: families={.income.: .log.}"):
        _ = log + other
    words = r"has no moments of logarithms; column 0 \('income'\) cannot be 'log'"
    with pytest.raises(mm.InputError, match=words):
        mm.fit(plain, 2, families=FAMILIES)
    with pytest.raises(mm.InputError, match="the summary holds the families of its columns"):
        mm.fit(log, 2, families={"income": "log1p"})
    with pytest.raises(mm.InputError, match="other transforms or other missing cells"):
        displays.ColumnsDisplay.from_estimator(mm.fit(log, 2, random_state=0), plain)


# -- findings -----------------------------------------------------------------------------------


def shape_finding(data, n_components=2, **options):
    found = mm.fit(data, n_components, random_state=0, **options).certificate.findings
    return next((f.remedy for f in found if f.kind == "column-shape"), {})


def test_logarithms_are_offered_where_they_help(rows):
    assert shape_finding(rows) == {"families": {"spent": "log", "income": "log"}}
    assert not shape_finding(rows, families=FAMILIES)
    partly = shape_finding(rows, families={"income": "log"})["families"]
    assert list(partly) == ["spent"]
    assert partly["spent"].startswith("log")
    assert shape_finding(rows.to_numpy()) == {"families": {2: "log", 0: "log"}}


@pytest.fixture(scope="module")
def three_groups():
    """Three groups of Gaussian columns, which of them each row is in, and a generator."""
    rng = np.random.default_rng(0)
    labels = rng.choice(3, 1500, p=[0.5, 0.3, 0.2])
    means = np.array([[0.0, 0.0, 0.0], [4.0, 2.0, 0.0], [0.0, 5.0, 3.0]])
    return 10 + means[labels] + rng.standard_normal((1500, 3)), labels, rng


@pytest.mark.long
def test_a_logarithm_is_offered_where_more_components_hide_the_skewness(three_groups):
    columns, labels, rng = three_groups
    fees = rng.lognormal(np.array([1.0, 1.5, 0.5])[labels], 0.8)
    data = {**{name: columns[:, k] for k, name in enumerate("abc")}, "late fees": fees}
    result = mm.fit(data, "bic", random_state=0)
    assert result.mixture.n_components > 3
    (found,) = [f for f in result.certificate.findings if f.kind == "skewed-column"]
    assert found.text.startswith("column 'late fees' is skewed to the right, and some components")
    assert found.remedy == {"families": {"late fees": "log"}}
    again = mm.fit(data, "bic", families={"late fees": "log"}, random_state=0)
    assert again.mixture.n_components == 3
    assert not [f for f in again.certificate.findings if "logarithm" in f.text]


def test_no_logarithm_of_a_skewed_mixture_of_gaussian_laws(three_groups):
    columns, labels, rng = three_groups
    # Groups that differ in one column only, a few rows far out: skewed as a whole.
    parts = rng.choice(3, len(labels), p=[0.7, 0.2, 0.1])
    spent = rng.normal(np.array([3.0, 9.0, 16.0])[parts], np.array([0.7, 1.5, 2.0])[parts])
    spent = np.abs(spent) + 0.01
    found = mm.fit(np.column_stack([columns, spent]), 5, random_state=0)
    assert not [f for f in found.certificate.findings if "logarithms" in f.text]


def test_zeros_are_offered_log1p():
    rng = np.random.default_rng(5)
    label = rng.random(4000) < 0.5
    values = np.floor(np.exp(rng.normal(np.where(label, 2.0, 4.0), 1.0)))
    others = rng.normal(3.0 * label[:, None], 1.0, (4000, 3))
    assert values.min() == 0
    assert shape_finding(np.column_stack([values, others])) == {"families": {0: "log1p"}}


def test_offers_from_moments(rows):
    families = shape_finding(mm.summarize(rows, 4))["families"]
    assert families["income"] == "log"
    assert "age" not in families
    assert not shape_finding(mm.summarize(rows, 4, families=FAMILIES))


# -- displays and commands ------------------------------------------------------------------------


def test_pictures_and_tables_name_the_logarithm(rows, result, tmp_path):
    pairs = displays.PairsDisplay.from_estimator(result, rows)
    assert pairs.names == ["income, log scale", "age", "spent, log scale", "score"]
    np.testing.assert_array_equal(pairs.rows, logs_of(rows).to_numpy())
    means = displays.MeansDisplay.from_estimator(result)
    assert means.names == ["log income", "age", "log1p spent", "score"]
    one = displays.PairsDisplay.from_estimator(result, rows, features=["spent"]).axes_[0, 0]
    assert one.get_xlabel() == "spent, log scale"
    labels = [x.get_text().replace(",", "") for x in one.get_xticklabels()]  # in units of the data
    np.testing.assert_allclose(np.log1p([float(x) for x in labels]), one.get_xticks(), rtol=0.01)
    mm.report(result, tmp_path / "r.html", rows)
    text = (tmp_path / "r.html").read_text()
    assert ">log income<small>mean</small>" in text
    # Medians in units of the data, beside means of logarithms.
    (row,) = re.findall(r"<tr><th[^>]*>income<small>median</small>.*?</tr>", text)
    medians = [float(x.replace(",", "")) for x in re.findall(r"<td[^>]*>([^<]*)", row)]
    assert medians == pytest.approx(np.exp(result.mixture.means[:, 0]), rel=0.005)  # three digits
    assert "Means and spreads with log are those of the logarithm" in text


def test_commands(momentmix, rows, result, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows.to_csv("rows.csv", index=False)
    fitted = momentmix("fit", "rows.csv", "-r", "2", "--families", OPTION, "-o", "m.json")
    assert "log income" in fitted.out
    loaded = mm.Mixture.load("m.json")
    np.testing.assert_allclose(loaded.means, result.mixture.means, rtol=1e-9)
    density = ("--density", "-o", "scores.csv", "--json")
    scored = momentmix("predict", "m.json", "rows.csv", *density)
    likelihood = json.loads(scored.out)["log_likelihood_per_row"]
    assert likelihood == pytest.approx(result.log_likelihood, rel=1e-9)
    commands = [
        ("predict", "m.json", "rows.csv", "-o", "labels.csv"),
        ("summarize", "rows.csv", "--families", OPTION, "-o", "rows.mms"),
        ("report", "m.json", "--data", "rows.csv", "-o", "r.html"),
    ]
    for command in commands:
        assert momentmix(*command).code == 0, command
    rows.assign(income=-rows["income"]).to_csv("wrong.csv", index=False)
    refused = momentmix("predict", "m.json", "wrong.csv")
    assert refused.code == 1
    assert "numbers of a log column must be greater than 0" in refused.err
