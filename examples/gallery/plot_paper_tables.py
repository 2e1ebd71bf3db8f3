"""
The tables of the paper
=======================

The figures that B. Guo, J. Nie and Z. Yang print, beside those of this implementation. A tensor of
which only some entries are known is decomposed, first exactly, then with noise; then mixtures are
fitted to rows. ``momentmix reproduce`` runs all tables in full.
"""

from math import comb

import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm
from momentmix import paper

plt.style.use("seaborn-v0_8-colorblind")

# %%
# **Exact tensors** (their Table 2). A tensor of order m is a sum of r powers of vectors of length
# d; only entries with different indices are known. r is the largest rank that the order admits.
# Bars extend from the smallest to the largest relative error.

printed = {  # (d, m): smallest, average and largest error of 100 tensors
    (15, 3): (1.7e-15, 3.1e-12, 1.7e-10),
    (15, 4): (4.0e-15, 7.8e-10, 7.7e-8),
    (15, 5): (1.9e-14, 2.5e-11, 8.7e-10),
    (25, 3): (9.3e-15, 7.3e-12, 6.3e-10),
    (25, 4): (6.1e-14, 1.0e-10, 9.1e-9),
    (30, 4): (3.6e-13, 1.6e-10, 2.4e-8),
    (40, 4): (4.1e-13, 5.4e-11, 6.9e-10),
}


def tensor_of(factors, order):
    return mm.IncompleteSymmetricTensor.from_factors(factors, order)


figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
names = []
for i, ((d, m), theirs) in enumerate(printed.items()):
    r = mm.largest_rank(d, m)
    ours = []
    for seed in range(3):
        tensor = tensor_of(np.random.default_rng(seed).standard_normal((r, d)), m)
        found = mm.decompose(tensor, r, seed)
        ours.append((tensor_of(found.factors, m) - tensor).norm() / tensor.norm())
    names.append(f"{d}, {m}, {r}")
    for place, color, mark, label, values in (
        (i - 0.15, "C2", "s", "printed, 100 tensors", theirs),
        (i + 0.15, "C0", "o", "here, 3 tensors", (min(ours), np.mean(ours), max(ours))),
    ):
        ax.plot([place] * 2, [values[0], values[2]], color=color, linewidth=2)
        ax.plot(place, values[1], mark, color=color, label=label if i == 0 else None)
ax.set_xticks(range(len(names)), names)
ax.set(yscale="log", ylabel="relative error", xlabel="d, m, r", title="decomposition, exact")
ax.legend()

# %%
# **Tensors with noise** (Table 3). What is left after the best approximation, relative to the
# noise. The approximation absorbs a part of the noise; the gray line, √(1 − r·d / C(d, m)), is what
# a converged one leaves on average.

printed = {(3, 0.1): 0.8953, (3, 0.01): 0.8947, (4, 0.1): 0.9544, (4, 0.01): 0.9569}
d = 15
figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
for i, ((m, size), average) in enumerate(printed.items()):
    r = mm.largest_rank(d, m)
    ours = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        exact = tensor_of(rng.standard_normal((r, d)), m)
        noise = mm.IncompleteSymmetricTensor(rng.standard_normal(exact.values.size), d, m)
        noisy = exact + noise * (size / noise.norm())
        found = mm.approximate(noisy, r, seed)
        ours.append((tensor_of(found.factors, m) - noisy).norm() / size)
    first = i == 0
    least = np.sqrt(1 - r * d / comb(d, m))
    ax.plot([i - 0.35, i + 0.35], [least] * 2, color="0.4", label="expected" if first else None)
    ax.plot(i - 0.15, average, "s", color="C2", label="printed average" if first else None)
    ax.plot([i + 0.15] * 3, ours, "o", color="C0", label="here, 3 tensors" if first else None)
ax.set_xticks(range(4), [f"{m}, {mm.largest_rank(d, m)}, {size:g}" for m, size in printed])
ax.set(ylabel="relative error", xlabel="m, r, size of the noise", title="approximation, d = 15")
ax.legend()

# %%
# **Mixtures from rows** (Section 6.3): the share of rows in the right component. The paper states
# neither the number of rows nor the distribution of the means. Here are one mixture each, of means
# of size 50, and 10,000 rows. ``momentmix reproduce gaussian`` has means of size 1, and more rows.

printed = {3: (0.9567, 0.9839), 4: (0.9451, 0.9760), 5: (0.9382, 0.9639)}  # EM, algorithm
ours = []
for m in printed:
    r = mm.largest_rank(d, m)
    rng = np.random.default_rng(r)
    weights, means = rng.random(r), 50 * rng.standard_normal((r, d))
    truth = mm.Mixture.diagonal(weights / weights.sum(), means, rng.standard_normal((r, d)) ** 2)
    rows, labels = truth.sample(10_000, random_state=0)
    mixture = paper.fit(rows, r, random_state=0).mixture
    ours.append((truth.align(mixture).predict(rows) == labels).mean())

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
place = np.arange(len(printed))
ax.bar(place - 0.27, [em for em, _ in printed.values()], 0.25, color="0.7", label="EM, printed")
ax.bar(place, [own for _, own in printed.values()], 0.25, color="C2", label="printed")
ax.bar(place + 0.27, ours, 0.25, color="C0", label="here")
ax.set_xticks(place, [f"{m}, {mm.largest_rank(d, m)}" for m in printed])
ax.set(ylim=(0.9, 1.03), ylabel="rows in the right component", xlabel="m, r  (d = 15)")
ax.legend(loc="upper center", ncols=3)
plt.show()
