"""Make a deck of slides for each lesson from tagged cells: `make slides` writes `build/slides`.

A cell with the tag `slide` begins a slide, and one with `fragment` is its second step, the answer. Of
Markdown a slide has what stands above an exercise or the next section, or the cell's metadata `deck`
(Markdown) in its place; of code it has that metadata and the output, or with the tag `source` the
source, and the output as a second step. A figure has a slide of its own, as the SVG that the cell
saves. Metadata `notes` (Markdown) are speaker notes, which the key S shows. Three kinds of slides need
no tag: what a reader will be able to do, each exercise, and the summary. reveal.js comes from npm,
pinned in `tools/decks`, and lies beside the decks: they open from a file and need no network.
"""

import json
import re
import shutil
from functools import partial
from html import escape
from pathlib import Path
from string import Template

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
DECKS = ROOT / "tools" / "decks"
REVEAL = DECKS / "node_modules" / "reveal.js" / "dist"
MARKDOWN = MarkdownIt("commonmark", {"html": True, "typographer": True})
MARKDOWN.enable(["table", "smartquotes"])
FIGURE = re.compile(r'"(\d\d_[a-z0-9_]+)"')
ABOVE = re.compile(r"\*\*Exercise|<details>|(?<=\n)## |^(?:Sources?|Paper): |^Work: ", re.M)
LINKS = re.compile(r"(?m)(?:^- )?\*{0,2}(?:Solutions|Next)\*{0,2}: .*$")  # of the summary
EXERCISE = re.compile(r"\*\*(Exercise [^*]+)\*\* \((\d+) minutes\)\.?(.*?)(?=<details>|\Z)", re.S)
IN_CLASS = "Work in pairs, in the student edition. Walk around and ask *why* instead of *what*."


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def prose(source: str) -> str:
    """Markdown as a slide's HTML, the options of a prediction below each other.

    >>> prose("**[?]** *How many? (a) 1 (b) 2*").count('class="option"')
    2
    """
    text = ABOVE.split(source)[0]
    html = MARKDOWN.render(text)
    html = re.sub(r'<a href="[^"]*">(.*?)</a>', r"\1", html)
    options = partial(re.sub, r"\((a|b|c)\)", r'<br><span class="option">(\1)</span>')
    return re.sub(r"(?s)<p>(?:(?!</p>).)*\[\?\].*?</p>", lambda asked: options(asked[0]), html)


def figure_of(cell: dict, alternative: dict[str, str]) -> str:
    """The figure that a code cell saves, as HTML, or an empty string."""
    if not any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
        return ""
    (name,) = FIGURE.findall("".join(cell["source"]))
    return f'<img src="figures/{name}.svg" alt="{escape(alternative[name])}">'


def text_of(cell: dict) -> str:
    """The outputs of a code cell other than its figure: tables and text."""
    parts = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            continue
        if "text/html" in data:
            parts.append("".join(data["text/html"]))
        else:
            text = "".join(output.get("text", data.get("text/plain", "")))
            parts.append(f"<pre>{escape(text)}</pre>")
    return "\n".join(parts)


def content_of(cell: dict) -> str:
    """What a slide has of a cell, without its figure."""
    source, own = "".join(cell["source"]), cell["metadata"].get("deck", "")
    if cell["cell_type"] == "markdown":
        return prose(own or source)
    parts, output = [prose(own)] if own else [], text_of(cell)
    if "source" in tags(cell):
        parts.append(f'<pre class="source"><code>{escape(source)}</code></pre>')
        output = f'<div class="fragment">{output}</div>' if output else ""
    return "\n".join(filter(None, [*parts, output]))


def exercise(source: str) -> str:
    """The slide of the exercise in a cell, as HTML, or an empty string.

    >>> exercise("**Exercise 1: count** (5 minutes). Count the pairs.").splitlines()[0]
    '<h2>Exercise 1: count <small>5 minutes</small></h2>'
    """
    match = EXERCISE.search(source)
    if not match:
        return ""
    title, minutes, asked = match.groups()
    return f"<h2>{escape(title)} <small>{minutes} minutes</small></h2>\n{prose(asked.strip())}"


