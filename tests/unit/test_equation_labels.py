"""Every label of the paper's sections 1–5 is at the line that implements it, or has a reason.

A label counts where it ends a comment, two spaces after the shape (``# (r, r)  eq:N``), or where it
follows "paper:" in the docstring of a function or class (``(paper: algo:iSTD, thm:TD)``).
"""

import ast
import io
import re
import tokenize
from pathlib import Path

from unit.test_import_order import HEIGHTS, MODULES, height

import momentmix

SOURCE = Path(momentmix.__file__).parent

# The paper is not part of the repository; these are the labels of its sections 1 to 5, in order.
IMPLEMENTED = """
eq:tensorF; incomplete_tensor; moment-structure; index-set; high-tensor-moment;
high-incomplete-decomp; tensor:norm:HS; eq:cFm; F-decomp; B0; B1; generating_mat; eq: Aalpha;
solve-G; lemma: lid A; thm: G; eq:N; N_xi; w_i; label-set-J; coef-1; coef-2; coef-lambda; algo:iSTD;
thm:TD; lemma:max r proof; eq:max r; largest-r; max-r; eq:solve k; solve-G-ls; xi-est; w_hat;
coefest-1; coefest-2; coefest-lambda; solve-F; algo:tensor-approx; thm:tensor; subtensor-approx;
eq:q; solve-w; est-w-mu; prob:nls-w mu; cov-A; solve-sigma; Sig_i^opt; algo:gaussian
"""
NOT_NEEDED = {
    "sc:pre": "a section",
    "sc:tdc": "a section",
    "sc:approximation": "a section",
    "sc:gmm": "a section",
    "gene_poly": "a definition; of its equations the code uses those on Ω_m, generating_mat",
    "eq:ineq": "a step in the proof of lemma:max r proof",
    "eq:kp case2": "a step in the proof of lemma:max r proof",
    "rmax": "closed form of max-r for large n; test_capacity.py compares the two",
    "tab:max ranks": "values of rmax for m = 3 … 7; test_capacity.py compares them with max-r",
    "thm:gaussian approx": "an error bound; nothing is computed from it",
}
OTHER_SECTIONS = {"eq:randomF"}  # section 6, in paper/experiments.py
FIRST_SECTIONS = """
eq:tensorF; incomplete_tensor; moment-structure; index-set; high-tensor-moment;
high-incomplete-decomp; tensor:norm:HS; gene_poly; sc:pre
"""

AT_THE_END = re.compile(r"^#(?: .*\S)?  (\S.*)$")
IN_DOCSTRING = re.compile(r"\(paper: ([^)]*)\)")


def implemented():
    return [label.strip() for label in IMPLEMENTED.replace("\n", " ").split(";")]


def labels_of(text):
    """Labels in the comments and docstrings of a module's source."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    lists = [match[1] for comment in comments if (match := AT_THE_END.match(comment))]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            docstring = " ".join((ast.get_docstring(node) or "").split())
            lists += IN_DOCSTRING.findall(docstring)
    return {label.strip() for labels in lists for label in labels.split(",")}


def labels_in_the_source():
    return set().union(*(labels_of(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")))


def test_a_label_is_implemented_or_not_needed_and_never_both():
    labels = implemented()
    assert len(labels) == len(set(labels)) == 48
    assert not set(labels) & set(NOT_NEEDED)
    assert all(NOT_NEEDED.values())


def test_labels_in_the_source_are_those_of_the_paper():
    found = labels_in_the_source()
    assert set(implemented()) - found == set()
    assert found - set(implemented()) - set(NOT_NEEDED) - OTHER_SECTIONS == set()


def test_labels_of_sections_3_to_5_are_found_in_the_package_of_the_paper():
    """By grep, in paper/ and the modules that it may import."""
    below = [path for name, path in MODULES.items() if name and height(name) <= HEIGHTS["paper"]]
    text = "\n".join(path.read_text("utf-8") for path in below)
    first = {label.strip() for label in FIRST_SECTIONS.replace("\n", " ").split(";")}
    labels = {*implemented(), *NOT_NEEDED} - first
    assert len(labels) == 49
    sections = {label for label in labels if label.startswith(("sc:", "tab:"))}
    assert {label for label in labels - sections if label not in text} == set()
    assert "eq:no such label" not in text


def test_labels_are_read_from_comments_and_docstrings_only():
    text = '''
"""A table (eq:N) of a module counts for nothing (paper: eq:cFm)."""
def f():
    """The theorem (paper: thm: G,
    thm:TD)."""
    x = "# (r,)  w_i"  # (r, r)  N_xi, xi-est
    y = x  # plain comment (eq:q)
    return y  #  B0
'''
    assert labels_of(text) == {"thm: G", "thm:TD", "N_xi", "xi-est", "B0"}
