"""The Unigram learner against the textbook, the definition of its seed, and sentencepiece."""

import io
import itertools
import math
import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, strategies as st
from strategies import examples, one_fast

import tokhelpers as th
from tokhelpers import textbook as tb
from tokhelpers.train.substrings import find_repeats, find_tokens, read_text, write_text
from tokhelpers.train.unigram import learn_unigram

alphabets = st.sampled_from(["a", "ab", "abc", "▁ab", "aéあ😀", "abcdef"])


def corpora(max_length=10):
    """Words with counts over 1 to 6 letters: runs, empty and one-letter words, many ties."""
    words = alphabets.flatmap(lambda letters: st.text(letters, max_size=max_length))
    counts = st.dictionaries(words, st.integers(1, 3), min_size=1, max_size=8)
    return counts.filter(any)


def learn(corpus, size, **options):
    return learn_unigram(list(corpus), np.array([*corpus.values()]), size, **options)


def likelihood(corpus, scores):
    """The logarithm of the words' probability, over all segmentations."""
    total, longest = 0.0, max(map(len, scores))
    for word, count in corpus.items():
        logs = [0.0]  # up to each place
        for end in range(1, len(word) + 1):
            starts = range(max(0, end - longest), end)
            fitting = [k for k in starts if word[k:end] in scores]
            logs.append(tb._log_sum([logs[k] + scores[word[k:end]] for k in fitting]))
        total += count * logs[-1]
    return total


# ---- equal to the textbook ---------------------------------------------------------------------


