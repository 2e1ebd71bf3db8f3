"""Settings of the documentation; `make docs` builds it, without a network."""

import sys
import warnings
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
sys.path.insert(0, str(Path(__file__).parent))

import formulas
import generated

import momentmix

project = "momentmix"
author = "The momentmix developers"
copyright = author
version = release = momentmix.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_generated", "gallery/*.ipynb", "gallery/*.py"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 3
default_role = "literal"  # names in single backticks
nitpicky = False

html_theme = "furo"
html_title = "momentmix"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_math_renderer = "mathml"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_show_sourcelink = False
html_copy_source = False

autodoc_member_order = "bysource"
add_module_names = False
autosummary_generate = False
autodoc_typehints = "none"  # the docstrings say it with shapes
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "copyfile_regex": r"",
    "within_subsection_order": "generated.gallery_order",
    "show_signature": False,
    "write_computation_times": False,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def setup(app):
    formulas.setup(app)
    app.connect("builder-inited", lambda app: generated.write(Path(app.srcdir) / "_generated"))
    app.connect("build-finished", lambda app, error: error or generated.check(Path(app.outdir)))
