"""Every code block of README.md, verbatim and in order, in a fresh clone with its own environment.

The blocks are put together to one bash script. A Python block runs as a process that repeats the
Python blocks before it, whose names it uses.
"""

import doctest
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def script_of(text, folder):
    """Return the lines of the script, and for each output on the page the file that it goes to."""
    lines, outputs, python, printed = ["set -e"], {}, "", None
    for kind, body in BLOCK.findall(text):
        if kind == "python":
            name = f"block{len(lines)}"
            python_before, python = python, python + body
            quiet = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n"
            quiet += "".join(f"    {line}\n" for line in python_before.splitlines()) + "    pass\n"
            (folder / f"{name}.py").write_text(quiet + body, encoding="utf-8")
            printed = folder / f"{name}.txt"
            lines.append(f"python {folder / name}.py > {printed}")
        elif kind == "text":
            assert printed is not None, body
            outputs[printed], printed = body, None
        elif kind in ("sh", "bash", "console"):
            for line in body.splitlines():
                lines.append(f"echo {len(lines)}; {line}")
        else:
            raise AssertionError(f"a block of another kind: {kind}")
    return lines, outputs


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_all_commands_of_the_readme_run_in_a_fresh_clone(tmp_path, monkeypatch):
    if not (ROOT / ".git").exists():
        pytest.skip("no repository to clone")
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    clone = tmp_path / "momentmix"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    text = (clone / "README.md").read_text(encoding="utf-8")
    lines, outputs = script_of(text, tmp_path)
    assert len(lines) > 6
    assert outputs
    (tmp_path / "readme.sh").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(
        ["bash", str(tmp_path / "readme.sh")],
        cwd=clone,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if "No matching distribution found" in done.stdout:
        pytest.skip("packages cannot be installed here")
    assert done.returncode == 0, done.stdout[-5000:]
    for path, wanted in outputs.items():
        found = path.read_text(encoding="utf-8")
        assert doctest.OutputChecker().check_output(wanted, found, FLAGS), found
    assert (clone / "report.html").stat().st_size > 10_000
