"""The textbook algorithms: the lecture's slides, cases worked by hand, other implementations."""

import io
import itertools
import json
import math
import random
from collections import Counter
from fractions import Fraction

import pytest
import sentencepiece
import tokenizers
from hypothesis import example, given, strategies as st
from strategies import examples
from tokenizers import decoders, models, pre_tokenizers, trainers

from tokhelpers import textbook as tb
from tokhelpers.notebook.records import published


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


# ---- the lecture's slides, whose numbers stand in data/paper -------------------------------------
def slide(table, **where):
    """The rows of a published table that have the given values."""
    rows = published(f"lecture_{table}").to_dict("records")
    return [row for row in rows if all(row[k] == v for k, v in where.items())]


def column(table, key, value, **where):
    """Two columns of a published table: one as keys, one as values."""
    return {row[key]: row[value] for row in slide(table, **where)}


def test_lecture_bpe():
    trace = []
    cats = {"cat": 10, "bat": 5, "bag": 12, "tag": 4, "cats": 5}
    V, M = tb.train_bpe(cats, 9, trace=trace)
    assert list(V) == ["a", "b", "c", "g", "s", "t", "at", "ag", "cat"]
    for i in (0, 1):
        # The slides leave out (t, a) of tag, with its dots.
        counts = {"".join(pair): n for pair, n in trace[i]["counts"].items()}
        assert counts == column("bpe_pairs", "pair", "frequency", merges=i) | {"ta": 4}
    for i, step in enumerate(trace, 1):
        (now,) = slide("bpe_merges", merges=i)
        assert (", ".join(step["merge"]), step["token"]) == (now["pair"], "".join(M[i - 1]))
        assert now["vocabulary"].split(", ") == list(V)[: 6 + i]
        on_slide = slide("bpe_corpus", merges=i)
        assert step["corpus"] == [(r["split"].split(", "), r["frequency"]) for r in on_slide]
    for word, split in column("bpe_examples", "word", "split").items():
        assert ", ".join(tb.tokenize_bpe(word, V, M)) == split
    assert tb.tokenize_bpe("mat", V, M) == tb.tokenize_bpe_by_rank("mat", V, M) == ["[UNK]", "at"]


FLOWERS = {"sunflower": 1, "sun": 2, "flower": 1, "flow": 1}
FLOWERS |= {"flowers": 1, "flowing": 2, "flows": 2, "flowed": 1}


def test_lecture_wordpiece_scores_and_merges():
    trace = []
    assert column("wordpiece_corpus", "word", "frequency") == FLOWERS
    V = tb.train_wordpiece(FLOWERS, 17, tie="first", trace=trace)
    assert list(V)[14:] == ["su", "##er", "##ed"]
    for i, step in enumerate(trace):
        scores = {", ".join(p): round(float(score), 2) for p, score in step["scores"].items()}
        on_slide = column("wordpiece_scores", "pair", "score", merges=i)
        assert on_slide and on_slide.items() <= scores.items()
        (after,) = slide("wordpiece_merges", merges=i + 1)
        assert ", ".join(step["merge"]) == after["pair"]
        assert ", ".join(list(V)[: 15 + i]) == after["vocabulary"]
    # Exact, so that ties are ties.
    assert trace[0]["scores"]["s", "##u"] == Fraction(3, 3 * 3)
    assert trace[0]["scores"]["##e", "##r"] == trace[0]["scores"]["##e", "##d"] == Fraction(1, 4)
    assert trace[0]["counts"]["##l", "##o"] == 9
    assert list(tb.train_wordpiece(FLOWERS, 17))[14:] == ["su", "##ed", "##er"]


def test_lecture_wordpiece_tokenizes():
    V, trace = tb.train_wordpiece(FLOWERS, 18, tie="first", special_tokens=["[UNK]"]), []
    ids = tb.tokenize_wordpiece("fused", V, trace=trace)
    examples = column("wordpiece_examples", "word", "split", tokenization="wordpiece")
    assert examples == {"fused": ", ".join(tokens_of(ids, V)), "funny": "<UNK>"}
    assert trace[0]["tried"] == ["fused", "fuse", "fus", "fu", "f"]
    assert [step["tried"][-1] for step in trace] == ["f", "##u", "##s", "##ed"]
    # The slide splits funny at a doubled n, as BPE would: f ##u ##n ##n and the missing ##y.
    trace = []
    assert tb.tokenize_wordpiece("funny", V, trace=trace) == [V["[UNK]"]]
    assert [step["token"] for step in trace] == ["f", "##u", "##n", "##n", None]


