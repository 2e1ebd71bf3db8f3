"""A result has three parts, and shows what they hold under the same names."""

from dataclasses import fields

import numpy as np
import pytest
from fitting_helpers import random_mixture

import momentmix as mm


@pytest.fixture(scope="module")
def result():
    rows, _ = random_mixture(2, 4, seed=0, spread=3.0).sample(800, random_state=0)
    return mm.fit(rows, 2, random_state=0)


def test_attributes_of_the_parts_are_those_of_the_result(result):
    for part in (result.answer, result.provenance, result.diagnostics):
        for field in fields(part):
            assert getattr(result, field.name) is getattr(part, field.name)
    assert mm.FitResult.mixture.__doc__ == "`mixture` of `answer`."
    with pytest.raises(AttributeError):
        result.mixture = None


def test_a_record_shares_the_parts(result):
    record = result.record("by hand", np.int64(7))
    assert record.provenance is result.provenance
    assert (record.winner, record.certificate) == (result.winner, result.certificate)
    assert (record.command, record.seed, type(record.seed)) == ("by hand", 7, int)


def test_stages_list_every_order_that_was_tried_and_notes_those_of_the_answer():
    rng = np.random.default_rng(0)
    rows = rng.exponential(size=(700, 6)) @ rng.normal(size=(6, 6))
    result = mm.fit(mm.summarize(rows, order=5), 2, random_state=0)
    assert not result.certificate.passed
    assert [name for name, _ in result.stages].count("moment fit") == 2
    raised = ["order raised to 5: the certificate did not pass"]
    assert result.notes == ([] if result.order == 4 else raised)
