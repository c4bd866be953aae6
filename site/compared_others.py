"""The thesis, AdaptBPE, Nemotron and the lecture: tables and figures that can be compared, beside ours."""

import math

import numpy as np
from compared import figure, follows

import tokhelpers as th
from tokhelpers import textbook

MODELS = {"BERT": "bert-base-cased", "MobileLLM": "mobilellm-125m", "SmolLM2": "smollm2-135m"}


def thesis():
    """What is compared with Kim's thesis, as arguments of `Compared` without the document."""
    yield from parameters()
    yield from supplements()
    for number in (9, 11, 12, 13, 14, 15, 16):
        yield follows(f"Table {number}@19", f"thesis: Table {number}")
    yield follows("Table 6@19", "thesis: Tables 4–6")
    certain = figure("19_differences").verdict == "significant"
    what = "totals that differ significantly from the unextended model's, whatever the overlap"
    yield "Section 6.1", what, None, certain, 0, "its cells"
    yield from costs()


def parameters():
    from tokhelpers.models.costs import parameter_count

    one = th.notebook.load_published("thesis_table_01").set_index("model")
    sizes = one.vocabulary_tokens
    heads = {"BERT": "none", "MobileLLM": "causal-lm", "SmolLM2": "causal-lm"}
    ours = [parameter_count(MODELS[m], int(sizes[m]), heads[m]) for m in one.index]
    yield "Table 1", "parameters", one.parameters, ours, 0
    added = (
        th.notebook.load_published("thesis_table_06")
        .set_index(["extension", "model"])
        .added_tokens.fillna(0)
    )
    nine = th.notebook.load_published("thesis_table_09")
    ours = [
        parameter_count(
            MODELS[row.model], int(sizes[row.model] + added[row.extension, row.model]), row.head
        )
        for row in nine.itertuples()
    ]
    yield "Table 9", "parameters after extension", nine.parameters, ours, 0


def supplements():
    shown = figure("07_compression")
    of_text = shown[shown.extension.str.startswith("Auto")].sort_values("per_million")
    rates = of_text.pivot(index=["who", "per_million"], columns="family", values="supplement")
    rates = np.log(rates.reset_index("per_million"))
    published, ours = rates.loc["published"], rates.loc["ours"]
    ours = ours[ours.per_million.between(published.per_million.min(), published.per_million.max())]
    families = ["WordPiece", "SentencePiece", "byte-level"]
    for family in families:
        theirs = np.exp(np.interp(ours.per_million, published.per_million, published[family]))
        what = f"tokens at equal minimum frequency per million words, {family}"
        yield "Table 4", what, theirs, np.exp(ours[family]), 0
    terms = shown[shown.extension.str.startswith("Crawled")].sort_values("extension")
    terms = terms.pivot(index=["who", "extension"], columns="family", values="supplement")[families]
    what = "tokens of supplements trained on medical terms"
    yield "Table 5", what, terms.loc["published"], terms.loc["ours"], 0
    of_smollm2 = shown.family == "byte-level"
    for rows, name in ((shown[of_smollm2], "SmolLM2"), (shown[~of_smollm2], "other families")):
        lists = rows[rows.extension.str.startswith("Crawled")]
        lists = lists.pivot(index=["family", "extension"], columns="who", values="added")
        added = "SmolLM2" if name == "SmolLM2" else "the other two families"
        what = f"tokens added to {added}, from medical terms"
        yield "Table 6", what, lists.published, lists.ours, 0
        for item, of in (("Table 15", "tokens %"), ("Table 16", "characters %")):
            change = "fewer tokens" if of == "tokens %" else "more characters"
            what = f"{change} than unextended, %, at equal numbers of added tokens, {name}"
            yield item, what, *at_equal_numbers(rows, of)


def at_equal_numbers(shown, of):
    """What the published extensions save, read off at our numbers of tokens, and what ours save."""
    rows = []
    for _, group in shown.groupby(["family", shown.extension.str.split("-").str[0]]):
        published = group[group.who == "published"].sort_values("added")
        ours = group[(group.who == "ours") & group.added.between(*published.added.iloc[[0, -1]])]
        expected = np.interp(np.log(ours.added), np.log(published.added), published[of])
        rows += zip(expected, ours[of], strict=True)
    return np.abs(np.array(rows).T - 100)


def costs():
    time = figure("15_text")
    time = time[time.setting == "CPU 1 (128)"]
    longer = ((time["CPU time"] - 100) / time.added).mean()
    yield "Figure 3", "longer training per added token, equal text, %", [0.0025], [longer], 4
    memory = th.notebook.load_measured("peak_memory")
    memory = memory.pivot(index=["stage", "model", "batch"], columns="added", values="gib")
    panels = [(stage, model) for stage in ("pretraining", "fine-tuning") for model in MODELS]
    for n, (stage, model) in enumerate(panels, 4):
        lists = memory.loc[stage, model].dropna(axis=1)
        more = lists.iloc[:, -1] / lists.iloc[:, 0] - 1
        if (stage, model) == ("fine-tuning", "BERT"):
            yield (
                f"Figure {n}",
                "the largest extension makes little difference (under a tenth)",
                None,
                more < 0.1,
            )
        else:
            what = "the largest extension takes over a tenth more memory"
            yield f"Figure {n}", what, None, more > 0.1


