"""Tokenizers trained from scratch: the one merge loop with another beginning."""

import warnings
from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from .merges import learn_tokens
from .pretokens import Pretokens, byte_alphabet, count_pretokens, cutting_rules
from .surgery import Parts, build, merge_ids, read


def counted(corpus: Iterable[str] | Pretokens, tokenizer: Tokenizer | Parts) -> Pretokens:
    """Pre-token counts of a corpus; counts made by the same rules before are taken as they are.

    Raises ValueError for counts that another normalizer or pre-tokenizer made.
    """
    if not isinstance(corpus, Pretokens):
        return count_pretokens(corpus, tokenizer)
    if corpus.rules != cutting_rules(tokenizer):
        raise ValueError(
            "the counts were made by another normalizer or pre-tokenizer than this tokenizer's: "
            "count the text again with count_pretokens(corpus, tokenizer)"
        )
    return corpus


def train_byte_level_bpe(
    corpus: Iterable[str] | Pretokens,
    *,
    vocab_size: int,
    min_frequency: int = 0,
    pre_tokenizer=None,
    normalizer=None,
    special_tokens: Sequence[str] = (),
    max_token_length: int | None = None,
) -> Tokenizer:
    """Train a byte-level BPE tokenizer: begin with the 256 bytes, merge the most frequent pair.

    ``corpus`` iterates over documents, or is counts by the same ``normalizer`` and
    ``pre_tokenizer`` (``tokenizers`` objects; the pre-tokenizer must end in ``ByteLevel``, and is
    GPT-2's by default). ``vocab_size`` counts special tokens, which come first, and the 256 bytes.
    Warns when the text holds fewer tokens. Raises ValueError for a vocabulary smaller than the
    bytes and special tokens, for special tokens given twice, and for an empty corpus.

    Source: Radford et al. 2019; ties as in the Hugging Face trainer.

    >>> tokenizer = train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> tokenizer.encode("bat").tokens
    ['ba', 't']
    """
    base = _bytes_only(special_tokens, pre_tokenizer, normalizer)
    wanted = vocab_size - base.get_vocab_size()
    if wanted < 0:
        raise ValueError(
            f"vocab_size={vocab_size:,} is smaller than the 256 bytes and {len(special_tokens)} special "
            f"tokens: use at least {base.get_vocab_size()}"
        )
    parts = read(base)
    words = counted(corpus, base)
    tokens, merges, _ = learn_tokens(
        words, parts, wanted, min_frequency=max(1, min_frequency), max_token_length=max_token_length
    )
    if len(tokens) < wanted:
        warnings.warn(
            f"asked for a vocabulary of {vocab_size:,}; this text yields "
            f"{base.get_vocab_size() + len(tokens):,} at min_frequency={min_frequency}",
            stacklevel=2,
        )
    vocab = {**parts.vocab, **{token: parts.next_id + i for i, token in enumerate(tokens)}}
    return build(Parts(parts.settings, vocab, merge_ids(vocab, merges)))


def _bytes_only(special_tokens, pre_tokenizer, normalizer) -> Tokenizer:
    """A byte-level tokenizer without merges; bytes in the order of their characters, as the library."""
    twice = [t for t in special_tokens if list(special_tokens).count(t) > 1]
    if twice:
        raise ValueError(
            f"the special token {twice[0]!r} is given {len(twice)} times: give it once"
        )
    pre_tokenizer = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pre_tokenizer.pre_tokenize_str("é")[0][0] != "Ã©":
        raise ValueError(
            "the pre-tokenizer does not write text as bytes: end it with "
            "pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)"
        )
    vocab = {t: i for i, t in enumerate([*special_tokens, *sorted(byte_alphabet())])}
    base = Tokenizer(models.BPE(vocab, []))
    if normalizer is not None:
        base.normalizer = normalizer
    base.pre_tokenizer = pre_tokenizer
    base.decoder = decoders.ByteLevel()
    base.post_processor = processors.ByteLevel(trim_offsets=False)
    base.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special_tokens])
    return base
