"""The trainers: against the textbook, against the libraries, and with bad input."""

import io
import os
import subprocess
import sys
import warnings
from itertools import pairwise

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import tokhelpers as th
from tokhelpers import textbook
from tokhelpers.surgery import read

TRAINERS = {
    "wordpiece": th.train_wordpiece,
    "sentencepiece_bpe": th.train_sentencepiece_bpe,
    "byte_level_bpe": th.train_byte_level_bpe,
    "unigram": th.train_unigram,
}
each_trainer = pytest.mark.parametrize("name", TRAINERS)


def in_order(tokenizer) -> list[str]:
    vocab = tokenizer.get_vocab()
    return sorted(vocab, key=vocab.get)


def quietly(train, *args, **options):
    """Train without the warning that the text yields fewer tokens."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(*args, **options)


# --- fast equals textbook -------------------------------------------------------------------------
alphabets = st.sampled_from(["ab", "abc", "abcdef", "aé漢b"])
words = alphabets.flatmap(lambda letters: st.text(letters, min_size=0, max_size=9))
corpora = st.dictionaries(words, st.integers(1, 9), min_size=1, max_size=14).filter(any)
settings = {"growth": st.integers(0, 30), "min_frequency": st.integers(0, 4)}


def documents(corpus: dict[str, int]) -> list[str]:
    """The words as running text, a document a word, empty documents among them."""
    return [word for word, n in corpus.items() for _ in range(n)]


def both(train, oracle, corpus, size, min_frequency, **options):
    """The result of trainer and textbook, or that both refuse."""
    try:
        expected = oracle(size, min_frequency)
    except ValueError as error:
        assert "min_frequency" in str(error)
        with pytest.raises(ValueError, match="larger than every count"):
            quietly(
                train,
                documents(corpus),
                vocab_size=size,
                min_frequency=min_frequency,
                **options,
            )
        return None, None
    ours = quietly(
        train, documents(corpus), vocab_size=size, min_frequency=min_frequency, **options
    )
    return ours, expected


@given(corpus=corpora, **settings)
def test_wordpiece_equals_the_textbook(corpus, growth, min_frequency):
    whole = {word: n for word, n in corpus.items() if word}
    size = 1 + len({c if i == 0 else "##" + c for w in whole for i, c in enumerate(w)}) + growth
    splitting = {"normalizer": normalizers.Sequence([]), "pre_tokenizer": pre_tokenizers.Whitespace()}

    def oracle(size, least):
        special = ["[UNK]"]
        return textbook.train_wordpiece(whole, size, min_frequency=least, special_tokens=special)

    ours, V = both(th.train_wordpiece, oracle, corpus, size, min_frequency, **splitting)
    if V is None:
        return
    assert in_order(ours) == list(V)
    for word in [*whole, "abx", "x", "cba"]:
        assert ours.encode(word).ids == textbook.tokenize_wordpiece(word, V), word


@given(corpus=corpora, **settings)
def test_sentencepiece_bpe_equals_the_textbook(corpus, growth, min_frequency):
    spaced = {"▁" + word: n for word, n in corpus.items() if word}
    size = 256 + len(set("".join(spaced))) + growth

    def oracle(size, least):
        return textbook.train_sentencepiece_bpe(spaced, size, min_frequency=least)

    ours, expected = both(th.train_sentencepiece_bpe, oracle, corpus, size, min_frequency)
    if expected is None:
        return
    V, M = expected
    assert in_order(ours) == list(V)
    assert read(ours).pairs() == M
    for word in [*spaced, "▁abx", "▁x", "▁cba"]:
        assert ours.encode(word[1:]).ids == textbook.tokenize_sentencepiece_bpe(word, V, M)


@given(corpus=corpora, **settings)
def test_byte_level_bpe_equals_the_textbook(corpus, growth, min_frequency):
    whole = {word: n for word, n in corpus.items() if word}

    def oracle(size, least):
        return textbook.train_byte_level_bpe(whole, size, min_frequency=least)

    ours, expected = both(th.train_byte_level_bpe, oracle, corpus, 256 + growth, min_frequency)
    if expected is None:
        return
    V, M = expected
    assert in_order(ours) == list(V)
    assert read(ours).pairs() == M
    for word in [*whole, "abx", "x", "cba"]:
        assert ours.encode(word).ids == textbook.tokenize_byte_level_bpe(word, V, M)


@given(st.lists(words, min_size=1, max_size=30).filter(any))
def test_a_form_has_one_pair_at_a_time(corpus):
    """Why counting pairs is enough for SentencePiece BPE, when it starts from characters."""
    trace = []
    textbook.train_sentencepiece_bpe([w for w in corpus if w], 10**4, byte_tokens=(), trace=trace)
    for step in trace:
        pairs = {pair for chunk, _ in step["corpus"] for pair in pairwise(chunk)}
        assert len({a + b for a, b in pairs}) == len(pairs)
        assert len(step["merges"]) == 1
