"""Sentences of comparisons, and names of logarithms."""

from dataclasses import replace
from math import inf

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.findings.finding import sentences
from momentmix.monitoring.compared.changes import Change
from momentmix.monitoring.comparison import ColumnComparison, Comparison


def change(what, first, second, effect, column="x", level=None, transform=None):
    return Change(what, column, level, first, second, effect, transform=transform)


SENTENCES = {
    "income: the mean fell from 41.2 to 38.9 (by 0.21 standard deviations)":
        change("mean", 41.2, 38.9, -0.21, "income"),
    "x: the mean rose from 10,023 to 10,041 (by 0.003 standard deviations)":
        change("mean", 10_023.0, 10_041.0, 0.0031),
    "x: the mean rose from 1 to 2": change("mean", 1.0, 2.0, inf),
    "x: the mean rose from 0 to 90 (by 42 standard deviations)": change("mean", 0.0, 90.0, 42.4),
    "x: the typical value rose from 20 to 25 (the mean of its logarithm by 0.50 standard "
    "deviations)": change("mean", np.log(20.0), np.log(25.0), 0.5, transform="log"),
    "x: the typical value fell from 4 to 0 (the mean of its logarithm by 2.00 standard "
    "deviations)": change("mean", np.log1p(4.0), 0.0, -2.0, transform="log1p"),
    "x: the mean of its logarithm rose from 900 to 901":
        change("mean", 900.0, 901.0, 2.0, transform="log"),
    "x: the standard deviation rose from 10 to 12 (×1.20)":
        change("spread", 10.0, 12.0, np.log(1.2)),
    "log x: the standard deviation fell from 0.50 to 0.25 (×0.500)":
        change("spread", 0.5, 0.25, np.log(0.5), transform="log"),
    "x: all values are the same now, which they were not before":
        change("spread", 2.0, 0.0, -inf),
    "x: values differ now; they were all the same before": change("spread", 0.0, 2.0, inf),
    "the share of color = red rose from 12 to 15 %":
        change("share", 0.12, 0.15, 0.03, "color", level="red"),
    "the share of color = red rose from 12.01 to 12.04 %":
        change("share", 0.1201, 0.1204, 0.0003, "color", level="red"),
    "the share of missing cells of age fell from 3.1 to 0 %":
        change("missing", 0.031, 0.0, -0.031, "age"),
}  # fmt: skip


@pytest.mark.parametrize("text", SENTENCES)
def test_each_kind_of_change_has_its_sentence(text):
    finding = SENTENCES[text].finding
    assert sentences([finding]) == [text]


def comparison(changes):
    sure = tuple(replace(change, corrected=0.0) for change in changes)
    return Comparison((99, 99), (ColumnComparison("x", "gaussian", sure),))


def test_the_most_important_come_first_and_the_rest_is_counted():
    changes = [
        change("share", 0.01, 0.05, 0.04, column="rare", level="yes"),  # 0.04 / √(0.03 · 0.97)
        change("mean", 0.0, 0.2, 0.2, column="small"),
        change("missing", 0.5, 0.6, 0.1, column="gaps"),
    ]
    said = comparison(changes).sentences()
    assert [text.split(" ")[-1] for text in said] == ["%", "%", "deviations)"]
    assert "rare" in said[0]
    assert comparison(changes).first_sentences() == said
    many = comparison([change("mean", 0.0, i, i, column=f"x{i}") for i in range(1, 9)])
    assert many.first_sentences()[:6] == many.sentences()[:6]
    assert many.first_sentences()[6:] == ["2 more changes named, of smaller effect"]


def test_findings_of_changes_are_data():
    (found,) = comparison([change("mean", 1.0, 3.0, 0.5, column="{income}")]).findings()
    assert (found.kind, found.columns, found.severity.value) == (
        "mean-changed", ("{income}",), "warning",
    )  # fmt: skip
    assert [found.numbers[name] for name in ("first", "second", "effect")] == [1.0, 3.0, 0.5]
    assert found.text.startswith("{income}: the mean rose from 1 to 3")


@pytest.fixture(scope="module")
def found():
    """A comparison in which typical incomes fall from 50 to 40, and red becomes more frequent."""
    rng = np.random.default_rng(0)

    def table(center, red):
        return pd.DataFrame(
            {
                "income": np.exp(rng.normal(np.log(center), 0.5, 4000)),
                "age": rng.normal(40, 10, 4000),
                "color": rng.choice(["blue", "red"], 4000, p=[1 - red, red]),
            }
        )

    before, now = table(50.0, 0.12), table(40.0, 0.3)
    schema = mm.schema_from(before, {"income": "log"})
    return mm.compare(*(mm.summarize(rows, families=schema) for rows in (before, now)))


def test_sentences_are_in_every_form_of_a_comparison(found):
    first, second = found.sentences()
    numbers = [float(word) for word in first.split() if word.replace(".", "").isdigit()]
    assert first.startswith("income: the typical value fell from ")
    assert numbers == pytest.approx([50.0, 40.0, 0.45], rel=0.08)
    assert second.startswith("the share of color = red rose from 1")
    assert str(found).split("\n")[1:3] == [f"- {first}", f"- {second}"]
    assert repr(found).split("\n")[1:] == [first, second]
    assert found.to_dict()["sentences"] == [first, second]
    assert f"<li>{first}</li>" in found._repr_html_()
    assert found.sentences(least_effect=0.3) == [first]
    assert found.sentences(level=1e-300) == []


def test_columns_of_logarithms_are_called_so(found):
    lines = str(found).split("\n")
    assert any(line.startswith("log income ") for line in lines)
    income = found.columns[0]
    assert (income.name, income.change("mean").transform) == ("income", "log")
    assert found.columns[1].change("mean").transform is None
