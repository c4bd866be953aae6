"""The four tokenizers trained from scratch: three on the one merge loop, and Unigram."""

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors
from tokenizers import pre_tokenizers as cut

from ..text.counting import counted
from ..text.pretokens import Pretokens
from ..text.readers import SURROGATE
from ..tokenizer.parts import BYTE_TOKENS
from ..tokenizer.segmentation import code_points
from ..tokenizer.token_bytes import byte_alphabet
from .merges import learn_merges, learn_vocabulary
from .scripts import script_rules


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
    fractions tie exactly while that product is below 2**53); ties go to the smaller pair of ids.
    Pairs that occur less than ``min_frequency`` times are no candidates. ``corpus`` iterates over
    documents (or maps them to counts), or is counts by the same ``normalizer`` and
    ``pre_tokenizer`` (``tokenizers`` objects; by default those of cased BERT, which isolate
    punctuation); ``isolate_digits`` and ``isolate_punctuation`` cut text there as well.
    ``vocab_size`` counts everything (None: as many as ``min_frequency`` allows); ids go to ``unk``
    and the special tokens, then characters, then merged tokens. ``max_word_length``: longer
    pre-tokens (in characters) are left out with a warning, and become ``unk`` when text is
    tokenized. Warns when the text yields fewer tokens.
    Raises ValueError for a vocabulary that is too small, special tokens given twice, a pre-token
    with the prefix in it, a minimum frequency above every count, and an empty corpus.

    Source: thesis, section 4.1.2.1 and Algorithm 1 (its tokenization is Algorithm 4).

    >>> tokenizer = train_wordpiece(["fun sun sun bun"], vocab_size=8, min_frequency=2)
    >>> tokenizer.encode("sun runs").tokens
    ['sun', '[UNK]']
    """
    if normalizer is None:
        normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
    if pre_tokenizer is None:
        pre_tokenizer = cut.BertPreTokenizer()
    shell = _shell(normalizer, [pre_tokenizer, *_isolating(isolate_digits, isolate_punctuation)])
    words, counts = _short_enough(counted(corpus, shell), max_word_length)
    with_prefix = next((word for word in words if prefix and prefix in word), None)
    if with_prefix is not None:
        raise ValueError(
            f"the pre-token {with_prefix!r} holds the prefix {prefix!r}, which marks the tokens inside "
            "words: give another prefix, or a pre_tokenizer that cuts there"
        )
    start = _start(special_tokens, unk)
    vocab, _ = _grown(words, counts, start, vocab_size, min_frequency, best="score", prefix=prefix)
    model = models.WordPiece(
        vocab,
        unk_token=unk,
        continuing_subword_prefix=prefix,
        max_input_chars_per_word=max_word_length,
    )
    return _finished(shell, model, decoders.WordPiece(prefix=prefix, cleanup=False), start)


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
    """Train a SentencePiece BPE tokenizer: merge the pairs that build the most frequent form.

    Spaces become ``▁``, one more stands before the text, and tokens begin at most with one ``▁``.
    Ties: the shorter form, then code points. ``corpus`` iterates over documents (or maps them to
    counts), or is counts by the same rules; ``normalizer`` comes before the spaces are written.
    ``vocab_size`` counts everything (None: as many as ``min_frequency`` allows): ids go to the
    special tokens, 256 byte tokens (with ``byte_fallback``; without it, ``unk``), characters,
    merged tokens. ``isolate_digits`` and
    ``isolate_punctuation`` cut text there. ``split_by_script`` allows no token of two scripts (Han
    and kana count as one), and with ``split_by_number`` none of digits and letters: both are
    sentencepiece's defaults. ``max_token_length`` is in characters, sentencepiece's by default;
    longer pre-tokens than ``max_word_length`` are left out with a warning. Warns when the text
    yields fewer tokens. Decoding gives the normalised text back, a literal ``▁`` as a space;
    special tokens that the text spells are found in it, unless the tokenizer's
    ``encode_special_tokens`` is set. Raises ValueError as ``train_wordpiece``.

    Source: thesis, section 4.1.2.2 and Algorithm 2 (its tokenization is Algorithm 5). Starting from
    characters, one pair at a time builds a form: see ``textbook.train_sentencepiece_bpe``.

    >>> tokenizer = train_sentencepiece_bpe(["low low slow"], vocab_size=264)
    >>> tokenizer.encode("low blow").tokens
    ['▁low', '▁', '<0x62>', 'low']
    """
    shell = _spaced_shell(normalizer, isolate_digits, isolate_punctuation)
    words, counts = _short_enough(counted(corpus, shell), max_word_length)
    start = _start(special_tokens, None if byte_fallback else unk, BYTE_TOKENS * byte_fallback)
    rules = script_rules(split_by_script, split_by_number)
    vocab, merges = _grown(
        words, counts, start, vocab_size, min_frequency, max_token_length, best="form", rules=rules
    )
    unknown = {} if byte_fallback else {"unk_token": unk, "fuse_unk": True}
    model = models.BPE(vocab, merges, byte_fallback=byte_fallback, **unknown)
    return _finished(shell, model, _spaced_decoder(), start[: len(start) - 256 * byte_fallback])


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
    ``ByteLevel``, and is GPT-2's by default). ``vocab_size`` counts special tokens, which come
    first, and the 256 bytes; None stands for as many as ``min_frequency`` allows.
    ``isolate_digits`` and ``isolate_punctuation`` cut text there first. ``max_token_length`` is in
    bytes; pre-tokens of more than ``max_word_length`` bytes are left out with a warning. Warns when
    the text holds fewer tokens. Raises ValueError as ``train_wordpiece``.

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
    isolated = _isolating(isolate_digits, isolate_punctuation)
    shell = _shell(normalizer, [*isolated, pre_tokenizer])
    words, counts = _short_enough(counted(corpus, shell), max_word_length)
    start = _start(special_tokens, None, sorted(byte_alphabet()))
    vocab, merges = _grown(words, counts, start, vocab_size, min_frequency, max_token_length)
    shell.post_processor = processors.ByteLevel(trim_offsets=False)
    return _finished(shell, models.BPE(vocab, merges), decoders.ByteLevel(), start[:-256])


def train_unigram(
    corpus: Iterable[str] | Pretokens,
    *,
    vocab_size: int,
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
    """Train a Unigram tokenizer: from many substrings down to the tokens that are missed most.

    Text is prepared as by ``train_sentencepiece_bpe``. ``vocab_size`` counts everything: ids go to
    ``unk``, the special tokens, 256 byte tokens (with ``byte_fallback``), then tokens by falling
    probability. ``options`` are those of ``unigram.learn_unigram``. Warns when the text yields fewer
    tokens. Raises ValueError as ``train_wordpiece``.

    Source: Kudo 2018; the lecture, section Unigram Tokenization.

    >>> tokenizer = train_unigram(["run bug fun sun sun"], vocab_size=11, byte_fallback=False)
    >>> tokenizer.encode("sun").tokens
    ['▁sun']
    """
    from .unigram import learn_unigram

    shell = _spaced_shell(normalizer, isolate_digits, isolate_punctuation)
    words, counts = _short_enough(counted(corpus, shell), max_word_length)
    start = _start(special_tokens, unk, BYTE_TOKENS * byte_fallback)
    wanted = vocab_size - len(start)
    _check_size(vocab_size, start, set("".join(words)))
    scores = learn_unigram(words, counts, wanted, max_token_length=max_token_length, **options)
    scores = {token: score for token, score in scores.items() if token not in set(start)}
    if len(scores) < wanted:
        _warn_of_fewer(vocab_size, len(start) + len(scores), "")
    never = 10 * (min(scores.values()) - 10)  # text that spells a special token is not taken for it
    # ten decimals: the library's JSON reader may miss the last digit of longer numbers
    scores = {token: round(score, 10) for token, score in scores.items()}
    pieces = [*((token, round(never, 10)) for token in start), *scores.items()]
    model = models.Unigram(pieces, unk_id=start.index(unk), byte_fallback=byte_fallback)
    return _finished(shell, model, _spaced_decoder(), start[: len(start) - 256 * byte_fallback])


# --- the way to counts --------------------------------------------------------------------------


def _shell(normalizer, pre_tokenizers: list) -> Tokenizer:
    """A tokenizer that only cuts."""
    shell = Tokenizer(models.BPE())
    if normalizer is not None:
        shell.normalizer = normalizer
    one = len(pre_tokenizers) == 1
    shell.pre_tokenizer = pre_tokenizers[0] if one else cut.Sequence(pre_tokenizers)
    return shell


def _isolating(digits: bool, punctuation: bool) -> list:
    return [cut.Punctuation("isolated")] * punctuation + [
        cut.Digits(individual_digits=True)
    ] * digits


def _spaced_shell(normalizer, digits: bool, punctuation: bool) -> Tokenizer:
    """SentencePiece's way: a space is the symbol ▁, one stands before the text, each begins a word."""
    spaces = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    before = [normalizer] if normalizer is not None else []
    words = cut.Split("▁", "merged_with_next")
    return _shell(
        normalizers.Sequence([*before, *spaces]), [words, *_isolating(digits, punctuation)]
    )


