"""SmolLM2's tokenizer, from the GGUF file that its model comes in."""

import sys
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers


def read_gguf(file: Path):
    """Read a GGUF file: its fields and its tensors, as the library's reader gives them."""

    class Reader(import_gguf().GGUFReader):
        # The library takes a slice of the file for every token, and numpy's memmap is slow to
        # slice: as a plain array, which is mapped all the same, a file is read in half the time.
        data = property(
            lambda self: self._plain,
            lambda self, mapped: setattr(self, "_plain", mapped.view(np.ndarray)),
        )

    return Reader(file)


def import_gguf():
    """Import the library as it is where mistral_common is missing, which it would import for two seconds.

    It needs that for the vocabularies of Mistral's models only. Returns the library.
    """
    missing = "mistral_common" not in sys.modules
    if missing:
        sys.modules["mistral_common"] = None
    try:
        import gguf
    finally:
        if missing:
            del sys.modules["mistral_common"]
    return gguf


def from_gguf(file: Path) -> Tokenizer:
    """Build SmolLM2's tokenizer from tokens, their types and merges, as its GGUF file has them.

    Transformers' own reader leaves out the step that cuts numbers into digits.
    """
    fields = read_gguf(file).fields
    tokens, kinds, merges = (
        fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type", "merges")
    )
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(merge.split(" ")) for merge in merges]))
    by_digit = pre_tokenizers.Digits(individual_digits=True)  # what the file calls "smollm"
    bytes_too = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([by_digit, bytes_too])
    tokenizer.decoder = decoders.ByteLevel()
    control = import_gguf().TokenType.CONTROL
    special = [t for t, kind in zip(tokens, kinds, strict=True) if kind == control]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    return tokenizer
