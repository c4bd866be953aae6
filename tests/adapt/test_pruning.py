"""Pruning orders against the textbook's, and what must hold of a pruned tokenizer."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st
from strategies import loaded, one_fast, tokenizers_with_gaps
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

import tokhelpers as th
from tokhelpers import textbook
from tokhelpers.adapt.pruning import ORDERS, prunable, splits
from tokhelpers.tokenizer.parts import read_parts

TEXT = ["the cat sat on the mat", "a bat, a hat; that cat!", "ääkkösiä öisin, yötä päivää"] * 3
LEAVES = ("leaf-frequency", "leaf-id")


@pytest.fixture(scope="module")
def base() -> Tokenizer:
    """A small tokenizer with special tokens at both ends, padding and a template."""
    tokenizer = th.train_byte_level_bpe(TEXT, vocab_size=298, special_tokens=["<s>", "</s>"])
    tokenizer.add_special_tokens([AddedToken("<pad>", special=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("catty", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A <pad>",
        special_tokens=[("<s>", 0), ("<pad>", tokenizer.token_to_id("<pad>"))],
    )
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("<pad>"), pad_token="<pad>", length=8)
    return tokenizer


def encoder_trace(parts, word):
    """Tokens of a word and the merges made, by the encoder's rule, written out."""
    ranks = {tuple(pair): rank for rank, pair in enumerate(parts.pairs())}
    tokens, made = list(word), []
    while pairs := [
        (ranks[p], i) for i, p in enumerate(zip(tokens, tokens[1:], strict=False)) if p in ranks
    ]:
        _, i = min(pairs)
        made.append((tokens[i], tokens[i + 1]))
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
    return tokens, made


words = st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 9), min_size=1)


@given(tokenizers_with_gaps(), words)
def test_orders_equal_the_textbook(tokenizer, counts):
    parts = read_parts(tokenizer)
    seen, merged, last, unreachable = Counter(), Counter(), [], []
    for word, n in counts.items():
        tokens, made = encoder_trace(parts, word)
        for token in tokens:
            seen[token] += n
        for pair in made:
            merged[pair] += n
    for token in parts.vocab:
        tokens, made = encoder_trace(parts, token)
        if tokens != [token]:
            unreachable.append(token)
        elif made:
            last.append(made[-1])
    left, right = splits(parts)
    name = parts.tokens
    found = {name[i]: (name[left[i]], name[right[i]]) for i in np.flatnonzero(left >= 0).tolist()}
    assert found == {"".join(pair): pair for pair in last}
    vocab, free = parts.vocab, set(parts.vocab) - set("abc")
    used = Counter(seen)  # Purason et al. 2025, Algorithm 2: as a token, and as a part of merges
    for pair, n in merged.items():
        used.update({part: n * pair.count(part) for part in pair})
    expected = {
        "leaf-frequency": textbook.prune_leaves(vocab, last, seen, unreachable=unreachable),
        "frequency": sorted(free, key=lambda token: (seen[token], -vocab[token])),
        "id": sorted(free, key=lambda token: -vocab[token]),
        "merges": sorted(free, key=lambda token: (used[token], -len(token), -vocab[token])),
    }
    for by, order in expected.items():
        assert th.pruning_order(tokenizer, counts, by=by) == order, by


@given(tokenizers_with_gaps())
def test_leaf_id_takes_the_largest_id_among_the_leaves(tokenizer):
    parts = read_parts(tokenizer)
    left, right = splits(parts)
    order = [parts.vocab[token] for token in th.pruning_order(tokenizer, by="leaf-id")]
    alive = {parts.vocab[token] for token in prunable(parts)}
    for i in order:
        used = {int(x[j]) for x in (left, right) for j in alive if left[j] >= 0}
        assert i == max(alive - used)
        alive.remove(i)
    assert not alive


@pytest.mark.parametrize("by", ORDERS)
def test_what_is_pruned_and_what_stays(base, by):
    """The first tokens of the order go; others keep theirs; twice is once by the sum."""
    order = th.pruning_order(base, TEXT, by=by)
    for n in (0, 7, len(order)):
        small = th.prune(base, order, n)
        old, new = base.get_vocab(), small.get_vocab()
        assert sorted(new.values()) == list(range(len(old) - n))
        assert set(old) - set(new) == set(order[:n])
        ids = th.id_map(base, small)
        assert list(ids.values()) == sorted(ids.values()) == list(range(len(new)))
        assert all(small.id_to_token(j) == base.id_to_token(i) for i, j in ids.items())
        encoded = small.encode("<s> yötä, catty cat")
        assert encoded.ids[0] == new["<s>"] and encoded.ids[-1] == new["<pad>"]
    once = th.prune(base, order, 15)
    assert th.prune(th.prune(base, order, 6), order, 9).to_str() == once.to_str()
    assert th.prune(th.prune(base, order, 6), order[6:], 9).to_str() == once.to_str()


