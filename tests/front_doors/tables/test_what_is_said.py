"""What a fit says of columns, p-values and correlations is what the rows show."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.cli import main


def quiet_fit(rows, n_components, **options):
    with warnings.catch_warnings(action="ignore"):
        return mm.fit(rows, n_components, random_state=0, **options)


def texts_of(result):
    found = result.certificate
    return [*(f.text for f in found.findings), *found.reasons, *found.untested, *result.notes]


def two_groups(rng, n):
    kind = (rng.random(n) < 0.4).astype(int)
    columns = {name: rng.normal(size=n) + 4 * kind for name in ("a", "b", "c", "d")}
    return pd.DataFrame(columns), kind


# -- names ------------------------------------------------------------------------------------


def test_columns_whose_gaps_coincide_are_no_copies(tmp_path):
    rows, _ = two_groups(np.random.default_rng(0), 1000)
    rows.loc[np.arange(0, 1000, 50), ["a", "b"]] = np.nan
    result = quiet_fit(rows, 2, missing="model")
    found = {f.kind: f.text for f in result.certificate.findings}
    assert "duplicate-columns" not in found
    assert "the gaps of 'a' and the gaps of 'b'" in found["shared-gaps"]
    assert not any("seen'" in text for text in texts_of(result))
    mm.report(result, tmp_path / "report.html", rows)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Keep only one" not in page
    assert "copies of each other" not in page


def test_copies_are_found_whatever_their_labels(tmp_path):
    rng = np.random.default_rng(1)
    rows, kind = two_groups(rng, 1000)
    rows["again"] = 2 * rows["a"] - 1
    found = {f.kind: f.text for f in quiet_fit(rows, 2, missing="model").certificate.findings}
    assert "columns 'a' and 'again' are copies of each other" in found["duplicate-columns"]
    sex = np.where(rng.random(1000) < 0.3 + 0.4 * kind, "f", "m")
    rows = rows[["b", "c", "d"]].assign(sex=sex, gender=np.where(sex == "f", "woman", "man"))
    result = quiet_fit(rows, 2)
    found = {f.kind: f.text for f in result.certificate.findings}
    assert "columns 'sex' and 'gender' are copies of each other" in found["duplicate-columns"]


# -- numbers ----------------------------------------------------------------------------------


def measured(result, rows, first, second):
    """Correlation within components, pooled, by the posteriors of the rows."""
    x = rows[[first, second]].to_numpy(float)
    seen = ~np.isnan(x).any(axis=1)
    weights, x = result.mixture.predict_proba(rows)[seen], x[seen]
    total = np.zeros((2, 2))
    for own in weights.T:
        offsets = x - own @ x / own.sum()
        total += (own * offsets.T) @ offsets
    return total[0, 1] / np.sqrt(total[0, 0] * total[1, 1])


def correlated_table(seed, gaps):
    """Three groups with correlations of 0.4 to 0.6 within, a year, and a few rows without cells."""
    rng = np.random.default_rng(seed)
    kind = np.repeat([0, 1, 2], [760, 340, 620])
    means = np.array([[38.8, 18.3, 190, 37], [48.8, 18.4, 196, 37.3], [47.5, 15.0, 217, 50.8]])
    deviations = np.array([2.9, 1.1, 6.7, 4.5])
    within = np.full((4, 4), 0.5) + 0.5 * np.eye(4)
    values = means[kind] + deviations * (
        rng.normal(size=(kind.size, 4)) @ np.linalg.cholesky(within).T
    )
    rows = pd.DataFrame(values, columns=["length", "depth", "flipper", "mass"])
    rows["year"] = rng.choice([2007, 2008, 2009], kind.size)
    rows["sex"] = rng.choice(["f", "m"], kind.size)
    if gaps:
        rows.iloc[[3, 271], :4] = np.nan
        rows.loc[[3, 8, 9, 10, 47, 178, 271], "sex"] = None
    return rows


@pytest.mark.parametrize("gaps", [False, True])
def test_correlations_are_those_of_the_rows(gaps):
    n_printed = 0
    for seed in range(2):
        rows = correlated_table(seed, gaps)
        result = quiet_fit(rows, 4, missing="model")
        for text in texts_of(result):
            assert "1.00)" not in text
            for first, second, value in re.findall(
                r"(?:: |; )'(\w+)' and '(\w+)' \(about ([+-]\d.\d\d)\)", text
            ):
                n_printed += 1
                # The fit takes up a part of a correlation: the figure may be larger, not smaller.
                shown = measured(result, rows, first, second)
                assert -0.03 < (float(value) - shown) * np.sign(shown) < 0.3
    assert n_printed >= 3


# -- counts -----------------------------------------------------------------------------------


def test_counts_are_taken_as_such():
    rng = np.random.default_rng(7)
    rows, kind = two_groups(rng, 3000)
    rows["visits"] = rng.poisson(1 + 3 * kind)
    rows["emr"] = rng.negative_binomial(0.4, 0.4 / (0.4 + 0.3 + kind))  # overdispersed
    rows["lc"] = np.log(rng.integers(1, 5, 3000))
    rows["gender"] = rng.integers(1, 3, 3000)
    rows["year"] = rng.choice([2007, 2008, 2009], 3000)
    rows["likert"] = np.clip(np.round(3 + kind + rng.normal(size=3000)), 1, 6)
    rows["member"] = (rng.random(3000) < 0.2 + 0.5 * kind).astype(int)
    rows["change"] = rng.integers(-3, 4, 3000)
    for n_components in (2, 4):
        result = quiet_fit(rows, n_components)
        families = {column.name: column.family for column in result.schema.columns}
        assert (families["visits"], families["emr"]) == ("poisson", "negative_binomial")
        assert set(families) == set(rows) - {"year"}
        (repeated,) = [f for f in result.certificate.findings if f.kind == "discrete-column"]
        assert {"gender", "likert", "change", "member"} <= set(repeated.columns)
        assert not [f for f in result.certificate.findings if f.kind == "dispersion"]


def test_errors_of_summaries_do_not_advise_the_default():
    rows = np.random.default_rng(9).normal(size=(300, 3))
    with pytest.raises(mm.errors.CapacityError, match="which a summary does not hold"):
        mm.fit(mm.summarize(rows), 5)


# -- one truth --------------------------------------------------------------------------------


def test_the_command_prints_the_seed_and_the_names_that_it_stores(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    law = mm.Mixture.diagonal([0.5, 0.3, 0.2], 1.2 * np.eye(3, 5), np.ones((3, 5)))
    rows = pd.DataFrame(law.sample(90, random_state=10)[0], columns=list("abcde"))
    rows.to_csv("rows.csv", index=False)

    def run(*arguments):
        with pytest.raises(SystemExit), warnings.catch_warnings(action="ignore"):
            main([*arguments])
        return capsys.readouterr().out

    printed = json.loads(run("fit", "rows.csv", "-r", "3", "-o", "model.json", "--json"))
    stored = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))["fit"]
    assert printed["options"]["random_state"] == stored["options"]["random_state"] == 0
    assert printed["command"] == stored["command"]
    names = [component["name"] for component in printed["profile"]]
    told = json.loads(run("info", "model.json", "--json"))["profile"]
    mixture, record = mm.fitting.record.load_fit("model.json")
    assert told == str(record.profile()).split("\n")
    assert mixture.profile().names == record.profile().names == names
    run("report", "model.json", "-o", "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in names)
