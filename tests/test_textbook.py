"""The textbook algorithms against other implementations and their definitions.

The lecture's slides are compared in `test_lecture.py`.
"""

import itertools
import json
import math
import random
from collections import Counter
from functools import partial

import pytest
import tokenizers
from hypothesis import example, given, strategies as st
from spm import processor_of, train_spm
from strategies import examples
from tokenizers import decoders, models, pre_tokenizers, trainers

from tokhelpers import textbook as tb


def corpora(alphabets=("a", "ab", "abc", "aé", "あいa", "abcdef"), length=12, n_words=8):
    """Words with counts over small alphabets: runs, empty and one-letter words, many ties."""
    words = st.sampled_from(alphabets).flatmap(lambda letters: st.text(letters, max_size=length))
    counts = st.dictionaries(words, st.integers(1, 3), min_size=1, max_size=n_words)
    return counts.filter(any)


small_corpora = corpora(("a", "ab", "abc", "あé a"), length=6, n_words=4)


def documents(words):
    return [word for word, count in words.items() for _ in range(count)]


def tokens_of(ids, V):
    return [list(V)[i] for i in ids]


def numbered(*tokens):
    return {token: i for i, token in enumerate(tokens)}


def ranked(merges):
    return {tuple(rule): rank for rank, rule in enumerate(merges)}


# ---- training: what must hold --------------------------------------------------------------------
TRAINERS = {
    "bpe": tb.train_bpe,
    "wordpiece": lambda words, size, **options: (tb.train_wordpiece(words, size, **options), None),
    "sentencepiece": lambda words, size, **options: tb.train_sentencepiece_bpe(
        words, size, byte_tokens=(), **options
    ),
    "bytes": lambda words, size, **options: tb.train_byte_level_bpe(words, 256 + size, **options),
}
every_trainer = pytest.mark.parametrize("train", TRAINERS.values(), ids=TRAINERS)
E_STEPS = ["expected", "substrings"]
UNIGRAM = {f"unigram, {how}": partial(tb.train_unigram, e_step=how) for how in E_STEPS}


every_training = pytest.mark.parametrize(
    "train", (TRAINERS | UNIGRAM).values(), ids=TRAINERS | UNIGRAM
)


@every_training
@given(small_corpora, st.randoms())
def test_document_order_does_not_matter(train, words, rng):
    shuffled = rng.sample(documents(words), sum(words.values()))
    assert repr(train(shuffled, 12)) == repr(train(words, 12))


@given(corpora(), st.integers(0, 20), st.integers(1, 4))
def test_every_wordpiece_merge_was_the_best_and_frequent_enough(words, size, min_frequency):
    trace = []
    try:
        V = tb.train_wordpiece(words, 20 + size, min_frequency=min_frequency, trace=trace)
    except ValueError as error:
        assert "min_frequency" in str(error)
        return
    assert list(V.values()) == list(range(len(V)))
    for step in trace:
        counts, scores, chosen = step["counts"], step["scores"], step["merge"]
        # As printed, Algorithm 1 would end at the first best pair that is rarer than the minimum.
        assert scores.keys() == {pair for pair in counts if counts[pair] >= min_frequency}
        best = [pair for pair in scores if scores[pair] == max(scores.values())]
        assert chosen == min(best, key=lambda pair: (V[pair[0]], V[pair[1]]))
    lengths = [sum(len(tokens) for tokens, _ in step["corpus"]) for step in trace]
    assert lengths == sorted(set(lengths), reverse=True)  # each step shortens the corpus


def test_thesis_prefix_is_taken_off_the_second_part_only():
    """Section 4.1.2.1: Wo and ##rd give Word, ##wo and ##rd give ##word."""
    assert list(tb.train_wordpiece({"Wo": 2}, 3)) == ["##o", "W", "Wo"]
    V = tb.train_wordpiece({"aword": 1}, 10)
    assert "aword" in V and not any("##" in v[2:] for v in V)
    assert list(tb.train_wordpiece({"a#": 2}, 3)) == ["###", "a", "a#"]  # ### is ## and #


