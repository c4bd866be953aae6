"""Measures against the library's own encoder, and against the package they are named after."""

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stderr

import numpy as np
import pandas as pd
import pytest
import tokenization_scorer
from hypothesis import given, strategies as st
from strategies import LIKE_REAL, examples, loaded, one_fast
from tokenizers import Tokenizer, models, pre_tokenizers

import tokhelpers as th
from tokhelpers.measure.quality import renyi_efficiency
from tokhelpers.tokenizer.spec import TokenizerSpec


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3", "qwen", "mistral-nemo"))
def test_evaluate_equals_counting_with_the_library(name, finnish):
    tokenizer = loaded(name)
    texts = [*finnish[:300], "def f(x):\n    return x  # é 日本語\n\n", "", "👩‍👩‍👧  1234 ..."]
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    tokens = [encoding.tokens for encoding in encoded]
    total = sum(map(len, tokens))
    measured = th.evaluate(tokenizer, texts, added=tokens[0][:2])
    assert measured.tokens == total
    assert measured.bytes_per_token == sum(len(t.encode()) for t in texts) / total
    assert measured.chars_per_token == sum(map(len, texts)) / total
    assert measured.tokens_per_word == total / sum(len(t.split()) for t in texts)
    assert measured.unused_added == 0


@given(
    st.lists(st.integers(0, 50), min_size=3, max_size=30).filter(lambda c: sum(map(bool, c)) > 1)
)
def test_renyi_efficiency_equals_the_scorer(counts):
    text = [" ".join(f"t{i}" for i, n in enumerate(counts) for _ in range(n))]
    with redirect_stderr(io.StringIO()):
        expected = tokenization_scorer.score(text, metric="renyi", power=2.5)
    assert renyi_efficiency(np.array(counts)) == pytest.approx(expected, rel=1e-12)


def test_unreachable_equals_the_definition(llama):
    """Each ordinary token string through the library's own model, skipping off."""
    model = th.with_merge_skipping(llama, False).model
    vocab, special = (
        TokenizerSpec.from_tokenizer(llama).vocab,
        TokenizerSpec.from_tokenizer(llama).special,
    )
    ordinary = sorted((t for t in vocab if t not in special), key=vocab.get)
    missed = [token for token in ordinary if [t.value for t in model.tokenize(token)] != [token]]
    assert th.unreachable_tokens(llama) == missed and len(missed) == 588
    assert th.unreachable_tokens(llama, missed[:3] + ["the"]) == missed[:3]


def test_added_tokens_are_not_ordinary():
    """Text is cut at them; an extension writes those below its tokens into the vocabulary, too."""
    base = th.train_byte_level_bpe(["bat bat bag"], vocab_size=258)
    base.add_tokens(["gene"])
    longer = th.extend(base, th.continue_bpe(base, ["bat bag bat"], 1))
    assert "gene" in TokenizerSpec.from_tokenizer(longer).vocab and longer.encode(
        "gene"
    ).tokens == ["gene"]
    assert th.unreachable_tokens(longer) == [] and th.unreachable_tokens(longer, ["gene"]) == [
        "gene"
    ]


def test_unused_share_and_added_tokens(finnish):
    texts = finnish[:200]
    base = th.train_byte_level_bpe(texts, vocab_size=500)
    supplement = th.train_byte_level_bpe(finnish[:2_000], vocab_size=2_000)
    extension, start = th.naive_extension(base, supplement, 200), base.get_vocab_size()
    for how in ("regenerate", "add_tokens"):
        new = th.extend(base, extension, how=how)
        ids = [i for e in new.encode_batch(texts, add_special_tokens=False) for i in e.ids]
        measured = th.evaluate(new, texts, added=extension.tokens)
        assert measured.unused_added == len({*range(start, start + 200)} - {*ids}) / 200
        assert measured.tokens == len(ids) and measured.equals(
            th.evaluate(new, iter(texts), added=extension.tokens)  # can be read only once
        )
    with pytest.raises(ValueError, match="added tokens, which split raw text"):
        th.evaluate(new, th.count_pretokens(texts, base))
    with pytest.raises(ValueError, match="1 of the added tokens are not in .*, first 'ĠĠqq'"):
        th.evaluate(base, ["a"], added=["ĠĠqq"])


@pytest.mark.parametrize("how", ["append", "regenerate", "prepend"])
@pytest.mark.parametrize("byte_level", [True, False], ids=["bytes", "characters"])
def test_sizes_are_measured_as_each_extended_tokenizer_is(finnish, how, byte_level):
    """Also where the tokens to add are characters, of which the smaller sizes have some."""
    train = th.train_byte_level_bpe if byte_level else th.train_sentencepiece_bpe
    plain = [line.translate({ord(c): None for c in "äöåkv"}) for line in finnish[:40]]
    base = train(plain, vocab_size=330)
    words = th.count_pretokens(finnish[:200], base)
    naive = th.naive_extension(base, train(finnish[:200], vocab_size=500))
    mixed = naive.tokens[30:60] + naive.tokens[:30]  # characters behind tokens that hold them
    methods = {"own": (th.Extension(mixed), how), "naive": (naive, how)}
    table = th.evaluate_sizes(base, methods, [0, 10, 31, 60], words, skipping=(False, True))
    assert table.added.tolist() == sorted(table.added) and len(table) == 8 * len(methods)
    for row in table.itertuples():
        extension, added = methods[row.method][0], methods[row.method][0].tokens[: row.added]
        new = th.with_merge_skipping(
            th.extend(base, extension, row.added, how=how), row.merge_skipping
        )
        alone = th.evaluate(new, words, added=added)
        found = pd.Series(row._asdict())[alone.index].astype(float)
        pd.testing.assert_series_equal(found, alone, check_names=False, check_exact=True)
        assert row.unreachable_added == len(th.unreachable_tokens(new, added))


