"""Which tokens of a BPE tokenizer any text can produce, and where: one row per token."""

import json
from collections.abc import Callable, Iterable
from itertools import product
from unicodedata import is_normalized

import numpy as np
import pandas as pd
import regex
from tokenizers import Tokenizer
from tokenizers.normalizers import NFC

from ..tokenizer.parts import BYTE_TOKENS, Parts, backend_of, build_tokenizer, read_parts
from ..tokenizer.pretokenization import (
    cutting_rules,
    is_doubtful,
    library_cutter,
    proven_pattern,
    token_text,
)
from ..tokenizer.segmentation import merges_of, segment, symbols_of
from ..tokenizer.token_bytes import COMPLETIONS, byte_of, completions, token_strings

MERGES = "by merges"
SKIPPING = "only by merge skipping"
BLOCKED = "never: merges blocked"
SPLIT = "never: always split"
NOT_FOUND = "not found"
FRAGMENT = "not valid UTF-8 alone"
SPECIAL, ADDED, BYTE = "special", "added", "byte fallback"

# A letter of Linear B: it has no case, composes with no mark and merges with nothing beside it
LETTER = "\U00010000"
PLACES = {
    "at the start": [""],
    "after a space": [" ", LETTER + " "],
    "inside a word": [LETTER, "q"],
}
BEFORE = ["", " ", LETTER, "q", "Q", "(", "((", "\n", "1"]
BEHIND = ["", LETTER, "q", "Q", "e", "l", "(", "\n", " ", "1"]
OWN_LETTERS = 64  # of the tokenizer, tried beside tokens not found otherwise


def reachability(tokenizer: Tokenizer | Parts, tokens: Iterable[str] | None = None) -> pd.DataFrame:
    """Say of each token of a BPE tokenizer whether, how and where a text can produce it.

    Asks of all tokens, or of ``tokens`` (token strings) only. Returns one row per id, in order of
    ids, with the columns

    - ``token``: the token string; ``text``: what it stands for, None for bytes that are no text;
    - ``category``: ``by merges``; ``only by merge skipping`` (as a whole pre-token, merges do not
      lead there); ``never: merges blocked`` (it fails the Self-Tokenization Test and is no whole
      pre-token, or skipping is off); ``never: always split`` (the normalizer changes it, or the
      pre-tokenizer or an added token cuts it, in every context); ``not found`` (merges lead there
      and it stays whole, but its neighbours in each context took part of it); ``not valid UTF-8
      alone`` (it holds part of a character); ``special``, ``added``, ``byte fallback``;
    - ``where``: ``at the start`` of a text, ``after a space`` (its own or before it), ``inside a
      word`` (directly after a letter), several joined by "or", all three as ``anywhere``;
      ``elsewhere`` (after a bracket, digit or line break only); ``inside a character``; None where
      nothing was found or searched for;
    - ``self_test``: the Self-Tokenization Test, as in ``unreachable`` (NA for special, added and
      byte-fallback tokens); ``round_trip``: the token decoded and encoded again gives its one id;
    - ``example``: a text whose encoding holds the token, or None (as for special, added, byte tokens).

    A search tries texts: the token's text alone, between each of ``BEFORE`` and ``BEHIND``, then
    beside up to ``OWN_LETTERS`` letters of the vocabulary; a token with part of a character is
    completed with up to ``COMPLETIONS`` characters per side. What is found is certain, and so is
    ``never: merges blocked`` where merge skipping is off. ``always split`` means in all these
    contexts; by the patterns of GPT-2, Llama 3, Qwen and Tekken no other context would do either.
    Raises ValueError for models other than BPE, for BPE with word-end or continuation marks, for
    tokenizers without any rule that cuts text into words, and for ``tokens`` that are not in the
    vocabulary.

    Source: Purason et al. 2025, section 3.3 and Appendix E; Land and Bartolo 2024 (round trip).

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> toy = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "ba": 3}, [("a", "b")]))
    >>> toy.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    >>> reachability(toy).category.tolist()
    ['by merges', 'by merges', 'by merges', 'never: merges blocked']
    """
    parts = read_parts(tokenizer)
    model = parts.settings["model"]
    if model.get("end_of_word_suffix") or model.get("continuing_subword_prefix"):
        raise ValueError(
            "this BPE tokenizer marks word ends or continuations (end_of_word_suffix, "
            "continuing_subword_prefix): give one without, such as Llama-3, Qwen or Mistral"
        )
    backend = build_tokenizer(parts) if isinstance(tokenizer, Parts) else backend_of(tokenizer)
    table = _tokens(parts)
    text = table.text[table.category.isna()]
    own = [t for t in text if len(t) == 1 and t.isalpha()][:OWN_LETTERS]
    if tokens is not None:
        table = _only(table, list(tokens))
    ordinary = ~table.category.isin([SPECIAL, ADDED, BYTE]).to_numpy()
    passed = np.zeros(len(table), bool)
    _, offsets = segment(*symbols_of(table.token[ordinary].tolist(), parts), merges_of(parts))
    passed[ordinary] = np.diff(offsets) == 1
    table["self_test"] = pd.array(passed, "boolean")
    table.loc[~ordinary, "self_test"] = pd.NA
    decoded = backend.decode_batch([[i] for i in table.index], skip_special_tokens=False)
    back = _ids(backend, decoded)
    table["round_trip"] = [ids == [i] for i, ids in zip(table.index, back, strict=True)]
    table["example"] = None
    find = _finder(backend, parts, table)
    _search(table, parts, find, own)
    _complete(table, find)
    return table[["token", "text", "category", "where", "self_test", "round_trip", "example"]]