RUNS = {"run": 3, "bug": 5, "fun": 13, "sun": 10}
EXACT = {"e_step": "substrings", "drop": 0, "log": math.log10}


def test_lecture_unigram_frequencies_probabilities_and_exact_losses():
    seed = tb.unigram_seed(RUNS)
    assert seed == column("unigram_tokens", "token", "frequency", iteration=1)
    assert sum(seed.values()) == 155  # P(su) is 10/155; the slide's "hu" and 15/155 are left over
    trace = []
    tb.train_unigram(RUNS, 12, **EXACT, trace=trace)
    products = {"run": 3 * 26, "bug": 5 * 5, "fun": 13 * 26, "sun": 10 * 26}
    for i, (step, total) in enumerate(zip(trace, [155, 129], strict=True), 1):
        p = {x: round(probability, 4) for x, probability in step["p"].items()}
        assert p == column("unigram_tokens", "token", "probability", iteration=i)
        by_hand = sum(-RUNS[w] * math.log10(product / total**2) for w, product in products.items())
        assert step["loss"] == pytest.approx(by_hand, abs=1e-9)
    assert round(trace[0]["loss"], 3) == 66.109  # the slides lose 0.007 by rounding


def test_lecture_unigram_segmentations_and_losses():
    """The slides' losses: base 10, and from probabilities rounded to four digits."""
    trace = []
    tb.train_unigram(RUNS, 11, **EXACT, digits=4, trace=trace)
    for i, step in enumerate(trace[:2], 1):
        table = {w: (", ".join(x), math.exp(s)) for w, (x, s) in step["segmentation"].items()}
        for row in slide("unigram_words", iteration=i):
            split, score = table[row["word"]]
            assert (split, round(score, 8)) == (row["split"], row["score"])
        losses = column("unigram_losses", "removed", "loss", iteration=i)
        assert round(step["loss"], 3) == losses.pop("none")
        assert step["losses"].keys() == losses.keys()
        for x, loss in losses.items():
            assert round(step["losses"][x], 4 if (i, x) == (2, "ru") else 3) == loss
    # The slides take un "randomly", then bu or ug; here, the last of equals.
    assert [step["removed"] for step in trace] == [["un"], ["ug"], []]
    p = column("unigram_tokens", "token", "probability", iteration=1)
    for split, probability in column("unigram_segmentations", "split", "probability").items():
        value = math.prod(p[x] for x in split.split(", "))
        assert value == pytest.approx(probability, abs=5e-10)
    tokens, score = tb.tokenize_unigram("run", p)
    assert (tokens, math.exp(score)) == (["ru", "n"], pytest.approx(0.00325338))


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
every_e_step = pytest.mark.parametrize("e_step", ["expected", "substrings"])


@every_trainer
@given(corpora(), st.randoms())
def test_document_order_does_not_matter(train, words, rng):
    shuffled = rng.sample(documents(words), sum(words.values()))
    assert train(shuffled, 40) == train(words, 40)


@every_e_step
@given(small_corpora, st.randoms())
def test_unigram_document_order_does_not_matter(e_step, words, rng):
    shuffled = rng.sample(documents(words), sum(words.values()))
    size = len(set("".join(words))) + 3
    expected = tb.train_unigram(words, size, e_step=e_step)
    assert [*tb.train_unigram(shuffled, size, e_step=e_step).items()] == [*expected.items()]


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


def test_byte_characters_are_the_librarys():
    assert sorted(tb.BYTE_CHARS) == sorted(pre_tokenizers.ByteLevel.alphabet())
    bytelevel = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    text = "".join(map(chr, range(0x250))) + "あ\U0010ffff"  # every byte that UTF-8 can have ...
    ((expected, _),) = bytelevel.pre_tokenize_str(text)
    assert "".join(tb.BYTE_CHARS[byte] for byte in text.encode()) == expected


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


