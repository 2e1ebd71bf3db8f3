"""The estimator beyond diagonal: shapes, parameters counted, scikit-learn's twin, bad blocks."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import momentmix as mm
from momentmix import MomentGaussianMixture
from momentmix.errors import CapacityError, FitWarning, InputError, InputTypeError

NAMES = ["a", "b", "c", "d", "e", "f"]
BLOCKS = [["b", "a"], [3, 4]]
KINDS = {"diag": None, "block": BLOCKS, "full": None, "auto": None}
# By hand for 2 components of 6 columns: 1 + 2·(6 means + 6 variances + covariances)
PARAMETERS = {"diag": 25, "block": 25 + 2 * 2, "full": 25 + 2 * 15, "auto": 25 + 2 * 2}
JOINED = {
    "diag": [],
    "block": [NAMES[:2], NAMES[3:5]],
    "full": [NAMES],
    "auto": [NAMES[:2], NAMES[3:5]],
}


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(0)
    covariances = np.stack([np.eye(6), 2 * np.eye(6)])
    covariances[:, 0, 1] = covariances[:, 1, 0] = [0.8, -1.4]
    covariances[:, 3, 4] = covariances[:, 4, 3] = [0.5, 1.0]
    return mm.Mixture([0.6, 0.4], 3 * rng.standard_normal((2, 6)), covariances, feature_names=NAMES)


@pytest.fixture(scope="module")
def frame(truth):
    return pd.DataFrame(truth.sample(4000, random_state=1)[0], columns=NAMES)


@pytest.fixture(scope="module")
def models(frame):
    def fitted(kind, blocks):
        model = MomentGaussianMixture(2, covariance_type=kind, blocks=blocks, random_state=0)
        with warnings.catch_warnings():
            if kind == "diag":
                warnings.simplefilter("ignore", FitWarning)
            return model.fit(frame)

    return {kind: fitted(kind, blocks) for kind, blocks in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_those_of_scikit_learn(models, kind):
    model, shape = models[kind], (2, 6) if kind == "diag" else (2, 6, 6)
    assert model.covariances_.shape == model.precisions_.shape == shape
    assert model.precisions_cholesky_.shape == shape
    assert model.blocks_ == JOINED[kind]
    if kind != "diag":
        unit = np.broadcast_to(np.eye(6), shape)
        roots = model.precisions_cholesky_
        np.testing.assert_allclose(model.precisions_ @ model.covariances_, unit, atol=1e-12)
        np.testing.assert_allclose(roots @ roots.swapaxes(1, 2), model.precisions_, rtol=1e-12)
        np.testing.assert_array_equal(roots, np.triu(roots))


@pytest.mark.parametrize("kind", ["block", "full", "auto"])
def test_covariances_are_those_of_the_truth(models, truth, kind):
    covariances = models[kind].covariances_
    # Standard error of a covariance of n normal rows: √((v_j v_k + c²) / n), at most v √(2/n).
    error = np.diagonal(truth.covariances, axis1=1, axis2=2).max() * np.sqrt(2 / 1600)
    np.testing.assert_allclose(covariances, truth.covariances, atol=5 * error)
    if kind != "full":
        np.testing.assert_array_equal(covariances == 0, truth.covariances == 0)


@pytest.mark.parametrize("kind", KINDS)
def test_criteria_count_the_parameters_of_the_blocks(models, frame, kind):
    model, n = models[kind], len(frame)
    total = model.score_samples(frame).sum()
    assert model.bic(frame) == pytest.approx(PARAMETERS[kind] * np.log(n) - 2 * total, rel=1e-12)
    assert model.aic(frame) == pytest.approx(PARAMETERS[kind] * 2 - 2 * total, rel=1e-12)


def test_the_true_blocks_have_the_least_criterion(models, frame):
    criteria = {kind: model.bic(frame) for kind, model in models.items()}
    assert criteria["auto"] == criteria["block"] < criteria["full"] < criteria["diag"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_twin_of_scikit_learn(models, frame, kind):
    model = models[kind]
    twin = model.to_sklearn()
    assert twin.covariance_type == ("diag" if kind == "diag" else "full")
    np.testing.assert_array_equal(model.predict(frame), twin.predict(frame))
    assert model.score(frame) == pytest.approx(twin.score(frame))
    np.testing.assert_allclose(model.score_samples(frame), twin.score_samples(frame), rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(frame), twin.predict_proba(frame), atol=1e-9)
    if kind in ("diag", "full"):
        assert model.bic(frame) == pytest.approx(twin.bic(frame))
        assert model.aic(frame) == pytest.approx(twin.aic(frame))
    assert twin.sample(5)[0].shape == (5, 6)


def test_units_do_not_matter_to_the_precisions(models, frame):
    model = MomentGaussianMixture(2, covariance_type="full", random_state=0)
    units = np.array([1e-100, 1e80, 1.0, 1e-5, 1e9, 1.0])
    scaled = model.fit(frame.to_numpy() * units).precisions_cholesky_ * units[:, None]
    np.testing.assert_allclose(scaled, models["full"].precisions_cholesky_, rtol=1e-6, atol=1e-9)


def test_auto_without_correlations_is_a_diagonal_mixture_in_matrices():
    rng = np.random.default_rng(2)
    truth = mm.DiagonalMixture([0.5, 0.5], [[0.0] * 4, [3.0] * 4], 1 + rng.random((2, 4)))
    rows = truth.sample(3000, random_state=0)[0]
    model = MomentGaussianMixture(2, covariance_type="auto", random_state=0).fit(rows)
    assert model.blocks_ == []
    assert isinstance(model.mixture_, mm.DiagonalMixture)
    assert model.covariances_.shape == (2, 4, 4)
    twin = model.to_sklearn()
    assert twin.covariance_type == "diag"
    np.testing.assert_allclose(model.score_samples(rows), twin.score_samples(rows), rtol=1e-10)
    assert model.bic(rows) == pytest.approx(twin.bic(rows))


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_onnx_through_scikit_learn(models, frame, kind):
    skl2onnx = pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    model, rows = models[kind], frame.to_numpy()
    graph = skl2onnx.to_onnx(model.to_sklearn(), rows[:1])
    session = runtime.InferenceSession(graph.SerializeToString())
    labels = session.run(None, {session.get_inputs()[0].name: rows})[0]
    assert (labels.ravel() == model.predict(frame)).mean() > 0.999


@pytest.mark.parametrize("kind", ["block", "full", "auto"])
def test_moments_alone(frame, truth, kind):
    options = {"blocks": BLOCKS} if kind == "block" else {}
    r = 1 if kind == "full" else 2
    model = MomentGaussianMixture(r, covariance_type=kind, random_state=0, **options)
    for part in (frame[:1500], frame[1500:]):
        model.partial_fit(part)
    assert model.fit_summary().blocks_ == JOINED[kind]
    if kind == "full":  # one component: the covariance of all rows
        np.testing.assert_allclose(model.covariances_[0], np.cov(frame.T, ddof=0), rtol=1e-6)
    else:
        error = 2 * np.sqrt(2 / 1600)
        np.testing.assert_allclose(model.covariances_, truth.covariances, atol=6 * error)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(frame))
    assert clone(model).fit(frame, sample_weight=weights).blocks_ == JOINED[kind]


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "blocks", "message"),
    [
        ("cubic", None, "covariance_type must be one of 'diag', .* got 'cubic'"),
        ("block", None, 'needs blocks, .* or use covariance_type="auto"'),
        ("full", [[0, 1]], "got covariance_type='full'. Use covariance_type=\"block\""),
        ("diag", [[0, 1]], 'blocks are for covariance_type="block"'),
        ("block", [[0, 1], [1, 2]], r"must not overlap; column 1 \('b'\) is in blocks 0 and 1"),
        ("block", [["a", "z"]], "no feature named 'z'; there are 'a', 'b'"),
        ("block", [[0, 6]], "no column 6: blocks take numbers in 0…5, or names"),
        ("block", "ab", "list"),
        ("block", [0, 1], "list"),
        ("block", 3, "list"),
    ],
)
def test_bad_blocks(frame, kind, blocks, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        MomentGaussianMixture(2, covariance_type=kind, blocks=blocks).fit(frame)


def test_a_block_wider_than_the_rows_can_bear(frame):
    model = MomentGaussianMixture(2, covariance_type="full")
    with pytest.raises(InputError, match=r"14 in all; got 12. Use blocks of at most 5 columns"):
        model.fit(frame[:12])


def test_moments_need_three_blocks(frame):
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(frame))
    full = MomentGaussianMixture(2, covariance_type="full", random_state=0)
    two = clone(full).set_params(covariance_type="block", blocks=[[0, 1, 2], ["d", "e", "f"]])
    for model, count in ((full, 1), (two, 2)):
        needed = f"at least three blocks to tell components apart; these are {count}"
        fitted = clone(model).fit(frame, sample_weight=weights)  # passes over the rows need none
        assert fitted.n_iter_ > 1
        with pytest.raises(CapacityError, match=f"{needed}.*or fit the rows"):
            clone(model).set_params(refine=None).fit(frame, sample_weight=weights)
        with pytest.raises(CapacityError, match=f"partial_fit keeps moments.*{needed}"):
            model.partial_fit(frame)
        with pytest.raises(CapacityError, match=f"{needed}.*or fit the rows"):
            model.fit_summary(mm.summarize(frame, order=4))
        assert not hasattr(model, "summary_")
