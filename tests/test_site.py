"""The generators of the site: every figure said in words, every published item in the matrix.

The built site is not looked at here: `make site` does that, for which any warning is an error.
"""

import json
import re
import sys
from xml.etree import ElementTree

import pytest
from test_project import FOLDERS, ROOT, cells, rows

import tokhelpers as th

sys.path.insert(0, str(ROOT / "site"))

import matrix  # noqa: E402
import pages  # noqa: E402
import reproduced  # noqa: E402
from compared import KINDS, Compared  # noqa: E402

FIGURES = sorted(path.stem for path in (ROOT / "figures").glob("*.svg"))
TEXT = re.compile(r"<(?:text|tspan)[^>]*>([^<]*)")


@pytest.fixture(scope="module")
def site():
    return pages.pages()


@pytest.fixture(scope="module")
def found():
    return matrix.comparisons()


# --- figures -------------------------------------------------------------------------------------
def test_every_figure_is_said_in_one_sentence():
    said = {row["figure"]: row["shows"] for row in rows("figures.csv")}
    assert sorted(said) == FIGURES
    assert len(set(said.values())) == len(said)
    for name, shows in said.items():
        assert 60 <= len(shows) <= 240 and shows.endswith("."), name
        assert not re.search(r"[.!?] ", shows), name


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_drawing_keeps_every_word_and_number(name):
    drawn = (ROOT / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    small = pages.drawing(name)
    ElementTree.fromstring(small)  # raises where it is not well formed
    before, after = (re.sub(r"\s+", " ", " | ".join(TEXT.findall(svg))) for svg in (drawn, small))
    assert before == after and after
    assert len(small) < 0.75 * len(drawn) and 'style="' not in small


@pytest.mark.long
def test_every_figure_stands_in_its_notebook_and_in_the_gallery(site):
    galleries = site["source/figures.md"] + site["source/figures-2.md"]
    for name in FIGURES:
        (page,) = [p for p in site if re.match(rf"source/notebooks/{name[:2]}_", p)]
        # in the notebook's JSON, quotation marks are escaped
        assert site[page].count(f'id=\\"{name}\\"') == galleries.count(f'id="{name}"') == 1, name
        assert {f"extra/figures/{name}.{end}" for end in ("svg", "png", "csv")} <= site.keys()
        assert site[f"extra/figures/{name}.png"].startswith(b"\x89PNG")


def test_figure_that_nobody_describes_is_named():
    path = next((ROOT / "notebooks").glob("08_*.ipynb"))
    with pytest.raises(ValueError, match=r"figures\.csv does not say what 08_\w+ shows"):
        pages.notebook(path, {})


def test_a_path_in_a_table_may_go_on_in_the_next_line():
    table = '<a href="a/b">c/d</a><td>data/texts/a.csv</td><td>1.5</td>'
    broken = '<a href="a/b">c/d</a><td>data/<wbr>texts/<wbr>a.csv</td><td>1.5</td>'
    assert pages.PATH.sub(pages.breakable, table) == broken


def test_numbers_options_and_short_code_stay_in_one_line():
    conf = pytest.importorskip("conf", reason="Sphinx is not installed")
    nodes = conf.nodes
    said = nodes.paragraph("", "", nodes.Text("(a) 5 % (b) 7 ± 2 words"), nodes.literal("", "5 %"))
    said += nodes.literal("", "x" * 80)
    page = nodes.section("", said)
    conf.keep_together(None, page)
    assert said[0].astext() == "(a)\xa05\xa0% (b)\xa07\xa0±\xa02 words"
    assert said[1].astext() == "5 %"
    assert [code["classes"] for code in said[1:]] == [["short"], []]


def test_package_page_has_every_public_name_once():
    page = pages.package()
    for folder in FOLDERS:
        part = page.split(f"\n## {folder}\n")[1].split("\n## ")[0]
        assert re.findall(r"(?m)^\| `(\w+)`", part) == list(getattr(th, folder).__all__)
        lines = [line for line in part.splitlines() if "|" in line]
        assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines)


# --- pages and pins ------------------------------------------------------------------------------
def test_site_pins_are_exact_and_beside_the_others():
    pin = re.compile(r"(?m)^([\w.-]+)==[\w.+]+(?: ;.*)?$")
    names = ("requirements.txt", "requirements-site.txt")
    ours, theirs = (set(map(str.lower, pin.findall((ROOT / n).read_text()))) for n in names)
    lines = (ROOT / names[1]).read_text().splitlines()
    assert len(theirs) == len(lines) - 1 and lines[0].startswith("#") and not ours & theirs
    wanted = json.loads((ROOT / "site" / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"[\d.]+", version) for version in wanted.values())


