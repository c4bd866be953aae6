"""Extending: which tokens, by which method, and what must not change."""

import warnings
from collections import Counter
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from strategies import loaded, tokenizers_with_gaps
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

import tokhelpers as th
from tokhelpers import textbook
from tokhelpers.adapt.extension import always_split
from tokhelpers.adapt.methods import METHODS
from tokhelpers.measure.reachability import reachability
from tokhelpers.tokenizer.merge_rows import merge_ids
from tokhelpers.tokenizer.spec import TokenizerSpec

TEXT = ["the cat sat on the mat", "a bat, a hat; that cat!", "ääkkösiä öisin, yötä päivää"]
MORE = ["catamaran catalogue catnip category", "yöttömän yön yötä", "batman batmobile bathtub"]
train_wordpiece = partial(th.train_wordpiece, vocab_size=60)
train_byte_level = partial(th.train_byte_level_bpe, vocab_size=296)
train_sentencepiece = partial(th.train_sentencepiece_bpe, vocab_size=290)


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


@pytest.mark.parametrize("how", ["append", "prepend", "regenerate"])
def test_where_the_merges_of_a_naive_extension_go(base, how):
    """Its usable merges, each once, behind the old ones or before; or every split of its tokens."""
    naive = th.naive_extension(base, train_byte_level(MORE))
    naive = th.Extension([*naive.tokens, "qq", "qqq"], naive.merges)
    old, vocab = (
        TokenizerSpec.from_tokenizer(base).pairs(),
        set(base.get_vocab()) | set(naive.tokens),
    )
    usable = [m for m in naive.merges if {*m, "".join(m)} <= vocab]
    every = [(t[:i], t[i:]) for t in naive.tokens for i in range(len(t) - 1, 0, -1)]
    expected = {
        "append": old + [m for m in usable if m not in old],
        "prepend": usable + [m for m in old if m not in usable],
        "regenerate": old + [m for m in every if vocab.issuperset(m)],
    }
    assert TokenizerSpec.from_tokenizer(th.extend(base, naive, how=how)).pairs() == expected[how]
    if how == "regenerate":
        bare = th.extend(base, th.Extension(tokens=naive.tokens), how="append")
        assert TokenizerSpec.from_tokenizer(bare).pairs() == expected[how]


def test_merges_with_spaces_survive():
    vocab = {"a": 0, " ": 1, "b": 2, "a ": 3, "a b": 4}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", " "), ("a ", "b")]))
    new = th.extend(tokenizer, th.Extension(tokens=["ba "]))
    assert TokenizerSpec.from_tokenizer(new).pairs() == [("a", " "), ("a ", "b"), ("b", "a ")]
    assert new.encode("a b").tokens == ["a b"] and new.encode("ba ").tokens == ["ba "]


@pytest.mark.parametrize("method", ["naive", "thesis"])
def test_a_supplement_of_another_family_or_too_small_a_one(mistral, base, method):
    """-1, as a slice, would leave out the last token."""
    take = partial(th.naive_extension, method=method)
    wordpiece = train_wordpiece(TEXT)
    for old, supplement, message in (
        (base, mistral, "of another family: it is BPE of characters"),
        (base, wordpiece, "of another family: it is WordPiece with '##'"),
        (train_wordpiece(TEXT, prefix="@@"), wordpiece, "the tokenizer is WordPiece with '@@'"),
    ):
        with pytest.raises(ValueError, match=message):
            take(old, supplement)
    special = train_byte_level(MORE, special_tokens=["<new>"])
    for old, new in ((base, special), (wordpiece, train_wordpiece(MORE))):
        assert take(old, new, 0).tokens == [] != take(old, new).tokens
        assert "<new>" not in take(old, new).tokens
        for n, said in (
            (-1, "must be at least 0, not -1"),
            (1_000, "asked for 1,000 tokens; the su"),
        ):
            with pytest.raises(ValueError, match=said):
                take(old, new, n)


ALGORITHMS = {
    "WordPiece": (train_wordpiece, textbook.extend_wordpiece),
    "SentencePiece": (train_sentencepiece, textbook.extend_sentencepiece_bpe),
    "byte-level": (train_byte_level, textbook.extend_byte_level_bpe),
}


