"""Rules of the house: data flows one way, and the public names are real."""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import momentmix

SOURCE = Path(momentmix.__file__).parent

# A module may import from its own entry and from every line before it. An entry holds the modules
# that begin with it and are named by no longer entry: `summary.layout` lies below `summary`.
LAYERS = [
    {"errors", "_typing", "native", "wording"},
    {"atomic_file", "findings", "html", "index_sets", "progress"},
    {"parallel", "json_fields"},
    {"arrays", "tables.formats.digests", "tables.names"},
    {"families", "capacity"},
    {"tables.source"},
    {"tables.formats.dialect", "tables.selection"},
    {"tables.cells"},
    {"tables.guessing", "tables.validation"},
    {"tables.encoding", "tables.formats.memory"},
    {"tables.formats", "tables.schema"},
    {"tables.rows"},
    {"tables.table_rows"},
    {"tables"},
    {"tensor"},
    {"mixture", "summary.layout"},
    {"summary.kernels"},
    {"summary"},
    {"cube"},
    {"fitting.conditions"},
    {"fitting.context", "fitting.em"},
    {"fitting.inference"},
    {"fitting.moment"},
    {"fitting.data", "fitting.outcome", "fitting.record", "fitting.result"},
    {"fitting.paper", "fitting.robust"},
    {"fitting"},
    {"engines"},
    {"estimators", "dask", "ray", "spark"},
    {"monitoring"},
    {"displays"},
    {"reporting", "reproduce", "datasets"},
    {"cli"},
    {"__main__"},
]
ENTRIES = {name: height for height, names in enumerate(LAYERS) for name in names}


def entry_of(module):
    """Longest entry that a module's dotted name begins with."""
    parts = module.split(".")
    for size in range(len(parts), 0, -1):
        if ".".join(parts[:size]) in ENTRIES:
            return ".".join(parts[:size])
    raise AssertionError(f"{module} is in no layer; add it where it belongs")


def module_of(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCE.rglob("*.py")}


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def _trees_are_forgotten():
    """Millions of objects: with them each collection of garbage takes a second."""
    yield
    tree_of.cache_clear()


@cache
def imports_of(path):
    """Modules of this package that a file imports, wherever the line stands in it."""
    return list(_imports(tree_of(path)))


def _imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "momentmix":
            base = node.module.partition(".")[2]
            for alias in node.names:
                inner = f"{base}.{alias.name}" if base else alias.name
                yield inner if inner in MODULES else base
        elif isinstance(node, ast.Import):
            yield from (a.name[10:] for a in node.names if a.name.startswith("momentmix."))


def upward(module, imports):
    """Imports that do not lie below a module, or beside it in its own package."""

    def allowed(target):
        height = ENTRIES[entry_of(target)] - ENTRIES[entry_of(module)]
        return height < 0 or (height == 0 and target.split(".")[0] == module.split(".")[0])

    return [target for target in imports if target and not allowed(target)]


def test_no_import_points_upwards():
    assert len(MODULES) > 50
    for module, path in MODULES.items():
        if module:
            assert not upward(module, imports_of(path)), module


def test_an_upward_import_would_be_found():
    assert upward("summary.layout", ["summary.summary"]) == ["summary.summary"]
    assert upward("tables.source", ["tables.opening"]) == ["tables.opening"]
    assert upward("tables.names", ["tables.source"]) == ["tables.source"]
    assert upward("fitting.em.starts", ["fitting.moment.polish"]) == ["fitting.moment.polish"]
    assert not upward("fitting.moment.polish", ["fitting.em.starts", "fitting.moment.selection"])


def test_the_papers_tables_are_no_part_of_the_library():
    def uses(path):
        return any(target.split(".")[0] == "reproduce" for target in imports_of(path))

    users = {module for module, path in MODULES.items() if uses(path)}
    assert {module for module in users if not module.startswith("reproduce")} == {"cli.reproduce"}


