"""Token strings, the bytes they stand for, and characters that are split across tokens."""

from codecs import getincrementaldecoder
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ..common.compiled import compiled

BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]  # SentencePiece's, for byte fallback
COMPLETIONS = 64  # characters tried for a token with an incomplete UTF-8 sequence


@lru_cache
def byte_alphabet() -> str:
    """Return the 256 characters that byte-level tokenizers write for bytes, in order of the byte.

    As in GPT-2, printable Latin-1 bytes are written as themselves, the other 68 as the code points from
    256 on.

    >>> byte_alphabet()[32], byte_alphabet()[65]
    ('Ġ', 'A')
    """
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return "".join(chr(b if b in plain else next(spare)) for b in range(256))


@lru_cache
def byte_of() -> dict[str, int]:
    """Map each character of ``byte_alphabet`` to its byte."""
    return {character: byte for byte, character in enumerate(byte_alphabet())}


def token_strings(words: Iterable[str]) -> list[str]:
    """Write words as byte-level tokenizers do, with one character of ``byte_alphabet`` per byte.

    >>> token_strings([" cat", "é"])
    ['Ġcat', 'Ã©']
    """
    raw = [word.encode() for word in words]
    text = np.frombuffer(b"".join(raw), np.uint8)
    return strings_of_bytes(text, np.cumsum([0, *map(len, raw)])).to_pylist()


def strings_of_bytes(raw: np.ndarray, offsets: np.ndarray) -> pa.Array:
    """Write words, given as flat bytes (uint8) and offsets, in characters of ``byte_alphabet``."""
    codes = np.array([ord(c) for c in byte_alphabet()], np.uint16)
    text, ends = np.empty(2 * len(raw), np.uint8), np.zeros(len(offsets), np.int64)
    used = _write_alphabet(raw, offsets, codes, text, ends)
    buffers = pa.py_buffer(ends), pa.py_buffer(text[:used].copy())
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, *buffers)


