"""What notebooks and prompts show: short texts, and HTML that holds no markup of the data."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

MOST = 2000
LEVELS = ("a", "b", "<i>")


class Fragment(HTMLParser):
    """Elements and text of a fragment; raises where elements do not close in order."""

    def __init__(self, html):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.seen.append(tag)
        assert not [name for name, _ in attributes if name.startswith("on")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def wide():
    """Many components and columns with long names."""
    rng = np.random.default_rng(0)
    r, d = 30, 80
    names = [f"a rather long name of column {j} <b>" for j in range(d)]
    return mm.Mixture.diagonal(np.full(r, 1 / r), rng.normal(size=(r, d)), np.ones((r, d)), names)


@pytest.fixture(scope="module")
def table():
    law = mm.Mixture.from_blocks(
        [0.6, 0.4],
        [
            mm.GaussianBlock([35.0, 55.0], [64.0, 100.0], "age", seen=[0.9, 0.6]),
            mm.GaussianBlock([3.0, 4.5], [0.2, 0.3], "income"),
            mm.CategoricalBlock([[0.8, 0.2, 0.0], [0.1, 0.3, 0.6]], LEVELS, names="plan"),
            mm.BernoulliBlock([0.7, 0.2], (False, True), names="member"),
        ],
    )
    return law.sample(3000, random_state=0)[0]


@pytest.fixture(scope="module")
def result(table):
    return mm.fit(table, 2, missing="model", random_state=0)


def test_reprs_are_short_whatever_the_size(wide):
    columns = [mm.GaussianBlock([0.0] * 30, [1.0] * 30, f"column {j}") for j in range(60)]
    levels = tuple(f"level {k}" for k in range(100))
    assert len(str(wide.profile())) > MOST  # so that the limit has something to do
    columns.append(mm.CategoricalBlock(np.full((30, 100), 1 / 100), levels, names="c"))
    many = mm.Mixture.from_blocks(np.full(30, 1 / 30), columns)
    rng = np.random.default_rng(1)
    half = rng.normal(size=(40, 40))
    full = mm.Mixture([1.0], np.zeros((1, 40)), [half @ half.T + np.eye(40)])
    summary = mm.summarize(rng.normal(size=(50, 300)), order=1)
    blocks = many.blocks[-1], full.blocks[0]
    for value in (wide, many, full, many.schema, *blocks, summary, wide.profile()):
        assert 0 < len(repr(value)) <= MOST, type(value)


def test_reprs_of_a_fit_are_short(wide):
    rows, _ = wide.select(range(40)).sample(400, random_state=0)
    result = mm.fit(rows, 3, random_state=0)
    intervals = result.intervals()
    parts = (result, result.certificate, intervals, result.standard_errors, result.moments)
    for value in (*parts, result.uncertainty):
        assert 0 < len(repr(value)) <= MOST, type(value)
    assert repr(result).startswith("FitResult: Mixture of 3 diagonal Gaussians, 40 features, ")
    assert f"certificate {result.certificate.verdict}" in repr(result)
    names = pd.DataFrame(rows).add_prefix("x" * 60)
    families = dict.fromkeys(names.columns, "gaussian")
    estimator = mm.MomentMixture(3, families=families, random_state=0)
    assert len(repr(estimator)) <= MOST


def test_html_of_everything_is_sound_and_escaped(result, wide):
    for value in (result, result.certificate, result.mixture, result.profile(), wide):
        html = value._repr_html_()
        fragment = Fragment(html)
        assert "i" not in fragment.seen  # a level is called so
        assert "script" not in fragment.seen
        assert "style" not in fragment.seen
        assert not re.search(r"https?://|url\(", html)
        assert len(html) < 100_000


def test_html_tells_what_the_components_are(result):
    text = Fragment(result._repr_html_()).text
    for component in result.profile():
        assert component.name in text
        assert component.traits[0].text in text
    assert "Certificate: " in text
    assert result.certificate.verdict in text
    assert "3,000 rows" in text
