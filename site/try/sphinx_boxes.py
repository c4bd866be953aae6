"""The Sphinx extension that appends "Try it here" to the pages of notebooks.

What the boxes need is put beside the pages: the scripts, the package's `textbook.py`, and Pyodide
(Python compiled for browsers), which only a first press of Run loads.
"""

import re
from pathlib import Path

from boxes import box_html, copy_files, read_boxes, read_exercises
from docutils import nodes


def boxes_of(docname):
    """The boxes of a page, by its name: a notebook's, not its solutions', or of the page `try`."""
    if docname == "try":
        return read_boxes("try")
    match = re.fullmatch(r"(?:notebooks/)?(\d\d)_\w+", docname)
    boxes = read_boxes(match[1]) if match else []
    return boxes + read_exercises(match[1]) if boxes else []


def paragraph(text):
    """A paragraph in which `code` is code."""
    node = nodes.paragraph()
    for i, part in enumerate(text.split("`")):
        node += nodes.literal(part, part) if i % 2 else nodes.Text(part)
    return node


def section(id, title, *content):
    """A section of a page, which the page's table of contents lists."""
    return nodes.section("", nodes.title("", title), *content, ids=[id], names=[title.lower()])


def append_boxes(app, doctree):
    """Appends the section "Try it here" to a notebook's page."""
    boxes = boxes_of(app.env.docname)
    if not boxes:
        return
    for path in Path(__file__).parent.glob("*.py"):
        app.env.note_dependency(str(path))  # the page is made anew when one of them changes
    about = paragraph(
        "Change the code and press Run, or Ctrl+Enter while you write. It is Python itself, in your "
        f"browser: the first run loads {app.config.boxes_megabytes} MB from this site. ("
    )
    about += nodes.reference("", "Pyodide", refuri="https://github.com/pyodide/pyodide")
    about += nodes.Text(", licence MPL-2.0.)")
    parts = [
        section(
            box["id"] + "-title",
            box["title"],
            paragraph(box["intro"]),
            nodes.raw("", box_html(box), format="html"),
        )
        for box in boxes
    ]
    page = next(doctree.findall(nodes.section))
    page += section("try-it-here", "Try it here", about, *parts)


def add_scripts(app, pagename, *_):
    """Loads the script and the style on the pages that have boxes."""
    if boxes_of(pagename):
        app.add_css_file("try/try.css")
        app.add_js_file("try/try.js", loading_method="defer")


def copy_beside(app, config):
    """Copies the files when the site's folder is known, and keeps their size."""
    size = copy_files(Path(app.outdir) / "_static" / "try")
    config.boxes_megabytes = round(size / 1e6)


def setup(app):
    """Registers the extension."""
    app.add_config_value("boxes_megabytes", 0, "env")
    app.connect("config-inited", copy_beside)
    app.connect("doctree-read", append_boxes, priority=400)  # before the table of contents is made
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
