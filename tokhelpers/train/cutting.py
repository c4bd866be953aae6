"""How the trainers cut text: tokenizers without a vocabulary, by which words are counted."""

import warnings

import numpy as np
import pyarrow as pa
from pyarrow import compute
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers as cut

from ..text.pretokens import Pretokens


def cutting_shell(normalizer, pre_tokenizers: list) -> Tokenizer:
    """A tokenizer that only cuts."""
    shell = Tokenizer(models.BPE())
    if normalizer is not None:
        shell.normalizer = normalizer
    one = len(pre_tokenizers) == 1
    shell.pre_tokenizer = pre_tokenizers[0] if one else cut.Sequence(pre_tokenizers)
    return shell


def isolating(digits: bool, punctuation: bool) -> list:
    """Pre-tokenizers that cut before and after punctuation and each digit, where that is wanted."""
    marks, numbers = [cut.Punctuation("isolated")], [cut.Digits(individual_digits=True)]
    return marks * punctuation + numbers * digits


def spaced_shell(normalizer, digits: bool, punctuation: bool) -> Tokenizer:
    """As SentencePiece cuts: spaces become ▁, one is put before the text, and each begins a word."""
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    if normalizer is not None:
        steps.insert(0, normalizer)
    words = cut.Split("▁", "merged_with_next")
    return cutting_shell(normalizers.Sequence(steps), [words, *isolating(digits, punctuation)])


def spaced_decoder() -> decoders.Decoder:
    """What undoes `spaced_shell`: ▁ and byte tokens become text, without the first space."""
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)])


def short_enough(words: Pretokens, limit: int) -> tuple[pa.Array, np.ndarray]:
    """Pre-tokens and counts without those that are longer than the limit, of which it warns."""
    lengths = compute.utf8_length(words.strings).to_numpy()
    long = lengths > limit
    if not long.any():
        return words.strings, words.counts
    if long.all():
        raise ValueError(
            f"every pre-token is longer than max_word_length={limit:,} (the shortest has "
            f"{lengths.min():,} characters): raise it, or cut the text into words"
        )
    warnings.warn(
        f"pre-tokens longer than max_word_length={limit:,} are left out: {long.sum():,} unique, "
        f"{words.counts[long].sum():,} in all, the longest of {lengths.max():,} characters; raise it "
        "to train on them",
        stacklevel=3,
    )
    return words.strings.filter(~long), words.counts[~long]


def finished(shell: Tokenizer, model, decoder, special: list[str]) -> Tokenizer:
    """The shell with its model, decoder and special tokens."""
    shell.model, shell.decoder = model, decoder
    shell.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    return shell
