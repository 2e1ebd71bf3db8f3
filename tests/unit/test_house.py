"""Rules of the house: data flows one way, and the public names are real."""

import ast
from pathlib import Path

import pytest

import momentmix

SOURCE = Path(momentmix.__file__).parent

# A module may import from its own layer's entry and every one before it.
LAYERS = [
    {"errors", "_version"},
    {"core"},
    {"capacity"},
    {"moments", "tensors"},
    {"fitting", "planning", "sources"},
    {"reproduce", "estimator", "dask"},
    {"displays"},
    {"reporting"},
    {"cli"},
]


def layer_of(module):
    for height, names in enumerate(LAYERS):
        if module in names:
            return height
    raise AssertionError(f"{module} is in no layer; add it where it belongs")


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("momentmix."):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("momentmix."))


def test_no_import_points_upwards():
    seen = 0
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).with_suffix("").parts[0]
        if place == "__init__":
            continue
        for target in imports_of(path):
            seen += 1
            other = target.split(".")[1]
            below = layer_of(other) < layer_of(place)
            assert below or other == place, f"{path.name} imports {target}"
    assert seen > 50


def test_core_holds_no_cycle_between_stages():
    for path in (SOURCE / "tensors").glob("*.py"):
        assert not any(".moments" in t or ".fitting" in t for t in imports_of(path))


def test_public_names_exist_and_nothing_else_is_public():
    for name in momentmix.__all__:
        assert getattr(momentmix, name) is not None
    assert dir(momentmix) == sorted(momentmix.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = momentmix.nonsense


def test_every_module_tells_what_its_names_are():
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), path


def test_commands_print_in_one_place():
    """`say` and `say_json` escape what is not printable; progress has labels of ours only."""
    for path in (SOURCE / "cli").glob("*.py"):
        if path.stem not in {"output", "progress"}:
            text = path.read_text(encoding="utf-8")
            allowed = 1 if path.stem == "app" else 0  # the help
            assert text.count("click.echo(") == allowed, path
            assert "json.dumps(" not in text or path.stem == "checkpoint", path


NO_MATHEMATICS = {
    "__init__",
    "array_backend",
    "atomic_file",
    "containers",
    "findings",
    "inputs",
    "locks",
    "model_file",
    "record",
    "record_fields",
    "result",
    "row_blocks",
    "strict_json",
    "threads",
}


def test_mathematical_modules_open_with_a_notation_table():
    for folder in ("core", "tensors", "fitting"):
        for path in (SOURCE / folder).glob("*.py"):
            if path.stem in NO_MATHEMATICS:
                continue
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            assert "| paper symbol | name here" in text, path
            assert "Differs from the paper" in text, path
