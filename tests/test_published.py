"""The published numbers in data/paper: their form, and what the tables imply about each other.

Rounding is exact (decimal, half up). A printed value that the other numbers contradict must stand
in slips.csv with the value recomputed here, and nothing else may stand there. That the files have
what is printed is tested in test_second_reading.py.
"""

import re
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from test_project import rows as data

import tokhelpers as th
from tokhelpers import textbook
from tools.printed_cells import printed_cells

PAPER = Path(__file__).parents[1] / "data" / "paper"
TABLES = sorted(p.name for p in PAPER.glob("*.csv") if p.name not in {"sources.csv", "slips.csv"})
HALF = Decimal("0.005")  # what rounding to two decimals may hide


def rows(name):
    return data(f"paper/{name}")


def table(number, document="paper"):
    return rows(f"{document}_table_{number:02}.csv")


def where(table, **given):
    """The rows that have the given values."""
    return [r for r in table if given.items() <= r.items()]


def pick(table, column, **given):
    """The one value of a column in the row that has the given values."""
    [found] = where(table, **given)
    return found[column]


def rounded(value, like):
    """A number as text, with as many decimals as the printed one has."""
    step = Decimal(1).scaleb(Decimal(like).as_tuple().exponent)
    return str(Decimal(value).quantize(step, ROUND_HALF_UP))


def mean(values):
    values = [Decimal(v) for v in values]
    return sum(values) / len(values)


# ---- form


def test_sources_and_slips_name_the_files():
    assert sorted(r["file"] for r in rows("sources.csv")) == TABLES
    for r in rows("sources.csv"):
        known = r"arXiv:\d{4}\.\d{5}$|github\.com/|s-space\.snu\.ac\.kr/handle/|ELL881/AIL821$"
        assert re.match(known, r["identifier"]) and r["document"] and r["what"] and r["place"]
        number = re.search(r"table_(\d+)", r["file"])
        assert r["table"] == (f"Table {int(number[1])}" if number else "")
    named = {r["file"] for r in rows("sources.csv") if "slips.csv" in r["slips"]}
    assert named == {r["file"] for r in rows("slips.csv")}
    assert all(name in RECOMPUTED or name.startswith("lecture") for name in named)
    assert all(r["printed"] != r["recomputed"] and r["why"] for r in rows("slips.csv"))


# ---- what other numbers give: the name of a cell, what is printed there, what they give


def means_of_tables_12_and_13():
    for row in table(1):
        which = {name: row[name] for name in ("tokenizer", "added")}
        if gains := [r["gain_percent"] for r in where(table(12), **which)]:
            fewer = [r["fewer_unreachable"] for r in where(table(13), **which)]
            share = mean(fewer) / int(row["added"]) * 100
            yield f"gain {which}", row["compression_gain_percent"], mean(gains)
            yield f"share {which}", row["unreachable_naive_percent"], share


def pruned_and_extended():
    """Tables 4 and 5 have the same tokenizers."""
    for extension in ("naive", "ours"):
        [row] = where(table(8), tokenizer=f"prune+ext 16k {extension}")
        name = row["tokenizer"]
        same = {"added": "16000", "pruning_order": "leaf-frequency", "extension": extension}
        count = pick(table(5), "unreachable_tokens", **same)
        yield f"{name} unreachable_tokens", row["unreachable_tokens"], count
        for language in ("ET", "EN"):
            column = f"{language.lower()}_bytes_per_token"
            size = pick(table(4), "bytes_per_token", language=language, **same)
            yield f"{name} {column}", row[column], size


def progress_by_frequency():
    """Section 5: orders that know frequencies compress both languages at least as well as ids do."""
    for r in table(4):
        order = r["pruning_order"]
        if order in ("frequency", "leaf-frequency", "merges"):
            same = {name: r[name] for name in ("language", "extension", "added")}
            by_id = pick(table(4), "bytes_per_token", pruning_order="id", **same)
            cell = f"sentence: {' '.join(same.values())}, {order} against id"
            lower = Decimal(r["bytes_per_token"]) < Decimal(by_id)
            yield cell, "not lower", "lower" if lower else "not lower"


