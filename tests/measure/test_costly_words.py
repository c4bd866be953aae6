"""Words that cost most tokens, against a count by hand."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

import tokhelpers as th

BASE = th.train_byte_level_bpe(["the bat sat, the cat sat"] * 3, vocab_size=265)
texts = st.lists(st.text("abtse ,é", max_size=20), min_size=1)


@given(texts, st.integers(0, 9))
def test_costs_equal_those_counted_word_by_word(documents, n):
    words = Counter(w for text in documents for w in text.replace(",", " ").split())
    if not words:
        with pytest.raises(ValueError, match="corpus has no words"):
            th.measure.costly_words(BASE, documents, n)
        return
    other = th.extend(BASE, th.Extension(tokens=["Ġbe", "Ġte", "ab"]))
    rows = []
    for word, count in words.items():
        before, after = (len(t.encode(f" {word}").tokens) for t in (BASE, other))
        row = (word, count, before, before * count, (before - 1) * count)
        rows += [(*row, after, (before - after) * count)] * (before > 1)
    rows.sort(key=lambda row: (-row[4], -row[1], row[0]))
    table = th.measure.costly_words(BASE, documents, n, other)
    assert [*table.itertuples(index=False, name=None)] == rows[:n]
    alone = th.measure.costly_words(BASE, words, n)
    assert alone.equals(table[alone.columns])


def test_costs_under_any_family_and_what_is_refused(mistral):
    corpus = ["pneumonia pneumonia fever"]
    for tokenizer in (
        mistral,
        th.train_wordpiece(corpus, vocab_size=20),
        th.AdaptBPE(BASE, ["Ġx"]),
    ):
        table = th.measure.costly_words(tokenizer, corpus, 1)
        assert table.word.tolist() == ["pneumonia"] and table["count"].tolist() == [2]
    with pytest.raises(ValueError, match="n must be at least 0"):
        th.measure.costly_words(BASE, corpus, -1)
    with pytest.raises(TypeError, match="single string"):
        th.measure.costly_words(BASE, "text", 1)
