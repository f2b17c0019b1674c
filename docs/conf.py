"""How Sphinx makes a site of these pages: `make docs`, into build/site."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import jitpkg  # noqa: E402

project = "jitpkg"
release = version = jitpkg.__version__
html_title = f"jitpkg {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["pages"]
html_theme = "furo"
html_show_copyright = False
html_copy_source = False

# The pages are written for a reader of the files, too: they link to source files and folders. In
# some programs, what does not matter is left out.
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]

# Docstrings are written as those of Google are, with names in single backticks.
default_role = "code"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True


def _with_breaks(app: Any, name: str, source: list[str]) -> None:
    """The pages of single graph breaks belong to that of all."""
    if name == "breaks":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\nbreaks/*\n```\n"


def setup(app: Any) -> None:
    app.connect("source-read", _with_breaks)
