"""What scikit-learn's examples do with GaussianMixture runs with another import line.

Every use is run with scikit-learn's class too: the same lines have to serve both.
"""

import warnings

import numpy as np
import pytest
from sklearn import mixture
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import momentmix as mm

TYPES = ["spherical", "tied", "diag", "full"]
pytestmark = pytest.mark.filterwarnings("ignore::momentmix.CertificateWarning")


@pytest.fixture(params=[mixture.GaussianMixture, mm.MomentGaussianMixture], ids=["theirs", "ours"])
def GaussianMixture(request):  # noqa: N802
    return request.param


def two_clouds(n=500, seed=0):
    """A long, tilted cloud and a round one, the same number of rows each."""
    rng = np.random.default_rng(seed)
    tilted = rng.standard_normal((n, 2)) @ np.array([[0.0, -0.2], [1.5, 0.6]])
    round_ = 0.6 * rng.standard_normal((n, 2)) + [-5.0, 2.0]
    return np.stack([tilted, round_], axis=1).reshape(-1, 2)  # by turns


def four_squares(n=150, seed=0):
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [6.0, 6.0]])
    return np.concatenate([c + rng.standard_normal((n, 2)) for c in centers]), centers


def test_number_and_type_are_chosen_by_bic(GaussianMixture):
    def negative_bic(estimator, X):
        return -estimator.bic(X)

    rows = two_clouds()
    grid = {"n_components": range(1, 4), "covariance_type": TYPES}
    search = GridSearchCV(GaussianMixture(random_state=0), grid, scoring=negative_bic, cv=2)
    search.fit(rows)
    assert search.best_params_ == {"n_components": 2, "covariance_type": "full"}
    best = search.best_estimator_
    assert best.covariances_.shape == (2, 2, 2)
    values = [np.linalg.eigh(matrix)[0] for matrix in best.covariances_]
    assert max(v[1] / v[0] for v in values) > 50  # the long cloud
    sides = best.predict(rows)
    assert max((sides[::2] == side).mean() for side in (0, 1)) > 0.99


def test_density_on_a_grid(GaussianMixture):
    rows = two_clouds()
    model = GaussianMixture(n_components=2, covariance_type="full", random_state=0).fit(rows)
    x, y = np.meshgrid(np.linspace(-12, 12, 241), np.linspace(-12, 12, 241))
    density = np.exp(model.score_samples(np.column_stack([x.ravel(), y.ravel()])))
    assert density.reshape(x.shape).sum() * 0.1**2 == pytest.approx(1.0, abs=5e-3)


def test_rows_below_a_quantile_are_anomalies(GaussianMixture):
    rows = two_clouds()
    model = GaussianMixture(n_components=2, covariance_type="full", random_state=0).fit(rows)
    scores = model.score_samples(rows)
    threshold = np.quantile(scores, 0.04)
    assert (scores < threshold).sum() == 40
    far = np.array([[8.0, -9.0], [-9.0, -9.0]])
    assert (model.score_samples(far) < threshold).all()
    assert (model.score_samples(model.means_) > threshold).all()


def test_draws_look_like_the_rows(GaussianMixture):
    rows = two_clouds()
    model = GaussianMixture(n_components=2, covariance_type="full", random_state=0).fit(rows)
    drawn, labels = model.sample(20_000)
    assert drawn.shape == (20_000, 2)
    assert labels.shape == (20_000,)
    error = rows.std(axis=0) / np.sqrt(20_000)
    mean = model.weights_ @ model.means_
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - mean), 5 * error)
    np.testing.assert_array_less(np.abs(rows.mean(axis=0) - mean), 1e-2)


def test_many_components_along_a_curve(GaussianMixture):
    rng = np.random.default_rng(3)
    x = np.linspace(0, 4 * np.pi, 100)
    rows = np.column_stack([x, 3 * np.sin(x)]) + 0.2 * rng.standard_normal((100, 2))
    model = GaussianMixture(n_components=10, covariance_type="full", max_iter=100, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(rows)
    drawn, _ = model.sample(100)
    assert drawn[:, 0].min() > -4
    assert drawn[:, 0].max() < 4 * np.pi + 4


def test_shares_of_each_row(GaussianMixture):
    rows = two_clouds()
    model = GaussianMixture(n_components=2, covariance_type="full", random_state=0).fit(rows)
    shares = model.predict_proba(rows)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shares.argmax(axis=1), model.predict(rows))
    joint = model.weights_[:, None] * [
        np.exp(-0.5 * np.einsum("ij,jk,ik->i", rows - m, p, rows - m)) * np.sqrt(np.linalg.det(p))
        for m, p in zip(model.means_, model.precisions_, strict=True)
    ]
    np.testing.assert_allclose(shares, (joint / joint.sum(axis=0)).T, atol=1e-9)


@pytest.mark.parametrize("init_params", ["kmeans", "random", "random_from_data", "k-means++"])
def test_ways_to_begin(GaussianMixture, init_params):
    rows, centers = four_squares()
    options = {"n_components": 4, "tol": 1e-9, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="init_params=.* has no effect")
        begin = GaussianMixture(init_params=init_params, max_iter=0, **options).fit(rows)
    assert begin.means_.shape == (4, 2)
    model = GaussianMixture(
        means_init=begin.means_, weights_init=np.ones(4) / 4, max_iter=2000, **options
    ).fit(rows)
    assert model.converged_
    assert model.n_iter_ >= 1
    if GaussianMixture is mm.MomentGaussianMixture or init_params != "random":
        found = model.means_[np.lexsort(model.means_.T.round())]
        error = 1 / np.sqrt(150)
        np.testing.assert_allclose(found, centers, atol=5 * error)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of 20 passes
@pytest.mark.parametrize("kind", TYPES)
def test_labels_follow_the_means_that_were_given(GaussianMixture, kind):
    rows, labels = load_iris(return_X_y=True)
    train, test = next(StratifiedKFold(n_splits=4).split(rows, labels))
    model = GaussianMixture(3, covariance_type=kind, max_iter=20, random_state=0)
    model.means_init = np.array([rows[train][labels[train] == i].mean(axis=0) for i in range(3)])
    model.fit(rows[train])
    assert (model.predict(rows[train]) == labels[train]).mean() > 0.85
    assert (model.predict(rows[test]) == labels[test]).mean() > 0.85
    shapes = {"spherical": (3,), "tied": (4, 4), "diag": (3, 4), "full": (3, 4, 4)}
    assert model.covariances_.shape == shapes[kind]
