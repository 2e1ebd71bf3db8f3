"""scikit-learn's names: each has a meaning or says that it has none; and no hidden fits."""

import copy
import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.utils.validation import check_is_fitted

import momentmix as mm
from momentmix import MomentGaussianMixture, MomentMixture
from momentmix.errors import CapacityError, InputError

BOTH = pytest.mark.parametrize("kind", [MomentGaussianMixture, MomentMixture])
MEANS = np.array([[0, 0, 0, 0, 0, 0], [4, 3, 0, 1, 4, 2], [0, 4, 4, 2, 0, 3]], dtype=float)
TRUTH = mm.DiagonalMixture([0.5, 0.3, 0.2], MEANS, 1 + (MEANS > 1))


@pytest.fixture(scope="module")
def rows():
    return TRUTH.sample(3000, random_state=0)[0]


@pytest.fixture(scope="module")
def model(rows):
    return MomentGaussianMixture(3, random_state=0).fit(rows)


# -- parameters -------------------------------------------------------------------------------


def test_every_parameter_of_gaussian_mixture_is_there():
    theirs = inspect.signature(GaussianMixture).parameters
    ours = inspect.signature(MomentGaussianMixture).parameters
    assert set(theirs) <= set(ours)
    # Where a default differs, None or "diag" stands for what this library did before it had them.
    differ = {name for name in theirs if theirs[name].default != ours[name].default}
    assert differ == {"covariance_type", "tol", "reg_covar", "max_iter"}


@BOTH
def test_n_jobs_is_n_threads(kind, rows):
    means = [kind(1, n_jobs=n).fit(rows[:100]).means_ for n in (None, 1, 3, -1, -2, -1000)]
    assert all((m == means[0]).all() for m in means)
    with pytest.raises(InputError, match=r"n_jobs=2 and n_threads=1\. Give one of them"):
        kind(1, n_jobs=2, n_threads=1).fit(rows)
    for n_jobs in (0, 1.5, True):
        with pytest.raises(InputError, match="n_jobs must be an integer that is not 0"):
            kind(1, n_jobs=n_jobs).fit(rows)


@BOTH
def test_max_iter_is_max_passes(kind, rows):
    for given in ({"max_passes": 1}, {"max_iter": 1}):
        with pytest.warns(ConvergenceWarning, match="after 1 passes over the rows"):
            assert clone(kind(3, random_state=0)).set_params(**given).fit(rows).n_iter_ == 1
    with pytest.raises(InputError, match=r"max_iter=2 and max_passes=3\. Give one of them"):
        kind(3, max_iter=2, max_passes=3).fit(rows)


@BOTH
def test_tol_ends_the_passes(kind, rows):
    passes = {}
    for tol in (None, 1e9, 1e-12):
        estimator = kind(3, tol=tol, random_state=0).fit(rows)
        assert estimator.converged_
        passes[tol] = estimator.n_iter_
    assert passes[1e9] == 2  # the first gain is known after two
    assert passes[1e9] <= passes[None] <= passes[1e-12]
    for tol in (-1.0, np.nan, "small", True):
        with pytest.raises(InputError, match="tol must be a number that is not negative"):
            kind(3, tol=tol).fit(rows)


@BOTH
def test_passes_that_run_out(kind, rows):
    with pytest.warns(ConvergenceWarning, match="after 0 passes"):
        begin = kind(3, max_iter=0, random_state=0).fit(rows)
    assert begin.n_iter_ == 0
    assert begin.lower_bounds_ == []
    assert not begin.converged_
    assert begin.lower_bound_ == pytest.approx(begin.score(rows), abs=1e-9)
    with pytest.warns(ConvergenceWarning, match="after 1 passes"):
        assert kind(3, max_iter=1, random_state=0).fit(rows).n_iter_ == 1
    with pytest.raises(InputError, match="max_iter"):
        kind(3, max_iter=-1).fit(rows)


def test_n_init_asks_for_all_starts(rows):
    many = TRUTH.sample(9000, random_state=1)[0]
    few, all_ = (
        MomentGaussianMixture(3, n_init=n, random_state=0).fit(many).result_ for n in (1, 10)
    )
    assert len(few.candidates) < len(all_.candidates)
    assert few.log_likelihood == pytest.approx(all_.log_likelihood, abs=1e-5)
    with pytest.raises(InputError, match="n_init"):
        MomentGaussianMixture(3, n_init=0).fit(rows)


