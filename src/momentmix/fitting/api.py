"""`fit`: the entry point, which checks what was asked and calls the method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, Literal, get_args

import numpy as np

from momentmix.errors import InputError, InputTypeError, check_count
from momentmix.findings.messages import NEED_ROWS, NO_MAR, PAPER, ROBUST, Message, options
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import Clock, FitContext
from momentmix.fitting.data import (
    AskedBlocks,
    Table,
    block_word,
    feature_blocks,
    is_summary_path,
    load_summaries,
    table_of,
)
from momentmix.fitting.em.starts import Start
from momentmix.fitting.paper import fit_by_paper
from momentmix.fitting.remedies import dict_of, with_remedies
from momentmix.fitting.result import BegunFit, FitResult
from momentmix.fitting.robust.pipeline import fit_robust
from momentmix.fitting.robust.whole_numbers import with_counts
from momentmix.mixture.prior import Constraint
from momentmix.parallel import few_threads, usable_cores
from momentmix.progress import check_asked, step, tell
from momentmix.tables.learning import Families
from momentmix.tables.opening import READ_ALL, Reading, path_list
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import Missing, TableRows

Auto = Literal["auto"]
Number = int | Literal["auto", "bic"]


def fit(
    data: Any,
    n_components: Number = "auto",
    order: int | Auto = "auto",
    method: Literal["robust", "paper"] = "robust",
    refine: Literal["auto", "em"] | None = "auto",
    random_state: int | np.random.Generator | None = None,
    *,
    max_components: int = 20,
    blocks: AskedBlocks = None,
    sample_weight: Any = None,
    families: Families = None,
    missing: Missing = "error",
    variance_floor: float = 1e-6,
    max_passes: int = 100,
    n_threads: int | None = None,
    progress: Callable[[str], None] | bool | None = None,
    constraint: Constraint | None = None,
    start: Any = None,
    tol: float | None = None,
    thorough: bool = False,
    background: bool | Auto = "auto",
    remedies: Literal["try", "apply"] | None = None,
    **reading: Any,
) -> FitResult:
    """Fit a mixture: numbers, yes/no answers, categories and counts, also with missing cells.

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
        halves of the rows are fitted; nine tenths where components have no gap between them and
        a larger number has a lower BIC. "bic" with rows: the number of least BIC, for densities.
        From a summary, or with refine=None, both: the smallest number whose moments the test
        accepts, else the elbow of the effect size. `FitResult.tried` lists what was tried.
    order : int or "auto"
        Highest order of the moments. "auto" takes a lower one where rows are at hand and the table
        is wide, or where there are too few rows for a moment answer.
    method : {"robust", "paper"}
        "paper" is Algorithm 5.1 of the paper, which on samples puts many variances at zero; they
        are raised to a tenth of the variance within components unless ``variance_floor=0``.
    refine : {"auto", "em"} or None
        "auto": EM passes if there are rows and the method is "robust". None: the pure moment
        answer. "em" with a summary is an error.
    random_state : int, Generator or None
        The same seed gives the same bits.
    max_components : int, default=20
        The largest number that "auto" and "bic" try; a note says where it is reached.
    blocks : None, "auto", "diag", "full" or list of lists of int or str
        Columns that may be correlated within components, by number or name; columns that are not
        named are blocks of their own. "diag": diagonal covariances. "auto" joins columns where it
        pays: by BIC with rows, by the test of the moments without. None: "auto" where the number of
        components is chosen and there are rows, else "diag". "full", or one block of all
        columns, is full covariances, for which rows are needed; a summary needs at least three
        blocks. Columns with missing cells are joined only where they are named, with a number of
        components and passes over the rows; the certificate is then untested.
    sample_weight : array of shape (n_rows,), optional
        A weight for each row. Whole numbers stand for repeated rows. Other weights are relative, as
        those of a survey: a multiple of all of them means the same, and BIC counts fewer rows the
        more they differ. Standard errors allow for weights that depend on the rows. Rows of weight
        0 are left out. A summary holds the weights of its rows already.
    families : dict, optional
        Family of a column, by name, by number, or by a pattern of names: "A*" is for columns that
        neither their own name nor a later pattern names. "gaussian", "bernoulli" (two values),
        "categorical" (several levels; a list of the levels may stand for it), "poisson" (counts),
        "negative_binomial" (counts that vary more than their means), "log" and "log1p" where the
        logarithm is Gaussian (means and variances are then its own, densities and draws those of
        y), or one that `momentmix.families.register` added. Or a `Schema`. Other columns of tables
        with names are guessed: true and false are yes/no columns, text of few levels and
        categories are categorical, whole numbers from 0 or 1 on are counts where that predicts
        left-out cells better, dates, years and columns that name or number the rows are left out,
        with a note in the result. A summary made with families holds them.
    missing : {"error", "mar", "model", "drop"}, default="error"
        Why cells are missing. "mar": at random, by what is seen of their row, as in surveys; the
        likelihood is that of the seen cells, for which rows are needed. "model": by the component,
        which has a probability that a cell is seen. "drop": by chance alone; their rows are left
        out. Nothing is imputed. A `Schema` with missing cells means "model", unless another keyword
        is given.
    variance_floor : float
        Least variance of a component, as a fraction of the feature's variance. With rows a prior
        keeps variances of small components well above it. Of rows in which a column is rounded, as
        whole numbers are, its deviations stay above 0.6 of the step, or its variances at 0.9 of
        the column's where that is less.
    max_passes : int
        Passes over all rows at most; 0: the best start as it is.
    n_threads : int, optional
        Threads for passes over rows; all cores by default. The answer does not depend on it.
    progress : bool or callable, optional
        Whether to show a progress bar on standard error. By default in a terminal or a notebook, if
        the fit takes longer than a second; the environment variable TQDM_DISABLE=1 turns all off. A
        callable is called with the name of each stage as it begins, and there is no bar.
    constraint : {"tied", "spherical"}, optional
        "tied": all components have the same covariances. "spherical": one variance for all columns
        of a component, in the units of the data. For rows of numbers and a number of components;
        the certificate does not pass where BIC is lower without the constraint.
    start : Mixture or array of shape (n_components, n_features), optional
        A mixture, or means, that EM starts from, instead of the best of many starts. Components
        then come in its order. From a summary, and with blocks="auto", it gives the order alone.
    tol : float, optional
        Passes end when less than so many nats a row are left to gain. By default when no parameter
        is further from the maximum than a small part of its standard error.
    thorough : bool
        Whether all starts of the search are made, also where the first of them agree.
    background : bool or "auto", default="auto"
        Whether a fixed wide density takes rows that belong to no group, with label −1 and a share
        that is estimated (`Mixture.background_weight`). The groups are fitted without rows that lie
        far from all others; a finding lists these. "auto": where there are such rows. False: they
        are part of the groups. True needs rows, and "auto" has no effect on a summary.
    remedies : {"try", "apply"}, optional
        "try": where the fit did not pass, up to five changes that its findings suggest are fitted
        to a sample of the rows and compared on rows that were left out; `FitResult.remedies` lists
        those that help, with their calls. "apply": they are taken one after the other while they
        help, and notes say which; columns are left out by the caller alone. A summary has no rows
        to compare on, and rows on other machines are not sampled: there is no list.
    **reading
        Which columns to take, of any table: ``columns``, ``exclude``. How files
        are read: ``na_values``, ``delimiter``, ``decimal``, ``header``.
        All are described in `open_rows`.

    Returns
    -------
    FitResult

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import DiagonalMixture
    >>> truth = DiagonalMixture([0.4, 0.6], [[-2.0] * 5, [2.0] * 5], np.ones((2, 5)))
    >>> rows, labels = truth.sample(2000, random_state=0)
    >>> result = fit(rows, 2, random_state=0)
    >>> result.mixture.weights.round(1).tolist() in ([0.4, 0.6], [0.6, 0.4])
    True
    """
    given = locals().copy()
    if remedies is not None:
        own = partial(fit, progress=progress, n_threads=n_threads)
        with step("Fitting", _asked(progress)):
            return with_remedies(own, data, {**reading, **_changed(given)}, remedies)
    with step("Fitting", _asked(progress)):
        result = begin_fit(
            data, n_components, order, method, refine, random_state, blocks, sample_weight,
            families, missing, variance_floor, max_passes, n_threads, progress, constraint, start,
            tol, thorough, reading, max_components, background,
        ).finish()  # fmt: skip
    return replace(result, options=_known({**reading, **_changed(given)}, data))


def _changed(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `fit` that are not its defaults, but for those of no matter."""
    others = {"data", "remedies", "progress", "n_threads", "reading"}
    known = {k: x.default for k, x in signature(fit).parameters.items() if k not in others}
    plain = str | int | float | None
    return {
        k: given[k] for k, x in known.items() if not (isinstance(given[k], plain) and given[k] == x)
    }