def _only(table: pd.DataFrame, tokens: list[str]) -> pd.DataFrame:
    found = table[table.token.isin(tokens)].copy()
    missing = set(tokens) - set(found.token)
    if missing:
        raise ValueError(f"not in this tokenizer: {min(missing)!a:.60}; give token strings of it")
    return found


def _ids(backend: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [e.ids for e in backend.encode_batch_fast(texts, add_special_tokens=False)]


def _tokens(parts: Parts) -> pd.DataFrame:
    """One row per token: token string, text, and the category of those that are not ordinary."""
    added = {t["id"]: t for t in parts.settings["added_tokens"]}
    strings = parts.tokens | {i: t["content"] for i, t in added.items()}
    strings = dict(sorted(strings.items()))
    fallback = parts.settings["model"].get("byte_fallback")
    raw = {token: byte for byte, token in enumerate(BYTE_TOKENS)} if fallback else {}
    spaces = parts.byte_level or "▁" in cutting_rules(parts)
    texts, kinds = [], []
    for i, token in strings.items():
        text, kind = token, None
        if i in added:
            kind = SPECIAL if added[i]["special"] else ADDED
        elif token in raw:
            text, kind = chr(raw[token]) if raw[token] < 128 else None, BYTE
        elif parts.byte_level and not byte_of().keys() >= set(token):
            text, kind = None, SPLIT  # no pre-token holds such a character
        elif spaces:
            text = token_text(parts, token)
            kind = FRAGMENT if text is None else None
        texts.append(text)
        kinds.append(kind)
    columns = {"token": strings.values(), "text": texts, "category": kinds}
    return pd.DataFrame(columns, index=pd.Index(strings, name="id"), dtype=object)


# --- is a token in the encoding of a text? --------------------------------------------------------
def _cutter(rules: str) -> Callable[[list[str]], tuple[list[str], np.ndarray]]:
    """A function that cuts texts into pre-tokens, flat, and says which text each one is from."""
    pattern, by_library = proven_pattern(rules), library_cutter(rules)
    find = regex.compile(pattern or "").findall
    composed, compose = json.loads(rules)["normalizer"] is not None, NFC().normalize_str

    def flat(found: list[list[str]]) -> tuple[list[str], np.ndarray]:
        owners = np.repeat(np.arange(len(found)), [len(pieces) for pieces in found])
        return [piece for pieces in found for piece in pieces], owners

    def cut(texts: list[str]) -> tuple[list[str], np.ndarray]:
        if pattern is None:
            return flat([by_library(text) for text in texts])
        doubtful = [not text.isascii() and is_doubtful(text) for text in texts]
        if composed:  # by the library: its Unicode is older than Python's
            texts = [text if is_normalized("NFC", text) else compose(text) for text in texts]
        pairs = list(zip(texts, doubtful, strict=True))
        pieces, owners = flat([[] if doubt else find(text) for text, doubt in pairs])
        more, others = flat([by_library(text) if doubt else [] for text, doubt in pairs])
        return token_strings(pieces) + more, np.concatenate([owners, others])

    return cut


def _finder(backend: Tokenizer, parts: Parts, table: pd.DataFrame) -> Callable:
    """A function that takes tokens, as row numbers, and one text for each, and says two things.

    The first is whether the text leaves the token inside one pre-token, the second whether the
    text's encoding has the token.
    """
    tokens, ids = table.token.tolist(), table.index.tolist()
    passed = table.self_test.fillna(False).to_numpy(bool)
    cut, merges = _cutter(cutting_rules(parts)), merges_of(parts)
    by_library = _cut_by_added(parts, table)

    def find(rows: np.ndarray, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        held, made = np.zeros((2, len(rows)), bool)
        if not len(rows):
            return held, made
        pieces, owners = cut(texts)
        inside = []
        for piece, k in zip(pieces, owners.tolist(), strict=True):
            row = rows[k]
            if tokens[row] not in piece:
                continue
            held[k] = True
            if piece == tokens[row]:
                made[k] |= passed[row] or parts.merge_skipping
            elif passed[row] and not (parts.merge_skipping and piece in parts.vocab):
                inside.append((piece, k))
        if inside:
            flat, offsets = segment(*symbols_of([piece for piece, _ in inside], parts), merges)
            k = np.array([k for _, k in inside])
            wanted = table.index.to_numpy()[rows[k]]
            hit = np.flatnonzero(flat == np.repeat(wanted, np.diff(offsets)))
            made[k[np.searchsorted(offsets, hit, "right") - 1]] = True
        doubt = np.flatnonzero(by_library[rows])  # an added token may cut the text before all this
        encoded = _ids(backend, [texts[k] for k in doubt])
        made[doubt] = [ids[rows[k]] in found for k, found in zip(doubt, encoded, strict=True)]
        return held, made

    return find


def _cut_by_added(parts: Parts, table: pd.DataFrame) -> np.ndarray:
    """Which tokens' texts, in some context, may hold an added token: the library encodes those."""
    added = parts.settings["added_tokens"]
    contents = [t["content"] for t in added]
    edges = tuple(set("".join(BEFORE + BEHIND)))
    beside = any(c.startswith(edges) or c.endswith(edges) for c in contents)
    changed = parts.settings["normalizer"] and any(t["normalized"] for t in added)
    if beside or changed or not all(t["special"] for t in added):
        return np.ones(len(table), bool)
    texts = table.text.where(table.category.isna(), "").tolist()
    joined = "\0".join(texts)
    contents = [c for c in contents if c in joined]
    return np.array([any(c in text for c in contents) for text in texts], bool)


# --- contexts -------------------------------------------------------------------------------------
def _search(table: pd.DataFrame, parts: Parts, find: Callable, own: list[str]) -> None:
    """Fill in category, where and example of the tokens that are text; ``own`` are letters to try."""
    texts, examples = table.text.tolist(), [None] * len(table)
    rows = np.flatnonzero(table.category.isna())
    held = np.zeros(len(table), bool)

    def search(rows: np.ndarray, asked: list[str]) -> np.ndarray:
        whole, made = find(rows, asked)
        held[rows] |= whole
        for k in np.flatnonzero(made):
            examples[rows[k]] = examples[rows[k]] or asked[k]
        return made

    places = _places(rows, texts, proven_pattern(cutting_rules(parts)) is not None, search)
    missing = np.array([i for i in rows if examples[i] is None], np.int64)
    beside_own = [pair for letter in own for pair in ((letter, ""), ("", letter), (letter, letter))]
    for before, behind in [*product(BEFORE, BEHIND), *beside_own]:
        made = search(missing, [before + texts[i] + behind for i in missing])
        for i in missing[made]:
            places[i] = _place(before, texts[i])
        missing = missing[~made]
    added = [t["content"] for t in parts.settings["added_tokens"]]
    passed = table.self_test.fillna(False).to_numpy(bool)
    categories, where = table.category.tolist(), [None] * len(table)
    for i in rows:
        if examples[i] is not None:
            categories[i], where[i] = MERGES if passed[i] else SKIPPING, places[i]
        elif not held[i] or any(content in texts[i] for content in added):
            categories[i] = SPLIT
        else:
            categories[i] = NOT_FOUND if passed[i] else BLOCKED
    _set(table, category=categories, where=where, example=examples)


def _places(rows: np.ndarray, texts: list, proven: bool, search: Callable) -> dict[int, str]:
    """Where each token is found, in words."""
    spaced = np.array([texts[i][:1] == " " for i in rows], bool)
    found = {i: [] for i in rows}
    cores = {i: texts[i][1:] if own else texts[i] for i, own in zip(rows, spaced, strict=True)}
    for place, contexts in PLACES.items():
        after_space = place == "after a space"
        missing = rows
        if (
            proven
        ):  # a space of the token is a space of the text, so some contexts cannot produce it
            missing, contexts = (rows, contexts[:1]) if after_space else (rows[~spaced], contexts)
        for before, behind in product(contexts, ["", LETTER]):
            made = search(missing, [before + cores[i] + behind for i in missing])
            for i in missing[made]:
                found[i].append(place)
            missing = missing[~made]
    every = list(PLACES)
    return {
        i: "anywhere" if places == every else " or ".join(places) or "elsewhere"
        for i, places in found.items()
    }


def _place(before: str, text: str) -> str:
    if not before:
        return "at the start"
    inside = "inside a word" if before.isalpha() else "elsewhere"
    return "after a space" if " " in (before, text[0]) else inside


def _set(table: pd.DataFrame, **columns: list) -> None:
    for name, values in columns.items():
        table[name] = pd.Series(values, table.index, object)


def _complete(table: pd.DataFrame, find: Callable) -> None:
    """Search texts for the tokens that hold part of a character, by completing the character."""
    rows = np.flatnonzero((table.category == FRAGMENT) & table.self_test.fillna(False))
    around = {i: completions(bytes(map(byte_of().get, table.token.iat[i]))) for i in rows}
    example, where = table["example"].tolist(), table["where"].tolist()
    rows = np.array([i for i in rows if around[i]], np.int64)
    for k in range(COMPLETIONS):
        texts = []
        for first, middle, last in map(around.get, rows):
            texts.append(first[k % len(first)] + middle + last[7 * k % len(last)])
        _, made = find(rows, texts)
        for j in np.flatnonzero(made):
            example[rows[j]], where[rows[j]] = texts[j], "inside a character"
        rows = rows[~made]
    _set(table, where=where, example=example)