@given(
    corpora(),
    st.integers(0, 12),
    st.sampled_from([0.25, 0.5, 0.75, 0.9]),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
@examples(400)
def test_learning_equals_the_textbook(corpus, more, shrinking, rounds, rng):
    """The same tokens and order, probabilities to nine digits; the seed has gaps and strangers."""
    alphabet = set("".join(corpus))
    seed = {
        token: count
        for token, count in tb.unigram_seed(corpus, whole_words=True).items()
        if token in alphabet or rng.random() < 0.8
    } | {"ac": 2, "x": 1}
    size = len(alphabet) + more
    expected = tb.train_unigram(corpus, size, seed=seed, n_em=rounds, drop=1 - shrinking)
    expected = {token: p for token, p in expected.items() if p > 0}
    scores = learn(corpus, size, seed=seed, shrinking=shrinking, rounds=rounds)
    assert list(scores) == list(expected)
    assert [math.exp(x) for x in scores.values()] == pytest.approx([*expected.values()], rel=1e-9)


@given(corpora(max_length=40), st.integers(0, 12))
@examples(30)
def test_learning_from_long_words_equals_the_textbook(corpus, more):
    """Words longer than any token, where the search for losses leaves out what does not change."""
    seed = tb.unigram_seed(corpus, max_length=3, whole_words=True)
    size = len(set("".join(corpus))) + more
    expected = tb.train_unigram(corpus, size, seed=seed, n_em=2, drop=0.25)
    expected = {token: p for token, p in expected.items() if p > 0}
    scores = learn(corpus, size, seed=seed)
    assert list(scores) == list(expected)
    assert [math.exp(x) for x in scores.values()] == pytest.approx([*expected.values()], rel=1e-9)


@given(corpora(), st.integers(0, 8))
def test_learning_from_its_own_seed_equals_the_textbook(corpus, more):
    seed = brute_force_repeats(corpus, 16)
    size = len(set("".join(corpus))) + more
    expected = tb.train_unigram(corpus, size, seed=seed, n_em=2, drop=0.25)
    scores = learn(corpus, size)
    assert list(scores) == [token for token, p in expected.items() if p > 0]


# ---- the seed ----------------------------------------------------------------------------------


def brute_force_repeats(corpus, max_length):
    """By the definition: every occurrence of every substring, and what stands beside it."""
    counts, before, after = Counter(), {}, {}
    for word, n in corpus.items():
        for i, j in itertools.combinations(range(len(word) + 1), 2):
            if j - i <= max_length:
                x = word[i:j]
                counts[x] += n
                before.setdefault(x, set()).add(word[i - 1] if i else (None, "begins"))
                after.setdefault(x, set()).add(word[j] if j < len(word) else (None, "ends"))

    def inside_one(x):
        sides = (before[x], after[x])
        return len(x) < max_length and any(
            len(s) == 1 and isinstance(next(iter(s)), str) for s in sides
        )

    return {x: n for x, n in sorted(counts.items()) if len(x) == 1 or (n > 1 and not inside_one(x))}


@given(corpora(), st.integers(1, 6), st.integers(6, 20))
@examples(300)
def test_repeats_equal_their_definition(corpus, max_length, most):
    words = sorted(filter(None, corpus))
    text = write_text(words)
    counts = np.array([corpus[word] for word in words])
    places, totals, matches = find_repeats(text, counts, most, max_length)
    found = dict(zip(read_text(text, places, matches.lengths), totals.tolist(), strict=True))
    expected = brute_force_repeats(corpus, max_length)
    longer = sorted((x for x in expected if len(x) > 1), key=lambda x: (-expected[x] * len(x), x))
    characters = [x for x in expected if len(x) == 1]
    chosen = [*characters, *longer[: most - len(characters)]]
    assert list(found.items()) == [(x, expected[x]) for x in sorted(chosen)]
    assert matches_of(text, matches, list(found)) == every_match(words, found)


@given(corpora(), st.sets(st.text("abcあ", min_size=1, max_size=4), min_size=1))
def test_matches_are_all_places_where_tokens_stand(corpus, tokens):
    tokens, words = sorted(tokens), list(corpus)
    text = write_text([*tokens, *words])
    matches = find_tokens(text, len(tokens))
    begin = text.starts[len(tokens)]
    places = matches.first[begin : text.starts[-1] + 1]
    got = [[tokens[t] for t in matches.tokens[a:b]] for a, b in itertools.pairwise(places.tolist())]
    assert got == every_match(words, tokens)


def matches_of(text, matches, tokens):
    ends = itertools.pairwise(matches.first.tolist())
    return [[tokens[t] for t in matches.tokens[a:b]] for a, b in ends]


def every_match(words, tokens):
    return [
        [word[i:j] for j in range(i + 1, len(word) + 1) if word[i:j] in tokens]
        for word in words
        for i in range(len(word) + 1)
    ]


# ---- what must hold ----------------------------------------------------------------------------


@given(corpora(), st.integers(0, 12), st.randoms(use_true_random=False))
def test_scores_are_sorted_probabilities_with_all_characters(corpus, more, rng):
    alphabet = set("".join(corpus))
    scores = learn(corpus, len(alphabet) + more)
    assert alphabet <= scores.keys() and len(scores) <= len(alphabet) + more
    assert math.fsum(map(math.exp, scores.values())) == pytest.approx(1)
    assert max(np.diff([*scores.values()]), default=0) < 1e-9
    shuffled = rng.sample([*corpus.items()], len(corpus))
    assert list(learn(dict(shuffled), len(alphabet) + more).items()) == list(scores.items())


SCRIPT = """
import sys
import numpy as np, tokhelpers as th
from tokhelpers.train.unigram import learn_unigram
words = {}
for text in th.load_corpus("hpo", chars=200_000):
    for word in text.split():
        words[word] = words.get(word, 0) + 1
words = {word: words[word] for word in set(words)}
print(learn_unigram(list(words), np.array([*words.values()]), 500))
"""


@pytest.mark.long
def test_the_result_is_the_same_in_every_process_and_thread():
    def run(seed):
        env = os.environ | {"PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
        ).stdout

    with ThreadPoolExecutor(2) as threads:
        assert len(set(threads.map(run, ["1", "2"]))) == 1
        corpus = {"".join(w): i + 1 for i, w in enumerate(itertools.product("abc", repeat=5))}
        results = [*threads.map(lambda _: list(learn(corpus, 50).items()), range(8))]
    assert all(result == results[0] for result in results)


@given(corpora(), st.integers(1, 4))
def test_more_rounds_of_em_never_lower_the_likelihood(corpus, rounds):
    size = 10**6  # no pruning; characters, whose counts are held at 1 or more, are not held here
    corpus = corpus | dict.fromkeys(set("".join(corpus)), 5)
    fewer, more = (likelihood(corpus, learn(corpus, size, rounds=n)) for n in (rounds, rounds + 1))
    assert more >= fewer - 1e-9 * abs(fewer)


def test_a_word_of_a_thousand_characters_does_not_underflow():
    """One segmentation alone: its likelihood is by hand a thousand times that of a character."""
    scores = {"a": math.log(1e-9), "b": math.log(1 - 1e-9)}
    assert likelihood({"a" * 1_000: 3}, scores) == pytest.approx(3_000 * math.log(1e-9))
    scores = learn({"a" * 1_000: 1, "ab": 2}, 4)
    assert all(map(math.isfinite, scores.values()))


@pytest.mark.parametrize("letters", one_fast("a", "ab", "abcdefghijklmnopqrstuvwxyz"))
def test_a_word_of_a_hundred_thousand_characters(letters):
    rng = random.Random(0)
    corpus = {"".join(rng.choices(letters, k=100_000)): 1}
    scores = learn(corpus, 40)
    assert len(scores) == min(40, 16 if letters == "a" else 40)
    assert math.fsum(map(math.exp, scores.values())) == pytest.approx(1)
    letter_by_letter = sum(scores[letter] for word in corpus for letter in word)
    assert letter_by_letter < likelihood(corpus, scores) < 0


@pytest.mark.parametrize(
    ("corpus", "size", "options", "message"),
    [
        ({}, 9, {}, "there are no words: give at least one with a character in it"),
        ({"": 3}, 9, {}, "no words"),
        ({"ab": 0}, 9, {}, "'ab' has count 0: give counts from 1"),
        ({"abc": 1}, 2, {}, "size=2 is smaller than the 3 characters"),
        ({"abc": 1}, 9, {"seed_size": 2}, "seed_size=2 is smaller than the 3 characters"),
        ({"abc": 1}, 9, {"shrinking": 0}, "shrinking=0: give a share between 0 and 1"),
        ({"abc": 1}, 9, {"shrinking": 1.0}, "shrinking=1.0: give a share between 0 and 1"),
        ({"abc": 1}, 9, {"rounds": 0}, "rounds=0, .*: give whole numbers from 1 on"),
        ({"abc": 1}, 9, {"max_token_length": 0}, "max_token_length=0: give whole numbers"),
        ({"abc": 1}, 9, {"seed": {"a": 1}}, "'bc' of the words are no tokens"),
        ({"a": 1}, 9, {"seed": {"a": 1, "": 1}}, "the empty string is among the tokens: leave"),
        ({"a": 1}, 9, {"seed": {"a": 0}}, "the seed has a count of 0"),
    ],
)
def test_bad_input(corpus, size, options, message):
    with pytest.raises(ValueError, match=message):
        learn(corpus, size, **options)


# ---- sentencepiece -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def texts(finnish):
    return {"hpo": list(th.load_corpus("hpo")), "finnish": finnish}


@pytest.mark.parametrize("name", one_fast("hpo", "finnish"))
def test_likelihood_against_sentencepiece(texts, name):
    """8,000 pieces, the same words, scores made to sum to 1: no worse than 1 % a character."""
    documents = [" ".join(text.split()) for text in texts[name]]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(documents),
        model_writer=model,
        model_type="unigram",
        vocab_size=8_000,
        normalization_rule_name="identity",
        split_by_unicode_script=False,
        split_by_number=False,
        character_coverage=1.0,
        max_sentence_length=10**8,
        num_threads=2,
        minloglevel=2,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = [i for i in range(8_000) if not (theirs.is_control(i) or theirs.is_unknown(i))]
    scores = np.array([theirs.get_score(i) for i in ids])
    scores -= np.logaddexp.reduce(scores)
    pieces = dict(zip(map(theirs.id_to_piece, ids), scores.tolist(), strict=True))
    corpus = Counter("▁" + word for text in documents for word in text.split(" ") if word)
    ours = learn(corpus, len(ids))
    assert len(ours) == len(ids)
    assert likelihood(corpus, ours) >= 1.01 * likelihood(corpus, pieces)


def test_textbook_counts_where_a_token_is_impossible():
    """A place that no token reaches is no segmentation's; a word that none spells is an error."""
    counts, _ = tb.unigram_expected_counts(["fun"], {"f": 0.5, "u": 0.2, "n": 0, "un": 0.3})
    assert {token: round(n, 9) for token, n in counts.items()} == {"f": 1, "u": 0, "n": 0, "un": 1}
    with pytest.raises(ValueError, match="no tokens of p spell the word 'nu'"):
        tb.unigram_expected_counts(["nu"], {"f": 0.5, "u": 0.2, "n": 0, "un": 0.3})