def fits(n, score, interval):
    """Whether some number of right answers to n questions gives an accuracy and its interval."""
    near = round(n * float(score) / 100)
    for right in (near - 1, near, near + 1):
        p = right / n
        if 0 < p < 1 and f"{100 * p:.1f}" == score:
            half = 196 * (p * (1 - p) / (n - 1)) ** 0.5
            if f"{half:.1f}" == interval:
                return True
    return False


def sizes_that_fit_table_6():
    sizes = {f"{name} {x}": name for name in ("Belebele", "SIB200") for x in ("ET", "EN")}
    sizes |= {"Winogrande ET": "Winogrande ET", "Winogrande EN": "Winogrande", "XCOPA ET": "XCOPA"}
    for benchmark, dataset in sizes.items():
        printed = pick(table(10), "examples", dataset=dataset)
        scores = where(table(6), benchmark=benchmark)
        scores = [(r["score"], r["ci95_half_width"]) for r in scores]
        fit = [n for n in range(50, 3000) if all(fits(n, *score) for score in scores)]
        if int(printed) not in fit:
            [size] = fit
            yield f"{dataset} examples", printed, size


def extended_vocabularies():
    for r in table(6, "thesis"):
        base = pick(table(1, "thesis"), "vocabulary_tokens", model=r["model"])
        cell = f"{r['extension']} {r['model']} vocabulary_tokens"
        yield cell, r["vocabulary_tokens"], int(base) + int(r["added_tokens"] or 0)


def parameters():
    base = {r["model"]: r for r in table(1, "thesis")}
    bert, labels = int(base["BERT"]["hidden_dimension"]), 4
    # The masked LM has no pooler but a layer of its size, a layer norm and a bias for each token.
    head = {
        ("BERT", "masked-lm"): 2 * bert + int(base["BERT"]["vocabulary_tokens"]),
        ("BERT", "text-classification"): labels * (bert + 1),
    }
    for r in table(9, "thesis"):
        model, kind, extension = r["model"], r["head"], r["extension"]
        cell = f"{extension} {model} {kind}"
        if extension == "none":
            whole = int(base[model]["parameters"]) + head.get((model, kind), 0)
        else:
            added = pick(table(6, "thesis"), "added_tokens", model=model, extension=extension)
            row = int(base[model]["hidden_dimension"]) + (kind == "masked-lm")
            yield f"{cell} added_parameters", r["added_parameters"], int(added) * row
            same = {"model": model, "head": kind, "extension": "none"}
            whole = int(pick(table(9, "thesis"), "parameters", **same)) + int(added) * row
        yield f"{cell} parameters", r["parameters"], whole


def accuracies(number, model):
    """Each is that of a whole number of right answers; their sum is printed as well."""
    questions = {r["benchmark"]: int(r["questions"]) for r in rows("thesis_section_6_1.csv")}
    for extension in dict.fromkeys(r["extension"] for r in table(number, "thesis")):
        here = where(table(number, "thesis"), extension=extension)
        printed = {r["benchmark"]: r["accuracy_percent"] for r in here}
        right = {b: round(float(printed[b]) * n / 100) for b, n in questions.items()}
        share = {b: Decimal(100 * right[b]) / n for b, n in questions.items()}
        share["Average"] = mean(share.values())
        yield from ((f"{extension} {b}", printed[b], value) for b, value in share.items())
        for r in where(table(11, "thesis"), extension=extension, model=model):
            yield f"{extension} correct_answers", r["correct_answers"], sum(right.values())


def compression_shares(number, column, stated):
    per_token = []
    for r in table(number, "thesis"):
        base = pick(table(number, "thesis"), column, model=r["model"], extension="none")
        share = Decimal(r[column]) / Decimal(base) * 100
        yield f"{r['extension']} {r['model']} share_percent", r["share_percent"], share
        which = {"model": r["model"], "extension": r["extension"]}
        if added := pick(table(6, "thesis"), "added_tokens", **which):
            per_token.append(abs(share - 100) / int(added))
    yield "stated change per added token", stated, mean(per_token)


