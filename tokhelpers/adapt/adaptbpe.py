"""AdaptBPE: an encoder that looks for added tokens in words before it merges."""

from collections.abc import Iterable
from itertools import chain

import numpy as np
from tokenizers import Tokenizer

from ..tokenizer.encoder import Encoder
from ..tokenizer.segmentation import initial_ids_of_pieces, segment
from ..tokenizer.spec import TokenizerSpec
from .extension import Extension, extend
from .methods import checked_tokens

KNOWN_WORDS = 1_000_000  # so many words are remembered before an encoder begins anew


def adapt_bpe(
    tokenizer: Tokenizer | TokenizerSpec, added_tokens: Iterable[str] | Extension
) -> "AdaptBPE":
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
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    tokens = checked_tokens(spec, getattr(added_tokens, "tokens", added_tokens))
    for token in tokens:
        if token in spec.added:
            raise ValueError(
                f"the token {token!r} is a special or added token of this tokenizer: leave it out"
            )
        if " " in token:
            raise ValueError(
                f"the token {token!r} is no token string of this tokenizer: write it as "
                f"{token.replace(' ', '▁')!r}"
            )
    new = [token for token in tokens if token not in spec.vocab]
    return AdaptBPE(extend(spec, Extension(new), how="regenerate"), tokens)


class AdaptBPE(Encoder):
    """An encoder over an extended tokenizer; ``adapt_bpe`` makes it.

    ``matched`` are the tokens that are looked for first, ``spec`` the extended tokenizer taken apart,
    ``tokenizer`` the same put together: its ids are this encoder's, so it decodes them. ``cut`` cuts
    text into pre-tokens. Words are remembered, a million at most.
    """

    kind = "AdaptBPE"

    def __init__(self, spec: TokenizerSpec, matched: list[str]):
        self.spec, self.matched = spec, matched
        self.pipeline, self.vocab, self.next_id = spec.pipeline, spec.vocab, spec.next_id
        self.added_tokens, self.byte_fallback = spec.added_tokens, spec.byte_fallback
        self.find_special = spec.find_special
        _ = self.pretokenizer_config  # where text cannot be cut into words, it is said now
        self._ids = {token: spec.vocab[token] for token in matched}
        self._known = {}  # ids by word; made anew when full, so that threads do not disturb each other

    def __repr__(self) -> str:
        return f"AdaptBPE({len(self.matched):,} added tokens)"

    @property
    def tokenizer(self) -> Tokenizer:
        """The extended tokenizer: it has the ids, but encodes by merges alone."""
        return self.spec.backend_tokenizer

    backend_tokenizer = tokenizer

    def encode(self, text: str) -> list[str]:
        """The token strings of a text. See ``ids``."""
        return [self.all_tokens[i] for i in self.ids(text)]

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

    def ids_and_rest(self, text: str) -> tuple[list[int], bool]:
        return self.ids(text), False

    def ids_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each of many texts, faster than one by one."""
        if isinstance(texts, str):
            raise TypeError("texts is one string: put it in a list, or use ids")
        if len(self._known) > KNOWN_WORDS:
            self._known = {}
        return super().ids_batch(texts, self._known)

    def segment(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Segment pre-tokens: their ids (int32, flat) and offsets (int64, one more than words)."""
        lengths = sorted({len(token) for token in self._ids}, reverse=True)
        cut = [_cut_at_matches(word, self._ids, lengths) for word in words]
        symbols, ends = initial_ids_of_pieces(list(chain.from_iterable(cut)), self.spec)
        of_words = ends[np.cumsum([0, *map(len, cut)])]
        return segment(symbols, of_words, self.spec.merge_table)


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
