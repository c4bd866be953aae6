"""Intervals for 21: the gain of continued over naive extension of cl100k_base, over sentences of FLORES-200.

The notebook has FLORES-200 as counts of pre-tokens; an interval over sentences needs the raw lines.

    python tools/continued_gain.py [FOLDER]

FOLDER holds the raw texts as for `tools/make_texts.py`; without it TOKHELPERS_SHARED_DATA names it.
Writes data/measured/continued_gain.csv.
"""

import time

import pandas as pd
from superwords import flores, gain_over, raw_texts, tokens_by_line

import tokhelpers as th

LANGUAGES = [
    "arb_Arab", "bul_Cyrl", "ces_Latn", "ell_Grek", "fas_Arab", "hin_Deva", "kor_Hang", "rus_Cyrl",
    "tur_Latn", "ukr_Cyrl", "vie_Latn",
]  # fmt: skip
CHUNKS, BUDGET = 20_000, 22_085


def mix() -> dict[str, int]:
    """The most frequent chunks of all languages, weighted to equal bytes of each."""
    mixed = {}
    for code in LANGUAGES:
        counts = list(th.load_corpus(f"training:{code}").counts.items())[:CHUNKS]
        total = sum(len(chunk.encode()) * n for chunk, n in counts)
        for chunk, n in counts:
            mixed[chunk] = mixed.get(chunk, 0) + round(n * 10**9 / total)
    return mixed


def main() -> None:
    folder, began = raw_texts(__doc__), time.monotonic()
    base = th.load_tokenizer("gpt-4")
    text = th.count_pretokens(mix(), base)
    extension = th.continue_bpe(base, text, BUDGET)
    supplement = th.notebook.supplement_tokens(base, text, extension, BUDGET)
    continued = th.extend(base, extension, BUDGET)
    naive = th.extend(base, supplement, BUDGET, how="regenerate")
    rows = []
    for code in LANGUAGES:
        lines = flores(folder, code)
        before, after = (tokens_by_line(tokenizer, lines) for tokenizer in (naive, continued))
        rows.append({"language": code, "sentences": len(lines)} | gain_over(before, after))
    th.notebook.record_measured(
        pd.DataFrame(rows), "continued_gain", command="python tools/continued_gain.py",
        seconds=time.monotonic() - began,
    )  # fmt: skip


if __name__ == "__main__":
    main()