def test_a_parsed_wordpiece_tokenizer_is_measured_by_longest_match():
    text = ["the cats sat on the mats", "a cat"]
    tokenizer = th.train_wordpiece(text, vocab_size=18, min_frequency=1)
    spec = TokenizerSpec.from_tokenizer(tokenizer, wordpiece=True)
    expected = sum(len(e) for e in tokenizer.encode_batch(text, add_special_tokens=False))
    counts = th.count_pretokens(text, spec)
    assert th.evaluate(spec, text).tokens == th.count_tokens(spec, counts).sum() == expected
    assert expected < sum(len(document.replace(" ", "")) for document in text)


def test_added_tokens_of_wordpiece():
    old, new = (th.train_wordpiece(["bat bats cat"] * n, vocab_size=8 + n) for n in (1, 2))
    longer = th.extend(old, th.naive_extension(old, new))
    added = sorted(set(longer.get_vocab()) - set(old.get_vocab()))
    assert th.evaluate(longer, ["bat bats cat"], added=added).unused_added == 0
    assert th.evaluate(longer, ["t"], added=added).unused_added == 1
    with pytest.raises(ValueError, match="1 of the added tokens are not in .*, first 'zebra'"):
        th.evaluate(longer, ["bat"], added=[*added, "zebra"])


def dropping(**options):
    """A tokenizer of a, b and their bytes but one, which cuts at spaces."""
    vocab = {"a": 0, "b": 1, "ab": 2} | {f"<0x{i:02X}>": i + 3 for i in range(255)}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", "b")], **options))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


MEASURES = {
    "evaluate": lambda t, text: th.evaluate(t, text),
    "evaluate_sizes": lambda t, text: th.evaluate_sizes(
        t, {"list": (th.Extension(["ba"]), "append")}, [1], text
    ),
    "token_counts": lambda t, text: th.count_tokens(t, th.count_pretokens(text, t)),
    "fragment_score": lambda t, text: th.fragment_score(t, text),
    "an AdaptBPE encoder": lambda t, text: th.evaluate(th.AdaptBPE(t, ["ba"]), text),
    "pruning_order": lambda t, text: th.pruning_order(t, text, by="frequency"),
}


@pytest.mark.parametrize("measure", MEASURES)
def test_text_that_would_be_dropped_is_named(measure):
    """It would count as compressed. Bytes stand for a character where there are tokens for all."""
    for options in ({}, {"byte_fallback": True}):
        lost = "é" if not options else "\U00010000"
        tokenizer = dropping(**options)
        if options:
            settings = json.loads(tokenizer.to_str())
            del settings["model"]["vocab"]["<0xF0>"]
            tokenizer = Tokenizer.from_str(json.dumps(settings))
            MEASURES[measure](tokenizer, ["ab é"])
        with pytest.raises(ValueError, match=f"no token for 1 of .* {lost!r} in 'a{lost}' the fir"):
            MEASURES[measure](tokenizer, ["ab", f"b a{lost}"])
    MEASURES[measure](dropping(unk_token="a"), [f"b a{lost}"])


@pytest.mark.parametrize("name", ["llama-2", "phi-3", "truncating"])
def test_sizes_where_added_tokens_cut_the_text(name):
    """By documents; counts are refused in words that can be followed."""
    base, documents = LIKE_REAL[name](), ["low </s> lowest</s> <|note|> newest", "widest low"] * 9
    extension = th.continue_bpe(base, documents, 5)
    methods = {"continued": (extension, "append"), "added": (extension, "add_tokens")}
    table = th.evaluate_sizes(base, methods, [3, 5], documents)
    for row in table.itertuples():
        how = methods[row.method][1]
        alone = th.evaluate(th.extend(base, extension, row.added, how=how), documents)
        assert (row.tokens, row.partial_tokens) == (alone.tokens, alone.partial_tokens)
    with pytest.raises(ValueError, match="give documents, not counts"):
        th.evaluate_sizes(base, methods, [3], th.count_pretokens(documents, base))


def test_a_text_is_counted_where_counts_will_do():
    documents = iter(["low lower"])
    assert isinstance(th.measure.measurable(documents, LIKE_REAL["llama-2"]()), Mapping)
    assert th.measure.measurable(iter(["low lower"]), LIKE_REAL["phi-3"]()) == ["low lower"]


@pytest.mark.parametrize("name", ["gpt-4", "mistral-v1"])
@examples(25)
@given(text=st.text(st.sampled_from("aé日ก👍א\u0301ि "), min_size=1))
def test_cut_characters_are_those_whose_bytes_lie_in_several_tokens(name, text):
    tokenizer = loaded(name)
    spec = th.TokenizerSpec.from_tokenizer(tokenizer)
    measured = th.evaluate(spec, [text])
    raw = b"".join(pieces := spec.raw(tokenizer.encode(text).tokens))
    ends = set(np.cumsum([len(piece) for piece in pieces]).tolist())
    starts = np.cumsum([0, *(len(c.encode()) for c in raw.decode())]).tolist()
    cut = sum(any(a < e < b for e in ends) for a, b in zip(starts, starts[1:], strict=False))
    assert measured.split_characters == cut / len(text)
    partial = sum("\ufffd" in piece.decode(errors="replace") for piece in pieces)
    assert measured.partial_tokens == partial / len(pieces)
