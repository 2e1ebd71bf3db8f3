"""The report page, parsed: what it says is what the model holds, and nothing in it can do harm."""

import base64
import hashlib
import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import momentmix as mm
from momentmix.errors import InputError, InputTypeError
from momentmix.mixture.profile import profile_of
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
        found = re.search(rf'<table id="{name}">.*?</table>', self.rawdata_, re.S)
        rows = re.findall(r"<tr>(.*?)</tr>", found[0], re.S)[1:]
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
        return [[html.unescape(cell) for cell in row] for row in cells]


def parsed(path):
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    page.rawdata_ = text
    return page


def named(result):
    return replace(result, mixture=result.mixture.with_feature_names(NAMES))


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(3)
    return mm.Mixture.diagonal([0.7, 0.3], 3 * rng.standard_normal((2, 4)), np.ones((2, 4)), NAMES)


@pytest.fixture(scope="module")
def rows(truth):
    return truth.sample(3000, random_state=0)[0]


@pytest.fixture(scope="module")
def result(rows):
    return mm.fit(rows, 2, random_state=0)


@pytest.fixture
def model(result, tmp_path):
    path = tmp_path / "model.json"
    named(result).save(path, command="by hand")
    return path


@pytest.fixture
def report(tmp_path):
    """Make a report and parse it."""

    def make(model, *data, **keywords):
        mm.report(model, tmp_path / "r.html", *data, **keywords)
        return parsed(tmp_path / "r.html")

    return make


