"""Reachability: which tokens of a BPE tokenizer a text can produce, and where in the text."""

from collections.abc import Iterable
from itertools import product

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from ..common.checks import progress
from ..tokenizer.library_encoder import without_truncation
from ..tokenizer.segmentation import initial_ids, segment
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.token_bytes import BYTE_TOKENS, COMPLETIONS, byte_of, completions

MERGES = "by merges"
SKIPPING = "only by merge skipping"
BLOCKED = "never: merges blocked"
SPLIT = "never: always split"
NOT_FOUND = "not found"
FRAGMENT = "not valid UTF-8 alone"
SPECIAL, ADDED, BYTE, UNKNOWN = "special", "added", "byte fallback", "unknown"

# A letter of Linear B: it has no case, composes with no mark, and no merge joins it to others
LETTER = "\U00010000"
PLACES = {
    "at the start": [""],
    "after a space": [" ", LETTER + " "],
    "inside a word": [LETTER, "q"],
}
BEFORE = ["", " ", LETTER, "q", "Q", "(", "((", "\n", "1"]
BEHIND = ["", LETTER, "q", "Q", "e", "l", "(", "\n", " ", "1"]
STRANGE = ["\U00010001", "\U0001d000", "\ue000"]  # of which a vocabulary lacks one
OWN_LETTERS = 64  # of the vocabulary, tried as neighbours of tokens not found otherwise


