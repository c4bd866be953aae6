"""Pruning orders against the textbook's, and what must hold of a pruned tokenizer."""

import json
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from spm import processor_of
from strategies import loaded, tokenizers_with_gaps
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

import tokhelpers as th
from tokhelpers import textbook
from tokhelpers.adapt.pruning import ORDERS, prunable, splits
from tokhelpers.tokenizer.spec import TokenizerSpec

TEXT = ["the cat sat on the mat", "a bat, a hat; that cat!", "ääkkösiä öisin, yötä päivää"] * 3
LEAVES = ("leaf-frequency", "leaf-id")


@pytest.fixture(scope="module")
def base() -> Tokenizer:
    """A small tokenizer with special tokens at both ends, padding, and RoBERTa's post-processor."""
    tokenizer = th.train_byte_level_bpe(TEXT, vocab_size=298, special_tokens=["<s>", "</s>"])
    tokenizer.add_special_tokens([AddedToken("<pad>", special=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("catty", normalized=False)])
    ends = [(name, tokenizer.token_to_id(name)) for name in ("<pad>", "<s>")]
    rule = processors.RobertaProcessing(*ends, trim_offsets=False, add_prefix_space=False)
    tokenizer.post_processor = processors.Sequence([rule, processors.ByteLevel()])
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("<pad>"), pad_token="<pad>", length=8)
    return tokenizer


def encoder_trace(spec, word):
    """Tokens of a word and the merges made, by the encoder's rule, written out."""
    ranks = {tuple(pair): rank for rank, pair in enumerate(spec.pairs())}
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
@example(  # a token of which both parts are the same
    Tokenizer(models.BPE({"a": 0, "b": 1, "c": 2, "aa": 3, "aaaa": 4}, [("a", "a"), ("aa", "aa")])),
    {"aaaa": 1},
)
def test_orders_equal_the_textbook(tokenizer, counts):
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    seen, merged, last, unreachable = Counter(), Counter(), [], []
    for word, n in counts.items():
        tokens, made = encoder_trace(spec, word)
        for token in tokens:
            seen[token] += n
        for pair in made:
            merged[pair] += n
    for token in spec.vocab:
        tokens, made = encoder_trace(spec, token)
        if tokens != [token]:
            unreachable.append(token)
        elif made:
            last.append(made[-1])
    left, right = splits(spec)
    name = spec.tokens
    found = {name[i]: (name[left[i]], name[right[i]]) for i in np.flatnonzero(left >= 0).tolist()}
    assert found == {"".join(pair): pair for pair in last}
    vocab, free = spec.vocab, set(spec.vocab) - set("abc")
    used = Counter(seen)  # Purason et al. 2025, Algorithm 2: as a token, and as a part of merges
    for pair, n in merged.items():
        used.update({part: n * pair.count(part) for part in pair})
    expected = {
        "leaf-frequency": textbook.prune_leaves(vocab, last, seen, unreachable=unreachable),
        "leaf-id": textbook.prune_leaves(vocab, last, {}, unreachable=unreachable),
        "frequency": sorted(free, key=lambda token: (seen[token], -vocab[token])),
        "id": sorted(free, key=lambda token: -vocab[token]),
        "merges": sorted(free, key=lambda token: (used[token], -len(token), -vocab[token])),
    }
    for by, order in expected.items():
        assert th.pruning_order(tokenizer, counts, by=by) == order, by


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
        assert list(ids.values()) == list(range(len(new)))
        assert all(small.id_to_token(j) == base.id_to_token(i) for i, j in ids.items())
        encoded = small.encode("long enough for no padding, catty").ids
        assert encoded[0] == new["<s>"] and encoded[-2:] == [new["catty"], new["<pad>"]]
        assert small.encode("").ids == [new["<s>"], *7 * [new["<pad>"]]]
        rules = (
            json.loads(made.to_str())["post_processor"]["processors"] for made in (base, small)
        )
        (was, _), (rule, _) = rules
        assert rule | {"cls": 0, "sep": 0} == was | {"cls": 0, "sep": 0}
    once = th.prune(base, order, 15).to_str()
    for rest in (order, order[6:]):
        assert th.prune(th.prune(base, order, 6), rest, 9).to_str() == once


