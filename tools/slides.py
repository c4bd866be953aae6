"""Make a deck of slides for each lesson from tagged cells: `make slides` writes `build/slides`.

A cell with the tag `slide` begins a slide, and one with `fragment` is its second step. Of Markdown
the slide has what stands above an exercise or the next section; of code it has the output, not the
source, and a figure's SVG where one is saved. The last slide is the lesson's summary. reveal.js
comes from npm, pinned in `tools/decks`, and lies beside the decks: they open from a file and need no
network.
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


def shown(cell: dict, alternative: dict[str, str]) -> str:
    """The outputs of a code cell: its figure, tables and text."""
    parts = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            (name,) = FIGURE.findall("".join(cell["source"]))
            parts.append(f'<img src="figures/{name}.svg" alt="{escape(alternative[name])}">')
        elif "text/html" in data:
            parts.append("".join(data["text/html"]))
        else:
            text = "".join(output.get("text", data.get("text/plain", "")))
            parts.append(f"<pre>{escape(text)}</pre>")
    return "\n".join(parts)


def slides(cells: list[dict], alternative: dict[str, str]) -> list[str]:
    """The slides of a lesson, each as the inside of a section."""
    made = []
    for cell in cells:
        source = "".join(cell["source"])
        content = prose(source) if cell["cell_type"] == "markdown" else shown(cell, alternative)
        if "slide" in tags(cell):
            made.append(content)
        elif "fragment" in tags(cell):
            made[-1] += f'\n<div class="fragment">{content}</div>'
    summary = "".join(cells[-1]["source"]).split("## Summary")[-1]
    return [*made, f"<h2>Summary</h2>\n{prose(summary)}"]


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
    for name in ("reset.css", "reveal.css", "reveal.js", "theme/white.css"):
        shutil.copy(REVEAL / name, target / "reveal")
    shutil.copy(REVEAL.parent / "LICENSE", target / "reveal")
    shutil.copy(DECKS / "deck.css", target)
    (target / "figures").mkdir()
    template, made = Template((DECKS / "deck.html").read_text(encoding="utf-8")), []
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        if not any("slide" in tags(cell) for cell in cells):
            continue
        sections = [f"<section>\n{inside}\n</section>" for inside in slides(cells, alternatives())]
        page = template.substitute(title=f"tokhelpers {path.stem[:2]}", slides="\n".join(sections))
        for name in re.findall(r'src="figures/(\w+)\.svg"', page):
            shutil.copy(ROOT / "figures" / f"{name}.svg", target / "figures")
        made.append(target / f"{path.stem}.html")
        made[-1].write_text(page, encoding="utf-8")
    links = "".join(f'<li><a href="{deck.name}">{deck.stem}</a></li>\n' for deck in made)
    (target / "index.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Slides</title>\n'
        f"<ul>\n{links}</ul></html>\n",
        encoding="utf-8",
    )
    return made


if __name__ == "__main__":
    folder = ROOT / "build" / "slides"
    print(f"{len(write_decks(folder))} decks in {folder.relative_to(ROOT)}")
