"""Training tokenizers from scratch: three kinds by the one merge loop, and Unigram."""

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import compute
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers as cut, processors

from ..text.counting import counted
from ..text.pretokens import Pretokens
from ..text.readers import SURROGATE
from ..tokenizer.parts import BYTE_TOKENS
from ..tokenizer.token_bytes import byte_alphabet, code_points
from .cutting import (
    cutting_shell,
    finished,
    isolating,
    short_enough,
    spaced_decoder,
    spaced_shell,
)
from .merges import learn_vocabulary
from .scripts import script_rules
from .unigram import learn_unigram
from .words import alike_together


def train_wordpiece(
    corpus: Iterable[str] | Pretokens,
    *,
    vocab_size: int | None,
    min_frequency: int = 0,
    prefix: str = "##",
    unk: str = "[UNK]",
    special_tokens: Sequence[str] = (),
    normalizer=None,
    pre_tokenizer=None,
    isolate_digits: bool = False,
    isolate_punctuation: bool = False,
    max_word_length: int = 100,
) -> Tokenizer:
    """Train a WordPiece tokenizer: merge the pair with the best score.

    The score is the pair's frequency over the product of its parts' frequencies (float64; equal
    fractions tie exactly while that product is below 2^53); ties go to the smaller pair of ids.
    Pairs that occur less than ``min_frequency`` times are no candidates. ``corpus`` iterates over
    documents (or maps them to counts), or is counts by the same ``normalizer`` and
    ``pre_tokenizer`` (``tokenizers`` objects; by default those of cased BERT, which isolate
    punctuation); ``isolate_digits`` and ``isolate_punctuation`` cut text there as well.
    ``vocab_size`` counts all tokens (None: as many as ``min_frequency`` allows): first ``unk`` and
    the special tokens, then characters, then merged tokens. Pre-tokens of more than
    ``max_word_length`` characters are left out with a warning, and become ``unk`` when text is
    tokenized. Warns when the text yields fewer tokens. Raises ValueError for a vocabulary that is
    too small, special tokens given twice, a pre-token with the prefix in it, a minimum frequency
    above every count, counts above 2^52 in all, and an empty corpus.

    Source: thesis, section 4.1.2.1 and Algorithm 1 (its tokenization is Algorithm 4).

    >>> tokenizer = train_wordpiece(["fun sun sun bun"], vocab_size=8, min_frequency=2)
    >>> tokenizer.encode("sun runs").tokens
    ['sun', '[UNK]']
    """
    if normalizer is None:
        normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
    if pre_tokenizer is None:
        pre_tokenizer = cut.BertPreTokenizer()
    shell = cutting_shell(
        normalizer, [pre_tokenizer, *isolating(isolate_digits, isolate_punctuation)]
    )
    words, counts = short_enough(counted(corpus, shell), max_word_length)
    with_prefix = words.filter(compute.match_substring(words, prefix)) if prefix else []
    if len(with_prefix):
        raise ValueError(
            f"the pre-token {with_prefix[0].as_py()!r} holds the prefix {prefix!r}, which marks the "
            "tokens inside words: give another prefix, or a pre_tokenizer that cuts there"
        )
    start = _start(special_tokens, unk)
    vocab, _ = _grown(words, counts, start, vocab_size, min_frequency, best="score", prefix=prefix)
    model = models.WordPiece(
        vocab,
        unk_token=unk,
        continuing_subword_prefix=prefix,
        max_input_chars_per_word=max_word_length,
    )
    return finished(shell, model, decoders.WordPiece(prefix=prefix, cleanup=False), start)


