"""Continued parity-aware BPE: new tokens for several languages, so that all are compressed alike."""

import warnings
from collections.abc import Iterable, Mapping

from tokenizers import Tokenizer

from ..common.checks import positive
from ..text.pretokens import Pretokens
from ..tokenizer.spec import TokenizerSpec
from ..train.parity import count_languages, learn_parity
from .extension import Extension


def continue_parity_bpe(
    tokenizer: Tokenizer,
    corpora: Mapping[str, Iterable[str] | Pretokens],
    n_tokens: int,
    *,
    development: Mapping[str, Iterable[str] | Pretokens],
    min_frequency: int = 1,
    max_token_length: int | None = None,
) -> Extension:
    """Learn new tokens by continuing a BPE tokenizer's training, always for the language worst off.

    ``corpora`` and ``development`` map the same languages to corpora, or to counts by this tokenizer's
    rules, the development texts being translations of each other. At each step the language with most
    tokens in its development text chooses the pair to merge (ties: the first language): the most
    frequent one in its own corpus (ties: the last in code-point order). All languages merge it, and
    the old merges apply wherever it makes this possible, as in an encoder. A language without a pair
    that occurs ``min_frequency`` times chooses no more. ``frequencies`` of the extension are counts in
    the corpus of the language that chose. The rest is as for ``continue_bpe``; new characters of a
    SentencePiece tokenizer come from all corpora together.

    Warns, and returns fewer tokens, when the texts yield fewer. Raises TypeError for anything but
    mappings; ValueError for languages that only one of the two has, and for what ``continue_bpe``
    refuses. Source: Foroutan et al. 2025, parity-aware BPE (arXiv 2508.04796), here on an existing
    vocabulary. A tokenizer without merges gets those of the library's ``ParityBpeTrainer``.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> corpora = {"en": ["bat bat bat"] * 99, "fi": ["kissa"]}
    >>> continue_parity_bpe(base, corpora, 2, development={"en": ["a bat"], "fi": ["lepakko"]}).tokens
    ['ss', 'ssa']
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    n_tokens = positive("n_tokens", n_tokens, 0)
    positive("min_frequency", min_frequency)
    if max_token_length is not None:
        positive("max_token_length", max_token_length)
    counts = count_languages(corpora, development, spec)
    rules = {"min_frequency": min_frequency, "max_token_length": max_token_length}
    tokens, merges, frequencies, characters = learn_parity(*counts, spec, n_tokens, **rules)
    if len(tokens) < n_tokens:
        warnings.warn(
            f"asked for {n_tokens:,} new tokens; these texts yield {len(tokens):,} at "
            f"min_frequency={min_frequency}: bring more text",
            stacklevel=2,
        )
    return Extension(tokens, merges, frequencies, continued=True, characters=characters)
