"""The certificate: is the model wrong, is the answer too imprecise, and what else was found.

`over_identification` answers the first question, `precision` the second; `findings` are sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from momentmix.errors import printable
from momentmix.fitting.inference.findings import Finding, Severity
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE, OverIdentification

NEGLIGIBLE_EFFECT = 5e-4  # standard deviations of one row; with enough rows every test rejects
LARGEST_LOSS = 0.01  # of accuracy


@dataclass(frozen=True)
class Certificate:
    """Verdict on a fit.

    Attributes
    ----------
    passed : bool
        p-value ≥ 0.01 (or a negligible effect size), predicted loss ≤ 0.01, no fatal finding.
    reasons : list of str
        Why it did not pass; empty if it did.
    statistic, p_value, effect_size : float
        Over-identification test.
    predicted_loss : float
        Loss of accuracy to be expected from the errors of the parameters.
    findings : list of Finding
    """

    test: OverIdentification
    predicted_loss: float
    findings: list[Finding]
    n_components: int

    @property
    def statistic(self) -> float:
        """Statistic of the over-identification test."""
        return self.test.statistic

    @property
    def p_value(self) -> float:
        """p-value of the over-identification test; NaN where nothing can be tested."""
        return self.test.p_value

    @property
    def effect_size(self) -> float:
        """Root mean square misfit of a condition, in standard deviations of one row."""
        return self.test.effect_size

    @property
    def reasons(self) -> list[str]:
        """Why the certificate did not pass."""
        reasons = [f.text for f in self.findings if f.severity is Severity.FATAL]
        if not self.test.testable and self.n_components > 1:
            reasons.append(
                "nothing to test: there are no more moment conditions than parameters. "
                "Use fewer components, more features or a higher order."
            )
        if self.test.testable and self._is_rejected():
            reasons.append(
                f"the moments do not fit: p-value {self.p_value:.2g}, effect size "
                f"{self.effect_size:.2g}. More components, columns correlated within components, "
                "or a component that was missed are the usual causes."
            )
        if self.predicted_loss > LARGEST_LOSS:
            reasons.append(
                f"too imprecise: the parameters' errors cost about {self.predicted_loss:.3f} of "
                "accuracy. Use more rows, fewer components, or EM passes over the rows."
            )
        return reasons

    def _is_rejected(self) -> bool:
        return self.p_value < LEAST_P_VALUE and self.effect_size > NEGLIGIBLE_EFFECT

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the fit."""
        return not self.reasons

    def __str__(self) -> str:
        t = self.test
        law = "bootstrap" if t.bootstrapped else "χ²"
        rows = [("verdict", "passed" if self.passed else "NOT PASSED")]
        if t.testable:
            rows += [
                ("over-identification", f"{t.statistic:.1f} on {t.degrees_of_freedom} d.o.f."),
                ("p-value", f"{t.p_value:.3g} ({law})"),
                ("effect size", f"{t.effect_size:.2g}"),
            ]
        else:
            rows.append(("over-identification", "nothing to test"))
        loss = "unknown" if isnan(self.predicted_loss) else f"{self.predicted_loss:.4f}"
        rows.append(("predicted loss", loss))
        lines = [f"  {name:<20} {value}" for name, value in rows]
        lines += [f"  - {reason}" for reason in self.reasons]
        lines += [f"  - {f}" for f in self.findings if f.severity is not Severity.FATAL]
        return "\n".join(["Certificate", *map(printable, lines)])