@pytest.mark.parametrize("family", ALGORITHMS)
def test_the_thesis_algorithms(family):
    """Algorithms 7 to 9: the tokens, their ids and the merges behind the old ones."""
    train, algorithm = ALGORITHMS[family]
    old, new = train(TEXT), train(MORE)
    longer = TokenizerSpec.from_tokenizer(
        th.extend(old, th.naive_extension(old, new, method="thesis")), wordpiece=True
    )
    old, new = (TokenizerSpec.from_tokenizer(made, wordpiece=True) for made in (old, new))
    if family == "WordPiece":
        assert longer.vocab == algorithm(old.vocab, new.vocab) != old.vocab
    else:
        vocab, merges = algorithm(old.vocab, old.pairs(), new.vocab, new.pairs())
        assert (longer.vocab, longer.pairs()) == (vocab, merges)


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
            TokenizerSpec.from_tokenizer(tokenizer), sorted(tokens)
        )
    with pytest.warns(UserWarning, match="1 of the 2 new tokens, first 'c-d'"):
        th.extend(train_wordpiece(TEXT), th.Extension(tokens=["c-d", "##bat"]))


@pytest.mark.parametrize("name", ["smollm2-135m", "mistral-v1"])
def test_words_become_tokens(name):
    tokenizer, words = loaded(name), ["Krankenkasse", "Ärztekammer", "Blutdruckmessgerät"]
    with pytest.warns(UserWarning, match="1 of the 5 words, first 'New York', cannot be one token"):
        extension = th.Extension.from_words([*words, "the", "New York"], tokenizer)
    extended = th.extend(tokenizer, extension)
    assert len(extended.encode(f"die {' '.join(words)}", add_special_tokens=False)) == 4
    assert th.unreachable_tokens(extended, extension.tokens) == []
    with pytest.raises(ValueError, match="none of the 1 words is a new token"):
        th.Extension.from_words(["the"], tokenizer)
    with pytest.raises(TypeError, match="words is one string"):
        th.Extension.from_words("the", tokenizer)


def test_dead_tokens_are_reported():
    """Plain words as token strings: what the byte alphabet spells is no UTF-8, or no merges lead to it."""
    with pytest.warns(
        UserWarning, match="'Ärztekammer', can never be .* not UTF-8; make them of wo"
    ):
        th.extend(loaded("smollm2-135m"), th.Extension(tokens=["Ärztekammer"]))
    with pytest.warns(UserWarning, match="no merges lead to them; make the extension with"):
        th.extend(loaded("smollm2-135m"), th.Extension(tokens=["Krankenkassenbeitrag"]))


def test_added_tokens_cut_words_and_partial_bytes_only_hold_their_id(base):
    half = "é".encode().decode("latin-1")[0]  # one byte of two, written as its character
    extension = th.Extension(tokens=["Ġcatn", half + half])
    new = th.extend(base, extension, how="add_tokens")
    ids = [new.token_to_id(" catn"), new.token_to_id(half + half)]
    assert ids == [
        TokenizerSpec.from_tokenizer(base).next_id,
        TokenizerSpec.from_tokenizer(base).next_id + 1,
    ]
    assert new.encode("a catnip", add_special_tokens=False).tokens[1] == " catn"
    assert new.decode(new.encode("a catnip").ids) == "a catnip"


@pytest.mark.parametrize("how", METHODS)
def test_parts_give_parts(base, how):
    """As many sizes are measured by: what they make is the same tokenizer, not put together."""
    naive, spec = (
        th.naive_extension(base, train_byte_level(MORE)),
        TokenizerSpec.from_tokenizer(base),
    )
    made = th.extend(spec, naive, 9, how=how)
    assert isinstance(made, TokenizerSpec)
    assert made.to_tokenizer().to_str() == th.extend(base, naive, 9, how=how).to_str()
    order = th.pruning_order(spec, by="id")
    small = th.prune(spec, order, 9).to_tokenizer()
    assert small.to_str() == th.prune(base, order, 9).to_str()
    with pytest.raises(ValueError, match="this one's model is AdaptBPE"):
        th.extend(th.AdaptBPE(spec, []), naive)


def test_a_continued_merge_that_recurs_is_added_once(base):
    """The library lets the last copy win, so a second one would move the merge back."""
    first, last = [("q", "x"), ("q", "y")], [("qx", "z")]
    for tokens, n in ((["qx", "qy", "qxz"], None), (["qx", "qy", "qxz", "zz"], 3)):
        twice = th.Extension(tokens, [*first, first[0], *last], continued=True)
        made = TokenizerSpec.from_tokenizer(th.extend(base, twice, n)).pairs()
        assert made == TokenizerSpec.from_tokenizer(base).pairs() + first + last


