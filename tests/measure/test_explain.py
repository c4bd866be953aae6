"""Merge steps against the library's encoder; facts about tokens; bad input."""

from functools import cache

import pytest
from hypothesis import given, strategies as st
from strategies import examples, loaded

import tokhelpers as th

NAMES = ["llama-3", "qwen", "gpt-4", "mistral-nemo", "mistral-v1"]
TEXTS = [
    " kyllästyä", "dikkatli", "a  b\n\n c", "‏שלום עולם", "e\u0301\u0301 ก็", "日本語",
    "👩‍👩‍👧", "12345", "a" * 300
]  # fmt: skip


def final_tokens(table):
    last = table.groupby((table.step == 0).cumsum()).tail(1)
    return " ".join(last.tokens)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@examples(15)
@given(text=st.sampled_from(TEXTS) | st.text(min_size=1), skipping=st.booleans())
def test_the_last_states_are_the_librarys_tokens(name, text, skipping):
    changed, spec = switched(name, skipping)
    expected = changed.encode(text, add_special_tokens=False).tokens
    assert final_tokens(th.explain(spec, text)) == " ".join(expected)


@cache
def switched(name, skipping):
    changed = th.with_merge_skipping(loaded(name), skipping)
    return changed, th.TokenizerSpec.from_tokenizer(changed)


def test_steps_go_through_the_list_of_merges(llama):
    spec = th.TokenizerSpec.from_tokenizer(llama)
    table = th.explain(llama, " kyllästyä")
    merged = table[table.step > 0]
    pairs = [f"{a} + {b}" for a, b in (spec.pairs()[rank] for rank in merged["rank"])]
    assert merged.pair.tolist() == pairs
    assert table.tokens.str.count(" ").diff().dropna().eq(-1).all()
    special = th.explain(llama, "a<|eot_id|>b")
    assert special.pair.tolist() == ["merge skipping", "added token", "merge skipping"]
    long = th.explain(llama, "ab" * 50_000)
    assert long.pair.tolist() == ["more than 200 symbols"]
    assert final_tokens(long) == " ".join(llama.encode("ab" * 50_000).tokens)


@pytest.mark.long
def test_a_token_by_its_string_text_or_id(llama, mistral):
    for form in ("Ġcat", " cat", 8415):
        facts = th.explain(llama, token=form).facts
        assert (facts["id"], facts["bytes"], facts["script"]) == (8415, "20 63 61 74", "Latin")
    assert th.explain(mistral, token=" the").facts["token"] == "▁the"
    assert th.explain(mistral, token="<0xE4>").facts["category"] == "byte fallback"
    assert th.explain(llama, token="Ã").facts["category"] == "not valid UTF-8 alone"
    assert th.explain(llama, token="<|eot_id|>").tree.endswith("made by no merge")


def test_the_tree_of_a_token_that_merges_do_not_reach(llama):
    explained = th.explain(llama, token=" dikkat")
    assert (
        explained.facts["category"] == "only by merge skipping" and explained.facts["rank"] is None
    )
    lines = explained.tree.splitlines()
    roots = [line.split()[0] for line in lines[1:] if line[0] not in "├└│ "]
    assert roots == th.with_merge_skipping(llama, False).encode(" dikkat").tokens
    assert "only by merge skipping" in explained._repr_html_() and "Ġdikkat" in repr(explained)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: th.explain(t, ""), "text is empty: give one character or more"),
        (lambda t: th.explain(t, 3), "got int"),
        (lambda t: th.explain(t, "a\ud800"), "U\\+D800"),
        (lambda t: th.explain(t), "either a text or token="),
        (lambda t: th.explain(t, "the", token="the"), "either a text or token="),
        (
            lambda t: th.explain(t, token=" kyllästyä"),
            "' kyllästyä' is not .* nearest to it: 'Ġky'",
        ),
        (lambda t: th.explain(t, token="THe"), "nearest to it: '(the|The)'"),
        (lambda t: th.explain(t, token="a\ud800"), "U\\+D800"),
        (lambda t: th.explain(t, token=2.0), "got float"),
        (lambda t: th.explain(t, token=999_999), "no token has the ID 999,999: give one from 0 to"),
        (lambda t: th.reachability(t, [" the"]), "not in this tokenizer: ' the'"),
    ],
)
def test_impossible_texts_and_tokens_are_refused(llama, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(llama)
