"""Text into unique pre-tokens and their counts: everything after works on these.

The tokenizer's own normalizer and pre-tokenizer decide what a pre-token is. Two shortcuts give
the same counts sooner, where they are proven (tests/test_pretokens.py goes through every code
point): text is cut at single spaces between words first, so that only unique words are looked at;
and the patterns in ``PATTERNS`` run in the ``regex`` module.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
import regex
from tokenizers import Tokenizer, models

from .surgery import Parts

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# patterns in which a space begins a pre-token and nothing else does behind a word, and whether a
# space and a run of letters is always one pre-token
PATTERNS = {LLAMA_3: True, QWEN: True, GPT_2: True, TEKKEN: False}

BETWEEN_WORDS = re.compile(r"(?<=\S) (?=\S)")
OTHER_SPACE = re.compile(r"[^\S ]|  ")
BEFORE_META = re.compile("(?<=[^▁])(?=▁)")


@dataclass(frozen=True, eq=False, repr=False)
class Pretokens(Mapping):
    """Unique pre-tokens of a text and how often each occurs: a mapping pre-token -> count.

    ``words`` are the pre-tokens in the form in which the model gets them (``Ġword``), ``counts``
    an int64 array beside them. ``chars``, ``bytes`` (UTF-8), ``spaced_words`` (separated by white
    space) and ``documents`` measure the text as it was given, before normalisation. ``rules`` is
    the normalizer and pre-tokenizer that were applied.
    """

    words: list[str]
    counts: np.ndarray
    chars: int
    bytes: int
    spaced_words: int
    documents: int
    rules: str

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __getitem__(self, word: str) -> int:
        return int(self.counts[self._places[word]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"Pretokens({len(self):,} unique, {self.counts.sum():,} in all)"


def count_pretokens(
    corpus: Iterable[str], tokenizer: Tokenizer | Parts, *, executor=None
) -> Pretokens:
    """Count the pre-tokens of a corpus as the tokenizer's own normalizer and pre-tokenizer cut it.

    ``corpus`` iterates over documents (str), or is a corpus that knows exact counts (``.counts``:
    document -> how often). A tokenizer without pre-tokenizer (SentencePiece style) has its
    normalised text cut before each run of the space symbol, which none of its tokens crosses.
    ``executor`` is any ``concurrent.futures.Executor``; the counts do not depend on it. Special
    tokens in the text count as plain text. Raises TypeError for a single string, ValueError for a
    text without documents or with lone surrogates.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> tokenizer = Tokenizer(models.BPE())
    >>> tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    >>> dict(count_pretokens(["a cat, a dog"], tokenizer))
    {'a': 1, 'Ġcat': 1, ',': 1, 'Ġa': 1, 'Ġdog': 1}
    """
    rules = cutting_rules(tokenizer)
    chunks, documents = _count_chunks(corpus, rules, executor)
    if not documents:
        raise ValueError("the corpus has no documents: nothing to count")
    if not chunks:
        raise ValueError(
            f"the {documents:,} documents of the corpus are all empty: nothing to count"
        )
    return _from_chunks(chunks, documents, rules)


def cutting_rules(tokenizer: Tokenizer | Parts) -> str:
    """What decides a tokenizer's pre-tokens: its normalizer and pre-tokenizer, as JSON.

    For a tokenizer without pre-tokenizer also that text is cut before the space symbol; raises
    ValueError when that would cut through tokens of the vocabulary.
    """
    if isinstance(tokenizer, Parts):
        settings, vocab = tokenizer.settings, tokenizer.vocab
    else:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not isinstance(backend, Tokenizer):
            raise TypeError(
                f"a tokenizer is needed, got {type(tokenizer).__name__}: use load_tokenizer"
            )
        shell = Tokenizer(models.BPE())  # serialising the whole would write the vocabulary out
        if backend.normalizer is not None:
            shell.normalizer = backend.normalizer
        if backend.pre_tokenizer is not None:
            shell.pre_tokenizer = backend.pre_tokenizer
        settings = json.loads(shell.to_str())
        vocab = () if backend.pre_tokenizer else backend.get_vocab(with_added_tokens=False)
    rules = {part: settings[part] for part in ("normalizer", "pre_tokenizer")}
    if rules["pre_tokenizer"] is None:
        crossing = [token for token in vocab if BEFORE_META.search(token)]
        if crossing or "▁" not in json.dumps(rules["normalizer"], ensure_ascii=False):
            raise ValueError(
                "the tokenizer has no pre-tokenizer, so every document would be one word"
                + (f", and tokens such as {crossing[0]!r} cross spaces" if crossing else "")
                + ": give it a pre-tokenizer"
            )
    return json.dumps(rules, ensure_ascii=False)


# --- text into chunks: words with the space before them, where cutting there is safe ------------
def _count_chunks(corpus, rules, executor):
    if isinstance(corpus, str):
        raise TypeError("a corpus is an iterable of documents, got one string: put it in a list")
    exact = getattr(corpus, "counts", None)
    if exact is not None:
        return Counter(exact), sum(exact.values())
    if executor is None:
        return _chunks_of(corpus, rules)
    chunks, documents = Counter(), 0
    for some, n in executor.map(
        _chunks_of, *zip(*((b, rules) for b in _batches(corpus)), strict=True)
    ):
        chunks.update(some)
        documents += n
    return chunks, documents


def _batches(corpus, size=20_000):
    documents = iter(corpus)
    while batch := list(islice(documents, size)):
        yield batch


def _chunks_of(documents, rules) -> tuple[Counter, int]:
    """Chunks of text that pre-tokenize alone as they do in place, counted, and the documents."""
    bare, spaced, n = Counter(), Counter(), 0
    whole = not _cuts_at_spaces(rules)
    for n, text in enumerate(documents, 1):
        if not isinstance(text, str):
            raise TypeError(f"document {n} of the corpus is {type(text).__name__}, not str")
        if whole:
            bare[text] += 1
            continue
        clean = not OTHER_SPACE.search(text) and text[:1] != " " and text[-1:] != " "
        first, *rest = text.split(" ") if clean else BETWEEN_WORDS.split(text)
        bare[first] += 1
        spaced.update(rest)
    for word, count in spaced.items():
        bare[" " + word] += count
    bare.pop("", None)
    return bare, n


@lru_cache
def _pattern(rules: str) -> str | None:
    """The proven pattern that a pre-tokenizer applies before its bytes, if that is all it does."""
    match json.loads(rules)["pre_tokenizer"]:
        case {"type": "ByteLevel", "use_regex": True, "add_prefix_space": False}:
            return GPT_2
        case {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": pattern},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {"type": "ByteLevel", "use_regex": False, "add_prefix_space": False},
            ],
        } if pattern in PATTERNS:
            return pattern
    return None


@lru_cache
def _cuts_at_spaces(rules: str) -> bool:
    """NFC never joins a space with what stands before it, so it commutes with cutting there."""
    return _pattern(rules) is not None and json.loads(rules)["normalizer"] in (
        None,
        {"type": "NFC"},
    )


# --- chunks into pre-tokens ----------------------------------------------------------------------
def _from_chunks(chunks: Counter, documents: int, rules: str) -> Pretokens:
    try:
        sizes = [(len(c), len(c.encode()), len(c.split()), n) for c, n in chunks.items()]
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text holds a lone surrogate ({error.object[error.start]!a}), which no encoding can "
            "write: decode it properly, or replace it"
        ) from None
    chars, size, spaced, times = (np.array(column, np.int64) for column in zip(*sizes, strict=True))
    count = _library_counts if _pattern(rules) is None else _pattern_counts
    counts = count(chunks, rules)
    return Pretokens(
        list(counts),
        np.fromiter(counts.values(), np.int64, len(counts)),
        int(chars @ times),
        int(size @ times),
        int(spaced @ times),
        documents,
        rules,
    )


def _shell(rules: str) -> Tokenizer:
    """A tokenizer without vocabulary that has these rules."""
    settings = json.loads(Tokenizer(models.BPE()).to_str())
    settings |= {part: json.loads(rules)[part] for part in ("normalizer", "pre_tokenizer")}
    return Tokenizer.from_str(json.dumps(settings))


def _library_counts(chunks: Counter, rules: str) -> Counter:
    """The slow road: the library normalises and cuts."""
    shell, counts = _shell(rules), Counter()
    for text, n in chunks.items():
        if shell.normalizer is not None:
            text = shell.normalizer.normalize_str(text)
        if shell.pre_tokenizer is None:
            pieces = BEFORE_META.split(text)
        else:
            pieces = [piece for piece, _ in shell.pre_tokenizer.pre_tokenize_str(text)]
        for piece in pieces:
            counts[piece] += n
    counts.pop("", None)
    return counts


def _pattern_counts(chunks: Counter, rules: str) -> Counter:
    """The fast road: a proven pattern cuts unique chunks; unknown characters go to the library."""
    pattern = _pattern(rules)
    one_piece = PATTERNS[pattern]
    find = regex.compile(pattern).findall
    composed = json.loads(rules)["normalizer"] is not None
    counts, doubtful = Counter(), Counter()
    for chunk, n in chunks.items():
        if not chunk.isprintable() and any(unicodedata.category(c) == "Cn" for c in chunk):
            doubtful[chunk] += n  # assigned since this Python's Unicode: library and regex differ
            continue
        if composed and not chunk.isascii():
            chunk = unicodedata.normalize("NFC", chunk)
        if one_piece and chunk[1:].isalpha() and (chunk[0] == " " or chunk[0].isalpha()):
            counts[chunk] += n
        else:
            for piece in find(chunk):
                counts[piece] += n
    stored = Counter(dict(zip(to_bytes_form(counts), counts.values(), strict=True)))
    if doubtful:
        stored.update(_library_counts(doubtful, rules))
    return stored


@lru_cache
def byte_alphabet() -> str:
    """The 256 characters that stand for bytes in byte-level tokenizers, in order of the byte.

    Printable Latin-1 bytes stand for themselves, the other 68 for the code points from 256 on, as
    in GPT-2.

    >>> byte_alphabet()[32], byte_alphabet()[65]
    ('Ġ', 'A')
    """
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return "".join(chr(b if b in plain else next(spare)) for b in range(256))


def to_bytes_form(words: Iterable[str]) -> list[str]:
    """Write words as byte-level tokenizers store them, a character a byte.

    >>> to_bytes_form([" cat", "é"])
    ['Ġcat', 'Ã©']
    """
    raw = [word.encode() for word in words]
    alphabet = np.array([ord(c) for c in byte_alphabet()], np.uint32)
    joined = alphabet[np.frombuffer(b"".join(raw), np.uint8)].tobytes().decode("utf-32-le")
    ends = np.cumsum([len(word) for word in raw]).tolist()
    return [joined[a:b] for a, b in zip([0, *ends], ends, strict=False)]
