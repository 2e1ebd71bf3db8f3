"""What scikit-learn's examples do with GaussianMixture runs with another import line."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from momentmix import MomentGaussianMixture as GaussianMixture

TYPES = ["spherical", "tied", "diag", "full"]
pytestmark = pytest.mark.filterwarnings("ignore::momentmix.CertificateWarning")


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


def test_number_and_type_are_chosen_by_bic():
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


def test_rows_below_a_quantile_are_anomalies():
    rows = two_clouds()
    model = GaussianMixture(n_components=2, covariance_type="full", random_state=0).fit(rows)
    scores = model.score_samples(rows)
    threshold = np.quantile(scores, 0.04)
    assert (scores < threshold).sum() == 40
    far = np.array([[8.0, -9.0], [-9.0, -9.0]])
    assert (model.score_samples(far) < threshold).all()
    assert (model.score_samples(model.means_) > threshold).all()


@pytest.mark.parametrize("init_params", ["kmeans", "random", "random_from_data", "k-means++"])
def test_ways_to_begin(init_params):
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
    found = model.means_[np.lexsort(model.means_.T.round())]
    np.testing.assert_allclose(found, centers, atol=5 / np.sqrt(150))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of 20 passes
@pytest.mark.parametrize("kind", TYPES)
def test_labels_follow_the_means_that_were_given(kind):
    rows, labels = load_iris(return_X_y=True)
    train, test = next(StratifiedKFold(n_splits=4).split(rows, labels))
    model = GaussianMixture(3, covariance_type=kind, max_iter=20, random_state=0)
    model.means_init = np.array([rows[train][labels[train] == i].mean(axis=0) for i in range(3)])
    model.fit(rows[train])
    assert (model.predict(rows[train]) == labels[train]).mean() > 0.85
    assert (model.predict(rows[test]) == labels[test]).mean() > 0.85
    shapes = {"spherical": (3,), "tied": (4, 4), "diag": (3, 4), "full": (3, 4, 4)}
    assert model.covariances_.shape == shapes[kind]
