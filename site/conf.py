"""Sphinx's settings for `make site`. The pages come from pages.py, which runs first."""

import re
import sys
import tomllib
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "try")]

from pages import series, titles  # noqa: E402

project = "tokhelpers"
author = "the tokhelpers project"
extensions = ["myst_nb", "sphinx_boxes"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

# Notebooks are shown as they are stored, widgets in their plain form: no script is fetched for them.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_render_markdown_format = "myst"  # so that links in outputs lead to pages, too
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

html_theme = "sphinx_book_theme"
html_title = "tokhelpers"
templates_path = [str(HERE / "_templates")]
html_static_path = [str(HERE / "_static")]
html_extra_path = [str(HERE.parent / "build" / "site" / name) for name in ("extra", "playground")]
html_css_files = ["site.css"]
html_js_files = ["print.js"]
html_favicon = str(HERE / "_static" / "icon.svg")
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_show_copyright = False
html_last_updated_fmt = None
html_show_search_summary = False  # would be fetched, which pages opened as files may not do
html_math_renderer = "mathml"
html_context = {
    "default_mode": "auto",  # light or dark, as the reader's system is
    "titles": titles(series()),  # stand beside every page: when one changes, all are written anew
}
html_theme_options = {
    "home_page_in_toc": True,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_persistent": [],
    "use_download_button": False,
    "use_fullscreen_button": False,
    "use_source_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def repository_options(urls):
    """The theme's options for buttons that need the repository: none where it has no address.

    urls: `[project.urls]` of pyproject.toml, the one place that may hold it, as `Repository`.
    """
    address = urls.get("Repository", "").rstrip("/")
    if not address:
        return {}
    return {
        "repository_url": address,
        "repository_branch": "main",
        "use_repository_button": True,
        "use_edit_page_button": True,
        "launch_buttons": {  # Binder installs environment.yml
            "binderhub_url": "https://mybinder.org",
            "colab_url": "https://colab.research.google.com",
            "notebook_interface": "jupyterlab",
        },
    }


PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
html_theme_options |= repository_options(PROJECT.get("urls", {}))
# Spaces at which no line may end.
APART = re.compile(r"(?<=\d) (?=[%±])|(?<=±) (?=\d)|(?<=\([abc]\)) ")
SHORT = 24  # characters of code that fit into a phone's line


def formula(display, wrapped):
    """What writes a formula as MathML, which browsers show without a script."""

    def visit(self, node):
        self.body.append(wrapped.format(convert(node.astext(), display=display)))
        raise nodes.SkipNode

    return visit, None


def keep_together(app, doctree):
    """Let no line end between a number and its %, an option and its letter, or within short code."""
    fixed = (nodes.FixedTextElement, nodes.literal, nodes.math)
    for text in list(doctree.findall(nodes.Text)):
        together = APART.sub("\N{NO-BREAK SPACE}", text)
        if together != text and not isinstance(text.parent, fixed):
            text.parent.replace(text, nodes.Text(together))
    for code in doctree.findall(nodes.literal):
        if len(code.astext()) <= SHORT:
            code["classes"].append("short")


def setup(app):
    """Register the writer of formulas, and what keeps words together."""
    block = '<div class="formula" tabindex="0">{}</div>'  # may be scrolled, so keys must reach it
    app.add_html_math_renderer("mathml", formula("inline", "{}"), formula("block", block))
    app.connect("doctree-read", keep_together)
