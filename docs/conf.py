"""Sphinx configuration: pages are Markdown, read by MyST."""

project = "pynacount"
author = "The pynacount authors"
copyright = "2026, The pynacount authors"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "examples/**/README.md"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"

html_theme = "furo"
html_title = "pynacount"