def adaptbpe():
    """What is compared with Balde and others, as arguments of `Compared` without the document."""
    scores = figure("13_choosing")
    most = scores[scores.added == scores.added.max()].set_index("method")
    for number, item in ((1, "Table 1@13"), (2, "Table 2")):
        score = th.notebook.load_published(f"adaptbpe_table_0{number}").pivot(
            index="dataset", columns="tokenization", values="fragment_score"
        )
        change = 100 * (score.adaptbpe / score.bpe - 1).mean()
        quantity = f"change of the fragment score by AdaptBPE, %, Table {number}; ours"
        readings = {"hard": "hard words", "all": "all words", "all once": "all words, each once"}
        for column, words in readings.items():
            ours = 100 * (most[column]["AdaptBPE"] / most[column]["append"] - 1)
            yield item, f"{quantity}: {words}", change, ours
    for number in (1, 2, 4):
        yield follows(f"Table {number}@19", f"AdaptBPE: Table {number}")


def nemotron():
    """What is compared with NVIDIA's extension of Nemotron: which starts of new rows lose less."""
    item = "Section Tokenizer Extension"
    starts = figure("14_starts").query("field == 'hpo' and added == 1_000").set_index("start").more
    defaults = starts[["mean", "normal"]].to_numpy()  # of transformers, with and without its noise
    what = "FVT is ahead of two stand-ins for the library's default (mean, normal)"
    yield item, what, None, defaults > starts["fvt"]


def lecture():
    """What is compared with the lecture: its three examples, trained anew by the textbook."""
    counts, scores, losses = [], [], []
    item = "Section Byte-Pair Encoding"
    pairs = th.notebook.load_published("lecture_bpe_pairs")
    words = (
        th.notebook.load_published("lecture_bpe_corpus")
        .query("merges == 0")
        .set_index("word")
        .frequency
    )
    textbook.train_bpe(words.to_dict(), words_after("bpe"), trace=counts)
    steps = [{"".join(pair): n for pair, n in step["counts"].items()} for step in counts]
    ours = [steps[row.merges][row.pair] for row in pairs.itertuples()]
    yield item, "frequencies of pairs", pairs.frequency, ours, 0
    yield item, "merges", None, merges("bpe", counts)

    item = "Section WordPiece Tokenization"
    pairs = th.notebook.load_published("lecture_wordpiece_scores")
    words = th.notebook.load_published("lecture_wordpiece_corpus").set_index("word").frequency
    size = words_after("wordpiece")
    textbook.train_wordpiece(words.to_dict(), size, tie="first", trace=scores)
    steps = [{", ".join(pair): float(n) for pair, n in step["scores"].items()} for step in scores]
    ours = [steps[row.merges][row.pair] for row in pairs.itertuples()]
    yield item, "scores of pairs", pairs.score, ours, 2
    yield item, "merges", None, merges("wordpiece", scores)

    item = "Section Unigram Tokenization"
    words = (
        th.notebook.load_published("lecture_unigram_words")
        .query("iteration == 1")
        .set_index("word")
        .frequency
    )
    slides = {"e_step": "substrings", "drop": 0, "log": math.log10, "digits": 4}
    textbook.train_unigram(words.to_dict(), 11, **slides, trace=losses)
    steps = [{"none": step["loss"], **step["losses"]} for step in losses[:2]]
    table = th.notebook.load_published("lecture_unigram_losses")
    ours = [steps[row.iteration - 1][row.removed] for row in table.itertuples()]
    yield item, "losses without one token", table.loss, ours, 3
    table = th.notebook.load_published("lecture_unigram_tokens")
    ours = [losses[row.iteration - 1]["p"][row.token] for row in table.itertuples()]
    yield item, "probabilities of tokens", table.probability, ours, 4


def superbpe():
    """What is compared with SuperBPE: the tokens that 4,000 superwords save on general English."""
    gain = figure("23_gain").set_index("language").gain["English"]
    fewer = 100 * (1 - 1 / (1 + gain / 100))
    yield "Abstract", "fewer tokens than BPE, %", [33], [fewer], 1


def petrov():
    """What is compared with Petrov and others: the largest premiums that are among our languages."""
    tokens = th.notebook.load_measured("flores_tokens")
    tokens = tokens.pivot(index="language", columns="tokenizer", values="tokens")
    premium = tokens / tokens.loc["eng_Latn"]
    for name, code, tokenizer, published in (
        ("Burmese, GPT-2", "mya_Mymr", "gpt-2", 16.9),
        ("Odia, GPT-4", "ory_Orya", "gpt-4", 12.5),
    ):
        ours = premium.loc[code, tokenizer]
        yield "Tokenization lengths", f"premium of {name}", [published], [ours], 1


def parity():
    """What is compared with parity-aware BPE: its Gini coefficient and its tokens, against pooled text.

    Of our three patterns the authors' default one is nearest to the published result.
    """
    runs = th.notebook.load_measured("parity_window").query('pattern == "authors\'"')
    tokens = runs.pivot(index=["way", "vocabulary"], columns="language", values="test")
    gini = tokens.apply(lambda row: np.abs(np.subtract.outer(*[row.to_numpy()] * 2)).mean(), axis=1)
    gini /= 2 * tokens.mean(axis=1)
    lower = 100 * (1 - gini["parity-aware"] / gini["pooled"])
    yield "Abstract", "lower Gini coefficient, from scratch, %", [89], [lower.max()], 0
    what = "negligible impact on compression, from scratch (we count: below 2 % more tokens in all)"
    more = tokens.loc["parity-aware"].sum(axis=1) / tokens.loc["pooled"].sum(axis=1) - 1
    yield "Abstract", what, None, more < 0.02


def words_after(method):
    """The size of the vocabulary on the lecture's last slide."""
    return th.notebook.load_published(f"lecture_{method}_merges").vocabulary.iloc[-1].count(",") + 1


def merges(method, trace):
    """Whether each merge on the lecture's slides is ours."""
    slides = th.notebook.load_published(f"lecture_{method}_merges").pair.dropna()
    return [", ".join(step["merge"]) == pair for step, pair in zip(trace, slides, strict=True)]
