"""Make what lies in ``data/texts``: counts of real text, the choice of training texts, token totals.

    python tools/make_texts.py counts [FOLDER]        texts.csv and all counts, from the raw texts
    python tools/make_texts.py choose                 chosen.csv, from the counts and wordfreq
    python tools/make_texts.py naive                  data/measured/text_choice.csv, from the same
    python tools/make_texts.py totals NAME[=PATH] ... rows of data/measured/flores_tokens.csv

FOLDER holds the raw texts, one folder per source, with a ``manifest.tsv`` that says where each comes
from; without it the environment variable TOKHELPERS_SHARED_DATA names it. ``totals`` counts the
tokens of the raw lines of FLORES under the tokenizers that are named (PATH is that of one that
``load_tokenizer`` does not know by name) and keeps the rows of others. ``naive`` chooses each
training text by naive extension instead, and compares both methods on it and on NTREX. The bytes that
are written depend on the raw texts alone.
"""

import argparse
import csv
import io
import lzma
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pandas as pd

import tokhelpers as th
from tokhelpers.common.files import CHECKOUT, write_whole
from tokhelpers.text.shipped_counts import (
    TEXTS,
    WITHOUT_SPACES,
    mixture,
    most_frequent,
    read_counts,
    stored_texts,
    training_sources,
)

PLACE = CHECKOUT / "data" / "texts"
HELD_OUT = (
    400  # lines at the end of NTREX that nothing learns from: other articles than those before
)
LONGEST = 45  # characters of a chunk: what is longer in text to learn from has lost its spaces
NEW_TOKENS = 4_000  # that the choice of a training text is made with
MOST_CHUNKS = 100_000  # of each source that the choice looks at, the most frequent
SIZES = (1_000, 4_000)  # added tokens with which both methods are compared on other texts

# Codes of Table 12 (Glot500's), and of the same language in ISO 639-3 and ISO 639-1 where a source
# has it under these. Written differently from what the first three letters say: Albanian, Arabic,
# Azerbaijani, Chinese, Estonian, Latvian, Malay, Mongolian, Nepali, Swahili, Uzbek.
MACRO = {
    "als": "sqi", "arb": "ara", "azj": "aze", "cmn": "zho", "ekk": "est", "khk": "mon", "lvs": "lav",
    "npi": "nep", "swh": "swa", "uzn": "uzb", "zsm": "msa",
}  # fmt: skip
SHORT = {
    "af": "afr_Latn", "ar": "arb_Arab", "bg": "bul_Cyrl", "bn": "ben_Beng", "ca": "cat_Latn",
    "cs": "ces_Latn", "da": "dan_Latn", "de": "deu_Latn", "el": "ell_Grek", "en": "eng_Latn",
    "es": "spa_Latn", "et": "ekk_Latn", "eu": "eus_Latn", "fa": "fas_Arab", "fi": "fin_Latn",
    "fr": "fra_Latn", "gl": "glg_Latn", "he": "heb_Hebr", "hi": "hin_Deva", "hr": "hrv_Latn",
    "hu": "hun_Latn", "hy": "hye_Armn", "id": "ind_Latn", "is": "isl_Latn", "it": "ita_Latn",
    "ka": "kat_Geor", "kk": "kaz_Cyrl", "ko": "kor_Hang", "lt": "lit_Latn", "lv": "lvs_Latn",
    "mk": "mkd_Cyrl", "ml": "mal_Mlym", "ms": "zsm_Latn", "nb": "nob_Latn", "nl": "nld_Latn",
    "pl": "pol_Latn", "pt": "por_Latn", "ro": "ron_Latn", "ru": "rus_Cyrl", "si": "sin_Sinh",
    "sk": "slk_Latn", "sl": "slv_Latn", "sq": "als_Latn", "sv": "swe_Latn", "sw": "swh_Latn",
    "ta": "tam_Taml", "te": "tel_Telu", "tr": "tur_Latn", "uk": "ukr_Cyrl", "ur": "urd_Arab",
    "vi": "vie_Latn",
}  # fmt: skip
# wordfreq's list "sh" is Croatian, Bosnian and Serbian in Latin letters
WORDFREQ = {code: language for code, language in SHORT.items() if code != "hr"}

# A chunk ends before a single space between two characters that are neither white space nor the
# space symbol: the rule by which the package itself cuts text before it looks at pre-tokens.
BETWEEN = re.compile(r"(?<=[^\s▁])(?= [^\s▁])")


