"""The search for a start of the full passes: candidates compete by likelihood on a sample.

Short EM runs from k-means++ seeds and from random responsibilities, and the pool of all their
components are candidates; the best goes on. With many rows, candidates are made on a
sample and judged on other rows; with few, on all rows, and compared on the same rows (every
candidate has the same number of parameters). The prior of the variances takes part in all of it:
ranked by likelihood alone, many starts find components of a few rows that happen to be close.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Sample, log_likelihoods, run_batch, settle
from momentmix.fitting.em.patterns import in_blocks
from momentmix.fitting.em.pooling import merge_copies, pool_weights, reduce_pool
from momentmix.fitting.em.starts import Start, random_starts, seeded_starts, split_starts
from momentmix.fitting.moments.fit import one_component
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.parallel import few_threads

JOINED = "joined columns"  # the name of a mixture that the search for blocks found
# Rows of the short runs, which only have to tell good starts from poor ones, and rows a parameter.
_FEWEST_SHORT, _MOST_SHORT, _SHORT_PER_PARAMETER = 3000, 8000, 8
# Steps of a short run, at most and at least. In eight searches for 8 overlapping components, 15
# steps missed the best optimum once, 60 took half as long again, and at least 5 changed nothing.
_SHORT_STEPS, _LEAST_SHORT = 30, 10
_STEPS_ON_SAMPLE = 40  # a sample need not be fitted to its end
_STEPS_ON_ALL = 400  # the passes go on from there: 100 and 1000 give the same answers
_POOL_DENSITIES = 6_000_000  # 48 MB; a quarter and four times as many give the same answers
_AT_REST = 1e-5  # nats a row in five steps of a short run: it has found its optimum
FEW_ROWS = 4000  # with fewer, local optima are many, and EM steps cost next to nothing
_STARTS = 4  # of each kind, at least
_STARTED_COMPONENTS = 40  # few components are cheap: more starts, for structured data
# With few rows: components in all starts of a kind, and starts of each kind at least. Two
# components of data that have more are the hardest case; from eight on, more found nothing better.
_SEEDS_OF_FEW_ROWS, _LEAST_OF_FEW_ROWS = 64, 8
_OBJECTIVE_DIGITS = 10  # of a log-likelihood per row; further ones are rounding
_SAME = 1e-3  # nats a row: candidates at one optimum differ by less
_CLEAR_STARTS, _CLEAR_SHARE = 3, 1 / 3  # starts that end at the best optimum, where it is clear
# Components of mixtures that are grown by cuts, which find clusters along one column of many, and
# EM steps after each cut. Of more components random starts find such clusters as well.
_MOST_CUT, _CUT_STEPS = 5, 15
_POOLED_RUNS = 12  # the best, with few rows; poor runs add components that no mixture keeps


class Candidate(NamedTuple):
    """A start for the full passes, and its log-likelihood per row on the judging rows.

    The name is that of results and files. The `objective`, by which candidates are ranked, has the
    prior of the variances and the price of light components too.
    """

    name: str
    parameters: Parameters
    score: float
    objective: float = 0.0


def ranked_candidates(
    sample: Sample,
    n_components: int,
    context: FitContext,
    known: Parameters | None = None,
    earlier: Sequence[Candidate] = (),
) -> list[Candidate]:
    """Candidates for the full passes, best first; a mixture that is `known` competes.

    Where a third of the starts, of both kinds, end at the best, the pool is left out. Candidates
    of an `earlier` search, with another prior, go on without further starts.
    """
    search = _Search(sample, n_components, context)
    if known is not None:
        search.candidates[JOINED] = search.converge([known])[0]
    with few_threads(True):
        if earlier:
            settled = search.converge([candidate.parameters for candidate in earlier])
            search.candidates |= {c.name: settled[k] for k, c in enumerate(earlier)}
            return search.judged()
        # Components in all starts of a kind: with covariances fewer, for as much arithmetic.
        if n_components <= _MOST_CUT:
            search.runs["cuts of one component"] = search.cut()
        share = (2 * sample.blocks.n_features + 1) / len(search.short)
        if search.has_few_rows:
            started = int(_SEEDS_OF_FEW_ROWS * share)
            least = _LEAST_OF_FEW_ROWS if known is None else _STARTS
            search.add_starts(max(least, started // n_components))
        else:
            n_more = int(_STARTED_COMPONENTS * share) // n_components - _STARTS
            search.add_starts(_STARTS)
            if n_more > 0 and not search.starts_agree(search.compared_runs()):
                search.add_starts(n_more)
        search.compete()
    return search.judged()


def given_candidate(sample: Sample, start: Start, context: FitContext) -> Candidate:
    """The start that was given; of many rows after EM on the sample, as other candidates."""
    n, r = sample.features.shape[1], len(start.means)
    prior = context.prior(sample.moments, sample.blocks, n, r)
    p = start.parameters(sample.features, prior)
    if not sample.is_all:
        p = settle(sample.features, p[None], prior, _STEPS_ON_SAMPLE, context.n_threads)[0][0]
    return Candidate("given start", p, float(log_likelihoods(sample.judges, p[None])[0]))


def quick_fit(
    features: Float, n_components: int, structure: Structure, context: FitContext
) -> Parameters:
    """The best of a few short EM runs: enough to compare numbers of components."""
    prior = VariancePrior.of_rows(features.shape[1], n_components, structure)
    seeded = seeded_starts(features, n_components, _STARTS, prior, context.rng)
    random = random_starts(features, n_components, _STARTS // 2, prior, context.rng)
    batch, n_steps = Parameters.concatenate([seeded, random]), _SHORT_STEPS // 2
    batch, values, _ = run_batch(features, batch, prior, n_steps, context.n_threads)
    best = batch[np.argsort(-values, kind="stable")[:2]]
    batch, values, _ = run_batch(features, best, prior, _SHORT_STEPS, context.n_threads)
    return batch[int(values.argmax())]


def single_component(sample: Sample, blocks: Blocks, context: FitContext) -> Parameters:
    """One component: in closed form, or by EM where joined columns have missing cells."""
    if not blocks.missing:
        return one_component(sample.moments, blocks)
    alone, structure = one_component(sample.moments), sample.moments.structure(blocks)
    covariances = sample.moments.observed_covariance
    assert covariances is not None
    start = structure.raised(in_blocks(alone, blocks, covariances[None]))
    prior = VariancePrior.of_rows(sample.features.shape[1], 1, structure)
    features = sample.of_blocks(blocks).features
    return settle(features, start[None], prior, _SHORT_STEPS, context.n_threads)[0][0]


class _Search:
    """Short runs so far, and the candidates made of them."""

    def __init__(self, sample: Sample, n_components: int, context: FitContext) -> None:
        self.sample, self.context, self.n_components = sample, context, n_components
        n = sample.features.shape[1]
        self.prior = context.prior(sample.moments, sample.blocks, n, n_components)
        self.has_few_rows = n < FEW_ROWS
        n_short = _SHORT_PER_PARAMETER * n_components * sample.blocks.n_parameters
        n_short = min(max(n_short, _FEWEST_SHORT), _MOST_SHORT)
        # Answers and counts tell starts apart on a part of the rows: few of them lie so close that
        # a component of its own gains much.
        on_all = sample.is_all and (self.has_few_rows or not sample.blocks.laws)
        self.short = sample.features if on_all else sample.features[:, :n_short]
        self.runs: dict[str, Parameters] = {}
        self.candidates: dict[str, Parameters] = {}

    def add_starts(self, n_starts: int) -> None:
        """Short EM runs from both kinds of start."""
        arguments = (self.short, self.n_components, n_starts, self.prior, self.context.rng)
        for kind, make in (("k-means++", seeded_starts), ("random", random_starts)):
            batch = self.short_runs(make(*arguments))
            first = 1 + sum(name.startswith(kind) for name in self.runs)
            self.runs.update({f"{kind} start {first + k}": batch[k] for k in range(n_starts)})

    def compete(self) -> None:
        """EM on the sample from the best runs and the pool."""
        runs = self.compared_runs()
        is_clear = self.starts_agree(runs)
        n_best = 1 if is_clear else 6 if self.sample.is_all else 2
        best = {run.name: run.parameters for run in runs[:n_best]}
        if not is_clear:
            pooled = runs[:_POOLED_RUNS] if self.has_few_rows else runs
            parts = Parameters.concatenate([run.parameters for run in pooled])
            pool = merge_copies(parts.normalized())
            # All densities of a large pool are in memory at once: it sees fewer rows.
            thinned = self.short[:, : max(2000, _POOL_DENSITIES // pool.n_components)]
            pool = pool_weights(thinned, pool)
            if pool.n_components >= self.n_components:
                reduced = reduce_pool(self.short, pool, self.n_components, self.prior)
                best[f"pool of {len(self.runs)} starts"] = reduced
        settled = self.converge(list(best.values()))
        self.candidates.update({name: settled[k] for k, name in enumerate(best)})

    def cut(self) -> Parameters:
        """A mixture grown from one component by the best cut of each number."""
        p = single_component(self.sample, self.sample.blocks, self.context)
        features, n_threads = self.short[:, :_FEWEST_SHORT], self.context.n_threads
        for r in range(2, self.n_components + 1):
            prior = VariancePrior.of_rows(features.shape[1], r, self.prior.structure)
            starts = split_starts(features, p, prior)
            found, values = settle(features, starts, prior, _CUT_STEPS, n_threads)
            p = found[int(values.argmax())]
        return self.short_runs(p[None])[0]

    def short_runs(self, start: Parameters) -> Parameters:
        """EM of a batch on some of the rows."""
        return settle(
            self.short, start, self.prior, _SHORT_STEPS, self.context.n_threads,
            _AT_REST, -np.inf, _LEAST_SHORT,
        )[0]  # fmt: skip

    def compared_runs(self) -> list[Candidate]:
        """All runs, best first on some rows of the sample."""
        n = self.sample.features.shape[1] if self.sample.is_all else _MOST_SHORT
        return _best_first(self.runs, self.sample.features[:, :n], self.prior)

    def starts_agree(self, runs: list[Candidate]) -> bool:
        """Whether so many starts, of both kinds, end at the best that it is clear; best first."""
        if self.has_few_rows:
            return False
        found = [run for run in runs if runs[0].objective - run.objective < _SAME]
        n_needed = max(_CLEAR_STARTS, _CLEAR_SHARE * len(runs))
        return len(found) >= n_needed and len({run.name.split()[0] for run in found}) > 1

    def judged(self) -> list[Candidate]:
        """All candidates, best first on the judging rows."""
        return _best_first(self.candidates, self.sample.judges, self.prior)

    def converge(self, options: list[Parameters]) -> Parameters:
        """EM on the sample, of all options at once."""
        n_steps = _STEPS_ON_ALL if self.sample.is_all else _STEPS_ON_SAMPLE
        features, start = self.sample.features, Parameters.stack(options)
        return settle(features, start, self.prior, n_steps, self.context.n_threads)[0]


def _best_first(
    options: dict[str, Parameters], features: Float, prior: VariancePrior
) -> list[Candidate]:
    """Candidates with their likelihood on some rows, best first.

    A light component, of less than d + 1 rows and less than a quarter of an even share, is mostly
    an outlier. It has to pay for its parameters as BIC has it: log(n)/2 nats each.
    """
    batch, n = Parameters.stack(list(options.values())), features.shape[1]
    r, d = batch.means.shape[-2:]
    scores = log_likelihoods(features, batch)
    n_light = (n * batch.weights < min(d + 1, n / (4 * r))).sum(axis=-1)
    penalties = n_light * (0.5 * batch.blocks.n_parameters) * np.log(n) - prior.log_density(batch)
    pairs = zip(options, scores.tolist(), (scores - penalties / n).tolist(), strict=True)
    candidates = [
        Candidate(name, batch[k], score, value) for k, (name, score, value) in enumerate(pairs)
    ]
    # Of candidates at one optimum the first wins.
    return sorted(candidates, key=lambda c: -round(c.objective, _OBJECTIVE_DIGITS))