# The library leaves stale counts where a form recurs: BpeTrainer with continuing_subword_prefix
# "##" on the one word "####", twice, makes (#, ####) and (###, ###) in this order, the first from
# a pair that stands nowhere. Byte-level training from single bytes has no form that recurs, and
# `train_wordpiece` refuses a word with the prefix in it.
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
        assert tb.tokenize_bpe_by_rank(word, *learned) == tokens


def sentencepiece_bpe(words, vocab_size):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(documents(words)),
        model_writer=model,
        model_type="bpe",
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        split_by_unicode_script=False,
        split_by_number=False,
        normalization_rule_name="identity",
        max_sentencepiece_length=512,
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@given(corpora(), st.integers(0, 20))
def test_sentencepiece_bpe_equals_sentencepiece(words, n):
    words = {word: count for word, count in words.items() if word}
    with_space = {"▁" + word: count for word, count in words.items()}
    characters = len(set("".join(with_space)))
    V, M = tb.train_sentencepiece_bpe(with_space, characters + n, byte_tokens=())
    processor = sentencepiece_bpe(words, 1 + characters + n)  # the first piece is <unk>
    pieces = [processor.id_to_piece(i) for i in range(1, processor.get_piece_size())]
    merged = [piece for piece in pieces if len(piece) > 1]
    learned = list(V)[characters:]
    assert merged[: len(learned)] == learned
    if len(learned) == n:
        assert len(merged) == n
        for word in words:
            tokens = processor.encode(word, out_type=str)
            assert tokens_of(tb.tokenize_sentencepiece_bpe("▁" + word, V, M), V) == tokens
            assert tb.tokenize_bpe_by_rank("▁" + word, V, M) == tokens
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
    assert tb.tokenize_bpe_by_rank(word, V, [list(rule) for rule in M]) == expected


def test_wordpiece_unknown_and_too_long_words():
    V = numbered("[UNK]", "a", "##a")
    assert tb.tokenize_wordpiece("aaa", V, chunk_max=3) == [1, 2, 2]
    assert tb.tokenize_wordpiece("aaaa", V, chunk_max=3) == [0]
    assert [tb.tokenize_wordpiece(word, V) for word in ("a", "", "ab")] == [[1], [], [0]]
    assert tb.tokenize_wordpiece("[UNK]", V) == [0]
    with pytest.raises(ValueError, match="the token '<unk>' is not in vocab: .* unknown token"):
        tb.tokenize_wordpiece("b", V, unk="<unk>")


def test_traces_of_byte_level_bpe_adaptbpe_and_pruning_by_hand():
    trace, V = [], numbered("Ã", "©", "a", "Ã©", "aÃ")
    M = [("Ã", "©"), ("a", "Ã")]
    assert tb.tokenize_byte_level_bpe("aé", V, M, trace=trace) == [2, 3]
    assert trace == [
        {"rule": None, "tokens": ["a", "Ã", "©"]},
        {"rule": ("Ã", "©"), "tokens": ["a", "Ã©"]},
    ]
    trace, V = [], numbered("a", "b", "c", "d", "ab", "abc", "bc", "bcd")
    assert tb.tokenize_adapt_bpe("abca", V, [("a", "bc")], ["bc"], trace=trace) == ["abc", "a"]
    assert trace == [
        {"match": "bc", "tokens": ["a", "bc", "a"]},
        {"rule": ("a", "bc"), "tokens": ["abc", "a"]},
    ]
    # The longest match is taken first, though another begins before it.
    assert tb.tokenize_adapt_bpe("abcdab", V, [], ["ab", "bcd"]) == ["a", "bcd", "ab"]
    # The count of abc flows to ab and c, that of ab to a and b.
    trace, V = [], numbered("a", "b", "c", "ab", "abc")
    M = [("a", "b"), ("ab", "c")]
    assert tb.prune_leaves(V, M, {"ab": 1, "abc": 2}, trace=trace) == ["abc", "ab"]
    assert trace == [
        {"token": "abc", "count": 2, "parts": ["ab", "c"]},
        {"token": "ab", "count": 3, "parts": ["a", "b"]},
    ]
    # ab is a leaf only when both tokens made of it are gone.
    V, M = numbered("a", "b", "c", "ab", "abc", "aba"), [*M, ("ab", "a")]
    assert tb.prune_leaves(V, M, {"abc": 1, "aba": 9}) == ["abc", "aba", "ab"]


