"""The compiled merge loop against its definition, where its buffers grow and its ties are close."""

from collections import Counter

import numpy as np
import psutil
import pytest
from hypothesis import given, strategies as st

from tokhelpers import textbook
from tokhelpers.train.merges import learn_merges


def flat(words: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum([len(w) for w in words])])
    return np.array([i for w in words for i in w], np.int32), offsets


def naming(form: dict[int, tuple], first: int):
    """What two symbols become: the id of the joined token, from ``first`` on where it is new."""
    known = {joined: i for i, joined in form.items()}

    def becomes(left, right):
        joined = form[left] + form[right]
        form[known.setdefault(joined, first + len(known))] = joined
        return known[joined]

    return becomes


def check_greedy(words, counts, best, steps, min_frequency=1):
    """Each merge is the best of the pairs, recounted from nothing at its turn."""
    form = {i: (i,) for word in words for i in word}
    name = naming(form, 100 + max(form))

    def rank(pair):
        a, b = pair
        joined = form[a] + form[b]
        if best == "score":
            return -pairs[pair] / (float(symbols[a]) * float(symbols[b])), pair
        return (-pairs[pair], len(joined), joined) if best == "token" else (-pairs[pair], pair)

    options = {"best": best, "min_frequency": min_frequency}
    learned = learn_merges(*flat(words), np.array(counts), name, **options)
    for _ in range(steps):
        pairs, symbols = textbook.count_pairs(zip(words, counts, strict=True)), Counter()
        for word, n in zip(words, counts, strict=True):
            for symbol in word:
                symbols[symbol] += n
        frequent = [pair for pair, n in pairs.items() if n >= min_frequency]
        merge = next(learned, None)
        if not frequent:
            assert merge is None
            return
        *pair, new, n = merge
        assert tuple(pair) == min(frequent, key=rank) and n == pairs[tuple(pair)]
        words = [textbook.merge_pair(word, tuple(pair), new) for word in words]


each_order = pytest.mark.parametrize("best", ["pair", "token", "score"])


@each_order
@pytest.mark.parametrize(("n_words", "skew"), [(160, 4), (180, 1.5), (350, 1)])
def test_more_pairs_than_there_was_room_for(best, n_words, skew):
    """Room for 1,024 pairs and occurrences at first: it runs out while merging, or before."""
    random = np.random.default_rng(n_words)
    lengths = random.integers(1, 16, n_words)
    words = [(50 * random.random(n) ** skew).astype(int).tolist() for n in lengths] + [[0, 0, 0]]
    check_greedy(words, random.integers(1, 9, len(words)).tolist(), best, steps=30)


@each_order
def test_a_word_longer_than_the_room(best):
    """The first occurrence of all is where the room runs out."""
    word = [0, 1] * 20 + np.random.default_rng(0).integers(0, 40, 700).tolist()
    check_greedy([word], [1], best, steps=20)


def test_ten_thousand_pairs():
    """The table from pairs to rows grows several times; the most frequent pair is seen last."""
    words = [[i, j] for i in range(100) for j in range(100)] + [[0, 0]]
    check_greedy(words, [1] * 10_000 + [2], "pair", steps=2)


@each_order
@given(
    st.dictionaries(
        st.text("ab", min_size=1, max_size=12), st.integers(1, 5), min_size=1, max_size=8
    ),
    st.integers(0, 4),
)
def test_greedy_where_tokens_recur(best, corpus, min_frequency):
    """Symbols that come about again, in two ways, or beside themselves."""
    words = [[ord(c) for c in word] for word in corpus]
    check_greedy(words, list(corpus.values()), best, 99, min_frequency)


def test_counts_that_would_not_be_exact_are_refused():
    """As float64, 2^53 and 2^53 + 1 are one number: the smaller ids would go first."""
    words = flat([[0, 1], [2, 3]])
    for counts in ([2**53, 2**53 + 1], [2**51, 1], [2**62, 2**62]):
        with pytest.raises(
            ValueError, match=r"words have .* symbols, each counted.*: divide the counts"
        ):
            next(learn_merges(*words, np.array(counts), lambda a, b: 4))
    most = np.array([2**50 - 1, 2**50])
    assert next(learn_merges(*words, most, lambda a, b: 4)) == (2, 3, 4, 2**50)


# so many characters that four of a token are compared at once, the others one by one
OTHERS = dict.fromkeys(map(chr, range(0x4E00, 0x4F00)), 1)
long_words = st.dictionaries(st.text("ab", min_size=5, max_size=14), st.integers(1, 2), min_size=2)