@every_trainer
def test_a_form_that_recurs_keeps_its_first_id(train):
    V, M = train({"ab": 3, "abc": 2}, 6, special_tokens=["ab", "<s>", "a"])
    assert (V["ab"], V["<s>"], V["a"]) == (0, 1, 2)
    assert list(V.values()) == list(range(len(V)))
    assert "abc" in V
    if M is not None:
        assert M == [("a", "b"), ("ab", "c")]


# ---- training: other implementations -------------------------------------------------------------
def hugging_face(words, vocab_size, *, byte_level, special_tokens=(), min_frequency=0):
    """A tokenizer that the Hugging Face BPE trainer learned, its vocabulary and its merges."""
    tokenizer, alphabet = tokenizers.Tokenizer(models.BPE()), []
    if byte_level:
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(special_tokens),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents(words), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return tokenizer, (model["vocab"], [tuple(merge) for merge in model["merges"]])


@given(
    corpora(),
    st.integers(0, 25),
    st.sampled_from([(), ("<s>",), ("ab", "a")]),
    st.sampled_from([0, 0, 2, 3, 4, 5]),
    st.text(max_size=12),
)
@example({"aaa": 3, "": 2, "a": 1, "aaaaaaa": 2}, 9, (), 0, "")
@examples(200)
def test_byte_level_bpe_equals_hugging_face_and_round_trips(words, merges, special, least, text):
    vocab_size = 256 + len(set(special) - set(tb.BYTE_CHARS)) + merges
    options = {"special_tokens": special, "min_frequency": least}
    tokenizer, learned = hugging_face(words, vocab_size, byte_level=True, **options)
    try:
        assert tb.train_byte_level_bpe(words, vocab_size, **options) == learned
    except ValueError as error:
        assert "larger than every count" in str(error) and not learned[1]
    tokenizer.encode_special_tokens = True
    token_of = {i: token for token, i in learned[0].items()}
    for word in [text, *words]:
        ids = tb.tokenize_byte_level_bpe(word, *learned)
        assert ids == tokenizer.encode(word).ids
        characters = "".join(token_of[i] for i in ids)
        assert bytes(map(tb.BYTE_CHARS.index, characters)).decode() == word


@given(corpora(("a", "ab", "abc", "abcdef")), st.integers(0, 25))
def test_plain_bpe_equals_hugging_face(words, merges):
    vocab_size = len(set("".join(words))) + merges
    tokenizer, learned = hugging_face(words, vocab_size, byte_level=False)
    assert tb.train_bpe(words, vocab_size) == learned
    for word in words:
        tokens = tokenizer.encode(word).tokens
        assert tb.tokenize_bpe(word, *learned) == tokens
        assert tb.encode(word, ranked(learned[1])) == tokens


@given(corpora(), st.integers(0, 20))
def test_sentencepiece_bpe_equals_sentencepiece(words, n):
    words = {word: count for word, count in words.items() if word}
    with_space = {"▁" + word: count for word, count in words.items()}
    characters = len(set("".join(with_space)))
    V, M = tb.train_sentencepiece_bpe(with_space, characters + n, byte_tokens=())
    one_script = {"split_by_unicode_script": False, "split_by_number": False}
    options = one_script | {"max_sentencepiece_length": 512, "bos_id": -1, "eos_id": -1}
    processor = processor_of(  # its first piece is <unk>
        train_spm(documents(words), 1 + characters + n, **options)
    )
    pieces = [processor.id_to_piece(i) for i in range(1, processor.get_piece_size())]
    merged = [piece for piece in pieces if len(piece) > 1]
    learned = list(V)[characters:]
    assert merged[: len(learned)] == learned
    if len(learned) == n:
        assert len(merged) == n
        for word in words:
            tokens = processor.encode(word, out_type=str)
            assert tokens_of(tb.tokenize_sentencepiece_bpe("▁" + word, V, M), V) == tokens
            assert tb.encode("▁" + word, ranked(M)) == tokens
    # else no pair is left, and the library goes on with forms that stand nowhere.


