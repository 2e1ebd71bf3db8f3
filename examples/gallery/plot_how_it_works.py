"""
How it works, in five pictures
==============================

Six groups in fifteen columns. One pass over the rows computes averages of products of columns; the
steps after that do not need the rows.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm
from momentmix import displays

plt.style.use("seaborn-v0_8-colorblind")
rng = np.random.default_rng(3)
weights = np.array([0.25, 0.2, 0.2, 0.15, 0.12, 0.08])
truth = mm.DiagonalMixture(weights, rng.standard_normal((6, 15)), rng.uniform(0.2, 0.8, (6, 15)))
rows, labels = truth.sample(100_000, random_state=0)

# %%
# **1. The rows.** Two of the fifteen columns. Groups overlap in any two columns; they differ in all
# fifteen together.

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.scatter(rows[:4000, 0], rows[:4000, 1], s=3, color="0.6")
ax.set(xlabel="column 0", ylabel="column 1", title="4,000 of 100,000 rows")

# %%
# **2. The moments.** Averages of products of *different* columns. Within a group the noise of
# different columns is independent and averages out, so that the average of y_i·y_j·y_k is the
# weighted sum of products of means. The pictures show products of three columns, one slice for each
# k; entries with a repeated column also contain variances, and are white.

few = mm.summarize(rows[:5_000], order=3)  # of few rows, so that chance shows
third = few.tensor(3, few.mean, np.sqrt(few.variance))

figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained")
cube = np.full((15, 15, 15), np.nan)
place = 0
for k in range(15):  # the largest index changes last
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
# **3. Candidates.** Leave columns 0 and 1 aside, and split the others at random into two sets A and
# B. The averages of products of A with B form a matrix of rank six. Multiplied by column 0 or 1 the
# averages form two more matrices, and all three belong together: the common eigenvectors of their
# quotients stand for the groups, and the eigenvalues are the means of columns 0 and 1. Chance makes
# some of them inaccurate, so many splits are drawn.

pairs = np.full((15, 15), np.nan)
second = few.tensor(2, few.mean, np.sqrt(few.variance)).values
for j in range(15):
    pairs[j, :j] = pairs[:j, j] = second[j * (j - 1) // 2 : j * (j + 1) // 2]


def products(a, b, c=None):
    """Averages of (1, columns of A) times (1, columns of B), and perhaps times column c."""
    table = np.zeros((len(a) + 1, len(b) + 1))  # columns have the mean 0
    if c is None:
        table[0, 0], table[1:, 1:] = 1, pairs[np.ix_(a, b)]
    else:
        table[0, 1:], table[1:, 0] = pairs[c, b], pairs[a, c]
        table[1:, 1:] = cube[c][np.ix_(a, b)]
    return table


candidates = []
for _ in range(60):
    a, b = np.split(rng.permutation(np.arange(2, 15)), [7])
    left, values, right = np.linalg.svd(products(a, b))
    root = 1 / np.sqrt(values[:6])
    both = [
        root[:, None] * (left[:, :6].T @ products(a, b, c) @ right[:6].T) * root for c in (0, 1)
    ]
    vectors = np.linalg.eig(both[0] + 0.7 * both[1])[1]
    found = [np.diag(np.linalg.solve(vectors, matrix @ vectors)) for matrix in both]
    candidates.extend(np.array(found).T.real)
candidates = np.array(candidates)
means = (truth.means - few.mean) / np.sqrt(few.variance)

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.scatter(candidates[:, 0], candidates[:, 1], s=10, color="C5", label="candidates")
ax.scatter(means[:, 0], means[:, 1], s=90, marker="+", color="black", label="true means")
ax.set(xlabel="column 0 (standardized)", ylabel="column 1", xlim=(-1.6, 2), ylim=(-2, 1.6))
ax.legend()

# %%
# **4. Selection and polish.** momentmix does this for all rows and columns, selects six of the
# candidates by a least-squares fit to all moments, and then improves weights, means and variances
# together, each moment divided by its own noise.

summary = mm.summarize(rows, order=4)
result = mm.fit(summary, 6, random_state=0)
found = (result.mixture.means - few.mean) / np.sqrt(few.variance)

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.scatter(candidates[:, 0], candidates[:, 1], s=4, color="0.85")
ax.scatter(found[:, 0], found[:, 1], s=60, facecolors="none", edgecolors="C2", label="fit")
ax.scatter(means[:, 0], means[:, 1], s=90, marker="+", color="black", label="true means")
ax.set(xlabel="column 0 (standardized)", ylabel="column 1", xlim=(-1.6, 2), ylim=(-2, 1.6))
ax.legend()

# %%
# **5. The certificate.** There are far more moments than parameters. The first test of the
# certificate compares what is left over with what is expected by chance.

display = displays.MomentResidualsDisplay.from_estimator(result, summary)
print(result.certificate)
plt.show()
