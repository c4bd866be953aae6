"""Read SmolLM2's tokenizer from the GGUF file of its model."""

import sys
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers


def read_gguf(file: Path):
    """Open a GGUF file with the library's reader, which has its fields and tensors."""

    class Reader(import_gguf().GGUFReader):
        # The library slices the file once per token, and numpy's memmap is slow to slice. As a plain
        # array, which is still memory-mapped, the file is read in half the time.
        data = property(
            lambda self: self._plain,
            lambda self, mapped: setattr(self, "_plain", mapped.view(np.ndarray)),
        )

    return Reader(file)


def import_gguf():
    """Import the library without mistral_common, whose import takes two seconds.

    The library needs it only for the vocabularies of Mistral's models.
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
    """Build SmolLM2's tokenizer from the tokens, token types and merges in its GGUF file.

    The reader of transformers omits the step that splits numbers into digits.
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