def test_reg_covar_is_a_floor(rows):
    narrow = np.concatenate([rows, rows[:300] * 1e-3 + 50.0])
    floored = MomentGaussianMixture(4, reg_covar=1e-2, random_state=0).fit(narrow)
    free = MomentGaussianMixture(4, random_state=0).fit(narrow)
    least = 1e-2 * narrow.var(axis=0)
    assert (floored.covariances_ >= least * (1 - 1e-9)).all()
    assert (free.covariances_ < least).any()
    same = MomentGaussianMixture(4, variance_floor=1e-2, reg_covar=1e-9, random_state=0).fit(narrow)
    np.testing.assert_array_equal(same.covariances_, floored.covariances_)
    for value in (1.0, -1e-9):
        with pytest.raises(InputError, match="reg_covar must lie between 0 and 1"):
            MomentGaussianMixture(2, reg_covar=value).fit(rows)


@BOTH
def test_verbose_prints_the_stages(kind, rows, capsys):
    kind(2, verbose=1, random_state=0).fit(rows[:300])
    lines = capsys.readouterr().out.splitlines()
    assert f"{kind.__name__}: moments" in lines
    assert f"{kind.__name__}: passes" in lines
    kind(2, verbose=2, random_state=0).fit(rows[:300])
    assert ", after 0." in capsys.readouterr().out
    kind(2, verbose=False, random_state=0).fit(rows[:300])
    assert not capsys.readouterr().out
    with pytest.raises((TypeError, ValueError), match="verbose"):
        kind(2, verbose="much").fit(rows)


def test_names_without_effect_say_so(rows):
    part = rows[:1000]
    plain = MomentGaussianMixture(3, random_state=0).fit(part)
    for options, message in (
        ({"init_params": "random"}, "init_params='random' has no effect: in every fit"),
        ({"verbose_interval": 1}, "verbose_interval=1 has no effect"),
        ({"weights_init": [0.5, 0.5, 0]}, "weights_init has no effect without means_init"),
        ({"precisions_init": np.ones((3, 6))}, "precisions_init has no effect without means_init"),
    ):
        with pytest.warns(UserWarning, match=message) as seen:
            found = MomentGaussianMixture(3, random_state=0, **options).fit(part)
        assert [w.filename for w in seen] == [__file__]
        np.testing.assert_array_equal(found.means_, plain.means_)
    with pytest.raises(InputError, match=r"init_params must be one of 'kmeans', .*got 'magic'"):
        MomentGaussianMixture(3, init_params="magic").fit(part)


# -- starts -----------------------------------------------------------------------------------


def test_components_come_in_the_order_of_the_means(rows, model):
    assert np.argsort(-model.weights_).tolist() == [0, 1, 2]
    for order in ([2, 0, 1], [1, 2, 0]):
        found = MomentGaussianMixture(3, means_init=TRUTH.means[order], random_state=0).fit(rows)
        assert found.result_.winner == "given start"
        np.testing.assert_allclose(found.means_, model.means_[order], atol=2e-3)
        np.testing.assert_allclose(
            found.standard_errors_.means, model.standard_errors_.means[order], rtol=0.02
        )
        parts = clone(found).partial_fit(rows[:1500]).partial_fit(rows[1500:]).fit_summary()
        error = model.standard_errors_.means[order]
        np.testing.assert_array_less(np.abs(parts.means_ - model.means_[order]), 12 * error)


def test_em_starts_where_it_is_told(rows):
    """From two means at one place EM stays there: no search takes over."""
    same = np.zeros((2, 6))
    options = {"weights_init": [0.5, 0.5], "precisions_init": np.ones((2, 6))}
    stuck = MomentGaussianMixture(2, means_init=same, random_state=0, **options).fit(rows)
    with pytest.warns(mm.FitWarning):
        assert not stuck.certificate_.passed
    np.testing.assert_allclose(stuck.means_, [rows.mean(axis=0)] * 2, atol=1e-9)


@pytest.mark.filterwarnings("ignore::momentmix.FitWarning")
@pytest.mark.parametrize("kind", ["diag", "spherical", "tied", "full"])
def test_a_start_at_the_answer_stays_there(rows, kind):
    options = {"covariance_type": kind, "random_state": 0}
    first, order = MomentGaussianMixture(3, **options).fit(rows), [1, 2, 0]
    precisions = first.precisions_ if kind == "tied" else first.precisions_[order]
    again = MomentGaussianMixture(
        3, means_init=first.means_[order], weights_init=first.weights_[order],
        precisions_init=precisions, **options,
    ).fit(rows)  # fmt: skip
    assert again.n_iter_ <= 3
    np.testing.assert_allclose(again.means_, first.means_[order], atol=1e-2)
    assert again.lower_bounds_[0] == pytest.approx(first.lower_bound_, abs=1e-5)


