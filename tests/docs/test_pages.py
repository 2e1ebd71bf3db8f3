"""The pages do what they say: code is run, and its output is what the page shows.

Run are ``>>>`` lines in blocks marked python, and lines after ``$`` in blocks marked console;
``...`` stands for anything. A block marked bash that starts with ``#!`` is written to the file that
its second line names, ``# job.sh: what it does``. In README.md all commands are run but those that
set up an environment. A block after ``<!-- needs: package -->`` is left out where that package is
missing, as those of Spark and Ray.
"""

import doctest
import importlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

import momentmix
from momentmix import displays, errors
from momentmix.cli import main

ROOT = Path(__file__).parents[2]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)
SCRIPT = re.compile(r"#!.*\n# ([\w-]+\.sh): ")
SET_UP = ("python3 -m venv ", "pip install ", "make ")  # of README.md; the others are run
# A command that needs no shell, and what may follow it.
PLAIN = re.compile(r'momentmix ((?:[^"|;&<>$`{}()*?]|"[^"$`]*")*)(; echo "exit code \$\?")?')


def runnable(path):
    text = path.read_text(encoding="utf-8")
    return any(kind == "console" or ">>>" in body for kind, body in BLOCK.findall(text))


PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if runnable(path)]
assert {"tutorial.md", "shards.md", "groups.md"} <= {path.name for path in PAGES}


def run_python(body, name, values):
    test = doctest.DocTestParser().get_doctest(body, values, name, None, 0)
    report = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    failed = runner.run(test, out=report.append, clear_globs=False).failed
    assert not failed, "".join(report)
    values.update(test.globs)


def run_here(arguments):
    """The command in this process, which spares the start of another: exit code and output."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with (
        warnings.catch_warnings(action="default"), threadpool_limits(1, user_api="blas"),
        redirect_stdout(stream), redirect_stderr(stream), pytest.raises(SystemExit) as stop,
    ):  # fmt: skip
        main(arguments)
    return stop.value.code, stream.buffer.getvalue().decode()


def run_shell(command):
    """A line of a page, by a shell where it needs one: exit code and output."""
    if plain := PLAIN.fullmatch(command):
        code, output = run_here(shlex.split(plain[1], comments=True))
        return (0, f"{output}exit code {code}\n") if plain[2] else (code, output)
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def run_console(body):
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, wanted = part.partition("\n")
        found = run_shell(command)[1]
        if wanted.strip():
            checker = doctest.OutputChecker()
            message = f"$ {command}\nexpected:\n{wanted}\ngot:\n{found}"
            assert checker.check_output(wanted, found, FLAGS), message


def is_installed(package):
    try:
        importlib.import_module(package)
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT / "docs").as_posix())
def test_page(path, tmp_path, monkeypatch):
    text = path.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    values, missing = {}, []
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        needs = re.search(r"<!-- needs: (.*?) -->\n$", text[: block.start()])
        if needs and not is_installed(needs[1]):
            missing.append(needs[1])
        elif kind == "python" and ">>>" in body:
            run_python(body, path.name, values)
        elif kind == "console":
            run_console(body)
        elif kind == "bash" and body.startswith("#!"):
            Path(SCRIPT.match(body)[1]).write_text(body, encoding="utf-8")
    if missing and not values:
        pytest.skip(f"not installed: {', '.join(missing)}")


def test_readme(tmp_path, monkeypatch):
    """All code in order, as in a clone; an output stands in a block of text."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    values, printed = {}, ""
    for kind, body in BLOCK.findall(text):
        if kind == "python":
            with redirect_stdout(io.StringIO()) as stream:
                exec(body, values)
            printed = stream.getvalue()
        elif kind == "text" and printed:
            assert doctest.OutputChecker().check_output(body, printed, FLAGS), printed
            printed = ""
        for line in body.splitlines() if kind in ("bash", "console", "sh") else ():
            if not line.startswith(SET_UP):
                code, output = run_shell(line.removeprefix("$ "))
                assert code == (4 if "exit code 4" in line else 0), output
    assert values["result"].certificate.passed
    birds = pd.read_csv("groups.csv").dropna(subset="label")
    assert pd.crosstab(birds["species"], birds["label"]).max(axis=1).sum() == 337
    assert Path("report.html").stat().st_size > 10_000
    assert Path("penguins.mms").exists()
    pages = re.findall(r"`((?:docs/)?[\w-]+\.(?:md|cff))`", text)
    assert len(pages) >= 4
    assert all((ROOT / page).exists() for page in pages)