def _known(given: dict[str, Any], data: Any) -> dict[str, Any] | None:
    """Return options of a fit, with those by which its rows were opened; None with arrays."""
    usual = vars(READ_ALL)
    known = {k: x for k, x in given.items() if k not in usual or x != usual[k]}
    if isinstance(data, TableRows):
        if data.chosen and data.column_names is not None:
            known["columns"] = list(data.column_names)
        known |= {"missing": data.missing} if data.missing != "error" else {}
    if isinstance(known.get("families"), Schema):
        known["families"] = dict_of(known["families"])
    if not isinstance(known.get("random_state", 0), int):
        del known["random_state"]
    is_plain = all(isinstance(x, str | int | float | list | tuple | dict) for x in known.values())
    return known if is_plain else None


def begin_fit(
    data: Any,
    n_components: Number,
    order: int | Auto,
    method: Literal["robust", "paper"],
    refine: Literal["auto", "em"] | None,
    random_state: int | np.random.Generator | None,
    blocks: AskedBlocks,
    sample_weight: Any,
    families: Families,
    missing: Missing,
    variance_floor: float,
    max_passes: int,
    n_threads: int | None,
    progress: Callable[[str], None] | bool | None,
    constraint: Constraint | None,
    start: Any,
    tol: float | None,
    thorough: bool,
    reading: dict[str, Any],
    max_components: int,
    background: bool | Auto,
    defers: bool = False,
) -> BegunFit:
    """Fit the mixture; a fit that `defers` computes the rest when it is finished."""
    if method not in ("robust", "paper"):
        raise InputError(f'method must be "robust" or "paper"; got {method!r}.')
    if refine not in ("auto", "em", None):
        raise InputError(f'refine must be "auto", "em" or None; got {refine!r}.')
    if not (isinstance(n_components, str) and n_components in ("auto", "bic")):
        try:
            n_components = check_count("n_components", n_components, 1)
        except InputTypeError:
            raise InputTypeError(
                f"n_components must be an integer ≥ 1, 'auto' or 'bic'; got {n_components!r}."
            ) from None
    if not 0 < variance_floor < 1 and (variance_floor != 0 or method != "paper"):
        raise InputError(f"variance_floor must lie between 0 and 1; got {variance_floor}.")
    if background not in (True, False, "auto"):
        raise InputError(f'background must be True, False or "auto"; got {background!r}.')
    if tol is not None and (
        isinstance(tol, bool) or not isinstance(tol, int | float | np.number) or not tol >= 0
    ):
        raise InputError(f"tol must be a number that is not negative; got {tol!r}.")
    with step("Fitting", _asked(progress)):
        if is_summary_path(data):
            data = load_summaries(path_list(data))
        word = block_word(blocks)
        if method == "paper" and blocks is not None and word != "diag":
            text = " has diagonal covariances only; got blocks. Use "
            raise InputError(Message(PAPER, text, ROBUST, "."))
        told = Reading.of(reading)
        tell("reading rows")
        table = table_of(data, families, missing, told, sample_weight)
        if background is True and (method == "paper" or isinstance(table.data, StandardMoments)):
            text = " needs rows and the robust method: the share of the background is estimated "
            rest = Message("from the densities of the rows. Use ", options(background=False), ".")
            raise InputError(Message(options(background=True), text, rest))
        if method == "paper":
            if families is not None or missing != "error" or table.schema is not None:
                text = " has Gaussian columns only; got families, missing cells or text. Use "
                numbers = Message(", or the columns of numbers: ", options(columns=...), ".")
                raise InputError(Message(PAPER, text, ROBUST, numbers))
            if constraint is not None or start is not None:
                text = " takes no constraint and no start. Use "
                raise InputError(Message(PAPER, text, ROBUST, "."))
            if not isinstance(table.data, StandardMoments):
                data = table.data
            asked_for = (n_components, order, refine, random_state, variance_floor)
            printed = fit_by_paper(data, *asked_for)
            return BegunFit(printed, lambda: printed)
        if isinstance(table.data, StandardMoments) and refine == "em":
            text = " needs the rows, and a summary holds none. Pass the rows, or use "
            auto = Message(options(refine="auto"), " (no passes for a summary).")
            raise InputError(Message(options(refine="em"), text, auto))
        columns = () if table.schema is None else table.schema.columns
        if refine is None and any(column.at_random for column in columns):
            raise InputError(NO_MAR)
        n_threads = usable_cores() if n_threads is None else check_count("n_threads", n_threads, 1)
        has_rows = refine is not None and not isinstance(table.data, StandardMoments)
        if blocks is None and has_rows and isinstance(n_components, str):
            word = blocks = "auto"
        if constraint is not None:
            _check_constraint(constraint, table, n_components, blocks, refine)
        elif has_rows and table.may_count and word != "full":
            with _at_work(progress):
                table = with_counts(table, blocks, start, n_threads)
        context = FitContext(
            np.random.default_rng(random_state),
            variance_floor,
            check_count("max_passes", max_passes, 0),
            n_threads,
            Clock(progress if callable(progress) else None),
            tol=None if tol is None else float(tol),
            thorough=thorough,
            start=None if start is None else Start.of(start, table.schema),
            constraint=constraint,
            max_components=check_count("max_components", max_components, 1),
            background=background,
            defers=defers,
        )
        with _at_work(progress):
            if word == "full":
                joinable = [i for i, column in enumerate(columns) if column.model.joins]
                blocks = [joinable if columns else list(range(table.data.n_features))]
            asked = feature_blocks(blocks, table.schema, has_rows)
            begun = fit_robust(table, n_components, order, refine is not None, context, asked)
        return begun._replace(finish=_at_work(progress)(begun.finish))


