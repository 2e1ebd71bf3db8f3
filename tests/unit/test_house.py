"""Rules of the house: names are real, and mean one thing."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from unit.test_import_order import MODULES

import momentmix

SOURCE = Path(momentmix.__file__).parent


@pytest.mark.parametrize("arguments", [["--help"], ["reproduce", "--help"]])
def test_the_papers_tables_are_loaded_only_to_make_them(arguments):
    code = (
        "import sys\nfrom momentmix.cli import cli\n"
        f"cli({arguments}, standalone_mode=False)\n"
        "print([name for name in sys.modules if name == 'momentmix.paper.reproduce'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_name_of_a_class_means_one_thing():
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name[0] != "_"
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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
