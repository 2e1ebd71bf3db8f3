"""
How many rows are enough?
=========================

Four times as many rows halve the error: it falls as 1/√N. One summary is filled step by step and
fitted on the way; no row is read twice. The standard errors that come with each fit are estimates
of the error that need no truth.
"""

import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm

plt.style.use("seaborn-v0_8-colorblind")

rng = np.random.default_rng(1)
truth = mm.DiagonalMixture(
    [0.5, 0.3, 0.2], 1.2 * rng.standard_normal((3, 8)), rng.uniform(0.5, 1.5, (3, 8))
)

# %%
# Three streams of rows, each fitted at six sizes.

sizes = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000]
errors, predicted, losses = (np.zeros((3, len(sizes))) for _ in range(3))
for stream in range(3):
    generator = np.random.default_rng(100 + stream)
    summary = mm.MomentSummary(8, order=4)
    for i, size in enumerate(sizes):
        summary.update(truth.sample(size - summary.n_rows, random_state=generator)[0])
        result = mm.fit(summary, 3, random_state=0)
        found = truth.align(result.mixture)  # its components in the order of the truth
        errors[stream, i] = np.sqrt(((found.means - truth.means) ** 2).mean())
        predicted[stream, i] = np.sqrt((result.standard_errors.means**2).mean())
        losses[stream, i] = result.certificate.predicted_loss

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.loglog(sizes, errors.T, "o", color="C0", alpha=0.7)
ax.loglog(sizes, predicted.mean(axis=0), "--", color="C2")
line = predicted[:, -1].mean() * np.sqrt(sizes[-1] / np.array(sizes))
ax.loglog(sizes, line, color="0.3", linewidth=1)
ax.set(xlabel="rows N", ylabel="root mean square error of the means")
ax.legend(
    handles=[
        plt.Line2D([], [], marker="o", linestyle="", color="C0", label="measured, 3 streams"),
        plt.Line2D([], [], linestyle="--", color="C2", label="its own standard errors"),
        plt.Line2D([], [], color="0.3", linewidth=1, label="1/√N through the last point"),
    ]
)

# %%
# The certificate turns the same errors into what they cost: rows put into the wrong component.

for size, loss in zip(sizes, losses.mean(axis=0), strict=True):
    print(f"{size:>7,} rows: predicted loss of accuracy {loss:.4f}")
plt.show()
