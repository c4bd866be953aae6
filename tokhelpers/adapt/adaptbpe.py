"""AdaptBPE: an encoder that looks for added tokens in words before it merges."""

from collections.abc import Iterable
from functools import cached_property
from itertools import chain, islice

import numpy as np
from tokenizers import Tokenizer

from ..text.pretokens import Pretokens
from ..tokenizer.parts import Parts, backend_of, build_tokenizer, read_parts
from ..tokenizer.pretokenization import BATCH, text_cutter
from ..tokenizer.segmentation import merges_of, segment, sum_by_id, symbols_of
from .extension import Extension
from .methods import checked_tokens, extend_parts

KNOWN_WORDS = 1_000_000  # so many words are remembered before an encoder begins anew


def adapt_bpe(tokenizer: Tokenizer | Parts, added_tokens: Iterable[str] | Extension) -> "AdaptBPE":
    """Make an encoder that finds added tokens in words first, and applies merges to the rest.

    In each pre-token the longest match of an added token is taken, the leftmost of equals, then the
    longest in what is left, and so on. The rest is merged by the merges of
    ``extend(how="regenerate")``, without merge skipping. ``tokenizer`` is any BPE tokenizer,
    byte-level or SentencePiece style. ``added_tokens`` are token strings (``Ġword``), in the order of
    their new ids; one that the vocabulary has already keeps its id and is matched as well. Raises
    TypeError for tokens that are no strings, and ValueError for tokens that are given twice, that
    are no token strings, or that equal a special or added token of the tokenizer.

    Source: Balde et al. 2024, Algorithm 1.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> base.encode("abat bat").tokens, adapt_bpe(base, ["abat"]).encode("abat bat")
    (['a', 'ba', 't', 'Ġba', 't'], ['abat', 'Ġba', 't'])
    """
    parts = read_parts(tokenizer)
    tokens = checked_tokens(parts, getattr(added_tokens, "tokens", added_tokens))
    for token in tokens:
        if token in parts.added:
            raise ValueError(
                f"the token {token!r} is a special or added token of this tokenizer: leave it out"
            )
        if " " in token:
            raise ValueError(
                f"the token {token!r} is no token string of this tokenizer: write it as "
                f"{token.replace(' ', '▁')!r}"
            )
    as_text = not isinstance(tokenizer, Parts) and backend_of(tokenizer).encode_special_tokens
    return AdaptBPE(parts, tokens, find_special=not as_text)


class AdaptBPE:
    """An encoder over an extended tokenizer; ``adapt_bpe`` makes it.

    ``tokens`` are the added tokens, ``parts`` the extended tokenizer taken apart, ``tokenizer`` the
    same put together: its ids are this encoder's, so it decodes them. ``cut`` is its ``text_cutter``.
    Words are remembered, a million at most.
    """

    def __init__(self, parts: Parts, tokens: list[str], *, find_special: bool = True):
        new = [token for token in tokens if token not in parts.vocab]
        self.tokens = tokens
        self.parts = extend_parts(parts, Extension(new), how="regenerate")
        self.cut = text_cutter(self.parts, find_special=find_special)
        self._ids = {token: self.parts.vocab[token] for token in tokens}
        self._known = {}  # ids by word; made anew when full, so that threads do not disturb each other

    def __repr__(self) -> str:
        return f"AdaptBPE({len(self.tokens):,} added tokens)"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The extended tokenizer: it has the ids, but encodes by merges alone."""
        return build_tokenizer(self.parts)

    @cached_property
    def _names(self) -> dict[int, str]:
        return self.parts.tokens | {i: token for token, i in self.parts.added.items()}

    def encode(self, text: str) -> list[str]:
        """The token strings of a text. See ``ids``."""
        return [self._names[i] for i in self.ids(text)]

    def ids(self, text: str) -> list[int]:
        """The ids of a text's tokens.

        Special and added tokens of the tokenizer are found in the text as its own encoder finds
        them; none are put around it, and nothing is cut off or padded.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"a text is a string, got {type(text).__name__}: see ids_batch for many"
            )
        return self.ids_batch([text])[0]

    def ids_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each of many texts, faster than one by one."""
        if isinstance(texts, str):
            raise TypeError("texts is one string: put it in a list, or use ids")
        if len(self._known) > KNOWN_WORDS:
            self._known = {}
        known, texts, ids = self._known, iter(texts), []
        while some := list(islice(texts, BATCH)):
            cut = list(self.cut(some))
            new = dict.fromkeys(piece for pieces in cut for piece in pieces if piece not in known)
            # added tokens, found in text
            known.update((i, (i,)) for i in new if isinstance(i, int))
            words = [word for word in new if isinstance(word, str)]
            flat, offsets = self.segment(words)
            flat, ends = flat.tolist(), offsets.tolist()
            for word, start, end in zip(words, ends, ends[1:], strict=False):
                known[word] = tuple(flat[start:end])
            ids += [list(chain.from_iterable(map(known.__getitem__, pieces))) for pieces in cut]
        return ids

    def segment(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Segment pre-tokens: their ids (int32, flat) and offsets (int64, one more than words)."""
        return segment(*_initial(words, self.parts, self._ids), merges_of(self.parts))

    def token_counts(self, words: Pretokens) -> np.ndarray:
        """Count how often each id is produced on pre-tokens: an int64 array indexed by id."""
        ids, offsets = self.segment(words.words)
        return sum_by_id(ids, np.repeat(words.counts, np.diff(offsets)), self.parts.next_id)


# --- the longest matches -------------------------------------------------------------------------
def _cut_at_matches(word: str, ids: dict[str, int], lengths: list[int]) -> list[str | int]:
    """Cut a word into the ids of its matches and the text between them; ``lengths`` fall."""
    pieces = [word]
    for n in lengths:
        if not ids.keys().isdisjoint([word[i : i + n] for i in range(len(word) - n + 1)]):
            cut = (_cut_at_length(p, ids, n) if isinstance(p, str) else [p] for p in pieces)
            pieces = list(chain.from_iterable(cut))
    return pieces


def _cut_at_length(text: str, ids: dict[str, int], n: int) -> list[str | int]:
    """Cut a text at its matches of ``n`` characters, the leftmost first."""
    pieces, begin, i = [], 0, 0
    while i <= len(text) - n:
        token = text[i : i + n]
        if token in ids:
            pieces += [text[begin:i], ids[token]]
            begin = i = i + n
        else:
            i += 1
    return [*pieces, text[begin:]]


def _initial(words: list[str], parts: Parts, ids: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """What merging starts from, as ``symbols_of`` gives it, but with the matches as tokens."""
    lengths = sorted({len(token) for token in ids}, reverse=True)
    cut = [_cut_at_matches(word, ids, lengths) for word in words]
    pieces = list(chain.from_iterable(cut))
    matched = np.array([isinstance(piece, int) for piece in pieces], bool)
    symbols, ends = symbols_of([piece for piece in pieces if isinstance(piece, str)], parts)
    sizes = np.ones(len(pieces), np.int64)
    sizes[~matched] = np.diff(ends)
    found = np.empty(sizes.sum(), np.int32)
    of_match = np.repeat(matched, sizes)
    found[of_match] = [piece for piece in pieces if isinstance(piece, int)]
    found[~of_match] = symbols
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return found, ends[np.cumsum([0, *map(len, cut)])]
