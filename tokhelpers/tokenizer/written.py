"""What the token strings of a tokenizer stand for, as bytes, however it writes them."""

from collections.abc import Iterable
from functools import lru_cache

from tokenizers import Tokenizer

from .parts import BYTE_TOKENS, Parts, backend_of, is_byte_level
from .token_bytes import byte_of

TO_LATIN = {ord(character): byte for character, byte in byte_of().items()}
BYTE = {token: bytes([byte]) for byte, token in enumerate(BYTE_TOKENS)}


def raw_tokens(tokens: Iterable[str], tokenizer: Tokenizer | Parts) -> list[bytes]:
    """Return the bytes that token strings stand for, so that different families can be compared.

    A byte-level tokenizer writes one character per byte. In others ``▁`` is a space, and where the
    model falls back to bytes a token such as ``<0xE4>`` is one. Characters outside the byte
    alphabet, as in special tokens, stand for themselves.

    >>> from tokenizers import Tokenizer, models
    >>> raw_tokens(["▁na", "ï"], Tokenizer(models.BPE()))
    [b' na', b'\\xc3\\xaf']
    """
    if is_byte_level(tokenizer):
        return [_from_alphabet(token) for token in tokens]
    if isinstance(tokenizer, Parts):
        fallback = tokenizer.settings["model"].get("byte_fallback")
    else:
        fallback = getattr(backend_of(tokenizer).model, "byte_fallback", False)
    byte = BYTE if fallback else {}
    return [byte.get(token) or token.replace("▁", " ").encode() for token in tokens]


@lru_cache(maxsize=1 << 16)  # a text's tokens are much the same at every size of an extension
def _from_alphabet(token: str) -> bytes:
    try:
        return token.translate(TO_LATIN).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()


def ordinary_tokens(tokenizer: Tokenizer | Parts) -> dict[int, str]:
    """Map each id to its token string, in order of ids, without special and added tokens.

    Raises TypeError for anything but a tokenizer.

    >>> from tokenizers import Tokenizer, models
    >>> ordinary_tokens(Tokenizer(models.BPE({"b": 1, "a": 0}, [])))
    {0: 'a', 1: 'b'}
    """
    if isinstance(tokenizer, Parts):
        vocab, added = tokenizer.vocab, {t["id"] for t in tokenizer.settings["added_tokens"]}
    else:
        backend = backend_of(tokenizer)
        vocab = backend.get_vocab(with_added_tokens=False)
        added = backend.get_added_tokens_decoder().keys()
    by_id = sorted((i, token) for token, i in vocab.items() if i not in added)
    return dict(by_id)
