"""Purason and others, *Teaching Old Tokenizers New Words*: tables and figures beside ours."""

from functools import cache

import numpy as np
import pandas as pd
from compared import figure, follows
from scipy.interpolate import PchipInterpolator
from scipy.stats import norm

import tokhelpers as th

NAMES = {
    "qwen-2.5": "qwen",
    "llama-2": "mistral-v1",
}  # the paper's tokenizers, ours nearest to them
SIZE = ["tokenizer", "added"]


def paper():
    """What is compared, as arguments of `Compared` without the document."""
    yield from five_ways()
    yield from extending()
    yield from tables_1_to_3()
    yield from two_languages()
    yield from tables_7_12_13()
    yield from pruning()
    yield from pruned_model()
    yield from exchanging()
    for item, table in {
        "1": "Tables 1–3",
        "8": "Table 8",
        "9": "Table 9",
        "10": "Tables 6, 10",
    }.items():
        yield follows(f"Table {item}@19", f"paper: {table}")
    yield follows("Section 5@19", "paper: section 5")
    what = "scores that differ significantly from the default tokenizer's, after Holm's correction"
    yield "Table 6@19", what, None, exchanged_scores(), 0, "its cells"


def exchanged_scores():
    """Notebook 19's test of Table 6: which of its 36 differences survive Holm's correction."""
    table = th.notebook.load_published("paper_table_06")
    table = table.set_index(["model", "benchmark", "training"])
    score, half_width = (table[name].unstack() for name in ("score", "ci95_half_width"))
    changed = ["prune+ext 16k naive", "prune+ext 16k ours"]
    difference = score[changed].sub(score.default, axis=0)
    error = np.hypot(half_width[changed], half_width[["default"]].to_numpy()) / 1.96
    p = pd.Series(np.sort(2 * norm.sf(np.abs(difference / error)), axis=None))
    return (p * np.arange(len(p), 0, -1)).cummax() < 0.05


def five_ways():
    """Notebook 08's methods of adding Estonian tokens beside Figures 1 and 9 and Appendix F."""
    panels = dict(list(figure("08_estonian").groupby("panel")))
    estonian, english, unreachable = (
        panels[name].pivot(index="added", columns="method", values="value")
        for name in (
            "Estonian, bytes per token",
            "English, bytes per token",
            "unreachable tokens",
        )
    )
    for ours, published in (("continued", "continued"), ("regenerate", "naive")):
        what = f"Estonian, {published}: bytes per token"
        yield "Figure 1", what, estonian[f"published {ours}"], estonian[ours], 3
    regenerate, prepended = "regenerate", "prepend regenerated"
    claim = "continued training compresses Estonian better than naive extension, at every size"
    yield "Figure 1", claim, None, estonian.continued > estonian[regenerate]
    claim = "Estonian: regenerated merges compress better than appended ones"
    yield "Figure 9", claim, None, estonian[regenerate] > estonian["append"]
    claim = "Estonian: regenerated merges compress better prepended than appended"
    yield "Figure 9", claim, None, estonian[prepended] > estonian[regenerate]
    claim = "prepending regenerated merges costs English"
    yield "Figure 9", claim, None, english[prepended] < english[regenerate]
    claim = "prepending regenerated merges leaves more unreachable tokens"
    yield "Figure 9", claim, None, unreachable[prepended] > unreachable[regenerate]
    strings, others = "add_tokens, strings", ["continued", regenerate, "append", prepended]
    claim = "add_tokens compresses English least"
    yield "Appendix F", claim, None, english.add_tokens < english[others].min(axis=1)
    least = estonian[others].min(axis=1)
    for column, given in ((strings, "token strings"), ("add_tokens", "text")):
        claim = f"add_tokens compresses Estonian least, given {given}"
        yield "Appendix F", claim, None, estonian[column] < least


