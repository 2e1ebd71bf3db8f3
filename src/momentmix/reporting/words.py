"""The certificate in plain words: questions and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from momentmix.fitting.inference.certificate import (
    LARGEST_LOSS,
    NEGLIGIBLE_EFFECT,
    Certificate,
    decisive_line,
)
from momentmix.fitting.inference.findings import Severity
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE, p_value_text
from momentmix.wording import listed, plural

NO_RECORD = (
    "This model file holds no record of a fit, so there are no certificate and no intervals. "
    "momentmix fit, and FitResult.save in Python, write one."
)


@dataclass(frozen=True)
class Reply:
    """A question, a short answer, the reason for it, and the numbers behind it."""

    question: str
    short: str
    text: str
    numbers: str = ""


def verdict(certificate: Certificate) -> str:
    """The verdict in one sentence."""
    if certificate.passed:
        return "No test speaks against this fit."
    if certificate.verdict == "untested":
        return "Nothing speaks against this fit, but not everything could be tested."
    return f"Do not rely on it yet: {listed(shortcomings(certificate), 4)}."


def shortcomings(certificate: Certificate) -> list[str]:
    """What speaks against a fit, a few words each."""
    kinds = {
        "the moments do not fit": "the data contradict the model",
        "too imprecise": "the groups are not known precisely enough",
        "not supported": "fewer groups, or others, describe the data as well",
    }
    found = [words for start, words in kinds.items() if _has_reason(certificate, start)]
    n = sum(finding.severity is Severity.FATAL for finding in certificate.findings)
    return (
        [*found, f"{n} finding{plural(n)} below spoil{'s' if n == 1 else ''} the fit"]
        if n
        else found
    )


def _has_reason(certificate: Certificate, start: str) -> bool:
    return any(reason.startswith(start) for reason in certificate.reasons)


def answers(certificate: Certificate) -> list[Reply]:
    """Answers to the questions of the certificate; the third where it was asked."""
    replies = [
        Reply("Do the data contradict the model?", *_contradiction(certificate)),
        Reply("Are the groups known precisely enough?", *_precision(certificate)),
    ]
    support = certificate.support
    if support is not None:
        short = {True: "Yes", False: "No", None: "Cannot be said"}[support.supported]
        question = f"Do the data need {support.n_components} groups?"
        if support.n_components == 1:
            question = "Does one group do?"
        text = {
            True: "One group less describes the data clearly worse.",
            False: "Fewer groups, or others, describe the data as well.",
            None: "There are too few averages to tell whether fewer groups would do.",
        }[support.supported]
        replies.append(Reply(question, short, text, support.text))
    return replies


def _contradiction(c: Certificate) -> tuple[str, str, str]:
    """Short answer, the reason and the numbers, to whether the data contradict the model."""
    test = c.test
    if not test.testable:
        if c.n_components == 1:
            return "Not tested", "One group leaves nothing to be tested here.", ""
        return "Not tested", "There are no more averages to compare than parameters.", ""
    numbers = (
        f"Over-identification test, {decisive_line(test)}, p-value {test.p_value_words}, effect "
        f"size {test.effect_size:.2g} standard deviations of one row."
    )
    if test.overdispersed_model:
        text = (
            "The averages agree far better than expected by chance, as happens if a few extreme "
            "rows dominate them: the test has no power."
        )
        return "Cannot be said", text, numbers
    if test.p_value >= LEAST_P_VALUE:
        text = (
            "Averages that the model predicts differ from those of the data no more than chance "
            f"explains: no test rejects it, the least p-value is {p_value_text(test.p_value)}."
        )
        return "No", text, numbers
    if test.effect_size <= NEGLIGIBLE_EFFECT:
        text = "There are so many rows that a difference is visible, but it is too small to matter."
        return "Not by much", text, numbers
    text = "Averages of the data differ from what the model predicts by more than chance."
    return "Yes", text, numbers


def _precision(c: Certificate) -> tuple[str, str, str]:
    """Short answer, the reason and the numbers, to whether the parameters are precise enough."""
    if c.support is not None and c.support.supported is False:
        return "Unknown", "The data do not determine that many groups.", ""
    if any(finding.name == "too-few-rows" for finding in c.findings):
        return "Unknown", "There are too few rows to say.", ""
    if isnan(c.predicted_loss):
        return "Unknown", "This method gives no standard errors, which are needed to tell.", ""
    share = _percent(c.predicted_loss)
    numbers = f"Predicted loss of accuracy {c.predicted_loss:.4f} (not exceeded in nine of ten)."
    if c.n_components == 1:
        return "Yes", "There is one group only: no row can be in a wrong one.", ""
    if c.predicted_loss <= LARGEST_LOSS:
        most = share if share.startswith("less") else f"at most about {share}"
        text = f"Errors of the parameters put {most} of the rows into a wrong group."
        return "Yes", text, numbers
    text = f"Errors of the parameters may put about {share} of the rows into a wrong group."
    return "No", text, numbers


def _percent(share: float) -> str:
    # A predicted loss comes from 2,500 drawn rows, so that smaller shares are not distinguishable.
    return "less than 0.1 %" if share < 1e-3 else f"{100 * share:.2g} %"
