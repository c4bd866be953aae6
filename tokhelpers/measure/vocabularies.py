"""What is in a vocabulary, by script and length, and what two vocabularies share."""

import unicodedata
from collections.abc import Mapping
from functools import cache
from itertools import combinations, takewhile

import pandas as pd
from tokenizers import Tokenizer

from ..tokenizer.encoder import Encoder
from ..tokenizer.library import as_encoder
from ..tokenizer.token_bytes import is_utf8

LENGTHS = [0, 1, 2, 3, 4, 8, 16, float("inf")]  # bytes: the upper ends of classes
LENGTH_NAMES = ["1 byte", "2 bytes", "3 bytes", "4 bytes", "5-8 bytes", "9-16 bytes", "17 or more"]
PART = "part of a character"


def describe_tokens(tokenizer: Tokenizer | Encoder) -> pd.DataFrame:
    """List the ordinary tokens of a tokenizer with what each is made of, in order of ids.

    The index is the id; the columns are ``token`` (the token string), ``bytes`` (what it stands
    for), ``length`` (in bytes), ``script`` (of its first letter, by Unicode; "no letter" without
    one) and ``kind``: ``letters``, ``digits``, ``white space``, ``other`` (punctuation, signs,
    emoji) or ``part of a character``, which is its script, too. Special and added tokens are left
    out.

    >>> table = describe_tokens(th.train_byte_level_bpe(["кот кот"], vocab_size=261))
    >>> table.tail(1)[["length", "script", "kind"]].values.tolist()
    [[6, 'Cyrillic', 'letters']]
    """
    encoder = as_encoder(tokenizer)
    raw = encoder.raw(encoder.ordinary.values())
    sorts = [script_and_kind(token) for token in raw]
    columns = {
        "token": list(encoder.ordinary.values()),
        "bytes": raw,
        "length": [len(token) for token in raw],
        "script": [script for script, _ in sorts],
        "kind": [kind for _, kind in sorts],
    }
    return pd.DataFrame(columns, index=pd.Index(encoder.ordinary, name="id"))


def script_and_kind(raw: bytes) -> tuple[str, str]:
    """Name the script of the first letter in these bytes, and what kind of token they are."""
    if not is_utf8(raw):
        return PART, PART
    text = raw.decode()
    for character in text:
        name = _script_of_letter(character)
        if name:
            return name, "letters"
    core = text.strip()
    kind = "white space" if not core else "digits" if core.isnumeric() else "other"
    return "no letter", kind


@cache
def _script_of_letter(character: str) -> str:
    """The name of a letter's or mark's script; empty for any other character."""
    from fontTools.unicodedata import script, script_name

    if unicodedata.category(character)[0] not in "LM":
        return ""
    return script_name(script(character))


def compare_vocabularies(first: Tokenizer | Encoder, second: Tokenizer | Encoder) -> pd.DataFrame:
    """Count the tokens that two vocabularies share, in all, by script and by length.

    Tokens are compared by the bytes that they stand for, so tokenizers of different families can be
    compared; special and added tokens are left out. Returns one row per group, with the columns
    ``by`` ("all", "script", "length"), ``group``, ``shared``, ``only_first``, ``only_second`` and
    ``common_prefix``: the tokens before the first place at which the two lists, each in order of
    ids, differ. Scripts come with the largest first.

    Raises TypeError for anything but a tokenizer.

    >>> small, large = (th.train_byte_level_bpe(["bat bat"], vocab_size=n) for n in (257, 258))
    >>> print(compare_vocabularies(small, large).loc[0, "shared":].to_dict())
    {'shared': 257, 'only_first': 0, 'only_second': 1, 'common_prefix': 257}
    """
    lists = [_raw_tokens(tokenizer) for tokenizer in (first, second)]
    sets = [set(tokens) for tokens in lists]
    alike = set(lists[0][: _common_prefix(*lists)])
    tokens = list(dict.fromkeys([*lists[0], *lists[1]]))
    found = pd.DataFrame(
        {
            "shared": [token in sets[0] and token in sets[1] for token in tokens],
            "only_first": [token not in sets[1] for token in tokens],
            "only_second": [token not in sets[0] for token in tokens],
            "common_prefix": [token in alike for token in tokens],
        }
    )
    groups = {
        "all": ["all"] * len(tokens),
        "script": [script_and_kind(token)[0] for token in tokens],
        "length": pd.cut([len(token) for token in tokens], LENGTHS, labels=LENGTH_NAMES),
    }
    tables = []
    for by, group in groups.items():
        table = found.groupby(group, observed=True).sum()
        if by == "script":
            largest = -table.drop(columns="common_prefix").sum(axis=1).to_numpy()
            table = table.iloc[largest.argsort(kind="stable")]
        tables.append(table.rename_axis("group").reset_index().assign(by=by))
    table = pd.concat(tables, ignore_index=True)
    return table[["by", "group", *found.columns]].astype({"group": str})


def _raw_tokens(tokenizer: Tokenizer | Encoder) -> list[bytes]:
    """What the ordinary tokens stand for, in order of ids."""
    encoder = as_encoder(tokenizer)
    return encoder.raw(encoder.ordinary.values())


def _common_prefix(first: list[bytes], second: list[bytes]) -> int:
    """How many tokens at the beginning of two lists are the same, place by place."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))))


def overlap(tokenizers: Mapping[str, Tokenizer | Encoder]) -> pd.DataFrame:
    """Compare the vocabularies of every pair of tokenizers.

    ``tokenizers`` maps names to tokenizers. Returns one row per pair, in the order given, with the
    columns ``first``, ``second``, ``shared``, ``only_first``, ``only_second``, ``common_prefix`` (all
    in tokens, as in ``compare_vocabularies``) and ``share_of_smaller``. Raises ValueError for fewer
    than two tokenizers.

    >>> made = {n: th.train_byte_level_bpe(["bat bat"], vocab_size=n) for n in (257, 258)}
    >>> overlap(made).share_of_smaller.tolist()
    [1.0]
    """
    if len(tokenizers) < 2:
        raise ValueError(f"an overlap is of two or more tokenizers, got {len(tokenizers)}: add one")
    lists = {name: _raw_tokens(tokenizer) for name, tokenizer in tokenizers.items()}
    sets = {name: set(tokens) for name, tokens in lists.items()}
    pairs = list(combinations(lists, 2))
    table = pd.DataFrame(pairs, columns=["first", "second"])
    table["shared"] = [len(sets[a] & sets[b]) for a, b in pairs]
    table["only_first"] = table["first"].map(lambda name: len(sets[name])) - table.shared
    table["only_second"] = table["second"].map(lambda name: len(sets[name])) - table.shared
    table["common_prefix"] = [_common_prefix(lists[a], lists[b]) for a, b in pairs]
    smaller = table.shared + table[["only_first", "only_second"]].min(axis=1)
    return table.assign(share_of_smaller=table.shared / smaller)
