"""Adapt Unigram tokenizers: prune pieces, and add pieces with scores that fit the old ones."""

import json
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np
from tokenizers import Tokenizer

from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..tokenizer.library_encoder import LibraryEncoder, as_encoder
from ..tokenizer.renumbering import placeholder, renumbered
from ..tokenizer.token_bytes import BYTE_TOKENS
from ..train.unigram import learn_scores

DIGITS = (
    10  # decimals of scores: the library's JSON reader may change the last digit of longer numbers
)


@dataclass(frozen=True, eq=False)
class UnigramParts:
    """A Unigram tokenizer, parsed: ``scores`` maps its pieces, in order of IDs, to log probabilities."""

    encoder: LibraryEncoder
    settings: dict
    scores: dict[str, float]

    @classmethod
    def from_tokenizer(cls, tokenizer) -> "UnigramParts":
        """Parse a Unigram tokenizer; ValueError for any other."""
        encoder = as_encoder(tokenizer)
        if encoder.kind != "Unigram":
            raise ValueError(f"a Unigram tokenizer is needed, this one's model is {encoder.kind}")
        settings = json.loads(encoder.backend_tokenizer.to_str())
        pieces = settings["model"].pop("vocab")
        scores = dict(pieces)
        if len(scores) < len(pieces):
            raise ValueError("the tokenizer has a piece twice: give each piece one ID")
        return cls(encoder, settings, scores)

    def to_tokenizer(self) -> Tokenizer:
        pieces = [[piece, round(score, DIGITS)] for piece, score in self.scores.items()]
        model = {**self.settings["model"], "vocab": pieces}
        built = Tokenizer.from_str(json.dumps({**self.settings, "model": model}))
        built.encode_special_tokens = not self.encoder.find_special
        return built

    @property
    def unk(self) -> int | None:
        return self.settings["model"]["unk_id"]

    @property
    def fixed(self) -> set[str]:
        """The pieces that are no text: added tokens, byte tokens, the unknown one."""
        unknown = set() if self.unk is None else {list(self.scores)[self.unk]}
        return unknown.union(self.encoder.added, BYTE_TOKENS)

    def prunable(self) -> list[str]:
        """The pieces that may be pruned: all but characters, bytes, special, added, unknown ones."""
        fixed = self.fixed
        return [piece for piece in self.scores if len(piece) > 1 and piece not in fixed]

    def without(self, pruned: Collection[str]) -> "UnigramParts":
        """A copy without some pieces; all IDs are contiguous again."""
        ids = self.encoder.all_ids
        kept = sorted(i for piece, i in ids.items() if piece not in pruned)
        new_id = np.full(self.encoder.next_id, -1, np.int32)
        new_id[kept] = np.arange(len(kept))
        settings = renumbered(self.settings, new_id)
        unk = None if self.unk is None else int(new_id[self.unk])
        settings["model"] = {**settings["model"], "unk_id": unk}
        scores = {piece: score for piece, score in self.scores.items() if piece not in pruned}
        return replace(self, settings=settings, scores=scores)

    def with_placeholders(self, pruned: Collection[str]) -> "UnigramParts":
        """A copy with placeholders for some pieces, of the same scores; all IDs stay."""
        names = {
            piece: placeholder(i, self.encoder.all_ids)
            for piece, i in self.encoder.all_ids.items()
            if piece in pruned
        }
        scores = {names.get(piece, piece): score for piece, score in self.scores.items()}
        return replace(self, scores=scores)

    def with_scores(self, scores: dict[str, float]) -> "UnigramParts":
        """A copy with other scores, and with new pieces after the largest ID in use.

        Added tokens that are not in the model's vocabulary are put there as well, and never produced:
        otherwise the library would renumber them.
        """
        never = 10 * (min(self.scores.values()) - 10)
        behind = self.encoder.added_tokens.items()
        behind = {t.content: never for i, t in sorted(behind) if i >= len(self.scores)}
        return replace(self, scores=self.scores | behind | scores)


def extended_unigram(
    tokenizer: Tokenizer,
    tokens: list[str],
    corpus: Iterable[str] | Pretokens | None,
    supplement: Tokenizer | None,
    alpha: float,
) -> Tokenizer:
    """Add pieces to a copy of a Unigram tokenizer, as ``extend`` describes."""
    parts = UnigramParts.from_tokenizer(tokenizer)
    if (corpus is None) == (supplement is None):
        raise ValueError("scores come from a corpus or from a supplement: give one of the two")
    if supplement is not None:
        return parts.with_scores(_interpolated(parts, tokens, supplement, alpha)).to_tokenizer()
    words = count_pretokens(corpus, parts.encoder)
    fixed = parts.fixed
    old = {piece: score for piece, score in parts.scores.items() if piece not in fixed}
    scores = learn_scores(words.words, words.counts, old, tokens) if tokens else {}
    return parts.with_scores(scores).to_tokenizer()


def _interpolated(
    parts: UnigramParts, tokens: list[str], supplement: Tokenizer, alpha: float
) -> dict[str, float]:
    """Old and new pieces with scores from both tokenizers."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha={alpha!r}: give the supplement's weight, between 0 and 1")
    other = UnigramParts.from_tokenizer(supplement)
    if missing := [token for token in tokens if token not in other.scores]:
        raise ValueError(f"the supplement lacks {missing[0]!r}: take tokens of its vocabulary")
    supplement_p = {piece: math.exp(score) for piece, score in other.scores.items()}
    base_scores, fixed, scores = parts.scores, parts.fixed, {}
    for piece in (*base_scores, *tokens):
        if piece in fixed:
            continue
        old = math.exp(base_scores[piece]) if piece in base_scores else 0.0
        p = alpha * supplement_p.get(piece, 0.0) + (1 - alpha) * old
        scores[piece] = math.log(p) if p > 0 else base_scores[piece]
    return scores