def reachability(
    tokenizer: Tokenizer | TokenizerSpec, tokens: Iterable[str] | None = None
) -> pd.DataFrame:
    """Classify each token of a BPE tokenizer by whether, how and where a text can produce it.

    ``tokens`` (token strings) restricts the table to these. Returns one row per ID, in order:

    - ``token``: the token string; ``text``: what it stands for, None for invalid UTF-8;
    - ``category``: ``by merges``; ``only by merge skipping``; ``never: merges blocked`` (it fails
      the Self-Tokenization Test, and merge skipping does not emit it); ``never: always split``
      (normalizer, pre-tokenizer or added tokens break it up in every context); ``not found``
      (merges produce it, but in each context they also joined it to its neighbours); ``not valid
      UTF-8 alone``; ``special``, ``added``, ``byte fallback``; ``unknown``, the model's unknown token
      if it is not special;
    - ``where``: ``at the start`` of a text, ``after a space`` (its own or before it), ``inside a
      word`` (directly after a letter), several joined by "or", all three as ``anywhere``;
      ``elsewhere`` (after a bracket, digit or line break only); ``inside a character``; or None;
    - ``self_test``: whether it passes the Self-Tokenization Test, as in ``unreachable_tokens`` (NA
      for special, added and byte-fallback tokens); ``round_trip``: whether its decoded text encodes
      to its ID alone;
    - ``example``: a text whose encoding contains the token, or None.

    The texts tried are the token's own, between each of ``BEFORE`` and ``BEHIND``, and next to up to
    ``OWN_LETTERS`` letters of the vocabulary (not needed for the patterns of GPT-2, Llama 3, Qwen and
    Tekken). An incomplete UTF-8 sequence is completed with up to ``COMPLETIONS`` characters per
    side. Tokens with an example are certain, and so is ``never: merges blocked`` without merge
    skipping. Raises ValueError for models other than BPE, BPE with word-end or continuation marks,
    tokenizers that do not split text into words, and ``tokens`` outside the vocabulary.

    Source: Purason et al. 2025, section 3.3 and Appendix E; Land and Bartolo 2024 (round trip).

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> toy = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "ba": 3}, [("a", "b")]))
    >>> toy.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    >>> reachability(toy).category.tolist()
    ['by merges', 'by merges', 'by merges', 'never: merges blocked']
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    backend = without_truncation(tokenizer)
    table = _tokens(spec)
    texts = table.text[table.category.isna()]
    own_letters = [t for t in texts if len(t) == 1 and t.isalpha()][:OWN_LETTERS]
    if tokens is not None:
        tokens = set(tokens)
        if missing := tokens.difference(table.token):
            raise ValueError(
                f"not in this tokenizer: {min(missing)!a:.60}; give token strings of its vocabulary"
            )
        table = table[table.token.isin(tokens)].copy()
    ordinary = ~table.category.isin([SPECIAL, ADDED, BYTE, UNKNOWN]).to_numpy()
    passed = pd.array([pd.NA] * len(table), "boolean")
    passed[ordinary] = spec.are_reached(table.token[ordinary].tolist())
    table["self_test"] = passed
    decoded = backend.decode_batch([[i] for i in table.index], skip_special_tokens=False)
    encoded = backend.encode_batch_fast(decoded, add_special_tokens=False)
    table["round_trip"] = [e.ids == [i] for i, e in zip(table.index, encoded, strict=True)]
    search = Search(spec, table)
    _find_texts(search, own_letters)
    _complete_characters(search)
    _find_with_unknown(search)
    columns = {"category": search.categories, "where": search.where, "example": search.examples}
    for name, values in columns.items():
        table[name] = pd.Series(values, table.index, object)
    return table[["token", "text", "category", "where", "self_test", "round_trip", "example"]]


def _tokens(spec: TokenizerSpec) -> pd.DataFrame:
    """One row per token: token string, text, and category, None for tokens that can be searched for."""
    added = spec.added_tokens
    strings = dict(sorted(spec.all_tokens.items()))
    byte_tokens = {t: byte for byte, t in enumerate(BYTE_TOKENS)} if spec.byte_fallback else {}
    writes_spaces = spec.byte_level or "▁" in str(spec.pipeline)
    texts, categories = [], []
    for i, token in strings.items():
        text, category = token, None
        if i in added:
            category = SPECIAL if added[i].special else ADDED
        elif token == spec.unk_token:
            text, category = None, UNKNOWN
        elif token in byte_tokens:
            byte = byte_tokens[token]
            text, category = chr(byte) if byte < 128 else None, BYTE
        elif spec.byte_level and not byte_of().keys() >= set(token):
            text, category = None, SPLIT  # no pre-token contains such a character
        elif writes_spaces:
            text = spec.text_of(token)
            category = FRAGMENT if text is None else None
        texts.append(text)
        categories.append(category)
    columns = {"token": strings.values(), "text": texts, "category": categories}
    return pd.DataFrame(columns, index=pd.Index(strings, name="id"), dtype=object)


# --- searching for a text that produces a token ---------------------------------------------------
class Search:
    """What the texts tried so far say about each token, by its row number.

    ``in_pretoken`` says whether some text left the token inside one pre-token; ``categories``,
    ``where`` and ``examples`` are the columns of the table to be filled in.
    """

    def __init__(self, spec: TokenizerSpec, table: pd.DataFrame):
        self.spec, self.proven = spec, spec.pretokenizer.pattern is not None
        self.ids, self.tokens = table.index.to_numpy(), table.token.tolist()
        self.texts, self.categories = table.text.tolist(), table.category.tolist()
        self.passed = table.self_test.fillna(False).to_numpy(bool)
        self.in_pretoken = np.zeros(len(table), bool)
        self.where, self.examples = [None] * len(table), [None] * len(table)

    def try_texts(self, rows: np.ndarray, texts: list[str]) -> np.ndarray:
        """Say for each token whether the encoding of its text contains it; note first examples."""
        produced, skipping = np.zeros(len(rows), bool), self.spec.merge_skipping
        containing = []  # pre-tokens that contain a token and more, with the token's index in rows
        pretokens = self.spec.pretokenize(texts)
        for k, (row, pieces) in enumerate(zip(rows.tolist(), pretokens, strict=True)):
            token, passed = self.tokens[row], self.passed[row]
            for piece in pieces:
                if isinstance(piece, int) or token not in piece:
                    continue
                self.in_pretoken[row] = True
                if piece == token:
                    produced[k] |= passed or skipping
                elif passed and not (skipping and piece in self.spec.vocab):
                    containing.append((piece, k))
        if containing:
            pieces, indices = zip(*containing, strict=True)
            symbols = initial_ids(list(pieces), self.spec, dropping=True)
            ids, offsets = segment(*symbols, self.spec.merge_table)
            indices = np.repeat(indices, np.diff(offsets))
            produced[indices[ids == self.ids[rows[indices]]]] = True
        for k in np.flatnonzero(produced):
            self.examples[rows[k]] = self.examples[rows[k]] or texts[k]
        return produced


def _find_texts(search: Search, own_letters: list[str]) -> None:
    """Fill in category and place of the tokens that are valid text."""
    rows = np.array([i for i, category in enumerate(search.categories) if category is None], int)
    texts = search.texts
    places = _places(search, rows)
    missing = np.array([i for i in rows if search.examples[i] is None], int)
    contexts = [*product(BEFORE, BEHIND)]
    if not search.proven:  # a proven pattern needs no other context
        for letter in own_letters:
            contexts += [(letter, ""), ("", letter), (letter, letter)]
    for left, right in progress("trying every token", contexts):
        produced = search.try_texts(missing, [left + texts[i] + right for i in missing])
        for i in missing[produced]:
            places[i] = _place(left, texts[i])
        missing = missing[~produced]
    for i in rows:
        if search.examples[i] is not None:
            search.categories[i] = MERGES if search.passed[i] else SKIPPING
            search.where[i] = places[i]
        elif not search.in_pretoken[i]:
            search.categories[i] = SPLIT
        else:
            search.categories[i] = NOT_FOUND if search.passed[i] else BLOCKED


def _places(search: Search, rows: np.ndarray) -> dict[int, str]:
    """Describe where in a text each token can be produced."""
    with_space = np.array([search.texts[i][:1] == " " for i in rows], bool)
    cores = {i: search.texts[i].removeprefix(" ") for i in rows}
    places = {i: [] for i in rows}
    for place, contexts in PLACES.items():
        missing = rows
        if search.proven and place == "after a space":
            contexts = [" "]  # the space starts a pre-token, whatever precedes it
        elif search.proven:
            missing = rows[~with_space]  # the token's own space would be in the text
        for left, right in product(contexts, ["", LETTER]):
            produced = search.try_texts(missing, [left + cores[i] + right for i in missing])
            for i in missing[produced]:
                places[i].append(place)
            missing = missing[~produced]
    return {
        i: "anywhere" if names == [*PLACES] else " or ".join(names) or "elsewhere"
        for i, names in places.items()
    }


def _place(left: str, text: str) -> str:
    """Describe the place of a text after the context ``left``."""
    if not left:
        return "at the start"
    if " " in (left, text[0]):
        return "after a space"
    return "inside a word" if left.isalpha() else "elsewhere"


def _find_with_unknown(search: Search) -> None:
    """Search for tokens that merges make of the unknown token, in texts with a character without token."""
    spec, unknown = search.spec, search.spec.unk_token
    strange = next((c for c in STRANGE if c not in spec.vocab), None)
    if unknown is None or strange is None:
        return
    for row, token in enumerate(search.tokens):
        if unknown not in token or search.examples[row] or search.categories[row] == SPECIAL:
            continue
        core = token.replace(unknown, strange).replace("▁", " ")
        texts = [core, " " + core]
        for text, ids in zip(texts, spec.ids_batch(texts), strict=True):
            if search.ids[row] in ids and not search.examples[row]:
                search.examples[row], search.where[row] = (
                    text,
                    _place("" if text is core else " ", core),
                )
                if search.categories[row] != UNKNOWN:
                    search.categories[row] = MERGES


def _complete_characters(search: Search) -> None:
    """Search for incomplete UTF-8 sequences in texts that complete the character."""
    contexts = {
        i: completions(bytes(map(byte_of().get, search.tokens[i])))
        for i, category in enumerate(search.categories)
        if category == FRAGMENT and search.passed[i]
    }
    rows = np.array([i for i, completed in contexts.items() if completed], int)
    for k in range(COMPLETIONS):
        texts = [
            left[k % len(left)] + middle + right[7 * k % len(right)]
            for left, middle, right in map(contexts.get, rows)
        ]
        produced = search.try_texts(rows, texts)
        for i in rows[produced]:
            search.where[i] = "inside a character"
        rows = rows[~produced]