# --- counts --------------------------------------------------------------------------------------
def counts_of(lines: Iterable[str]) -> Counter:
    """Chunks of lines of text and how often each occurs; put together, they are the lines again."""
    counts = Counter()
    for line in lines:
        counts.update(BETWEEN.split(line))
    return counts


def is_spaced(line: str) -> bool:
    """Whether no chunk of a line is longer than words are."""
    return max(map(len, line.split(" "))) <= LONGEST


def packed(columns: dict[str, Counter]) -> bytes:
    """The counts as the bytes of a file: a table in tabs, chunks in order of their code points."""
    chunks = sorted(set().union(*columns.values()))
    rows = ["\t".join(("chunk", *columns))]
    rows += ["\t".join((c, *(str(counts[c]) for counts in columns.values()))) for c in chunks]
    if any(re.search(r"[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", chunk) for chunk in chunks):
        raise ValueError("a chunk holds a tab or the end of a line: clean the raw text")
    return lzma.compress("".join(f"{row}\n" for row in rows).encode(), preset=9)


def lines_of(file: Path) -> list[str]:
    """The lines of a raw text."""
    with lzma.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        return [line.rstrip("\n") for line in lines]


def make_counts(shared: Path) -> None:
    """Write the counts of all texts, and ``texts.csv``."""
    with open(shared / "manifest.tsv", newline="", encoding="utf-8") as file:
        manifest = {row["path"]: row for row in csv.DictReader(file, delimiter="\t")}
    languages = [*th.notebook.load_published("paper_table_12").language.unique(), "eng_Latn"]
    iso = {MACRO.get(code[:3], code[:3]): code for code in languages if code not in WITHOUT_SPACES}
    rows = []
    for kind in sorted({*TEXTS, "opensubtitles", "wikipedia"}):
        folder = "flores200" if kind == "flores" else kind
        for file in sorted((shared / folder).glob("*.txt.xz")):
            given = manifest[f"{folder}/{file.name}"]
            own = file.name.partition(".")[0]
            language = iso.get(own, SHORT.get(own)) if kind != "flores" else own
            if kind == "commonvoice":  # called as its own folders are: et, sv-SE
                own = re.search(r"server/data/([\w-]+)/", given["source_path"])[1]
            if language not in iso.values():  # none of the paper's, or written without spaces
                continue
            rows += make_text(shared, file, kind, own, language, given)
    rows.sort(key=lambda row: (row["language"], row["name"], row["split"] == "test"))
    write_table(rows, "texts.csv")


def make_text(shared, file: Path, kind: str, own: str, language: str, given: dict) -> list[dict]:
    """Write the counts of one text; returns its rows of ``texts.csv``."""
    lines, left_out = lines_of(file), 0
    if kind in TEXTS:
        forbidden = set()
        if kind != "flores":
            forbidden.update(lines_of(shared / "flores200" / f"{language}.txt.xz"))
        if kind in ("commonvoice", "tatoeba"):
            stem = MACRO.get(language[:3], language[:3])
            forbidden.update(lines_of(shared / "ntrex" / f"{stem}.txt.xz"))
        parts = {"count": lines}
        if kind == "ntrex":
            parts = {"train": lines[:-HELD_OUT], "test": lines[-HELD_OUT:]}
        texts = parts
        if kind != "flores":
            texts = {
                split: [line for line in part if line not in forbidden and is_spaced(line)]
                for split, part in parts.items()
            }
        left_out = {split: len(parts[split]) - len(texts[split]) for split in parts}
        columns = {split: counts_of(part) for split, part in texts.items()}
        sizes = {split: len(part) for split, part in texts.items()}
    else:
        pairs = (line.rsplit(" ", 1) for line in lines)
        columns, sizes = {"count": Counter()}, {"count": 0}
        for word, n in pairs:
            columns["count"][f" {word}"] += int(n)
        left_out = {"count": 0}
    target = PLACE / kind / f"{own}.tsv.xz"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, packed(columns))
    return [
        {
            "name": f"{kind}:{own}",
            "split": "all" if split == "count" else split,
            "language": language,
            "lines": sizes[split],
            "left_out": left_out[split],
            "chunks": counts.total(),
            "unique": len(counts),
            "chars": sum(len(chunk) * n for chunk, n in counts.items()),
            "bytes": sum(len(chunk.encode()) * n for chunk, n in counts.items()),
            "licence": given["licence"],
            "source": f"{given['source']}@{given['commit'][:12]}, {given['source_path']}",
        }
        for split, counts in columns.items()
    ]


