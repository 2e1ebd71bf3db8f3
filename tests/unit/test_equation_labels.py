"""Every label of the paper's sections 1–5 that has a step is at the line that implements it.

A label counts where it ends a comment, two spaces after the shape (``# (r, r)  eq:N``), or where it
follows "paper:" in the docstring of a function or class (``(paper: algo:iSTD, thm:TD)``).
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import momentmix

# The paper is not part of the repository; these are the labels of its sections 1 to 5, in order.
IMPLEMENTED = """
eq:tensorF; incomplete_tensor; moment-structure; index-set; high-tensor-moment;
high-incomplete-decomp; tensor:norm:HS; eq:cFm; F-decomp; B0; B1; generating_mat; eq: Aalpha;
solve-G; lemma: lid A; thm: G; eq:N; N_xi; w_i; label-set-J; coef-1; coef-2; coef-lambda; algo:iSTD;
thm:TD; lemma:max r proof; eq:max r; largest-r; max-r; eq:solve k; solve-G-ls; xi-est; w_hat;
coefest-1; coefest-2; coefest-lambda; solve-F; algo:tensor-approx; thm:tensor; subtensor-approx;
eq:q; solve-w; est-w-mu; prob:nls-w mu; cov-A; solve-sigma; Sig_i^opt; algo:gaussian
"""
OTHERS = {
    "eq:ineq", "eq:kp case2", "rmax", "gene_poly", "sc:pre", "sc:tdc", "sc:approximation",
    "sc:gmm", "tab:max ranks", "thm:gaussian approx",  # definitions, proofs, sections and bounds
    "eq:randomF",  # section 6
}  # fmt: skip
AT_THE_END = re.compile(r"^#(?: .*\S)?  (\S.*)$")
IN_DOCSTRING = re.compile(r"\(paper: ([^)]*)\)")


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


def test_labels_in_the_source_are_those_of_the_paper():
    sources = Path(momentmix.__file__).parent.rglob("*.py")
    labels = set().union(*(labels_of(path.read_text("utf-8")) for path in sources))
    implemented = {label.strip() for label in IMPLEMENTED.replace("\n", " ").split(";")}
    assert implemented - labels == set()
    assert labels - implemented - OTHERS == set()
