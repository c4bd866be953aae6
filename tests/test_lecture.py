"""Every number on the lecture's slides, against what the textbook computes."""

import math

import pytest

from tokhelpers import textbook as tb
from tokhelpers.notebook import load_published

BPE_WORDS = {"cat": 10, "bat": 5, "bag": 12, "tag": 4, "cats": 5}
WORDPIECE_WORDS = {"sunflower": 1, "sun": 2, "flower": 1, "flow": 1}
WORDPIECE_WORDS |= {"flowers": 1, "flowing": 2, "flows": 2, "flowed": 1}


def slide(name):
    return load_published(f"lecture_{name}")


def test_bpe_has_the_counts_merges_and_segmentations_of_the_slides():
    trace = []
    vocab, merges = tb.train_bpe(BPE_WORDS, vocab_size=9, trace=trace)
    assert list(slide("bpe_merges").pair[1:]) == [", ".join(step["merge"]) for step in trace]
    corpora = slide("bpe_corpus")
    for merged, step in enumerate(trace, start=1):
        computed = [(", ".join(tokens), count) for tokens, count in step["corpus"]]
        printed = corpora[corpora.merges == merged][["split", "frequency"]]
        assert computed == list(printed.itertuples(index=False, name=None))
    counts = [{"".join(pair): n for pair, n in step["counts"].items()} for step in trace]
    pairs = slide("bpe_pairs")
    assert all(counts[row.merges][row.pair] == row.frequency for row in pairs.itertuples())
    assert counts[0].keys() - set(pairs.pair) == {"ta"}  # left out on the first slide
    for row in slide("bpe_examples").itertuples():
        assert row.split == ", ".join(tb.tokenize_bpe(row.word, vocab, merges))


def test_wordpiece_has_the_scores_merges_and_segmentation_of_the_slides():
    trace = []
    tb.train_wordpiece(WORDPIECE_WORDS, 14 + 3, tie="first", trace=trace)
    scores = slide("wordpiece_scores")
    assert len(scores) == 16
    for row in scores.itertuples():
        computed = {", ".join(p): float(s) for p, s in trace[row.merges]["scores"].items()}
        assert round(computed[row.pair], 2) == row.score
    assert list(slide("wordpiece_merges").pair[1:]) == [", ".join(step["merge"]) for step in trace]
    words = [([w[0], *("##" + c for c in w[1:])], n) for w, n in WORDPIECE_WORDS.items()]
    printed = slide("wordpiece_corpus")[["split", "frequency"]]
    assert [(", ".join(tokens), n) for tokens, n in words] == list(
        printed.itertuples(index=False, name=None)
    )
    examples = slide("wordpiece_examples").set_index(["tokenization", "word"]).split
    assert examples["wordpiece", "fused"] == "f, ##u, ##s, ##ed"


def test_unigram_has_the_probabilities_losses_and_segmentations_of_the_slides():
    """With the seed's counts in place of an E-step, as the lecture simplifies it."""
    words = slide("unigram_words")
    corpus = dict(words[words.iteration == 1][["word", "frequency"]].itertuples(index=False))
    trace, with_em = [], []
    options = {"e_step": "substrings", "log": math.log10, "digits": 4, "drop": 0}
    tb.train_unigram(corpus, 8, trace=trace, **options)
    tokens, losses = slide("unigram_tokens"), slide("unigram_losses")
    for iteration in (1, 2):
        printed = tokens[tokens.iteration == iteration].set_index("token").probability
        assert printed.to_dict() == trace[iteration - 1]["p"]
    for row in words.itertuples():
        segmentation, log_p = trace[row.iteration - 1]["segmentation"][row.word]
        assert (", ".join(segmentation), round(math.exp(log_p), 8)) == (row.split, row.score)
    for row in losses.itertuples():
        step = trace[row.iteration - 1]
        assert step["losses"].get(row.removed, step["loss"]) == pytest.approx(row.loss, abs=1e-3)
    for row in slide("unigram_segmentations").itertuples():
        probability = math.prod(trace[0]["p"][token] for token in row.split.split(", "))
        assert round(probability, 9) == row.probability
    tb.train_unigram(corpus, 8, drop=0, trace=with_em)
    assert [step["removed"] for step in trace] == [step["removed"] for step in with_em]