@given(long_words)
def test_of_equals_the_first_token_however_long(corpus):
    words = [[ord(c) for c in word] for word in corpus | OTHERS]
    check_greedy(words, [*(corpus | OTHERS).values()], "token", steps=40)


def learned_from(words: dict, vocab: list[str], base_merges=None, **options):
    """The merges learned, as strings with their counts; ``base_merges`` are to be continued."""
    id_of = {token: i for i, token in enumerate(vocab)}
    form = {i: tuple(token) for token, i in id_of.items()}
    if base_merges is not None:
        merges = [[id_of[a], id_of[b], id_of[a + b]] for a, b in base_merges]
        options |= {
            "base_merges": np.array(merges, np.int32).reshape(-1, 3),
            "new_from": len(vocab),
        }
    learned = learn_merges(
        *flat([[id_of[c] for c in word] for word in words]),
        np.array(list(words.values())),
        naming(form, 0),
        **options,
    )
    return ["{} {} {}".format("".join(form[a]), "".join(form[b]), n) for a, b, _, n in learned]


# words with their counts, the vocabulary, options, the merges to be learned with their counts
XYZ = (
    {("xy", "z"): 9, ("xy", "z", "x"): 8, ("x", "yz", "x", "yz"): 3},
    ["x", "yz", "xy", "z", "xyzx"],
)
BY_HAND = {
    "abcd f still stands among its former equals, from before f g took some of it": (
        {"abcde": 5, "abcdfg": 4, "abcdf": 1, "abcdb": 5, "abcd": 20, "fg": 7} | OTHERS,
        [*"abcdefg", *OTHERS], {"best": "token"},
        ["a b 35", "c d 35", "ab cd 35", "f g 11", "abcd b 5", "abcd e 5", "abcd fg 4", "abcd f 1"],
    ),
    "a b scores 5 / (5 * 8), then 2 / (2 * 8), the same, but it has become too rare": (
        {"xab": 3, "ab": 2, "b": 3}, [*"xab"], {"best": "score", "min_frequency": 3},
        ["x a 3", "xa b 3"],
    ),
    "a base merge goes as soon as its pair comes about, though c d is as frequent": (
        {"abcd": 2**40, "ab": 1}, [*"abcd", "ab", "abc"], {"base_merges": [("ab", "c")]},
        [f"a b {2**40 + 1}", f"abc d {2**40}"],
    ),
    "base merges are made in the rarest word too, so that a c is left in two of three": (
        {"abac": 1, "ab": 5, "ac": 2}, [*"abc", "ab", "aba"],
        {"base_merges": [("ab", "a")], "min_frequency": 2}, ["a b 6", "a c 2"],
    ),
    "the newest token takes its neighbour, too, when it comes about again": (
        *XYZ, {"base_merges": []}, ["xy z 17", "xyz x 8", "x yz 6", "xyzx yz 3"],
    ),
    "but not where there is nothing to continue": (
        *XYZ, {}, ["xy z 17", "xyz x 8", "x yz 6", "xyz xyz 3"],
    ),
    "the first id can be merged into": (
        {("a", "b", "c", "a", "b"): 2}, ["ab", *"abc"], {"base_merges": []},
        ["a b 4", "ab c 2", "abc ab 2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("words", "vocab", "options", "learned"), BY_HAND.values(), ids=BY_HAND)
def test_small_corpora_by_hand(words, vocab, options, learned):
    assert learned_from(words, vocab, **options) == learned


def test_what_the_loop_held_is_freed_when_enough_is_learned():
    """A million pairs take more than 50 MB."""
    words = flat([np.random.default_rng(0).integers(0, 1_000, 1_000_000).tolist()])
    held = []
    for _ in range(6):
        name = naming({i: (i,) for i in range(1_000)}, 1_000)
        learned = learn_merges(*words, np.array([1]), name)
        next(learned)
        learned.close()
        held.append(psutil.Process().memory_info().rss / 1e6)
    assert held[-1] - held[1] < 100


def test_a_word_that_is_too_long(monkeypatch):
    """An occurrence has 28 bits for a place in a word."""
    monkeypatch.setattr("tokhelpers.train.merges.MAX_PLACES", 3)
    with pytest.raises(ValueError, match="a word has 4 symbols, and 3 are allowed: split"):
        next(learn_merges(*flat([[0, 1, 0, 1]]), np.array([1]), lambda a, b: 2))
