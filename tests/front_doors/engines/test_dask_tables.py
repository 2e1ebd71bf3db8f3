"""Collections with families and missing cells: the answers of one process."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

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
    together = mmd.fit(lazy, 2, families=LEVELS, missing="model", random_state=0).mixture
    alone = mm.fit(whole, 2, random_state=0).mixture
    assert together.means == pytest.approx(alone.means, nan_ok=True, rel=1e-6)


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


def test_levels_that_differ_between_partitions_are_refused(frame):
    ordered = frame.sort_values("plan").reset_index(drop=True)
    parts = [ordered.iloc[:1000].assign(plan="basic"), ordered.iloc[2000:]]
    lazy = dd.concat([dd.from_pandas(part, npartitions=1) for part in parts])
    with pytest.raises(mm.MomentmixError, match="level"):
        mmd.summarize(lazy, 4, families={"plan": "categorical"}, missing="model")


def test_text_without_families_is_refused_before_any_work(frame):
    lazy = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(mm.InputError, match=r"columns must hold real numbers.*'plan'"):
        mmd.summarize(lazy, 2, missing="drop")
    with pytest.raises(mm.errors.InputTypeError, match=r"Use momentmix\.dask: fit_summary"):
        mm.MomentMixture(2).fit(lazy)
