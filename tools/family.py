"""Overlap of all vocabularies at hand, including those that no package of the project provides.

    python tools/family.py gpt-2=FOLDER deepseek claude-2

A NAME is one of `th.load_tokenizer`, or `deepseek` or `claude-2` where litellm is installed;
NAME=FOLDER is a folder with `vocab.json` and `merges.txt` of a byte-level BPE, as published for GPT-2.
The project's own names are added. Writes data/measured/vocabulary_overlap.csv, from which notebook 21
reads GPT-2, DeepSeek and Claude 2.
"""

import sys
import time
from importlib.metadata import distribution
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import tokhelpers as th

OWN = ["gpt-4", "llama-3", "qwen", "gpt-4o", "llama-4", "mistral-nemo", "mistral-v1", "mistral-v3"]
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


if __name__ == "__main__":
    began = time.monotonic()
    table = th.measure.overlap(dict(map(named_tokenizer, [*sys.argv[1:], *OWN])))
    names = [argument.partition("=")[0] for argument in sys.argv[1:]]
    command = " ".join(["python tools/family.py", *(f"{name}[=FOLDER]" for name in names)])
    seconds = time.monotonic() - began
    th.notebook.record_measured(table, "vocabulary_overlap", command=command, seconds=seconds)