@BOTH
def test_warm_start_goes_on_from_the_last_fit(kind, rows):
    warm = kind(3, warm_start=True, random_state=0).fit(rows[:1500])
    first = warm.means_
    assert warm.fit(rows).result_.winner == "given start"
    np.testing.assert_allclose(warm.means_, first, atol=0.5)  # the order is kept
    assert warm.fit(rows[:, 1:]).result_.winner != "given start"
    assert warm.set_params(n_components=1).fit(rows).result_.winner == "closed form"
    cold = kind(3, random_state=0).fit(rows[:1500])
    assert cold.fit(rows).result_.winner != "given start"


def test_warm_start_of_a_table_with_families_and_gaps():
    rng = np.random.default_rng(0)
    label = rng.random(4000) < 0.4
    frame = pd.DataFrame(
        {
            "visits": rng.poisson(np.where(label, 6.0, 1.0)),
            "member": rng.random(4000) < np.where(label, 0.8, 0.2),
            "age": rng.normal(np.where(label, 60.0, 30.0), 5.0),
        }
    )
    frame.loc[rng.random(4000) < 0.1, "age"] = np.nan
    families = {"visits": "poisson", "member": "bernoulli"}
    warm = MomentMixture(2, families=families, missing="model", warm_start=True, random_state=0)
    first = warm.fit(frame[:2000]).means_
    again = warm.fit(frame[2000:])
    assert again.result_.winner == "given start"
    np.testing.assert_allclose(again.means_, first, atol=1.0)
    complete = frame.dropna()  # no column has gaps now
    assert warm.fit(complete).result_.winner == "given start"
    assert warm.fit(frame).result_.winner == "given start"
    with pytest.raises(InputError, match="of the same families and levels"):
        warm.set_params(families={**families, "visits": "categorical"}).fit(frame)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"means_init": np.zeros((2, 6))}, r"= \(3, 6\); got \(2, 6\)"),
        ({"means_init": np.zeros((3, 5))}, r"= \(3, 6\); got \(3, 5\)"),
        ({"means_init": np.full((3, 6), np.nan)}, "means_init"),
        ({"means_init": TRUTH.means, "n_components": "auto"}, 'got n_components="auto"'),
        ({"means_init": TRUTH.means, "weights_init": [0.5, 0.5]}, r"must be 3 numbers.*shape \(2,"),
        ({"means_init": TRUTH.means, "weights_init": [1, 1, 1]}, "sum to 1; got .* sum 3"),
        ({"means_init": TRUTH.means, "weights_init": [-1, 1, 1]}, "not negative"),
        ({"means_init": TRUTH.means, "precisions_init": np.ones(3)}, r"shape \(3, 6\) for"),
        ({"means_init": TRUTH.means, "precisions_init": -np.ones((3, 6))}, "must be positive"),
        ({"means_init": TRUTH.means, "method": "paper"}, "no constraint and no start"),
    ],
)
def test_bad_starts(rows, options, message):
    with pytest.raises(InputError, match=message):
        MomentGaussianMixture(**{"n_components": 3, **options}).fit(rows)


@pytest.mark.parametrize(
    ("kind", "precisions"),
    [
        ("spherical", np.ones((3, 6))),
        ("tied", np.ones((6, 3))),
        ("full", np.ones((3, 6))),
        ("full", np.stack([np.triu(np.ones((6, 6)))] * 3)),
    ],
)
def test_precisions_of_another_shape(rows, kind, precisions):
    model = MomentGaussianMixture(3, covariance_type=kind, means_init=TRUTH.means)
    with pytest.raises(InputError, match="precisions_init must"):
        model.set_params(precisions_init=precisions).fit(rows)


