"""Overlap of all vocabularies at hand, including those that no package of the project provides.

    python tools/family.py gpt-2=FOLDER deepseek claude-2

A NAME is one of `th.load_tokenizer`, or `deepseek` or `claude-2` where litellm is installed;
NAME=FOLDER is a folder with `vocab.json` and `merges.txt` of a byte-level BPE, as published for GPT-2.
The project's own names are added. Writes data/measured/vocabulary_overlap.csv, from which notebook 21
reads GPT-2, DeepSeek and Claude 2.

    python tools/family.py unreachable

Adds 22,085 tokens to cl100k_base from texts of six sizes, and from four that are reweighted at random,
and writes data/measured/gpt4_continued.csv: how many of the added tokens are unreachable (ten minutes).

    python tools/family.py alone

Adds tokens of one of the eleven languages at a time to cl100k_base, naively, and writes
data/measured/gpt4_alone.csv: how many of them are unreachable (some minutes).
"""

import sys
import time
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pandas as pd
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import tokhelpers as th

OWN = ["gpt-4", "llama-3", "qwen", "gpt-4o", "llama-4", "mistral-nemo", "mistral-v1", "mistral-v3"]
LANGUAGES = ["arb_Arab", "bul_Cyrl", "ces_Latn", "ell_Grek", "fas_Arab", "hin_Deva"]
LANGUAGES += ["kor_Hang", "rus_Cyrl", "tur_Latn", "ukr_Cyrl", "vie_Latn"]
ADDED = 22_085  # tokens that Llama 3 appends to cl100k_base in the scripts of our texts
CHUNKS = (5_000, 10_000, 20_000, 40_000, 80_000, None)
SIZES = (2_000, 16_000)  # tokens added for one language alone, as in the paper's Table 13
LITELLM = {"claude-2": "anthropic_tokenizer.json", "deepseek": "deepseek_tokenizer.json"}


def named_tokenizer(argument: str) -> tuple[str, Tokenizer]:
    """Return the name and the tokenizer that a command-line argument asks for."""
    name, _, folder = argument.partition("=")
    if not folder and name in LITELLM:
        file = f"litellm/litellm_core_utils/tokenizers/{LITELLM[name]}"
        return name, th.load_tokenizer(distribution("litellm").locate_file(file))
    if not folder:
        return name, th.load_tokenizer(name)
    files = (str(Path(folder) / file) for file in ("vocab.json", "merges.txt"))
    tokenizer = Tokenizer(models.BPE.from_file(*files))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return name, tokenizer


def mixture(chunks: int | None, seed: int | None = None) -> dict[str, int]:
    """Chunks of the eleven languages with their counts, weighted to equal bytes of each.

    With a ``seed``, each count is first multiplied by a random number (exponential, mean 1).
    """
    mixed, random = {}, np.random.default_rng(seed)
    for code in LANGUAGES:
        counts = list(th.load_corpus(f"training:{code}").counts.items())[:chunks]
        if seed is not None:
            weights = random.exponential(size=len(counts))
            counts = [(chunk, n * w) for (chunk, n), w in zip(counts, weights, strict=True)]
        total = sum(len(chunk.encode()) * n for chunk, n in counts)
        for chunk, n in counts:
            mixed[chunk] = mixed.get(chunk, 0) + round(n * 10**9 / total)
    return mixed


def unreachable_by_text() -> pd.DataFrame:
    """How many of the tokens added to cl100k_base are unreachable, by text and by method."""
    base = th.TokenizerSpec.from_tokenizer(th.load_tokenizer("gpt-4"))
    rows = []
    for chunks, seed in [*((n, None) for n in CHUNKS), *((20_000, seed) for seed in range(4))]:
        counts = th.count_pretokens(mixture(chunks, seed), base)
        continued = th.continue_bpe(base, counts, ADDED)
        naive = th.notebook.supplement_tokens(base, counts, continued, ADDED)
        extended = {
            "naive": (th.extend(base, naive, ADDED, how="regenerate"), naive.tokens[:ADDED]),
            "continued": (th.extend(base, continued, ADDED), continued.tokens[:ADDED]),
        }
        for method, (tokenizer, tokens) in extended.items():
            missed = len(set(th.unreachable_tokens(tokenizer, tokens)))
            rows.append((method, chunks or "all", seed, len(counts), len(tokens), missed))
            print(*rows[-1], flush=True)
    columns = ["method", "chunks", "reweighted", "pretokens", "added", "unreachable"]
    return pd.DataFrame(rows, columns=columns).astype({"reweighted": "Int64"})


def unreachable_alone() -> pd.DataFrame:
    """How many naive tokens are unreachable if one language at a time is added to cl100k_base."""
    base = th.TokenizerSpec.from_tokenizer(th.load_tokenizer("gpt-4"))
    rows = []
    for code in LANGUAGES:
        counts = th.count_pretokens(th.load_corpus(f"training:{code}").counts, base)
        naive = th.notebook.supplement_tokens(base, counts, th.Extension([]), max(SIZES))
        for added in (n for n in SIZES if n <= len(naive.tokens)):
            tokenizer = th.extend(base, naive, added, how="regenerate")
            missed = len(set(th.unreachable_tokens(tokenizer, naive.tokens[:added])))
            rows.append((code, len(counts), added, missed))
            print(*rows[-1], flush=True)
    return pd.DataFrame(rows, columns=["language", "pretokens", "added", "unreachable"])


UNREACHABLE = {
    "unreachable": ("gpt4_continued", unreachable_by_text),
    "alone": ("gpt4_alone", unreachable_alone),
}


def main(*given: str) -> None:
    """Measure what is asked for, or the overlap with the tokenizers that are given, and keep it."""
    began = time.monotonic()
    if len(given) == 1 and given[0] in UNREACHABLE:
        name, measure = UNREACHABLE[given[0]]
        table, told = measure(), given
    else:
        name, tokenizers = "vocabulary_overlap", map(named_tokenizer, [*given, *OWN])
        table = th.measure.overlap(dict(tokenizers))
        told = [argument.partition("=")[0] + "[=FOLDER]" for argument in given]
    command, seconds = " ".join(["python tools/family.py", *told]), time.monotonic() - began
    th.notebook.record_measured(table, name, command=command, seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
