"""The Unigram learner against the textbook, the definition of its seed, and sentencepiece."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st
from spm import processor_of, train_spm
from strategies import examples, one_fast

import tokhelpers as th
from tokhelpers import textbook as tb
from tokhelpers.train.substrings import find_repeats, write_text
from tokhelpers.train.unigram import learn_unigram

alphabets = st.sampled_from(["a", "ab", "abc", "▁ab", "aéあ😀", "abcdef"])


def corpora(max_length=10):
    """Words with counts over 1 to 6 letters: runs, one-letter words, many ties."""
    words = alphabets.flatmap(lambda letters: st.text(letters, min_size=1, max_size=max_length))
    return st.dictionaries(words, st.integers(1, 3), min_size=1, max_size=8)


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
            logs.append(np.logaddexp.reduce([logs[k] + scores[word[k:end]] for k in fitting]))
        total += count * logs[-1]
    return total


# ---- the textbook and the definition -----------------------------------------------------------


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


short_words = st.tuples(corpora(), st.sampled_from([1, 2, 3, 16]))
long_words = st.tuples(corpora(max_length=40), st.just(3))  # much longer than any token


@given(short_words | long_words, st.integers(0, 12), st.sampled_from([0.25, 0.5, 0.75, 0.9]))
@examples(300)
def test_learning_equals_the_textbook(case, more, shrinking):
    """The same tokens in the same order, and their probabilities to nine digits."""
    corpus, longest = case
    size = len(set("".join(corpus))) + more
    seed = brute_force_repeats(corpus, longest)
    expected = tb.train_unigram(corpus, size, seed=seed, drop=1 - shrinking)
    expected = {token: p for token, p in expected.items() if p > 0}
    scores = learn(corpus, size, max_token_length=longest, shrinking=shrinking)
    assert list(scores) == list(expected)
    assert [math.exp(x) for x in scores.values()] == pytest.approx([*expected.values()], rel=1e-9)


@given(corpora(), st.integers(1, 6), st.integers(6, 20))
@examples(300)
def test_repeats_equal_their_definition(corpus, max_length, most):
    words = sorted(corpus)
    text = write_text(words)
    counts = np.array([corpus[word] for word in words])
    places, totals, matches = find_repeats(text, counts, most, max_length)
    found = dict(zip(text.read(places, matches.lengths), totals.tolist(), strict=True))
    expected = brute_force_repeats(corpus, max_length)
    longer = sorted((x for x in expected if len(x) > 1), key=lambda x: (-expected[x] * len(x), x))
    characters = [x for x in expected if len(x) == 1]
    chosen = [*characters, *longer[: most - len(characters)]]
    assert list(found.items()) == [(x, expected[x]) for x in sorted(chosen)]
    ends = itertools.pairwise(matches.offsets.tolist())
    assert [[list(found)[t] for t in matches.tokens[a:b]] for a, b in ends] == [
        [word[i:j] for j in range(i + 1, len(word) + 1) if word[i:j] in found]
        for word in words
        for i in range(len(word) + 1)
    ]


# ---- sentencepiece -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", one_fast("hpo", "wordfreq:fi"))
def test_likelihood_against_sentencepiece(name):
    """8,000 pieces, the same words, scores made to sum to 1: no worse than 1 % per character."""
    documents = [" ".join(text.split()) for text in th.load_corpus(name, chars=1_000_000)]
    options = {"model_type": "unigram", "max_sentence_length": 10**8, "num_threads": 2}
    one_script = {"split_by_unicode_script": False, "split_by_number": False}
    theirs = processor_of(train_spm(documents, 8_000, **options, **one_script))
    ids = [i for i in range(8_000) if not (theirs.is_control(i) or theirs.is_unknown(i))]
    scores = np.array([theirs.get_score(i) for i in ids])
    scores -= np.logaddexp.reduce(scores)
    pieces = dict(zip(map(theirs.id_to_piece, ids), scores.tolist(), strict=True))
    corpus = Counter("▁" + word for text in documents for word in text.split(" ") if word)
    ours = learn(corpus, len(ids))
    assert len(ours) == len(ids)
    assert likelihood(corpus, ours) >= 1.01 * likelihood(corpus, pieces)


@pytest.mark.parametrize("letters", ["abc", "abc <0x41>"])
def test_text_that_spells_a_byte_token_comes_back(letters):
    made = th.train_unigram([f"{letters} ä", "abc abc"], vocab_size=None)
    for text in ("<0x41>", "a<0x41><0xC3> <0x0A>b", "<0x41", "<0xZZ>", "<<0x41>>", "<0x4a>"):
        ids = made.encode(text).ids
        assert made.decode(ids) == text
        assert th.evaluate(made, [text]).tokens == len(ids)
