"""A background: a wide density beside the groups of a mixture."""

import numpy as np
import pytest

import momentmix as mm
from momentmix.errors import InputError, ModelFileError

GROUPS = mm.Mixture(
    [0.3, 0.7], [[-4.0, 0.0, 1.0], [4.0, 1.0, 0.0]], [[[1, 0.5, 0], [0.5, 1, 0], [0, 0, 2]]] * 2,
    feature_names=["a", "b", "c"],
)  # fmt: skip
WIDE = mm.Mixture.from_blocks(
    [0.5, 0.5],
    [
        mm.GaussianBlock(np.zeros((2, 2)), [400 * np.eye(2), 4e6 * np.eye(2)]),
        mm.GaussianBlock([0.0, 0.0], [400.0, 4e6]),
    ],
)
PLAIN = GROUPS.with_background(WIDE, 0.02)


def table_mixture():
    age = mm.GaussianBlock([30.0, 60.0], [25.0, 100.0], "age", seen=[0.5, 1.0])
    plan = mm.CategoricalBlock([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], ("a", "b", "c"), names="plan")
    wide_age = mm.GaussianBlock([45.0], [1e4], "age", seen=[0.75])
    all_plans = mm.CategoricalBlock([[0.4, 0.2, 0.4]], ("a", "b", "c"), names="plan")
    groups = mm.Mixture.from_blocks([0.4, 0.6], [age, plan])
    return groups.with_background(mm.Mixture.from_blocks([1.0], [wide_age, all_plans]), 0.02)


TABLE = table_mixture()
ROWS = {
    "plain": np.array([[-4.0, 0, 1], [4, 1, 0], [60, -30, 5], [np.nan, np.nan, 3e4]]),
    "table": {"age": [30, 61, 400, None], "plan": ["a", "c", None, "b"]},
}


@pytest.mark.parametrize("kind", ["plain", "table"])
def test_densities_are_those_of_the_sum(kind):
    mixture, rows = {"plain": PLAIN, "table": TABLE}[kind], ROWS[kind]
    groups = mixture.without_background()
    f, b = groups.log_prob(rows), mixture.background.log_prob(rows)
    total = np.logaddexp(np.log(0.98) + f, np.log(0.02) + b)
    np.testing.assert_allclose(mixture.log_prob(rows), total, rtol=1e-12)
    shares = np.exp(np.log(0.98) + f - total)
    found = mixture.predict_proba(rows)
    np.testing.assert_allclose(found, groups.predict_proba(rows) * shares[:, None], atol=1e-12)
    expected = np.where(shares > 0.5, groups.predict(rows), -1)
    np.testing.assert_array_equal(mixture.predict(rows), expected)
    assert (mixture.predict(rows) == -1).sum() == (2 if kind == "plain" else 1)


@pytest.mark.parametrize("kind", ["plain", "table"])
def test_files_hold_it(kind, tmp_path):
    mixture, path = {"plain": PLAIN, "table": TABLE}[kind], tmp_path / "model.json"
    mixture.save(path)
    loaded = mm.Mixture.load(path)
    assert loaded.background_weight == 0.02
    np.testing.assert_array_equal(loaded.log_prob(ROWS[kind]), mixture.log_prob(ROWS[kind]))
    text = path.read_text()
    assert '"weight": 0.02' in text
    path.write_text(text.replace('"weight": 0.02', '"weight": 0.03'))
    with pytest.raises(ModelFileError, match="checksum"):
        mm.Mixture.load(path)


def test_parts_of_a_mixture_keep_it_and_conditions_are_those_of_the_groups():
    part = PLAIN.select(["c", "a"])
    rows = ROWS["plain"][:3]
    known = np.column_stack([rows[:, 0], np.full(3, np.nan), rows[:, 2]])
    np.testing.assert_allclose(part.log_prob(rows[:, [2, 0]]), PLAIN.log_prob(known))
    for own in (
        PLAIN.align(PLAIN),
        PLAIN.with_feature_names(None),
    ):
        np.testing.assert_array_equal(own.predict_proba(rows), PLAIN.predict_proba(rows))
    far = {"a": 60.0}
    np.testing.assert_array_equal(PLAIN.condition(far).means, GROUPS.condition(far).means)


def test_it_is_shown_and_is_no_component(tmp_path):
    page = tmp_path / "report.html"
    mm.report(PLAIN, page)
    assert "belongs to no group: 2.0 %" in page.read_text()
    assert PLAIN.n_components == 2
    assert PLAIN.weights.sum() == 1
    assert len(PLAIN.profile()) == 2
    for text in (repr(PLAIN), str(PLAIN.profile()), PLAIN._repr_html_()):
        assert "belongs to no group: 2.0 %" in text
    assert "no group" not in repr(GROUPS)


def test_another_mixture_is_refused():
    for other in (mm.Mixture.diagonal([1.0], [[0.0] * 3], [[9.0] * 3]), PLAIN, WIDE.select([0, 1])):
        with pytest.raises(InputError, match="columns and the blocks of the mixture"):
            GROUPS.with_background(other, 0.1)
    with pytest.raises(InputError, match="between 0 and 1"):
        GROUPS.with_background(WIDE, 1.5)