# ---- tokenizing ----------------------------------------------------------------------------------
@given(corpora(), st.text(max_size=12))
def test_sentencepiece_tokenization_equals_hugging_face_and_round_trips(words, text):
    V, M = tb.train_sentencepiece_bpe(words, 270)
    model = models.BPE(vocab=V, merges=M, byte_fallback=True)
    decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    for word in [text, *words]:
        ids = tb.tokenize_sentencepiece_bpe(word, V, M)
        assert ids == ([token.id for token in model.tokenize(word)] if word else [])
        assert decoder.decode(tokens_of(ids, V)) == word


@given(
    st.text("abc", max_size=12),
    st.lists(st.tuples(*[st.text("abc", min_size=1, max_size=3)] * 2), max_size=12, unique=True),
)
@example("abc", [("a", "bc"), ("b", "c")])
@example("abab", [("ab", "a"), ("a", "b")])
def test_by_rank_equals_hugging_face_whatever_the_order_of_the_rules(word, M):
    V = numbered(*dict.fromkeys([*"abc", *itertools.chain(*M), *map("".join, M)]))
    model = models.BPE(vocab=V, merges=M)
    expected = [token.value for token in model.tokenize(word)] if word else []
    assert tb.encode(word, ranked(M)) == expected


def test_wordpiece_unknown_and_too_long_words():
    V = numbered("[UNK]", "a", "##a")
    assert tb.tokenize_wordpiece("aaa", V, chunk_max=3) == [1, 2, 2]
    assert tb.tokenize_wordpiece("aaaa", V, chunk_max=3) == [0]
    assert [tb.tokenize_wordpiece(word, V) for word in ("a", "", "ab")] == [[1], [], [0]]
    assert tb.tokenize_wordpiece("[UNK]", V) == [0]
    with pytest.raises(ValueError, match="the token '<unk>' is not in vocab: .* unknown token"):
        tb.tokenize_wordpiece("b", V, unk="<unk>")


# ---- extending -----------------------------------------------------------------------------------
@given(corpora(("abc",)), corpora(("abcd",)))
def test_extensions_keep_the_old_and_hold_the_new(words, supplement):
    for train, extend in [
        (tb.train_sentencepiece_bpe, tb.extend_sentencepiece_bpe),
        (tb.train_byte_level_bpe, tb.extend_byte_level_bpe),
    ]:
        (V, M), (V_D, M_D) = train(words, 268), train(supplement, 268)
        V = {token: 7 + i for token, i in V.items()}  # no token has the ids before
        V_N, M_N = extend(V, M, V_D, M_D)
        assert V_N.keys() == V.keys() | V_D.keys()
        assert list(V_N.items())[: len(V)] == list(V.items())
        assert list(V_N.values()) == list(range(7, 7 + len(V_N)))
        assert M_N[: len(M)] == M
        assert len(set(M_N)) == len(M_N)
        place = {v: i for i, v in enumerate(V_N)}
        for left, right in M_N:
            assert place[left + right] > max(place[left], place[right])
        assert {left + right for left, right in M_N} == {
            v for v in V_N if v not in tb.BYTE_TOKENS and len(v) > 1
        }


# ---- Unigram -------------------------------------------------------------------------------------
def segmentations(word, p):
    """All segmentations of a word, the tokens of each."""
    for n_cuts in range(len(word)):
        for cuts in itertools.combinations(range(1, len(word)), n_cuts):
            bounds = [0, *cuts, len(word)]
            tokens = [word[i:j] for i, j in itertools.pairwise(bounds)]
            if all(p.get(token, 0) > 0 for token in tokens):
                yield tokens


def random_p(words, rng):
    tokens = {*tb.unigram_seed(words), *filter(None, words)}
    weights = {x: rng.random() + 0.01 for x in sorted(tokens)}
    return {x: weight / sum(weights.values()) for x, weight in weights.items()}