@pytest.mark.parametrize("arguments", [["--help"], ["reproduce", "--help"]])
def test_the_papers_tables_are_loaded_only_to_make_them(arguments):
    code = (
        "import sys\nfrom momentmix.cli import cli\n"
        f"cli({arguments}, standalone_mode=False)\n"
        "print([name for name in sys.modules if name.startswith('momentmix.reproduce')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_folder_is_a_long_list():
    for folder in {path.parent for path in MODULES.values()}:
        files = [p for p in folder.glob("*.py") if p.stem not in ("__init__", "__main__")]
        assert len(files) <= 12, folder


def test_a_name_of_a_class_means_one_thing():
    names = Counter(
        node.name
        for path in MODULES.values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_public_names_exist_and_nothing_else_is_public():
    for name in momentmix.__all__:
        assert getattr(momentmix, name) is not None
    assert dir(momentmix) == sorted(momentmix.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = momentmix.nonsense


def names_of(path):
    """What a module defines or imports, in whatever branch."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


@pytest.mark.parametrize("folder", ["benchmarks", "examples"])
def test_scripts_import_what_exists(folder):
    """No test runs the benchmarks: a name that was moved would be noticed months later."""
    root, checked = SOURCE.parents[1], 0
    for path in (root / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("moment"):
                continue
            module = node.module.partition(".")[2]
            known = set(names_of(MODULES[module])) | set(momentmix.__all__ if not module else ())
            for alias in node.names:
                inner = f"{module}.{alias.name}".lstrip(".")
                assert alias.name in known or inner in MODULES, f"{path.name}: {inner}"
                checked += 1
    assert checked


def test_every_module_tells_what_its_names_are():
    for path in MODULES.values():
        assert ast.get_docstring(tree_of(path)), path


def lines_that_test_families(tree, own):
    """Lines that compare a family, or ask whether an object is of a class of families/."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            if any(isinstance(part, ast.Attribute) and part.attr == "family" for part in parts):
                yield node.lineno
        is_question = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        if is_question and own & {getattr(part, "id", "") for part in ast.walk(node.args[1])}:
            yield node.lineno


def test_families_are_asked_and_not_named():
    """A new family is one new file: no other module decides on the family of a column."""
    own = {
        node.name
        for path in (SOURCE / "families").glob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    }
    example = ast.parse('column.family == "log"\nisinstance(block, PoissonBlock | float)\nx.family')
    assert list(lines_that_test_families(example, own)) == [1, 2]
    found = [
        f"{module}:{line}"
        for module, path in MODULES.items()
        if not module.startswith("families")
        for line in lines_that_test_families(tree_of(path), own)
    ]
    assert len(found) <= 10, found
    files = [path for kind in ("*.py", "*.h", "*.c") for path in SOURCE.rglob(kind)]
    named = [path for path in files if "poisson" in path.read_text(encoding="utf-8").lower()]
    assert len(named) <= 7, named


def test_commands_print_in_one_place():
    """`say` and `say_json` escape what is not printable."""
    for path in (SOURCE / "cli").glob("*.py"):
        if path.stem != "output":
            text = path.read_text(encoding="utf-8")
            allowed = 1 if path.stem == "app" else 0  # the help
            assert text.count("click.echo(") == allowed, path
            assert "json.dumps(" not in text or path.stem == "checkpoint", path


NO_STEP_OF_THE_PAPER = {"tensor", "tensor.results"}


def test_modules_of_the_paper_open_with_a_notation_table():
    inside = [m for m in MODULES if m.startswith(("tensor", "fitting.paper"))]
    assert len(inside) > 8
    for module in {"capacity.ranks", "index_sets", *inside} - NO_STEP_OF_THE_PAPER:
        text = ast.get_docstring(tree_of(MODULES[module]))
        assert "| paper symbol | name here" in text, module
        assert "Differs from the paper" in text, module


MOST_FILES = 71  # with functions that a fit of numbers calls: what a newcomer has to read


def test_a_fit_of_numbers_enters_few_files():
    """The second call: the first one fills caches."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 6)) + 6.0 * np.eye(3, 6)[rng.integers(3, size=3000)]
    frame, entered = pd.DataFrame(rows, columns=list("abcdef")), set()
    momentmix.fit(frame, 3, random_state=0, n_threads=1)
    sys.setprofile(lambda call, event, _: entered.add(call.f_code.co_filename))
    try:
        momentmix.fit(frame, 3, random_state=0, n_threads=1)
    finally:
        sys.setprofile(None)
    own = [path for path in entered if Path(path).is_relative_to(SOURCE)]
    assert 40 < len(own) <= MOST_FILES
