"""The certificate in plain words: questions a reader has, and what the numbers answer."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from momentmix.fitting.inference.certificate import LARGEST_LOSS, NEGLIGIBLE_EFFECT, Certificate
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE

__all__ = ["Reply", "answers", "verdict"]


@dataclass(frozen=True)
class Reply:
    """A question, a short answer, and what it rests on."""

    question: str
    short: str
    text: str


def verdict(certificate: Certificate) -> str:
    """The verdict in one sentence."""
    if certificate.passed:
        return "Nothing that was tested speaks against this fit."
    n = len(certificate.reasons)
    return f"{n} reason{'s speak' if n > 1 else ' speaks'} against trusting this fit."


def answers(certificate: Certificate) -> list[Reply]:
    """Answers to the two questions of the certificate."""
    return [_is_the_model_wrong(certificate), _is_it_too_imprecise(certificate)]


def _is_the_model_wrong(c: Certificate) -> Reply:
    question = "Do the data contradict the model?"
    test = c.test
    if not test.testable:
        if c.n_components == 1:
            return Reply(question, "Not tested", "One component leaves nothing to be tested here.")
        return Reply(
            question, "Not tested",
            "There are no more moments to compare with than there are parameters.",
        )  # fmt: skip
    numbers = (
        f"(statistic {test.statistic:.1f} on {test.degrees_of_freedom} degrees of freedom, "
        f"p-value {test.p_value:.2g}, effect size {test.effect_size:.2g})"
    )
    if test.overdispersed_model:
        return Reply(
            question, "Cannot be said",
            "The moments agree far better than chance allows, as where a few extreme rows carry "
            f"them: the test has no power {numbers}.",
        )  # fmt: skip
    if test.p_value >= LEAST_P_VALUE:
        return Reply(
            question, "No",
            "Averages of products of features that the model predicts agree with those of the "
            "data as well as chance allows: were the model right, a misfit at least as large "
            f"would turn up in {_percent(test.p_value)} of samples {numbers}.",
        )  # fmt: skip
    if test.effect_size <= NEGLIGIBLE_EFFECT:
        return Reply(
            question, "Not by much",
            "There are so many rows that a misfit is visible, but it is too small to matter: "
            f"{test.effect_size:.2g} standard deviations of one row {numbers}.",
        )  # fmt: skip
    return Reply(
        question, "Yes",
        "Averages of products of features differ from what the model predicts by more than chance "
        f"{numbers}. Too few components, features that are correlated within components, or a "
        "component that was missed are the usual causes.",
    )  # fmt: skip


def _is_it_too_imprecise(c: Certificate) -> Reply:
    question = "Are the parameters precise enough to tell the components apart?"
    if isnan(c.predicted_loss):
        return Reply(question, "Unknown", "This method gives no standard errors to judge it by.")
    share = _percent(c.predicted_loss)
    most = share if share.startswith("less") else f"at most about {share}"
    if c.predicted_loss <= LARGEST_LOSS:
        text = (
            f"The errors of the parameters put {most} of the rows into another "
            "component than the best parameters would (nine times of ten)."
        )
        return Reply(question, "Yes", text)
    return Reply(
        question, "No",
        f"The errors of the parameters put about {share} of the rows into another component than "
        "the best parameters would. More rows, fewer components, or passes over the rows help.",
    )  # fmt: skip


def _percent(share: float) -> str:
    # A predicted loss comes from 2,500 drawn rows: it cannot be told from 0 below that.
    return "less than 0.1 %" if share < 1e-3 else f"{100 * share:.2g} %"