@contextmanager
def _at_work(progress: Any) -> Iterator[None]:
    """Show progress, and raise an InputError where a matrix is singular."""
    # Many small products: more than one BLAS thread each makes them slower.
    with step("Fitting", _asked(progress)), few_threads(True):
        try:
            yield
        except np.linalg.LinAlgError as error:
            raise InputError(
                f"a matrix of the fit is singular ({error}), as where columns repeat each "
                "other or a component holds hardly any rows. Use fewer components, a larger "
                "variance_floor, or leave such columns out."
            ) from error


def _asked(progress: Any) -> bool | None:
    """Return whether a bar is asked for; a callable takes its place."""
    return False if callable(progress) else check_asked(progress, ", a callable")


def _check_constraint(
    constraint: Any, table: Table, n_components: Any, blocks: Any, refine: str | None
) -> None:
    """Raise where the constraint does not go with the data or the other options."""
    if constraint not in get_args(Constraint):
        raise InputError(f'constraint must be "tied" or "spherical"; got {constraint!r}.')
    if isinstance(table.data, StandardMoments) or refine is None:
        text = (
            f"{constraint} covariances are fitted by passes over the rows; there are none from a "
            "summary, and with refine=None. Use diagonal covariances, or "
        )
        raise InputError(Message(text, NEED_ROWS, "."))
    if table.schema is not None:
        raise InputError(
            f"{constraint} covariances are for numbers without missing cells; these columns have "
            "families or missing cells. Leave the constraint out, or the rows with such cells: "
            'missing="drop".'
        )
    if isinstance(n_components, str):
        raise InputError(
            f'n_components="{n_components}" does not go with {constraint} covariances. Give a '
            "number, and compare those of several fits by BIC."
        )
    word = block_word(blocks)
    has_blocks = blocks is not None and word != "diag"
    if word in ("auto", "full") or (constraint == "spherical" and has_blocks):
        raise InputError(
            f"{constraint} covariances do not go with blocks={blocks!r}. Give the blocks of tied "
            "covariances as lists, and none for spherical ones."
        )
