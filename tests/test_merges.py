"""The two compiled loops against the library, and against the definition of greedy."""

from collections import Counter
from itertools import count, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import tokhelpers as th
from tokhelpers.measures import token_counts
from tokhelpers.merges import learn_merges, learn_tokens
from tokhelpers.segmentation import segment, symbols_of
from tokhelpers.surgery import read

words_and_counts = st.dictionaries(
    st.text("abc", min_size=1, max_size=9), st.integers(1, 30), min_size=1, max_size=12
)


def flat(words: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum([len(w) for w in words])])
    return np.array([i for w in words for i in w], np.int32), offsets


def pair_counts(words: list[list[int]], counts: list[int]) -> Counter:
    pairs = Counter()
    for word, n in zip(words, counts, strict=True):
        for pair in zip(word, word[1:], strict=False):
            pairs[pair] += n
    return pairs


def replaced(word: list[int], left: int, right: int, new: int) -> list[int]:
    out = []
    for symbol in word:
        if out and (out[-1], symbol) == (left, right):
            out[-1] = new
        else:
            out.append(symbol)
    return out


@given(words_and_counts, st.integers(1, 4))
def test_each_merge_is_the_most_frequent_pair_at_its_turn(corpus, min_frequency):
    """Greedy-valid: recounted from nothing at every turn, ties to the smaller pair of ids."""
    words = [[ord(c) for c in word] for word in corpus]
    counts = list(corpus.values())
    ids = count(1_000)
    learned = learn_merges(
        *flat(words), np.array(counts), lambda a, b: next(ids), min_frequency=min_frequency
    )
    for left, right, new, n in learned:
        pairs = pair_counts(words, counts)
        assert (-n, (left, right)) == min((-c, pair) for pair, c in pairs.items())
        words = [replaced(word, left, right, new) for word in words]
    assert max(pair_counts(words, counts).values(), default=0) < min_frequency


@given(words_and_counts)
def test_a_form_that_recurs_keeps_its_id_and_counts_stay_exact(corpus):
    """``aaa`` comes about as aa a and as a aa: the second way yields the same id."""
    words = [[ord(c) for c in word] for word in corpus]
    counts, forms = list(corpus.values()), {chr(i): i for i in range(97, 100)}
    name = {i: form for form, i in forms.items()}

    def becomes(left, right):
        form = name[left] + name[right]
        name[forms.setdefault(form, 1_000 + len(forms))] = form
        return forms[form]

    for left, right, new, n in learn_merges(*flat(words), np.array(counts), becomes):
        pairs = pair_counts(words, counts)
        assert (-n, (left, right)) == min((-c, pair) for pair, c in pairs.items())
        words = [replaced(word, left, right, new) for word in words]
    assert all(len(word) == 1 for word in words)


@given(words_and_counts)
def test_refused_pairs_never_merge(corpus):
    words, ids = [[ord(c) for c in word] for word in corpus], count(1_000)
    learned = learn_merges(
        *flat(words), np.array(list(corpus.values())), lambda a, b: -1 if a == 97 else next(ids)
    )
    assert all(left != 97 for left, *_ in learned)


def test_counts_do_not_wrap():
    """Two billion and more: the library's trainer counts in 32 bits, this loop in 64."""
    words = [[0, 1], [1, 2]]
    [first, _] = learn_merges(*flat(words), np.array([3 * 2**31, 2**31 - 1]), lambda a, b: 3 + a)
    assert first == (0, 1, 3, 3 * 2**31)


@pytest.mark.parametrize("letter", ["^", "0", "a", "'", " ", "\n"])
def test_ten_thousand_repeats_of_one_character(llama, letter):
    text = letter * 10_000
    skipping_off = th.merge_skipping(llama, False)
    parts = read(llama)
    words = th.count_pretokens([text], llama)
    ids, offsets = segment(*symbols_of(words.words, parts), parts.merges)
    produced = Counter()
    for n, a, b in zip(words.counts, offsets, offsets[1:], strict=False):
        produced.update({i: int(n) * c for i, c in Counter(ids[a:b].tolist()).items()})
    assert produced == Counter(skipping_off.encode(text, add_special_tokens=False).ids)
    assert th.continue_bpe(llama, [text], 0).tokens == []


@pytest.fixture(scope="module")
def corpora(finnish):
    return {
        "hpo": list(th.load_corpus("hpo", chars=1_000_000)),
        "finnish": finnish,
        "russian": list(th.load_corpus("wordfreq:ru", chars=1_000_000)),
        "code": list(th.load_corpus("python-source", chars=1_000_000)),
    }


@pytest.mark.parametrize("name", ["hpo", "finnish", "russian", "code"])
def test_learning_from_bytes_equals_the_library(corpora, llama, name):
    """5,000 merges, one for one, with Llama-3's pre-tokens."""
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = llama.pre_tokenizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=5_256, initial_alphabet=alphabet, show_progress=False)
    theirs.train_from_iterator(corpora[name], trainer)
    ours = th.train_byte_level_bpe(
        corpora[name], vocab_size=5_256, pre_tokenizer=llama.pre_tokenizer
    )
    assert read(ours).pairs() == read(theirs).pairs()
    assert ours.get_vocab() == theirs.get_vocab()


@pytest.mark.parametrize("name", ["llama-3", "qwen", "mistral-nemo", "mistral-v1"])
def test_segmentation_equals_the_library(corpora, name):
    """Every pre-token of four corpora, merge skipping as the tokenizer has it."""
    tokenizer = th.load_tokenizer(name)
    for texts in corpora.values():
        texts = texts[:3_000]
        counts = token_counts(tokenizer, th.count_pretokens(texts, tokenizer))
        produced = Counter(
            i
            for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            for i in encoding.ids
        )
        assert {i: int(n) for i, n in enumerate(counts) if n} == produced


def test_unknown_characters_follow_the_model():
    """Byte tokens, else the unknown token (one a run, where the model fuses), else nothing."""
    vocab = {"<unk>": 0, "a": 1, "b": 2, "ab": 3} | {f"<0x{i:02X}>": i + 4 for i in range(256)}
    for options in (
        {"byte_fallback": True, "unk_token": "<unk>"},
        {"unk_token": "<unk>", "fuse_unk": True},
        {"unk_token": "<unk>"},
        {},
    ):
        tokenizer = Tokenizer(models.BPE(vocab, [("a", "b")], **options))
        words = ["ab", "aéb", "éé", "aéüb", "é"]
        ids, offsets = segment(*symbols_of(words, read(tokenizer)), read(tokenizer).merges)
        got = [ids[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]
        assert got == [tokenizer.encode(word).ids for word in words], options


def test_learning_is_lazy_and_stops_where_the_text_ends(llama):
    words = th.count_pretokens(["tokenizer tokenizers"], llama)
    tokens, merges, frequencies = learn_tokens(words, read(llama), 10**9)
    assert tokens and len(merges) == len(frequencies) >= len(tokens)
    few = learn_tokens(words, read(llama), 1)
    assert few[0] == tokens[:1]


def test_islice_of_merges_is_a_prefix():
    words, ids = [[0, 1, 2, 0, 1]], count(3)
    first = list(islice(learn_merges(*flat(words), np.array([1]), lambda a, b: next(ids)), 1))
    assert first == [(0, 1, 3, 2)]