def extending():
    budget = figure("08_budget").groupby("method").bytes_per_token
    claim = "Estonian: continued on the least text beats naive on the most"
    yield "Figure 5", claim, None, [budget.first().continued > budget.last().naive]
    draws = figure("17_budget").sort_values("per token").groupby(["line", "draw"]).tail(2)
    draws = draws.groupby(["line", "draw"])[["per token", "gain"]].agg(["first", "last"])
    draws = draws[draws["per token", "last"] >= 2 * draws["per token", "first"]]
    steps = draws["gain", "last"] - draws["gain", "first"]
    claim = "the last doubling of the training text changes the gain by less than half a point"
    yield "Figure 5@17", claim, None, steps.abs() < 0.5
    runs = th.notebook.load_measured("many_languages")
    runs = runs.query("tokenizer == 'llama-3' and merge_skipping and method != 'base'")
    sizes = runs.groupby("language").added.transform("nunique")
    means = runs[sizes == 6].groupby(["method", "added"])
    means = means[["bytes_per_token", "renyi_efficiency"]].mean()
    own, naive = means.loc["continued"], means.loc["naive"]
    at = naive[naive.bytes_per_token.between(*own.bytes_per_token.iloc[[0, -1]])]
    curve = PchipInterpolator(own.bytes_per_token, own.renyi_efficiency)
    between = curve(at.bytes_per_token)
    claim = "many languages: at equal compression continued is as efficient or more"
    yield "Figure 6", claim, None, between >= at.renyi_efficiency
    uses = figure("08_unused").query("added == 8000").set_index("method")
    rare = uses[["never used", "below 10", "below 100"]].T
    claim = "naive yields more low-frequency tokens (never, below 10, below 100 uses)"
    yield "Figure 7", claim, None, rare.naive > rare.continued
    rows = figure("14_moved").groupby("arm")
    moved, tail = rows.moved.median(), rows.longer.quantile(0.05)
    claim = "embeddings of naive tokens move less far"
    yield "Figure 8", claim, None, [moved["naive"] < moved["fvt"]]
    claim = "naive tokens have the longer negative tail of changes of length (5th percentile)"
    yield "Figure 8", claim, None, [tail["naive"] < tail["fvt"]]


def two_languages():
    """Notebook 08's Estonian and Finnish beside Tables 3, 12 and 13."""
    for (language, tokenizer), rows in figure("08_gain").groupby(["language", "tokenizer"]):
        what = f"gain of continued over naive, {language}, {tokenizer}, %"
        yield "Table 12@08", what, rows.published, rows.ours
        what = f"unreachable tokens, naive, {language}, {tokenizer}"
        published, ours = rows["unreachable published"], rows["unreachable naive"]
        yield "Table 13@08", what, published, ours, 0
    for method, unused in figure("08_unused").groupby("method"):
        what = f"unused added tokens, {method}, % (published: 70 languages)"
        yield "Table 3@08", what, unused.published, unused["never used"]


@cache
def by_language():
    """Gain, unused and unreachable tokens by tokenizer, language and size, from our long run."""
    runs = th.notebook.load_measured("many_languages").query("method != 'base'")
    vendors = runs.groupby("tokenizer").merge_skipping.transform("max")
    runs = runs[runs.merge_skipping == vendors]  # each tokenizer as its vendor has it
    runs = runs.drop(columns="merge_skipping")
    wide = runs.pivot(index=[*SIZE, "language"], columns="method")
    old, new = (wide.xs(method, axis=1, level="method") for method in ("naive", "continued"))
    table = 100 * (new / old - 1)[["bytes_per_token", "renyi_efficiency"]]
    table.columns = ["gain", "renyi"]
    table["unused naive"], table["unused ours"] = 100 * old.unused_added, 100 * new.unused_added
    table["more unused"] = 100.0 * (old.unused_added > new.unused_added)
    table["renyi wins"] = 100.0 * (table.renyi > 0)
    table["fewer"] = old.unreachable_added - new.unreachable_added
    return table.assign(naive=old.unreachable_added).reset_index()


def beside(number, keys, ours):
    """The rows of a published table that ours has, too, both in one table."""
    published = th.notebook.load_published(f"paper_table_{number:02}").replace({"tokenizer": NAMES})
    return published.merge(ours.reset_index(), on=keys)


