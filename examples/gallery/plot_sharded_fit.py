"""
Data in eight places: summarize there, fit once
===============================================

Rows are on several machines and must stay there. Each machine computes a summary, a file of a few
kilobytes for any number of rows, and the summaries are added. In whatever order that is done, the
result is the same to the last bit.
"""

import tempfile
from itertools import permutations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm

plt.style.use("seaborn-v0_8-colorblind")

rng = np.random.default_rng(0)
truth = mm.Mixture.diagonal(
    [0.4, 0.3, 0.2, 0.1], 1.2 * rng.standard_normal((4, 10)), rng.uniform(0.5, 1.5, (4, 10))
)
rows, _ = truth.sample(64_000, random_state=0)
rows += 1e6  # a far offset: each shard takes its own shift, and nothing is lost

# %%
# Eight shards of very different size, as files.

folder = Path(tempfile.mkdtemp())
cuts = [500, 1_500, 4_000, 9_000, 16_000, 26_000, 40_000]
for i, part in enumerate(np.split(rows, cuts)):
    mm.summarize(part, order=4).save(folder / f"site-{i}.mms")
shards = [mm.MomentSummary.load(path) for path in sorted(folder.glob("*.mms"))]
sizes = [path.stat().st_size // 1000 for path in sorted(folder.glob("*.mms"))]
print("rows in each shard:", [shard.n_rows for shard in shards])
print("size of each file: ", sizes, "kB")

# %%
# Merge a few of them in every order: one byte string.

found = {sum(order[1:], order[0]).to_bytes() for order in permutations(shards[:4])}
print(f"{len(list(permutations(range(4))))} orders of merging give {len(found)} result(s)")

# %%
# Fit as the shards come in. Bars are 95 % intervals of the mean of feature 0 in each component;
# lines are the truth. About one bar in twenty should miss its line; while rows are few, it is a
# little more.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
total = shards[0]
for i, shard in enumerate(shards):
    total = total if i == 0 else total + shard
    if total.n_rows < 1_000:
        continue
    result = mm.fit(total, 4, random_state=0)
    order = np.argsort(truth.predict(result.mixture.means - 1e6))  # that of the truth
    low, high = (end[order, 0] - 1e6 for end in result.intervals().means)
    for k in range(4):
        style = {"color": f"C{k}", "alpha": 1.0 if result.certificate.passed else 0.35}
        ax.plot([i + 0.12 * (k - 1.5)] * 2, [low[k], high[k]], linewidth=3, **style)
for k in range(4):
    ax.axhline(truth.means[k, 0], color=f"C{k}", linewidth=0.8)
labels = [f"{n:,}" for n in np.cumsum([s.n_rows for s in shards])]
ax.set_xticks(range(8), labels, rotation=30)
ax.set(xlabel="rows merged so far (pale: certificate not passed)", ylabel="mean of feature 0 − 10⁶")
plt.show()
