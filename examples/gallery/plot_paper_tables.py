"""
The paper's tables as plots
===========================

The figures that Guo, Nie and Yang print, and those of this implementation. Only rows that take
seconds are shown; ``momentmix reproduce`` runs all of them.
"""

import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm
from momentmix.displays.style import COLORS
from momentmix.mixture.matching import clustering_accuracy
from momentmix.reproduce import experiments

printed = experiments.printed()

# %%
# **Decomposition of exact tensors** (their Table 2): the relative error of decomposing a tensor of
# the largest rank that the order admits. Bars extend from the smallest to the largest error of an
# instance.

chosen = [row for row in printed["table_decomposition"] if row["r"] <= 60]
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for i, row in enumerate(chosen):
    instances = experiments.decomposition(row["d"], row["m"], 3, 0)
    ours = np.array([one["decomp_err"] for one in instances])
    theirs = [row[f"decomp_err_{which}"] for which in ("min", "avg", "max")]
    ax.plot([i - 0.15] * 2, [theirs[0], theirs[2]], color=COLORS[1], linewidth=2)
    ax.plot(i - 0.15, theirs[1], "s", color=COLORS[1], label="printed" if i == 0 else None)
    ax.plot([i + 0.15] * 2, [ours.min(), ours.max()], color=COLORS[0], linewidth=2)
    ax.plot(
        i + 0.15, ours.mean(), "o", color=COLORS[0], label="here, 3 instances" if i == 0 else None
    )
names = [f"{row['d']}, {row['m']}, {row['r']}" for row in chosen]
ax.set_xticks(range(len(chosen)), names, rotation=45, ha="right")
ax.set(yscale="log", ylabel="relative error", xlabel="d, m, r")
ax.legend()

# %%
# **Approximation of noisy tensors** (Tables 3 and 4): the residual after the best approximation,
# relative to the noise. The approximation absorbs part of the noise; √(1 − r·d / C(d, m)) of it is
# the residual that a converged result has.

chosen = [row for row in printed["table_approximation_d15"] if row["r"] <= 15]
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for i, row in enumerate(chosen):
    d, m = row["d"], row["m"]
    instances = experiments.approximation(d, m, row["eps"], 3, 0)
    ours = [one["rel_err"] for one in instances]
    expected = experiments.expected_relative_error(d, m)
    ax.plot([i - 0.35, i + 0.35], [expected] * 2, color="0.4", label="expected" if i == 0 else None)
    ax.plot(
        i - 0.15, row["rel_avg"], "s", color=COLORS[1], label="printed average" if i == 0 else None
    )
    ax.plot(
        [i + 0.15] * len(ours), ours, "o", ms=4, color=COLORS[0],
        label="here, 3 instances" if i == 0 else None,
    )  # fmt: skip
names = [f"{row['m']}, {row['r']}, {row['eps']:g}" for row in chosen]
ax.set_xticks(range(len(chosen)), names, rotation=45, ha="right")
ax.set(ylabel="relative error", xlabel="m, r, ε  (d = 15)")
ax.legend()

# %%
# **Mixtures from samples** (Section 6.3): accuracy of the labels. The paper states neither the
# number of rows nor the law of the means; here 10,000 rows and means of size 50, one instance
# each, by ``method="paper"``.

table = printed["table_gaussian"]
ours = []
for row in table:
    rng = np.random.default_rng(row["r"])
    truth = experiments.law_of_section_6(rng, row["d"], row["r"], 50.0)
    rows, labels = truth.sample(10_000, random_state=0)
    found = mm.fit(rows, row["r"], order=row["m"], method="paper", refine=None, random_state=0)
    floor = 1e-6 * rows.var(axis=0)
    predicted = found.mixture.with_variance_floor(floor).predict(rows)
    ours.append(clustering_accuracy(labels, predicted))

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
place = np.arange(len(table))
ax.bar(place - 0.27, [row["em"] for row in table], 0.25, color="0.7", label="EM, printed")
ax.bar(place, [row["algorithm"] for row in table], 0.25, color=COLORS[1], label="printed")
ax.bar(place + 0.27, ours, 0.25, color=COLORS[0], label="here")
ax.set_xticks(place, [f"{row['d']}, {row['m']}, {row['r']}" for row in table])
ax.set(ylim=(0.9, 1.03), ylabel="accuracy", xlabel="d, m, r")
ax.legend(loc="upper center", ncols=3)
plt.show()