def tables_1_to_3():
    runs = by_language()
    mean = runs.assign(lost=100 * runs.naive / runs.added).groupby(SIZE).mean(numeric_only=True)
    one = beside(1, SIZE, mean)
    yield "Table 1", "gain of continued over naive, %", one.compression_gain_percent, one.gain
    yield "Table 1", "change of Rényi efficiency, %", one.renyi_gain_percent, one.renyi
    yield "Table 1", "unreachable tokens, naive, %", one.unreachable_naive_percent, one.lost
    what = "languages with higher Rényi efficiency, %"
    yield "Table 1", what, one.renyi_win_rate_percent, one["renyi wins"]
    wins = runs.assign(wins=100 * (runs.gain > 0)).groupby(SIZE).wins.mean()
    one = beside(1, SIZE, wins)
    yield "Table 1", "languages that win, %", one.compression_win_rate_percent, one.wins
    last = one[one.tokenizer == "mistral-v1"].wins
    claim = "fewer languages win with 32,000 tokens than with 1,000, SentencePiece"
    yield "Table 1", claim, None, [last.iloc[-1] < last.iloc[0]]
    claim = "continued training leaves no added token unreachable"
    yield "Table 1", claim, None, runs.naive == runs.fewer
    above = runs[runs.gain > 20].groupby("tokenizer").language.nunique()
    claim = "several languages gain more than 20 %"
    yield "Section 5@10", claim, None, [above.max() > 1]
    script = runs.language.str[-4:]
    script = script.where(script.isin(["Latn", "Cyrl", "Arab"]), "Other")
    script = runs.assign(script=script).groupby(["tokenizer", "script"])
    two = beside(2, ["tokenizer", "script"], script.gain.mean())
    yield "Table 2", "gain by script, %", two.compression_gain_percent, two.gain
    three = beside(3, SIZE, mean)
    for method, name in (("naive", "naive"), ("ours", "continued")):
        published, ours = three[f"unused_{method}_percent"], three[f"unused {method}"]
        yield "Table 3@10", f"unused tokens, {name}, %", published, ours
    claim = "languages in which naive extension leaves more tokens unused, %"
    yield "Table 3@10", claim, three.win_rate_percent, three["more unused"]


def tables_7_12_13():
    both = beside(12, [*SIZE, "language"], by_language())
    yield "Table 12@10", "gain of continued over naive, %", both.gain_percent, both.gain
    both = beside(13, [*SIZE, "language"], by_language())
    yield "Table 13@10", "fewer unreachable tokens", both.fewer_unreachable, both.fewer, 0
    runs = th.notebook.load_measured("many_languages").query(
        "tokenizer in ('llama-3', 'mistral-nemo')"
    )
    wide = runs.pivot_table("bytes_per_token", [*SIZE, "language", "method"], "merge_skipping")
    change = 100 * (wide[False] / wide[True] - 1)
    # printed in the text of section 5: "23.5% at most for a language", "1.3% at most"
    largest = change.loc["llama-3"].drop("base", level="method").groupby("method").min()
    for method, printed in (("naive", -23.5), ("continued", -1.3)):
        what = f"largest change of a language without merge skipping, {method}, %"
        yield "Section 5@09", what, [printed], [largest[method]]
    change = change.groupby([*SIZE, "method"]).mean().unstack()
    both = beside(7, SIZE, change)
    for method, name in (("naive", "naive"), ("ours", "continued")):
        published = both[f"change_{method}_percent"]
        yield "Table 7", f"change without merge skipping, {name}, %", published, both[name]


