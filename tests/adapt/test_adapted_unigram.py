"""Unigram tokenizers, pruned and extended: against the textbook, the library and sentencepiece."""

import json
import math
import random

import pytest
from hypothesis import given, strategies as st
from spm import processor_of
from strategies import examples
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

import tokhelpers as th
from tokhelpers import textbook
from tokhelpers.adapt.unigram_extension import UnigramParts
from tokhelpers.train.unigram import learn_scores

TEXT = ["the cat sat on the mat", "a bat, a hat; that cat!", "ääkkösiä öisin, yötä päivää"] * 3
MEDICAL = ["pneumonia and pneumonitis, pneumothorax", "hepatitis, hepatic pneumonia"] * 4


@pytest.fixture(scope="module", params=[True, False], ids=["byte fallback", "unknown"])
def base(request) -> Tokenizer:
    size = 380 if request.param else 120
    special = ["<unk>", "<s>", "</s>"]
    options = {"byte_fallback": request.param, "special_tokens": special, "vocab_size": size}
    return th.train_unigram([*th.load_corpus("wordfreq:en", chars=20_000), *TEXT][-400:], **options)


def texts(n: int, pieces: list[str]) -> list[str]:
    draw = random.Random(n)
    parts = [
        *(p.replace("▁", " ") for p in pieces),
        "é",
        "日本",
        "<pruned 300>",
        "<0x41>",
        " ",
        "xyz",
    ]
    return ["".join(draw.choices(parts, k=draw.randrange(1, 8))) for _ in range(n)]


def ids_are_those_of_sentencepiece(tokenizer: Tokenizer, folder, some: list[str]) -> None:
    """After saving and loading, as tokenizer.json and as a SentencePiece model."""
    th.save_sentencepiece(tokenizer, folder / "some.model")
    processor = processor_of((folder / "some.model").read_bytes())
    again = Tokenizer.from_str(tokenizer.to_str())
    assert again.to_str() == tokenizer.to_str()
    assert processor.vocab_size() == tokenizer.get_vocab_size()
    for text in some:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert again.encode(text, add_special_tokens=False).ids == ids
        assert processor.encode(text) == ids, text


@pytest.mark.parametrize("by", ["frequency", "id"])
def test_pruned_pieces_go_and_the_others_keep_their_scores(base, by, tmp_path):
    parts = UnigramParts.from_tokenizer(base)
    order = th.pruning_order(base, TEXT if by == "frequency" else None, by=by)
    assert set(order) == set(parts.prunable()) and not {len(p) for p in order} & {1}
    counts = th.count_tokens(base, th.count_pretokens(TEXT, base))
    key = [
        counts[base.token_to_id(p)] if by == "frequency" else -base.token_to_id(p) for p in order
    ]
    assert key == sorted(key)
    small = th.prune(base, order, 20)
    left = UnigramParts.from_tokenizer(small).scores
    assert list(left.items()) == [(p, s) for p, s in parts.scores.items() if p not in order[:20]]
    assert th.prune(th.prune(base, order, 8), order, 12).to_str() == small.to_str()
    assert small.decode(small.encode("the cat").ids) == "the cat"
    ids_are_those_of_sentencepiece(small, tmp_path, texts(300, order))


def test_pruned_pieces_leave_their_ids_behind(base, tmp_path):
    order = th.pruning_order(base, TEXT, by="frequency")
    small, n = th.prune(base, order, 20, keep_ids=True), 20
    pruned = {base.token_to_id(piece) for piece in order[:n]}
    vocab = small.get_vocab()
    assert {p: i for p, i in base.get_vocab().items() if i not in pruned}.items() <= vocab.items()
    assert len(vocab) == base.get_vocab_size()
    renumbered = th.prune(base, order, n)
    for text in texts(300, order):
        encoded = small.encode(text, add_special_tokens=False)
        assert pruned.isdisjoint(encoded.ids)
        assert encoded.tokens == renumbered.encode(text, add_special_tokens=False).tokens
        if base.decode(base.encode(text).ids) == text:
            assert small.decode(encoded.ids) == text
    ids_are_those_of_sentencepiece(small, tmp_path, texts(300, order))


def test_new_pieces_are_used_and_old_text_stays(base, tmp_path):
    other = th.train_unigram(MEDICAL, vocab_size=None)
    new = [p for p in UnigramParts.from_tokenizer(other).prunable() if p not in base.get_vocab()]
    longer = th.extend(base, th.Extension(new), corpus=MEDICAL)
    assert [longer.token_to_id(p) for p in new] == [
        base.get_vocab_size() + i for i in range(len(new))
    ]
    old, scores = (UnigramParts.from_tokenizer(t).scores for t in (base, longer))
    assert {p: scores[p] for p in old} == old
    assert len(longer.encode("pneumonia").ids) < len(base.encode("pneumonia").ids)
    for text in ("the cat sat", "a bat"):
        assert longer.encode(text).ids == base.encode(text).ids
    ids_are_those_of_sentencepiece(
        longer, tmp_path, texts(300, [*new, *UnigramParts.from_tokenizer(base).prunable()])
    )
    counts = th.count_pretokens(MEDICAL, base)
    assert th.extend(base, th.Extension(new), corpus=counts).to_str() == longer.to_str()
    assert th.extend(base, th.Extension([]), corpus=MEDICAL).to_str() == base.to_str()


