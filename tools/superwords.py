"""Superwords by language, from running text: ``data/measured/superwords_languages.csv`` for 23.

Llama-3 is extended by tokens learned within words and across them, from the same sentences of Common
Voice and Tatoeba, and measured on the raw lines of FLORES-200: once as it is, and once after it was
taught merges to its 588 tokens that only merge skipping produces (`base` is then "taught"). The rows of
method "runs" have the pattern of superwords and no added tokens: what merge skipping no longer does inside
runs of words.

    python tools/superwords.py [FOLDER]

FOLDER holds the raw texts as for `tools/make_texts.py`; without it TOKHELPERS_SHARED_DATA names it.

Predictions, written before the first run: with 4,000 tokens superwords gain a fifth on continued
extension in English, French and Spanish, a third in Vietnamese, where spaces separate syllables, some
5 % in Finnish, Estonian, Hungarian and Turkish, and nothing in Chinese and Japanese. Without any added
token, the runs cost nothing in English and above 5 % in Vietnamese only. Written before the runs on the
taught Llama-3: the pattern alone costs no language anything; with 4,000 tokens Turkish gains about 1 %
and Vietnamese 12 %, Arabic and Ukrainian cannot be told from zero, and Finnish still loses 0.4 %.
"""

import argparse
import os
import time
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
from make_texts import lines_of

import tokhelpers as th

LANGUAGES = {
    "eng": "eng_Latn", "fra": "fra_Latn", "spa": "spa_Latn", "por": "por_Latn", "ita": "ita_Latn",
    "deu": "deu_Latn", "nld": "nld_Latn", "vie": "vie_Latn", "fin": "fin_Latn", "est": "ekk_Latn",
    "hun": "hun_Latn", "tur": "tur_Latn", "rus": "rus_Cyrl", "ukr": "ukr_Cyrl", "ara": "arb_Arab",
    "hin": "hin_Deva", "kor": "kor_Hang", "jpn": "jpn_Jpan", "zho_hans": "cmn_Hani",
}  # fmt: skip
CHARS, SIZES, MAX_WORDS = 3_000_000, (1_000, 4_000), 4


def raw_texts(description: str) -> Path:
    """The folder of raw texts that the command line or TOKHELPERS_SHARED_DATA names."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TOKHELPERS_SHARED_DATA"))
    folder = parser.parse_args().folder
    if folder is None:
        parser.error("name the folder of raw texts, or set TOKHELPERS_SHARED_DATA")
    return Path(folder)


def training_text(folder: Path, language: str) -> list[str]:
    """Sentences of Common Voice and Tatoeba in an order by seed, CHARS characters at most."""
    files = (folder / source / f"{language}.txt.xz" for source in ("commonvoice", "tatoeba"))
    lines = [line for file in files if file.exists() for line in lines_of(file)]
    order = np.random.default_rng(0).permutation(len(lines))
    ends = np.cumsum([len(lines[i]) for i in order])
    return [lines[i] for i in islice(order, int(np.searchsorted(ends, CHARS)) + 1)]


def taught(tokenizer):
    """The tokenizer with merges that lead to the tokens that only merge skipping produces."""
    texts = [tokenizer.decoder.decode([token]) for token in th.unreachable_tokens(tokenizer)]
    with warnings.catch_warnings(action="ignore"):  # they yield fewer than 10,000
        return th.extend(tokenizer, th.continue_bpe(tokenizer, texts, 10_000))


def measure_language(folder: Path, language: str, tokenizer) -> list[dict]:
    """Extend the tokenizer within words and across them, and compare the two on FLORES."""
    text, lines = training_text(folder, language), flores(folder, LANGUAGES[language])
    superwords = th.with_superwords(tokenizer, MAX_WORDS)
    row = {"language": LANGUAGES[language], "added": 0}
    rows = [row | {"method": "none", **sizes(tokenizer, lines)}]
    rows.append(row | {"method": "runs", **sizes(superwords, lines)})
    by_line = {}
    for method, base in (("continued", tokenizer), ("superwords", superwords)):
        extension = th.continue_bpe(base, text, max(SIZES))
        for n in SIZES:
            extended = th.extend(base, extension, n)
            row = {"language": LANGUAGES[language], "method": method, "added": n}
            across = np.mean(["Ġ" in token[1:] for token in extension.tokens[:n]])
            by_line[method, n] = tokens_by_line(extended, lines)
            rows.append(row | {"across_spaces": across, **sizes(extended, lines)})
            if method == "superwords":
                rows[-1] |= gain_over(by_line["continued", n], by_line[method, n])
    chars = sum(map(len, text))
    return [row | {"training_chars": chars} for row in rows]


def flores(folder: Path, code: str) -> list[str]:
    return lines_of(folder / "flores200" / f"{code}.txt.xz")


def tokens_by_line(tokenizer, lines: list[str]) -> np.ndarray:
    return np.array([len(e.ids) for e in tokenizer.encode_batch(lines, add_special_tokens=False)])


def gain_over(before: np.ndarray, after: np.ndarray) -> dict:
    """The gain in bytes per token, %, and its 95 % interval: a bootstrap over sentences, 1,000 times."""
    drawn = np.random.default_rng(0).integers(len(before), size=(1_000, len(before)))
    gains = 100 * (before[drawn].sum(axis=1) / after[drawn].sum(axis=1) - 1)
    low, high = np.quantile(gains, [0.025, 0.975])
    return {"gain": 100 * (before.sum() / after.sum() - 1), "gain_from": low, "gain_to": high}


def sizes(tokenizer, lines: list[str]) -> dict:
    tokens = int(tokens_by_line(tokenizer, lines).sum())
    size = sum(len(line.encode()) for line in lines)
    return {"tokens": tokens, "bytes_per_token": size / tokens}


def main() -> None:
    folder, began = raw_texts(__doc__), time.monotonic()
    tokenizer = th.load_tokenizer("llama-3")
    rows = []
    for base, start in {"Llama-3": tokenizer, "taught": taught(tokenizer)}.items():
        for language in LANGUAGES:
            measured = measure_language(folder, language, start)
            rows += [{"base": base} | row for row in measured]
            print(*rows[-2:], f"{time.monotonic() - began:.0f} s", flush=True)
    th.notebook.record_measured(
        pd.DataFrame(rows), "superwords_languages", command="python tools/superwords.py",
        seconds=time.monotonic() - began,
    )  # fmt: skip


if __name__ == "__main__":
    main()