def test_rules_may_be_lists_as_in_json():
    V, M = tb.train_byte_level_bpe({"abc": 2}, 258)
    lists = [list(m) for m in M]
    assert tb.tokenize_bpe("abc", V, lists) == ["abc"]
    for tokenize in (tb.tokenize_byte_level_bpe, tb.tokenize_sentencepiece_bpe):
        assert tokens_of(tokenize("abc", V, lists), V) == ["abc"]
    for extend in (tb.extend_sentencepiece_bpe, tb.extend_byte_level_bpe):
        assert extend({"a": 0}, [], V, lists)[1] == extend(V, lists, {}, [])[1] == M


def test_byte_fallback_by_hand():
    V, M = tb.train_sentencepiece_bpe({"▁a": 2}, 261, special_tokens=["<unk>", "<s>"])
    assert list(V) == ["<unk>", "<s>", *tb.BYTE_TOKENS, "a", "▁", "▁a"]
    # é is C3 A9; the printed line 31 runs over the chunk's length and would miss or overrun.
    ids = tb.tokenize_sentencepiece_bpe("▁aé", V, M)
    assert tokens_of(ids, V) == ["▁a", "<0xC3>", "<0xA9>"]
    V, M = tb.train_sentencepiece_bpe({"▁a": 2}, 3, byte_tokens=())
    for tokenize in (tb.tokenize_sentencepiece_bpe, tb.tokenize_byte_level_bpe):
        with pytest.raises(ValueError, match="the token .* is not in vocab: vocab must hold all"):
            tokenize("é", V, M)


# ---- extending -----------------------------------------------------------------------------------
def test_extend_wordpiece_by_hand():
    V, V_D = numbered("[UNK]", "a", "##b"), {"##c": 2, "[UNK]": 0, "ab": 3, "a": 1}
    trace = []
    expected = numbered("[UNK]", "a", "##b", "##c", "ab")
    assert tb.extend_wordpiece(V, V_D, trace=trace) == expected
    assert [row["token"] for row in trace] == ["[UNK]", "a", "##c", "ab"]  # the supplement's ids
    assert [row["new"] for row in trace] == [False, False, True, True]
    assert len(V) == 3


def test_extend_sentencepiece_bpe_by_hand():
    """abc comes from a + bc in the supplement; ab + c is the other split, and a token here."""
    V_D = numbered("<0x0A>", "b", "c", "a", "bc", "ab", "abc")
    trace, old = [], (numbered("<s>", "a", "b", "ab"), [("a", "b")])
    M_D = [("b", "c"), ("a", "b"), ("a", "bc")]
    V_N, M_N = tb.extend_sentencepiece_bpe(*old, V_D, M_D, trace=trace)
    assert list(V_N) == ["<s>", "a", "b", "ab", "c", "bc", "abc"]
    assert trace[-1] == {"token": "abc", "id": 6, "merges": [("a", "bc"), ("ab", "c")]}
    # That rule matters: the old (a, b) still comes first.
    assert tokens_of(tb.tokenize_sentencepiece_bpe("abc", V_N, M_N), V_N) == ["abc"]


@given(corpora(("abc",)), corpora(("abcd",)))
def test_extensions_keep_the_old_and_hold_the_new(words, supplement):
    for train, extend in [
        (tb.train_sentencepiece_bpe, tb.extend_sentencepiece_bpe),
        (tb.train_byte_level_bpe, tb.extend_byte_level_bpe),
    ]:
        (V, M), (V_D, M_D) = train(words, 268), train(supplement, 268)
        V_N, M_N = extend(V, M, V_D, M_D)
        assert V_N.keys() == V.keys() | V_D.keys()
        assert list(V_N.items())[: len(V)] == list(V.items())
        assert list(V_N.values()) == list(range(len(V_N)))
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


