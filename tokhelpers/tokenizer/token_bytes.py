"""Tokens as bytes and bytes as text: what token strings stand for, and characters that are cut."""

from codecs import getincrementaldecoder
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from .compiled import compiled

BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]  # SentencePiece's, for byte fallback
COMPLETIONS = 64  # characters tried for a token that holds part of one


@lru_cache
def byte_alphabet() -> str:
    """Return the 256 characters that stand for bytes in byte-level tokenizers, in order of the byte.

    Printable Latin-1 bytes stand for themselves, the other 68 for the code points from 256 on, as
    in GPT-2.

    >>> byte_alphabet()[32], byte_alphabet()[65]
    ('Ġ', 'A')
    """
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return "".join(chr(b if b in plain else next(spare)) for b in range(256))


@lru_cache
def byte_of() -> dict[str, int]:
    """Map each character of ``byte_alphabet`` to the byte that it stands for."""
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
    """Write flat bytes (uint8), cut at offsets, with one character of ``byte_alphabet`` per byte."""
    codes = np.array([ord(c) for c in byte_alphabet()], np.uint16)
    text, ends = np.empty(2 * len(raw), np.uint8), np.zeros(len(offsets), np.int64)
    used = _write_alphabet(raw, offsets, codes, text, ends)
    buffers = pa.py_buffer(ends), pa.py_buffer(text[:used].copy())
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, *buffers)


@compiled
def _write_alphabet(raw, offsets, codes, text, ends):
    """Write the character of each byte as UTF-8, of one or two bytes; returns how many these are."""
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
    """Return the bytes of strings, one after the other (uint8), and their offsets (int64)."""
    if pa.types.is_string(strings.type):  # whose offsets have 32 bits
        strings = strings.cast(pa.large_string())
    if not len(strings):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, text = strings.buffers()
    offsets = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    if text is None:  # all of them are empty
        return np.zeros(0, np.uint8), offsets
    return np.frombuffer(text, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def code_points(words: list[str] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the characters of words (int32, flat) and the words' offsets (int64, one more)."""
    return _decoded(words, None)


def look_up(words: list[str] | pa.Array, ids: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the id of each character of words (int32, flat; -1 for one without) and the offsets."""
    table = np.full(1 + max(map(ord, ids), default=0), -1, np.int32)
    for character, i in ids.items():
        table[ord(character)] = i
    return _decoded(words, table)


def raw_bytes(tokens: Iterable[str]) -> list[bytes]:
    """The bytes of token strings with one character per byte, or their own, as in special tokens.

    >>> raw_bytes(["Ġcat", "<你>"])
    [b' cat', b'<\\xe4\\xbd\\xa0>']
    """
    tokens = list(tokens)
    found, ends = look_up(tokens, byte_of())
    text = found.astype(np.uint8).tobytes()
    raw = [text[begin:end] for begin, end in pairwise(ends.tolist())]
    outside = np.searchsorted(ends, np.flatnonzero(found < 0), "right") - 1
    for k in np.unique(outside).tolist():
        raw[k] = tokens[k].encode()
    return raw


def _decoded(words, table: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The characters of words, or what a table has for their code points, and the offsets."""
    if not isinstance(words, pa.Array):
        words = pa.array(words, pa.large_string())
    raw, offsets = bytes_of(words)
    found, ends = np.empty(len(raw), np.int32), np.zeros(len(offsets), np.int64)
    return found[: _decode(raw, offsets, table, found, ends)], ends


@compiled
def _decode(raw, offsets, table, found, ends):
    """Write what the table has for each character of UTF-8, or the character itself, and where each
    word's end; returns how many these are."""
    n = 0
    for w in range(len(offsets) - 1):
        k, end = offsets[w], offsets[w + 1]
        while k < end:
            code, k = _character_at(raw, k)
            if table is not None:
                code = np.int64(table[code]) if code < len(table) else -1
            found[n] = code
            n += 1
        ends[w + 1] = n
    return n


@compiled(inline="always")
def _character_at(raw, k):
    """The code point of the character that begins at byte `k`, and where the next one begins."""
    code = np.int64(raw[k])
    if code < 0x80:
        return code, k + 1
    # the first byte says how many there are, and leaves the fewer bits to the character the more
    size = 2 if code < 0xE0 else 3 if code < 0xF0 else 4
    code &= 0xFF >> (size + 1)
    for j in range(k + 1, k + size):
        code = code << 6 | raw[j] & 0x3F
    return code, k + size


@compiled
def characters_of(raw):
    """Which code points occur in UTF-8: a bool for each that there is."""
    occurs, k = np.zeros(0x110000, np.bool_), 0
    while k < len(raw):
        code, k = _character_at(raw, k)
        occurs[code] = True
    return occurs


@compiled
def have_only(raw, offsets, allowed, first):
    """Which words consist of allowed characters; the first one may also be `first`, if that is not 0."""
    fits = np.zeros(len(offsets) - 1, np.bool_)
    for w in range(len(fits)):
        k, end = offsets[w], offsets[w + 1]
        if first and k < end and raw[k] == first:
            k += 1
        while k < end:
            code, after = _character_at(raw, k)
            if not allowed[code]:
                break
            k = after
        fits[w] = k == end
    return fits


@lru_cache(maxsize=1 << 17)  # the same tokens are asked about for every text and size
def is_whole(raw: bytes) -> bool:
    """Say whether bytes are whole characters, in UTF-8."""
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
    """Complete bytes of which the first and last characters may be cut; None where no text holds them.

    Returns characters whose last bytes are the first of ``raw``, the whole characters of ``raw``,
    and characters whose first bytes are its last.
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
    """Some characters whose UTF-8 ends in these bytes of a character."""
    if not tail:
        return [""]
    codes = range(_bits(tail), 0x30000, 1 << 6 * len(tail))
    return _some([code for code in codes if code > 0x7F], tail)


def _beginning(head: bytes) -> list[str]:
    """Some characters whose UTF-8 begins with these bytes."""
    if not head:
        return [""]
    length = 2 if head[0] < 0xE0 else 3 if head[0] < 0xF0 else 4
    high, free = _bits(head[1:], head[0] & (0xFF >> (length + 1))), 6 * (length - len(head))
    return _some(range(high << free, min((high + 1) << free, 0x110000)), head)


def _bits(raw: bytes, high: int = 0) -> int:
    """The code point's bits in continuation bytes, after those in ``high``."""
    for byte in raw:
        high = high << 6 | byte & 0x3F
    return high


def _some(codes, part: bytes) -> list[str]:
    """Up to ``COMPLETIONS`` characters that have these bytes, evenly spread, assigned ones first."""
    step = max(1, len(codes) // (4 * COMPLETIONS))
    found = [chr(code) for code in codes[::step] if not 0xD800 <= code < 0xE000]
    found = [character for character in found if part in character.encode()]
    return sorted(found, key=lambda character: not character.isprintable())[:COMPLETIONS]