def continued_slowly(base: Tokenizer, counts: dict[str, int], n_tokens: int):
    """Continued training by its definition: encode, count pairs, add the best merge, encode anew."""
    spec, merges, frequencies = TokenizerSpec.from_tokenizer(base), [], []
    while len(spec.vocab) < base.get_vocab_size() + n_tokens:
        model, pairs = spec.to_tokenizer().model, Counter()
        for word, n in counts.items():
            for pair in pairwise(token.id for token in model.tokenize(word)):
                pairs[pair] += n
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(tuple(spec.tokens[i] for i in best))
        frequencies.append(pairs[best])
        vocab = {"".join(merges[-1]): spec.next_id} | spec.vocab
        spec = TokenizerSpec(
            spec.settings,
            vocab,
            np.concatenate([spec.merges, merge_ids(vocab, merges[-1:])]).astype(np.int32),
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
    made = dict.fromkeys(map("".join, merges))
    assert learned.tokens == [token for token in made if token not in base.get_vocab()]
    longer = th.extend(base, learned)
    assert TokenizerSpec.from_tokenizer(longer).pairs() == [
        *dict.fromkeys([*TokenizerSpec.from_tokenizer(base).pairs(), *merges])
    ]
    assert th.unreachable_tokens(longer, learned.tokens) == []
    for k in range(len(learned.tokens)):  # whatever comes after
        short = th.continue_bpe(base, counts, k)
        assert th.extend(base, learned, k).to_str() == th.extend(base, short).to_str()


@pytest.mark.long
def test_characters_come_first_and_need_no_merges(mistral):
    extension = th.continue_bpe(mistral, ["ᎠᎡ ᎠᎡ ᎠᎡᎢ sata"] * 9, 6)
    assert (extension.tokens[:3], extension.characters) == (["Ꭰ", "Ꭱ", "Ꭲ"], 3)
    assert len(extension.merges) == 3
    for k in range(7):
        new = th.extend(mistral, extension, k)
        assert len(TokenizerSpec.from_tokenizer(new).merges) == len(
            TokenizerSpec.from_tokenizer(mistral).merges
        ) + max(0, k - 3)
        assert th.unreachable_tokens(new) == []


def test_fewer_tokens_than_asked_for(base):
    with pytest.warns(UserWarning, match=r"asked for 10,000 .* yields \d+ .*: lower min_freq"):
        few = th.continue_bpe(base, MORE, 10_000, min_frequency=2, max_token_length=4)
    assert 0 < len(few.tokens) < 10_000 and max(map(len, few.tokens)) <= 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda base: th.extend(base, th.Extension([" catty"])), "write it as 'Ġcatty'"),
        (lambda base: th.extend(base, th.Extension([""])), "an empty token"),
        (lambda base: th.extend(base, th.Extension(["<pad>"])), "in the vocabulary already"),
        (
            lambda base: th.extend(train_wordpiece(TEXT), th.Extension(["##x"]), how="regenerate"),
            "has no merges, got how='regenerate' and 0 merges: use how='append'",
        ),
        (
            lambda base: th.extend(train_wordpiece(TEXT), th.continue_bpe(base, MORE, 1)),
            "use how='append' and the tokens of a WordPiece",
        ),
    ],
)
def test_what_cannot_be_extended_is_refused(base, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(base)


WRONG = {  # by the first words of the message: what this number cannot be beside what none can
    "n_tokens": [None],
    "min_frequency": [None, 0],
    "max_token_length": [0],
    "n_tokens|asked for": [],  # of extend
}


@pytest.mark.parametrize(
    ("name", "value"), [(n, v) for n in WRONG for v in (1.5, "3", True, 2**63, -1, *WRONG[n])]
)
def test_numbers_that_are_none_are_told_in_a_sentence(base, name, value):
    with pytest.raises(ValueError, match=f"^({name}) .*[:;] "):
        if "asked for" in name:
            th.extend(base, th.Extension(tokens=["bat"]), value)
        else:
            th.continue_bpe(base, MORE, **{"n_tokens": 1, name: value})