@given(st.text("abc", min_size=1, max_size=8), st.integers())
def test_viterbi_finds_the_best_of_all_segmentations(word, seed):
    p = random_p([word], random.Random(seed))
    tokens, score = tb.tokenize_unigram(word, p)
    best = max(math.prod(p[x] for x in tokens) for tokens in segmentations(word, p))
    assert math.exp(score) == pytest.approx(best)
    assert math.prod(p[x] for x in tokens) == pytest.approx(best)
    assert "".join(tokens) == word


@given(corpora(("abc",), length=8), st.integers())
def test_expected_counts_equal_the_sum_over_all_segmentations(words, seed):
    p = random_p(words, random.Random(seed))
    expected, likelihood = Counter(), 0.0
    for word, count in words.items():
        if not word:
            continue
        shares = [(tokens, math.prod(p[x] for x in tokens)) for tokens in segmentations(word, p)]
        total = sum(share for _, share in shares)
        likelihood += count * math.log(total)
        for tokens, share in shares:
            for x in tokens:
                expected[x] += count * share / total
    counts, log_likelihood = tb.unigram_expected_counts(words, p)
    assert counts == pytest.approx({x: expected[x] for x in p})
    assert log_likelihood == pytest.approx(likelihood)


@pytest.mark.parametrize("e_step", E_STEPS)
@given(small_corpora, st.integers(0, 6), st.sampled_from([0, 0.2, 0.5]))
def test_unigram_training(e_step, words, more, drop):
    alphabet = set("".join(words))
    trace = []
    p = tb.train_unigram(words, len(alphabet) + more, e_step=e_step, drop=drop, trace=trace)
    assert alphabet <= p.keys()
    assert len(p) == min(len(alphabet) + more, len(tb.unigram_seed(words)))
    assert sum(p.values()) == pytest.approx(1)
    assert p == trace[-1]["p"]
    for step in trace:
        for x, loss in step["losses"].items():  # each loss, computed anew
            rest = {token: value for token, value in step["p"].items() if token != x}
            anew = -sum(n * tb.tokenize_unigram(word, rest)[1] for word, n in words.items())
            assert loss == pytest.approx(anew)
            assert loss >= step["loss"] - 1e-9
        kept = step["losses"].keys() - set(step["removed"])
        for x, y in itertools.product(step["removed"], kept):
            assert round(step["losses"][x], 6) <= round(step["losses"][y], 6)


def test_unigram_ties_and_unknown_characters():
    # ba b b b and b ab b b are equally probable: the longer first token.
    p = {"a": 0.2, "b": 0.3, "ab": 0.2, "ba": 0.2, "aa": 0.1}
    assert tb.tokenize_unigram("babbb", p)[0] == ["ba", "b", "b", "b"]
    p = {"a": 0.5, "b": 0.3, "ab": 0.2}
    tokens, score = tb.tokenize_unigram("abxa", p)
    assert tokens == ["ab", "<unk>", "a"]
    assert score == pytest.approx(math.log(0.2) + (math.log(0.2) - 10) + math.log(0.5))
    assert tb.tokenize_unigram("", p) == ([], 0.0)


# ---- bad input -----------------------------------------------------------------------------------
@every_training
@pytest.mark.parametrize(
    "words, size, error, message",
    [
        ({"": 5}, 20, ValueError, "the corpus is empty"),
        ("some text", 20, TypeError, "words is one string, 'some text': give a list of strings"),
        ({"ab": 0}, 20, ValueError, "the word 'ab' has count 0: give whole numbers from 1 on"),
        ({"ab": 1.5}, 20, ValueError, "the word 'ab' has count 1.5"),
        ({"abc": 1}, -1, ValueError, r"vocab_size=-?\d+ is smaller than the (3|256) .* at least"),
    ],
)
def test_bad_corpora_and_sizes(train, words, size, error, message):
    with pytest.raises(error, match=message):
        train(words, size)