def test_scores_can_be_interpolated(base):
    """google/sentencepiece issue 822: new_prob = alpha * exp(score) + (1 - alpha) * exp(score)."""
    other = th.train_unigram(MEDICAL, vocab_size=None)
    here, there = (UnigramParts.from_tokenizer(t) for t in (base, other))
    new = [p for p in there.prunable() if p not in base.get_vocab()]
    scores = UnigramParts.from_tokenizer(
        th.extend(base, th.Extension(new), supplement=other, alpha=0.25)
    ).scores
    assert list(scores) == [*here.scores, *new]
    for piece, score in scores.items():
        if piece in here.fixed:
            assert score == here.scores[piece]
            continue
        p = [math.exp(s[piece]) if piece in s else 0 for s in (there.scores, here.scores)]
        assert math.exp(score) == pytest.approx(0.25 * p[0] + 0.75 * p[1], rel=1e-8)


words = st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 9), min_size=1)
pieces = st.lists(st.text("abc", min_size=2, max_size=4), unique=True, min_size=2, max_size=8)


@examples(200)
@given(words, pieces, st.data())
def test_scores_by_em_equal_the_textbook(counts, some, data):
    n = data.draw(st.integers(0, len(some) - 1))
    weights = data.draw(st.lists(st.integers(1, 9), min_size=n + 2, max_size=n + 2))
    known = dict(zip(["a", "b", *some[:n]], weights, strict=True))
    p = {piece: weight / sum(weights) for piece, weight in known.items()}
    old, new = {piece: math.log(x) for piece, x in p.items()}, some[n:]
    learned = learn_scores(list(counts), [*counts.values()], old, new)
    p["c"] = min(p.values()) * math.exp(-10)  # no piece: as an unknown character
    total = {t: sum(k * _occurrences(t, w) for w, k in counts.items()) for t in [*p, *new]}
    p |= {t: max(total[t] / 2, 1) / sum(total.values()) for t in new}
    for _ in range(10):
        expected, _ = textbook.unigram_expected_counts(counts, p)
        expected |= {t: max(expected[t], 1) for t in new if total[t]}
        whole = math.fsum(expected.values())
        p |= {t: max(expected[t], 1) / whole for t in new}
    assert list(learned) == new
    for token in new:
        assert math.exp(learned[token]) == pytest.approx(p[token], rel=1e-6)


def _occurrences(token: str, word: str) -> int:
    return sum(word.startswith(token, i) for i in range(len(word)))


def test_added_tokens_behind_the_vocabulary_keep_their_ids(base):
    longer = Tokenizer.from_str(base.to_str())
    longer.add_tokens([AddedToken("<note>", normalized=False)])
    extended = th.extend(longer, th.Extension(["▁zz"]), corpus=["zz"])
    n = base.get_vocab_size()
    assert (extended.token_to_id("<note>"), extended.token_to_id("▁zz")) == (n, n + 1)
    assert extended.encode("a<note>b").tokens == longer.encode("a<note>b").tokens


@pytest.mark.parametrize(
    ("tokens", "options", "message"),
    [
        (["▁zz"], {}, "scores come from a corpus or from a supplement"),
        (["a"], {"corpus": ["a"]}, "'a': leave them out"),
        (["zz", "zz"], {"corpus": ["a"]}, "'zz' is given more than once"),
        (["▁qqq"], {"supplement": "base"}, "the supplement lacks '▁qqq'"),
        (["▁qqq"], {"supplement": "base", "alpha": 1.5}, "alpha=1.5"),
        (["▁qqq"], {"corpus": ["a"], "how": "prepend"}, "Unigram has no merges, got how='prepend'"),
    ],
)
def test_what_cannot_be_added_is_refused(base, tokens, options, message):
    options = {k: base if v == "base" else v for k, v in options.items()}
    with pytest.raises(ValueError, match=message):
        th.extend(base, th.Extension(tokens), **options)


def test_other_models_and_criteria_are_refused(base, mistral, tmp_path):
    with pytest.raises(ValueError, match="corpus and supplement give scores to Unigram's pieces"):
        th.extend(mistral, th.Extension(["▁zz"]), corpus=["zz"])
    with pytest.raises(ValueError, match="needs merges, which Unigram does not have"):
        th.pruning_order(base, by="leaf-id")
    with pytest.raises(ValueError, match="'a' must stay"):
        th.prune(base, ["a"], 1)
    with pytest.raises(ValueError, match="leave out model="):
        th.save_sentencepiece(base, tmp_path / "m", model=th.tokenizer.source_file("mistral-v1"))
    open_ended = Tokenizer(models.Unigram([("a", -1.0), ("ab", -2.0), ("b", -1.5)]))
    with pytest.raises(ValueError, match="could spell the placeholder"):
        th.prune(open_ended, ["ab"], 1, keep_ids=True)
    open_ended.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    small = th.prune(open_ended, ["ab"], 1, keep_ids=True)
    assert json.loads(small.to_str())["model"]["vocab"][1] == ["<pruned 1>", -2.0]
