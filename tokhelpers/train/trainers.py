"""Train tokenizers from scratch: WordPiece, SentencePiece BPE, byte-level BPE and Unigram.

Each trainer makes a tokenizer without a model, counts pre-tokens by its rules, learns vocabulary
and merges from the counts, and sets the tokenizer's model.
"""

import sys
import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import compute
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from ..common.checks import SURROGATE, positive, whole_number
from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..tokenizer.formats import SPACED_WORDS, SPELLED_BYTES, spaced_decoder, spaced_steps
from ..tokenizer.token_bytes import BYTE_TOKENS, byte_alphabet, bytes_of, characters_of, look_up
from .merges import learn_vocabulary
from .sentencepiece_rules import piece_check
from .unigram import learn_unigram
from .wordpiece_scores import warn_of_rare_pairs


def train_wordpiece(
    corpus: Iterable[str] | Pretokens,
    *,
    vocab_size: int | None,
    min_frequency: int | None = None,
    prefix: str = "##",
    special_tokens: Sequence[str] = (),
    normalizer=None,
    pre_tokenizer=None,
    isolate_digits: bool = False,
    isolate_punctuation: bool = False,
    max_word_length: int = 100,
) -> Tokenizer:
    """Train a WordPiece tokenizer: merge the pair with the best score.

    The score of a pair is its frequency over the product of its parts' frequencies (float64; equal
    fractions tie exactly while the product is below 2^53); ties go to the smaller pair of IDs.
    ``corpus`` is documents (or a mapping of documents to counts), or counts by the same
    ``normalizer`` and ``pre_tokenizer`` (``tokenizers`` objects; default: cased BERT's).
    ``isolate_digits`` and ``isolate_punctuation`` split text there as well. ``vocab_size`` includes
    ``[UNK]``, special tokens and characters; with None, ``min_frequency`` decides (pairs below it
    are not candidates). The score prefers rare pairs: without a ``min_frequency`` (about 20 for
    megabytes of text) most tokens hardly occur, of which a warning tells. Pre-tokens of more than
    ``max_word_length`` characters are left out with a warning, and become ``[UNK]`` when text is
    tokenized. Warns if the text yields fewer tokens. Raises ValueError for a vocabulary that is too
    small, duplicate special tokens, a pre-token that contains the prefix, a minimum frequency above
    every count, counts above 2^52 in all, and an empty corpus.

    Source: thesis, section 4.1.2.1 and Algorithm 1 (its tokenization is Algorithm 4).

    >>> tokenizer = train_wordpiece(["fun sun sun bun"], vocab_size=8, min_frequency=2)
    >>> tokenizer.encode("sun runs").tokens
    ['sun', '[UNK]']
    """
    if normalizer is None:
        normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
    if pre_tokenizer is None:
        pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    isolating = _isolating(isolate_digits, isolate_punctuation)
    tokenizer = _without_model(normalizer, [pre_tokenizer, *isolating])
    words, counts = _without_long_words(count_pretokens(corpus, tokenizer), max_word_length)
    with_prefix = words.filter(compute.match_substring(words, prefix)) if prefix else []
    if len(with_prefix):
        raise ValueError(
            f"the pre-token {with_prefix[0].as_py()!r} contains the prefix {prefix!r}, which marks "
            "tokens inside words: give another prefix, or a pre_tokenizer that splits there"
        )
    special, initial = _initial_tokens(special_tokens, "[UNK]")
    options = {"best": "score", "prefix": prefix}
    lowest_count = 0 if min_frequency is None else min_frequency
    vocab, _, frequencies = _learn(words, counts, initial, vocab_size, lowest_count, **options)
    if min_frequency is None:
        warn_of_rare_pairs(frequencies)
    options = {"continuing_subword_prefix": prefix, "max_input_chars_per_word": max_word_length}
    tokenizer.model = models.WordPiece(vocab, unk_token="[UNK]", **options)
    tokenizer.decoder = decoders.WordPiece(prefix=prefix, cleanup=False)
    return _finish(tokenizer, special, vocab_size, lowest_count)


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

    Spaces become ``▁``, one is put before the text, and a token has at most one ``▁``, at its start.
    Ties go to the shorter token, then to code points. IDs: special tokens, 256 byte tokens (with
    ``byte_fallback``; without it ``<unk>``), characters, merged tokens. ``split_by_script`` allows
    no token of several scripts (Han and kana count as one), ``split_by_number`` none with digits
    and letters: both are sentencepiece's defaults, as is ``max_token_length``, in characters.
    Decoding gives the normalised text, with a space for a literal ``▁``. Special tokens are matched
    in text, unless the tokenizer's ``encode_special_tokens`` is set. The rest is as for
    ``train_wordpiece``.

    Source: thesis, section 4.1.2.2 and Algorithm 2 (its tokenization is Algorithm 5). No two pairs
    give the same token: see ``textbook.train_sentencepiece_bpe``.

    >>> tokenizer = train_sentencepiece_bpe(["low low slow"], vocab_size=264)
    >>> tokenizer.encode("low blow").tokens
    ['▁low', '▁', '<0x62>', 'low']
    """
    tokenizer = _with_spaces(normalizer, isolate_digits, isolate_punctuation)
    words, counts = _without_long_words(count_pretokens(corpus, tokenizer), max_word_length)
    unk = None if byte_fallback else "<unk>"
    special, initial = _initial_tokens(special_tokens, unk, BYTE_TOKENS * byte_fallback)
    if max_token_length is not None:
        positive("max_token_length", max_token_length)
    valid = piece_check(max_token_length, split_by_script, split_by_number, split_digits=False)
    options = {"valid": valid, "best": "token"}
    vocab, merges, _ = _learn(words, counts, initial, vocab_size, min_frequency, **options)
    options = {"byte_fallback": byte_fallback, "unk_token": unk, "fuse_unk": not byte_fallback}
    tokenizer.model, tokenizer.decoder = models.BPE(vocab, merges, **options), spaced_decoder()
    return _finish(tokenizer, special, vocab_size, min_frequency)


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
    """Train a byte-level BPE tokenizer: start from the 256 bytes, merge the most frequent pair.

    ``pre_tokenizer`` must end in ``ByteLevel`` (default: GPT-2's); ``isolate_digits`` and
    ``isolate_punctuation`` split text before it. IDs: special tokens, 256 bytes, merged tokens.
    ``max_word_length`` is in bytes. The rest is as for ``train_wordpiece``.

    Source: Radford et al. 2019; thesis, Algorithm 3 (its tokenization is Algorithm 6); ties as in
    the Hugging Face trainer.

    >>> tokenizer = train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> tokenizer.encode("bat").tokens
    ['ba', 't']
    """
    if pre_tokenizer is None:
        pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    written = "".join(piece for piece, _ in pre_tokenizer.pre_tokenize_str("é"))
    if written.removeprefix("Ġ") != "Ã©":
        raise ValueError(
            "the pre-tokenizer does not write text as bytes: end it with "
            "pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)"
        )
    isolating = _isolating(isolate_digits, isolate_punctuation)
    tokenizer = _without_model(normalizer, [*isolating, pre_tokenizer])
    words, counts = _without_long_words(count_pretokens(corpus, tokenizer), max_word_length)
    special, initial = _initial_tokens(special_tokens, None, sorted(byte_alphabet()))
    vocab, merges, _ = _learn(words, counts, initial, vocab_size, min_frequency)
    tokenizer.model, tokenizer.decoder = models.BPE(vocab, merges), decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return _finish(tokenizer, special, vocab_size, min_frequency)


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
    """Train a Unigram tokenizer: start from many substrings, prune those that are needed least.

    The least needed tokens are those whose removal lowers the likelihood of the text least. IDs:
    ``<unk>``, special tokens, 256 byte tokens (with ``byte_fallback``), then tokens in descending
    order of probability; a ``vocab_size`` of None prunes nothing. Tokens have at most 16
    characters. The rest is as for ``train_sentencepiece_bpe``.

    Source: Kudo 2018; the lecture, section Unigram Tokenization.

    >>> tokenizer = train_unigram(["run bug fun sun sun"], vocab_size=11, byte_fallback=False)
    >>> tokenizer.encode("sun").tokens
    ['▁sun']
    """
    tokenizer = _with_spaces(normalizer, isolate_digits, isolate_punctuation)
    if byte_fallback:  # otherwise text that spells <0x41> would become the byte token
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([tokenizer.pre_tokenizer, SPELLED_BYTES])
    words, counts = _without_long_words(count_pretokens(corpus, tokenizer), max_word_length)
    words = words.to_pylist()
    special, initial = _initial_tokens(special_tokens, "<unk>", BYTE_TOKENS * byte_fallback)
    size = _checked_size(vocab_size, initial, set("".join(words))) - len(initial)
    scores = learn_unigram(words, counts, size)
    scores = {token: score for token, score in scores.items() if token not in set(initial)}
    never = 10 * (min(scores.values()) - 10)  # so that text never becomes one of these tokens
    scores = dict.fromkeys(initial, never) | scores
    # ten decimals: the library's JSON reader may change the last digit of longer numbers
    pieces = [(token, round(score, 10)) for token, score in scores.items()]
    options = {"unk_id": initial.index("<unk>"), "byte_fallback": byte_fallback}
    tokenizer.model, tokenizer.decoder = models.Unigram(pieces, **options), spaced_decoder()
    return _finish(tokenizer, special, vocab_size)


# --- normalizers and pre-tokenizers ---------------------------------------------------------------
def _without_model(normalizer, steps: list) -> Tokenizer:
    """A tokenizer that only normalises and pre-tokenizes."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    return tokenizer


def _isolating(digits: bool, punctuation: bool) -> list:
    """Pre-tokenizers that isolate punctuation marks and single digits, if asked for."""
    marks = [pre_tokenizers.Punctuation("isolated")]
    numbers = [pre_tokenizers.Digits(individual_digits=True)]
    return marks * punctuation + numbers * digits


def _with_spaces(normalizer, digits: bool, punctuation: bool) -> Tokenizer:
    """A tokenizer that splits text as SentencePiece does: spaces become ▁, and one is put first."""
    steps = [] if normalizer is None else [normalizer]
    return _without_model(
        normalizers.Sequence([*steps, *spaced_steps()]),
        [SPACED_WORDS, *_isolating(digits, punctuation)],
    )


# --- from counts to a tokenizer -------------------------------------------------------------------
def _without_long_words(words: Pretokens, max_length: int) -> tuple[pa.Array, np.ndarray]:
    """Pre-tokens of at most ``max_length`` characters and their counts; warns of longer ones."""
    lengths = compute.utf8_length(words.strings).to_numpy()
    is_long = lengths > max_length
    if not is_long.any():
        return words.strings, words.counts
    if is_long.all():
        raise ValueError(
            f"every pre-token is longer than max_word_length={max_length:,} (the shortest has "
            f"{lengths.min():,} characters): raise it, or split the text into words"
        )
    warnings.warn(
        f"pre-tokens longer than max_word_length={max_length:,} are left out: {is_long.sum():,} "
        f"unique, {words.counts[is_long].sum():,} in all, the longest of {lengths.max():,} "
        "characters; raise it to train on them",
        stacklevel=3,
    )
    return words.strings.filter(~is_long), words.counts[~is_long]


def _initial_tokens(special_tokens, unk: str | None, alphabet=()) -> tuple[list[str], list[str]]:
    """The special tokens, with the unknown token first, and all tokens that training starts from."""
    if isinstance(special_tokens, str):
        raise TypeError(f"special_tokens is one string, {special_tokens!r}: give a list of strings")
    special = [unk] * (unk is not None and unk not in special_tokens) + [*special_tokens]
    for token in special:
        faults = {
            "is given twice": special.count(token) > 1,
            "is empty": not token,
            "contains a lone surrogate": SURROGATE.search(token),
            "spells a byte token": token in alphabet,
        }
        if fault := next((name for name, applies in faults.items() if applies), None):
            raise ValueError(f"the special token {token!a} {fault}: give another")
    return special, [*special, *alphabet]


def _checked_size(vocab_size: int | None, initial: list[str], characters: set[str]) -> int:
    """The maximum number of tokens; ValueError if the initial tokens and characters exceed it."""
    smallest = len({*initial, *characters})
    if vocab_size is not None and whole_number("vocab_size", vocab_size) < smallest:
        raise ValueError(
            f"vocab_size={vocab_size:,} is smaller than the {smallest:,} tokens that training begins "
            f"with (special tokens and bytes: {len(initial):,}, characters: "
            f"{smallest - len(initial):,}): use at least {smallest:,}"
        )
    return sys.maxsize if vocab_size is None else vocab_size


def _learn(
    words, counts, initial, vocab_size, min_frequency, *, valid=None, best="pair", prefix=""
) -> tuple[dict[str, int], list[tuple[str, str]], list[int]]:
    """Learn vocabulary, merges and their frequencies, starting from initial tokens and characters."""
    positive("min_frequency", min_frequency, 0)
    first_characters = compute.utf8_slice_codeunits(words, 0, 1)
    first = _characters(first_characters)
    inner = _characters(compute.utf8_slice_codeunits(words, 1) if prefix else words)
    characters = sorted({*first, *(prefix + c for c in inner)})
    size = _checked_size(vocab_size, initial, set(characters))
    vocab = {token: i for i, token in enumerate(dict.fromkeys([*initial, *characters]))}
    symbols, offsets = look_up(words, {c: vocab[prefix + c] for c in inner})
    symbols[offsets[:-1]], _ = look_up(first_characters, {c: vocab[c] for c in first})
    symbols = symbols.astype(np.min_scalar_type(len(vocab)))  # kept while merges are learned
    flat, n_tokens = (symbols, offsets, counts), size - len(vocab)
    excluded = {*initial} - {*characters}
    options = {"prefix": prefix, "valid": valid, "excluded": excluded, "best": best}
    tokens, merges, frequencies = learn_vocabulary(
        *flat, vocab, n_tokens, min_frequency=min_frequency, **options
    )
    if n_tokens and not merges and min_frequency > 1:
        _, _, highest = learn_vocabulary(*flat, vocab, 1)
        if highest and highest[0] < min_frequency:
            raise ValueError(
                f"min_frequency={min_frequency:,} is larger than every count: the most frequent pair "
                f"occurs {highest[0]:,} times, give at most that"
            )
    return vocab | {token: len(vocab) + i for i, token in enumerate(tokens)}, merges, frequencies


def _characters(strings: pa.Array) -> list[str]:
    """The characters that occur, in code-point order."""
    return [chr(code) for code in np.flatnonzero(characters_of(bytes_of(strings)[0])).tolist()]


def _finish(
    tokenizer: Tokenizer, special: list[str], vocab_size: int | None, min_frequency: int = 1
) -> Tokenizer:
    """Add the special tokens; warn if the vocabulary is smaller than asked for."""
    tokenizer.add_special_tokens(special)
    size = tokenizer.get_vocab_size()
    if vocab_size is not None and size < vocab_size:
        at_frequency = f" at min_frequency={min_frequency:,}" if min_frequency > 1 else ""
        warnings.warn(
            f"asked for a vocabulary of {vocab_size:,}; this text yields {size:,}{at_frequency}: ask "
            "for fewer tokens or bring more text",
            stacklevel=3,
        )
    return tokenizer
