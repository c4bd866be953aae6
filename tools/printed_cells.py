"""Which printed cells of the thesis, the paper and AdaptBPE agree with the cells that constrain them?

    python tools/printed_cells.py

Writes data/measured/printed_cells.csv, which notebook 19 shows: for each cell the printed number, the
range that other printed cells imply, and the gap between them in units of the last printed digit.
"""

import time

import numpy as np
import pandas as pd

import tokhelpers as th


class Checks:
    """Printed cells, each with the range that other printed cells imply."""

    def __init__(self):
        self.tables = []

    def add(self, table, printed, low=None, high=None, *, of=np.nan, digits):
        """Collect cells of a table: a range, or the number of cases that they are a share of."""
        cells = pd.DataFrame({"printed": printed})
        cells = cells.assign(table=table, of=of, unit=10.0**-digits)
        if low is None:  # a share: the nearest that a whole number of cases gives
            low = (cells.printed * cells.of / 100).round() / cells.of * 100
        cells["low"], cells["high"] = low, low if high is None else high
        assert cells.drop(columns="of").notna().all(axis=None), "a cell has no counterpart"
        cells.index = [" ".join(map(str, np.atleast_1d(label))) for label in cells.index]
        self.tables.append(cells.rename_axis("cell").reset_index())

    def gaps(self):
        """Return all cells, with how far each lies outside its range."""
        cells = pd.concat(self.tables, ignore_index=True)
        outside = np.maximum(cells.low - cells.printed, cells.printed - cells.high)
        cells["gap"] = (outside.clip(lower=0) / cells.unit).round(6)
        cells["kind"] = np.where(cells.high - cells.low > 1e-9, "range", "value")
        cells.loc[cells.of.notna(), "kind"] = "share of a whole number"
        return cells[["table", "kind", "cell", "printed", "low", "high", "gap"]]


def published(table, *keys):
    """Load a published table, with its keys as the index."""
    return th.notebook.load_published(table).set_index(list(keys))


def check_thesis_sizes(checks):
    """Check shares of the unextended count, sizes of vocabularies and numbers of parameters."""
    size = published("thesis_table_06", "extension", "model")
    added = size.added_tokens.dropna()
    for number, what, stated in [(15, "tokens", 0.00095), (16, "characters", 0.00085)]:
        name = f"thesis: Table {number}"
        table = published(f"thesis_table_{number}", "extension", "model")
        baseline = table[what].xs("none").reindex(table.index, level="model")
        share = (100 * table[what] / baseline)[added.index]
        checks.add(name, table.share_percent[added.index], share, digits=2)
        change = ((share - 100).abs() / added).mean()
        checks.add(name, pd.Series({"mean change per token": stated}), change, digits=5)
    base = published("thesis_table_01", "model")
    old = base.vocabulary_tokens.reindex(size.index, level="model")
    extended = old + size.added_tokens.fillna(0)
    checks.add("thesis: Tables 4–6", size.vocabulary_tokens, extended, digits=0)
    for kind, number in {"Auto": "04", "Crawled": "05"}.items():
        table = published(f"thesis_table_{number}", "minimum_frequency", "method")
        supplement = table.vocabulary_tokens.unstack()[base.tokenization]
        supplement = supplement.set_axis(base.index, axis=1).sort_index(ascending=False)
        supplement.index = [f"{kind}-{frequency}" for frequency in supplement.index]
        known = supplement - added.unstack().loc[supplement.index]
        least, most = known.shift().fillna(0).stack(), supplement.stack()
        checks.add("thesis: Tables 4–6", known.stack(), least, most, digits=0)
    name, keys = "thesis: Table 9", ["extension", "model", "head"]
    totals_9 = published("thesis_table_09", *keys).join(added).join(base.add_suffix("_1"))
    head, hidden = totals_9.index.get_level_values("head"), totals_9.hidden_dimension_1
    grown = (totals_9.added_tokens * (hidden + (head == "masked-lm"))).dropna()
    checks.add(name, totals_9.added_parameters.dropna(), grown, digits=0)
    smallest = totals_9.groupby(["model", "head"]).parameters.transform("min")
    checks.add(name, totals_9.parameters[grown.index], smallest[grown.index] + grown, digits=0)
    heads = (2 * hidden + totals_9.vocabulary_tokens_1) * (head == "masked-lm")
    heads += 4 * (hidden + 1) * (head == "text-classification")  # four options
    start = totals_9.parameters_1 + heads
    checks.add(name, totals_9.parameters.xs("none"), start.xs("none"), digits=0)


