"""The explorer: marks where rows cut a text differently, ranks on hover, the static form."""

import re

import pytest
from strategies import loaded, one_fast

import tokhelpers as th

NAMES = ["llama-3", "gpt-4", "mistral-v1"]


@pytest.fixture(scope="module")
def three():
    return {name.replace("-", "_"): loaded(name) for name in NAMES}


def marked(shown):
    """For each row of the plain form, its tokens, and which of them are marked."""
    rows = [re.split("  +", line)[2].split(" ") for line in repr(shown).splitlines()[1:4]]
    bare = [[t.strip("⟦⟧‹›") for t in row] for row in rows]
    return [
        [b for b, t in zip(names, row, strict=True) if "‹" in t]
        for names, row in zip(bare, rows, strict=True)
    ]


def test_tokens_that_no_other_row_has_are_marked(three):
    assert marked(th.notebook.explorer(**three, text="the cat")) == [[], [], []]
    found = marked(th.notebook.explorer(**three, text="a dikkat"))
    assert found == [["␣dikkat"], ["␣d", "ikk", "at"], ["␣d", "ik", "kat"]]


def test_hover_tells_id_and_rank(three, llama):
    html = th.notebook.explorer(**three, text=" the")._repr_html_()
    rank = th.explain_token(llama, " the").facts["rank"]
    assert f'title="id 279, bytes 20 74 68 65, rank {rank}"' in html


@pytest.mark.parametrize("text", one_fast("שלום e\u0301", "", "x" * 5_000, "a\ud800", "<|eot_id|>"))
def test_any_text_is_shown(three, text):
    shown = th.notebook.explorer(**three, text=text)
    assert all(label in repr(shown) and label in shown._repr_html_() for label in three)


def test_it_needs_a_tokenizer():
    with pytest.raises(ValueError, match="give one or more"):
        th.notebook.explorer()
    with pytest.raises(TypeError, match="a tokenizer is needed"):
        th.notebook.explorer("llama-3")