@compiled
def _write_alphabet(raw, offsets, codes, text, ends):
    """Write the character of each byte as one or two bytes of UTF-8; return their number."""
    n = 0
    for w in range(len(offsets) - 1):
        for k in range(offsets[w], offsets[w + 1]):
            code = codes[raw[k]]
            if code < 0x80:
                text[n] = code
                n += 1
            else:
                text[n], text[n + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
                n += 2
        ends[w + 1] = n
    return n


def bytes_of(strings: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the UTF-8 bytes of strings (uint8, flat) and their offsets (int64)."""
    if pa.types.is_string(strings.type):  # whose offsets have 32 bits
        strings = strings.cast(pa.large_string())
    if not len(strings):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, text = strings.buffers()
    offsets = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    if text is None:  # all strings are empty
        return np.zeros(0, np.uint8), offsets
    return np.frombuffer(text, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def code_points(words: list[str] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the code points of words (int32, flat) and their offsets (int64, one more than words)."""
    return _decoded(words, None)


def look_up(words: list[str] | pa.Array, ids: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the ID of each character of words (int32, flat; -1 if it has none) and their offsets."""
    table = np.full(1 + max(map(ord, ids), default=0), -1, np.int32)
    for character, i in ids.items():
        table[ord(character)] = i
    return _decoded(words, table)


def raw_bytes(tokens: Iterable[str]) -> list[bytes]:
    """Return the bytes of byte-level token strings; others, such as special tokens, give their own UTF-8.

    >>> raw_bytes(["Ġcat", "<你>"])
    [b' cat', b'<\\xe4\\xbd\\xa0>']
    """
    tokens = list(tokens)
    values, ends = look_up(tokens, byte_of())
    text = values.astype(np.uint8).tobytes()
    raw = [text[begin:end] for begin, end in pairwise(ends.tolist())]
    outside = np.searchsorted(ends, np.flatnonzero(values < 0), "right") - 1
    for k in np.unique(outside).tolist():
        raw[k] = tokens[k].encode()
    return raw


def _decoded(words, table: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The code points of words, or a table's values for them, and the offsets."""
    if not isinstance(words, pa.Array):
        words = pa.array(words, pa.large_string())
    raw, offsets = bytes_of(words)
    values, ends = np.empty(len(raw), np.int32), np.zeros(len(offsets), np.int64)
    return values[: _decode(raw, offsets, table, values, ends)], ends


@compiled
def _decode(raw, offsets, table, values, ends):
    """Write the code point of each character, or the table's value for it, and the end of each word;
    return the number of characters."""
    n = 0
    for w in range(len(offsets) - 1):
        k, end = offsets[w], offsets[w + 1]
        while k < end:
            code, k = character_at(raw, k)
            if table is not None:
                code = np.int64(table[code]) if code < len(table) else -1
            values[n] = code
            n += 1
        ends[w + 1] = n
    return n


@compiled(inline="always")
def character_at(raw, k):
    """The code point of the character that starts at byte `k`, and the start of the next one."""
    code = np.int64(raw[k])
    if code < 0x80:
        return code, k + 1
    # the more bytes the first one announces, the fewer bits it has for the code point
    size = 2 if code < 0xE0 else 3 if code < 0xF0 else 4
    code &= 0xFF >> (size + 1)
    for j in range(k + 1, k + size):
        code = code << 6 | raw[j] & 0x3F
    return code, k + size


@compiled
def characters_of(raw):
    """Say which code points occur in UTF-8: one bool per code point."""
    occurs, k = np.zeros(0x110000, np.bool_), 0
    while k < len(raw):
        code, k = character_at(raw, k)
        occurs[code] = True
    return occurs


@compiled
def have_only(raw, offsets, allowed):
    """Say which words have characters of which `allowed` is 2; of the first it may also be 1."""
    fits = np.zeros(len(offsets) - 1, np.bool_)
    for w in range(len(fits)):
        k, end, lowest = offsets[w], offsets[w + 1], 1
        while k < end:
            code, after = character_at(raw, k)
            if allowed[code] < lowest:
                break
            k, lowest = after, 2
        fits[w] = k == end
    return fits


@lru_cache(maxsize=1 << 17)  # the same tokens are asked about for every text and size
def is_utf8(raw: bytes) -> bool:
    """Say whether bytes are valid UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def ends_inside(raw: bytes) -> bool:
    """Say whether bytes, as b"n\\xc3", end inside a character that begins in them."""
    decoder = getincrementaldecoder("utf-8")("ignore")
    decoder.decode(raw)
    return decoder.getstate()[0] != b""


def completions(raw: bytes) -> tuple[list[str], str, list[str]] | None:
    """Complete bytes that may start or end with an incomplete UTF-8 sequence; None if no text has them.

    Returns characters whose last bytes ``raw`` starts with, the complete characters of ``raw``, and
    characters whose first bytes it ends with.
    """
    start = next((i for i, byte in enumerate(raw[:3]) if byte & 0xC0 != 0x80), min(3, len(raw)))
    decoder = getincrementaldecoder("utf-8")()
    try:
        middle = decoder.decode(raw[start:])
    except UnicodeDecodeError:
        return None
    first, last = _ending(raw[:start]), _beginning(decoder.getstate()[0])
    return (first, middle, last) if first and last else None


def _ending(tail: bytes) -> list[str]:
    """Sample characters whose UTF-8 ends with these bytes."""
    if not tail:
        return [""]
    codes = range(_bits(tail), 0x30000, 1 << 6 * len(tail))
    return _sample([code for code in codes if code > 0x7F], tail)


def _beginning(head: bytes) -> list[str]:
    """Sample characters whose UTF-8 starts with these bytes."""
    if not head:
        return [""]
    length = 2 if head[0] < 0xE0 else 3 if head[0] < 0xF0 else 4
    high, free = _bits(head[1:], head[0] & (0xFF >> (length + 1))), 6 * (length - len(head))
    return _sample(range(high << free, min((high + 1) << free, 0x110000)), head)


def _bits(raw: bytes, high: int = 0) -> int:
    """The bits of a code point in continuation bytes, after those in ``high``."""
    for byte in raw:
        high = high << 6 | byte & 0x3F
    return high


def _sample(codes, part: bytes) -> list[str]:
    """Up to ``COMPLETIONS`` characters with these bytes, evenly spread, assigned ones first."""
    step = max(1, len(codes) // (4 * COMPLETIONS))
    characters = [chr(code) for code in codes[::step] if not 0xD800 <= code < 0xE000]
    characters = [c for c in characters if part in c.encode()]
    return sorted(characters, key=lambda c: not c.isprintable())[:COMPLETIONS]
