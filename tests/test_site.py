"""The generators of the site: every figure said in words, every published item in the matrix.

The built site is not looked at here: `make site` does that, for which any warning is an error.
"""

import re
import sys
from html import escape
from xml.etree import ElementTree

import pytest
from test_project import FOLDERS, ROOT, rows

import tokhelpers as th

sys.path.insert(0, str(ROOT / "site"))

import api  # noqa: E402
import matrix  # noqa: E402
import pages  # noqa: E402
import reproduced  # noqa: E402
from compared import Compared  # noqa: E402

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


def test_pages_of_the_api_have_every_public_name_once_with_its_docstring():
    found = api.reference()
    for folder in FOLDERS:
        names = list(getattr(th, folder).__all__)
        part = found["package.md"].split(f"\n## {folder}\n")[1].split("\n## ")[0]
        assert re.findall(r"(?m)^\| <a [^>]*><code>(\w+)<", part) == names
        lines = [line for line in part.splitlines() if "|" in line]
        assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines)
        page = found[f"api/{folder}.md"]
        assert re.findall(r"(?m)^## (\w+)", page) == names
        assert page.count("\n>>> ") and page.count("```") % 2 == 0 and "collections.abc" not in page
        for name in names:
            assert f'#api-{name}"' in part and page.count(f'id="api-{name}"') == 1
            assert (
                api.first_sentence(getattr(getattr(th, folder), name))[:40] in page + "A constant."
            )


# --- pages ---------------------------------------------------------------------------------------
@pytest.mark.long
def test_landing_page_is_the_readme_and_each_notebook_with_finding_and_figure(site):
    page = site["source/index.md"]
    assert "make figures" in page and "make test" in page and "$" not in page
    assert page.startswith("---") and "# tokhelpers\n" in page and 'id="00_bill"' in page
    for row in rows("series.csv"):
        card = re.search(
            rf'<a class="finding" href="notebooks/{row["notebook"]}.html">.*?</a>', page
        )[0]
        assert f"figures/{row['notebook'][:2]}_" in card and escape(row["teaches"]) in card


def test_the_figure_that_a_study_opens_with_is_shown_on_its_page():
    page = pages.notebook(
        ROOT / "notebooks" / "23_superwords.ipynb", {"23_gain": "a", "23_model": "b"}
    )
    assert (
        "![" not in page
        and '<a href=\\"#23_model\\"><img src=\\"../figures/23_model.svg\\"' in page
    )


# --- the index of what is reproduced ---------------------------------------------------------------
@pytest.mark.long
def test_the_page_has_every_row_of_the_index(site):
    page, index = site["source/matrix.md"], rows("reproduced.csv")
    items = {(row["document"], row["item"]) for row in index}
    assert len(re.findall(r"(?m)^\| \*\*", page)) == len(items)
    lines = re.findall(r"(?m)^\| (?!\||item|-).*\|$", page)
    assert len(lines) == len(index)
    for line in lines:
        assert len(re.split(r"(?<!\\)\|", line)) == 8, line


def test_every_comparison_has_a_row_and_its_numbers(found):
    index = rows("reproduced.csv")
    for row in index:
        now = reproduced.numbers(row)
        assert {key: row[key] for key in now} == now, "run python site/reproduced.py"
    listed = [id(reproduced.compared_of(row)) for row in index if row["quantity"]]
    assert len(set(listed)) == len(listed) == sum(map(len, found.values()))


@pytest.mark.parametrize(
    "row", rows("reproduced.csv"), ids=lambda row: f"{row['item']}-{row['notebook']}"
)
def test_no_verdict_claims_more_than_the_numbers_bear(row):
    assert row["verdict"] in reproduced.VERDICTS
    assert reproduced.is_borne(row), row
    assert row["reason"] or row["verdict"].startswith("reproduced"), "say why it differs"


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


@pytest.mark.parametrize("ours", [[], [1.0, float("nan")], [1.0]])
def test_gaps_are_refused(ours):
    with pytest.raises(ValueError, match="paper, Table 1"):
        Compared("paper", "Table 1", "what", [1.0, 2.0], ours)
