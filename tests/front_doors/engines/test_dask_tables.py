"""Collections with families and missing cells: the answers of one process."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.delayed import delayed

import momentmix as mm
import momentmix.dask as mmd

LEVELS = {"plan": ["basic", "gold"], "visits": "poisson"}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 3000
    label = rng.random(n) < 0.4
    table = {f"y{j}": rng.normal(2.0 * label, 1.0) for j in range(3)}
    table["visits"] = rng.poisson(np.where(label, 6.0, 1.0))
    table["plan"] = np.where(rng.random(n) < np.where(label, 0.8, 0.1), "gold", "basic")
    found = pd.DataFrame(table)
    found.loc[rng.random(n) < 0.2, "y0"] = np.nan
    return found


def test_partitions_add_up_to_the_whole(frame):
    lazy = dd.from_pandas(frame, npartitions=4)
    summary = mmd.summarize(lazy, 4, families=LEVELS, missing="model")
    whole = mm.summarize(frame, 4, families=LEVELS, missing="model")
    assert summary.n_rows == whole.n_rows == len(frame)
    assert summary.schema.feature_names == whole.schema.feature_names
    assert summary.mean.tolist() == pytest.approx(whole.mean.tolist(), rel=1e-12)
    options = {"families": LEVELS, "missing": "model", "random_state": 0}
    together, alone = mmd.fit(lazy, 2, **options), mm.fit(frame, 2, **options)
    assert together.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-6)
    assert together.mixture.means == pytest.approx(alone.mixture.means, nan_ok=True, rel=1e-4)


def test_cells_missing_at_random_have_passes_over_the_rows(frame):
    lazy = dd.from_pandas(frame, npartitions=3)
    options = {"families": LEVELS, "missing": "mar", "random_state": 0}
    together, alone = mmd.fit(lazy, 2, **options), mm.fit(frame, 2, **options)
    assert together.n_passes > 1
    assert together.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-5)
    assert together.mixture.weights == pytest.approx(alone.mixture.weights, abs=1e-3)
    with pytest.raises(mm.MomentmixError, match="needs passes over the rows"):
        mmd.summarize(lazy, 3, families=LEVELS, missing="mar")


def test_predictions_are_those_of_one_process(frame):
    mixture = mm.fit(frame, 2, families=LEVELS, missing="model", random_state=0).mixture
    lazy = dd.from_pandas(frame[["plan", "y0", "y1", "y2", "visits"]], npartitions=3)
    assert (mmd.predict(mixture, lazy).compute() == mixture.predict(frame)).all()


@pytest.mark.parametrize("missing", ["model", "drop"])
def test_levels_and_families_are_those_of_all_partitions(frame, missing):
    table = frame.sort_values("plan", ignore_index=True).assign(code=np.arange(3000) // 1000)
    table["code"] = table["code"].map({0: "x", 1: "y", 2: "z"})
    parts = [table.iloc[:0], table.iloc[:900], table.iloc[900:2500], table.iloc[2500:]]
    lazy = dd.from_delayed([delayed(part) for part in parts], meta=table.iloc[:0])
    together = mmd.summarize(lazy, 3, missing=missing)
    alone = mm.summarize(table, 3, missing=missing)
    assert together.feature_names == alone.feature_names
    assert {"plan=gold", "code=y", "code=z"} <= {*together.feature_names}
    np.testing.assert_allclose(together.mean, alone.mean, rtol=1e-12)
    if missing == "drop":
        options = {"missing": missing, "random_state": 0}
        together, alone = mmd.fit(lazy, 2, **options), mm.fit(table, 2, **options)
        families = [column.family for column in alone.mixture.columns]
        assert [column.family for column in together.mixture.columns] == families
        assert "poisson" in families


def test_frames_without_momentmix_dask_are_refused(frame):
    with pytest.raises(mm.errors.InputTypeError, match=r"Use momentmix\.dask: fit_summary"):
        mm.MomentMixture(2).fit(dd.from_pandas(frame, npartitions=2))