def train_sentencepiece_bpe(
    corpus: Iterable[str] | Pretokens,
    *,
    vocab_size: int | None,
    min_frequency: int = 0,
    byte_fallback: bool = True,
    unk: str = "<unk>",
    special_tokens: Sequence[str] = (),
    normalizer=None,
    isolate_digits: bool = False,
    isolate_punctuation: bool = False,
    split_by_script: bool = False,
    split_by_number: bool = False,
    max_token_length: int | None = 16,
    max_word_length: int = 1_000,
) -> Tokenizer:
    """Train a SentencePiece BPE tokenizer: merge the pair that gives the most frequent token.

    Spaces become ``▁``, one more is put before the text, and a token begins with one ``▁`` at most.
    Ties go to the shorter token, then by code points. ``corpus`` iterates over documents (or maps
    them to counts), or is counts by the same rules; ``normalizer`` is applied before spaces are
    replaced. ``vocab_size`` counts all tokens (None: as many as ``min_frequency`` allows): first the
    special tokens, 256 byte tokens (with ``byte_fallback``; without it, ``unk``), then characters,
    then merged tokens. ``isolate_digits`` and ``isolate_punctuation`` cut text there.
    ``split_by_script`` allows no token of two scripts (Han and kana count as one), and with
    ``split_by_number`` none of digits and letters: both are sentencepiece's defaults.
    ``max_token_length`` is in characters, by default sentencepiece's; pre-tokens of more than
    ``max_word_length`` characters are left out with a warning. Warns when the text yields fewer
    tokens. Decoding gives the normalised text back, a literal ``▁`` as a space; special tokens that
    the text spells are found in it, unless the tokenizer's ``encode_special_tokens`` is set. Raises
    ValueError as ``train_wordpiece``.

    Source: thesis, section 4.1.2.2 and Algorithm 2 (its tokenization is Algorithm 5). From single
    characters on, no two pairs give the same token: see ``textbook.train_sentencepiece_bpe``.

    >>> tokenizer = train_sentencepiece_bpe(["low low slow"], vocab_size=264)
    >>> tokenizer.encode("low blow").tokens
    ['▁low', '▁', '<0x62>', 'low']
    """
    shell = spaced_shell(normalizer, isolate_digits, isolate_punctuation)
    words, counts = short_enough(counted(corpus, shell), max_word_length)
    start = _start(special_tokens, None if byte_fallback else unk, BYTE_TOKENS * byte_fallback)
    rules = script_rules(split_by_script, split_by_number)
    vocab, merges = _grown(
        words, counts, start, vocab_size, min_frequency, max_token_length, best="token", rules=rules
    )
    unknown = {} if byte_fallback else {"unk_token": unk, "fuse_unk": True}
    model = models.BPE(vocab, merges, byte_fallback=byte_fallback, **unknown)
    return finished(shell, model, spaced_decoder(), start[: len(start) - 256 * byte_fallback])


def train_byte_level_bpe(
    corpus: Iterable[str] | Pretokens,
    *,
    vocab_size: int | None,
    min_frequency: int = 0,
    pre_tokenizer=None,
    normalizer=None,
    special_tokens: Sequence[str] = (),
    isolate_digits: bool = False,
    isolate_punctuation: bool = False,
    max_token_length: int | None = None,
    max_word_length: int = 1_000,
) -> Tokenizer:
    """Train a byte-level BPE tokenizer: begin with the 256 bytes, merge the most frequent pair.

    ``corpus`` iterates over documents (or maps them to counts), or is counts by the same
    ``normalizer`` and ``pre_tokenizer`` (``tokenizers`` objects; the pre-tokenizer must end in
    ``ByteLevel``, and is GPT-2's by default). ``vocab_size`` counts all tokens (None: as many as
    ``min_frequency`` allows): first the special tokens, then the 256 bytes, then merged tokens.
    ``isolate_digits`` and ``isolate_punctuation`` cut text there first. ``max_token_length`` is in
    bytes; pre-tokens of more than ``max_word_length`` bytes are left out with a warning. Warns when
    the text yields fewer tokens. Raises ValueError as ``train_wordpiece``.

    Source: Radford et al. 2019; thesis, Algorithm 3 (its tokenization is Algorithm 6); ties as in
    the Hugging Face trainer.

    >>> tokenizer = train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> tokenizer.encode("bat").tokens
    ['ba', 't']
    """
    if pre_tokenizer is None:
        pre_tokenizer = cut.ByteLevel(add_prefix_space=False)
    if pre_tokenizer.pre_tokenize_str("é")[0][0] != "Ã©":
        raise ValueError(
            "the pre-tokenizer does not write text as bytes: end it with "
            "pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)"
        )
    isolated = isolating(isolate_digits, isolate_punctuation)
    shell = cutting_shell(normalizer, [*isolated, pre_tokenizer])
    words, counts = short_enough(counted(corpus, shell), max_word_length)
    start = _start(special_tokens, None, sorted(byte_alphabet()))
    vocab, merges = _grown(words, counts, start, vocab_size, min_frequency, max_token_length)
    shell.post_processor = processors.ByteLevel(trim_offsets=False)
    return finished(shell, models.BPE(vocab, merges), decoders.ByteLevel(), start[:-256])


