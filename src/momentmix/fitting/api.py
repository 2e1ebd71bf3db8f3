"""`fit`: the entry point, which checks what was asked and calls the method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from math import nan
from typing import Any

import numpy as np

from momentmix.errors import InputError, InputTypeError, check_count
from momentmix.fitting.answers import answer_from_rows, in_data_units
from momentmix.fitting.checks import check_memory
from momentmix.fitting.choose import Choice, choose
from momentmix.fitting.context import Clock, FitContext
from momentmix.fitting.data import (
    AskedBlocks,
    block_word,
    feature_blocks,
    is_summary_path,
    load_summaries,
    table_of,
)
from momentmix.fitting.from_moments import answer_without_rows
from momentmix.fitting.options import Auto, FitOptions, Number
from momentmix.fitting.outcome import Trial
from momentmix.fitting.problem import Problem, read_problem, scattered_components, scattered_rows
from momentmix.fitting.result import BegunFit, FitResult
from momentmix.fitting.whole_numbers import with_counts
from momentmix.parallel import few_threads, usable_cores
from momentmix.progress import step, tell
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import Families
from momentmix.tables.opening import path_list
from momentmix.tables.rows import Rows
from momentmix.tables.table_rows import Missing
from momentmix.tables.validation import ordered_weights
from momentmix.wording import NEED_ROWS, NO_MAR, did_you_mean, option


def fit(
    data: Any,
    n_components: Number = "auto",
    *,
    blocks: AskedBlocks = None,
    families: Families = None,
    missing: Missing = "error",
    background: bool | Auto = "auto",
    sample_weight: Any = None,
    max_components: int = 20,
    start: Any = None,
    max_passes: int = 100,
    random_state: int | np.random.Generator | None = None,
    n_threads: int | None = None,
    progress: Callable[[str], None] | bool | None = None,
    columns: Sequence[str | int] | None = None,
    exclude: Sequence[str | int] | None = None,
    na_values: Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    header: bool | None = None,
    **others: Any,
) -> FitResult:
    """Fit a mixture: numbers, yes/no answers, categories and counts, also with missing cells.

    An option that would have no effect, such as `max_passes` with a summary, is an error.

    Parameters
    ----------
    data : array of shape (n_rows, n_features), data frame, path, source or MomentSummary
        Rows, or a summary of them, in memory or in files: a path, a list of paths, a folder or a
        pattern, as for `open_rows`. Files that take an eighth of the memory or less are read once.
        A source (`open_rows`) is read block by block, once for the moments and once for each pass;
        it is never in memory as a whole. Tensors of torch stay on their device: moments and passes
        are computed there in float64, and only sums and a sample of the rows come to the host.
        Names of columns become those of the mixture; labels 0, 1, 2, … of a frame are no names.
    n_components : int, "auto" or "bic", default="auto"
        "auto" with rows: the largest number whose components other rows would give again, for
        groups. Each component has to keep three quarters of its rows (Jaccard index 0.75) when
        halves of the rows are fitted, and the rows must not contradict a gap between two; more is
        asked where there is no gap, and where BIC hardly wants more than one. "bic" with rows: the
        number of least BIC, for densities.
        From a summary, both: the smallest number whose moments the test accepts, else the elbow of
        the effect size. `FitResult.tried` lists what was tried.
    blocks : None, "auto", "diag", "full" or list of lists of int or str
        Columns that may be correlated within components, by number or name; columns that are not
        named are blocks of their own. "diag": diagonal covariances. "auto" joins columns where it
        pays: by BIC with rows, by the test of the moments without. None: "auto" where the number of
        components is chosen, else "diag". "full", or one block of all columns, is full covariances,
        for which rows are needed; a summary needs at least three blocks. Columns with missing cells
        are joined where there are rows; with missing="model" only where they are named. The test of
        the certificate leaves them out.
    families : dict, optional
        Family of a column, by name, by number, or by a pattern of names: "A*" is for columns that
        neither their own name nor a later pattern names. "gaussian", "bernoulli" (two values),
        "categorical" (several levels; a list of the levels may stand for it), "poisson" (counts),
        "negative_binomial" (counts that vary more than their means), "log" and "log1p" where the
        logarithm is Gaussian (means and variances are then its own, densities and draws those of
        y), or one that `momentmix.families.register` added. Or a `Schema`. Other columns of tables
        with names are guessed: true and false are yes/no columns, text of few levels and
        categories are categorical, whole numbers from 0 or 1 on are counts where that predicts
        the cells better, dates, years and columns that name or number the rows are left out,
        with a note in the result. A summary made with families holds them.
    missing : {"error", "mar", "model", "drop"}, default="error"
        Why cells are missing. "mar": at random, by what is seen of their row, as in surveys; the
        likelihood is that of the seen cells, for which rows are needed. "model": by the component,
        which has a probability that a cell is seen; the certificate tests it. "drop": by chance
        alone; their rows are left out. Nothing is imputed. A `Schema` with missing cells means
        "model", unless another keyword is given.
    background : bool or "auto", default="auto"
        Whether a fixed wide density takes rows that belong to no group, with label −1 and a share
        that is estimated (`Mixture.background_weight`). The groups are fitted without rows that lie
        far from all others; a finding lists these. "auto": where there are such rows. False: they
        are part of the groups. True needs rows, and "auto" has no effect on a summary.
    sample_weight : array of shape (n_rows,), optional
        A weight for each row; a pandas Series goes by the labels of a frame, and differing labels
        are an error. Whole numbers stand for repeated rows. Other weights are relative, as
        those of a survey: a multiple of all of them means the same, and BIC counts fewer rows the
        more they differ. Standard errors allow for weights that depend on the rows. Rows of weight
        0 are left out. A summary holds the weights of its rows already.
    max_components : int, default=20
        The largest number that "auto" and "bic" try; a note says where it is reached.
    start : Mixture or array of shape (n_components, n_features), optional
        A mixture, or means, that EM starts from, instead of the best of many starts. Components
        then come in its order. From a summary, and with blocks="auto", it gives the order alone.
    max_passes : int
        Passes of EM over all rows at most. With 0 or 1 the best start is returned, unimproved.
    random_state : int, Generator or None
        The same seed gives the same bits.
    n_threads : int, optional
        Threads for passes over rows; all cores by default. The answer does not depend on it.
    progress : bool or callable, optional
        Whether to show a progress bar on standard error. By default in a terminal or a notebook, if
        the fit takes longer than a second; the environment variable TQDM_DISABLE=1 turns all off. A
        callable is called with the name of each stage as it begins, and there is no bar.
    columns, exclude, na_values, delimiter, decimal, header
        Which columns to take, and how text files are read, as for `open_rows`.

    Returns
    -------
    FitResult

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import Mixture
    >>> truth = Mixture.diagonal([0.4, 0.6], [[-2.0] * 5, [2.0] * 5], np.ones((2, 5)))
    >>> rows, labels = truth.sample(2000, random_state=0)
    >>> result = fit(rows, 2, random_state=0)
    >>> result.mixture.weights.round(1).tolist() in ([0.4, 0.6], [0.6, 0.4])
    True
    """
    given = {k: x for k, x in locals().items() if k not in ("data", "others")}
    for name in others:
        hint = did_you_mean(name, signature(fit).parameters)
        raise InputTypeError(f"fit has no keyword {name!r}.{hint}")
    given["sample_weight"] = ordered_weights(sample_weight, data)
    options = FitOptions.of(given)
    _check_used(options.changed(), data)
    with _at_work(progress):
        return begin_fit(data, options).finish()


def _check_used(options: dict[str, Any], data: Any) -> None:
    """Raise where an option was given that would have no effect."""
    unused = dict[str, str]()
    if not isinstance(options.get("n_components", "auto"), str):
        unused["max_components"] = f"is for {option(n_components='auto')}"
    if isinstance(data, MomentSummary) or is_summary_path(data):
        unused["max_passes"] = f"is for passes over rows: leave it out, or {NEED_ROWS}"
        unused["missing"] = "is for rows: give it when they are summarized"
        if options.get("missing") == "mar":
            raise InputError(NO_MAR)
    for name, why in unused.items():
        if options.get(name) is not None:
            raise InputError(f"{option(**{name: ...})} {why}.")


def begin_fit(data: Any, options: FitOptions) -> BegunFit:
    """Fit the mixture; `finish` of what is returned adds standard errors and the certificate."""
    n_components, context = _checked(options)
    blocks = options.blocks
    if blocks is None and isinstance(n_components, str):
        blocks = "auto"
    with _at_work(options.progress):
        tell("reading rows")
        if is_summary_path(data):
            data = load_summaries(path_list(data))
        reading, missing, weight = options.reading, options.missing, options.sample_weight
        table = table_of(data, options.families, missing, reading, weight)
        if table.may_count and block_word(blocks) != "full":
            table = with_counts(table, blocks, options.start)
        blocks = feature_blocks(blocks, table)
        check_memory(table, n_components)
        problem = read_problem(table, n_components, blocks, context)
        if problem.sample is None:
            answer = answer_without_rows(problem, n_components, blocks)
        else:
            choice = choose(problem, n_components, blocks)
            if context.background is not False:
                problem, choice = _without_scattered_rows(
                    problem, choice, n_components, blocks, context
                )
            answer = answer_from_rows(problem, choice)
        begun = in_data_units(problem, answer)
    return replace(begun, facts={**begun.facts, "options": options.changed(data)})


def _without_scattered_rows(
    problem: Problem,
    choice: Choice,
    n_components: Number,
    blocks: AskedBlocks,
    context: FitContext,
) -> tuple[Problem, Choice]:
    """The groups without rows around all of them; a number that was chosen is not chosen again."""
    rows, p = problem.table.data, choice.candidates[0].parameters
    scattered = scattered_components(p)
    if not isinstance(rows, Rows) or rows.is_remote or not scattered.any():
        return problem, choice
    far = scattered_rows(problem, p, scattered)
    if far is problem.context.checked.outliers:
        return problem, choice
    number, note, tried = n_components, choice.note, choice.tried
    if isinstance(number, str):
        n_scattered = int(scattered.sum())
        number = choice.n_components - n_scattered
        note += f"; without {n_scattered} of rows scattered around the groups"
        tried = (Trial(number, nan, nan, nan, True),)
    problem = read_problem(problem.table, number, blocks, context, far)
    return problem, choose(problem, number, blocks)._replace(note=note, tried=tried)


def _checked(options: FitOptions) -> tuple[Number, FitContext]:
    """Return the number of components and the context of a fit; raise where they are none."""
    number: Any = options.n_components
    if not (isinstance(number, str) and number in ("auto", "bic")):
        try:
            number = check_count("n_components", number, 1)
        except InputTypeError:
            raise InputTypeError(
                f"n_components must be an integer ≥ 1, 'auto' or 'bic'; got {number!r}."
            ) from None
    if options.background not in (True, False, "auto"):
        raise InputError(f'background must be True, False or "auto"; got {options.background!r}.')
    n_threads = usable_cores()
    if options.n_threads is not None:
        n_threads = check_count("n_threads", options.n_threads, 1)
    return number, FitContext(
        np.random.default_rng(options.random_state),
        max_passes=check_count("max_passes", options.max_passes, 0),
        n_threads=n_threads,
        clock=Clock(options.progress if callable(options.progress) else None),
        start=options.start,
        max_components=check_count("max_components", options.max_components, 1),
        background=options.background,
    )


@contextmanager
def _at_work(progress: Any) -> Iterator[None]:
    """Show progress, and raise an InputError where a matrix is singular."""
    # Many small products: more than one BLAS thread each makes them slower.
    with step("Fitting", False if callable(progress) else progress), few_threads(True):
        try:
            yield
        except np.linalg.LinAlgError as error:
            raise InputError(
                f"a matrix of the fit is singular ({error}), as where columns repeat each other or "
                "a component holds hardly any rows. Use fewer components, or leave such columns "
                "out."
            ) from error