@every_trainer
def test_bad_special_tokens_and_frequencies(train):
    with pytest.raises(TypeError, match="special_tokens is one string, '<s>': give a list of"):
        train({"ab": 5}, 20, special_tokens="<s>")
    with pytest.raises(ValueError, match="min_frequency=9 .* candidate occurs 5 times, give at"):
        train({"ab": 5, "cb": 4}, 20, min_frequency=9)
    V, _ = train({"ab": 5, "cb": 4}, 20, min_frequency=5)
    assert list(V)[-1] == "ab"


def test_wordpiece_refuses_the_prefix_and_unknown_ties():
    with pytest.raises(ValueError, match="the word 'c##' contains the prefix '##'"):
        tb.train_wordpiece(["c##", "c"], 10)
    assert "##" in tb.train_wordpiece(["##"], 4, prefix="@@@")
    assert list(tb.train_wordpiece(["aab"], 10, prefix=""))[-1] == "aab"
    assert list(tb.train_wordpiece(["ba", "ab"], 5))[-1] == "ab"
    assert list(tb.train_wordpiece(["ba", "ab"], 5, tie="first"))[-1] == "ba"
    with pytest.raises(ValueError, match="tie='last' is unknown: give 'ids' or 'first'"):
        tb.train_wordpiece(["ab"], 10, tie="last")


@pytest.mark.parametrize("seed", range(20))
def test_bpe_and_unigram_differ_whatever_the_tie_break(seed):
    """Lesson 05: BPE keeps an intermediate token of `tie`, Unigram the prefix `un`."""
    order = random.Random(seed).sample("deinotu", 7)  # letters renamed, so that other ties win
    name = dict(zip("deinotu", order, strict=True))
    words = {"do": 12, "undo": 6, "tie": 8, "untie": 5}
    items = [("".join(map(name.get, word)), count) for word, count in words.items()]
    words = dict(random.Random(seed).sample(items, 4))
    do, tie, un, ti, ie = ("".join(map(name.get, t)) for t in ("do", "tie", "un", "ti", "ie"))
    kept = tb.train_unigram(words, 10, drop=random.Random(seed).choice([0, 0.1, 0.25]))
    assert {token for token in kept if len(token) > 1} == {do, tie, un}
    merges = tb.learn([(list(word), count) for word, count in words.items()], 3)
    assert {"".join(pair) for pair in merges} in ({do, tie, ti}, {do, tie, ie})


def test_unigram_refuses_what_lacks_a_character():
    with pytest.raises(
        ValueError, match="the seed lacks .'b'.: it must contain every character of"
    ):
        tb.train_unigram(["ab"], 10, seed={"a": 1})
    with pytest.raises(ValueError, match="e_step='hard': give 'expected' or 'substrings'"):
        tb.train_unigram(["ab"], 10, e_step="hard")
    p = {"f": 0.5, "u": 0.2, "n": 0, "un": 0.3}
    counts, _ = tb.unigram_expected_counts(["fun"], p)
    assert counts == pytest.approx({"f": 1, "u": 0, "n": 0, "un": 1})
    with pytest.raises(ValueError, match="no tokens of p spell the word 'nu'"):
        tb.unigram_expected_counts(["nu"], p)


# ---- what lesson 01 writes -----------------------------------------------------------------------
@given(small_corpora, st.integers(0, 6))
def test_learn_takes_a_most_frequent_pair_met_first_and_encode_repeats_it(words, k):
    words = [(list(word), count) for word, count in words.items()]
    merges = tb.learn(words, k)
    now = words
    for pair in merges:
        counts = tb.count_pairs(now)
        assert pair == next(p for p in counts if counts[p] == max(counts.values()))
        now = [(tb.merge(tokens, pair), count) for tokens, count in now]
    assert len(merges) == k or not tb.count_pairs(now)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    assert [tb.encode(tokens, ranks) for tokens, _ in words] == [tokens for tokens, _ in now]
    in_bytes = [([t.encode() for t in tokens], count) for tokens, count in words]
    assert tb.learn(in_bytes, k) == [(a.encode(), b.encode()) for a, b in merges]
