"""Why a word is cut as it is, and where a token comes from: merges step by step, and as a tree."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import chain

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from ..tokenizer.checks import check_text
from ..tokenizer.encoder import Encoder
from ..tokenizer.library import open_tokenizer
from ..tokenizer.segmentation import NO_MERGE, initial_ids, ranks_of
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.token_bytes import token_strings
from .reachability import reachability
from .vocabularies import script_and_kind

SYMBOLS = 200  # of a pre-token, up to which its steps are shown


# --- one word through the merges -----------------------------------------------------------------
def merge_states(pretoken: str, spec: TokenizerSpec) -> Iterator[tuple[list[int], int | None, int]]:
    """Yield the ids of a pre-token after each merge, with the merge's rank and its place among them.

    The pair of lowest rank is merged first, the leftmost of equals. The state before the first
    merge comes first, without a rank.
    """
    ids = initial_ids([pretoken], spec, dropping=True)[0]
    yield ids.tolist(), None, 0
    while len(ids) > 1:
        ranks = ranks_of(np.column_stack([ids[:-1], ids[1:]]), spec.merge_table)
        at = int(ranks.argmin())
        rank = int(ranks[at])
        if rank == NO_MERGE:
            return
        ids = np.concatenate([ids[:at], spec.merges[rank, 2:], ids[at + 2 :]])
        yield ids.tolist(), rank, at


def explain_word(tokenizer: Tokenizer | TokenizerSpec, word: str) -> pd.DataFrame:
    """Show each merge of a word, with its rank in the list of merges, until no pair is listed.

    ``word`` is text, with its space before it if it has one; text of several pre-tokens gives the
    steps of one after the other. Returns one row per state: ``pretoken`` (the token string of the
    pre-token), ``step`` (0 before the first merge), ``pair`` (the two tokens merged), ``rank``
    (from 0; missing without a merge), ``tokens`` (after it, space between). What is not merged step
    by step has one row, and ``pair`` says why: "merge skipping", "added token", "more than 200
    symbols", which are too many to show, or the kind of a model that merges nothing (WordPiece,
    Unigram). Raises TypeError for what is no string, ValueError for an empty word and half a
    character.

    >>> table = explain_word(th.train_byte_level_bpe(["bat bat bag"], vocab_size=257), "bat")
    >>> table[["pair", "rank", "tokens"]].values.tolist()
    [[None, <NA>, 'b a t'], ['b + a', 0, 'ba t']]
    """
    check_text(word)
    if not word:
        raise ValueError("the word is empty: give text of one character or more")
    encoder = open_tokenizer(tokenizer)
    rows = [row for piece in next(encoder.pretokenize([word])) for row in _rows_of(piece, encoder)]
    columns = ["pretoken", "step", "pair", "rank", "tokens"]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    return table.astype({"step": int, "rank": "Int64"})


def _rows_of(pretoken: str | int, encoder: Encoder) -> list[tuple]:
    """The rows of a pre-token, or of an added token, given by its id."""
    if isinstance(pretoken, int):
        name = encoder.added_tokens[pretoken].content
        return [(name, 0, "added token", pd.NA, name)]
    if why := _not_by_steps(pretoken, encoder):
        tokens = " ".join(map(encoder.tokens.get, encoder.segment([pretoken])[0].tolist()))
        return [(pretoken, 0, why, pd.NA, tokens)]
    rows, name = [], encoder.tokens
    for step, (ids, rank, _) in enumerate(merge_states(pretoken, encoder)):
        merged = [] if rank is None else encoder.merges[rank, :2].tolist()
        pair = " + ".join(name[i] for i in merged) or None
        tokens = " ".join(name[i] for i in ids)
        rows.append((pretoken, step, pair, pd.NA if rank is None else rank, tokens))
    return rows


def _not_by_steps(pretoken: str, encoder: Encoder) -> str | None:
    """Why a pre-token is not merged step by step, if it is not."""
    if why := encoder.not_merged_because(pretoken):
        return why
    many = len(initial_ids([pretoken], encoder, dropping=True)[0]) > SYMBOLS
    return f"more than {SYMBOLS} symbols" if many else None


# --- one token -------------------------------------------------------------------------------------
@dataclass(frozen=True, repr=False)
class Explained:
    """What ``explain_token`` tells: ``facts`` (a Series) and ``tree`` (its merges, as text)."""

    facts: pd.Series
    tree: str

    def __repr__(self) -> str:
        return f"{self.facts.to_string()}\n\n{self.tree}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
            for name, value in self.facts.items()
        )
        return f"<table>{rows}</table><pre>{escape(self.tree)}</pre>"


def explain_token(tokenizer: Tokenizer | TokenizerSpec, token: str) -> Explained:
    """Tell where a token comes from and whether text can produce it.

    ``token`` is a token string ("Ġcat"), or the text that it stands for (" cat").
    The facts are ``id``, ``token``, ``text``, ``bytes`` (hexadecimal), ``length`` (in bytes), ``script``,
    ``category``, ``where`` and ``example`` (as in ``reachability``), ``rank`` of the merge that makes
    it, and ``used by`` (how many merges in the list take it as a part). The tree shows how the merges
    make it, or where they stop. Raises ValueError for a token that is not in the vocabulary, naming
    the nearest ones.

    >>> told = explain_token(th.train_byte_level_bpe(["bat bat"], vocab_size=258), "bat")
    >>> told.facts["category"]
    'by merges'
    >>> print(told.tree)
    bat  rank 1
    ├ b
    └ at  rank 0
      ├ a
      └ t
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    name = _token_string(token, spec)
    row = reachability(tokenizer, [name]).iloc[0]
    i, raw = int(row.name), spec.raw([name])[0]
    tree, rank = _tree(name, i, spec)
    facts = {
        "id": i,
        "token": name,
        "text": row.text,
        "bytes": raw.hex(" ").upper(),
        "length": len(raw),
        "script": script_and_kind(raw)[0],
        "category": row.category,
        "where": row["where"],
        "example": row.example,
        "rank": rank,
        "used by": int((spec.merges[:, :2] == i).any(axis=1).sum()),
    }
    return Explained(pd.Series(facts, dtype=object), tree)


