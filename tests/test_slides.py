"""Decks of slides: every lesson has one, they need no network, and the answer is a second step."""

import re

import pytest
from test_project import NOTEBOOKS

from tools import slides
from tools.slides import write_decks


@pytest.fixture
def decks(tmp_path, monkeypatch):
    """The decks, with empty files in place of reveal.js, which only `make slides` installs."""
    for name in ("reset.css", "reveal.css", "reveal.js", "theme/white.css"):
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
        for left_out in ("Work:", "<details>", "notebook.check", "Exercise 1:"):
            assert left_out not in page
        assert "..." not in page.split("Summary")[0]  # the stub of an exercise


def test_decks_open_without_a_network(decks):
    for deck in [*decks, decks[0].parent / "index.html"]:
        page = deck.read_text(encoding="utf-8")
        found = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert found and all((deck.parent / name).is_file() for name in found)
        assert all(re.search('alt="[^"]{60,}"', image) for image in re.findall("<img[^>]*>", page))
