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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, repeat
from numbers import Integral

import numpy as np
import regex
from tokenizers import Tokenizer, models
from tokenizers.normalizers import NFC

from .byte_forms import to_bytes_form
from .chunks import count_chunks, count_chunks_within
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
LINES = {LLAMA_3, QWEN, TEKKEN}  # a pre-token ends behind the last newline in white space

BEFORE_META = re.compile("(?<=[^▁])(?=▁)")
PRETOKEN_BYTES = 250  # what a pre-token and its count take in a mapping (measured)


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


def documents_with_counts(corpus: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The documents of a corpus, each with how often it occurs: 1, or what the corpus says.

    >>> list(documents_with_counts(["a", "b", "a"])), list(documents_with_counts({"a": 2}))
    ([('a', 1), ('b', 1), ('a', 1)], [('a', 2)])
    """
    exact = corpus if isinstance(corpus, Mapping) else getattr(corpus, "counts", None)
    if exact is None:
        yield from zip(corpus, repeat(1))
        return
    total = 0
    for document, n in exact.items():
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(
                f"the document {document!r:.40} has the count {n!r}: give whole numbers"
            )
        total += int(n) * (1 + len(document) if isinstance(document, str) else 1)
        if total >> 57:  # bytes, of which a character has four at most, are counted in 64 bits
            raise ValueError(
                f"the documents up to {document!r:.40} stand for more than 2^57 characters: divide "
                "the counts"
            )
        if n:
            yield document, int(n)


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
        cuts = cuts_text(settings["pre_tokenizer"])
        vocab = () if cuts else backend.get_vocab(with_added_tokens=False)
    rules = {part: settings[part] for part in ("normalizer", "pre_tokenizer")}
    if not cuts_text(rules["pre_tokenizer"]):
        crossing = [token for token in vocab if BEFORE_META.search(token)]
        if crossing or "▁" not in json.dumps(rules, ensure_ascii=False):
            raise ValueError(
                "the tokenizer has no pre-tokenizer, so every document would be one word"
                + (f", and tokens such as {crossing[0]!r} cross spaces" if crossing else "")
                + ": give it a pre-tokenizer"
            )
    return json.dumps(rules, ensure_ascii=False)


def cuts_text(pre_tokenizer: dict | None) -> bool:
    """Whether a pre-tokenizer, as JSON, cuts at all: ``Metaspace`` may be told not to.

    >>> cuts_text({"type": "Metaspace", "split": False}), cuts_text({"type": "Whitespace"})
    (False, True)
    """
    return pre_tokenizer is not None and pre_tokenizer.get("split") is not False


# --- which road: a proven pattern, or the library --------------------------------------------------
@lru_cache
def proven_pattern(rules: str) -> str | None:
    """The proven pattern behind these rules; NFC commutes with cutting before a space."""
    rules = json.loads(rules)
    if rules["normalizer"] not in (None, {"type": "NFC"}):
        return None
    match rules["pre_tokenizer"]:
        case {"type": "ByteLevel", "use_regex": True, "add_prefix_space": False}:
            return GPT_2
        case {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": found}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "use_regex": False, "add_prefix_space": False},
            ],
        } if found in PATTERNS:  # fmt: skip
            return found
    return None


COMMUTING = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "BertNormalizer"}
META = [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
]


def _steps(rule: dict | None, inner: str) -> list[dict]:
    """The steps of a normalizer or pre-tokenizer, one after the other."""
    if rule is None:
        return []
    return (
        [s for r in rule[inner] for s in _steps(r, inner)] if rule["type"] == "Sequence" else [rule]
    )


@lru_cache
def _cuts_at_spaces(rules: str) -> bool:
    """Whether a word is cut in the same way alone and behind a single space.

    So it is where white space separates words and falls away, and where each space is written as
    ``▁`` and another ``▁`` stands before the text.
    """
    rules = json.loads(rules)
    normal = _steps(rules["normalizer"], "normalizers")
    first = (_steps(rules["pre_tokenizer"], "pretokenizers") or [{"type": None}])[0]
    if normal[-2:] == META:
        at_meta = {"type": "Split", "pattern": {"String": "▁"}, "behavior": "MergedWithNext"}
        fits = first["type"] is None or first == at_meta | {"invert": False}
        return fits and all(step["type"] in COMMUTING for step in normal[:-2])
    spaces = first["type"] in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")
    return spaces and all(step["type"] in COMMUTING for step in normal)


def _chunk_counts(chunks: Iterable[str], counts: np.ndarray, rules: str) -> dict[str, int]:
    """Pre-token counts of unique chunks; plain ones are pre-tokens already, the library cuts others."""
    settings = json.loads(rules)
    normal = _steps(settings["normalizer"], "normalizers")
    later = _steps(settings["pre_tokenizer"], "pretokenizers")
    cut, pretokens = library_cutter(rules), Counter()
    meta = "▁" * (normal == META)
    anything = normal == META and len(later) < 2
    letters = normal == META and {s["type"] for s in later[1:]} <= {"Digits", "Punctuation"}
    for chunk, n in zip(chunks, counts.sum(1).tolist(), strict=True):
        if (anything and " " not in chunk and "▁" not in chunk) or (letters and chunk.isalpha()):
            pretokens[meta + chunk] += n
        else:
            for piece in cut(chunk):
                pretokens[piece] += n
    return pretokens


def tally(
    weighted: Iterable[tuple[str, int]], rules: str, *, first: int = 1, memory: int | None = None
) -> Iterator[tuple[dict[str, int], np.ndarray]]:
    """Count the pre-tokens of (document, how often), in portions of about `memory` bytes.

    Each portion is a mapping pre-token -> count, and the characters, bytes, words and documents it
    was made from. Without ``memory`` there is one, which two threads count. ``first`` is the number
    of the first document, for messages.

    >>> from tokenizers import pre_tokenizers
    >>> tokenizer = Tokenizer(models.BPE())
    >>> tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    >>> [(counts, sizes)] = tally([("a cat", 1), ("a dog", 2)], cutting_rules(tokenizer))
    >>> counts, sizes.tolist()
    ({'a': 3, 'Ġcat': 1, 'Ġdog': 2}, [15, 15, 6, 3])
    """
    pattern = proven_pattern(rules)
    if pattern is None and not _cuts_at_spaces(rules):
        yield from _library_counts(weighted, rules, first, memory)
        return
    texts, lines = _in_bytes(weighted, first), pattern in LINES
    bounded = memory is not None
    portions = (
        count_chunks_within(texts, lines, memory) if bounded else [count_chunks(texts, lines)]
    )
    count = _pattern_counts if pattern else _chunk_counts
    for chunks, counts, sizes in portions:
        yield count(chunks, counts, rules), sizes


def _in_bytes(weighted, first: int, size: int = 1 << 20):
    """Documents as UTF-8 with how often each counts, in batches of about `size` bytes."""
    documents, texts, times, filled = iter(weighted), [], [], 0
    while some := list(islice(documents, 100)):
        try:
            encoded = [text.encode() for text, _ in some]
        except (AttributeError, UnicodeEncodeError):
            raise _complaint(some, first) from None
        texts += encoded
        times += [n for _, n in some]
        filled += sum(map(len, encoded))
        first += len(some)
        if filled > size:
            yield texts, times
            texts, times, filled = [], [], 0
    yield texts, times


def _complaint(some, first: int) -> Exception:
    """What is wrong with the first document that cannot be encoded."""
    for number, (text, _) in enumerate(some, first):
        if not isinstance(text, str):
            return TypeError(f"document {number} is {type(text).__name__}, not str")
        surrogate = next((c for c in text if "\ud800" <= c <= "\udfff"), None)
        if surrogate:
            break
    return ValueError(
        f"the text holds a lone surrogate ({surrogate!a}), which no encoding can write: "
        "decode it properly, or replace it"
    )


def _library_counts(weighted, rules: str, first: int, memory: int | None):
    """The slow road: the library normalises and cuts each document."""
    cut, counts, sizes = library_cutter(rules), Counter(), np.zeros(4, np.int64)
    for number, (text, times) in enumerate(weighted, first):
        [raw], _ = next(_in_bytes([(text, times)], number))
        for piece in cut(text):
            counts[piece] += times
        counts.pop("", None)
        sizes += times * np.array([len(text), len(raw), len(text.split()), 1])
        if memory is not None and len(counts) * PRETOKEN_BYTES > memory:
            yield counts, sizes
            counts, sizes = Counter(), np.zeros(4, np.int64)
    yield counts, sizes


def library_cutter(rules: str) -> Callable[[str], list[str]]:
    """The slow road: the library normalises and cuts."""
    settings = json.loads(Tokenizer(models.BPE()).to_str()) | json.loads(rules)
    shell = Tokenizer.from_str(json.dumps(settings))
    normalizer, pre_tokenizer = shell.normalizer, shell.pre_tokenizer
    whole = not cuts_text(settings["pre_tokenizer"])

    def cut(text: str) -> list[str]:
        if normalizer is not None:
            text = normalizer.normalize_str(text)
        pieces = [text]
        if pre_tokenizer is not None:
            pieces = [piece for piece, _ in pre_tokenizer.pre_tokenize_str(text)]
        return [word for piece in pieces for word in BEFORE_META.split(piece)] if whole else pieces

    return cut


def is_doubtful(word: str) -> bool:
    """Whether the regex module and the library may class a character of the word differently.

    They do so with characters newer than this Python's Unicode version, and with U+0295, which
    Unicode 17 moved from the lower case to the letters without case.
    """
    if "ʕ" in word:
        return True
    return not word.isprintable() and any(unicodedata.category(c) == "Cn" for c in word)


def _pattern_counts(chunks: Iterable[str], seen: np.ndarray, rules: str) -> dict[str, int]:
    """The fast road: a proven pattern cuts unique chunks; unknown characters go to the library.

    ``seen`` says how often each chunk stands without and with a space before it.
    """
    pattern = proven_pattern(rules)
    find = regex.compile(pattern).findall
    letters_are_one = PATTERNS[pattern]
    composed, compose = json.loads(rules)["normalizer"] is not None, NFC().normalize_str
    cut, counts, doubtful = library_cutter(rules), Counter(), Counter()
    for word, *often in zip(chunks, *seen.T.tolist(), strict=True):
        unsure = not word.isascii() and is_doubtful(word)
        if composed and not unsure and not unicodedata.is_normalized("NFC", word):
            word = compose(word)  # by the library: its Unicode is older than Python's
        whole = letters_are_one and not unsure and word.isalpha()
        for space, n in zip(("", " "), often, strict=True):
            if n and whole:
                counts[space + word] += n
            elif n:
                into = doubtful if unsure else counts
                for piece in (cut if unsure else find)(space + word):
                    into[piece] += n
    stored = dict(zip(to_bytes_form(counts), counts.values(), strict=True))
    for piece, n in doubtful.items():
        stored[piece] = stored.get(piece, 0) + n
    return stored
