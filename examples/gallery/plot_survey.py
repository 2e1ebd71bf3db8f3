"""
Kinds of people in a survey
===========================

Answers to a survey are yes or no, or one of a few levels. Are there kinds of people who answer
alike? This is latent class analysis. EM from a random start takes a hundred passes over the answers
and more. A summary takes one, and is fitted without the answers.
"""

# sphinx_gallery_thumbnail_number = 1
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import momentmix as mm

plt.style.use("seaborn-v0_8-colorblind")

# %%
# Twelve yes/no questions and two with a few answers, drawn from three classes. People of one class
# answer alike, but not very much so.

QUESTIONS = [
    "reads", "cooks", "hikes", "votes", "sings", "gardens",
    "paints", "cycles", "travels", "codes", "runs", "knits",
]  # fmt: skip
LEVELS = {"home": ("city", "town", "village"), "news": ("paper", "radio", "TV", "web")}
likes = np.array([list(line) for line in ("011010010001", "110100100110", "001101101010")])
home = [[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]]
news = [[0.2, 0.2, 0.2, 0.4], [0.4, 0.2, 0.2, 0.2], [0.2, 0.3, 0.3, 0.2]]
blocks = [
    mm.BernoulliBlock(p, ("no", "yes"), names=name)
    for name, p in zip(QUESTIONS, np.where(likes == "1", 0.7, 0.3).T, strict=True)
]
for (name, levels), p in zip(LEVELS.items(), (home, news), strict=True):
    blocks.append(mm.CategoricalBlock(p, levels, names=name))
truth = mm.Mixture.from_blocks([0.45, 0.35, 0.2], blocks)
table, labels = truth.sample(6_000, random_state=0)
answers = pd.DataFrame(table)
print(answers.head())
accuracy = (truth.predict(answers) == labels).mean()
print(f"the true parameters put {accuracy:.0%} of the people into the right class")

# %%
# One fit of the rows, and one of their summary.


def timed(name, call):
    start = time.perf_counter()
    answer = call()
    print(f"{name:28s} {time.perf_counter() - start:5.1f} s")
    return answer


families = dict.fromkeys(QUESTIONS, "bernoulli") | LEVELS
result = timed("momentmix", lambda: mm.fit(answers, 3, families=families, random_state=0))
summary = timed("summary", lambda: mm.summarize(answers, order=4, families=families))
moments = timed("momentmix, moments alone", lambda: mm.fit(summary, 3, random_state=0))
print(result.certificate)

# %%
# For comparison: EM from three random starts, in a few lines, on an indicator of each answer.

codes = np.column_stack([answers[name].astype("category").cat.codes for name in answers])
indicators = np.hstack([column[:, None] == np.unique(column) for column in codes.T]).astype(float)


def em(seed, r=3, most_steps=500):
    """Log-likelihood of a row after each step of one EM run."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(r), len(indicators))
    values = []
    while len(values) < most_steps and (len(values) < 50 or values[-1] - values[-50] > 1e-7):
        counts = shares.sum(axis=0)
        logs = np.log(np.maximum(shares.T @ indicators / counts[:, None], 1e-12))
        joint = indicators @ logs.T + np.log(counts / len(indicators))
        total = np.logaddexp.reduce(joint, axis=1)
        shares = np.exp(joint - total[:, None])
        values.append(total.mean())
    return np.array(values)


runs = timed("EM, three random starts", lambda: [em(seed) for seed in range(3)])
best = max(run[-1] for run in runs)

# %%
# The distance from the best likelihood after each step of EM, which is a pass over the rows. The
# summary takes one pass. Its fit is closer to the best than the true parameters are.

figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for run in runs:
    ax.plot(range(1, len(run) + 1), np.maximum(best - run, 1e-9), color="C2", alpha=0.6)
ax.plot([], [], color="C2", label="EM, three random starts")
for name, mixture, color in (
    ("true parameters", truth, "0.5"),
    ("momentmix, moments alone: one pass", moments.mixture, "C0"),
    ("momentmix, with rows", result.mixture, "C1"),
):
    gap = best - mixture.log_prob(answers).mean()
    print(f"{name:36s} {gap:.5f} nats a row below the best")
    ax.axhline(max(gap, 1e-6), color=color, linestyle="--", label=name)
ax.scatter(1, best - moments.mixture.log_prob(answers).mean(), color="C0", zorder=3)
ax.set(xscale="log", yscale="log", xlabel="steps of EM", ylabel="nats a row below the best")
ax.set(ylim=(3e-6, 0.3))
figure.legend(loc="outside lower center", ncols=2, fontsize=9)

# %%
# The classes, as probabilities of each answer: the truth, and the fit of the summary.


def probabilities(mixture):
    """A line for each answer, with a number for each class; of yes/no questions that of yes."""
    lines = {}
    for block in mixture.blocks:
        if block.levels == ("no", "yes"):
            lines[block.names[0]] = block.by_level["yes"]
        else:
            lines |= {f"{block.names[0]}: {level}": p for level, p in block.by_level.items()}
    return lines


mixtures = {"truth": truth, "moments alone": truth.align(moments.mixture)}
figure, axes = plt.subplots(1, 2, figsize=(7.5, 6), sharey=True, layout="constrained")
for ax, (title, mixture) in zip(axes, mixtures.items(), strict=True):
    lines = probabilities(mixture)
    table = np.array(list(lines.values()))
    image = ax.imshow(table, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    for (i, k), p in np.ndenumerate(table):
        color = "white" if p > 0.6 else "black"
        ax.text(k, i, f"{p:.2f}", ha="center", va="center", fontsize=8, color=color)
    ax.set_yticks(range(len(lines)), list(lines))
    ax.set_xticks(range(3), [f"class {k}\n{w:.0%}" for k, w in enumerate(mixture.weights)])
    ax.set(title=title)
figure.colorbar(image, ax=axes, label="probability", shrink=0.6)
plt.show()

# %%
# How many classes? ``"auto"`` takes the largest number that other rows would give again.

by_rows = mm.fit(answers, families=families, random_state=0)
for trial in by_rows.tried[:4]:
    least, chosen = trial.least_reproducibility, ", chosen" * trial.chosen
    print(f"number of classes {trial.n_components}: least reproducibility {least:.2f}{chosen}")