def train_unigram(
    corpus: Iterable[str] | Pretokens,
    *,
    vocab_size: int | None,
    byte_fallback: bool = True,
    unk: str = "<unk>",
    special_tokens: Sequence[str] = (),
    normalizer=None,
    isolate_digits: bool = False,
    isolate_punctuation: bool = False,
    max_token_length: int = 16,
    max_word_length: int = 1_000,
    **options,
) -> Tokenizer:
    """Train a Unigram tokenizer: begin with many substrings, prune those whose loss costs least.

    Text is prepared as by ``train_sentencepiece_bpe``. ``vocab_size`` counts all tokens: first
    ``unk``, the special tokens, 256 byte tokens (with ``byte_fallback``), then tokens by falling
    probability; None prunes nothing. ``options`` are those of ``th.train.learn_unigram``. Warns when
    the text yields fewer tokens. Raises ValueError as ``train_wordpiece`` and ``learn_unigram``.

    Source: Kudo 2018; the lecture, section Unigram Tokenization.

    >>> tokenizer = train_unigram(["run bug fun sun sun"], vocab_size=11, byte_fallback=False)
    >>> tokenizer.encode("sun").tokens
    ['▁sun']
    """
    shell = spaced_shell(normalizer, isolate_digits, isolate_punctuation)
    words, counts = short_enough(counted(corpus, shell), max_word_length)
    words = words.to_pylist()
    start = _start(special_tokens, unk, BYTE_TOKENS * byte_fallback)
    _check_size(vocab_size, start, set("".join(words)))
    wanted = _still_wanted(vocab_size, len(start))
    scores = learn_unigram(words, counts, wanted, max_token_length=max_token_length, **options)
    scores = {token: score for token, score in scores.items() if token not in set(start)}
    _warn_of_fewer(vocab_size, len(start) + len(scores))
    never = 10 * (min(scores.values()) - 10)  # text that spells a special token is not taken for it
    # ten decimals: the library's JSON reader may miss the last digit of longer numbers
    scores = {token: round(score, 10) for token, score in scores.items()}
    pieces = [*((token, round(never, 10)) for token in start), *scores.items()]
    model = models.Unigram(pieces, unk_id=start.index(unk), byte_fallback=byte_fallback)
    return finished(shell, model, spaced_decoder(), start[: len(start) - 256 * byte_fallback])


# --- from counts to a vocabulary ----------------------------------------------------------------
def _start(
    special_tokens: Sequence[str], unk: str | None, alphabet: Sequence[str] = ()
) -> list[str]:
    """The tokens with which training begins: unknown token, special tokens, bytes."""
    if isinstance(special_tokens, str):
        raise TypeError(f"special_tokens is one string, {special_tokens!r}: give a list of strings")
    special = list(special_tokens)
    twice = [token for token in special if special.count(token) > 1]
    if twice:
        raise ValueError(
            f"the special token {twice[0]!r} is given {len(twice)} times: give it once"
        )
    unwritable = next((token for token in special if SURROGATE.search(token)), None)
    if unwritable is not None:
        raise ValueError(f"the special token {unwritable!a} holds a lone surrogate: give another")
    start = [*([unk] if unk is not None and unk not in special else []), *special, *alphabet]
    if "" in start or len(set(start)) < len(start):
        wrong = next(token for token in start if not token or start.count(token) > 1)
        raise ValueError(
            f"the special token {wrong!r} is empty or spells a byte token: give another"
        )
    return start


