"""The report page, parsed: what it says is what the model holds, and nothing in it can do harm."""

import base64
import datetime
import hashlib
import html
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.errors import (
    InputError,
    InputTypeError,
    MissingDependencyError,
    ModelFileError,
)
from momentmix.findings.finding import Finding, Severity
from momentmix.fitting.inference.certificate import Certificate, Support
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.fitting.record import load_fit
from momentmix.mixture.profile import profile_of
from momentmix.reporting.contents import Contents
from momentmix.reporting.data_facts import gather
from momentmix.reporting.tables import parameter_tables
from momentmix.reporting.verdict import answers
from momentmix.wording import percent, short_number

NAMES = ["height", "<script>alert(1)</script>", 'a"b\x1b', "$x_1$"]
VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """Elements with their attributes and text, and whether every tag is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, *tags):
        return [e for e in self.elements if e["tag"] in tags]

    def table(self, name):
        found = re.search(rf'<table class="[a-z ]*" id="{name}">.*?</table>', self.rawdata_, re.S)
        rows = re.findall(r"<tr>(.*?)</tr>", found[0], re.S)[1:]
        return [re.findall(r'data-value="([^"]*)"', row) for row in rows]


def parsed(path):
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    page.rawdata_ = text
    return page


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(3)
    return mm.DiagonalMixture([0.7, 0.3], 3 * rng.standard_normal((2, 4)), np.ones((2, 4)), NAMES)


@pytest.fixture(scope="module")
def rows(truth):
    return truth.sample(3000, random_state=0)[0]


@pytest.fixture(scope="module")
def result(rows):
    return mm.fit(rows, 2, random_state=0)


@pytest.fixture
def model(result, tmp_path):
    path = tmp_path / "model.json"
    result.save(path, NAMES, command="by hand", seed=0)
    return path


@pytest.fixture(scope="module")
def page(result, rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    result.save(folder / "model.json", NAMES, command="by hand", seed=0)
    data = pd.DataFrame(rows, columns=NAMES)
    mm.report(folder / "model.json", folder / "r.html", data, date="2025-01-31")
    return parsed(folder / "r.html")


def test_the_numbers_are_those_of_the_model(page, result, rows):
    m = result.mixture
    table = page.table("component-table")
    assert [float(row[2]) for row in table] == m.weights.tolist()
    counts = np.bincount(m.predict(rows), minlength=2)
    assert [float(row[3]) for row in table] == counts.tolist()
    table = page.table("parameter-table")
    assert [float(row[1]) for row in table] == [0.0, 1.0] * 4
    assert [float(row[2]) for row in table] == m.means.T.ravel().tolist()
    assert [float(row[3]) for row in table] == np.sqrt(m.variances).T.ravel().tolist()
    low, high = result.intervals().means
    finest = float(np.sqrt(m.variances[:, 0].min()))
    ends = [short_number(float(end[0, 0]), finest) for end in (low, high)]
    assert f'<span class="interval">{" … ".join(ends)}</span>' in page.rawdata_
    assert [float(row[2]) for row in page.table("data-table")] == pytest.approx(rows.mean(axis=0))
    for words in ("by hand", "3,000", f"numpy {np.__version__}"):
        assert words in page.rawdata_


def test_the_page_begins_with_title_date_and_answer(page, result):
    assert page.all("h1")[0]["text"] == "2 groups in 3,000 rows"
    (day,) = page.all("time")
    assert (day["datetime"], day["text"]) == ("2025-01-31", "31 January 2025")
    (lead,) = [e["text"] for e in page.all("p") if e.get("class") == "lead"]
    assert lead.endswith("The model fits the data.")
    assert percent(float(result.mixture.weights[0])) in lead
    headings = [e["text"] for e in page.all("h2")]
    assert headings[:4] == [
        "What are the groups?",
        "What do the columns look like?",
        "Does the model fit the data?",
        "What to do next",
    ]


def test_each_card_says_share_rows_and_what_is_different(page, result, rows):
    cards = [e["text"] for e in page.all("article")]
    counts = np.bincount(result.mixture.predict(rows), minlength=2)
    named = replace(result.mixture, feature_names=NAMES)
    profile = profile_of(named, None, result.standard_errors)
    for i, (card, own) in enumerate(zip(cards, profile, strict=True)):
        assert card.startswith(f"{i} {own.name}")
        assert percent(own.share) in card
        assert f"{counts[i]:,} of 3,000" in card
        for trait in own.traits[:6]:
            assert trait.text.replace("\x1b", r"\x1b") in card
    widths = re.findall(r'<rect class="f\d+" width="([\d.]+)"', page.rawdata_)
    assert [float(w) for w in widths] == pytest.approx(100 * result.mixture.weights, abs=0.06)


def test_shares_of_groups_that_overlap_are_explained(page, tmp_path):
    counted = "rows are counted in their most probable group"
    assert counted not in page.rawdata_
    means = [[0.0, 0.0], [1.0, 1.0], [9.0, 0.0], [0.0, 9.0]]
    m = mm.DiagonalMixture([0.4, 0.2, 0.2, 0.2], means, np.ones((4, 2)))
    data, _ = m.sample(1000, random_state=0)
    mm.report(m, tmp_path / "r.html", data)
    found = parsed(tmp_path / "r.html")
    counts = np.bincount(m.predict(data), minlength=4)
    assert abs(counts[1] / 1000 - 0.2) > 0.01
    card = found.all("article")[1]["text"]
    assert f"20 % of the rows; {counts[1]} of 1,000 are most probably in it" in card
    assert counted in found.rawdata_
    assert '<div class="cards pairs">' in found.rawdata_  # four cards, two by two
    assert "▲&nbsp;higher than in the other rows; ▼" in found.rawdata_


def test_long_tables_are_folded(tmp_path):
    for d, is_folded in ((30, False), (31, True)):
        m = mm.DiagonalMixture([0.5, 0.5], [[0.0] * d, [1.0] * d], np.ones((2, d)))
        tables = parameter_tables(Contents(m, None, profile_of(m)))
        assert any(f"{2 * d} rows</summary>" in table for table in tables) == is_folded


def test_headings_pictures_and_tables_are_accessible(page):
    assert page.all("html")[0]["lang"] == "en"
    levels = [int(e["tag"][1]) for e in page.all("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert len(page.all("img")) == 4 + 6 + 1  # columns, pairs, residuals
    assert all(len(image["alt"]) > 20 for image in page.all("img"))
    assert all(cell["scope"] in ("row", "col") for cell in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table")) == 7
    names = [e["id"] for e in page.elements if "id" in e]
    assert len(set(names)) == len(names)
    for link in page.all("a"):
        assert link["href"][1:] in names
    assert "width=device-width" in page.rawdata_


def test_nothing_is_fetched_and_only_our_script_may_run(page):
    for element in page.elements:
        for key in ("src", "href", "action", "srcset", "data"):
            assert element.get(key, "#").startswith(("#", "data:")), element
        assert not any(key.startswith("on") or key == "style" for key in element)
    assert "url(" not in page.all("style")[0]["text"]
    assert "@import" not in page.all("style")[0]["text"]
    policy = page.all("meta")[1]["content"]
    assert policy.startswith("default-src 'none'")
    for tag in ("style", "script"):
        (element,) = page.all(tag)
        digest = hashlib.sha256(element["text"].encode()).digest()
        assert f"sha256-{base64.b64encode(digest).decode()}" in policy


def test_names_are_shown_as_they_are_and_do_nothing(page):
    assert len(page.all("script")) == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.rawdata_
    assert "\x1b" not in page.rawdata_
    shown = [row[0] for row in page.table("parameter-table")[::2]]
    assert [html.unescape(name) for name in shown] == ["height", NAMES[1], r'a"b\x1b', "$x_1$"]


def test_the_same_inputs_give_the_same_bytes(rows, tmp_path):
    small = mm.fit(rows[:, :2], 2, random_state=0)
    for name in ("a.html", "b.html"):
        mm.report(small, tmp_path / name, rows[:, :2], date="2025-01-31")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_pictures_of_others_stay_open(result, tmp_path):
    from matplotlib import pyplot

    figure = pyplot.figure()
    before = pyplot.get_fignums()  # other tests may have left some
    mm.report(result, tmp_path / "r.html")
    assert pyplot.get_fignums() == before
    pyplot.close(figure)


def test_a_fit_that_failed_says_why(rows, tmp_path):
    wrong = mm.fit(rows, 1, random_state=0)
    mm.report(wrong, tmp_path / "r.html")
    page = parsed(tmp_path / "r.html")
    assert "<strong>✗ No</strong>" in page.rawdata_
    items = [e["text"] for e in page.all("li")]
    assert all(reason in items for reason in wrong.certificate.reasons)
    assert any(item.startswith("Needed") for item in items)
    assert "No data were given" in page.rawdata_
    assert len(page.all("img")) == 4


def test_a_bare_mixture_an_estimator_and_a_summary(truth, rows, tmp_path):
    path = tmp_path / "r.html"
    mm.report(truth, path)
    assert "holds no record of a fit" in path.read_text()
    frame = pd.DataFrame(rows, columns=list("abcd"))
    estimator = mm.MomentGaussianMixture(2, random_state=7).fit(frame)
    mm.report(estimator, path)
    page = parsed(path)
    assert [row[0] for row in page.table("data-table")] == list("abcd")
    assert "Rows</th>" not in page.rawdata_
    assert re.search(r"Seed</th><td[^>]*>7<", page.rawdata_)
    mixed = mm.MomentMixture(2, random_state=7).fit(frame)
    mm.report(mixed, path)
    assert len(parsed(path).table("data-table")) == 4
    for unfitted in (mm.MomentGaussianMixture(2), mm.MomentMixture(2)):
        with pytest.raises(InputTypeError, match=f"{type(unfitted).__name__} is not fitted yet"):
            mm.report(unfitted, path)
    with pytest.raises(InputTypeError, match=r"needs the path of a model.*got ndarray"):
        mm.report(rows, path)
    with pytest.raises(InputError, match="the 4 columns of the model; got 3"):
        mm.report(truth, path, rows[:, :3])
    other = mm.MomentSummary(4, 3, list("abcd")).update(rows)
    with pytest.raises(InputError, match=r"features of the mixture.*'a', 'b', 'c', 'd' are not"):
        mm.report(truth, path, other)
    with pytest.raises(InputError, match="the summary holds no rows"):
        mm.report(truth, path, mm.MomentSummary(4, 3))


def test_what_is_wrong_with_the_data_is_said(truth, rows):
    bad = rows.copy()
    bad[:, 1] = 5.0
    bad[:, 3] = 2 * bad[:, 0] + 1
    bad[7, 2] = 1e6
    source = mm.open_rows(np.vstack([bad, np.full((2, 4), np.nan)]), missing="drop")
    text = " ".join(finding.text for finding in gather(truth, source).findings(NAMES))
    assert "2 rows with missing or infinite values" in text
    assert "column '<script>alert(1)</script>' holds one value only" in text
    assert "columns 'height' and '$x_1$' are copies" in text
    assert "standard deviations from its mean" in text
    assert re.search(r"\d% of the rows are less probable", text)
    assert gather(truth, rows).findings(NAMES) == []


def test_one_feature_many_components_and_no_density(tmp_path):
    one = mm.DiagonalMixture([1.0], [[0.0]], [[1.0]])
    rng = np.random.default_rng(0)
    mm.report(one, tmp_path / "r.html", rng.standard_normal((50, 1)))
    many = mm.DiagonalMixture(np.full(20, 0.05), rng.standard_normal((20, 3)), np.ones((20, 3)))
    mm.report(many, tmp_path / "r.html")
    assert len(parsed(tmp_path / "r.html").table("parameter-table")) == 60
    flat = mm.DiagonalMixture([1.0], [[0.0, 1.0]], [[1.0, 0.0]])
    mm.report(flat, tmp_path / "r.html", rng.standard_normal((50, 2)))
    assert "Rows</th>" not in (tmp_path / "r.html").read_text()


def test_names_of_components_are_shown_with_their_numbers(truth, tmp_path):
    mm.report(truth, tmp_path / "r.html", names=["calm", "<b>wild</b>"])
    page = parsed(tmp_path / "r.html")
    assert [e["text"] for e in page.all("h3")] == ["0 calm", "1 <b>wild</b>"]
    assert "“calm”, has 70 %" in page.rawdata_
    with pytest.raises(InputError, match="names of components must be 2, one for each; got 1"):
        mm.report(truth, tmp_path / "r.html", names=["calm"])


def test_the_date_of_a_report(truth, tmp_path, monkeypatch):
    path = tmp_path / "r.html"

    def shown(**keywords):
        mm.report(truth.select([0]), path, **keywords)
        return re.search(r'<time datetime="([^"]*)">', path.read_text())[1]

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert shown() == "2023-11-14"
    assert shown(date=datetime.date(2024, 2, 29)) == "2024-02-29"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    with pytest.raises(InputError, match="SOURCE_DATE_EPOCH must be seconds since 1970"):
        shown()
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    today = datetime.datetime.now(datetime.UTC).date()
    assert 0 <= (datetime.date.fromisoformat(shown()) - today).days <= 1
    with pytest.raises(
        InputError, match=r"date must be a date such as '2025-01-31'; got '31\.1\.'"
    ):
        shown(date="31.1.")
    with pytest.raises(InputTypeError, match="date must be a date or a str; got int"):
        shown(date=2024)


def test_a_file_names_the_data(truth, rows, tmp_path):
    pd.DataFrame(rows, columns=NAMES).to_csv(tmp_path / "rows.csv", index=False)
    mm.report(truth, tmp_path / "r.html", tmp_path / "rows.csv")
    title = parsed(tmp_path / "r.html").all("title")[0]["text"]
    assert title == "2 groups in 3,000 rows of rows.csv – momentmix report"


def test_without_matplotlib_the_message_says_what_to_install(truth, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install momentmix\[plot\]"):
        mm.report(truth, tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


# -- the certificate in words -----------------------------------------------------------------


def certificate(p=0.4, effect=0.0, dof=100, statistic=100.0, loss=0.001, r=2, findings=()):
    test = OverIdentification(statistic, dof, p, effect, False, 2.0, [])
    return Certificate(test, loss, list(findings), r)


@pytest.mark.parametrize(
    ("changes", "shorts", "words"),
    [
        ({}, ("No", "Yes"), "the least p-value is 0.4"),
        ({"p": 1e-5, "effect": 1e-4}, ("Not by much", "Yes"), "too small to matter"),
        ({"p": 1e-5, "effect": 0.1}, ("Yes", "Yes"), "by more than chance"),
        ({"statistic": 1.0, "p": 1.0}, ("Cannot be said", "Yes"), "no power"),
        ({"dof": 0, "p": np.nan}, ("Not tested", "Yes"), "no more averages"),
        ({"dof": 0, "p": np.nan, "r": 1}, ("Not tested", "Yes"), "One group"),
        ({"loss": 0.05}, ("No", "No"), "about 5 % of the rows"),
        ({"loss": 0.0}, ("No", "Yes"), "less than 0.1 % of the rows"),
        ({"loss": np.nan}, ("No", "Unknown"), "no standard errors"),
    ],
)
def test_the_certificate_in_words(changes, shorts, words):
    found = answers(certificate(**changes))
    assert tuple(answer.short for answer in found) == shorts
    assert words in " ".join(answer.text for answer in found)


@pytest.mark.parametrize("supported", [True, False, None])
def test_the_precision_of_parameters_that_are_not_determined_is_unknown(supported):
    loss = np.nan if supported is False else 0.001
    found = answers(replace(certificate(loss=loss), support=Support(2, supported, "why")))[1]
    is_unknown = supported is False
    assert found.short == ("Unknown" if is_unknown else "Yes")
    assert ("do not determine that many groups" in found.text) is is_unknown


def test_the_precision_with_too_few_rows_is_unknown():
    few = Finding("too-few-rows", Severity.FATAL, written="too few rows")
    c = certificate(dof=0, p=np.nan, loss=np.nan, findings=[few])
    assert (answers(c)[1].short, "too few rows" in answers(c)[1].text) == ("Unknown", True)
    light = Finding("light-components", Severity.WARNING, written="few")
    assert answers(certificate(findings=[light]))[1].short == "Yes"


# -- the record in the file -------------------------------------------------------------------


def test_the_record_comes_back_as_it_was(model, result):
    mixture, record = load_fit(model)
    assert mixture.means.tolist() == result.mixture.means.tolist()
    assert record.to_dict() == result.record("by hand", 0).to_dict()
    assert str(record.certificate) == str(result.certificate)
    again = mm.DiagonalMixture.load(model)
    assert again.feature_names == tuple(NAMES)


def test_the_printed_method_has_no_intervals(rows, tmp_path):
    result = mm.fit(rows, 1, method="paper", random_state=0)
    result.save(tmp_path / "m.json")
    record = load_fit(tmp_path / "m.json")[1]
    assert record.intervals is None
    assert np.isnan(record.certificate.predicted_loss)
    mm.report(tmp_path / "m.json", tmp_path / "r.html")
    assert "No intervals are recorded" in (tmp_path / "r.html").read_text()


def damage(*path, value):
    def change(fit):
        for key in path[:-1]:
            fit = fit[key]
        if value is None:
            del fit[path[-1]]
        else:
            fit[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            damage("version", value=5),
            "fit has version 5; this momentmix reads versions 1, 2, 3 and 4",
        ),
        (damage("n_rows", value=True), "fit.n_rows must be an integer"),
        (damage("n_rows", value=0), "fit.n_rows is 0, out of range"),
        (damage("method", value=3), "fit.method must be a string"),
        (damage("converged", value=1), "fit.converged must be true or false"),
        (damage("notes", value=[1]), "fit.notes must be a list of strings"),
        (damage("versions", value={"a": 1}), "fit.versions must hold strings"),
        (damage("seed", value=None), "fit lacks seed"),
        (damage("more", value=1), "fit holds unknown keys: 'more'"),
        (damage("log_likelihood_per_row", value="x"), "must be a number or null"),
        (damage("certificate", value=1), "fit.certificate must be an object"),
        (damage("certificate", "p_value", value=1.5), "p_value is 1.5, out of range"),
        (damage("certificate", "statistic", value=1.5), None),
        (damage("certificate", "passed", value=False), "passed=False, its numbers say True"),
        (damage("certificate", "findings", value=[{}]), "findings lacks name, severity, text"),
        (damage("intervals", "means", value=[[1.0]]), "must be numbers or null in lists"),
        (damage("standard_errors", "weights", value=[-1.0, 1.0]), "must not be negative"),
        (damage("intervals", "weights", value=[[0.9, 0.9], [0.1, 0.1]]), "lower ends first"),
    ],
)
def test_a_damaged_record_is_refused_and_the_mixture_is_not(model, change, message):
    document = json.loads(model.read_text())
    change(document["fit"])
    model.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="the checksum does not match"):
        mm.DiagonalMixture.load(model)
    del document["sha256"]  # as the message says
    model.write_text(json.dumps(document))
    assert mm.DiagonalMixture.load(model).n_components == 2
    if message is None:  # a number that changes no verdict is as good as another
        assert load_fit(model)[1].certificate.statistic == 1.5
        return
    with pytest.raises(InputError, match=message):
        load_fit(model)


def test_severity_of_a_finding_is_checked(model):
    document = json.loads(model.read_text())
    document["fit"]["certificate"]["findings"] = [{"name": "x", "severity": "y", "text": "z"}]
    del document["sha256"]
    model.write_text(json.dumps(document))
    with pytest.raises(
        InputError, match=r"record of the fit is damaged.*severity must be one of 'note'"
    ):
        load_fit(model)
    assert str(Finding("x", Severity.NOTE, written="z")) == "[note] z"


# -- the command ------------------------------------------------------------------------------


def test_report_command(momentmix, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(rows[:, :3], columns=list("abc")).to_csv("rows.csv", index=False)
    assert momentmix("fit", "rows.csv", "-r", "2", "-o", "m.json").code == 0
    assert momentmix("summarize", "rows.csv", "-o", "rows.mms").code == 0
    done = momentmix("report", "m.json", "--data", "rows.csv", "-o", "r.html")
    assert (done.code, done.out) == (0, "report written to r.html (certificate: passed)\n")
    page = parsed(tmp_path / "r.html")
    for words in (
        "momentmix fit rows.csv -r 2 -o m.json",
        "momentmix report m.json --data rows.csv",
    ):
        assert words in page.rawdata_
    done = momentmix("report", "m.json", "--data", "rows.mms", "-o", "s.html", "--json")
    expected = {"output": "s.html", "model": "m.json", "data": ["rows.mms"], "verdict": "passed"}
    assert json.loads(done.out) == expected
    assert len(parsed(tmp_path / "s.html").all("img")) == 3 + 3 + 1
    done = momentmix("report", "m.json", "-o", "n.html", "--names", "calm, wild")
    assert done.code == 0
    assert [e["text"] for e in parsed(tmp_path / "n.html").all("h3")] == ["0 calm", "1 wild"]
    done = momentmix("report", "m.json", "-o", "n.html", "--names", "calm", "--force")
    assert done.code == 65
    assert "names of components must be 2, one for each; got 1" in done.err
    done = momentmix("report", "m.json", "-o", "r.html")
    assert done.code == 73
    assert "exists; pass --force" in done.err
    done = momentmix("report", "m.json", "-o", "-")
    assert done.code == 2
    assert "give a file to --output" in done.err
    assert momentmix("report", "none.json", "-o", "x.html").code == 66
    done = momentmix("report", "m.json", "--data", "rows.csv", "--columns", "a", "-o", "x.html")
    assert done.code == 65
    assert "'b', 'c' are missing" in done.err
    assert not (tmp_path / "x.html").exists()