def _token_string(token: str, spec: TokenizerSpec) -> str:
    """The token string that is meant; special and added tokens may stand outside the vocabulary."""
    check_text(token)
    if token in spec.all_ids:
        return token
    name = token_strings([token])[0] if spec.byte_level else token.replace(" ", "▁")
    if name not in spec.all_ids:
        near = _nearest(name, spec)
        raise ValueError(f"{token!r:.60} is not in the vocabulary; nearest to it: {near}")
    return name


def _nearest(token: str, spec: TokenizerSpec) -> str:
    """The tokens most like one that is missing: other case or space, its beginning, a few letters."""
    bare = token.removeprefix("Ġ").removeprefix("▁")
    space = "Ġ" if spec.byte_level else "▁"
    forms = [f + c for c in (bare, bare.lower(), bare.capitalize()) for f in ("", space)]
    begin = next((token[:n] for n in range(len(token), 0, -1) if token[:n] in spec.vocab), None)
    alike = [t for t in spec.vocab if abs(len(t) - len(token)) < 3 and t[:2] == token[:2]]
    close = difflib.get_close_matches(token, alike[:20_000], n=3)
    found = dict.fromkeys(t for t in [*forms, *close, begin] if t in spec.vocab)
    return ", ".join(map(repr, list(found)[:4])) or "none"


def _tree(name: str, i: int, spec: TokenizerSpec) -> tuple[str, int | None]:
    """The merges of a token as a tree, down to single characters or bytes, and the last one's rank.

    Where merges do not make it there is no rank, and a tree for each token at which they stop.
    """
    if name in spec.unmerged:
        return f"{name}  made by no merge", None
    for ids, rank, at in merge_states(name, spec):
        if rank is None:
            trees = [[spec.tokens[j]] for j in ids]
        else:
            (left, *under_left), (right, *under_right) = trees[at : at + 2]
            below = ["├ " + left, *("│ " + line for line in under_left)]
            below += ["└ " + right, *("  " + line for line in under_right)]
            trees[at : at + 2] = [[f"{spec.tokens[ids[at]]}  rank {rank:,}", *below]]
    if ids == [i]:
        return "\n".join(trees[0]), rank
    return "\n".join([f"merges do not make {name}; they stop at", *chain(*trees)]), None
