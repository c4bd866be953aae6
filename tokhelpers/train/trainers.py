"""Training tokenizers from scratch: three kinds by the one merge loop, and Unigram.

Each trainer makes a tokenizer that only cuts text (the shell), counts pre-tokens by it, learns from
the counts, and puts the model into the shell.
"""

import sys
import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import compute
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers as cut,
    processors,
)

from ..text.counting import ensure_counts
from ..text.pretokens import Pretokens
from ..tokenizer.checks import SURROGATE, positive, whole_number
from ..tokenizer.formats import SPACED_WORDS, spaced_decoder, spaced_steps
from ..tokenizer.token_bytes import (
    BYTE_TOKENS,
    byte_alphabet,
    bytes_of,
    characters_of,
    look_up,
)
from .merges import learn_vocabulary
from .sentencepiece import piece_check
from .unigram import learn_unigram

# cuts behind the first character of what spells a byte token
SPELLED_BYTES = cut.Split(Regex("<(?=0x[0-9A-F]{2}>)"), "merged_with_previous")


def train_wordpiece(
    corpus: Iterable[str] | Pretokens,
    *,
    vocab_size: int | None,
    min_frequency: int = 0,
    prefix: str = "##",
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
    ``corpus`` iterates over documents (or maps them to counts), or is counts by the same
    ``normalizer`` and ``pre_tokenizer`` (``tokenizers`` objects; by default those of cased BERT);
    ``isolate_digits`` and ``isolate_punctuation`` cut text there as well. ``vocab_size`` counts
    ``[UNK]``, special tokens, characters and merged tokens; with None there are as many as
    ``min_frequency`` allows (pairs below it are no candidates). Pre-tokens of more than
    ``max_word_length`` characters are left out with a warning; they become ``[UNK]`` when text is
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
    pre_tokenizer = cut.BertPreTokenizer() if pre_tokenizer is None else pre_tokenizer
    shell = _shell(normalizer, [pre_tokenizer, *_isolating(isolate_digits, isolate_punctuation)])
    words, counts = _short_enough(ensure_counts(corpus, shell), max_word_length)
    with_prefix = words.filter(compute.match_substring(words, prefix)) if prefix else []
    if len(with_prefix):
        raise ValueError(
            f"the pre-token {with_prefix[0].as_py()!r} holds the prefix {prefix!r}, which marks the "
            "tokens inside words: give another prefix, or a pre_tokenizer that cuts there"
        )
    special, start = _start(special_tokens, "[UNK]")
    vocab, _ = _grown(words, counts, start, vocab_size, min_frequency, best="score", prefix=prefix)
    options = {"continuing_subword_prefix": prefix, "max_input_chars_per_word": max_word_length}
    shell.model = models.WordPiece(vocab, unk_token="[UNK]", **options)
    shell.decoder = decoders.WordPiece(prefix=prefix, cleanup=False)
    return _finished(shell, special, vocab_size, min_frequency)


def train_sentencepiece_bpe(
    corpus: Iterable[str] | Pretokens,
    *,
    vocab_size: int | None,
    min_frequency: int = 0,
    byte_fallback: bool = True,
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
    Ties go to the shorter token, then by code points. First come the special tokens and 256 byte
    tokens (with ``byte_fallback``; without it, ``<unk>``), then characters, then merged tokens.
    ``split_by_script`` allows no token of two scripts (Han and kana count as one), and with
    ``split_by_number`` none of digits and letters: both are sentencepiece's defaults, as is the
    ``max_token_length``, in characters. Decoding gives the normalised text back, a literal ``▁`` as
    a space; special tokens that the text spells are found in it, unless the tokenizer's
    ``encode_special_tokens`` is set. All else is as for ``train_wordpiece``.

    Source: thesis, section 4.1.2.2 and Algorithm 2 (its tokenization is Algorithm 5). From single
    characters on, no two pairs give the same token: see ``textbook.train_sentencepiece_bpe``.

    >>> tokenizer = train_sentencepiece_bpe(["low low slow"], vocab_size=264)
    >>> tokenizer.encode("low blow").tokens
    ['▁low', '▁', '<0x62>', 'low']
    """
    shell = _spaced_shell(normalizer, isolate_digits, isolate_punctuation)
    words, counts = _short_enough(ensure_counts(corpus, shell), max_word_length)
    unk = None if byte_fallback else "<unk>"
    special, start = _start(special_tokens, unk, BYTE_TOKENS * byte_fallback)
    if max_token_length is not None:
        positive("max_token_length", max_token_length)
    valid = piece_check(max_token_length, split_by_script, split_by_number, split_digits=False)
    options = {"valid": valid, "best": "token"}
    vocab, merges = _grown(words, counts, start, vocab_size, min_frequency, **options)
    options = {"byte_fallback": byte_fallback, "unk_token": unk, "fuse_unk": not byte_fallback}
    shell.model, shell.decoder = models.BPE(vocab, merges, **options), spaced_decoder()
    return _finished(shell, special, vocab_size, min_frequency)


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
    max_word_length: int = 1_000,
) -> Tokenizer:
    """Train a byte-level BPE tokenizer: begin with the 256 bytes, merge the most frequent pair.

    ``pre_tokenizer`` must end in ``ByteLevel``, and is GPT-2's by default; ``isolate_digits`` and
    ``isolate_punctuation`` cut text before it. First come the special tokens, then the 256 bytes,
    then merged tokens. ``max_word_length`` is in bytes. All else is as for ``train_wordpiece``.

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
    shell = _shell(normalizer, [*_isolating(isolate_digits, isolate_punctuation), pre_tokenizer])
    words, counts = _short_enough(ensure_counts(corpus, shell), max_word_length)
    special, start = _start(special_tokens, None, sorted(byte_alphabet()))
    vocab, merges = _grown(words, counts, start, vocab_size, min_frequency)
    shell.model, shell.decoder = models.BPE(vocab, merges), decoders.ByteLevel()
    shell.post_processor = processors.ByteLevel(trim_offsets=False)
    return _finished(shell, special, vocab_size, min_frequency)


def train_unigram(
    corpus: Iterable[str] | Pretokens,
    *,
    vocab_size: int | None,
    byte_fallback: bool = True,
    special_tokens: Sequence[str] = (),
    normalizer=None,
    isolate_digits: bool = False,
    isolate_punctuation: bool = False,
    max_word_length: int = 1_000,
) -> Tokenizer:
    """Train a Unigram tokenizer: begin with many substrings, prune those whose loss costs least.

    First come ``<unk>``, the special tokens and 256 byte tokens (with ``byte_fallback``), then tokens
    by falling probability; a ``vocab_size`` of None prunes nothing. Tokens have 16 characters at
    most. All else is as for ``train_sentencepiece_bpe``.

    Source: Kudo 2018; the lecture, section Unigram Tokenization.

    >>> tokenizer = train_unigram(["run bug fun sun sun"], vocab_size=11, byte_fallback=False)
    >>> tokenizer.encode("sun").tokens
    ['▁sun']
    """
    shell = _spaced_shell(normalizer, isolate_digits, isolate_punctuation)
    if byte_fallback:  # a text that spells <0x41> is not taken for the byte token
        shell.pre_tokenizer = cut.Sequence([shell.pre_tokenizer, SPELLED_BYTES])
    words, counts = _short_enough(ensure_counts(corpus, shell), max_word_length)
    words = words.to_pylist()
    special, start = _start(special_tokens, "<unk>", BYTE_TOKENS * byte_fallback)
    size = _checked_size(vocab_size, start, set("".join(words))) - len(start)
    scores = learn_unigram(words, counts, size)
    scores = {token: score for token, score in scores.items() if token not in set(start)}
    never = 10 * (min(scores.values()) - 10)  # text that spells a special token is not taken for it
    scores = dict.fromkeys(start, never) | scores
    # ten decimals: the library's JSON reader may miss the last digit of longer numbers
    pieces = [(token, round(score, 10)) for token, score in scores.items()]
    options = {"unk_id": start.index("<unk>"), "byte_fallback": byte_fallback}
    shell.model, shell.decoder = models.Unigram(pieces, **options), spaced_decoder()
    return _finished(shell, special, vocab_size)


# --- how text is cut ------------------------------------------------------------------------------
def _shell(normalizer, pre_tokenizers: list) -> Tokenizer:
    """A tokenizer that only cuts."""
    shell = Tokenizer(models.BPE())
    if normalizer is not None:
        shell.normalizer = normalizer
    first, *others = pre_tokenizers
    shell.pre_tokenizer = cut.Sequence(pre_tokenizers) if others else first
    return shell


def _isolating(digits: bool, punctuation: bool) -> list:
    """Pre-tokenizers that cut before and after punctuation and each digit, where that is wanted."""
    marks, numbers = [cut.Punctuation("isolated")], [cut.Digits(individual_digits=True)]
    return marks * punctuation + numbers * digits


def _spaced_shell(normalizer, digits: bool, punctuation: bool) -> Tokenizer:
    """As SentencePiece cuts: spaces become ▁, one is put before the text, and each begins a word."""
    first = [] if normalizer is None else [normalizer]
    steps = normalizers.Sequence([*first, *spaced_steps()])
    return _shell(steps, [SPACED_WORDS, *_isolating(digits, punctuation)])


# --- from counts to a tokenizer -------------------------------------------------------------------
def _short_enough(words: Pretokens, limit: int) -> tuple[pa.Array, np.ndarray]:
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


def _start(special_tokens, unk: str | None, alphabet=()) -> tuple[list[str], list[str]]:
    """The special tokens, the unknown one among them, and all with which training begins."""
    if isinstance(special_tokens, str):
        raise TypeError(f"special_tokens is one string, {special_tokens!r}: give a list of strings")
    special = [unk] * (unk is not None and unk not in special_tokens) + [*special_tokens]
    for token in special:
        wrong = {
            "is given twice": special.count(token) > 1,
            "is empty": not token,
            "holds a lone surrogate": SURROGATE.search(token),
            "spells a byte token": token in alphabet,
        }
        if why := next((reason for reason, holds in wrong.items() if holds), None):
            raise ValueError(f"the special token {token!a} {why}: give another")
    return special, [*special, *alphabet]


def _checked_size(vocab_size: int | None, start: list[str], alphabet: set[str]) -> int:
    """How many tokens there may be; with a size of None, any number."""
    least = len(start) + len(alphabet - set(start))
    if vocab_size is not None and whole_number("vocab_size", vocab_size) < least:
        raise ValueError(
            f"vocab_size={vocab_size:,} is smaller than the {least:,} tokens that training begins with "
            f"(special tokens and bytes: {len(start):,}, characters: {least - len(start):,}): use at "
            f"least {least:,}"
        )
    return sys.maxsize if vocab_size is None else vocab_size


def _grown(
    words, counts, start, vocab_size, min_frequency, *, valid=None, best="pair", prefix=""
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary and merges that the words lead to, from the tokens in `start` and characters."""
    positive("min_frequency", min_frequency, 0)
    first = compute.utf8_slice_codeunits(words, 0, 1)
    begin = _characters(first)
    inside = _characters(compute.utf8_slice_codeunits(words, 1) if prefix else words)
    characters = sorted({*begin, *(prefix + c for c in inside)})
    size = _checked_size(vocab_size, start, set(characters))
    vocab = {token: i for i, token in enumerate(dict.fromkeys([*start, *characters]))}
    symbols, offsets = look_up(words, {c: vocab[prefix + c] for c in inside})
    symbols[offsets[:-1]], _ = look_up(first, {c: vocab[c] for c in begin})
    flat, wanted = (symbols, offsets, counts), size - len(vocab)
    options = {"prefix": prefix, "valid": valid, "apart": {*start} - {*characters}, "best": best}
    tokens, merges, _ = learn_vocabulary(
        *flat, vocab, wanted, min_frequency=min_frequency, **options
    )
    if wanted and not merges and min_frequency > 1:
        _, _, frequencies = learn_vocabulary(*flat, vocab, 1)
        if frequencies and frequencies[0] < min_frequency:
            raise ValueError(
                f"min_frequency={min_frequency:,} is larger than every count: the most frequent pair "
                f"occurs {frequencies[0]:,} times, give at most that"
            )
    return vocab | {token: len(vocab) + i for i, token in enumerate(tokens)}, merges


def _characters(strings: pa.Array) -> list[str]:
    """The characters that occur, in order of their code points."""
    return [chr(code) for code in np.flatnonzero(characters_of(bytes_of(strings)[0])).tolist()]


def _finished(shell: Tokenizer, special: list[str], asked: int | None, least: int = 1) -> Tokenizer:
    """The tokenizer with its special tokens; warns when it has fewer tokens than were asked for."""
    shell.add_special_tokens(special)
    yielded = shell.get_vocab_size()
    if asked is not None and yielded < asked:
        at = f" at min_frequency={least:,}" if least > 1 else ""
        warnings.warn(
            f"asked for a vocabulary of {asked:,}; this text yields {yielded:,}{at}: ask for fewer "
            "tokens or bring more text",
            stacklevel=3,
        )
    return shell
