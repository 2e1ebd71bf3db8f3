"""The certificate: is the model wrong, is the answer too imprecise, and what else was found.

`over_identification` answers the first question, `predicted_loss` the second, `support` whether
fewer components would do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.errors import printable
from momentmix.findings.finding import FATAL, NOTE, WARNING, Finding, Severity, found
from momentmix.fitting.inference.description import Description
from momentmix.fitting.inference.over_identification import OverIdentification, p_value_text
from momentmix.fitting.inference.verdict import NOT_TESTED, OF_ROWS, REASONS, Verdict, verdict_of
from momentmix.html.notebook import bullets, folded, paragraph, plain_table, tag
from momentmix.lazy import lazy_property
from momentmix.mixture.separation import CLEAR_GAP, LEAST_GAP, separation_words
from momentmix.wording import cut_lines, listed, plural, whole_percent

LARGEST_LOSS = 0.01  # of accuracy
WITHOUT_GAP = 0.9  # where components have no gap: cuts through one cloud can reach 0.9
LEAST_REPRODUCIBILITY = 0.75  # the usual line between stable and unstable clusters (Hennig 2007)
_AGAINST = "Reasons why it is useful and not passed:"
_BESIDE = "Also found:"
_MOST_LISTED = 6  # components in an answer
_MOST_GROUPS = 3  # of conditions, in a reason
_NOTHING = "there are no more moment conditions than parameters."


@dataclass(frozen=True)
class Support:
    """Whether the data need a number of components, or fewer would do.

    Attributes
    ----------
    n_components : int
        The number in question.
    supported : bool or None
        False: fewer components explain the data as well. None: it could not be decided.
    text : str
        The reason; where it could not be decided, how to decide it.
    """

    n_components: int
    supported: bool | None
    text: str


class Answer(NamedTuple):
    """A question, a short answer, and the reason for it in a sentence."""

    question: str
    short: str
    text: str

    def __str__(self) -> str:
        return f"{self.short}: {self.text}"


@dataclass(frozen=True, repr=False)
class Certificate:
    """Verdict on a fit.

    Attributes
    ----------
    verdict : {"passed", "useful", "not passed", "untested"}
        The worst that the reasons allow, by the table `REASONS` of the module ``verdict``, so that
        it is never better than its worst answer. "passed": there are no reasons. "useful": other
        rows give every component, and the mixture describes them at least roughly; what speaks
        against the fit concerns its exact density, or could not be tested. "not passed": something
        speaks against the groups, or against a density whose groups are not confirmed. "untested":
        no reason is known, but some test was impossible and the groups are not confirmed.
    predicted_loss : float
        Loss of accuracy to be expected from the errors of the parameters.
    findings : list of Finding
    support : Support or None
        Whether the data need this many components; None where that was not tested.
    after_rows : bool
        Whether EM passes over the rows were made.
    reproducibility : array of shape (n_components,)
        How well other rows give each component again: Jaccard index of the rows that fits of two
        halves give to it, the median of several splits. NaN where it is unknown.
    separation : array of shape (n_components, n_components)
        Depth of the valley between each pair of components, 0 to 1; NaN on the diagonal.
    description : Description
        How close the mixture is to the distribution of the rows.
    """

    test: OverIdentification
    predicted_loss: float
    findings: list[Finding]
    n_components: int
    support: Support | None = None
    after_rows: bool = False
    reproducibility: Float = field(default_factory=lambda: np.zeros(0), compare=False)
    separation: Float = field(default_factory=lambda: np.zeros((0, 0)), compare=False)
    description: Description = field(default_factory=Description, compare=False)

    def __post_init__(self) -> None:
        r = self.n_components
        if not self.reproducibility.size:
            object.__setattr__(self, "reproducibility", np.full(r, 1.0 if r == 1 else np.nan))
        if not self.separation.size:
            object.__setattr__(self, "separation", np.full((r, r), np.nan))

    @property
    def statistic(self) -> float:
        """Statistic of all conditions together; the p-value is that of a group of them."""
        return self.test.statistic

    @property
    def p_value(self) -> float:
        """Least p-value of the over-identification tests; NaN where nothing can be tested."""
        return self.test.p_value

    @property
    def effect_size(self) -> float:
        """Root mean square misfit of a condition, in standard deviations of one row."""
        return self.test.effect_size

    @lazy_property
    def tests(self) -> list[Finding]:
        """Findings of the tests: reasons against the fit (fatal), and missing tests."""
        tests, (reproduced, _, described), support = [], self.answers, self.support
        if self.test.is_rejected:
            names = [group.name for group in self.test.rejected_groups]
            more = [f"{len(names) - _MOST_GROUPS} more"] if len(names) > _MOST_GROUPS else []
            where = ", ".join([*names[:_MOST_GROUPS], *more]) or "all together"
            p_value, size = p_value_text(self.p_value), self.effect_size
            tests.append(found(FATAL, "misfit", groups=where, p_value=p_value, effect_size=size))
        if self.predicted_loss > LARGEST_LOSS:
            tests.append(found(FATAL, "imprecise", loss=self.predicted_loss))
        if support is not None and support.supported is False:
            tests.append(found(FATAL, "unsupported", reason=support.text))
        if not self.test.testable and all(f.kind != "untested" for f in self.findings):
            tests.append(found(WARNING, "untested", reason=_NOTHING))
        if support is not None and support.supported is None:
            tests.append(found(WARNING, "untested", reason=support.text))
        if weak := self.not_reproduced.tolist():
            tests.append(found(FATAL, "not-reproduced", (), weak, reason=reproduced.text))
        if self.description.level == "poor":
            tests.append(found(FATAL, "not-described", reason=described.text))
        return tests

    @property
    def _against(self) -> list[Finding]:
        """Findings that keep the fit from "passed": fatal ones, and missing tests."""
        return [
            f for f in [*self.findings, *self.tests]
            if f.severity is FATAL or REASONS.get(f.kind) is NOT_TESTED
        ]  # fmt: skip

    @property
    def reasons(self) -> list[str]:
        """Reasons against the fit; empty unless the verdict is "not passed" or "useful"."""
        return [f.text for f in self._against if _is_reason(f)]

    @property
    def untested(self) -> list[str]:
        """Tests that were not possible, whatever the verdict."""
        return [f.text for f in self._against if not _is_reason(f)]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict that the reasons allow; see the class."""
        return verdict_of({f.kind for f in self._against}, self.is_confirmed)

    @property
    def needed(self) -> Float:
        """Reproducibility that each component needs, (r,): more for parts of a continuum.

        Where the test does not reject the mixture, a component may lie within another.
        """
        gaps = np.where(np.isnan(self.separation), 1.0, self.separation).min(axis=1)
        is_part = (gaps < LEAST_GAP) & (self.test.is_rejected is not False)
        return np.where(is_part, WITHOUT_GAP, LEAST_REPRODUCIBILITY)

    @property
    def not_reproduced(self) -> Int:
        """Components that halves of the rows do not give; what is unknown is not among them."""
        return np.flatnonzero(self.reproducibility < self.needed)

    @property
    def is_continuum(self) -> NDArray[np.bool_]:
        """Which components are segments of a continuum, (r,): rows show no gap beside them."""
        components = [i for f in self.findings if f.kind == "continuum" for i in f.components]
        return np.isin(np.arange(self.n_components), components)

    @property
    def is_confirmed(self) -> bool:
        """Whether other rows give every component, and are described at least roughly."""
        return (
            self.after_rows
            and bool((self.reproducibility >= self.needed).all())
            and self.description.level in ("exact", "close", "rough")
        )

    @property
    def meaning(self) -> str:
        """The meaning of the verdict "useful", in a sentence; empty for others."""
        if self.verdict != "useful":
            return ""
        groups = "One group" if self.n_components == 1 else "The groups"
        return f"{groups} can be used, as an approximation of the rows."

    @property
    def answers(self) -> list[Answer]:
        """Answers: would other rows give the groups, are they apart, are the rows described."""
        return [_reproduced(self), _apart(self), _described(self)]

    @property
    def rows_depend(self) -> bool:
        """Whether rows depend on their neighbors: nothing is known of other rows then."""
        return any(x.kind == "ordered-rows" and x.severity is FATAL for x in self.findings)

    @property
    def passed(self) -> bool:
        """Whether everything was tested and nothing speaks against the fit."""
        return self.verdict == "passed"

    def __repr__(self) -> str:
        return cut_lines(str(self))

    def _repr_html_(self) -> str:
        tone = {"passed": "good", "useful": "good", "not passed": "bad"}.get(self.verdict, "plain")
        head = paragraph("Certificate:", tag(self.verdict, tone))
        asked = plain_table(["question", "answer"], [(a.question, str(a)) for a in self.answers])
        numbers = plain_table(["test", ""], self.numbers())
        warnings, notes = ([f.text for f in self._others(x)] for x in (WARNING, NOTE))
        lists = [*self.reasons, *self.untested], warnings, notes
        against, beside, noted = (bullets(texts) if texts else "" for texts in lists)
        if self.meaning and self.reasons:
            against, beside = paragraph(_AGAINST, against), beside and paragraph(_BESIDE, beside)
        more = folded("Numbers and notes", numbers, noted)
        return paragraph(head, self.meaning, asked, against, beside, more)

    def _others(self, severity: Severity) -> list[Finding]:
        """Findings that are neither reasons nor missing tests."""
        return [f for f in self.findings if f.kind != "untested" and f.severity is severity]

    def numbers(self) -> list[tuple[str, str]]:
        """The figures of the test, and the predicted loss."""
        t = self.test
        loss = "unknown" if isnan(self.predicted_loss) else f"{self.predicted_loss:.4f}"
        if not t.testable:
            return [("over-identification", "nothing to test"), ("predicted loss", loss)]
        return [
            ("over-identification", str(t.decisive or "tested")),
            ("p-value", t.p_value_words),
            ("effect size", f"{t.effect_size:.2g}"),
            ("predicted loss", loss),
        ]

    def __str__(self) -> str:
        is_good, answers = self.verdict in ("passed", "useful"), self.answers
        width = max(len(a.question) for a in answers)
        is_explained = bool(self.meaning and self.reasons)
        others = [f"  - {f}" for severity in (WARNING, NOTE) for f in self._others(severity)]
        lines = [
            "Certificate",
            f"  {'verdict':<20} {self.verdict if is_good else self.verdict.upper()}",
            *([f"  {self.meaning}"] if self.meaning else []),
            *(f"  {a.question:<{width}} {a}" for a in answers),
            *(f"  {name:<20} {value}" for name, value in self.numbers()),
            *([f"  {_AGAINST}"] if is_explained else []),
            *(f"  - {reason}" for reason in self.reasons),
            *(f"  - [untested] {reason}" for reason in self.untested),
            *([f"  {_BESIDE}"] if is_explained and others else []),
            *others,
        ]
        return "\n".join(map(printable, lines))


