"""Standard errors and certificate of an estimator: computed when they are asked for."""

import copy
import gc
import pickle
import warnings
import weakref
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score

import momentmix as mm

BOTH = pytest.mark.parametrize("kind", [mm.MomentGaussianMixture, mm.MomentMixture])


def skewed(n_rows=4500, seed=0):
    """Three groups, not Gaussian. Five are not found again."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.gamma(2, 1, (n_rows // 3, 4)) + 3 * k for k in range(3)])


@pytest.fixture(scope="module")
def rows():
    return skewed()


@pytest.fixture
def strict():
    """Any warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def assert_same_result(found, expected):
    for name in ("weights", "means", "variances"):
        ours, theirs = getattr(found.mixture, name), getattr(expected.mixture, name)
        np.testing.assert_array_equal(ours, theirs, strict=True)
        errors = getattr(expected.standard_errors, name)
        np.testing.assert_array_equal(getattr(found.standard_errors, name), errors)
    direct = replace(expected, options=found.options)  # an estimator names its own
    assert found.to_dict() == direct.to_dict()
    assert {name for name, _ in found.stages} == {name for name, _ in expected.stages}


# -- the same bits ----------------------------------------------------------------------------


@BOTH
@pytest.mark.filterwarnings("ignore::momentmix.FitWarning")
def test_the_bits_are_those_of_fit_whatever_happens_before_they_are_asked_for(kind, rows):
    """Other draws from the generator, other threads, and rows that change."""
    expected = mm.fit(rows, 3, random_state=np.random.default_rng(7))
    own, rng = rows.copy(), np.random.default_rng(7)
    model = kind(3, random_state=rng, n_threads=1).fit(own)
    rng.standard_normal(1000)
    own[:] = 0.0
    assert_same_result(model.result_, expected)
    other = kind(3, random_state=np.random.default_rng(8)).fit(rows).result_
    assert other.to_dict() != expected.to_dict()


# -- quiet until asked ------------------------------------------------------------------------


@BOTH
def test_cross_validation_computes_no_certificates(kind, strict, capsys):
    iris = load_iris().data
    model = kind(3, random_state=0, verbose=1)
    cross_val_score(model, iris, cv=3)
    grid = {"n_components": [1, 2, 3]}
    search = GridSearchCV(model, grid, cv=3).fit(iris)
    lines = capsys.readouterr().out.splitlines()
    assert lines.count(f"{kind.__name__}: passes") == 3 + 9 + 1
    assert f"{kind.__name__}: standard errors" not in lines
    assert f"{kind.__name__}: certificate" not in lines
    best = search.best_estimator_
    warnings.simplefilter("ignore")
    for _ in range(2):
        assert best.certificate_.verdict
    assert capsys.readouterr().out.splitlines().count(f"{kind.__name__}: certificate") == 1


# -- copies and memory ------------------------------------------------------------------------


@BOTH
def test_copies_have_the_certificate_and_no_rows(kind, rows, strict):
    model = kind(5, random_state=0).fit(rows)
    packed = pickle.dumps(model)
    assert len(packed) < rows.nbytes / 2
    twins = [pickle.loads(packed), copy.copy(model), copy.deepcopy(model)]
    labels = model.predict(rows)
    for twin in twins:  # a copy warns when it is asked, as the model itself
        np.testing.assert_array_equal(twin.predict(rows), labels)
        with pytest.warns(mm.FitWarning) as seen:
            assert twin.certificate_.verdict == "not passed"
        assert len(seen) == 1
    with pytest.warns(mm.FitWarning):
        result = model.result_
    for twin in [*twins, pickle.loads(pickle.dumps(model))]:
        assert twin.result_.to_dict() == result.to_dict()


@BOTH
@pytest.mark.parametrize("n_rows", [4500, 24_000])
def test_a_fit_does_not_keep_the_rows(kind, n_rows):
    rows = skewed(n_rows)
    seen = weakref.ref(rows)
    model = kind(5, random_state=0).fit(rows)
    del rows
    gc.collect()
    assert seen() is None
    with pytest.warns(mm.FitWarning):
        assert model.certificate_.test.testable
