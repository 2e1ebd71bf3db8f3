"""Pictures and reports of summaries whose missing cells stand at other centers than the model's."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.displays import ColumnsDisplay


def table(n, seed, share):
    """Rows of two groups; so many ages are missing, and the rest is about 40 or 46."""
    rng = np.random.default_rng(seed)
    second = rng.random(n) < 0.5
    frame = pd.DataFrame(
        {
            "x": rng.normal(np.where(second, 0, 5), 1),
            "age": rng.normal(np.where(second, 40, 46), 1),
            "y": rng.normal(np.where(second, 0, 4), 1),
            "z": rng.normal(np.where(second, 0, 4), 1),
        }
    )
    frame.loc[rng.random(n) < share, "age"] = np.nan
    return frame


@pytest.fixture(scope="module")
def result():
    """A fit to rows of which most ages are 360 higher, so that the center is far from theirs."""
    both = pd.concat([table(2000, 0, 0.2), table(3000, 1, 0.2).assign(age=lambda t: t.age + 360)])
    both["group"] = ["a"] * 2000 + ["b"] * 3000
    cube = mm.summarize_by(both, by="group", missing="model")
    return mm.fit(cube["a"], 2, random_state=0)


@pytest.mark.parametrize("share", [0.2, 0.0], ids=["gaps", "no gaps"])
def test_columns_do_not_depend_on_the_centers_of_a_summary(result, share):
    rows = table(1500, 2, share)
    missing = "model" if share else "error"
    own = mm.summarize(rows, missing=missing)
    assert own.schema != result.mixture.schema
    same = mm.summarize(rows, families=result.mixture.schema, missing="model")
    found, expected = (ColumnsDisplay.from_estimator(result, s).marginals for s in (own, same))
    for j, law in expected.items():
        assert found[j].center == pytest.approx(law.center, rel=1e-9, abs=1e-9)
        assert found[j].spread == pytest.approx(law.spread, rel=1e-9, abs=1e-9)
        assert found[j].missing == pytest.approx(law.missing, abs=1e-12)


def test_a_report_takes_a_cube_with_other_centers(result, momentmix, tmp_path):
    result.save(tmp_path / "model.json")
    rows = table(1500, 3, 0.3).assign(week=[1, 2, 3] * 500)
    mm.summarize_by(rows, by="week", missing="model").save(tmp_path / "cube.parquet")
    page = tmp_path / "report.html"
    done = momentmix(
        "report", tmp_path / "model.json", "--data", tmp_path / "cube.parquet", "-o", page
    )
    assert done.code == 0, done.err
    assert "1,500" in page.read_text()
