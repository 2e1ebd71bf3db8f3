"""What comes with momentmix: wheels, ranges of versions, and imports without the extras."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BASE = {"numpy", "scipy", "scikit-learn", "threadpoolctl", "click", "tqdm", "pandas", "pyarrow"}


def name_of(requirement):
    return re.match(r"[A-Za-z0-9_.-]+", requirement).group().lower()


def pins(file):
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return dict(line.lower().split("==") for line in lines if line and line[0] != "#")


def test_both_ends_of_every_range_are_tested():
    """The oldest versions are the lower bounds; the newest are those of constraints.txt."""
    oldest, newest = pins("constraints-oldest.txt"), pins("constraints.txt")
    project = PROJECT["project"]
    for requirement in project["dependencies"] + project["optional-dependencies"]["plot"]:
        name, bound = re.match(r"([a-z-]+)>=([0-9.]+)", requirement).groups()
        assert (oldest[name] + ".").startswith(bound + "."), requirement
        assert name in newest


def test_the_headers_of_compiled_code_are_named():
    """Else a change of a header would not build the module again."""
    (extension,) = PROJECT["tool"]["setuptools"]["ext-modules"]
    folder = ROOT / "src/momentmix/native"
    sources = {
        f"src/momentmix/native/{p.name}" for p in folder.iterdir() if p.suffix in (".c", ".h")
    }
    assert {*extension["sources"], *extension["depends"]} == sources


STUB = "#include <Python.h>\nPyMODINIT_FUNC PyInit_compiled(void) { return NULL; }\n"
BUILD = "from setuptools.build_meta import build_wheel; print(build_wheel('dist'))"


@pytest.mark.parametrize("has_compiler", [False, True])
def test_a_wheel_is_tagged_by_what_it_holds(has_compiler, tmp_path):
    """Without compiled code a wheel is for every platform; with it, for this one."""
    pytest.importorskip("setuptools", minversion="77")
    compiler = "cc" if has_compiler else "no-such-compiler"
    if has_compiler and not shutil.which(compiler):
        pytest.skip("there is no compiler")
    native = tmp_path / "src/momentmix/native"
    native.mkdir(parents=True)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("__init__.py", "native/__init__.py"):
        shutil.copy(ROOT / "src/momentmix" / name, tmp_path / "src/momentmix" / name)
    (native / "module.c").write_text(STUB, encoding="utf-8")  # compiled at once
    done = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=tmp_path, env={**os.environ, "CC": compiler},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = (tmp_path / "dist").iterdir()
    with ZipFile(wheel) as file:
        compiled = [name for name in file.namelist() if "native/compiled." in name]
        (about,) = (name for name in file.namelist() if name.endswith(".dist-info/WHEEL"))
        is_pure = b"Root-Is-Purelib: true" in file.read(about)
    assert (len(compiled), is_pure) == ((1, False) if has_compiler else (0, True))
    assert ("-cp311-abi3-" if has_compiler else "-py3-none-any.whl") in wheel.name


def distributions(roots):
    """The distributions that these need, themselves included, extras left out."""
    found, waiting = set(), list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            try:
                needs = metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                continue  # for another version of Python
            found.add(name)
            waiting += [name_of(need) for need in needs if "extra ==" not in need]
    return found


def modules(roots):
    """Top-level modules of these distributions and of what they need."""
    wanted = {name.replace("_", "-") for name in distributions(roots)}
    return {
        module
        for module, owners in metadata.packages_distributions().items()
        if wanted & {owner.lower().replace("_", "-") for owner in owners}
    }


BLOCKER = """
import importlib, json, pkgutil, sys
allowed = {"momentmix", *sys.argv[1].split()}

class Finder:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and top not in sys.stdlib_module_names and top[0] != "_":
            raise ModuleNotFoundError(f"blocked: {name}", name=name)

sys.meta_path.insert(0, Finder())
import momentmix
missing, names = {}, list(momentmix.__all__)
for module in pkgutil.walk_packages(momentmix.__path__, "momentmix.", onerror=lambda _: None):
    names.append(module.name)
for name in names:
    try:
        importlib.import_module(name) if "." in name else getattr(momentmix, name)
    except ImportError as error:
        missing[name] = str(error)
print(json.dumps([len(names), missing]))
"""


def imported(allowed):
    """How many names and modules there are, and the errors of those that could not be imported."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKER, " ".join(sorted(allowed))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-800:]
    return json.loads(done.stdout)


def test_everything_imports_with_the_base_dependencies_but_what_names_its_extra():
    n_names, missing = imported(modules(BASE))
    assert n_names > 100
    extras = PROJECT["project"]["optional-dependencies"]
    known = {name_of(one) for name, needs in extras.items() if name != "test" for one in needs}
    for name, error in missing.items():
        blocked = re.search(r"blocked: (\w+)", error)
        assert "pip install" in error or (blocked and blocked.group(1) in known), (name, error)
    assert len(missing) < n_names / 5
