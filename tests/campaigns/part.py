"""One part of `make test-all`: numbered cases, what they count, and what they depend on."""

import ast
import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "momentmix"


def temporary_folder():
    """A temporary folder where flushing costs nothing, if there is such a place and it is writable.

    A kill is a kill on any file system.
    """
    try:
        return tempfile.TemporaryDirectory(dir="/dev/shm")
    except OSError:
        return tempfile.TemporaryDirectory()


@dataclass(frozen=True)
class Part:
    """A campaign: ``run(start, stop, seed)`` does the cases start … stop−1 and counts.

    A case depends on its number and the seed alone, raises where something is wrong, and can so be
    repeated alone. `goals` are counts that the whole campaign must reach.
    """

    name: str
    run: Callable[[int, int, int], Counter]
    total: int
    batch: int
    sources: str  # hash of all that the cases depend on
    goals: dict[str, int] = field(default_factory=dict)


def campaign(run, total, batch, goals=None, name=None):
    """The part of a function of a campaign module."""
    file = Path(run.__code__.co_filename)
    return Part(
        name or run.__name__.replace("_", "-"), run, total, batch, sources_of(file), goals or {}
    )


def digest(paths):
    """Hash of the names and contents of some files."""
    result = hashlib.sha256()
    for path in sorted(paths):
        data = path.read_bytes()
        result.update(f"{path.relative_to(ROOT)} {len(data)}\n".encode() + data)
    return result.hexdigest()[:16]


def sources_of(file):
    """Hash of a file and all that it imports from the package and from the campaigns."""
    seen, waiting = set(), [file.resolve()]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += [found for name in _imports(path) for found in _files(name)]
    return digest(seen)


@cache
def _imports(path):
    return tuple(_imported_names(path))


def _imported_names(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _files(name):
    """Files of a module of ours; of the whole package where its lazy front door is imported."""
    if name == "momentmix":
        return sorted(PACKAGE.rglob("*.py"))
    folder = {"momentmix": PACKAGE.parent, "campaigns": ROOT / "tests"}.get(name.split(".")[0])
    if folder is None:
        return []
    place = folder.joinpath(*name.split("."))
    return [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()]