@given(tokenizers_with_gaps(), words, st.sampled_from(LEAVES), st.data())
def test_leaf_orders_make_nothing_unreachable(tokenizer, counts, by, data):
    order = th.pruning_order(tokenizer, counts, by=by)
    n = data.draw(st.integers(0, len(order)))
    assert set(th.unreachable_tokens(th.prune(tokenizer, order, n))) <= set(
        th.unreachable_tokens(tokenizer)
    )


def test_characters_bytes_and_unknown_tokens_never_go():
    vocab = {"a": 0, "##b": 1, "ab": 2, "##bb": 3, "<0x41>": 4, "[U]": 5, "<x>": 6, "##": 7}
    options = {"continuing_subword_prefix": "##", "unk_token": "[U]"}
    tokenizer = Tokenizer(models.WordPiece(vocab, **options))
    tokenizer.add_special_tokens(["<x>"])
    assert prunable(TokenizerSpec.from_tokenizer(tokenizer, wordpiece=True)) == ["ab", "##bb"]


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
        (["at"], 999, "asked to prune 999 tokens; the order has 1 .* 40 can be pruned"),
        (["at"], -1, "n_tokens=-1: give the number"),
        (["at"], 1.5, "n_tokens=1.5: give the number"),
        (["at", "▁phenotype", "a"], 3, "'▁phenotype' is not in this tokenizer: the order"),
        (["▁phenotype"], 1, "asked to prune 1 tokens; the order has 0"),
        (["a"], 1, "'a' must stay"),
        (["<s>"], 1, "'<s>' must stay"),
        (["at", "at"], 2, "asked to prune 2 tokens; the order has 1"),
        ("at", 1, "order is one string"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(base, order, n, message):
    with pytest.raises((ValueError, TypeError), match=message):
        th.prune(base, order, n)


def test_an_order_by_counts_needs_a_text(base):
    with pytest.raises(ValueError, match="counts tokens in a text: give a corpus"):
        th.pruning_order(base, by="merges")


# --- pruning that keeps IDs -----------------------------------------------------------------------
def with_dependents(spec, tokens) -> list[str]:
    """Tokens and all that are merged from them, by the splits that segmentation uses."""
    left, right = splits(spec)
    closed = {spec.vocab[token] for token in tokens}
    while more := {i for i in range(len(left)) if i not in closed and {left[i], right[i]} & closed}:
        closed |= more
    return sorted((spec.tokens[i] for i in closed), key=spec.vocab.get)


@given(tokenizers_with_gaps(), st.booleans(), st.lists(st.text("abc", max_size=9)), st.data())
def test_what_keeps_ids_equals_the_textbook(tokenizer, skipping, texts, data):
    """The merges without a pruned part or result, applied as the textbook does, give the same IDs."""
    tokenizer.model.ignore_merges = skipping
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    some = data.draw(st.lists(st.sampled_from(prunable(spec) or ["a"]), unique=True))
    pruned = with_dependents(spec, set(some) - {"a"})
    small = th.prune(tokenizer, pruned, len(pruned), keep_ids=True)
    merges = [m for m in spec.pairs() if not {*m, "".join(m)} & set(pruned)]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    for text in texts:
        whole = skipping and text in spec.vocab and text not in pruned
        tokens = [text] if whole else textbook.encode(list(text), ranks)
        assert small.encode(text).ids == [spec.vocab[token] for token in tokens]
    kept = {token: i for token, i in spec.vocab.items() if token not in pruned}
    assert kept.items() <= small.get_vocab().items()
    assert len(small.get_vocab()) == len(spec.vocab)
    assert Tokenizer.from_str(small.to_str()).to_str() == small.to_str()


def random_texts(n: int, pruned: list[str], decode) -> list[str]:
    """Texts of pruned tokens, of placeholders, and of any characters."""
    draw = random.Random(n)
    texts = []
    for _ in range(n):
        parts = [decode(token) for token in draw.choices(pruned, k=3)]
        parts += ["".join(chr(draw.randrange(1, 0xD800)) for _ in range(draw.randrange(8)))]
        parts += [f"<pruned {draw.randrange(300)}>", draw.choice(["the cat", "тест", "\n\n", "12"])]
        texts.append(draw.choice(["", " "]).join(draw.sample(parts, draw.randrange(1, 6))))
    return texts


def never_produces(old: Tokenizer, order: list[str], n: int, n_texts: int) -> Tokenizer:
    """Prune with IDs kept; no text produces a pruned ID, and texts decode to themselves as before."""
    small = th.prune(old, order, n, keep_ids=True)
    spec = TokenizerSpec.from_tokenizer(old, wordpiece=True)
    ids = {spec.vocab[token] for token in order[:n]}
    texts = random_texts(n_texts, order[:n], lambda token: spec.text_of(token) or "?")
    for tokenizer in (small, Tokenizer.from_str(small.to_str())):
        encoded = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
        assert ids.isdisjoint(i for of_text in encoded for i in of_text)
    before = [e.ids for e in old.encode_batch(texts, add_special_tokens=False)]
    for text, was, now in zip(
        texts, old.decode_batch(before), small.decode_batch(encoded), strict=True
    ):
        assert was != text or now == text
        assert spec.wordpiece or now == was
    assert {
        t: i for t, i in old.get_vocab().items() if i not in ids
    }.items() <= small.get_vocab().items()
    return small


@pytest.mark.parametrize("train", ["byte_level_bpe", "sentencepiece_bpe", "wordpiece"])
@pytest.mark.parametrize("skipping", [False, True])
def test_no_text_produces_an_id_that_was_pruned(train, skipping):
    options = {"special_tokens": ["<unk>"]} if train != "wordpiece" else {}
    old = getattr(th, f"train_{train}")(TEXT, vocab_size=None, **options)
    if train == "wordpiece":
        order = prunable(TokenizerSpec.from_tokenizer(old, wordpiece=True))[::-1]
    else:
        old = th.with_merge_skipping(old, skipping)
        order = th.pruning_order(old, by="leaf-id")
    small = never_produces(old, order, len(order) // 2, 300)
    if train != "wordpiece":
        categories = th.reachability(small).category
        pruned = [old.token_to_id(token) for token in order[: len(order) // 2]]
        assert set(categories[pruned]) == {"never: always split"}


@pytest.mark.long
@pytest.mark.parametrize("name", ["llama-3", "mistral-v1", "qwen"])
def test_no_text_of_ten_thousand_produces_an_id_that_was_pruned(name):
    old = loaded(name)
    order = th.pruning_order(old, by="leaf-id")
    small = never_produces(old, order, 20_000, 10_000)
    table, before = th.reachability(small), th.reachability(old)
    ids = [old.token_to_id(token) for token in order[:20_000]]
    assert set(table.category[ids]) == {"never: always split"}
    assert table.category.drop(ids).equals(before.category.drop(ids))


def test_a_part_of_tokens_that_stay_is_refused_where_ids_are_kept():
    base = th.train_byte_level_bpe(["bat bat bag tag"], vocab_size=260)
    with pytest.raises(ValueError, match="'tag' is merged from 'ag', which would be pruned: prune"):
        th.prune(base, ["ag"], 1, keep_ids=True)
    small = th.prune(base, ["ag", "tag"], 2, keep_ids=True)
    assert small.encode("tag").tokens == ["t", "a", "g"]
    again = th.prune(small, ["ag", "tag", "Ġba"], 1, keep_ids=True)
    assert again.to_str() == th.prune(base, ["ag", "tag", "Ġba"], 3, keep_ids=True).to_str()
    assert (
        th.prune(small, [small.id_to_token(259), small.id_to_token(258)], 2).get_vocab_size() == 258
    )


def test_a_placeholder_is_no_token_that_exists_and_no_text():
    vocab = {"a": 0, "b": 1, "ab": 2, "<pruned 2>": 3}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", "b")]))
    small = th.prune(tokenizer, ["ab"], 1, keep_ids=True)
    assert small.id_to_token(2) == "<<pruned 2>>"
    tokenizer.model.ignore_merges = True
    with pytest.raises(ValueError, match="could spell the placeholder"):
        th.prune(tokenizer, ["ab"], 1, keep_ids=True)


def test_sentencepiece_keeps_the_ids_as_well(tmp_path, mistral):
    order = th.pruning_order(mistral, by="leaf-id")
    small = th.prune(mistral, order, 3_000, keep_ids=True)
    model = th.tokenizer.source_file("mistral-v1")
    th.save_sentencepiece(small, tmp_path / "small.model", model=model)
    processor = processor_of((tmp_path / "small.model").read_bytes())
    texts = [text for text in random_texts(300, order[:3_000], str) if text.isprintable()]
    for text in texts:
        assert processor.encode(text) == small.encode(text, add_special_tokens=False).ids
