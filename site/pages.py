"""Write what Sphinx builds the site from: notebooks, landing page, gallery, reproduction matrix.

`python site/pages.py` fills `build/site/source` with pages and `build/site/extra` with the figures
and their numbers. A file that would not change is left alone, so that Sphinx has little to do.
"""

import csv
import json
import re
from base64 import b64decode
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import quote

HERE = Path(__file__).parent
ROOT = HERE.parent
FIGURES = ROOT / "figures"
NAME = re.compile(r'"(\d\d_[a-z0-9_]+)"')  # under which a notebook's cell saves its figure
OPENING = re.compile(r"!\[([^]]*)\]\(\.\./figures/(\w+)\.svg\)")
SMALL, STYLE = re.compile(r"\d+\.\d{3,}"), re.compile(r'style="([^"]*)"')  # in an SVG
PATH = re.compile(r"<td>([^<]*/[^<]*)</td>")


def rows(name):
    """The rows of a CSV file, its path given from the top of the project."""
    with open(ROOT / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def drawing(name):
    """A figure's SVG at half its size, looking the same.

    Coordinates get two decimals, and each style is written once. What is text stays as it is.
    """
    svg = (FIGURES / f"{name}.svg").read_text(encoding="utf-8")
    svg = re.sub(r"<[^>]+>", lambda tag: SMALL.sub(hundredths, tag[0]), svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"|<metadata>.*?</metadata>', "", svg, flags=re.S)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg).replace("xlink:href", "href")
    svg = re.sub(r"\s*\n\s*", " ", svg).replace("> <g", "><g").replace("> </g", "></g")
    classes = {style: f"s{i}" for i, style in enumerate(dict.fromkeys(STYLE.findall(svg)))}
    rules = "".join(f".{short}{{{style}}}" for style, short in classes.items())
    svg = STYLE.sub(lambda style: f'class="{classes[style[1]]}"', svg)
    return svg.replace("</style>", f"{rules}</style>", 1)


def hundredths(number):
    """A number of an SVG, found by `SMALL`, with two decimals or fewer."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def figure(name, shows, up="", caption=""):
    """A figure as HTML: the drawing, which opens alone, what it shows in words, and its numbers.

    up: the way from the page to the top of the site, such as `../`; caption: HTML.
    """
    sides = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', drawing(name)).groups()
    width, height = (round(float(points) * 4 / 3) for points in sides)
    path, numbers = f"{up}figures/{name}", f"{name}.csv"
    caption += live(name, up)
    return (
        f'<figure class="drawing" id="{name}"><a href="{path}.svg"><img src="{path}.svg" '
        f'alt="{escape(shows)}" width="{width}" height="{height}" loading="lazy"></a>\n<figcaption>'
        f'{caption}<a href="{path}.csv" download="{numbers}">{numbers}</a>, '
        f'<a href="{path}.svg">SVG</a>, <a href="{path}.png">PNG</a></figcaption></figure>'
    )


def live(name, up=""):
    """The link that opens a figure's texts in the playground, for figures of Llama 3's tokens."""
    if name != "00_bill":
        return ""
    lines = {}
    for token in rows(f"figures/{name}.csv"):
        lines[token["row"]] = lines.get(token["row"], "") + token["text"].replace("␣", " ")
    text = quote("\n".join(lines.values()), safe="")
    return f'<a href="{up}playground.html#t=llama-3,gpt-4o&amp;x={text}">These texts in the playground</a>, '


def drawn(notebook, code, shows):
    """The figure that a cell of a notebook saves, as HTML."""
    names = NAME.findall(code)
    if len(names) != 1:
        raise ValueError(f"{notebook}: a cell that shows a picture must save one, as NN_topic")
    if names[0] not in shows:
        raise ValueError(f"data/figures.csv does not say what {names[0]} shows: add a sentence")
    return figure(names[0], shows[names[0]], up="../")


def notebook(path, shows):
    """A stored notebook, as text, with its pictures replaced by the figures that its cells save."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    for cell in stored["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = OPENING.sub(opening, "".join(cell["source"]))
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                output["data"] = {"text/html": drawn(path.stem, "".join(cell["source"]), shows)}
                output["metadata"] = {}  # the alternative text stands in the HTML
            elif "text/html" in data:
                data["text/html"] = PATH.sub(breakable, "".join(data["text/html"]))
    stored["metadata"].pop("widgets", None)  # a widget shows its plain form
    if path.parent.name == "solutions":
        stored["metadata"]["orphan"] = True  # linked from its notebook, not in the row of pages
    return json.dumps(stored, ensure_ascii=False, indent=1)


def opening(image):
    """The figure that a study opens with, found by `OPENING`, linked to the cell that draws it."""
    shows, name = image.groups()
    return f'<a href="#{name}"><img src="../figures/{name}.svg" alt="{escape(shows)}"></a>'


def breakable(cell):
    """A table's cell, found by `PATH`, in which a line may end after a slash."""
    return f"<td>{cell[1].replace('/', '/<wbr>')}</td>"


def pictures(path):
    """The pictures of a stored notebook as PNG, by the names under which its cells save them."""
    images = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                (name,) = NAME.findall("".join(cell["source"]))
                images[name] = b64decode("".join(output["data"]["image/png"]))
    return images


def series():
    """The notebooks in their order: the rows of data/series.csv."""
    return rows("data/series.csv")


def titles(series):
    """The titles of notebooks, by name, as their first line has them."""
    by_name = {}
    for row in series:
        path = ROOT / "notebooks" / f"{row['notebook']}.ipynb"
        first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
        by_name[row["notebook"]] = first.splitlines()[0].removeprefix("# ")
    return by_name


def described(series):
    """The name of each notebook, what it finds or teaches, and its title."""
    names = titles(series)
    return [(row["notebook"], row["teaches"], names[row["notebook"]]) for row in series]


def landing(series, shows):
    """The landing page: the README down to its table, then each notebook's finding and figure."""
    import api

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    start = readme.split("\n## The notebooks\n")[0]
    start = re.sub(r"!\[.*?\]\(figures/(\w+)\.svg\)", lambda m: figure(m[1], shows[m[1]]), start)
    return Template((HERE / "index.md").read_text(encoding="utf-8")).substitute(
        start=start.replace(" ([other ways](#installing))", ""),
        reproduced=re.search(r"\*\*What is reproduced:\*\*.*?(?=\[data/)", readme, re.S)[0].strip(),
        findings=findings(series, shows),
        notebooks="\n".join(f"notebooks/{row['notebook']}" for row in series),
        api="\n".join(f"api/{folder}" for folder in api.FOLDERS),
    )


def findings(series, shows):
    """A card for each notebook, as HTML: its title, its finding, and the figure it opens with."""
    cards = []
    for name, teaches, title in described(series):
        picture, page = first_figure(name, shows), f"notebooks/{name}.html"
        image = f'<img src="figures/{picture}.svg" alt="{escape(shows[picture])}" loading="lazy">'
        said = f"<strong>{escape(title)}</strong><span>{escape(teaches)}</span>"
        cards.append(f'<a class="finding" href="{page}">{image}{said}</a>')
    return '<div class="gallery">\n' + "\n".join(cards) + "\n</div>"


def first_figure(name, shows):
    """The figure that a notebook opens with, or the first that it saves."""
    path = ROOT / "notebooks" / f"{name}.ipynb"
    first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
    opens = OPENING.search(first)
    return opens[2] if opens else next(figure for figure in shows if figure[:2] == name[:2])


def galleries(series, shows):
    """The two pages of all figures, each with half of the notebooks: as one they would be too large."""
    half = len(series) // 2
    first, second = (gallery(part, shows) for part in (series[:half], series[half:]))
    return {
        "source/figures.md": first + "\n[The figures of the later notebooks](figures-2.md)\n",
        "source/figures-2.md": second + "\n[The figures of the earlier notebooks](figures.md)\n",
    }


def gallery(series, shows):
    """A page of figures, notebook by notebook."""
    first, last = (series[i]["notebook"][:2] for i in (0, -1))
    page = [
        f"# Figures of notebooks {first} to {last}\n\nEach opens larger when it is clicked; its "
        "numbers are the CSV file beside it.\n"
    ]
    for name, teaches, title in described(series):
        link = f'<a href="notebooks/{name}.html#%s">Notebook {name[:2]}</a> · '
        cards = [
            figure(each, said, caption=f"<p>{escape(said)}</p>{link % each}")
            for each, said in shows.items()
            if each[:2] == name[:2]
        ]
        if cards:
            finding = f"{teaches[0].upper()}{teaches[1:]}."
            page.append(
                f'## {title}\n\n{finding}\n\n<div class="gallery">\n'
                + "\n".join(cards)
                + "\n</div>\n"
            )
    return "\n".join(page)


def trial():
    """The page on which readers cut their own text, from try.md."""
    merges = (HERE / "try" / "learned.txt").read_text(encoding="utf-8").count("\n")
    return Template((HERE / "try.md").read_text(encoding="utf-8")).substitute(merges=f"{merges:,}")


def playground():
    """The page on which real tokenizers are compared, from playground.md."""
    from tokhelpers.notebook.playground import fragment

    catalogue = ROOT / "build" / "site" / "catalogue.json"  # playground.py runs first
    entries = json.loads(catalogue.read_text("utf-8")) if catalogue.is_file() else []
    page = (HERE / "playground.md").read_text(encoding="utf-8")
    return Template(page).substitute(playground=fragment(entries))


def pages():
    """All files of the site, as text (pictures: bytes), by their path below `build/site`."""
    import api  # here, because conf.py, which needs the titles only, should be quick
    from matrix import matrix

    shows = {row["figure"]: row["shows"] for row in rows("data/figures.csv")}
    listed = series()
    names = {row["notebook"][:2]: row["notebook"] for row in listed}
    files = {
        "source/index.md": landing(listed, shows),
        **galleries(listed, shows),
        "source/try.md": trial(),
        "source/playground.md": playground(),
        "source/matrix.md": matrix(rows("data/reproduced.csv"), names),
    }
    files |= {f"source/{path}": page for path, page in api.reference().items()}
    for name in ("GLOSSARY.md", "TEACHING.md"):
        files[f"source/notebooks/{name}"] = (ROOT / "notebooks" / name).read_text(encoding="utf-8")
    for name in names.values():
        for folder in ("notebooks", "notebooks/solutions"):
            path = f"{folder}/{name}.ipynb"
            files[f"source/{path}"] = notebook(ROOT / path, shows)
        for figure_name, png in pictures(ROOT / "notebooks" / f"{name}.ipynb").items():
            files[f"extra/figures/{figure_name}.png"] = png
    for name in shows:
        files[f"extra/figures/{name}.svg"] = drawing(name)
        files[f"extra/figures/{name}.csv"] = (FIGURES / f"{name}.csv").read_text(encoding="utf-8")
    return files


def write(folder, files):
    """Write files that are new or changed into a folder, and remove all others from it."""
    for path, content in files.items():
        file, data = folder / path, content if isinstance(content, bytes) else content.encode()
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_bytes() != data:
            file.write_bytes(data)
    for file in [*folder.glob("source/**/*.*"), *folder.glob("extra/**/*.*")]:
        if str(file.relative_to(folder)) not in files:
            file.unlink()


if __name__ == "__main__":
    write(ROOT / "build" / "site", pages())