def test_the_demo_finds_its_groups_and_ends_with_files_and_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    demo["main"]()  # ends with a code where the certificate does not pass
    output = capsys.readouterr().out
    assert "Does the model fit the data? passed" in output
    assert "Would other rows give these groups? Yes" in output
    assert "added in another order it has the same bytes" in output
    shares = re.findall(
        r"^ +(?:commuters|students|leisure riders|visitors) +(0\.\d+)", output, re.M
    )
    assert [round(float(share), 2) for share in shares] == 2 * [0.4, 0.3, 0.2, 0.1]
    of_summary, best, of_rows, _ = map(float, re.findall(r"(\d\d\.\d\d)%", output))
    assert max(abs(of_summary - best), abs(of_rows - best)) < 0.1
    sizes = {path.name: path.stat().st_size for path in Path("demo-output").iterdir()}
    assert min(sizes["picture.png"], sizes["report.html"]) > 10_000
    for line in demo["NEXT"]:
        assert line in output
        code, said = run_shell(line)
        assert code == (4 if " -r 3 " in line else 0), said  # 4: the certificate did not pass


def test_every_finding_and_error_is_explained():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    sources = (ROOT / "src" / "momentmix" / "fitting").rglob("*.py")
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    names = set(re.findall(r'\bfound\(\s*[^"]{1,60}, *\n? *"([a-z-]+)"', text))
    assert len(names) >= 25
    classes = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]
    for name in [*names, *classes]:
        assert f"`{name}`" in page, name


def test_every_public_name_is_on_the_page_of_the_interface():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    names = set(momentmix.__all__) - {"__version__"}
    names |= {f"displays.{name}" for name in displays.__all__ if name.endswith("Display")}
    for name in names:
        assert re.search(rf":: momentmix\.(errors\.)?{re.escape(name)}$", page, re.M), name


def test_examples_import_public_names_only():
    public = {"momentmix", *(f"momentmix.{x}" for x in ("displays", "dask", "errors"))}
    for path in (ROOT / "examples" / "gallery").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"^ *from (momentmix\S*) import|^ *import (momentmix\S*)", text, re.M)
        assert found, path.name
        assert {own or other for own, other in found} <= public, path.name


def test_links_between_pages_exist():
    for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        if "_build" in path.parts or "_generated" in path.parts:
            continue
        text = BLOCK.sub("", path.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if target.startswith("http"):
                continue
            there = path.parent / target
            if "gallery/plot_" in target:  # made by the build, from a script of the same name
                there = ROOT / "examples" / "gallery" / Path(target).with_suffix(".py").name
            elif target.endswith("gallery/index.rst") or "gallery/images" in target:
                continue
            assert there.exists(), f"{path.name}: {target}"


def test_versions_of_files_are_those_of_the_pages(tmp_path):
    rows = np.random.default_rng(0).standard_normal((200, 2))
    momentmix.fit(rows, 1, random_state=0).save(tmp_path / "model.json")
    model = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    summary = int.from_bytes(momentmix.summarize(rows, order=2).to_bytes()[8:12], "little")
    page = (ROOT / "docs" / "file-format.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (.*)\n\nVersion (\d+)", page, re.M)
    assert found == [
        ("Summary", str(summary)),
        ("Model", str(model["version"])),
        ("Record of a fit", str(model["fit"]["version"])),
    ]


PATH = re.compile(r"`((?:[\w-]+/)*[\w-]+(?:\.py|/))`")
PACKAGE = ROOT / "src" / "momentmix"
BASES = (ROOT, PACKAGE, PACKAGE / "summary", PACKAGE / "fitting")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_on_pages_exist(page):
    paths = PATH.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(paths) > 3
    for path in paths:
        assert any((base / path).exists() for base in BASES), path
