"""Write what the code of pages prints into the pages: python tests/docs/rewrite_outputs.py PAGE…

For blocks of ``>>>`` whose output has changed; look at the difference before it is committed, since
``...`` is replaced as well. Shell commands are run, and their outputs are left as they are.
"""

import doctest
import os
import runpy
import sys
import tempfile
from pathlib import Path

pages = runpy.run_path(str(Path(__file__).with_name("test_pages.py")))
BLOCK, FLAGS, run_shell = (pages[name] for name in ("BLOCK", "FLAGS", "run_shell"))


class Recorder(doctest.DocTestRunner):
    """Keeps the outputs that differ, by the line that they stand after."""

    def __init__(self):
        super().__init__(optionflags=FLAGS)
        self.found = []

    def report_failure(self, out, test, example, got):
        """Keep an output."""
        self.found.append((example.lineno + example.source.count("\n"), example.want, got))

    def report_unexpected_exception(self, out, test, example, exc_info):
        """Print an error, which is never written to a page."""
        print(f"{test.name}: {example.source}{exc_info[1]!r}", file=sys.stderr)


def rewritten(path):
    """Return the text of a page with the outputs of today."""
    values = {}

    def run(match):
        kind, body = match.groups()
        if kind == "console":
            for line in body.splitlines():
                if line.startswith("$ "):
                    run_shell(line[2:])
        if kind != "python" or ">>>" not in body:
            return match[0]
        test, recorder = (
            doctest.DocTestParser().get_doctest(body, values, path.name, "", 0),
            Recorder(),
        )
        recorder.run(test, clear_globs=False, out=lambda text: None)
        values.update(test.globs)
        lines = body.splitlines(keepends=True)
        for start, want, got in reversed(recorder.found):
            lines[start : start + want.count("\n")] = got
        return f"```{kind}\n{''.join(lines)}```"

    return BLOCK.sub(run, path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    os.environ.setdefault("MPLBACKEND", "Agg")
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            page.write_text(rewritten(page), encoding="utf-8")
