"""How Sphinx makes a site of the pages in this folder: `make docs`.

The project's folder is the source, not docs/ alone: README.md and the pages of other folders are
pages of the site, and every link between them is the one that a reader of the repository follows.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "site"))

from dp_pipeline import __version__

project = "dp_pipeline"
release = __version__
author = "The dp_pipeline authors"
project_copyright = "The dp_pipeline authors, Apache-2.0"

root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "data/README.md",
    "deploy/README.md",
    "examples/city/README.md",
    "docs/**",
]
exclude_patterns = [".*", "build", "dist", "dp_pipeline*", "benchmarks", "data/[!R]*"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docstrings",
    "registries",
    "self_contained",
]
# As GitHub names the anchors of headings, which is what links between pages use.
myst_heading_anchors = 4

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"dp_pipeline {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# index.html, which sends a reader on to the page that the rest hangs on.
html_extra_path = ["site/index.html"]

ACCESSIBLE = {
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
}
"""Elements of the theme that a keyboard cannot scroll, or whose level nobody hears → with it."""


def make_accessible(_app, _page, _template, context, _doctree):
    """Add to a page what axe calls serious where it is missing."""
    for part in ("body", "furo_navigation_tree"):
        for element, accessible in ACCESSIBLE.items():
            context[part] = context.get(part, "").replace(element, accessible)


def setup(app):
    app.connect("html-page-context", make_accessible, priority=900)
