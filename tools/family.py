"""Overlap of all vocabularies at hand, also those that no package of the project brings.

    python tools/family.py gpt-2=FOLDER deepseek claude-2

A NAME is one of `th.load_tokenizer`; NAME=FOLDER is a folder with `vocab.json` and `merges.txt` of a
byte-level BPE, as GPT-2's were published. All of the project's own names come as well. Writes
data/measured/vocabulary_overlap.csv, which notebook 21 reads for GPT-2, DeepSeek and Claude 2.
"""

import sys
import time
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import tokhelpers as th

OWN = ["gpt-4", "llama-3", "qwen", "gpt-4o", "llama-4", "mistral-nemo", "mistral-v1", "mistral-v3"]


def named(argument: str) -> tuple[str, Tokenizer]:
    """A tokenizer and its name, from an argument."""
    name, _, folder = argument.partition("=")
    if not folder:
        return name, th.load_tokenizer(name)
    files = (str(Path(folder) / file) for file in ("vocab.json", "merges.txt"))
    tokenizer = Tokenizer(models.BPE.from_file(*files))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return name, tokenizer


if __name__ == "__main__":
    began = time.monotonic()
    table = th.measure.overlap(dict(map(named, [*sys.argv[1:], *OWN])))
    shown = [argument.partition("=")[0] for argument in sys.argv[1:]]
    command = " ".join(["python tools/family.py", *(f"{name}[=FOLDER]" for name in shown)])
    seconds = time.monotonic() - began
    th.notebook.record_measured(table, "vocabulary_overlap", command=command, seconds=seconds)
