"""Extending: which tokens, by which method, and what must not change."""

import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from strategies import loaded, one_fast, tokenizers_with_gaps
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

import tokhelpers as th
from tokhelpers import textbook
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


def test_the_first_k_tokens_are_the_same_whatever_comes_after(base, continued):
    for k in (0, 1, 7, 20):
        short = th.continue_bpe(base, MORE, k)
        assert list(continued.tokens[:k]) == short.tokens
        assert th.extend(base, continued, k).to_str() == th.extend(base, short).to_str()


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


@pytest.mark.parametrize("how", ["append", "prepend", "regenerate"])
def test_where_the_merges_of_a_naive_extension_go(base, naive, how):
    """Its usable merges, each once, behind the old ones or before; or every split of its tokens."""
    old, vocab = read_parts(base).pairs(), set(base.get_vocab()) | set(naive.tokens)
    usable = [m for m in naive.merges if {*m, "".join(m)} <= vocab]
    every = [(t[:i], t[i:]) for t in naive.tokens for i in range(len(t) - 1, 0, -1)]
    expected = {
        "append": old + [m for m in usable if m not in old],
        "prepend": usable + [m for m in old if m not in usable],
        "regenerate": old + [m for m in every if vocab.issuperset(m)],
    }
    assert read_parts(th.extend(base, naive, how=how)).pairs() == expected[how]
    if how == "regenerate":
        bare = th.extend(base, th.Extension(tokens=naive.tokens), how="append")
        assert read_parts(bare).pairs() == expected[how]


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


def test_fewer_tokens_than_asked_for(base):
    """A short text yields fewer, a supplement has fewer; -1, as a slice, would leave out the last."""
    with pytest.warns(UserWarning, match=r"asked for 10,000 .* yields \d+ .*: lower min_freq"):
        few = th.continue_bpe(base, MORE, 10_000, min_frequency=2, max_token_length=4)
    assert 0 < len(few.tokens) < 10_000 and max(map(len, few.tokens)) <= 4
    for train, size in ((th.train_byte_level_bpe, 270), (th.train_wordpiece, 55)):
        old, new = train(TEXT, vocab_size=size), train(MORE, vocab_size=size)
        for take in (th.naive_extension, th.thesis_extension):
            assert take(old, new, 0).tokens == [] != take(old, new).tokens
            for n, message in ((-1, "zero or more new tokens"), (1_000, "the supplement has")):
                with pytest.raises(ValueError, match=message):
                    take(old, new, n)


def wordpiece():
    return th.train_wordpiece(TEXT, vocab_size=60)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda base: th.extend(base, th.Extension([" catty"])), "write it as 'Ġcatty'"),
        (lambda base: th.extend(base, th.Extension([""])), "an empty token"),
        (lambda base: th.continue_bpe(base, MORE, -1), "n_tokens=-1: ask for zero or more"),
        (lambda base: th.continue_bpe(base, MORE, 1, min_frequency=0), "must occur at least once"),
        (lambda base: th.continue_bpe(base, [], 1), "no text in its 0 documents"),
        (lambda base: th.continue_bpe(base, "a string", 1), "one string: put it in a list"),
        (
            lambda base: th.extend(wordpiece(), th.Extension(["##ats"]), how="regenerate"),
            "has none: use how='append'",
        ),
        (
            lambda base: th.extend(wordpiece(), th.continue_bpe(base, MORE, 1)),
            "come from a BPE tokenizer; a WordPiece one needs",
        ),
        (
            lambda base: th.extend(th.train_unigram(TEXT, vocab_size=280), th.Extension([])),
            "model is Unigram",
        ),
        (lambda base: th.extend("llama-3", th.Extension([])), "load one with load_tokenizer"),
    ],
)
def test_what_cannot_be_extended_is_refused(base, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(base)