def write_table(rows: list[dict], name: str) -> None:
    """Write rows as a table in ``data/texts``."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(PLACE / name, text.getvalue().encode())


# --- which training text -------------------------------------------------------------------------
def candidates(language: str) -> list[str]:
    """Names of all sources that a language can be learned from."""
    from wordfreq import available_languages

    texts = stored_texts()
    texts = texts[(texts.language == language) & (texts.split != "test")]
    stored = [name for name in texts.name if not name.startswith("flores")]
    lists = available_languages("best")
    codes = [code for code, its in WORDFREQ.items() if its == language and code in lists]
    codes += ["sh"] * (language in ("hrv_Latn", "bos_Latn"))
    return [*stored, *(f"wordfreq:{code}" for code in codes)]


def source_counts(name: str) -> dict[str, int]:
    """The most frequent chunks of one source to learn from, and their counts."""
    counts = th.load_corpus(name).counts if name.startswith("wordfreq") else read_counts(name)
    return dict(most_frequent(counts, MOST_CHUNKS))


def make_choice(only: list[str]) -> None:
    """Write ``chosen.csv``: the training text of each language, and what every candidate gives.

    Each candidate extends Llama-3 by 4,000 tokens, by continued training on its 100,000 most frequent
    chunks. Measured is the held-out part of NTREX: its tokens without the extension over those with
    it. The best single source is taken first. To it is added, with equal weight, the source that
    raises this most, as long as one does. The same is measured on FLORES, and not looked at.
    """
    texts = stored_texts()
    known = texts[texts.name.str.startswith("ntrex:") & (texts.split == "test")]
    rows = []
    if only and (PLACE / "chosen.csv").exists():
        with open(PLACE / "chosen.csv", newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["language"] not in only]
    for language, name in zip(known.language, known.name, strict=True):
        if not only or language in only:
            began = time.perf_counter()
            rows += choose(language, name)
            print(f"{language} {time.perf_counter() - began:.0f} s", flush=True)
            rows.sort(key=lambda row: row["language"])
            write_table(rows, "chosen.csv")


def choose(language: str, development: str, method: str = "continued") -> list[dict]:
    """Rows of ``chosen.csv`` for one language, in the order in which mixtures were tried.

    ``method`` is how Llama-3 is extended: ``"continued"`` or ``"naive"``.
    """
    how = {"continued": "append", "naive": "regenerate"}[method]
    llama = th.TokenizerSpec.from_tokenizer(th.load_tokenizer("llama-3"))
    test = th.count_pretokens(read_counts(development, "test"), llama)
    flores = th.count_pretokens(read_counts(f"flores:{language}"), llama)
    before = [th.evaluate(llama, words).tokens for words in (test, flores)]
    counts = {name: source_counts(name) for name in candidates(language)}
    tried: dict[tuple[str, ...], tuple[list[float], int]] = {}

    def fewer(names: tuple[str, ...]) -> float:
        words = th.count_pretokens(mixture(counts[name] for name in names), llama)
        with warnings.catch_warnings(
            action="ignore", category=UserWarning
        ):  # a text may yield fewer
            if method == "naive":
                none = th.Extension([])
                extension = th.notebook.supplement_tokens(llama, words, none, NEW_TOKENS)
            else:
                extension = th.continue_bpe(llama, words, NEW_TOKENS)
        learned = min(NEW_TOKENS, len(extension.tokens))
        longer = th.extend(
            llama, extension, learned, how=how
        )  # no tokenizer is built: it would take most of the time
        after = [th.evaluate(longer, words).tokens for words in (test, flores)]
        ratios = [round(old / new, 4) for old, new in zip(before, after, strict=True)]
        tried[names] = (ratios, learned)
        return ratios[0]

    best: tuple[str, ...] = ()
    while len(best) < len(counts):
        more = {(*best, name): fewer((*best, name)) for name in counts if name not in best}
        found = max(more, key=lambda names: (more[names], names))
        if best and more[found] <= tried[best][0][0]:
            break
        best = found
    return [
        {
            "language": language,
            "sources": " + ".join(names),
            "development": f"{development} test",
            "tokens_learned": learned,
            "chosen": "yes" if names == best else "no",
            "ratio_development": f"{ratios[0]:.4f}",
            "ratio_flores": f"{ratios[1]:.4f}",
        }
        for names, (ratios, learned) in tried.items()
    ]


def make_naive_choice() -> None:
    """Write ``data/measured/text_choice.csv``: both methods on texts not chosen for continued training.

    The texts are NTREX for all languages, and the one that the same rule chooses by naive extension.
    Where that is the language's training text, the rows are those of ``many_languages.csv``.
    """
    began, tables = time.perf_counter(), []
    texts = stored_texts()
    ntrex = texts[texts.name.str.startswith("ntrex:") & (texts.split == "test")]
    names = dict(zip(ntrex.language, ntrex.name, strict=True))
    cases = [(text, code) for text in ("ntrex", "naive") for code in sorted(names)]
    for text, language in cases:
        if language == "eng_Latn":
            continue
        sources = names[language]
        if text == "naive" and len(candidates(language)) > 1:
            rows = choose(language, sources, "naive")
            sources = next(row["sources"] for row in rows if row["chosen"] == "yes")
        table = both_methods(language, sources.split(" + "))
        tables.append(table.assign(language=language, text=text, sources=sources))
        print(text, language, sources, flush=True)
    columns = ["text", "tokenizer", "language", "sources", "added", "method", "bytes_per_token"]
    command, seconds = "python tools/make_texts.py naive", time.perf_counter() - began
    told = {"command": command, "seconds": seconds}
    th.notebook.record_measured(pd.concat(tables)[columns], "text_choice", **told)


def both_methods(language: str, sources: list[str]) -> pd.DataFrame:
    """Bytes per token of FLORES by continued and by naive extension of Llama-3 and Qwen."""
    if set(sources) == set(training_sources(language)):
        table = th.notebook.load_measured("many_languages").query("language == @language")
    else:
        train = mixture((th.load_corpus(source).counts for source in sources), MOST_CHUNKS)
        compare = partial(th.notebook.compare_language, language=language, sizes=SIZES, train=train)
        tables = (compare(name).assign(tokenizer=name) for name in ("llama-3", "qwen"))
        table = pd.concat(tables)
    as_shipped = table.merge_skipping == (table.tokenizer == "llama-3")
    compared = table.tokenizer.isin(["llama-3", "qwen"]) & table.added.isin(SIZES)
    return table[as_shipped & compared]


# --- tokens of the raw lines ---------------------------------------------------------------------
def make_totals(shared: Path, tokenizers: list[str], command: str) -> None:
    """Write ``data/measured/flores_tokens.csv``: tokens of every FLORES text, from its raw lines."""
    began, rows = time.perf_counter(), []
    texts = {
        f.name.partition(".")[0]: lines_of(f) for f in sorted((shared / "flores200").glob("*"))
    }
    for given in tokenizers:
        name, _, path = given.partition("=")
        tokenizer = th.load_tokenizer(os.path.expanduser(path) if path else name)
        for language, lines in texts.items():
            encoded = tokenizer.encode_batch(lines, add_special_tokens=False)
            rows.append(
                {
                    "language": language,
                    "tokenizer": name,
                    "tokens": sum(map(len, encoded)),
                    "lines": len(lines),
                    "chars": sum(map(len, lines)),
                    "bytes": sum(len(line.encode()) for line in lines),
                }
            )
    fresh = pd.DataFrame(rows)
    stored = CHECKOUT / "data" / "measured" / "flores_tokens.csv"
    if stored.exists():
        old = pd.read_csv(stored)
        fresh = pd.concat([old[~old.tokenizer.isin(fresh.tokenizer)], fresh])
    fresh = fresh.sort_values(["tokenizer", "language"], ignore_index=True)
    th.notebook.record_measured(
        fresh, "flores_tokens", command=command, seconds=time.perf_counter() - began
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("counts", "choose", "naive", "totals"))
    parser.add_argument("given", nargs="*", help="FOLDER, languages (none: all), or tokenizers")
    asked = parser.parse_args()
    if asked.what == "choose":
        return make_choice(asked.given)
    if asked.what == "naive":
        return make_naive_choice()
    folder = os.environ.get("TOKHELPERS_SHARED_DATA")
    if asked.what == "counts" and asked.given:
        folder = asked.given[0]
    if folder is None or not (Path(folder) / "manifest.tsv").is_file():
        parser.error("where are the raw texts? give their folder, or set TOKHELPERS_SHARED_DATA")
    if asked.what == "counts":
        return make_counts(Path(folder))
    names = [given.partition("=")[0] + "=PATH" * ("=" in given) for given in asked.given]
    return make_totals(
        Path(folder), asked.given, f"python tools/make_texts.py totals {' '.join(names)}"
    )


if __name__ == "__main__":
    main()
