"""
The certificate finds wrong models
==================================

A fit always returns parameters. The certificate says whether they can be trusted. Here are six
fits, of which one should pass.
"""

import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm
from momentmix import displays

plt.style.use("seaborn-v0_8-colorblind")

rng = np.random.default_rng(6)
truth = mm.Mixture.diagonal(
    [0.5, 0.3, 0.2], 1.5 * rng.standard_normal((3, 8)), rng.uniform(0.5, 1.5, (3, 8))
)
rows, labels = truth.sample(8_000, random_state=0)

# %%
# The cases.

correlated = rows.copy()
correlated[:, 1] += 0.8 * (rows[:, 0] - truth.means[labels, 0])  # within components
heavy = truth.means[labels] + rng.standard_t(2, size=rows.shape)
duplicate = np.column_stack([rows, 2 * rows[:, 0] + 1])
cases = {
    "right model": (rows, 3),
    "a component too few": (rows, 2),
    "correlated columns": (correlated, 3),
    "heavy tails": (heavy, 3),
    "a column twice": (duplicate, 3),
    "60 rows": (rows[:60], 3),
}
results = {name: mm.fit(data, r, random_state=0) for name, (data, r) in cases.items()}
for name, result in results.items():
    c = result.certificate
    print(f"{name}: {c.verdict}")
    for reason in c.reasons:
        print(f"    {reason}")
    for finding in c.findings:
        if finding.text not in c.reasons:
            print(f"    {finding}")

# %%
# The misfit of the moments, in standard deviations of one row, and what the certificate names.

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
effects = [np.nan_to_num(r.certificate.effect_size) for r in results.values()]
colors = ["C0" if r.certificate.passed else "C2" for r in results.values()]
ax.barh(range(len(cases)), effects, color=colors)
for i, result in enumerate(results.values()):
    c = result.certificate
    text = f"{c.verdict}: {c.findings[0].kind}" if c.findings else c.verdict
    ax.text(effects[i] + 0.002, i, text, va="center")
ax.set_yticks(range(len(cases)), cases, fontsize=11)
ax.set(xlabel="effect size", xlim=(0, max(effects) * 2.2))
ax.invert_yaxis()

# %%
# The third case: the two columns are correlated within each component, which the axis-parallel
# ellipses of a diagonal mixture cannot represent. The certificate names the columns.

display = displays.PairsDisplay.from_estimator(
    results["correlated columns"], correlated, features=[0, 1]
)
plt.show()
