"""Which tokens of a BPE tokenizer any text can produce, and where: one row per token."""

from collections.abc import Iterable
from itertools import product

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from ..tokenizer.checks import progress
from ..tokenizer.library import without_truncation
from ..tokenizer.segmentation import initial_ids, segment
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.token_bytes import BYTE_TOKENS, COMPLETIONS, byte_of, completions

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


def reachability(
    tokenizer: Tokenizer | TokenizerSpec, tokens: Iterable[str] | None = None
) -> pd.DataFrame:
    """Say of each token of a BPE tokenizer whether, how and where a text can produce it.

    Asks of all tokens, or of ``tokens`` (token strings) only. Returns one row per id, in order of
    ids, with the columns

    - ``token``: the token string; ``text``: what it stands for, None for bytes that are no text;
    - ``category``: ``by merges``; ``only by merge skipping``; ``never: merges blocked`` (it fails
      the Self-Tokenization Test, and merge skipping does not take it whole); ``never: always split``
      (normalizer, pre-tokenizer or added tokens change or cut it in every context); ``not found``
      (merges lead there, but its neighbours in each context took part of it); ``not valid UTF-8
      alone`` (it holds part of a character); ``special``, ``added``, ``byte fallback``;
    - ``where``: ``at the start`` of a text, ``after a space`` (its own or before it), ``inside a
      word`` (directly after a letter), several joined by "or", all three as ``anywhere``;
      ``elsewhere`` (after a bracket, digit or line break only); ``inside a character``; or None;
    - ``self_test``: the Self-Tokenization Test, as in ``unreachable`` (NA for special, added and
      byte-fallback tokens); ``round_trip``: the token decoded and encoded again gives its one id;
    - ``example``: a text whose encoding holds the token, or None.

    The texts tried are the token's alone, between each of ``BEFORE`` and ``BEHIND``, and beside up to
    ``OWN_LETTERS`` letters of the vocabulary, save by the patterns of GPT-2, Llama 3, Qwen and
    Tekken, by which no other context would do. A token with part of a character is completed with up
    to ``COMPLETIONS`` characters per side. What is found is certain, and so is ``never: merges
    blocked`` where merge skipping is off. Raises ValueError for models other than BPE, for BPE with
    word-end or continuation marks, for tokenizers without any rule that cuts text into words, and
    for ``tokens`` that are not in the vocabulary.

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
    text = table.text[table.category.isna()]
    own = [t for t in text if len(t) == 1 and t.isalpha()][:OWN_LETTERS]
    if tokens is not None:
        table = _only(table, list(tokens))
    ordinary = ~table.category.isin([SPECIAL, ADDED, BYTE]).to_numpy()
    passed = pd.array([pd.NA] * len(table), "boolean")
    passed[ordinary] = spec.are_reached(table.token[ordinary].tolist())
    table["self_test"] = passed
    decoded = backend.decode_batch([[i] for i in table.index], skip_special_tokens=False)
    back = backend.encode_batch_fast(decoded, add_special_tokens=False)
    table["round_trip"] = [e.ids == [i] for i, e in zip(table.index, back, strict=True)]
    search = Search(spec, table)
    _find_texts(search, own)
    _complete(search)
    columns = {"category": search.categories, "where": search.where, "example": search.examples}
    for name, values in columns.items():
        table[name] = pd.Series(values, table.index, object)
    return table[["token", "text", "category", "where", "self_test", "round_trip", "example"]]


def _only(table: pd.DataFrame, tokens: list[str]) -> pd.DataFrame:
    found = table[table.token.isin(tokens)].copy()
    missing = set(tokens) - set(found.token)
    if missing:
        raise ValueError(f"not in this tokenizer: {min(missing)!a:.60}; give token strings of it")
    return found


def _tokens(spec: TokenizerSpec) -> pd.DataFrame:
    """One row per token: token string, text, and the category of those that are not ordinary."""
    added = spec.added_tokens
    strings = dict(sorted(spec.all_tokens.items()))
    raw = {t: byte for byte, t in enumerate(BYTE_TOKENS)} if spec.byte_fallback else {}
    spaces = spec.byte_level or "▁" in spec.pretokenizer_config
    texts, kinds = [], []
    for i, token in strings.items():
        text, kind = token, None
        if i in added:
            kind = SPECIAL if added[i].special else ADDED
        elif token in raw:
            text, kind = chr(raw[token]) if raw[token] < 128 else None, BYTE
        elif spec.byte_level and not byte_of().keys() >= set(token):
            text, kind = None, SPLIT  # no pre-token holds such a character
        elif spaces:
            text = spec.text_of(token)
            kind = FRAGMENT if text is None else None
        texts.append(text)
        kinds.append(kind)
    columns = {"token": strings.values(), "text": texts, "category": kinds}
    return pd.DataFrame(columns, index=pd.Index(strings, name="id"), dtype=object)


# --- searching texts for tokens --------------------------------------------------------------------
class Search:
    """What is found out about tokens, by their row numbers, while texts are tried.

    ``held`` says which tokens some text left inside one pre-token; ``categories``, ``where`` and
    ``examples`` are the columns of the table to be filled in.
    """

    def __init__(self, spec: TokenizerSpec, table: pd.DataFrame):
        self.spec, self.proven = spec, spec.pretokenizer.pattern is not None
        self.ids, self.tokens = table.index.to_numpy(), table.token.tolist()
        self.texts, self.categories = table.text.tolist(), table.category.tolist()
        self.passed = table.self_test.fillna(False).to_numpy(bool)
        self.held = np.zeros(len(table), bool)
        self.where, self.examples = [None] * len(table), [None] * len(table)

    def try_texts(self, rows: np.ndarray, texts: list[str]) -> np.ndarray:
        """Try one text for each token: is the token in its encoding? The first is its example."""
        made, inside, skipping = np.zeros(len(rows), bool), [], self.spec.merge_skipping
        for k, (row, pieces) in enumerate(
            zip(rows.tolist(), self.spec.pretokenize(texts), strict=True)
        ):
            token, passed = self.tokens[row], self.passed[row]
            for piece in pieces:
                if isinstance(piece, int) or token not in piece:
                    continue
                self.held[row] = True
                if piece == token:
                    made[k] |= passed or skipping
                elif passed and not (skipping and piece in self.spec.vocab):
                    inside.append((piece, k))
        if inside:  # a longer pre-token: its merges tell
            pieces, owners = zip(*inside, strict=True)
            start = initial_ids(list(pieces), self.spec, dropping=True)
            ids, offsets = segment(*start, self.spec.merge_table)
            owners = np.repeat(owners, np.diff(offsets))
            made[owners[ids == self.ids[rows[owners]]]] = True
        for k in np.flatnonzero(made):
            self.examples[rows[k]] = self.examples[rows[k]] or texts[k]
        return made


def _find_texts(search: Search, own: list[str]) -> None:
    """Find texts and categories of the tokens that are text; ``own`` are letters to try beside them."""
    rows = np.array([i for i, kind in enumerate(search.categories) if kind is None], np.int64)
    texts = search.texts
    places = _places(search, rows)
    missing = np.array([i for i in rows if search.examples[i] is None], np.int64)
    more = [] if search.proven else own  # by a proven pattern no other context would do
    beside_own = [
        pair for letter in more for pair in ((letter, ""), ("", letter), (letter, letter))
    ]
    around = [*product(BEFORE, BEHIND), *beside_own]
    for before, behind in progress("trying every token", around):
        made = search.try_texts(missing, [before + texts[i] + behind for i in missing])
        for i in missing[made]:
            places[i] = _place(before, texts[i])
        missing = missing[~made]
    for i in rows:
        if search.examples[i] is not None:
            search.categories[i] = MERGES if search.passed[i] else SKIPPING
            search.where[i] = places[i]
        elif not search.held[i]:
            search.categories[i] = SPLIT
        else:
            search.categories[i] = NOT_FOUND if search.passed[i] else BLOCKED


def _places(search: Search, rows: np.ndarray) -> dict[int, str]:
    """Where each token is found, in words."""
    spaced = np.array([search.texts[i][:1] == " " for i in rows], bool)
    cores = {i: search.texts[i].removeprefix(" ") for i in rows}
    found = {i: [] for i in rows}
    for place, contexts in PLACES.items():
        missing = rows
        if search.proven and place == "after a space":
            contexts = [" "]  # it begins a pre-token, whatever stands before it
        elif search.proven:
            missing = rows[~spaced]  # a space of the token is one of the text
        for before, behind in product(contexts, ["", LETTER]):
            made = search.try_texts(missing, [before + cores[i] + behind for i in missing])
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


def _complete(search: Search) -> None:
    """Search texts for the tokens that hold part of a character, by completing the character."""
    around = {
        i: completions(bytes(map(byte_of().get, search.tokens[i])))
        for i, kind in enumerate(search.categories)
        if kind == FRAGMENT and search.passed[i]
    }
    rows = np.array([i for i, found in around.items() if found], np.int64)
    for k in range(COMPLETIONS):
        texts = []
        for first, middle, last in map(around.get, rows):
            texts.append(first[k % len(first)] + middle + last[7 * k % len(last)])
        made = search.try_texts(rows, texts)
        for i in rows[made]:
            search.where[i] = "inside a character"
        rows = rows[~made]
