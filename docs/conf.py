"""The documentation site: Sphinx with MyST and the theme Furo. ``make docs`` builds it.

The source folder of the site is the root of the checkout, so that links between documents are the same files here and
in the repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "Holdfast"
author = "The Holdfast authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "generators"]
root_doc = "docs/index"
include_patterns = ["docs/**", "*.md", "benchmarks/README.md", "deploy/README.md", "tilt/README.md"]
# Folders that have no documents are not walked through.
exclude_patterns = [
    *("**/.*", ".*", "**/__pycache__", "AGENTS.md", "actors", "components", "deploy/*/**", "dist", "examples"),
    *("holdfast-data", "benchmarks/results", "node_modules", "tests"),
]
myst_heading_anchors = 4
# Text keeps its quotation marks, and options their two hyphens.
smartquotes = False

# In a signature, `type` is Python's, and not one of the attributes of that name.
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"Holdfast {release}"
# Nothing of the site is loaded from elsewhere: it also works from a folder, without a network.
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
# Summaries of search results would be fetched, which browsers refuse to pages of a folder.
html_show_search_summary = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]
