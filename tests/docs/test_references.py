"""Files and commands that pages name exist: each figure has a command that can be run."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
COMMAND = re.compile(r"`(?:python benchmarks/)?(\w+\.py)((?: [\w.-]+)*)`")
BENCHMARKS = ROOT / "benchmarks"


def pages():
    return [path for path in PAGES if not {"_build", "_generated", "gallery"} & {*path.parts}]


def test_commands_of_benchmarks_exist():
    commands = []
    for page in pages():
        for name, words in COMMAND.findall(page.read_text(encoding="utf-8")):
            commands.append((page.name, name, words.split()))
    assert len(commands) > 15
    for page, name, words in commands:
        path = BENCHMARKS / name
        if not path.exists() and page == "architecture.md":
            continue
        assert path.exists(), f"{page}: {name}"
        text = path.read_text(encoding="utf-8")
        for word in words:
            if word[:1].isalpha() and not word.isupper():
                function = f"def {word.replace('-', '_')}("
                assert f'"{word}"' in text or function in text, f"{page}: {name} {word}"