def check_thesis_answers(checks):
    """Check accuracies as shares of whole numbers of questions, their means, and the totals."""
    questions = published("thesis_section_6_1", "benchmark").questions
    totals = published("thesis_table_11", "model", "extension").correct_answers
    correct, averages = {}, {}
    for number, model in {12: "BERT", 13: "MobileLLM", 14: "SmolLM2"}.items():
        name = f"thesis: Table {number}"
        table = published(f"thesis_table_{number}", "extension", "benchmark")
        table = table.accuracy_percent.unstack()
        averages[model], table = table.Average, table[questions.index]
        correct[model] = (table * questions / 100).round().astype(int)
        checks.add(name, table.stack(), of=np.tile(questions, len(table)), digits=2)
        exact = (100 * correct[model] / questions).mean(axis=1)
        checks.add(name, averages[model], exact, digits=2)
    counted = pd.concat({model: counts.sum(axis=1) for model, counts in correct.items()})
    checks.add("thesis: Table 11", totals, counted.reindex(totals.index), digits=0)


def check_paper_means(checks):
    """Check means over languages and win rates."""
    name = "paper: Tables 1–3"
    table_1 = published("paper_table_01", "tokenizer", "added")
    table_3 = published("paper_table_03", "tokenizer", "added")
    keys = ["tokenizer", "added", "language"]
    gains = published("paper_table_12", *keys).gain_percent
    fewer = published("paper_table_13", *keys).fewer_unreachable
    known, by_size = table_1.loc[["llama-3", "qwen-2.5"]], gains.groupby(keys[:2])
    checks.add(name, known.compression_gain_percent, by_size.mean(), digits=1)
    share = 100 * fewer.groupby(keys[:2]).mean() / known.index.get_level_values("added")
    checks.add(name, known.unreachable_naive_percent, share, digits=1)
    surely = 100 * by_size.agg(lambda gains: (gains > 0).mean())
    perhaps = 100 * by_size.agg(lambda gains: (~np.signbit(gains)).mean())
    checks.add(name, known.compression_win_rate_percent, surely, perhaps, digits=1)
    rates = [table_1.compression_win_rate_percent, table_1.renyi_win_rate_percent]
    checks.add(name, pd.concat([*rates, table_3.win_rate_percent]), of=70, digits=1)
    table_2 = published("paper_table_02", "tokenizer", "script")
    scripts = gains.index.get_level_values("language").str[-4:]
    scripts = scripts.where(scripts.isin(table_2.index.levels[1]), "Other")
    by_script = gains.groupby(["tokenizer", scripts])
    printed = table_2.loc[["llama-3", "qwen-2.5"]]
    checks.add(name, printed.compression_gain_percent, by_script.mean(), digits=1)
    checks.add(name, printed.languages, by_script.size() / 6, digits=0)
    weighted = table_2.compression_gain_percent * table_2.languages / 70
    weighted = weighted.groupby("tokenizer").sum()
    mean = table_1.compression_gain_percent.groupby("tokenizer").mean()
    checks.add(name, mean, weighted - 0.05, weighted + 0.05, digits=1)
    unreachable = table_1.unreachable_naive_percent["qwen-2.5"]
    unused = table_3.unused_naive_percent["qwen-2.5"]
    checks.add(name, unused, unreachable - 0.05, 100, digits=1)


def check_paper_evaluation(checks):
    """Check the tokenizers, the batch, and the accuracies with their intervals."""
    name, prefix, keys = "paper: Table 8", "prune+ext 16k ", ["added", "pruning_order"]
    chosen = (16_000, "leaf-frequency")
    table_8 = published("paper_table_08", "tokenizer")
    table_5 = published("paper_table_05", *keys, "extension").unreachable_tokens
    implied = table_5.sort_index().loc[chosen].add_prefix(prefix)
    checks.add(name, table_8.unreachable_tokens[implied.index], implied, digits=0)
    table_4 = published("paper_table_04", *keys, "language", "extension").bytes_per_token
    for language in ("ET", "EN"):
        full = table_4.sort_index().loc[(*chosen, language)].add_prefix(prefix)
        printed = table_8[f"{language.lower()}_bytes_per_token"][full.index]
        checks.add(name, printed, full - 0.0005, full + 0.0005, digits=2)
    billions, share = table_8.training_tokens / 1e9, table_8.et_share_percent
    english = [(billions.default + e) * (100 - share.default + e) for e in (-0.05, 0.05)]
    billions, share = billions.drop("default"), share.drop("default")
    low, high = 100 - english[1] / (billions - 0.05), 100 - english[0] / (billions + 0.05)
    checks.add(name, share, low, high, digits=1)
    name = "paper: Tables 6, 10"
    table_6 = published("paper_table_06", "benchmark", "model", "training")
    examples = published("paper_table_10", "dataset").examples

    def half_width(scores, n):
        share = (scores * n / 100).round() / n
        return 196 * np.sqrt(share * (1 - share) / (n - 1))

    accuracies = table_6[table_6.metric == "accuracy_percent"]
    for benchmark, cells in accuracies.groupby("benchmark"):
        n = examples.get(benchmark, examples.get(benchmark[:-3]))
        checks.add(name, cells.score, of=n, digits=1)
        checks.add(name, cells.ci95_half_width, half_width(cells.score, n), digits=1)
    xcopa = table_6.loc["XCOPA ET"]
    trainings = xcopa.index.get_level_values("training").str.replace("none", "default")
    described = table_8.loc[trainings].set_axis(xcopa.index)
    for column in ("et_bytes_per_token", "en_bytes_per_token"):
        checks.add("paper: Table 6", xcopa[column], described[column], digits=2)
    billions = (xcopa.training_tokens / 1e9)[xcopa.training_tokens > 0]
    repeated = described.training_tokens[billions.index] / 1e9
    checks.add("paper: Table 6", billions, repeated, digits=1)
    table_9 = published("paper_table_09", "hyperparameter").value
    batch = int(table_9["Batch size"]) * int(table_9["Sequence length"])
    printed = pd.Series({"tokens in a batch": int(table_9["Batch size (tokens)"])})
    checks.add("paper: Table 9", printed, batch, digits=0)