def _spaced_decoder() -> decoders.Decoder:
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)])


def _short_enough(words: Pretokens, limit: int) -> tuple[list[str], np.ndarray]:
    """Pre-tokens and counts without those that are longer than the limit, of which it warns."""
    lengths = np.fromiter(map(len, words.words), np.int64, len(words))
    long = lengths > limit
    if not long.any():
        return words.words, words.counts
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
    kept = np.flatnonzero(~long)
    return [words.words[i] for i in kept], words.counts[kept]


# --- the way to a vocabulary --------------------------------------------------------------------
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


def _check_size(vocab_size: int, start: list[str], alphabet: set[str]) -> None:
    least = len(start) + len(alphabet - set(start))
    if vocab_size < least:
        raise ValueError(
            f"vocab_size={vocab_size:,} is smaller than the {least:,} tokens that training begins with "
            f"(special tokens and bytes: {len(start):,}, characters: {least - len(start):,}): use at "
            f"least {least:,}"
        )


def _warn_of_fewer(vocab_size: int, yielded: int, at: str) -> None:
    warnings.warn(
        f"asked for a vocabulary of {vocab_size:,}; this text yields {yielded:,}{at}: ask for fewer "
        "tokens or bring more text",
        stacklevel=4,
    )


def _grown(
    words, counts, start, vocab_size, min_frequency, max_token_length=None, *,
    best="pair", prefix="", rules: Callable[[str], bool] | None = None,
) -> tuple[dict[str, int], list[tuple[str, str]]]:  # fmt: skip
    """The vocabulary and merges that the words lead to, from the tokens in `start` and characters."""
    characters, places, offsets = _characters(words, prefix)
    if vocab_size is not None:
        _check_size(vocab_size, start, set(characters))
    vocab = {token: i for i, token in enumerate(dict.fromkeys([*start, *characters]))}
    reserved = set(start)  # text that spells a special token or a byte token is not taken for it
    limit = max_token_length or float("inf")

    def valid(token: str) -> bool:
        return len(token) <= limit and token not in reserved and (rules is None or rules(token))

    symbols = np.array([vocab[c] for c in characters], np.int32)[places]
    wanted = sys.maxsize if vocab_size is None else vocab_size - len(vocab)
    least = max(1, min_frequency)
    tokens, merges, _ = learn_vocabulary(
        symbols, offsets, counts, vocab, wanted, prefix=prefix, valid=valid, min_frequency=least,
        best=best,
    )  # fmt: skip
    if len(tokens) < wanted:
        top = next(learn_merges(symbols, offsets, counts, lambda a, b: 0), (0, 0, 0, 0))[3]
        if not merges and 0 < top < least:
            raise ValueError(
                f"min_frequency={min_frequency:,} is larger than every count: the most frequent pair "
                f"occurs {top:,} times, give at most that"
            )
        at = f" at min_frequency={min_frequency:,}" if least > 1 else ""
        if vocab_size is not None:
            _warn_of_fewer(vocab_size, len(vocab) + len(tokens), at)
    return vocab | {token: len(vocab) + i for i, token in enumerate(tokens)}, merges


def _characters(words: list[str], prefix: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The characters of words as tokens, sorted; each one's place among them; offsets of the words.

    Characters inside words carry the prefix.
    """
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


def _finished(shell: Tokenizer, model, decoder, special: list[str]) -> Tokenizer:
    shell.model, shell.decoder = model, decoder
    shell.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    return shell
