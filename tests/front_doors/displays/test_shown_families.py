"""What shows results of tables with families: displays, report, print-out, commands."""

import numpy as np
import pytest
from matplotlib import pyplot

import momentmix as mm
from momentmix import displays
from momentmix.wording import percent

FAMILIES = {"visits": "poisson", "member": "bernoulli", "plan": "categorical"}
PLANS = ("basic", "gold", "silver")
OPTION = "visits=poisson,member=bernoulli,plan=categorical"


def truth():
    blocks = [
        mm.GaussianBlock([30.0, 60.0], [25.0, 100.0], "age", seen=[0.5, 0.9]),
        mm.GaussianBlock([2.0, 5.0], [0.5, 1.0], "income"),
        mm.PoissonBlock([1.0, 6.0], names="visits"),
        mm.BernoulliBlock([0.75, 0.25], ("no", "yes"), names="member"),
        mm.CategoricalBlock([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], PLANS, names="plan"),
    ]
    return mm.Mixture.from_blocks([0.4, 0.6], blocks)


@pytest.fixture(scope="module")
def rows():
    return truth().sample(3000, random_state=5)[0]


@pytest.fixture(scope="module")
def result(rows):
    return mm.fit(rows, 2, families=FAMILIES, missing="model", random_state=0)


def test_means_and_probabilities(result):
    display = displays.MeansDisplay.from_estimator(result)
    levels = ["plan=basic", "plan=gold", "plan=silver"]
    assert sorted(display.names) == sorted(
        ["age", "income", "visits", "member=yes", *levels, "age seen"]
    )
    shown = display.ax_.images[0].get_array()[[display.names.index(x) for x in levels]]
    plan = next(b for b in result.mixture.blocks if b.family == "categorical").probabilities
    center = result.mixture.weights @ plan
    np.testing.assert_allclose(shown.T, (plan - center) / np.sqrt(center * (1 - center)))
    written = [x.get_text() for x in display.ax_.texts]
    assert percent(plan[0, 0]) in written
    axes = pyplot.subplots()[1]
    assert displays.MeansDisplay.from_estimator(result, ax=axes).ax_ is axes


def test_pairs_of_all_families(result, rows):
    display = displays.PairsDisplay.from_estimator(result, rows, features=list(rows))
    assert len(display.pairs) == 10
    assert np.isnan(display.rows[:, 0]).any()
    np.testing.assert_array_equal(display.rows[:, 4] == 2, rows["plan"] == "silver")
    age_plan, member_plan = (display.axes_.flat[display.pairs.index(p)] for p in ((0, 4), (3, 4)))
    assert [len(disks.get_offsets()) for disks in age_plan.collections[1:]] == [3, 3]
    areas = np.array([x.get_sizes().reshape(2, 3) for x in member_plan.collections])
    yes = result.mixture.level_probabilities("member")["yes"]
    plans = np.stack(list(result.mixture.level_probabilities("plan").values()), axis=1)
    member = np.stack([1 - yes, yes], axis=1)
    expected = result.mixture.weights[:, None, None] * member[:, :, None] * plans[:, None, :]
    np.testing.assert_allclose(areas / areas.sum(), expected / expected.sum(), rtol=1e-6)
    display = displays.PairsDisplay.from_estimator(result.mixture.select(["member", "plan"]))
    assert display.pairs == [(0, 1)] or display.pairs == [(1, 0)]


def test_a_component_that_never_sees_a_column():
    age = mm.GaussianBlock([30.0, 40.0], [25.0, 36.0], "age", seen=[0.5, 0.0])
    mixture = mm.Mixture.from_blocks([0.5, 0.5], [age, mm.PoissonBlock([1.0, 4.0], names="n")])
    displays.MeansDisplay.from_estimator(mixture).figure_.canvas.draw()
    display = displays.PairsDisplay.from_estimator(mixture)
    assert len(display.ax_.patches) == 2


def test_report_has_tables_of_levels_and_of_cells_seen(result, rows, tmp_path):
    path = tmp_path / "r.html"
    income = rows["income"].copy()
    income[:7] = np.nan  # cells that are missing for the first time
    mm.report(result, path, {**rows, "income": income})
    page = path.read_text()
    for part in ("picture-column-4", "plan=gold", "age seen"):
        assert part in page
    assert ">nan<" not in page
    mm.report(result.mixture.select(["member", "plan"]), path)
    assert "picture-column-1" in path.read_text()
    assert "picture-pair-0" in path.read_text()
