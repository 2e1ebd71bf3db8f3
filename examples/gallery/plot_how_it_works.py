"""
How it works, in five pictures
==============================

Six components in fifteen features. One pass over the rows computes the averages of products of
features; the steps after that do not need the rows.
"""

import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm
from momentmix.displays.style import COLORS
from momentmix.fitting.inputs import moments_of
from momentmix.fitting.moment.candidates import draw_candidates

rng = np.random.default_rng(3)
weights = np.array([0.25, 0.2, 0.2, 0.15, 0.12, 0.08])
truth = mm.DiagonalMixture(weights, rng.standard_normal((6, 15)), rng.uniform(0.2, 0.8, (6, 15)))
rows, labels = truth.sample(100_000, random_state=0)

# %%
# **1. The rows.** Two of the fifteen features. Components overlap in any two features; they differ
# in all fifteen together.

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.scatter(rows[:4000, 0], rows[:4000, 1], s=3, color="0.6")
ax.set(xlabel="feature 0", ylabel="feature 1", title="4,000 of 100,000 rows")

# %%
# **2. The moments.** Averages of products of *different* features: for independent noise within a
# component the noise averages out, so that the average of y_i·y_j·y_k is the weighted sum of
# products of means. The pictures show the third order, one slice for each k; entries with a
# repeated index, which depend on the variances, are white.

summary = mm.summarize(rows, order=4)
scale = np.sqrt(summary.variance)
third = summary.tensor(3, summary.mean, scale)

figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained")
cube = np.full((15, 15, 15), np.nan)
place = 0
for k in range(15):  # colexicographic order: the largest index changes last
    for j in range(k):
        for i in range(j):
            for p in ((i, j, k), (i, k, j), (j, i, k), (j, k, i), (k, i, j), (k, j, i)):
                cube[p] = third.values[place]
            place += 1
most = np.nanmax(np.abs(cube))
for k, ax in enumerate(axes):
    image = ax.imshow(cube[k], cmap="PuOr_r", vmin=-most, vmax=most)
    ax.set(title=f"average of y{k}·yi·yj", xticks=[], yticks=[])
figure.colorbar(image, ax=axes, shrink=0.8)

# %%
# **3. Candidates.** For a random partition of the features into three groups, the moments form
# matrices with common eigenvectors, whose eigenvalues are means. Each partition gives six
# candidates; noise makes some of them inaccurate, so many partitions are drawn.

moments = moments_of(summary)
candidates = draw_candidates(moments, 6, 40, np.random.default_rng(0))
means = (truth.means - summary.mean) / scale

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.scatter(candidates[:, 0], candidates[:, 1], s=10, color=COLORS[5], label="candidates")
ax.scatter(means[:, 0], means[:, 1], s=90, marker="+", color="black", label="true means")
ax.set(xlabel="feature 0 (standardized)", ylabel="feature 1", xlim=(-3, 3), ylim=(-3, 3))
ax.legend()

# %%
# **4. Selection and polish.** A non-negative least-squares fit of the weights of all candidates to
# all moments has a sparse solution, which selects candidates. Least squares on all moments then
# optimizes weights, means and variances together, each moment divided by its own noise.

result = mm.fit(summary, 6, random_state=0)
found = (result.mixture.means - summary.mean) / scale

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.scatter(candidates[:, 0], candidates[:, 1], s=4, color="0.85")
ax.scatter(found[:, 0], found[:, 1], s=60, facecolors="none", edgecolors=COLORS[1], label="fit")
ax.scatter(means[:, 0], means[:, 1], s=90, marker="+", color="black", label="true means")
ax.set(xlabel="feature 0 (standardized)", ylabel="feature 1", xlim=(-3, 3), ylim=(-3, 3))
ax.legend()

# %%
# **5. The certificate.** There are far more moments than parameters. The first test of the
# certificate compares the residuals with those expected by chance.

display = mm.displays.MomentResidualsDisplay.from_estimator(result, summary)
print(result.certificate)
plt.show()
