"""One name and one default for an option, in Python, in the estimators and in the command."""

import inspect

import click
import numpy as np
import pytest

import momentmix as mm
from momentmix.cli import cli

COMMANDS = {name: cli.get_command(None, name) for name in cli.list_commands(None)}
FIT = inspect.signature(mm.fit).parameters
# Options of a command that are no arguments in Python, or go by another name there.
OTHERS = {
    "output", "report", "as_json", "verbose", "strict", "help", "schema", "where", "seed",
}  # fmt: skip


# As decided.
PUBLIC = {
    "fit", "FitResult", "summarize", "open_rows", "Mixture", "Schema",
    "schema_from", "GaussianBlock", "BernoulliBlock", "CategoricalBlock", "PoissonBlock",
    "NegativeBinomialBlock", "MomentGaussianMixture", "MomentMixture", "MomentSummary",
    "summarize_by", "SummaryCube", "compare", "track", "report", "example_table", "decompose",
    "approximate", "largest_rank", "smallest_order", "IncompleteSymmetricTensor",
    "MomentmixError", "InputError", "CapacityError", "FitWarning", "__version__",
}  # fmt: skip
KEYWORDS = {
    "n_components": "auto", "blocks": None, "families": None, "missing": "error",
    "background": "auto", "sample_weight": None, "max_components": 20, "start": None,
    "max_passes": 100, "random_state": None, "n_threads": None, "progress": None, "columns": None,
    "exclude": None, "na_values": None, "delimiter": None, "decimal": ".", "header": None,
}  # fmt: skip


def test_public_names_and_keywords_of_fit_are_those_decided():
    assert set(mm.__all__) == PUBLIC
    assert defaults(mm.fit) == KEYWORDS
    kinds = [p.kind for p in FIT.values()]
    assert kinds[:2] == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 2
    assert inspect.Parameter.POSITIONAL_OR_KEYWORD not in kinds[2:]


def test_an_unknown_keyword_names_the_one_that_is_most_like_it():
    with pytest.raises(TypeError, match=r"no keyword 'n_component'.*'n_components'"):
        mm.fit(np.zeros((9, 2)), n_component=1)


def defaults(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def dask_fit():
    return pytest.importorskip("momentmix.dask").fit


@pytest.mark.parametrize(
    ("function", "differ"),
    [
        # As scikit-learn has them: one component, and rows far from all others are in the groups.
        (lambda: mm.MomentGaussianMixture, {"n_components", "background"}),
        (lambda: mm.MomentMixture, {"n_components"}),
        (dask_fit, set()),
    ],
    ids=["MomentGaussianMixture", "MomentMixture", "dask.fit"],
)
def test_defaults_are_those_of_fit(function, differ):
    ours, theirs = defaults(function()), defaults(mm.fit)
    assert {name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]} == differ


def test_random_numbers_have_one_name_and_no_seed_by_default():
    functions = [
        mm.fit, mm.MomentMixture, mm.MomentGaussianMixture, mm.decompose, mm.approximate,
        mm.Mixture.sample,
    ]  # fmt: skip
    assert all(defaults(function)["random_state"] is None for function in functions)
    seeds = [p for c in COMMANDS.values() for p in c.params if p.name == "seed"]
    assert len(seeds) == 2
    assert {(seed.default, seed.help) for seed in seeds} == {(0, seeds[0].help)}


def test_options_of_the_command_are_arguments_of_fit():
    reading = defaults(mm.open_rows)
    for option in COMMANDS["fit"].params:
        if not isinstance(option, click.Option) or option.name in OTHERS:
            continue
        assert option.name in {*FIT, *reading}, option.name
        known = FIT[option.name].default if option.name in FIT else reading[option.name]
        default = option.to_info_dict().get("default")
        assert default == known, option.name


def test_an_option_has_one_default_in_all_commands():
    found = {}
    for command in COMMANDS.values():
        for option in command.params:
            if isinstance(option, click.Option) and option.name not in ("output", "rows"):
                default = option.to_info_dict().get("default")
                found.setdefault(option.name, {}).setdefault(str(default), []).append(command.name)
    several = {name: values for name, values in found.items() if len(values) > 1}
    assert several.pop("missing")["None"] == ["predict"]  # as the fit had it
    assert not several