# -- three questions and their answers --------------------------------------------------------


def _reproduced(c: Certificate) -> Answer:
    question, weak = "Would other rows give these groups?", c.not_reproduced
    if c.rows_depend:
        return Answer(question, "Not known", "rows depend on their neighbors.")
    if c.n_components == 1:
        return Answer(question, "Yes", "there is one group only.")
    if weak.size:
        place = int(weak[(c.reproducibility - c.needed)[weak].argmin()])
        share, limit = (whole_percent(float(x[place])) for x in (c.reproducibility, c.needed))
        others = f", and {weak.size - 1} more as well" if weak.size > 1 else ""
        text = f"group {place} is found again in {share} of its rows, below {limit}{others}."
        return Answer(question, "No" if weak.size == c.n_components else "Partly", text)
    least = float(c.reproducibility.min())
    if isnan(least):
        why = "it was not measured." if c.after_rows else "a fit from moments has no rows to split."
        return Answer(question, "Unknown", why)
    text = f"the least reproducible group is found again in {whole_percent(least)} of its rows."
    return Answer(question, "Yes", text)


def _is_reason(finding: Finding) -> bool:
    """Whether a finding speaks against a fit, and not only for rows that cannot be tested."""
    return finding.severity is FATAL and REASONS.get(finding.kind) is not OF_ROWS