def stated_averages(number, stated):
    """A caption's average is contradicted if no values that round to the printed ones give it."""
    pairs = {}
    for r in table(number, "adaptbpe"):
        pairs.setdefault(r["dataset"], {})[r["tokenization"]] = r
    for cell, printed in stated.items():
        column = cell.split(",")[0]
        found = [(pair["adaptbpe"][column], pair["bpe"][column]) for pair in pairs.values()]
        found = [(Decimal(new), Decimal(old)) for new, old in found if old]
        low, middle, high = (
            mean(100 * ((new + e * HALF) / (old - e * HALF) - 1) for new, old in found)
            for e in (-1, 0, 1)
        )
        half = Decimal(5).scaleb(Decimal(printed).as_tuple().exponent - 1)
        if not low - half <= Decimal(printed) <= high + half:
            yield f"stated change of {cell}", printed, middle


RECOMPUTED = {
    "paper_table_01.csv": means_of_tables_12_and_13,
    "paper_table_04.csv": progress_by_frequency,
    "paper_table_08.csv": pruned_and_extended,
    "paper_table_10.csv": sizes_that_fit_table_6,
    "thesis_table_06.csv": extended_vocabularies,
    "thesis_table_09.csv": parameters,
    "thesis_table_12.csv": partial(accuracies, 12, "BERT"),
    "thesis_table_13.csv": partial(accuracies, 13, "MobileLLM"),
    "thesis_table_14.csv": partial(accuracies, 14, "SmolLM2"),
    "thesis_table_15.csv": partial(compression_shares, 15, "tokens", "0.00095"),
    "thesis_table_16.csv": partial(compression_shares, 16, "characters", "0.00085"),
    # what captions and introduction state
    "adaptbpe_table_01.csv": partial(
        stated_averages,
        1,
        {"fragment_score": "-39.16", "accuracy_percent": "3.57", "macro_f1_percent": "3.18"},
    ),
    "adaptbpe_table_02.csv": partial(
        stated_averages,
        2,
        {"fragment_score": "-13.20", "fragment_score, introduction": "-13.96", "rouge_l": "1.87"}
        | {"concept_score": "0.9", "rouge_l_high_oov": "10.40", "rouge_l_long_reference": "3.30"},
    ),
}


@pytest.mark.parametrize("name", RECOMPUTED)
def test_slips_are_what_other_numbers_contradict(name):
    found = [
        (cell, printed, rounded(n, printed) if printed[-1].isdigit() else n)
        for cell, printed, n in RECOMPUTED[name]()
    ]
    slips = where(rows("slips.csv"), file=name)
    slips = [(r["cell"], r["printed"], r["recomputed"]) for r in slips]
    assert sorted(row for row in found if row[1] != row[2]) == sorted(slips)


# ---- the lecture: what else its slides show is computed anew in notebooks 01, 02 and 05


def test_slips_of_the_lecture():
    found = [r for r in rows("slips.csv") if r["file"].startswith("lecture")]
    word = rows("lecture_bpe_examples.csv")[0]["split"].replace(", ", "")
    words = {r["word"]: int(r["frequency"]) for r in rows("lecture_wordpiece_corpus.csv")}
    cut = textbook.tokenize_bpe("funny", dict.fromkeys(sorted({*"".join(words)}), 0), [])
    split = ", ".join(cut).replace("[UNK]", "<UNK>")
    printed = pick(rows("lecture_wordpiece_examples.csv"), "split", tokenization="bpe")
    words = where(rows("lecture_unigram_words.csv"), iteration="1")
    seed = textbook.unigram_seed({r["word"]: int(r["frequency"]) for r in words})
    assert {r["cell"]: (r["printed"], r["recomputed"]) for r in found} == {
        "word announced": ("bag", word),
        "bpe funny split": (printed, split),
        "stated probability of hu": ("15/155", f"{seed['su']}/{sum(seed.values())}"),
    }


def test_the_stored_gaps_of_printed_cells_are_those_computed_today():
    stored = th.notebook.load_measured("printed_cells")
    pd.testing.assert_frame_equal(stored, printed_cells(), rtol=1e-5)
