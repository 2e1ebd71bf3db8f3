"""Data flows one way: a module imports from layers before its own and from its package alone."""

import ast
from pathlib import Path

import momentmix

SOURCE = Path(momentmix.__file__).parent

# A name stands for the module and all modules below it, but for those that are listed themselves.
LAYERS = {
    "basis": (
        "errors _typing lazy native wording progress parallel arrays atomic_file json_fields "
        "index_sets capacity paper.ranks paper.incomplete_tensor"
    ),
    "families": "families",
    "tables": "tables",
    "model": "mixture",
    "summary": "summary",
    "fitting": "fitting",
    "paper": "paper",
    "groups": "groups",
    "doors": "html findings datasets displays reporting estimators dask cli __main__",
}
HEIGHTS = {name: i for i, names in enumerate(LAYERS.values()) for name in names.split()}

# What violates the order today: the package that imports, and the module above it. A row goes when
# its violation goes.
VIOLATIONS = {
    ("families", "tables.names"): "names of features are checked where blocks are made",
    ("mixture", "html.notebook"): "tables in notebooks",
    ("fitting", "html.notebook"): "tables in notebooks",
    ("fitting", "findings.finding"): "a fit makes its findings with their sentences",
}


def height(module):
    """Layer of a module: that of the longest listed name which it begins with."""
    parts = module.split(".")
    names = (".".join(parts[:size]) for size in range(len(parts), 0, -1))
    return next(HEIGHTS[name] for name in names if name in HEIGHTS)


def module_of(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCE.rglob("*.py")}


def imports_of(text):
    """Modules of this package that a source imports, wherever the line stands in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "momentmix":
            base = node.module.partition(".")[2]
            for alias in node.names:
                inner = f"{base}.{alias.name}".lstrip(".")
                yield inner if inner in MODULES else base
        elif isinstance(node, ast.Import):
            yield from (a.name[10:] for a in node.names if a.name.startswith("momentmix."))


def upward(module, text):
    """Modules above a module that it imports."""
    return {name for name in imports_of(text) if name and height(name) > height(module)}


def test_no_import_points_upward():
    found = {
        (module.partition(".")[0], target)
        for module, path in MODULES.items()
        if module
        for target in upward(module, path.read_text(encoding="utf-8"))
    }
    assert found == set(VIOLATIONS)


def test_an_upward_import_would_be_found():
    assert upward("tables.schema", "from momentmix.summary.file import save") == {"summary.file"}
    assert upward("index_sets", "def f():\n    import momentmix.cli") == {"cli"}
    text = "from momentmix.paper.decompose import decompose"
    assert upward("fitting.api", text) == {"paper.decompose"}
    assert not upward("paper.decompose", "from momentmix.fitting.api import fit")


def test_the_tables_of_the_paper_are_no_part_of_the_library():
    texts = {module: path.read_text(encoding="utf-8") for module, path in MODULES.items()}
    users = {
        module
        for module, text in texts.items()
        if any(target in ("paper.reproduce", "paper.experiments") for target in imports_of(text))
    }
    assert users == {"cli.reproduce", "paper.reproduce"}
