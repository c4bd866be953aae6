"""Why a word is cut as it is, and where a token comes from: merges step by step, and as a tree."""

import difflib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd
import regex
from tokenizers import Tokenizer

from ..text.counting import counted
from ..tokenizer.parts import Parts, read_parts
from ..tokenizer.pretokenization import cutting_rules, library_cutter
from ..tokenizer.segmentation import symbols_of, token_counts
from ..tokenizer.token_bytes import byte_alphabet, token_strings
from ..tokenizer.written import raw_tokens
from .reachability import reachability
from .vocabularies import script_and_kind

STATES = 200  # symbols of a pre-token up to which the tokens after each step are written out


# --- one word through the merges -----------------------------------------------------------------
@dataclass
class Piece:
    """A token while merges go on: its id, and the two pieces and the rank that made it, if any."""

    id: int
    made_of: tuple["Piece", "Piece"] | None = None
    rank: int = -1


def pair_ranks(parts: Parts) -> dict[int, int]:
    """Map each pair of ids that is merged, as one number, to its rank; of equal pairs the last counts."""
    keys = (parts.merges[:, 0].astype(np.int64) << 32) | parts.merges[:, 1]
    return dict(zip(keys.tolist(), range(len(keys)), strict=True))


def merge_steps(
    symbols: list[int], ranks: dict[int, int], results: np.ndarray
) -> tuple[list[Piece], list[tuple[Piece, int]]]:
    """Merge symbols (ids), always the pair of lowest rank, the leftmost of equals; keep each step.

    ``ranks`` are ``pair_ranks``, ``results`` the ids that the merges make, by rank. Returns the pieces
    left, and for each step the new piece with its place among the symbols.
    """
    pieces = [Piece(i) for i in symbols]
    after, before = [*range(1, len(pieces)), -1], [*range(-1, len(pieces) - 1)]
    heap, steps = [], []

    def rank_at(left: int, right: int) -> int:
        return ranks.get(pieces[left].id << 32 | pieces[right].id, -1)

    def push(left: int, right: int) -> None:
        rank = rank_at(left, right)
        if rank >= 0:
            heapq.heappush(heap, (rank, left))

    for i in range(1, len(pieces)):
        push(i - 1, i)
    while heap:
        listed, i = heapq.heappop(heap)
        j = after[i]
        if pieces[i] is None or j < 0:
            continue
        rank = rank_at(i, j)
        if rank < 0 or results[rank] != results[listed]:
            continue  # one of the two has been merged with another neighbour since
        pieces[i], pieces[j] = Piece(int(results[rank]), (pieces[i], pieces[j]), rank), None
        steps.append((pieces[i], i))
        after[i] = after[j]
        if after[j] >= 0:
            before[after[j]] = i
            push(i, after[j])
        if before[i] >= 0:
            push(before[i], i)
    return [piece for piece in pieces if piece is not None], steps


def explain_word(tokenizer: Tokenizer | Parts, word: str) -> pd.DataFrame:
    """Show each merge of a word, with its rank in the list of merges, until no pair is listed.

    ``word`` is text, with its space before it if it has one; text of several pre-tokens gives the
    steps of one after the other. Returns one row per state: ``pretoken`` (the token string of the
    pre-token), ``step`` (0 before the first merge), ``pair`` (the two tokens merged), ``rank``
    (from 0; missing without a merge), ``tokens`` (after it, space between; None in pre-tokens of
    more than 200 symbols, but for the last state). A pre-token that merge skipping takes whole has
    one row, "merge skipping", and so has a special token. Raises ValueError for an empty word, half
    a character, and models other than BPE.

    >>> table = explain_word(th.train_byte_level_bpe(["bat bat bag"], vocab_size=257), "bat")
    >>> table[["pair", "rank", "tokens"]].values.tolist()
    [[None, <NA>, 'b a t'], ['b + a', 0, 'ba t']]
    """
    if not isinstance(word, str) or not word:
        raise ValueError(f"a word is text of one character or more, got {word!r:.40}")
    parts = read_parts(tokenizer)
    ranks, rows = pair_ranks(parts), []
    for pretoken, special in _pretokens(word, parts):
        if special or (parts.merge_skipping and pretoken in parts.vocab):
            why = "added token" if special else "merge skipping"
            rows.append((pretoken, 0, why, pd.NA, pretoken))
        else:
            rows += _states(pretoken, parts, ranks)
    columns = ["pretoken", "step", "pair", "rank", "tokens"]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    return table.astype({"step": int, "rank": "Int64"})


def _pretokens(word: str, parts: Parts) -> Iterable[tuple[str, bool]]:
    """The pre-tokens of a text, each with whether it is an added token."""
    try:
        word.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text holds U+{ord(word[error.start]):04X}, half of a character: decode it properly"
        ) from None
    added = {token["content"] for token in parts.settings["added_tokens"]}
    longest = sorted(added, key=len, reverse=True)
    cut = library_cutter(cutting_rules(parts))
    between = regex.split(f"({'|'.join(map(regex.escape, longest))})", word) if added else [word]
    for text in filter(None, between):
        if text in added:
            yield text, True
        else:
            yield from ((pretoken, False) for pretoken in cut(text))


