"""What the files around the source say about versions agrees."""

import re
import tomllib
from pathlib import Path

import pytest

import momentmix

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = momentmix.__version__


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version_everywhere():
    assert yaml.safe_load(text_of("CITATION.cff"))["version"] == VERSION


def test_hooks_and_workflows_use_what_is_pinned_and_supported():
    hooks = [
        h for r in yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"] for h in r["hooks"]
    ]
    pins = {one for hook in hooks for one in hook.get("additional_dependencies", ())}
    assert pins
    assert pins <= set(text_of("constraints.txt").splitlines())
    job = yaml.safe_load(text_of(".github/workflows/tests.yml"))["jobs"]["tests"]
    assert {"run": ".ci/run"} in job["steps"]
    listed = {
        version
        for one in PROJECT["classifiers"]
        for version in re.findall(r":: Python :: (3\.\d+)$", one)
    }
    assert listed <= set(job["strategy"]["matrix"]["python"])
    assert min(listed, key=lambda v: int(v[2:])) == PROJECT["requires-python"].removeprefix(">=")


def test_every_target_of_make_is_listed():
    text = text_of("Makefile")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE).group(1).split()
    assert sorted(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE)) == sorted(phony)
