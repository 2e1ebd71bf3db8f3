"""Of any fit the verdict is never better than the worst answer, in every form it is printed in."""

import json

import numpy as np
import pytest

import momentmix as mm

WORST_FIRST = ("not passed", "untested", "useful", "passed")
ALLOWED = {  # the best verdict beside an answer: to the first question, and to the third
    (0, "No"): "not passed",
    (0, "Partly"): "not passed",
    (2, "No"): "not passed",
    (2, "Roughly"): "useful",
    (2, "Closely"): "useful",
}
SHAPES = ("groups", "groups", "overlapping", "skewed", "cloud", "box", "half circle")


def rows_of(rng, shape, n, d, r):
    """Rows (n, d) of r groups, or of one cloud."""
    noise = rng.normal(size=(n, d))
    if shape == "box":
        return rng.random((n, d))
    if shape == "half circle":
        angle = rng.uniform(0, np.pi, n)
        noise[:, :2] = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * noise[:, :2]
        return noise
    far = {"overlapping": 1.5, "cloud": 0.0}.get(shape, 6.0)
    rows = far * rng.normal(size=(r, d))[rng.choice(r, n, p=rng.dirichlet(np.full(r, 4.0)))] + noise
    return np.exp(rows / 3) if shape == "skewed" else rows


def random_fit(seed):
    """A fit of random rows, or of their summary."""
    rng = np.random.default_rng(seed)
    n = int(np.exp(rng.uniform(np.log(12), np.log(400))))  # of few rows little can be tested
    d, r = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    rows = rows_of(rng, str(rng.choice(SHAPES)), n, d, r)
    options = {
        "random_state": seed,
        "max_passes": int(rng.choice([2, 100, 100])),
    }
    number = [max(1, r - 1), r, r + 1, r + 2, "auto", "bic"][rng.integers(6)]
    if d > 2 and rng.random() < 0.3:
        given = {"auto": "auto", "bic": "auto"}.get(number, int(rng.integers(1, 3)))
        order = int(rng.integers(3, d + 1))
        most = {"max_components": 3} if given == "auto" else {}
        return mm.fit(mm.summarize(rows, order=order), given, **most, random_state=seed)
    missing = [None, "drop", "mar", "model"][rng.integers(4)]
    if missing is not None:
        rows[rng.random((n, d)) < 0.05] = np.nan
        options["missing"] = missing
    if rng.random() < 0.5:
        options["blocks"] = str(rng.choice(["auto", "diag"]))
    if number in ("auto", "bic"):
        options["max_components"] = 4
    return mm.fit(rows, number, **options)


def check_verdict(result, path):
    """What holds of the verdict of any fit, as an object, in print and in a file."""
    c, tried = result.certificate, {t.n_components: t for t in result.tried}
    allowed = [ALLOWED.get((i, a.short), "passed") for i, a in enumerate(c.answers)]
    assert WORST_FIRST.index(c.verdict) <= min(map(WORST_FIRST.index, allowed)), c
    if (result.reproducibility < 0.75).any():  # NaN where it is unknown
        assert c.verdict == "not passed"
    assert c.verdict != "passed" or (result.converged and not [*c.reasons, *c.untested])
    assert c.verdict != "untested" or (c.untested and not c.reasons)
    assert c.verdict != "not passed" or c.reasons
    number = result.mixture.n_components
    if tried:
        final, far = tried[number], max(10.0, 0.04 * result.n_rows)
        assert final.chosen
        beside = [tried[r].bic for r in (number - 1, number + 1) if r in tried]
        if any(final.bic - bic > far + 1e-6 for bic in beside):
            assert c.verdict != "passed"
            assert any("another number" in reason for reason in c.reasons)
        if final.reproducibility:
            np.testing.assert_array_equal(final.reproducibility, c.reproducibility)
    lines = str(c).splitlines()
    is_good = c.verdict in ("passed", "useful")
    assert lines[1].split(maxsplit=1)[1] == (c.verdict if is_good else c.verdict.upper())
    for words in (*map(str, c.answers), *c.reasons, *c.untested):
        assert words in result.details()
    result.save(path)
    saved = json.loads(path.read_text())["fit"]
    assert saved == json.loads(json.dumps(result.to_dict()))
    assert saved["certificate"]["verdict"] == c.verdict
    assert saved["certificate"]["passed"] is c.passed is (c.verdict == "passed")


@pytest.mark.parametrize("seeds", [range(24), pytest.param(range(24, 340), marks=pytest.mark.long)])
def test_no_verdict_is_better_than_its_worst_answer(seeds, tmp_path):
    verdicts = set()
    for seed in seeds:
        result = random_fit(seed)
        check_verdict(result, tmp_path / "model.json")
        verdicts.add(result.certificate.verdict)
    assert verdicts >= {"not passed", "useful", "passed"}


def test_penguins_that_halves_do_not_reproduce_do_not_pass(tmp_path):
    columns = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
    table = mm.example_table("penguins")
    result = mm.fit(table, 3, columns=columns, missing="mar", random_state=0)
    c = result.certificate
    assert c.answers[0].short == "No"
    assert c.verdict == "not passed"
    assert "not reproduced: group" in str(c)
    result.save(tmp_path / "model.json")
    mm.report(tmp_path / "model.json", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "not passed" in page.lower()


def test_a_fit_that_has_not_converged_does_not_pass():
    rows = np.random.default_rng(0).normal(size=(1000, 4)) + 2 * np.arange(1000)[:, None] % 6
    whole, stopped = (mm.fit(rows, 3, max_passes=n, random_state=0) for n in (500, 1))
    assert whole.converged
    assert not stopped.converged
    assert stopped.certificate.verdict in ("useful", "not passed")
    assert any("not converged after 1 pass of EM" in x for x in stopped.certificate.reasons)
    assert not any("not converged" in x for x in whole.certificate.reasons)
