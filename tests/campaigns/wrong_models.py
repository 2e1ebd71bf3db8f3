"""Fits that cannot be trusted: an error or the certificate must speak; no number is broken."""

import warnings
from collections import Counter

import numpy as np

from momentmix.errors import FitWarning, MomentmixError
from momentmix.fitting.api import fit
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summarize import summarize


def mixture_rows(rng, n, d, r, spread=3.0):
    """Rows of r components with means of the given spread."""
    truth = Mixture.diagonal(
        rng.dirichlet(np.full(r, 5.0)),
        spread * rng.standard_normal((r, d)),
        0.5 + rng.random((r, d)),
    )
    return truth.sample(n, random_state=rng)[0]


# Each kind gives rows, a number of components, and whether the certificate must not pass.


def too_many(rng, n, d):
    return mixture_rows(rng, n, d, 2), int(rng.integers(4, 8)), False


def too_few(rng, n, d):
    return mixture_rows(rng, max(n, 3000), max(d, 4), 4, 6.0), int(rng.integers(1, 3)), True


def duplicate_components(rng, n, d):
    one = mixture_rows(rng, n, d, 1)
    return np.concatenate([one, one + 1e-9]), 2, False


def heavy_tails(rng, n, d):
    rows = rng.standard_cauchy((max(n, 2000), max(d, 3)))
    return rows, int(rng.integers(1, 4)), True


def student_tails(rng, n, d):
    return rng.standard_t(2.5, (n, d)), int(rng.integers(1, 4)), False


def outliers(rng, n, d):
    rows = mixture_rows(rng, n, d, 2)
    rows[rng.integers(n, size=2)] *= 10.0 ** rng.uniform(2, 8)
    return rows, 2, False


def correlated(rng, n, d):
    n, d = max(n, 5000), max(d, 3)
    return rng.standard_normal((n, 1)) + 0.5 * rng.standard_normal((n, d)), 1, True


def collinear(rng, n, d):
    rows = mixture_rows(rng, n, max(d, 3), 2)
    rows[:, 1] = 2 * rows[:, 0] - 1
    return rows, 2, False


def constant_columns(rng, n, d):
    rows = mixture_rows(rng, n, d + 1, 2)
    rows[:, rng.permutation(d + 1)[: rng.integers(1, d + 2)]] = rng.choice([0.0, 0.1, -1e9])
    return rows, int(rng.integers(1, 4)), False


def tiny(rng, n, d):
    return mixture_rows(rng, int(rng.integers(1, 12)), d, 2), int(rng.integers(1, 4)), False


def integers(rng, n, d):
    return rng.integers(0, 3, (n, d)).astype(float), int(rng.integers(1, 4)), False


def repeated_rows(rng, n, d):
    return np.repeat(rng.standard_normal((3, d)), n // 3, axis=0), int(rng.integers(1, 5)), False


def uneven_scales(rng, n, d):
    return mixture_rows(rng, n, d, 2) * 10.0 ** rng.uniform(-100, 100, d), 2, False


def far_offset(rng, n, d):
    return mixture_rows(rng, n, d, 2) + 1e12, 2, False


def mostly_zero(rng, n, d):
    return mixture_rows(rng, n, d, 2) * (rng.random((n, d)) < 0.05), 2, False


KINDS = [too_many, too_few, duplicate_components, heavy_tails, student_tails, outliers, correlated]
KINDS += [collinear, constant_columns, tiny, integers, repeated_rows, uneven_scales, far_offset]
KINDS += [mostly_zero]


def check_numbers(result):
    """No NaN, no negative weight or variance, weights that sum to 1; nothing passes untested."""
    m, certificate = result.mixture, result.certificate
    assert np.isfinite(m.weights).all()
    assert np.isfinite(m.means).all()
    assert np.isfinite(m.variances).all()
    assert (m.weights >= 0).all()
    assert abs(m.weights.sum() - 1) < 1e-9
    assert (m.variances > 0).all()
    assert np.isfinite(m.log_prob(m.means)).all()
    assert certificate.passed == (not certificate.reasons and not certificate.untested)
    if certificate.passed:
        assert np.isfinite(certificate.predicted_loss), "passed with an unknown loss"
        assert not certificate.test.testable or np.isfinite(certificate.p_value), "passed untested"
    word = certificate.verdict if certificate.verdict == "useful" else certificate.verdict.upper()
    assert certificate.passed or word in result.details()
    if result.uncertainty is not None:
        parts = vars(result.intervals()).values()
        is_known = not any(f.kind == "unknown-weights" for f in certificate.findings)
        for part in (part for part in parts if part is not None):  # no covariances: diagonal
            assert not (is_known and np.isnan(part).any()), "an interval is NaN"


def untrustworthy_fits(start, stop, seed):
    """A case: rows of one kind, fitted from moments alone or with passes."""
    counts = Counter()
    for number in range(start, stop):
        rng = np.random.default_rng([seed, 5, number])
        kind = KINDS[number % len(KINDS)]
        n, d = int(rng.integers(60, 1500)), int(rng.integers(2, 6))
        rows, r, must_fail = kind(rng, n, d)
        way = number // len(KINDS) % 5
        options = {"random_state": number}
        place = f"case {number} ({kind.__name__}, r={r}, {options})"
        if number % 7 == 6:
            r = "auto"
        counts["untrustworthy fits"] += 1
        must_fail &= r != "auto"
        counts[_outcome(rows, r, must_fail, way % 2 == 1, options, place)] += 1
    return counts


def _outcome(rows, r, must_fail, is_summarized, options, place):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FitWarning)  # it speaks, too
        try:
            data = summarize(rows) if is_summarized else rows
            few = {} if is_summarized else {"max_passes": 20}
            result = fit(data, r, **few, **options)
        except MomentmixError as error:
            text = str(error)
        except Exception as error:
            raise AssertionError(f"{place}: untyped {type(error).__name__}: {error}") from error
        else:
            try:
                check_numbers(result)
            except AssertionError as error:
                raise AssertionError(f"{place}: {error}") from error
            silent = result.certificate.passed and not result.certificate.findings
            assert not (must_fail and silent), f"{place}: passed without a word"
            return result.certificate.verdict
    assert len(text) > 30, f"{place}: {text}"
    assert ". " in text, f"{place}: no cure in {text!r}"
    return "refused"