def _check_size(vocab_size: int | None, start: list[str], alphabet: set[str]) -> None:
    least = len(start) + len(alphabet - set(start))
    if vocab_size is not None and vocab_size < least:
        raise ValueError(
            f"vocab_size={vocab_size:,} is smaller than the {least:,} tokens that training begins with "
            f"(special tokens and bytes: {len(start):,}, characters: {least - len(start):,}): use at "
            f"least {least:,}"
        )


def _still_wanted(vocab_size: int | None, n: int) -> int:
    """How many tokens are to be learned when there are n; with a size of None, any number."""
    return sys.maxsize if vocab_size is None else vocab_size - n


def _warn_of_fewer(vocab_size: int | None, yielded: int, least: int = 1, level: int = 3) -> None:
    if vocab_size is not None and yielded < vocab_size:
        at = f" at min_frequency={least:,}" if least > 1 else ""
        warnings.warn(
            f"asked for a vocabulary of {vocab_size:,}; this text yields {yielded:,}{at}: ask for "
            "fewer tokens or bring more text",
            stacklevel=level,
        )


def _grown(
    words, counts, start, vocab_size, min_frequency, max_token_length=None, *,
    best="pair", prefix="", rules: Callable[[str], bool] | None = None,
) -> tuple[dict[str, int], list[tuple[str, str]]]:  # fmt: skip
    """The vocabulary and merges that the words lead to, from the tokens in `start` and characters."""
    characters, places, offsets = _characters(words, prefix)
    _check_size(vocab_size, start, set(characters))
    vocab = {token: i for i, token in enumerate(dict.fromkeys([*start, *characters]))}
    reserved = set(start)  # text that spells a special token or a byte token is not taken for it
    limit = max_token_length or float("inf")

    def valid(token: str) -> bool:
        return len(token) <= limit and token not in reserved and (rules is None or rules(token))

    symbols = np.array([vocab[c] for c in characters], np.int32)[places]
    flat, wanted = alike_together(symbols, offsets, counts), _still_wanted(vocab_size, len(vocab))
    tokens, merges, _ = learn_vocabulary(
        *flat, vocab, wanted, prefix=prefix, valid=valid, min_frequency=min_frequency, best=best
    )
    if wanted and not merges and min_frequency > 1:
        _, _, frequencies = learn_vocabulary(*flat, vocab, 1)
        if frequencies and frequencies[0] < min_frequency:
            raise ValueError(
                f"min_frequency={min_frequency:,} is larger than every count: the most frequent pair "
                f"occurs {frequencies[0]:,} times, give at most that"
            )
    _warn_of_fewer(vocab_size, len(vocab) + len(tokens), min_frequency, level=4)
    return vocab | {token: len(vocab) + i for i, token in enumerate(tokens)}, merges


def _characters(words: pa.Array, prefix: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The characters of words as tokens, sorted, with the prefix inside words; the number of each
    character's token; and the offsets of the words."""
    codes, offsets = code_points(words)
    inside = np.full(len(codes), bool(prefix))
    inside[offsets[:-1]] = False
    keys = 2 * codes.astype(np.int64) + inside
    present = np.flatnonzero(np.bincount(keys))
    tokens = [prefix * (key & 1) + chr(key >> 1) for key in present.tolist()]
    order = sorted(range(len(tokens)), key=tokens.__getitem__)
    place = np.zeros(1 + int(keys.max()), np.int32)
    place[present[order]] = np.arange(len(order))
    return [tokens[i] for i in order], place[keys], offsets