@pytest.fixture(scope="module")
def page(result, rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    named(result).save(folder / "model.json", command="by hand")
    data = pd.DataFrame(rows, columns=NAMES)
    mm.report(folder / "model.json", folder / "r.html", data, date="2025-01-31")
    return parsed(folder / "r.html")


def test_the_numbers_are_those_of_the_model(page, result):
    m = result.mixture
    low, high = result.intervals().means
    finest = [float(np.sqrt(v.min())) for v in m.variances.T]

    def with_interval(i, j):
        texts = [short_number(float(x[i, j]), finest[j]) for x in (m.means, low, high)]
        return f"{texts[0]}<small>{texts[1]} … {texts[2]}</small>"

    table = page.table("parameter-table")
    assert [row[0] for row in table[1:3]] == [
        "height<small>mean</small>",
        "height<small>spread</small>",
    ]
    assert [row[1:] for row in table[1::2]] == [
        [with_interval(i, j) for i in (0, 1)] for j in range(4)
    ]
    assert table[0][1].startswith(f"{100 * m.weights[0]:.1f} %<small>")
    heat = {row[0]: [float(x) for x in row[1:]] for row in page.table("heat")}
    for j, name in enumerate(NAMES):
        shown = heat[name.replace("\x1b", r"\x1b")]
        assert shown == pytest.approx(m.means[:, j], abs=0.1 * np.ptp(m.means[:, j]))
    for words in ("by hand", "3,000", f"numpy {np.__version__}"):
        assert words in page.rawdata_


def test_the_heat_table_is_colored_by_the_difference_from_all_rows(report):
    means = [[0.0, 5.0], [10.0, 5.0], [5.0, 5.0]]
    page = report(mm.Mixture.diagonal([0.3, 0.3, 0.4], means, np.ones((3, 2)), ["a", "b"]))
    cells = re.findall(r'<td( class="[hl]\d")?>([\d.]+)</td>', page.rawdata_)[:6]
    assert [kind[-3:-1] for kind, _ in cells] == ["l3", "h3", "", "", "", ""]
    assert page.table("heat")[0][0] == "a"  # the column that differs comes first


def test_a_page_for_notebooks_and_one_in_a_file_are_the_same(result, tmp_path):
    shown = result.report(date="2025-01-31")
    assert result.report(tmp_path / "r.html", date="2025-01-31") is None
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == shown.html
    frame = shown._repr_html_()
    assert frame.startswith("<iframe sandbox ")
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == shown.html


def test_the_page_begins_with_title_date_and_answer(page, result):
    assert page.all("h1")[0]["text"] == "2 groups in 3,000 rows"
    (day,) = page.all("time")
    assert (day["datetime"], day["text"]) == ("2025-01-31", "31 January 2025")
    (badge,) = [e["text"] for e in page.all("p") if e.get("class", "").startswith("verdict")]
    assert badge == "✓ Passed Nothing speaks against these groups."
    assert percent(float(result.mixture.weights[0])) in page.all("article")[0]["text"]
    headings = [e["text"] for e in page.all("h2")]
    assert headings[:4] == [
        "What are the groups?",
        "The groups side by side",
        "What to do next",
        "What do the columns look like?",
    ]


def test_each_card_says_share_and_what_is_different(page, result):
    cards = [e["text"] for e in page.all("article")]
    named = result.mixture.with_feature_names(NAMES)
    profile = profile_of(named, None, result.n_rows)
    for i, (card, own) in enumerate(zip(cards, profile, strict=True)):
        assert card.startswith(f"{i} {own.name}")
        assert percent(own.share) in card
        for trait in own.traits:
            assert trait.text.replace("\x1b", r"\x1b") in card
    widths = re.findall(r'<rect class="c\d+" width="([\d.]+)"', page.rawdata_)
    assert [float(w) for w in widths] == pytest.approx(100 * result.mixture.weights, abs=0.06)


def test_headings_pictures_and_tables_are_accessible(page):
    assert page.all("html")[0]["lang"] == "en"
    levels = [int(e["tag"][1]) for e in page.all("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert len(page.all("img")) == 4 + 3  # columns, pairs
    assert all(len(image["alt"]) > 20 for image in page.all("img"))
    assert all(cell["scope"] in ("row", "col") for cell in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table")) == 3
    names = [e["id"] for e in page.elements if "id" in e]
    assert len(set(names)) == len(names)
    for link in page.all("a"):
        assert link["href"][1:] in names
    assert "width=device-width" in page.rawdata_


def test_nothing_is_fetched_and_nothing_may_run(page):
    for element in page.elements:
        for key in ("src", "href", "action", "srcset", "data"):
            assert element.get(key, "#").startswith(("#", "data:")), element
        assert not any(key.startswith("on") or key == "style" for key in element)
    assert "url(" not in page.all("style")[0]["text"]
    assert "@import" not in page.all("style")[0]["text"]
    policy = page.all("meta")[1]["content"]
    assert policy.startswith("default-src 'none'")
    (element,) = page.all("style")
    digest = hashlib.sha256(element["text"].encode()).digest()
    assert f"sha256-{base64.b64encode(digest).decode()}" in policy
    assert page.all("script") == []


def test_the_same_inputs_give_the_same_bytes_and_open_pictures_stay(truth, rows, tmp_path):
    figure = pyplot.figure()
    before = pyplot.get_fignums()  # other tests may have left some
    for name in ("a.html", "b.html"):
        mm.report(truth.select([0, 1]), tmp_path / name, rows[:, :2], date="2025-01-31")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert pyplot.get_fignums() == before
    pyplot.close(figure)


def test_a_bare_mixture_and_an_estimator(truth, rows, report):
    assert "holds no record of a fit" in report(truth.select([0])).rawdata_
    frame = pd.DataFrame(rows[:, :2], columns=["a", "b"])
    for kind in (mm.MomentGaussianMixture, mm.MomentMixture):
        page = report(kind(2, random_state=7).fit(frame))
        assert "of the rows, in the color" not in page.rawdata_
        assert re.search(r"Seed</th><td[^>]*>7<", page.rawdata_)
        with pytest.raises(InputTypeError, match="the path of a model file"):
            report(kind(2))


def test_what_cannot_be_reported_is_refused(truth, rows, report):
    for arguments, keywords, error, message in [
        ((rows,), {}, InputTypeError, r"the path of a model file; got ndarray"),
        ((truth, rows[:, :3]), {}, InputError, "the 4 columns of the model; got 3"),
        ((truth, mm.MomentSummary(4, 3)), {}, InputTypeError, "a report draws rows"),
        ((truth,), {"names": ["calm"]}, InputError, "must be 2, one for each; got 1"),
        ((truth,), {"date": "31.1."}, InputError, r"as '2025-01-31'; got '31\.1\.'"),
    ]:
        with pytest.raises(error, match=message):
            report(*arguments, **keywords)


# -- the command ------------------------------------------------------------------------------


def test_report_command(momentmix, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(rows[:, :2], columns=["a", "b"]).to_csv("rows.csv", index=False)
    assert momentmix("fit", "rows.csv", "-r", "2", "-o", "m.json").code == 0
    done = momentmix("report", "m.json", "--data", "rows.csv", "-o", "r.html")
    assert (done.code, done.out) == (0, "report on m.json written to r.html\n")
    page = parsed(tmp_path / "r.html")
    title = "2 groups in 3,000 rows of rows.csv – momentmix report"
    assert page.all("title")[0]["text"] == title
    text = page.rawdata_
    assert "momentmix fit rows.csv -r 2 -o m.json" in text
    assert "momentmix report m.json --data rows.csv" in text
    done = momentmix("report", "m.json", "-o", "n.html", "--names", "calm, wild")
    assert done.code == 0
    assert [e["text"] for e in parsed(tmp_path / "n.html").all("h3")] == ["0 calm", "1 wild"]
    for options, code, message in [
        (["m.json", "-o", "n.html", "--names", "calm"], 1, "one for each; got 1"),
        (["m.json", "-o", "-"], 2, "must end in .html"),
        (["none.json", "-o", "x.html"], 1, "none.json"),
    ]:  # fmt: skip
        done = momentmix("report", *options)
        assert (done.code, message in done.err) == (code, True), done
    assert not (tmp_path / "x.html").exists()
