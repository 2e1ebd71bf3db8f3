"""Tied and spherical covariances: M-steps in closed form, optima, errors, and what rejects them."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import momentmix as mm
from momentmix.errors import InputError
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.gaussian import features_of, m_step
from momentmix.mixture.prior import Structure, VariancePrior

ALL = [[0, 1, 2]]
MATRIX = np.array([[1.0, 0.6, 0.0], [0.6, 2.0, -0.5], [0.0, -0.5, 0.5]])
MEANS = np.array([[0.0, 0.0, 0.0], [4.0, 1.0, 2.0]])


def tied_rows(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.random(n) < 0.4
    return MEANS[label.astype(int)] + rng.multivariate_normal(np.zeros(3), MATRIX, n)


def round_rows(n=6000, seed=0, deviations=(0.5, 2.0)):
    rng = np.random.default_rng(seed)
    label = (rng.random(n) < 0.4).astype(int)
    noise = np.array(deviations)[label][:, None] * rng.standard_normal((n, 3))
    return 3 * MEANS[label] + noise


@pytest.fixture(scope="module")
def tied():
    return mm.fit(tied_rows(), 2, constraint="tied", blocks=ALL, random_state=0)


# -- one M-step -------------------------------------------------------------------------------


@pytest.fixture
def shares():
    shares = np.random.default_rng(1).uniform(size=(2, 500))
    return shares / shares.sum(axis=0)


@pytest.mark.parametrize("joined", [(), ((0, 1, 2),)])
def test_tied_covariances_are_those_within_components(shares, joined):
    rows = tied_rows(500)
    blocks = Blocks.of(3, joined)
    structure = Structure.of_total(1e-6, blocks, np.cov(rows.T, ddof=0))
    prior = VariancePrior.of_rows(500, 2, Structure(
        structure.floor, blocks, structure.roots, constraint="tied"
    ))  # fmt: skip
    p = m_step(shares @ features_of(rows, blocks).T, prior)
    means = shares @ rows / shares.sum(axis=1, keepdims=True)
    within = sum(
        (s[:, None] * (rows - m)).T @ (rows - m) for s, m in zip(shares, means, strict=True)
    )
    expected = within / 500 if joined else np.diag(np.diag(within)) / 500
    np.testing.assert_allclose(p.matrices, [expected] * 2, rtol=1e-9, atol=1e-12)


def test_a_spherical_variance_is_the_most_probable_one(shares):
    rows = round_rows(500)
    scale = rows.std(axis=0)
    units = scale**2 / np.mean(scale**2)
    prior = VariancePrior.of_rows(
        500, 2, Structure(np.full(3, 1e-6), constraint="spherical", units=units)
    )
    z = rows / scale
    p = m_step(shares @ features_of(z).T, prior)
    raw = p.variances * scale**2
    np.testing.assert_allclose(raw, raw[:, :1] * np.ones(3), rtol=1e-12)

    def objective(factor, i):
        """Expected log-likelihood of the rows of component i, and the prior of its variance."""
        v = raw[i, 0] * factor
        squares = (shares[i][:, None] * (rows - p.means[i] * scale) ** 2).sum()
        own = -0.5 * (3 * shares[i].sum() * np.log(v) + squares / v)
        return own + float(prior.log_terms(np.array(v / np.mean(scale**2))))

    for i in range(2):
        best = objective(1.0, i)
        assert best > objective(1.001, i)
        assert best > objective(0.999, i)


# -- fits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "rows"), [("tied", tied_rows()), ("spherical", round_rows())])
def test_the_optimum_is_that_of_plain_em(kind, rows):
    found = mm.fit(rows, 2, constraint=kind, blocks=ALL if kind == "tied" else None, random_state=0)
    plain = GaussianMixture(2, covariance_type=kind, n_init=5, tol=1e-8, random_state=0).fit(rows)
    # The prior of spherical variances shifts them by a part of 1/n, and the likelihood by 1/n².
    assert found.log_likelihood == pytest.approx(plain.score(rows), abs=1e-6)
    assert found.certificate.verdict == "passed"
    assert np.all(np.diff(found.log_likelihoods) > -1e-6)
    logs = found.mixture.log_prob(rows)
    assert found.log_likelihood == pytest.approx(logs.mean(), abs=1e-6)


def test_components_of_tied_covariances_are_equal_to_the_last_bit(tied):
    found = tied.mixture
    np.testing.assert_array_equal(found.covariances[0], found.covariances[1])
    # Standard error of a covariance from n normal rows: √((v_j v_k + c²) / n).
    v = np.diag(MATRIX)
    error = np.sqrt((v[:, None] * v + MATRIX**2) / 6000)
    np.testing.assert_array_less(np.abs(found.covariances[0] - MATRIX), 5 * error)


def test_tied_blocks_and_tied_variances():
    rows = tied_rows()
    diagonal = mm.fit(rows, 2, constraint="tied", random_state=0).mixture
    assert isinstance(diagonal, mm.DiagonalMixture)
    np.testing.assert_array_equal(diagonal.variances[0], diagonal.variances[1])
    pair = mm.fit(rows, 2, constraint="tied", blocks=[[0, 1]], random_state=0).mixture
    np.testing.assert_array_equal(pair.covariances[0], pair.covariances[1])
    assert pair.covariances[0, 0, 2] == 0


def test_one_component_in_closed_form():
    rows = tied_rows(500)
    one = mm.fit(rows, 1, constraint="spherical").mixture
    assert one.variances[0] == pytest.approx(np.full(3, rows.var(axis=0).mean()), rel=1e-9)
    tied = mm.fit(rows, 1, constraint="tied", blocks=ALL)
    np.testing.assert_allclose(tied.mixture.covariances[0], np.cov(rows.T, ddof=0), rtol=1e-6)
    assert "constraint" not in [f.kind for f in tied.certificate.findings]


def test_errors_know_that_a_variance_is_shared(tied):
    n = 6000
    # All rows tell of the one variance, whose relative error is √(2/n); components overlap little.
    expected = np.diag(MATRIX) * np.sqrt(2 / n)
    for found in tied.standard_errors.variances:
        np.testing.assert_allclose(found, expected, rtol=0.06)
    round_ = mm.fit(round_rows(n), 2, constraint="spherical", random_state=0)
    # Three columns of the component's rows tell of its variance.
    own = round_.mixture.variances[:, 0] * np.sqrt(2 / (3 * n * round_.mixture.weights))
    np.testing.assert_allclose(
        round_.standard_errors.variances, own[:, None] * np.ones(3), rtol=0.06
    )


@pytest.mark.parametrize(
    ("kind", "rows", "advice"),
    [
        ("tied", round_rows(), "covariance_type='full'"),
        ("spherical", tied_rows(), "covariance_type='diag'"),
    ],
)
def test_rows_that_reject_the_constraint(kind, rows, advice):
    found = mm.fit(
        rows, 2, constraint=kind, blocks=ALL if kind == "tied" else None, random_state=0
    ).certificate
    assert found.verdict == "useful"  # the groups are right, the covariances are not
    (finding,) = [f for f in found.findings if f.kind == "constraint"]
    assert f"the rows reject {kind} covariances" in finding.text
    assert finding.code == advice


def test_whole_weights_are_repeated_rows():
    rows, weights = round_rows(800), np.random.default_rng(0).integers(0, 3, 800)
    a = mm.fit(rows, 2, constraint="spherical", sample_weight=weights, random_state=0).mixture
    b = mm.fit(np.repeat(rows, weights, axis=0), 2, constraint="spherical", random_state=0).mixture
    np.testing.assert_array_equal(a.variances, b.variances)
    other = np.random.default_rng(0).uniform(0.5, 1.5, 800)
    c = mm.fit(rows, 2, constraint="spherical", sample_weight=other, random_state=0)
    assert np.isfinite(c.standard_errors.variances).all()


def test_a_constant_column():
    rows = tied_rows(2000)
    rows[:, 1] = 7.0
    found = mm.fit(rows, 2, constraint="tied", blocks=ALL, random_state=0).mixture
    np.testing.assert_array_equal(found.covariances[0], found.covariances[1])
    with pytest.raises(InputError, match="column 1 is constant, so that one variance cannot hold"):
        mm.fit(rows, 2, constraint="spherical")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraint": "cubic"}, 'must be "tied" or "spherical"; got \'cubic\''),
        ({"refine": None}, "tied covariances are fitted by passes over the rows"),
        ({"n_components": "auto"}, 'n_components="auto" does not go with tied covariances'),
        ({"blocks": "auto"}, "tied covariances do not go with blocks='auto'"),
        ({"constraint": "spherical", "blocks": ALL}, "and none for spherical ones"),
        ({"families": {0: "poisson"}}, "tied covariances are for numbers"),
        ({"method": "paper"}, "method='paper' takes no constraint and no start"),
    ],
)
def test_what_a_constraint_does_not_go_with(options, message):
    rows = np.abs(tied_rows(200)).round()
    with pytest.raises(InputError, match=message):
        mm.fit(rows, **{"n_components": 2, "constraint": "tied", **options})


def test_a_summary_and_columns_of_too_different_units():
    rows = tied_rows(300)
    with pytest.raises(InputError, match="there are none from a summary"):
        mm.fit(mm.summarize(rows, 3), 2, constraint="tied")
    with pytest.raises(InputError, match="less than 1e-8 of another's, as that of 0"):
        mm.fit(rows * [1e-9, 1.0, 1.0], 2, constraint="spherical")
