"""Extending: which tokens, by which method, and what must not change."""

import json
import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from strategies import loaded, one_fast, tokenizers_with_gaps
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

import tokhelpers as th
from tokhelpers import textbook
from tokhelpers.adapt.methods import METHODS
from tokhelpers.measure.reachability import reachability
from tokhelpers.tokenizer.parts import Parts, build_tokenizer, merge_ids, read_parts
from tokhelpers.tokenizer.pretokenization import always_split

TEXT = ["the cat sat on the mat", "a bat, a hat; that cat!", "ääkkösiä öisin, yötä päivää"]
MORE = ["catamaran catalogue catnip category", "yöttömän yön yötä", "batman batmobile bathtub"]


@pytest.fixture(scope="module")
def base() -> Tokenizer:
    """A small tokenizer with everything that can go wrong: specials, holes to remap, padding."""
    tokenizer = th.train_byte_level_bpe(TEXT, vocab_size=280, special_tokens=["<s>", "</s>"])
    tokenizer.add_special_tokens([AddedToken("<pad>", special=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("<pad>"), pad_token="<pad>")
    tokenizer.enable_truncation(64)
    return tokenizer


@pytest.fixture(scope="module")
def continued(base):
    return th.continue_bpe(base, MORE, 20)


@pytest.fixture(scope="module")
def naive(base):
    return th.naive_extension(base, th.train_byte_level_bpe(MORE, vocab_size=300))


@pytest.mark.parametrize("how", METHODS)
@pytest.mark.parametrize("which", ["continued", "naive", "plain"])
def test_extension_leaves_the_old_alone(base, how, which, request):
    """Old ids, special tokens, padding, truncation, post-processor, decoder, and the input object."""
    extension = (
        th.Extension(tokens=["yötä".encode().decode("latin-1"), "catam"])
        if which == "plain"
        else request.getfixturevalue(which)
    )
    before = base.to_str()
    new = th.extend(base, extension, how=how)
    assert base.to_str() == before
    old_ids, new_ids = base.get_vocab(), new.get_vocab()
    assert {token: new_ids[token] for token in old_ids} == old_ids
    if how != "scaffold":  # which adds what comes about on the way, too
        assert len(new_ids) == len(old_ids) + len(extension.tokens)
    assert sorted(new_ids.values()) == list(range(len(new_ids)))
    old, made = json.loads(before), json.loads(new.to_str())
    for part in ("truncation", "padding", "post_processor", "decoder", "normalizer"):
        assert old[part] == made[part]
    assert new.encode("cat").ids[0] == 0 and new.encode("cat").ids[-1] == 1
    assert new.encode_batch(["<pad>", "cat sat"])[0].ids[1] == base.token_to_id("<pad>")
    again = Tokenizer.from_str(new.to_str())
    assert again.to_str() == new.to_str()
    for text in TEXT + MORE:
        ids = new.encode(text).ids
        assert again.encode(text).ids == ids
        if how != "add_tokens":  # the byte-level decoder takes an added token's ä for a byte
            assert new.decode(ids) == text == again.decode(ids)


def test_old_merges_keep_their_order(base, continued):
    old = read_parts(base).pairs()
    assert read_parts(th.extend(base, continued)).pairs()[: len(old)] == old


def test_the_first_k_tokens_are_the_same_whatever_comes_after(base, continued):
    for k in (0, 1, 7, 20):
        short = th.continue_bpe(base, MORE, k)
        assert list(continued.tokens[:k]) == short.tokens
        assert th.extend(base, continued, k).to_str() == th.extend(base, short).to_str()


def test_no_continued_token_is_unreachable(base, continued):
    assert not set(th.unreachable(th.extend(base, continued))) & set(continued.tokens)


def test_a_merge_into_a_known_token_makes_it_reachable_and_is_not_counted():
    """``abc`` stands in the vocabulary without a merge; learning finds the first way to it."""
    vocab = {"a": 0, "b": 1, "c": 2, "d": 3, "abc": 4, "ab": 5}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert th.unreachable(tokenizer) == ["abc"]
    extension = th.continue_bpe(tokenizer, ["abc abc abcd"], 1)
    assert extension.merges == [("ab", "c"), ("abc", "d")] and extension.tokens == ["abcd"]
    assert extension.frequencies == [3, 1]
    new = th.extend(tokenizer, extension)
    assert th.unreachable(new) == [] and new.encode("abc").ids == [4]
    none = th.extend(tokenizer, extension, 0)
    assert th.unreachable(none) == ["abc"]


def test_merges_into_known_tokens_behind_the_last_new_one_come_along():
    """Where the text is exhausted: `abc` is known, and no merge leads there but the last."""
    base = Tokenizer(models.BPE({"a": 0, "b": 1, "c": 2, "abc": 3}, []))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    with pytest.warns(UserWarning, match="yields 1"):
        learned = th.continue_bpe(base, ["abc"], 10)
    assert learned.merges == [("a", "b"), ("ab", "c")] and learned.tokens == ["ab"]
    assert th.unreachable(base) == ["abc"] and th.unreachable(th.extend(base, learned)) == []


def test_append_takes_the_supplements_merges_once(base, naive):
    merges = read_parts(th.extend(base, naive, how="append")).pairs()
    assert len(set(merges)) == len(merges)
    old, vocab = read_parts(base).pairs(), set(base.get_vocab()) | set(naive.tokens)
    usable = [m for m in naive.merges if {*m, "".join(m)} <= vocab and m not in old]
    assert merges == old + usable and len(usable) < len(naive.merges)


def test_prepend_moves_what_both_have_to_the_front(base, naive):
    merges = read_parts(th.extend(base, naive, how="prepend")).pairs()
    assert len(set(merges)) == len(merges)
    first = [
        m for m in naive.merges if {*m, "".join(m)} <= set(base.get_vocab()) | set(naive.tokens)
    ]
    assert merges[: len(first)] == first
    assert merges[len(first) :] == [m for m in read_parts(base).pairs() if m not in first]


def test_regenerate_makes_every_split_in_order_of_the_tokens(base, naive):
    """Priority first, then the longer left part; written here a second time, from the definition."""
    vocab = set(read_parts(base).vocab) | set(naive.tokens)
    expected = [
        (token[:i], token[i:])
        for token in naive.tokens
        for i in range(len(token) - 1, 0, -1)
        if token[:i] in vocab and token[i:] in vocab
    ]
    assert (
        read_parts(th.extend(base, naive, how="regenerate")).pairs()
        == read_parts(base).pairs() + expected
    )
    bare = th.Extension(tokens=naive.tokens)
    assert (
        th.extend(base, bare, how="append").to_str()
        == th.extend(base, naive, how="regenerate").to_str()
    )


def test_naive_tokens_come_in_the_supplements_order(base, naive):
    supplement = th.train_byte_level_bpe(MORE, vocab_size=300)
    by_id = sorted(supplement.get_vocab(), key=supplement.get_vocab().get)
    assert naive.tokens == [token for token in by_id if token not in base.get_vocab()]
    assert th.naive_extension(base, supplement, 3).tokens == naive.tokens[:3]


def test_merges_with_spaces_survive():
    vocab = {"a": 0, " ": 1, "b": 2, "a ": 3, "a b": 4}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", " "), ("a ", "b")]))
    new = th.extend(tokenizer, th.Extension(tokens=["ba "]))
    assert read_parts(new).pairs() == [("a", " "), ("a ", "b"), ("b", "a ")]
    assert new.encode("a b").tokens == ["a b"] and new.encode("ba ").tokens == ["ba "]


@pytest.mark.parametrize("name", one_fast("llama-3", "qwen", "mistral-nemo"))
def test_continued_finnish_on_real_tokenizers(name, finnish):
    tokenizer = loaded(name)
    counts = th.count_pretokens(finnish, tokenizer)
    extension = th.continue_bpe(tokenizer, counts, 1_000)
    assert len(extension.tokens) == 1_000
    assert all(a >= b for a, b in pairwise(extension.frequencies)), "counts only fall"
    new = th.extend(tokenizer, extension)
    assert not set(th.unreachable(new)) & set(extension.tokens)
    assert len(th.unreachable(new)) <= len(th.unreachable(tokenizer))
    english = "Merging is greedy: the most frequent pair goes first."
    assert new.encode(english).ids == tokenizer.encode(english).ids
    for text in finnish[:50]:
        assert new.decode(new.encode(text).ids) == text
        assert len(new.encode(text).ids) < len(tokenizer.encode(text).ids)


def test_asking_for_more_than_the_text_holds(base):
    with pytest.warns(UserWarning, match=r"asked for 10,000 .* yields \d+ .*: lower min_freq"):
        few = th.continue_bpe(base, MORE, 10_000, min_frequency=2)
    assert 0 < len(few.tokens) < 10_000
    with pytest.raises(ValueError, match="asked for 10,000 new tokens; the extension has"):
        th.extend(base, few, 10_000)


def test_max_token_length(base):
    with pytest.warns(UserWarning, match="asked for"):
        short = th.continue_bpe(base, MORE, 1_000, max_token_length=4)
    assert max(map(len, short.tokens)) == 4


def test_bad_input_gets_one_clear_sentence(base, naive, continued):
    with pytest.raises(ValueError, match="how='glue': use one of append"):
        th.extend(base, naive, how="glue")
    with pytest.raises(ValueError, match="1 of the 2 tokens are in the vocabulary already, first"):
        th.extend(base, th.Extension(tokens=["Ġthe", next(iter(read_parts(base).vocab))]))
    with pytest.raises(ValueError, match="'xyz' is given more than once"):
        th.extend(base, th.Extension(tokens=["xyz", "xyz"]))
    with pytest.raises(ValueError, match="' catty' is no token string .* write it as 'Ġcatty'"):
        th.extend(base, th.Extension(tokens=[" catty"]))
    with pytest.raises(ValueError, match="an empty token"):
        th.extend(base, th.Extension(tokens=[""]))
    with pytest.raises(ValueError, match="asked for 1,000 tokens; the supplement has"):
        th.naive_extension(base, th.train_byte_level_bpe(MORE, vocab_size=300), 1_000)
    with pytest.raises(ValueError, match="n_tokens=-1: ask for zero or more new tokens"):
        th.continue_bpe(base, MORE, -1)
    with pytest.raises(ValueError, match="min_frequency=0: a pair must occur at least once"):
        th.continue_bpe(base, MORE, 1, min_frequency=0)
    with pytest.raises(TypeError, match="one string: put it in a list"):
        th.continue_bpe(base, "one string", 1)
    with pytest.raises(ValueError, match="no text in its 0 documents"):
        th.continue_bpe(base, [], 1)
    wordpiece = th.train_wordpiece(TEXT, vocab_size=60)
    with pytest.raises(ValueError, match="come from a BPE tokenizer; a WordPiece one needs"):
        th.extend(wordpiece, naive)
    with pytest.raises(ValueError, match="has none: use how='append'"):
        th.extend(wordpiece, th.Extension(tokens=["##ats"]), how="regenerate")
    with pytest.raises(ValueError, match="model is Unigram"):
        th.extend(th.train_unigram(TEXT, vocab_size=280), naive)
    with pytest.raises(TypeError, match="got str: load one with load_tokenizer"):
        th.extend("llama-3", naive)
    other = th.train_byte_level_bpe(["x y"], vocab_size=256, normalizer=normalizers.NFC())
    with pytest.raises(ValueError, match="made by another normalizer or pre-tokenizer"):
        th.continue_bpe(base, th.count_pretokens(MORE, other), 1)


@pytest.mark.parametrize("take", [th.naive_extension, th.thesis_extension])
def test_a_supplement_of_another_family(mistral, base, take):
    wordpiece = th.train_wordpiece(MORE, vocab_size=50)
    for supplement, kind in ((mistral, "BPE of characters"), (wordpiece, "WordPiece with '##'")):
        with pytest.raises(ValueError, match=f"of another family: it is {kind}"):
            take(base, supplement)
    with pytest.raises(
        ValueError, match="WordPiece with '@@', the tokenizer is WordPiece with '##'"
    ):
        take(wordpiece, th.train_wordpiece(MORE, vocab_size=50, prefix="@@"))


@pytest.mark.parametrize("take", [th.naive_extension, th.thesis_extension])
@pytest.mark.parametrize("train, size", [(th.train_byte_level_bpe, 270), (th.train_wordpiece, 55)])
def test_a_negative_number_of_tokens_is_refused(take, train, size):
    """As a slice, -1 would leave the last token out."""
    old, new = train(TEXT, vocab_size=size), train(MORE, vocab_size=size)
    assert take(old, new, 0).tokens == [] != take(old, new).tokens
    with pytest.raises(ValueError, match="n_tokens=-1: ask for zero or more new tokens"):
        take(old, new, -1)


def test_wordpiece_takes_the_supplements_tokens_in_order_of_their_ids():
    """The thesis' Algorithm 7."""
    old, new = (th.train_wordpiece(text, vocab_size=60) for text in (TEXT, MORE))
    extension = th.naive_extension(old, new)
    longer = th.extend(old, extension)
    expected = textbook.extend_wordpiece(old.get_vocab(), new.get_vocab())
    assert longer.get_vocab() == expected
    assert old.get_vocab_size() == 60 and extension.tokens
    used = {token for text in MORE for token in longer.encode(text).tokens}
    assert used & set(extension.tokens)


@pytest.mark.parametrize("family", ["byte-level", "sentencepiece"])
def test_the_thesis_algorithms(family):
    """Algorithms 8 and 9: the tokens, their ids and the merges behind the old ones."""
    if family == "byte-level":
        train, algorithm = th.train_byte_level_bpe, textbook.extend_byte_level_bpe
    else:
        train, algorithm = th.train_sentencepiece_bpe, textbook.extend_sentencepiece_bpe
    old, new = train(TEXT, vocab_size=290), train(MORE, vocab_size=300)
    longer = th.extend(old, th.thesis_extension(old, new))
    vocab, merges = algorithm(
        read_parts(old).vocab,
        read_parts(old).pairs(),
        read_parts(new).vocab,
        read_parts(new).pairs(),
    )
    assert longer.get_vocab() == vocab and read_parts(longer).pairs() == merges


def test_scaffold_rebuilds_tokens_from_left_to_right(base):
    """MEDVOC-LLM: each intermediate form becomes a token, too, before the token itself."""
    assert base.encode("hematic").tokens[1:-1] == ["h", "e", "mat", "i", "c"]
    extension = th.Extension(tokens=["hematic", "mati"])
    new = th.extend(base, extension, how="scaffold")
    added = sorted(new.get_vocab().items(), key=lambda item: item[1])[len(base.get_vocab()) :]
    assert [token for token, _ in added] == ["he", "hemat", "hemati", "hematic", "mati"]
    pairs = [("h", "e"), ("he", "mat"), ("hemat", "i"), ("hemati", "c"), ("mat", "i")]
    assert read_parts(new).pairs()[-5:] == pairs
    assert new.encode("hematic").tokens[1:-1] == ["hematic"]


def test_scaffold_is_no_promise(base):
    """A merge learned for an earlier token can take what a later one needs."""
    first = th.Extension(tokens=["mati", "hematic"])
    new = th.extend(base, first, how="scaffold")
    assert th.unreachable(new, first.tokens) == ["hematic"]


def test_scaffold_with_new_characters(mistral):
    new = th.extend(mistral, th.Extension(tokens=["ꙮa", "ꙮ"]), how="scaffold")
    assert new.encode("ꙮa").tokens[-1] == "ꙮa"
    with pytest.raises(ValueError, match="'ꙮa' has characters that the vocabulary lacks"):
        th.extend(mistral, th.Extension(tokens=["ꙮa"]), how="scaffold")


def test_tokens_that_are_always_split_are_reported(base, mistral):
    """Added as asked for, but not silently: a marker of no use holds its id."""
    for tokenizer, tokens in (
        (base, ["Ġcatty!", "Ġcatamaran", "#ing", "2!"]),
        (mistral, ["a cat", "▁catamaran"]),
    ):
        extension = th.Extension(tokens=tokens)
        with pytest.warns(UserWarning, match=f"new tokens, first '{tokens[0]}', can never be"):
            new = th.extend(tokenizer, extension)
        table = reachability(new)
        split = table[table.category == "never: always split"].token
        assert sorted(split[split.isin(tokens)]) == always_split(
            read_parts(tokenizer), sorted(tokens)
        )
    wordpiece = th.train_wordpiece(TEXT, vocab_size=60)
    with pytest.warns(UserWarning, match="1 of the 2 new tokens, first 'c-d'"):
        th.extend(wordpiece, th.Extension(tokens=["c-d", "##bat"]))


def test_added_tokens_cut_words_and_partial_bytes_only_hold_their_id(base):
    half = "é".encode().decode("latin-1")[0]  # one byte of two, written as its character
    extension = th.Extension(tokens=["Ġcatn", half + half])
    new = th.extend(base, extension, how="add_tokens")
    ids = [new.token_to_id(" catn"), new.token_to_id(half + half)]
    assert ids == [read_parts(base).next_id, read_parts(base).next_id + 1]
    assert new.encode("a catnip", add_special_tokens=False).tokens[1] == " catn"
    assert new.decode(new.encode("a catnip").ids) == "a catnip"


def test_a_continued_merge_that_recurs_is_added_once(base):
    """The library lets the last copy win, so a second one would move the merge back."""
    tokens, first, last = ["qx", "qy", "qxz"], [("q", "x"), ("q", "y")], [("qx", "z")]
    once = th.Extension(tokens, first + last, continued=True)
    twice = th.Extension(tokens, first + [("q", "x")] + last, continued=True)
    assert read_parts(th.extend(base, twice)).pairs() == read_parts(base).pairs() + first + last
    assert th.extend(base, twice).to_str() == th.extend(base, once).to_str()


def continued_slowly(base: Tokenizer, counts: dict[str, int], n_tokens: int):
    """Continued training by its definition: encode, count pairs, add the best merge, encode anew."""
    parts, merges, frequencies = read_parts(base), [], []
    while len(parts.vocab) < base.get_vocab_size() + n_tokens:
        model, pairs = build_tokenizer(parts).model, Counter()
        for word, n in counts.items():
            for pair in pairwise(token.id for token in model.tokenize(word)):
                pairs[pair] += n
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(tuple(parts.tokens[i] for i in best))
        frequencies.append(pairs[best])
        vocab = {"".join(merges[-1]): parts.next_id} | parts.vocab
        parts = Parts(
            parts.settings,
            vocab,
            np.concatenate([parts.merges, merge_ids(vocab, merges[-1:])]).astype(np.int32),
        )
    return merges, frequencies


@given(
    tokenizers_with_gaps(),
    st.dictionaries(st.text("abc", min_size=1, max_size=12), st.integers(1, 9), min_size=1),
    st.integers(1, 8),
)
@example(  # b comes about again behind c d, and takes the e that a later token would build on
    Tokenizer(
        models.BPE({c: i for i, c in enumerate("abcde")} | {"cd": 5, "cde": 6}, [("cd", "e")])
    ),
    {"cdea": 5, "cd": 9, "acdea": 2},
    5,
)
def test_continued_training_sees_what_an_encoder_leaves(base, counts, n_tokens):
    """Also where a merge leads to an old token, whose own merges then apply at once."""
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = th.continue_bpe(base, counts, n_tokens)
    merges, frequencies = continued_slowly(base, counts, n_tokens)
    assert (learned.merges, learned.frequencies) == (merges, frequencies)
    assert th.unreachable(th.extend(base, learned), learned.tokens) == []


@pytest.mark.long
def test_characters_come_first_and_need_no_merges(mistral):
    extension = th.continue_bpe(mistral, ["ᎠᎡ ᎠᎡ ᎠᎡᎢ sata"] * 9, 6)
    assert (extension.tokens[:3], extension.characters) == (["Ꭰ", "Ꭱ", "Ꭲ"], 3)
    assert len(extension.merges) == 3
    for k in range(7):
        new = th.extend(mistral, extension, k)
        assert len(read_parts(new).merges) == len(read_parts(mistral).merges) + max(0, k - 3)
        assert th.unreachable(new) == []
