"""The published numbers in data/paper: their form, and what the tables imply about each other.

Rounding is exact (decimal, half up). A printed value that the other numbers contradict must stand
in slips.csv with the value recomputed here, and nothing else may stand there.
"""

import csv
import re
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path

import pytest

from tokhelpers import textbook

PAPER = Path(__file__).parents[1] / "data" / "paper"
TABLES = sorted(p.name for p in PAPER.glob("*.csv") if p.name not in {"sources.csv", "slips.csv"})
NEW_TOKENIZERS = ["llama-3", "qwen-2.5"]
HALF = Decimal("0.005")  # what rounding to two decimals may hide
# The files whose slips a test below recomputes.
RECOMPUTED = {f"paper_table_{n}.csv" for n in ("08", "10")}
RECOMPUTED |= {f"thesis_table_{n}.csv" for n in ("06", "09", "15", "16")}
RECOMPUTED |= {f"adaptbpe_table_{n}.csv" for n in ("01", "02")}
RECOMPUTED |= {f"lecture_{n}.csv" for n in ("bpe_examples", "wordpiece_examples", "unigram_tokens")}


@cache
def rows(name):
    with open(PAPER / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


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


def slips(name):
    assert name in RECOMPUTED
    wrong = where(rows("slips.csv"), file=name)
    return {r["cell"]: (r["printed"], r["recomputed"]) for r in wrong}


def contradictions(pairs):
    """Of (cell, printed, recomputed number): those that differ at the printed precision."""
    pairs = [(cell, printed, rounded(value, printed)) for cell, printed, value in pairs]
    return {cell: (printed, value) for cell, printed, value in pairs if printed != value}


# ---- form


def test_sources_and_slips_name_the_files():
    assert sorted(r["file"] for r in rows("sources.csv")) == TABLES
    for r in rows("sources.csv"):
        known = r"arXiv:\d{4}\.\d{5}$|github\.com/|s-space\.snu\.ac\.kr/handle/|ELL881/AIL821$"
        assert re.match(known, r["identifier"]) and r["document"] and r["what"] and r["place"]
        number = re.search(r"table_(\d+)", r["file"])
        assert r["table"] == (f"Table {int(number[1])}" if number else "")
    named = {r["file"] for r in rows("sources.csv") if "slips.csv" in r["slips"]}
    assert named == {r["file"] for r in rows("slips.csv")} == RECOMPUTED
    assert all(r["printed"] != r["recomputed"] and r["why"] for r in rows("slips.csv"))


@pytest.mark.parametrize("name", [*TABLES, "sources.csv", "slips.csv"])
def test_file_is_plain(name):
    raw = (PAPER / name).read_bytes()
    assert b"\r" not in raw and not raw.startswith(b"\xef\xbb\xbf") and raw.endswith(b"\n")
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", column) for column in rows(name)[0])
    for row in rows(name):
        assert None not in row and None not in row.values(), row
        assert all(v == v.strip() for v in row.values()), row


# ---- the paper


@pytest.mark.parametrize("tokenizer", NEW_TOKENIZERS)
@pytest.mark.parametrize("added", ["1000", "2000", "4000", "8000", "16000", "32000"])
def test_table_1_is_the_mean_of_12_and_13(tokenizer, added):
    [row] = where(table(1), tokenizer=tokenizer, added=added)
    here = where(table(12), tokenizer=tokenizer, added=added)
    fewer = where(table(13), tokenizer=tokenizer, added=added)
    assert len(here) == len(fewer) == 70
    gain, share = row["compression_gain_percent"], row["unreachable_naive_percent"]
    assert gain == rounded(mean(r["gain_percent"] for r in here), gain)
    assert share == rounded(mean(r["fewer_unreachable"] for r in fewer) / int(added) * 100, share)
    # A gain printed as 0.0 may be a win or not; -0.0 is none.
    sure = sum(Decimal(r["gain_percent"]) > 0 for r in here)
    open_ = sum(r["gain_percent"] == "0.0" for r in here)
    wins = round(float(row["compression_win_rate_percent"]) * 0.7)
    assert sure <= wins <= sure + open_


def script(code):
    ending = code.split("_")[1]
    return ending if ending in {"Latn", "Cyrl", "Arab", "Jpan", "Hani"} else "Other"


def test_table_2_is_the_mean_of_12_by_script():
    for row in table(2):
        codes = [r["code"] for r in table(11) if script(r["code"]) == row["script"]]
        assert int(row["languages"]) == len(codes)
        if row["tokenizer"] in NEW_TOKENIZERS:
            same = where(table(12), tokenizer=row["tokenizer"])
            gains = [r["gain_percent"] for r in same if script(r["language"]) == row["script"]]
            assert len(gains) == 6 * len(codes)
            printed = row["compression_gain_percent"]
            assert Decimal(printed) == Decimal(rounded(mean(gains), printed))


def test_languages_of_the_paper():
    codes = {r["code"] for r in table(11)}
    assert len(codes) == len(table(11)) == 70
    for n in (12, 13):
        assert {r["language"] for r in table(n)} == codes
        assert len(table(n)) == 70 * 2 * 6
    for r in table(11):
        unit = {"B": 10**9, "T": 10**12}[r["bytes_printed"][-1]]
        assert int(r["bytes"]) == Decimal(r["bytes_printed"][:-1]) * unit


def test_tables_4_5_6_8_agree():
    naive, ours = (
        {"added": "16000", "pruning_order": "leaf-frequency", "extension": e}
        for e in ("naive", "ours")
    )
    found = []
    for r in table(8):
        which = {"prune+ext 16k naive": naive, "prune+ext 16k ours": ours}.get(r["tokenizer"])
        if which is None:
            assert r["unreachable_tokens"] == "588"
            continue
        for language in ("ET", "EN"):
            full = pick(table(4), "bytes_per_token", language=language, **which)
            assert r[f"{language.lower()}_bytes_per_token"] == rounded(full, "0.01")
        count = pick(table(5), "unreachable_tokens", **which)
        found.append((f"{r['tokenizer']} unreachable_tokens", r["unreachable_tokens"], count))
    assert contradictions(found) == slips("paper_table_08.csv")
    for r in table(6):
        trained = r["training"] != "none"
        [same] = where(table(8), tokenizer=r["training"] if trained else "default")
        assert r["et_bytes_per_token"] == same["et_bytes_per_token"]
        assert r["en_bytes_per_token"] == "4.86"
        assert not trained or r["training_tokens"] == same["training_tokens"]


def sizes_that_fit(benchmark):
    """Numbers of questions that give every printed accuracy and its 95 % interval."""
    rows = where(table(6), benchmark=benchmark)
    scores = [(r["score"], r["ci95_half_width"]) for r in rows]

    def fits(n, score, interval):
        near = round(n * float(score) / 100)
        for k in (near - 1, near, near + 1):
            p = k / n
            if 0 < p < 1 and f"{100 * p:.1f}" == score:
                half = 196 * (p * (1 - p) / (n - 1)) ** 0.5
                if f"{half:.1f}" == interval:
                    return True
        return False

    return [n for n in range(50, 3000) if all(fits(n, *s) for s in scores)]


def test_table_6_accuracies_fit_the_data_sets():
    sizes = {f"{name} {x}": name for name in ("Belebele", "SIB200") for x in ("ET", "EN")}
    sizes |= {"Winogrande ET": "Winogrande ET", "Winogrande EN": "Winogrande", "XCOPA ET": "XCOPA"}
    wrong = {}
    for benchmark, dataset in sizes.items():
        printed = pick(table(10), "examples", dataset=dataset)
        fit = sizes_that_fit(benchmark)
        if int(printed) not in fit:
            assert len(fit) == 1
            wrong[f"{dataset} examples"] = (printed, str(fit[0]))
    assert wrong == slips("paper_table_10.csv")


# ---- the thesis


def test_extended_vocabularies():
    found = []
    for r in table(6, "thesis"):
        base = pick(table(1, "thesis"), "vocabulary_tokens", model=r["model"])
        if r["extension"] == "none":
            assert r["vocabulary_tokens"] == base
            continue
        cell = f"{r['extension']} {r['model']} vocabulary_tokens"
        found.append((cell, r["vocabulary_tokens"], int(base) + int(r["added_tokens"])))
        method = pick(table(1, "thesis"), "tokenization", model=r["model"])
        kind, frequency = r["extension"].split("-")
        source = table({"Auto": 4, "Crawled": 5}[kind], "thesis")
        given = {"minimum_frequency": frequency, "method": method}
        supplement = pick(source, "vocabulary_tokens", **given)
        assert int(r["added_tokens"]) < int(supplement)
    assert contradictions(found) == slips("thesis_table_06.csv")


def test_parameters():
    base = {r["model"]: int(r["parameters"]) for r in table(1, "thesis")}
    hidden = {r["model"]: int(r["hidden_dimension"]) for r in table(1, "thesis")}
    tokens = {r["model"]: int(r["vocabulary_tokens"]) for r in table(1, "thesis")}
    labels = 4
    # The masked LM has no pooler but a layer of its size, a layer norm and a bias for each token.
    head = {
        ("BERT", "masked-lm"): 2 * hidden["BERT"] + tokens["BERT"],
        ("BERT", "text-classification"): labels * (hidden["BERT"] + 1),
    }
    found, nine = [], table(9, "thesis")
    for r in nine:
        model = {"model": r["model"]}
        if r["extension"] == "none":
            expected = base[r["model"]] + head.get((r["model"], r["head"]), 0)
            found.append((f"none {r['model']} {r['head']} parameters", r["parameters"], expected))
            continue
        added = pick(table(6, "thesis"), "added_tokens", extension=r["extension"], **model)
        more = int(added) * (hidden[r["model"]] + (r["head"] == "masked-lm"))
        assert int(r["added_parameters"]) == more
        baseline = pick(nine, "parameters", extension="none", head=r["head"], **model)
        assert int(r["parameters"]) == int(baseline) + more
    assert contradictions(found) == slips("thesis_table_09.csv")


@pytest.mark.parametrize("number, model", [(12, "BERT"), (13, "MobileLLM"), (14, "SmolLM2")])
def test_accuracies_follow_from_right_answers(number, model):
    questions = {r["benchmark"]: int(r["questions"]) for r in rows("thesis_section_6_1.csv")}
    assert len(questions) == 8 and sum(questions.values()) == 6545
    for extension in dict.fromkeys(r["extension"] for r in table(number, "thesis")):
        here = where(table(number, "thesis"), extension=extension)
        printed = {r["benchmark"]: r["accuracy_percent"] for r in here}
        right = {b: round(float(printed[b]) * n / 100) for b, n in questions.items()}
        share = {b: Decimal(100 * right[b]) / n for b, n in questions.items()}
        assert {**share, "Average": None}.keys() == printed.keys()
        assert all(printed[b] == rounded(share[b], printed[b]) for b in questions)
        assert printed["Average"] == rounded(mean(share.values()), printed["Average"])
        if extension != "untrained":
            eleven = table(11, "thesis")
            correct = pick(eleven, "correct_answers", model=model, extension=extension)
            assert sum(right.values()) == int(correct)


@pytest.mark.parametrize(
    "number, column, stated", [(15, "tokens", "0.00095"), (16, "characters", "0.00085")]
)
def test_compression_shares(number, column, stated):
    found, per_token = [], []
    for r in table(number, "thesis"):
        base = pick(table(number, "thesis"), column, model=r["model"], extension="none")
        if r["extension"] == "none":
            assert r["share_percent"] == "100"
            continue
        share = Decimal(r[column]) / Decimal(base) * 100
        found.append((f"{r['extension']} {r['model']} share_percent", r["share_percent"], share))
        added = pick(table(6, "thesis"), "added_tokens", model=r["model"], extension=r["extension"])
        per_token.append(abs(share - 100) / int(added))
    found.append(("stated change per added token", stated, mean(per_token)))
    assert contradictions(found) == slips(f"thesis_table_{number}.csv")


# ---- AdaptBPE


CHANGES = {  # as captions and introduction state them, by table of AdaptBPE
    1: {"fragment_score": "-39.16", "accuracy_percent": "3.57", "macro_f1_percent": "3.18"},
    2: {"fragment_score": "-13.20", "fragment_score, introduction": "-13.96", "rouge_l": "1.87"}
    | {"concept_score": "0.9", "rouge_l_high_oov": "10.40", "rouge_l_long_reference": "3.30"},
}


@pytest.mark.parametrize("number, stated", CHANGES.items())
def test_stated_averages(number, stated):
    """A caption's average is contradicted if no values that round to the printed ones give it."""
    found = []
    for cell, printed in stated.items():
        column = cell.split(",")[0]
        value = {(r["dataset"], r["tokenization"]): r[column] for r in table(number, "adaptbpe")}
        pairs = [
            (Decimal(value[d, "adaptbpe"]), Decimal(v))
            for (d, kind), v in value.items()
            if kind == "bpe" and v
        ]
        low, middle, high = (
            mean(100 * ((new + e * HALF) / (old - e * HALF) - 1) for new, old in pairs)
            for e in (-1, 0, 1)
        )
        half = Decimal(5).scaleb(Decimal(printed).as_tuple().exponent - 1)
        if not low - half <= Decimal(printed) <= high + half:
            found.append((f"stated change of {cell}", printed, middle))
    assert contradictions(found) == slips(f"adaptbpe_table_{number:02}.csv")


# ---- the lecture: what else its slides show is computed anew in notebooks 01, 02 and 05


def test_slips_of_the_lecture():
    first = rows("lecture_bpe_examples.csv")[0]
    word = first["split"].replace(", ", "")
    assert slips("lecture_bpe_examples.csv") == {"word announced": ("bag", word)}
    words = {r["word"]: int(r["frequency"]) for r in rows("lecture_wordpiece_corpus.csv")}
    cut = textbook.tokenize_bpe("funny", dict.fromkeys(sorted({*"".join(words)}), 0), [])
    split = ", ".join(cut).replace("[UNK]", "<UNK>")
    printed = pick(rows("lecture_wordpiece_examples.csv"), "split", tokenization="bpe")
    wrong = {"bpe funny split": (printed, split)}
    assert wrong == slips("lecture_wordpiece_examples.csv")
    words = where(rows("lecture_unigram_words.csv"), iteration="1")
    seed = textbook.unigram_seed({r["word"]: int(r["frequency"]) for r in words})
    right = f"{seed['su']}/{sum(seed.values())}"
    assert slips("lecture_unigram_tokens.csv") == {"stated probability of hu": ("15/155", right)}
