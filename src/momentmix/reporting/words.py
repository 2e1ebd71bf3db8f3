"""The certificate in plain words: questions and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from momentmix.fitting.inference.certificate import LARGEST_LOSS, NEGLIGIBLE_EFFECT, Certificate
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE


@dataclass(frozen=True)
class Reply:
    """A question, a short answer, and the reason for it."""

    question: str
    short: str
    text: str


def verdict(certificate: Certificate) -> str:
    """The verdict in one sentence."""
    if certificate.passed:
        return "No test speaks against this fit."
    if certificate.verdict == "untested":
        return "Nothing speaks against this fit, but not everything could be tested."
    n = len(certificate.reasons)
    return f"{n} reason{'s speak' if n > 1 else ' speaks'} against trusting this fit."


def answers(certificate: Certificate) -> list[Reply]:
    """Answers to the questions of the certificate; the third where it was asked."""
    replies = [
        Reply("Do the data contradict the model?", *_contradiction(certificate)),
        Reply(
            "Are the parameters precise enough to tell the components apart?",
            *_precision(certificate),
        ),
    ]
    support = certificate.support
    if support is not None:
        short = {True: "Yes", False: "No", None: "Cannot be said"}[support.supported]
        question = f"Do the data need {support.n_components} components?"
        if support.n_components == 1:
            question = "Does one component do?"
        replies.append(Reply(question, short, support.text))
    return replies


def _contradiction(c: Certificate) -> tuple[str, str]:
    """Short answer, and the reason, to whether the data contradict the model."""
    test = c.test
    if not test.testable:
        if c.n_components == 1:
            return "Not tested", "One component leaves nothing to be tested here."
        return "Not tested", "There are no more moments to compare than there are parameters."
    numbers = (
        f"(statistic {test.statistic:.1f} on {test.degrees_of_freedom} degrees of freedom, "
        f"p-value {test.p_value:.2g}, effect size {test.effect_size:.2g})"
    )
    if test.overdispersed_model:
        return "Cannot be said", (
            "The moments agree far better than expected by chance, as happens if a few extreme "
            f"rows dominate them: the test has no power {numbers}."
        )
    if test.p_value >= LEAST_P_VALUE:
        return "No", (
            "Averages of products of features that the model predicts agree with those of the "
            "data as well as chance allows: if the model is right, a misfit at least as large "
            f"occurs in {_percent(test.p_value)} of samples {numbers}."
        )
    if test.effect_size <= NEGLIGIBLE_EFFECT:
        return "Not by much", (
            "There are so many rows that a misfit is visible, but it is too small to matter: "
            f"{test.effect_size:.2g} standard deviations of one row {numbers}."
        )
    return "Yes", (
        "Averages of products of features differ from what the model predicts by more than chance "
        f"{numbers}. Too few components, features that are correlated within components, or a "
        "component that was missed are the usual causes."
    )


def _precision(c: Certificate) -> tuple[str, str]:
    """Short answer, and the reason, to whether the parameters are precise enough."""
    if c.support is not None and c.support.supported is False:
        return "Unknown", (
            "The data do not determine the parameters of that many components, so that their "
            "standard errors say nothing."
        )
    if any(finding.name == "too-few-rows" for finding in c.findings):
        return "Unknown", "There are too few rows for standard errors that say anything."
    if isnan(c.predicted_loss):
        return "Unknown", "This method gives no standard errors, which are needed to tell."
    share = _percent(c.predicted_loss)
    if c.predicted_loss <= LARGEST_LOSS:
        most = share if share.startswith("less") else f"at most about {share}"
        return "Yes", (
            f"The errors of the parameters assign {most} of the rows to another component than "
            "the best parameters would (in nine cases of ten)."
        )
    return "No", (
        f"The errors of the parameters assign about {share} of the rows to another component than "
        "the best parameters would. More rows, fewer components, or passes over the rows help."
    )


def _percent(share: float) -> str:
    # A predicted loss comes from 2,500 drawn rows, so that smaller shares are not distinguishable.
    if share >= 0.995:
        return "nearly all"
    return "less than 0.1 %" if share < 1e-3 else f"{100 * share:.2g} %"