def pruning():
    curves = figure("11_compression").query("pruned > 0")
    curves = curves.melt(["order", "pruned"], ["bytes", "english"], "text", "kept")
    nine = figure("11_unreachable").query("pruned > 0")
    kept = {"Figure 12": nine.pivot(index=["mix", "pruned"], columns="order", values="bytes")}
    kept["Figure 2"] = curves.pivot(index=["text", "pruned"], columns="order", values="kept")
    for item, table in kept.items():
        for criterion, other in (
            ("leaf-frequency", "leaf-id"),
            ("leaf-frequency", "frequency"),
            ("merges", "leaf-id"),
        ):
            claim = f"{criterion} is as good as {other} or better"
            yield item, claim, None, table[criterion] >= table[other]
    broken = figure("11_unreachable").pivot(
        index=["mix", "pruned"], columns="order", values="broken"
    )
    leaves = broken[["leaf-frequency", "leaf-id", "merges"]]
    yield "Figure 13", "orders that respect leaves make no token unreachable", None, leaves == 0
    most = broken.frequency.groupby("mix").max()
    yield "Figure 13", "plain frequency makes tokens unreachable", None, most > 0
    five = figure("11_published")
    for orders, names in (
        (["id", "leaf-id"], "by id"),
        (["frequency", "leaf-frequency", "merges"], "by use"),
    ):
        both, n = five[five.order.isin(orders)], len(orders)
        what = f"unreachable tokens after pruning {names}, mean of 8 sizes and {n} criteria"
        yield "Table 5@11", what, both.published, both.ours, 0


def pruned_model():
    """Notebook 16's loss of a pruned model beside the claims on Figure 4."""
    on_english = figure("16_pruning").query("text == 'english' and counted != 'hpo'")
    loss = on_english.pivot(index="kept", columns="by", values="after")
    for criterion in ("leaf-frequency", "merges"):
        claim = f"{criterion} loses no more than last-N and plain frequency"
        others = loss[["leaf-id", "frequency"]]  # on SmolLM2, id and leaf-id are one order
        yield "Figure 4", claim, None, others.ge(loss[criterion], axis=0)


def exchanging():
    cells = figure("12_exchange")
    by_use = cells[cells.order == "leaf-frequency"]
    by_use = by_use.set_index(["language", "extension", "added"]).sort_index()
    for method in ("continued", "naive"):
        for size in (16_000, 64_000):
            cell = by_use.loc[("Estonian", method, size)]
            what = f"bytes per token of Estonian, {method}, {size:,} exchanged"
            yield "Table 4", what, cell.published, cell.ours, 3
    english = by_use.loc[("English", "continued")]
    lost = 100 * (1 - english[["published", "ours"]] / english[["published", "ours"]].loc[1_000])
    for size in (64_000, 112_000):
        what = f"English: bytes per token lost, %, continued, {size:,} exchanged"
        yield "Table 4", what, lost.published[size], lost.ours[size]
    lost = th.notebook.load_measured("prune_then_extend").rename(columns={"order": "pruning_order"})
    lost = lost.replace({"extension": {"continued": "ours"}})
    five = th.notebook.load_published("paper_table_05").merge(
        lost, on=["added", "extension", "pruning_order"]
    )
    eight = th.notebook.load_published("paper_table_08").set_index("tokenizer").unreachable_tokens
    spread = figure("06_unreachable").unreachable
    yield "Table 8@06", "unreachable tokens of Llama-3", eight["default"], spread.sum(), 0
    appended = figure("21_continued").set_index("tokens").unreachable["Llama 3:\nall 27,744"]
    what = "unreachable tokens of Llama-3 (here: all behind cl100k_base)"
    yield "Table 8@21", what, eight["default"], appended, 0
    alone = figure("21_continued").dropna(subset="published")
    what = "unreachable naive tokens, one language at a time, 16,000 tokens, %"
    yield "Table 13@21", what, alone.published, alone.ours, 1
    at = lost.query("added == 16_000 and pruning_order == 'leaf-frequency'").set_index("extension")
    for method, name in (("ours", "continued"), ("naive", "naive")):
        by = "frequency" if method == "ours" else "leaf-frequency"
        rows = five[(five.extension == method) & (five.pruning_order == by)].set_index("added")
        for size in (16_000, 64_000):
            what = f"unreachable tokens, {name}, {by}, {size:,} exchanged"
            cell = rows.loc[size]
            yield "Table 5@12", what, cell.unreachable_tokens, cell.unreachable, 0
        published = eight[f"prune+ext 16k {method}"]
        yield (
            "Table 8@12",
            f"unreachable tokens after 16,000 are exchanged, {name}",
            published,
            at.unreachable[method],
            0,
        )