def check_paper_text(checks):
    """Check the numbers that section 5 states."""
    table_1 = published("paper_table_01", "tokenizer", "added")
    table_3 = published("paper_table_03", "tokenizer", "added")
    wins, gain = table_1.compression_win_rate_percent, table_1.compression_gain_percent
    llama = table_3.loc["llama-3"]
    used = llama.unused_naive_percent - llama.unused_ours_percent
    table_7 = published("paper_table_07", "tokenizer", "added").loc["llama-3"]
    skipping = -table_7.change_naive_percent
    said = {  # printed, implied, rounding of the inputs
        "gain, up to": (9.6, gain.max(), 0),
        "win rate, from": (72.9, wins.min(), 0),
        "win rate, to": (100, wins.max(), 0),
        "more tokens used, from": (4.0, used.min(), 0.1),
        "more tokens used, to": (4.7, used.max(), 0.1),
        "merge skipping, from": (1.2, skipping.min(), 0),
        "merge skipping, to": (5.8, skipping.max(), 0),
        "removed, %, of 128,000 tokens": (62.5, 100 * 80_000 / 128_000, 0),
    }
    said = pd.DataFrame(said, index=["printed", "implied", "by"]).T
    low, high = said.implied - said.by, said.implied + said.by
    checks.add("paper: section 5", said.printed, low, high, digits=1)
    billions = published("paper_table_08", "tokenizer").training_tokens / 1e9
    naive, default = billions["prune+ext 16k naive"], billions["default"]
    low, high = [100 - 100 * (naive + e) / (default - e) for e in (0.05, -0.05)]
    checks.add("paper: section 5", pd.Series({"less training": 26}), low, high, digits=0)


def check_adaptbpe(checks):
    """Check the stated means, shares of forty summaries, and numbers of documents."""
    stated = [(1, "fragment_score", -39.16), (1, "accuracy_percent", 3.57)]
    stated += [(1, "macro_f1_percent", 3.18), (2, "fragment_score", -13.20)]
    stated += [(2, "fragment_score", -13.96), (2, "rouge_l", 1.87)]
    stated += [(2, "concept_score", 0.9), (2, "rouge_l_high_oov", 10.40)]
    stated += [(2, "rouge_l_high_oov", 10.41), (2, "rouge_l_long_reference", 3.30)]
    stated += [(2, "rouge_l_long_reference", 3.41)]
    for number, column, value in stated:
        table = published(f"adaptbpe_table_0{number}", "dataset", "tokenization")
        table = table[column].unstack().dropna()
        low, high = (
            (100 * ((table.adaptbpe + e) / (table.bpe - e) - 1)).mean() for e in (-0.005, 0.005)
        )
        printed = pd.Series({column: value})
        digits = 1 if column == "concept_score" else 2
        checks.add(f"AdaptBPE: Table {number}", printed, low, high, digits=digits)
    ratings = pd.Series({"faithful": 97.5, "before": 77.5, "relevant": 82.5, " before": 65})
    checks.add("AdaptBPE: appendix B", ratings, of=40, digits=1)
    table_4 = published("adaptbpe_table_04", "dataset").filter(like="documents")
    documents = pd.Series({"MeQSum": 1_000, "CHQSum": 1_507})
    checks.add("AdaptBPE: Table 4", documents, table_4.sum(axis=1)[documents.index], digits=0)


def printed_cells():
    """Return every printed cell that other cells constrain, with its gap in units of its last digit."""
    checks = Checks()
    check_thesis_sizes(checks)
    check_thesis_answers(checks)
    check_paper_means(checks)
    check_paper_evaluation(checks)
    check_paper_text(checks)
    check_adaptbpe(checks)
    return checks.gaps()


if __name__ == "__main__":
    began = time.monotonic()
    table = printed_cells()
    numbers = ["printed", "low", "high"]
    table[numbers] = table[numbers].map("{:.10g}".format)  # parameters have nine digits
    command, seconds = "python tools/printed_cells.py", time.monotonic() - began
    th.notebook.record_measured(table, "printed_cells", command=command, seconds=seconds)