def _states(pretoken: str, parts: Parts, ranks: dict[int, int]) -> list[tuple]:
    """The rows of a pre-token: before the first merge, and after each."""
    symbols = symbols_of([pretoken], parts)[0].tolist()
    names = [parts.tokens[i] for i in symbols]
    pieces, steps = merge_steps(symbols, ranks, parts.merges[:, 2])
    written = len(names) <= STATES
    rows = [(pretoken, 0, None, pd.NA, " ".join(names) if written or not steps else None)]
    for number, (piece, place) in enumerate(steps, 1):
        left, right = (parts.tokens[p.id] for p in piece.made_of)
        state = None
        if written:
            names[place] = left + right
            following = next(i for i in range(place + 1, len(names)) if names[i] is not None)
            names[following] = None
            state = " ".join(name for name in names if name is not None)
        elif number == len(steps):
            state = " ".join(parts.tokens[p.id] for p in pieces)
        rows.append((pretoken, number, f"{left} + {right}", piece.rank, state))
    return rows


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


def explain_token(
    tokenizer: Tokenizer | Parts, token: str | bytes | int, corpus: Iterable[str] | None = None
) -> Explained:
    """Tell where a token comes from and whether text can produce it.

    ``token`` is a token string ("Ġcat"), the text that it stands for (" cat"), its bytes, or its id.
    The facts are ``id``, ``token``, ``text``, ``bytes`` (hexadecimal), ``length`` (in bytes), ``script``,
    ``category``, ``where`` and ``example`` (as in ``reachability``), ``rank`` of the merge that makes
    it, ``used by`` (how many merges in the list take it as a part), and with ``corpus``, documents or
    counts, ``uses`` (how often it is produced there) and ``share`` of the tokens. The tree shows how
    the merges make it, or where they stop. Raises ValueError for a token that is not in the
    vocabulary, naming the nearest ones.

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
    parts = read_parts(tokenizer)
    i, name = _find(token, parts)
    row = reachability(tokenizer, [name]).loc[i]
    raw = raw_tokens([name], parts)[0]
    pieces = _pieces(name, parts)
    whole = len(pieces) == 1 and pieces[0].id == i
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
        "rank": pieces[0].rank if whole and pieces[0].made_of else None,
        "used by": int((parts.merges[:, :2] == i).any(axis=1).sum()),
    }
    if corpus is not None:
        uses = token_counts(parts, counted(corpus, parts))
        facts |= {"uses": int(uses[i]), "share": float(uses[i] / uses.sum())}
    return Explained(pd.Series(facts, dtype=object), _drawn(name, pieces, whole, parts))


def _find(token: str | bytes | int, parts: Parts) -> tuple[int, str]:
    """A token's id and its token string; special and added tokens may stand outside the vocabulary."""
    given = token
    known = parts.vocab | {t["content"]: t["id"] for t in parts.settings["added_tokens"]}
    if isinstance(token, bytes):
        token = _string_of(token, parts)
    elif isinstance(token, str):
        token = token if token in known else _written(token, parts)
    else:
        names = {i: name for name, i in known.items()}
        if token not in names:
            raise ValueError(f"no token has the id {token!r}: ids go from 0 to {max(names)}")
        token = names[token]
    if token not in known:
        near = _nearest(token, parts)
        raise ValueError(f"{given!r:.60} is not in the vocabulary; nearest to it: {near}")
    return known[token], token


def _string_of(raw: bytes, parts: Parts) -> str:
    """The token string for bytes."""
    if parts.byte_level:
        return "".join(map(byte_alphabet().__getitem__, raw))
    byte = f"<0x{raw[0]:02X}>" if len(raw) == 1 else ""
    return byte if byte in parts.vocab else raw.decode("utf-8", "replace").replace(" ", "▁")


def _written(text: str, parts: Parts) -> str:
    try:
        return token_strings([text])[0] if parts.byte_level else text.replace(" ", "▁")
    except UnicodeEncodeError:
        raise ValueError(f"{text!a:.60} holds half of a character: give bytes or an id") from None


def _nearest(token: str, parts: Parts) -> str:
    """The tokens most like one that is missing: other case or space, its beginning, a few letters."""
    bare = token.removeprefix("Ġ").removeprefix("▁")
    space = "Ġ" if parts.byte_level else "▁"
    forms = [f + c for c in (bare, bare.lower(), bare.capitalize()) for f in ("", space)]
    begin = next((token[:n] for n in range(len(token), 0, -1) if token[:n] in parts.vocab), None)
    alike = [t for t in parts.vocab if abs(len(t) - len(token)) < 3 and t[:2] == token[:2]]
    close = difflib.get_close_matches(token, alike[:20_000], n=3)
    found = dict.fromkeys(t for t in [*forms, *close, begin] if t in parts.vocab)
    return ", ".join(map(repr, list(found)[:4])) or "none"


def _pieces(name: str, parts: Parts) -> list[Piece]:
    """What the merges make of a token string; nothing of a special token."""
    if name in parts.apart:
        return []
    symbols = symbols_of([name], parts)[0].tolist()
    return merge_steps(symbols, pair_ranks(parts), parts.merges[:, 2])[0]


def _drawn(name: str, pieces: list[Piece], whole: bool, parts: Parts) -> str:
    """The merges of a token as a tree, from the token down to single characters or bytes."""
    if not pieces:
        return f"{name}  made by no merge"
    lines = [] if whole else [f"merges do not make {name}; they stop at"]
    stack = [(piece, "", "") for piece in reversed(pieces)]
    while stack:  # no recursion: a token of spaces can be a hundred merges deep
        piece, own, below = stack.pop()
        rank = f"  rank {piece.rank:,}" if piece.made_of else ""
        lines.append(f"{own}{parts.tokens[piece.id]}{rank}")
        if piece.made_of:
            left, right = piece.made_of
            stack += [(right, below + "└ ", below + "  "), (left, below + "├ ", below + "│ ")]
    return "\n".join(lines)
