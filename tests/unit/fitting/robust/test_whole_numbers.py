"""What columns of whole numbers are taken as, where nobody says."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

N = 1500


@cache
def table() -> pd.DataFrame:
    """Return two groups: counts, rounded measurements and answers from 1 to 5, all from 0 or 1."""
    rng = np.random.default_rng(3)
    group = rng.integers(2, size=N)
    weight = np.rint(rng.normal(np.array([12.0, 30.0])[group], 3.0))
    answer = np.rint(rng.normal(np.array([2.0, 4.0])[group], 0.8)).clip(1, 5)
    return pd.DataFrame(
        {
            "visits": rng.poisson(np.array([1.0, 4.0])[group]),
            "weight": weight - weight.min(),
            "answer": answer,
            "size": rng.normal(np.array([0.0, 5.0])[group]),
        }
    )


def families_of(result: mm.FitResult) -> list[str]:
    """Return the family of each column."""
    return [column.family for column in result.mixture.columns]


def test_counts_are_found_and_measurements_stay_numbers(tmp_path):
    result = mm.fit(table(), 2, random_state=0)
    assert families_of(result) == ["poisson", "gaussian", "gaussian", "gaussian"]
    (note,) = result.notes
    assert note.startswith("'visits' taken as counts: poisson predicts the cells better")
    assert 'families={"visits": "gaussian"} (--families visits=gaussian)' in note
    assert result.summary.schema is None  # sums of counts and of numbers are the same
    result.mixture.save(tmp_path / "model.json")
    loaded = mm.Mixture.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(table()), result.mixture.predict(table()))


def test_the_seed_and_a_part_of_the_rows_change_nothing():
    some = table().sample(frac=0.9, random_state=1)
    for rows, seed in ((table(), 7), (some, 7), (table()[::-1], 8)):
        found = families_of(mm.fit(rows, 2, random_state=seed))
        assert found == ["poisson", "gaussian", "gaussian", "gaussian"]


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (table().to_numpy(), {}),
        (mm.summarize(table(), order=4), {}),
        (table(), {"families": {"visits": "gaussian"}}),
        (table(), {"blocks": [["visits", "weight"]]}),
        (table(), {"blocks": "full"}),
        (table()[:40], {}),
        (table().assign(visits=table()["visits"] / 2), {}),
        (table().assign(visits=1000 * table()["visits"]), {}),
    ],
)
def test_numbers_where_there_are_no_names_or_something_was_said(rows, options):
    result = mm.fit(rows, 2, random_state=0, **options)
    assert set(families_of(result)) == {"gaussian"}
    assert not any("taken as" in note for note in result.notes)


def test_columns_that_predict_each_other_stay_numbers():
    rng = np.random.default_rng(0)
    visits = rng.poisson(3.0, N)
    both = pd.DataFrame({"visits": visits, "cost": 2 * visits + rng.normal(0, 0.5, N)})
    assert families_of(mm.fit(both, random_state=0)) == ["gaussian", "gaussian"]
    alone = both.assign(cost=rng.permutation(both["cost"]))
    assert families_of(mm.fit(alone, random_state=0)) == ["poisson", "gaussian"]


def test_missing_cells_and_a_later_row_that_is_no_count():
    gaps = table().astype(float)
    gaps.loc[::7, "visits"] = np.nan
    result = mm.fit(gaps, 2, missing="model", random_state=0)
    assert families_of(result)[0] == "poisson"
    rates = np.sort(result.mixture.blocks[0].rates)
    np.testing.assert_allclose(rates, [1.0, 4.0], atol=5 * (4.0 / (N / 2)) ** 0.5)
    many = pd.concat([table()] * 50, ignore_index=True).astype(float)
    many.loc[len(many) - 1, "visits"] = 1.5
    assert families_of(mm.fit(many, 2, random_state=0, max_passes=0))[0] == "gaussian"


def test_a_rare_level_or_gap_that_no_row_shows_which_is_looked_at():
    rows = table().assign(kind=np.where(np.arange(N) < 3, "rare", "usual"), gap=np.arange(N) % 7.0)
    rows.loc[5:6, "gap"] = np.nan
    assert families_of(mm.fit(rows, 2, missing="model", random_state=0))[0] == "poisson"


def test_a_start_keeps_its_families():
    first = mm.fit(table(), 2, random_state=0)
    again = mm.fit(table(), 2, start=first.mixture, random_state=0)
    assert families_of(again) == families_of(first)
    numbers = mm.fit(table(), 2, random_state=0, families={"visits": "gaussian"})
    again = mm.fit(table(), 2, start=numbers.mixture, random_state=0)
    assert families_of(again) == families_of(numbers)


# -- years ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [("yearly", 1990), ("age", 1990), ("year", 1890), ("year", 2090), ("year", 1990.5)],
)
def test_other_numbers_are_no_years(name, values):
    rows = table().rename(columns={"size": name}).assign(**{name: values + np.arange(N) % 20})
    assert name in mm.schema_from(rows).column_names
