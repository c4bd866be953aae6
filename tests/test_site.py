"""The generators of the site: every figure said in words, every published item in the matrix.

The built site is not looked at here: `make site` does that, for which any warning is an error.
"""

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
def test_every_figure_is_said_in_a_sentence_of_its_own():
    said = {row["figure"]: row["shows"] for row in rows("figures.csv")}
    assert sorted(said) == FIGURES and len(set(said.values())) == len(said)
    assert all(60 <= len(shows) <= 240 for shows in said.values())


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


def test_package_page_has_every_public_name_once():
    page = pages.package()
    for folder in FOLDERS:
        part = page.split(f"\n## {folder}\n")[1].split("\n## ")[0]
        assert re.findall(r"(?m)^\| `(\w+)`", part) == list(getattr(th, folder).__all__)
        lines = [line for line in part.splitlines() if "|" in line]
        assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines)


# --- pages ---------------------------------------------------------------------------------------
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
    known = (
        "nothing to compute|by hand|in small|questions of ours|free list|against chance|p-values|^$"
    )
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
