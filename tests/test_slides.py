"""Decks of slides: every lesson has one, they need no network, and the answer is a second step."""

import re

import pytest
from test_project import NOTEBOOKS

from tools import slides
from tools.slides import write_decks


@pytest.fixture
def decks(tmp_path, monkeypatch):
    """The decks, with empty files in place of reveal.js, which only `make slides` installs."""
    for name in ("reset.css", "reveal.css", "reveal.js", "theme/white.css", "plugin/notes.js"):
        (tmp_path / "dist" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dist" / name).touch()
    (tmp_path / "LICENSE").touch()
    monkeypatch.setattr(slides, "REVEAL", tmp_path / "dist")
    return write_decks(tmp_path / "slides")


def test_every_lesson_has_a_deck_with_question_picture_prediction_and_answer(decks):
    assert [deck.stem for deck in decks] == [path.stem for path in NOTEBOOKS if path.stem < "07"]
    for deck in decks:
        page = deck.read_text(encoding="utf-8")
        first, *_, last = re.findall(r"(?s)<section>(.*?)</section>", page)
        assert "<h1>" in first and "?" in first and "<h2>Summary</h2>" in last
        assert "[?]" in page and 'class="fragment"' in page and 'class="option"' in page
        for left_out in ("Work:", "<details>", "notebook.check"):
            assert left_out not in page
        assert "..." not in page.split("Summary")[0]  # the stub of an exercise
        assert "<h2>You will be able to</h2>" in page and "<h2>Exercise 1" in page


def test_a_figure_has_a_slide_of_its_own_and_notes_are_the_speakers():
    figure = {"cell_type": "code", "metadata": {"tags": ["fragment"], "notes": "Ask *why*."}}
    figure |= {"source": ['save("01_tree")'], "outputs": [{"data": {"image/png": ""}}]}
    figure["outputs"].append({"name": "stdout", "text": "printed"})
    asked = {"cell_type": "markdown", "metadata": {"tags": ["slide"], "deck": "Short?"}}
    asked["source"] = ["A paragraph.\n", "\n", "**Exercise 1: count** (5 minutes). Count.\n"]
    summary = {"cell_type": "markdown", "metadata": {}, "source": ["## Summary\n", "\n", "- Done."]}
    question, exercise, drawn, last = slides.slides([asked, figure, summary], {"01_tree": "a tree"})
    assert "<p>Short?</p>" in question and "paragraph" not in question
    assert exercise.startswith("<h2>Exercise 1: count <small>5 minutes</small></h2>\n<p>Count.</p>")
    assert '<div class="fragment"><pre>printed</pre></div>' in question and "<img" not in question
    assert drawn.startswith("<img") and "<em>why</em>" in drawn.split("<aside")[1]
    assert "<li>Done.</li>" in last


def test_decks_open_without_a_network(decks):
    for deck in [*decks, decks[0].parent / "index.html"]:
        page = deck.read_text(encoding="utf-8")
        found = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert found and all((deck.parent / name).is_file() for name in found)
        assert all(re.search('alt="[^"]{60,}"', image) for image in re.findall("<img[^>]*>", page))