@pytest.mark.long
def test_notebooks_follow_each_other_and_solutions_stand_apart(site):
    listed = re.findall(r"(?m)^notebooks/(\d\w+)$", site["source/index.md"])
    assert listed == [row["notebook"] for row in rows("series.csv")]
    for name in listed:
        for folder, apart in {"": None, "solutions/": True}.items():
            written = json.loads(site[f"source/notebooks/{folder}{name}.ipynb"])
            assert written["metadata"].get("orphan") == apart


@pytest.mark.long
def test_landing_page_has_the_computed_gain_and_the_two_commands(site):
    best = max(rows("../figures/08_gain.csv"), key=lambda row: float(row["ours"]))
    page = " ".join(site["source/index.md"].replace("&nbsp;", " ").split())
    assert f"<strong>{float(best['ours']):.0f} %</strong>" in page
    assert f"Published: {float(best['published']):.0f} %" in page
    assert "make figures" in page and "make test" in page and "$" not in page


# --- the matrix ----------------------------------------------------------------------------------
@pytest.mark.long
def test_every_table_and_figure_has_a_row(site, found):
    page = site["source/matrix.md"]
    items = {(row["document"], row["item"]) for row in rows("reproduced.csv")}
    assert len(re.findall(r"(?m)^\| \*\*", page)) == len(items)
    lines = re.findall(r"(?m)^\| (?!\|)(?=.*\|$).*", page)
    assert len(lines) >= sum(map(len, found.values()))
    for line in lines:
        assert len(re.split(r"(?<!\\)\|", line)) == 8, line


def test_what_can_be_compared_is(found):
    """Only drawings, texts, definitions, and what is done in small or by hand, go without numbers."""
    known = "nothing to compute|by hand|in small|questions of ours|free list|beside four|^$"
    keyed = [((row["document"], row["item"]), row["extent"]) for row in rows("reproduced.csv")]
    without = {key for key, _ in keyed} - found.keys()
    excused = {key for key, extent in keyed if re.search(known, extent)}
    assert without - excused == {("adaptbpe", "Table 5")}
    assert len(found) > 2 * len(without)


def test_computed_columns_are_those_of_the_figures(found):
    listed = rows("reproduced.csv")
    for row in listed:
        now = reproduced.computed(row, listed)
        assert {key: row[key] for key in now} == now, "run python site/reproduced.py"
    shown = [c for row in listed for c in reproduced.of_row(row, listed)]
    assert len(shown) == sum(map(len, found.values()))  # every comparison stands in a row
    verdicts = {row["verdict"] for row in listed}
    assert {"reproduced", "same direction", "in part", "claims hold", "not compared"} <= verdicts


def test_texts_named_in_the_matrix_are_those_of_the_notebooks():
    for row in rows("reproduced.csv"):
        named = re.findall(r"\w+:\w+|\bhpo\b|FLORES", f"{row['trained']} {row['measured']}")
        path = next((ROOT / "notebooks").glob(f"{row['notebook'] or '00'}_*.ipynb"))
        source = " ".join(cell["source"] for cell in cells(path))
        for name in named:  # a code may be put in by the notebook: f"training:{code}"
            assert name.partition(":")[0] + ":" * (":" in name) in source, (row["item"], name)


def test_comparisons_read_what_is_published(found):
    by_what = {c.what: c for c in found["paper", "Table 8"] + found["paper", "Table 12"]}
    one = by_what["unreachable tokens of Llama-3"]
    assert one.published.tolist() == one.ours.tolist() == [588]
    twelve = by_what["gain of continued over naive, %"]
    assert len(twelve.ours) > 400 and twelve.correlation > 0.5


@pytest.mark.parametrize(
    ("published", "ours", "verdict"),
    [
        ([1.0, 2.0], [1.04, 1.96], ("same", "")),
        ([1.0, 2.0], [1.06, 2.0], ("close", "+2 %")),
        ([10.0], [12.5], ("larger", "+25 %")),
        ([-10.0], [-5.0], ("smaller", "−50 %")),
        ([2.0], [-2.0], ("other sign", "")),
        ([0.0], [3.0], ("differs", "")),
        (None, [True, True], ("holds", "")),
        (None, [True, False], ("in part", "")),
        (None, [False], ("does not hold", "")),
    ],
)
def test_verdict(published, ours, verdict):
    assert Compared("paper", "Table 1", "what", published, ours).verdict == verdict
    assert verdict[0] in KINDS


@pytest.mark.parametrize("ours", [[], [1.0, float("nan")], [1.0]])
def test_gaps_are_refused(ours):
    with pytest.raises(ValueError, match="paper, Table 1"):
        Compared("paper", "Table 1", "what", [1.0, 2.0], ours)