def noted(content: str, notes: str) -> str:
    """A slide's content with its speaker notes."""
    aside = f'\n<aside class="notes">{MARKDOWN.render(notes)}</aside>' if notes else ""
    return content + aside


def slides(cells: list[dict], alternative: dict[str, str]) -> list[str]:
    """The slides of a lesson, each as the inside of a section."""
    result, question = [], 0  # question: the slide to which a second step belongs
    for cell in cells:
        source, notes = "".join(cell["source"]), cell["metadata"].get("notes", "")
        if source.startswith("You will be able to"):
            result.append(f"<h2>You will be able to</h2>\n{prose(source.split(chr(10), 1)[1])}")
        figure, is_markdown = figure_of(cell, alternative), cell["cell_type"] == "markdown"
        is_slide, is_fragment = "slide" in tags(cell), "fragment" in tags(cell)
        content = content_of(cell) if is_slide or is_fragment else ""
        if content and is_fragment:
            result[question] += (
                f'\n<div class="fragment">{noted(content, "" if figure else notes)}</div>'
            )
        elif content:
            question = len(result)
            result.append(noted(content, "" if figure else notes))
        if figure and (is_slide or is_fragment):
            result.append(noted(figure, notes))
        if is_markdown and (asked := exercise(source)):
            result.append(noted(asked, IN_CLASS))
    summary = LINKS.sub("", "".join(cells[-1]["source"]).split("## Summary")[-1])
    return [*result, f"<h2>Summary</h2>\n{prose(summary)}"]


def alternatives() -> dict[str, str]:
    """What each figure shows, in words, from data/figures.csv."""
    import csv

    with open(ROOT / "data" / "figures.csv", newline="", encoding="utf-8") as file:
        return {row["figure"]: row["shows"] for row in csv.DictReader(file)}


def write_decks(target: Path) -> list[Path]:
    """Write a deck for each notebook with slides, and reveal.js beside them; returns the decks.

    Raises FileNotFoundError where reveal.js is not installed.
    """
    if not (REVEAL / "reveal.js").is_file():
        raise FileNotFoundError(f"there is no reveal.js in {REVEAL}: run npm ci in {DECKS}")
    shutil.rmtree(target, ignore_errors=True)
    (target / "reveal").mkdir(parents=True)
    for name in ("reset.css", "reveal.css", "reveal.js", "theme/white.css", "plugin/notes.js"):
        shutil.copy(REVEAL / name, target / "reveal")
    shutil.copy(REVEAL.parent / "LICENSE", target / "reveal")
    shutil.copy(DECKS / "deck.css", target)
    (target / "figures").mkdir()
    template, decks = Template((DECKS / "deck.html").read_text(encoding="utf-8")), []
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        if not any("slide" in tags(cell) for cell in cells):
            continue
        sections = [f"<section>\n{inside}\n</section>" for inside in slides(cells, alternatives())]
        page = template.substitute(title=f"tokhelpers {path.stem[:2]}", slides="\n".join(sections))
        for name in re.findall(r'src="figures/(\w+)\.svg"', page):
            shutil.copy(ROOT / "figures" / f"{name}.svg", target / "figures")
        decks.append(target / f"{path.stem}.html")
        decks[-1].write_text(page, encoding="utf-8")
    links = "".join(f'<li><a href="{deck.name}">{deck.stem}</a></li>\n' for deck in decks)
    (target / "index.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Slides</title>\n'
        f"<ul>\n{links}</ul></html>\n",
        encoding="utf-8",
    )
    return decks


if __name__ == "__main__":
    folder = ROOT / "build" / "slides"
    print(f"{len(write_decks(folder))} decks in {folder.relative_to(ROOT)}")