def test_fit_takes_a_mixture_or_means_as_its_start(rows, model):
    turned = TRUTH.means[::-1]
    by_means = mm.fit(rows, 3, start=turned, random_state=0)
    by_mixture = mm.fit(rows, 3, start=TRUTH, random_state=0)
    np.testing.assert_allclose(by_means.mixture.means[::-1], model.means_, atol=2e-3)
    np.testing.assert_allclose(by_mixture.mixture.means, model.means_, atol=2e-3)
    assert by_mixture.winner == "given start"
    counts = mm.Mixture.from_blocks([0.5, 0.3, 0.2], [mm.PoissonBlock([1.0, 2.0, 3.0])] * 6)
    with pytest.raises(InputError, match="of the same families and levels"):
        mm.fit(rows, 3, start=counts)


# -- covariance types -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tied", "spherical"])
@pytest.mark.filterwarnings("ignore::momentmix.FitWarning")
def test_shared_covariances_as_scikit_learn_has_them(rows, kind):
    found = MomentGaussianMixture(3, covariance_type=kind, random_state=0).fit(rows)
    twin = found.to_sklearn()
    assert twin.covariance_type == kind
    np.testing.assert_allclose(found.score_samples(rows), twin.score_samples(rows), rtol=1e-9)
    assert found.bic(rows) == pytest.approx(twin.bic(rows))
    assert found.aic(rows) == pytest.approx(twin.aic(rows))
    theirs = GaussianMixture(3, covariance_type=kind, random_state=0).fit(rows)
    for name in ("covariances_", "precisions_", "precisions_cholesky_"):
        assert getattr(found, name).shape == getattr(theirs, name).shape
    assert found.score(rows) > theirs.score(rows) - 1e-5


@pytest.mark.parametrize("kind", ["tied", "spherical"])
def test_shared_covariances_need_rows(rows, kind):
    model = MomentGaussianMixture(3, covariance_type=kind)
    with pytest.raises(CapacityError, match=f"{kind} covariances are fitted by passes"):
        model.partial_fit(rows)
    with pytest.raises(InputError, match=f"{kind} covariances are fitted by passes"):
        model.fit_summary(mm.summarize(rows, 3))
    assert not hasattr(model, "summary_")


# -- attributes -------------------------------------------------------------------------------


@BOTH
def test_lower_bounds_are_those_of_the_passes(kind, rows):
    found = kind(3, random_state=0).fit(rows)
    assert found.n_iter_ == found.result_.n_passes - 1 >= 2
    assert 1 < len(found.lower_bounds_) <= found.n_iter_
    assert found.lower_bounds_[-1] == found.lower_bound_
    # EM maximizes the likelihood times a prior that changes little from pass to pass.
    assert (np.diff(found.lower_bounds_) > -1e-6).all()
    summarized = kind(3, random_state=0).fit_summary(mm.summarize(rows, 4))
    assert summarized.n_iter_ == 0
    assert summarized.lower_bounds_ == []
    assert np.isnan(summarized.lower_bound_)


# -- no hidden fits ---------------------------------------------------------------------------


@BOTH
def test_looking_at_an_estimator_makes_no_fit(kind, rows):
    model = kind(2, random_state=0)
    with pytest.raises(NotFittedError, match=r"fit_summary\(\) without a summary"):
        model.fit_summary()
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    model.partial_fit(rows[:1000])
    repr(model)
    model._repr_html_()
    inspect.getmembers(model)
    check_is_fitted(model)
    twins = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    clone(model)
    for name in ("result_", "mixture_", "weights_", "means_", "n_iter_", "certificate_", "blocks_"):
        assert not hasattr(model, name)
        assert getattr(model, name, None) is None
    with pytest.raises(NotFittedError, match=r"weights_ is not known yet.*fit_summary\(\)"):
        model.weights_  # noqa: B018
    labels, result = model.predict(rows), model.result_
    for twin in twins:
        np.testing.assert_array_equal(twin.predict(rows), labels)
    assert model.fit_summary().result_ is not result  # asked for again
    model.partial_fit(rows[1000:1500])
    assert not hasattr(model, "weights_")  # those of fewer rows are out of date
    assert model.fit_summary().summary_.n_rows == 1500


@BOTH
def test_a_fit_that_fails_leaves_the_rows(kind, rows):
    model = kind(20, random_state=0).partial_fit(rows[:10])
    for _ in range(2):
        with pytest.raises(ValueError, match="component"):
            model.predict(rows)
        with pytest.raises(ValueError, match="component"):
            model.fit_summary()
    assert model.summary_.n_rows == 10
    assert not hasattr(model, "weights_")
    assert model.set_params(n_components=1).predict(rows[:5]).tolist() == [0] * 5


# -- weights of rows --------------------------------------------------------------------------