@every_e_step
@given(small_corpora, st.integers(0, 6), st.sampled_from([0, 0.2, 0.5]))
def test_unigram_training(e_step, words, more, drop):
    alphabet = set("".join(words))
    trace = []
    p = tb.train_unigram(words, len(alphabet) + more, e_step=e_step, drop=drop, trace=trace)
    assert alphabet <= p.keys()
    assert len(p) == min(len(alphabet) + more, len(tb.unigram_seed(words)))
    assert sum(p.values()) == pytest.approx(1)
    ten = {x: float(f"{p[x]:.9e}") for x in p}  # equal to ten digits is a tie
    assert sorted(p, key=lambda x: (-ten[x], x)) == list(p)
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


def test_unigram_ties_do_not_hang_on_the_last_bit():
    """The corpus is its own mirror image, so that a token and its mirror image tie."""
    trace = []
    tb.train_unigram({"aaab": 3, "baaa": 3}, 3, e_step="substrings", drop=0, trace=trace)
    for step in trace[:-1]:
        losses = step["losses"]
        least = min(losses.values())
        assert step["removed"] == [max(x for x in losses if losses[x] < least + 1e-8)]
    # ba b b b and b ab b b are equally probable: the longer first token.
    p = {"a": 0.2, "b": 0.3, "ab": 0.2, "ba": 0.2, "aa": 0.1}
    assert tb.tokenize_unigram("babbb", p)[0] == ["ba", "b", "b", "b"]


def test_unigram_characters_that_em_starves_stay_possible():
    words = {"ab": 3, "aab": 3, "あa": 1, "aaあああああいいいいい": 1}
    p = tb.train_unigram(words, 7)
    assert set("abあい") < p.keys()
    assert min(p[x] for x in "abあい") > 1e-3
    assert tb.tokenize_unigram("bいあ", p)[0] == list("bいあ")


def test_unigram_unknown_characters():
    p = {"a": 0.5, "b": 0.3, "ab": 0.2}
    tokens, score = tb.tokenize_unigram("abxa", p)
    assert tokens == ["ab", "<unk>", "a"]
    assert score == pytest.approx(math.log(0.2) + (math.log(0.2) - 10) + math.log(0.5))
    assert tb.tokenize_unigram("", p) == ([], 0.0)


# ---- bad input -----------------------------------------------------------------------------------
every_training = pytest.mark.parametrize(
    "train", [*TRAINERS.values(), tb.train_unigram], ids=[*TRAINERS, "unigram"]
)


@every_training
@pytest.mark.parametrize(
    "words, error, message",
    [
        ({"": 5}, ValueError, "the corpus is empty"),
        ("some text", TypeError, "words is one string, 'some text': give a list of strings"),
        ({"ab": 0}, ValueError, "the word 'ab' has count 0: give whole numbers from 1 on"),
        ({"ab": 1.5}, ValueError, "the word 'ab' has count 1.5"),
    ],
)
def test_bad_corpora(train, words, error, message):
    with pytest.raises(error, match=message):
        train(words, 20)


@every_training
def test_vocabulary_smaller_than_the_alphabet(train):
    size = -1 if train is TRAINERS["bytes"] else 2
    with pytest.raises(ValueError, match=r"vocab_size=\d+ is smaller than the (3|256) .* at least"):
        train({"abc": 1}, size)


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
    with pytest.raises(ValueError, match="tie='last' is unknown: give 'ids' or 'first'"):
        tb.train_wordpiece(["ab"], 10, tie="last")


def test_unigram_refuses_what_lacks_a_character():
    with pytest.raises(ValueError, match="the seed lacks .'b'.: it must hold every character of"):
        tb.train_unigram(["ab"], 10, seed={"a": 1})
    with pytest.raises(ValueError, match="e_step='hard': give 'expected' or 'substrings'"):
        tb.train_unigram(["ab"], 10, e_step="hard")
    p = {"f": 0.5, "u": 0.2, "n": 0, "un": 0.3}
    counts, _ = tb.unigram_expected_counts(["fun"], p)
    assert counts == pytest.approx({"f": 1, "u": 0, "n": 0, "un": 1})
    with pytest.raises(ValueError, match="no tokens of p spell the word 'nu'"):
        tb.unigram_expected_counts(["nu"], p)