def _apart(c: Certificate) -> Answer:
    question, r = "Are they apart?", c.n_components
    if r == 1:
        return Answer(question, "Does not apply", "there is one group only.")
    depths = np.where(np.eye(r, dtype=bool), np.inf, c.separation)
    depth = float(depths.min())
    if isnan(depth):
        return Answer(question, "Unknown", "it was not measured.")
    i, j = divmod(int(depths.argmin()), r)
    pair, words = f"groups {i} and {j}", f"{separation_words(depth)} ({depth:.2f})"
    if (places := np.flatnonzero(c.is_continuum)).size and depth >= LEAST_GAP:
        short = "No" if places.size == r else "Partly"
        return Answer(
            question,
            short,
            f"the rows show no gap beside groups {listed(list(map(str, places)), _MOST_LISTED)}.",
        )
    if depth >= CLEAR_GAP:
        return Answer(question, "Yes", f"even {pair} are {words}.")
    if depth >= LEAST_GAP:
        return Answer(question, "Mostly", f"{pair} {words}.")
    others = int((depths < LEAST_GAP).sum()) // 2 - 1
    more = f", like {others} other pair{plural(others)}" if others else ""
    short = "No" if (depths.min(axis=0) < LEAST_GAP).all() else "Partly"
    return Answer(question, short, f"{pair} have {words}{more}.")


def _described(c: Certificate) -> Answer:
    question, d = "Does the mixture describe the rows?", c.description
    words = {"exact": "Yes", "close": "Closely", "rough": "Roughly", "poor": "No"}
    if d.level not in words:
        why = "it was not measured." if c.after_rows else "there are no rows to compare with."
        return Answer(question, "Unknown", why)
    name = max(d.columns, key=lambda key: d.columns[key], default="")
    if isnan(d.distance):
        text = f"the misfit of the moments is {c.effect_size:.2g} deviations of one row"
    elif d.distance < 0.005:  # 0.00 in print
        text = "no column is further from the rows than chance explains"
    elif name == "" or d.columns[name] < d.distance:
        text = f"the largest distance, {d.distance:.2f}, is along the widest direction of the rows"
    else:
        where = name if isinstance(name, str) else f"column {name}"
        text = f"the largest distance of a column is {d.distance:.2f} ({where})"
    exact = "no test rejects it; " if d.level == "exact" else ""
    return Answer(question, words[d.level], f"{exact}{text}.")