@given(tokenizers_with_gaps(), words, st.sampled_from(LEAVES), st.data())
def test_leaf_orders_make_nothing_unreachable(tokenizer, counts, by, data):
    order = th.pruning_order(tokenizer, counts, by=by)
    n = data.draw(st.integers(0, len(order)))
    assert set(th.unreachable(th.prune(tokenizer, order, n))) <= set(th.unreachable(tokenizer))


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3", "qwen"))
def test_real_tokenizers(name, finnish):
    tokenizer = loaded(name)
    counts = th.count_pretokens(finnish, tokenizer)
    start, parts = set(th.unreachable(tokenizer)), read_parts(tokenizer)
    left, _ = splits(parts)
    reached = {parts.tokens[i] for i in np.flatnonzero(left >= 0).tolist()}
    assert set(prunable(parts)) - reached == start
    for by in ORDERS:
        order = th.pruning_order(parts, counts, by=by)
        assert sorted(order) == sorted(prunable(parts))
        assert order == th.pruning_order(parts, counts, by=by)
        small = th.prune(tokenizer, order, len(order) // 2)
        lost = set(th.unreachable(small)) - start
        assert not lost if by in LEAVES else True
        for text in finnish[:20]:
            assert small.decode(small.encode(text).ids) == text.removeprefix(" ")
        special = [t["content"] for t in parts.settings["added_tokens"]]
        assert all(small.token_to_id(token) is not None for token in special)


def test_wordpiece_loses_tokens_only():
    tokenizer = th.train_wordpiece(TEXT, vocab_size=60)
    token = next(t for t in tokenizer.get_vocab() if len(t) > 3 and t != "[UNK]")
    small = th.prune(tokenizer, [token], 1)
    assert set(tokenizer.get_vocab()) - set(small.get_vocab()) == {token}
    with pytest.raises(ValueError, match="model is WordPiece"):
        th.pruning_order(tokenizer, TEXT, by="id")


def test_roberta_style_ends_follow_their_ids():
    tokenizer = th.train_byte_level_bpe(TEXT, vocab_size=280)
    tokenizer.add_special_tokens(["<s>", "</s>"])
    ends = {name: (name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")}
    options = {"trim_offsets": False, "add_prefix_space": False}
    rule = processors.RobertaProcessing(ends["</s>"], ends["<s>"], **options)
    tokenizer.post_processor = processors.Sequence([rule, processors.ByteLevel()])
    small = th.prune(tokenizer, th.pruning_order(tokenizer, by="id"), 10)
    tokens = small.encode("cat").tokens
    assert (tokens[0], tokens[-1]) == ("<s>", "</s>")
    assert small.encode("cat").ids[-1] == small.token_to_id("</s>")
    [made, _] = json.loads(small.to_str())["post_processor"]["processors"]
    assert made["type"] == "RobertaProcessing" and options.items() <= made.items()


def test_characters_bytes_and_unknown_tokens_never_go():
    vocab = {"a": 0, "##b": 1, "ab": 2, "##bb": 3, "<0x41>": 4, "[U]": 5, "<x>": 6, "##": 7}
    options = {"continuing_subword_prefix": "##", "unk_token": "[U]"}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", "##b")], **options))
    tokenizer.add_special_tokens(["<x>"])
    assert prunable(read_parts(tokenizer)) == ["ab", "##bb"]


def test_of_equals_the_longest_in_bytes_goes_first():
    vocab = {"a": 0, "b": 1, "é": 2, "ab": 3, "abb": 4, "éé": 5, "bb": 6}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", "b"), ("ab", "b"), ("é", "é"), ("b", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert th.pruning_order(tokenizer, ["a"], by="merges") == ["éé", "abb", "bb", "ab"]
    stored = th.train_byte_level_bpe(["abc", "é"], vocab_size=259)
    assert th.pruning_order(stored, ["x"], by="merges") == ["abc", "Ã©", "ab"]


@pytest.mark.parametrize(
    ("order", "n", "message"),
    [
        (["at"], 999, "asked to prune 999 tokens; the order has 1 .* 40 can go"),
        (["at"], -1, "n=-1: give the number"),
        (["at"], 1.5, "n=1.5: give the number"),
        (["at", "▁phenotype", "a"], 3, "'▁phenotype' is not in this tokenizer: the order"),
        (["▁phenotype"], 1, "asked to prune 1 tokens; the order has 0"),
        (["a"], 1, "'a' must stay"),
        (["<s>"], 1, "'<s>' must stay"),
        (["at", "at"], 1, "the order holds 'at' more than once"),
        ("at", 1, "order is one string"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(base, order, n, message):
    with pytest.raises((ValueError, TypeError), match=message):
        th.prune(base, order, n)


@pytest.mark.parametrize("by", ["leaf-frequency", "frequency", "merges"])
def test_counts_need_a_text_of_the_same_rules(base, mistral, by):
    with pytest.raises(ValueError, match="counts tokens in a text: give a corpus"):
        th.pruning_order(base, by=by)
    with pytest.raises(ValueError, match="no text in its 0 documents"):
        th.pruning_order(base, [], by=by)
    with pytest.raises(ValueError, match="made by another normalizer or pre-tokenizer"):
        th.pruning_order(base, th.count_pretokens(TEXT, mistral), by=by)
