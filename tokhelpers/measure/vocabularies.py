"""Describe vocabularies by script and token length, and compare them."""

import unicodedata
from collections.abc import Mapping
from functools import cache
from itertools import combinations, takewhile

import pandas as pd
from tokenizers import Tokenizer

from ..tokenizer.encoder import Encoder
from ..tokenizer.library_encoder import as_encoder
from ..tokenizer.token_bytes import is_utf8

LENGTHS = [0, 1, 2, 3, 4, 8, 16, float("inf")]  # class boundaries in bytes, upper ends included
LENGTH_NAMES = ["1 byte", "2 bytes", "3 bytes", "4 bytes", "5-8 bytes", "9-16 bytes", "17 or more"]
PARTIAL = "part of a character"


def describe_tokens(tokenizer: Tokenizer | Encoder) -> pd.DataFrame:
    """Describe the ordinary tokens of a tokenizer (no special or added ones), in order of IDs.

    The index is the ID; the columns are ``token`` (token string), ``bytes``, ``length`` (in bytes),
    ``script`` (Unicode script of the first letter; "no letter" without one) and ``kind``:
    ``letters``, ``digits``, ``white space``, ``other`` (punctuation, symbols, emoji) or ``part of a
    character``, for which ``script`` has the same value.

    >>> table = describe_tokens(th.train_byte_level_bpe(["кот кот"], vocab_size=261))
    >>> table.tail(1)[["length", "script", "kind"]].values.tolist()
    [[6, 'Cyrillic', 'letters']]
    """
    encoder = as_encoder(tokenizer)
    raw = encoder.raw(encoder.ordinary.values())
    scripts = [script_and_kind(token) for token in raw]
    columns = {
        "token": list(encoder.ordinary.values()),
        "bytes": raw,
        "length": [len(token) for token in raw],
        "script": [script for script, _ in scripts],
        "kind": [kind for _, kind in scripts],
    }
    return pd.DataFrame(columns, index=pd.Index(encoder.ordinary, name="id"))


def script_and_kind(raw: bytes) -> tuple[str, str]:
    """Return the script of the first letter in a token's bytes, and the kind of the token."""
    if not is_utf8(raw):
        return PARTIAL, PARTIAL
    text = raw.decode()
    for character in text:
        if script := _script_of_letter(character):
            return script, "letters"
    core = text.strip()
    kind = "white space" if not core else "digits" if core.isnumeric() else "other"
    return "no letter", kind


@cache
def _script_of_letter(character: str) -> str:
    """The script of a letter or mark, by name; empty for any other character."""
    from fontTools.unicodedata import script, script_name

    if unicodedata.category(character)[0] not in "LM":
        return ""
    return script_name(script(character))


def compare_vocabularies(first: Tokenizer | Encoder, second: Tokenizer | Encoder) -> pd.DataFrame:
    """Count the tokens that two vocabularies share, in all, by script and by length.

    Tokens are compared by their bytes, so that tokenizers of different families are comparable;
    special and added tokens are left out. Returns one row per group, with columns ``by`` ("all",
    "script", "length"), ``group``, ``shared``, ``only_first``, ``only_second`` and
    ``common_prefix``: the tokens before the first difference between the two vocabularies, each in
    order of IDs. Scripts are in order of size. Raises TypeError for anything but a tokenizer.

    >>> small, large = (th.train_byte_level_bpe(["bat bat"], vocab_size=n) for n in (257, 258))
    >>> print(compare_vocabularies(small, large).loc[0, "shared":].to_dict())
    {'shared': 257, 'only_first': 0, 'only_second': 1, 'common_prefix': 257}
    """
    first, second = _raw_tokens(first), _raw_tokens(second)
    prefix = set(first[: _common_prefix(first, second)])
    tokens = list(dict.fromkeys([*first, *second]))
    first, second = set(first), set(second)
    flags = pd.DataFrame(
        {
            "shared": [token in first and token in second for token in tokens],
            "only_first": [token not in second for token in tokens],
            "only_second": [token not in first for token in tokens],
            "common_prefix": [token in prefix for token in tokens],
        }
    )
    groups = {
        "all": ["all"] * len(tokens),
        "script": [script_and_kind(token)[0] for token in tokens],
        "length": pd.cut([len(token) for token in tokens], LENGTHS, labels=LENGTH_NAMES),
    }
    tables = []
    for by, group in groups.items():
        table = flags.groupby(group, observed=True).sum()
        if by == "script":
            sizes = table.drop(columns="common_prefix").sum(axis=1).to_numpy()
            table = table.iloc[(-sizes).argsort(kind="stable")]
        tables.append(table.rename_axis("group").reset_index().assign(by=by))
    table = pd.concat(tables, ignore_index=True)
    return table[["by", "group", *flags.columns]].astype({"group": str})


def _raw_tokens(tokenizer: Tokenizer | Encoder) -> list[bytes]:
    """The bytes of the ordinary tokens, in order of IDs."""
    encoder = as_encoder(tokenizer)
    return encoder.raw(encoder.ordinary.values())


def _common_prefix(first: list[bytes], second: list[bytes]) -> int:
    """The length of the longest common prefix of two lists."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))))


def overlap(tokenizers: Mapping[str, Tokenizer | Encoder]) -> pd.DataFrame:
    """Compare the vocabularies of every pair of tokenizers.

    ``tokenizers`` maps names to tokenizers. Returns one row per pair, in their order, with columns
    ``first``, ``second``, ``shared``, ``only_first``, ``only_second``, ``common_prefix`` (in tokens,
    as in ``compare_vocabularies``) and ``share_of_smaller`` (shared tokens over the smaller
    vocabulary). Raises ValueError for fewer than two tokenizers.

    >>> pair = {n: th.train_byte_level_bpe(["bat bat"], vocab_size=n) for n in (257, 258)}
    >>> overlap(pair).share_of_smaller.tolist()
    [1.0]
    """
    if len(tokenizers) < 2:
        raise ValueError(f"got {len(tokenizers)} tokenizers: give two or more to compare")
    vocabularies = {name: _raw_tokens(tokenizer) for name, tokenizer in tokenizers.items()}
    sets = {name: set(tokens) for name, tokens in vocabularies.items()}
    pairs = list(combinations(vocabularies, 2))
    table = pd.DataFrame(pairs, columns=["first", "second"])
    table["shared"] = [len(sets[a] & sets[b]) for a, b in pairs]
    table["only_first"] = table["first"].map(lambda name: len(sets[name])) - table.shared
    table["only_second"] = table["second"].map(lambda name: len(sets[name])) - table.shared
    table["common_prefix"] = [_common_prefix(vocabularies[a], vocabularies[b]) for a, b in pairs]
    smaller = table.shared + table[["only_first", "only_second"]].min(axis=1)
    return table.assign(share_of_smaller=table.shared / smaller)
