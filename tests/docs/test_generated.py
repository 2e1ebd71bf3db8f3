"""Pages made from the source: complete, and tables that a reader can parse."""

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generated():
    return runpy.run_path(str(DOCS / "generated.py"))


def test_every_notation_table_is_whole(generated):
    modules = dict(generated["documented_modules"]())
    assert {"paper.ranks", "paper.generating", "paper.gaussian_mixture"} <= set(modules)
    for name, text in modules.items():
        table = generated["table_of"](text)
        assert len(table) >= 3, name
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
        assert len(widths) == 1, f"{name}: rows of different length; escape a bar as \\|"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("μ_ij `n_rows` z_j^p", "μ<sub>ij</sub> `n_rows` z<sub>j</sub><sup>p</sup>"),
        ("y_j² y_I", "y<sub>j</sub>² y<sub>I</sub>"),
        ("(M_m)_{Ω_m}", "(M<sub>m</sub>)<sub>Ω<sub>m</sub></sub>"),
        ("q_i^{⊗m}, q_i^*", "q<sub>i</sub><sup>⊗m</sup>, q<sub>i</sub><sup>*</sup>"),
        ("(F_m)_{J_1⁺·J_2}", "(F<sub>m</sub>)<sub>J<sub>1⁺</sub>·J<sub>2</sub></sub>"),
    ],
)
def test_indices_are_drawn_as_indices(generated, written, shown):
    assert generated["with_indices"](written) == shown


def test_differences_are_sentences(generated):
    found = [generated["difference_of"](t) for _, t in generated["documented_modules"]()]
    assert sum(sentence.endswith(".") for sentence in found) == len(found)
    assert generated["difference_of"]("x\n\nDiffers from the paper: a\nb.\n\nmore") == "a b."
    assert (
        generated["difference_of"]("Differs from the paper:\n\n* A\n  b.\n* C.\n\nx") == "A b. C."
    )


def test_pages_are_written_once(generated, tmp_path):
    generated["write"](tmp_path)
    pages = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert set(pages) == {"notation.md", "differences.md", "commands.md"}
    generated["write"](tmp_path)
    assert pages == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    text = (tmp_path / "commands.md").read_text()
    for name in ("summarize", "fit", "merge", "report"):
        assert f"## momentmix {name}" in text
    folder = DOCS.parent / "examples" / "gallery"
    places = [generated["gallery_order"](path.name) for path in folder.glob("plot_*.py")]
    assert sorted(places) == list(range(len(generated["GALLERY"])))


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://x.org/a.js"></script>',
        "<img alt='' src='//x.org/a.png'>",
        '<link rel="stylesheet" href="http://x.org/a.css">',
    ],
)
def test_a_page_that_needs_a_network_is_refused(generated, tmp_path, tag):
    (tmp_path / "a.html").write_text('<a href="https://x.org">fine</a><img src="b.png">')
    generated["check"](tmp_path)
    (tmp_path / "b.html").write_text(tag)
    with pytest.raises(RuntimeError, match=r"b\.html needs a network"):
        generated["check"](tmp_path)
