"""The formats of sentencepiece and tiktoken, whose encoders have scores or ranks, but no merges."""

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from .files import read_whole, write_whole
from .library import as_given
from .pretokenization import proven_pattern
from .spec import TokenizerSpec, all_splits
from .token_bytes import BYTE_TOKENS, byte_of

SPACED_WORDS = pre_tokenizers.Split("▁", "merged_with_next")  # how our trainers cut such text


def _check_order(spec: TokenizerSpec, order, advice: str) -> None:
    """Refuse merges of which one has a smaller number in ``order`` than the one before it."""
    early = np.flatnonzero(np.diff(order) < 0)
    if len(early):
        late = spec.tokens[int(spec.merges[early[0] + 1, 2])]
        raise ValueError(f"the merge into {late!r} comes later than its id says: {advice}")


# --- sentencepiece -------------------------------------------------------------------------------
def from_spm(content: bytes, *, symbols_special: bool = False) -> Tokenizer:
    """Convert the bytes of a SentencePiece BPE model; ValueError where ids would differ.

    Merges are all splits of each piece into two others, in order of the piece's score. With
    ``symbols_special`` user-defined symbols become special tokens, which gives the same ids in
    texts that do not spell one out.
    """
    from transformers.convert_slow_tokenizer import generate_merges

    proto = _spm_proto(content, symbols_special)
    kinds, trained, normalizer_spec = proto.SentencePiece, proto.trainer_spec, proto.normalizer_spec
    vocab = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    scores = {p.piece: p.score for p in proto.pieces if p.type == kinds.NORMAL}
    options = {"unk_token": proto.pieces[trained.unk_id].piece, "fuse_unk": True}
    options["byte_fallback"] = trained.byte_fallback
    tokenizer = Tokenizer(models.BPE(vocab, generate_merges(vocab, scores), **options))
    tokenizer.normalizer = _spm_normalizer(normalizer_spec)
    tokenizer.decoder = spaced_decoder(normalizer_spec.add_dummy_prefix)
    apart = (kinds.UNKNOWN, kinds.CONTROL, kinds.USER_DEFINED)
    special = [p.piece for p in proto.pieces if p.type in apart]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    return tokenizer


def spm_file(path: str | os.PathLike):
    """Read a SentencePiece model as protobuf; ValueError, naming the file, for others."""
    try:
        return _spm_proto(read_whole(Path(path)))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _spm_proto(content: bytes, symbols: bool = False):
    """Read a SentencePiece model and refuse what cannot be converted to the same ids."""
    from google.protobuf.message import DecodeError
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    proto = ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError:
        proto.Clear()
    if not proto.pieces:
        raise ValueError(
            "the file is no SentencePiece model; for Llama-3's own tiktoken file use the name 'llama-3'"
        )
    trained, normalizer_spec, piece = (
        proto.trainer_spec,
        proto.normalizer_spec,
        ModelProto.SentencePiece,
    )
    if trained.model_type != trained.BPE:
        raise ValueError("the SentencePiece model is not of type BPE: only those are converted")
    kinds = {p.type for p in proto.pieces}
    obstacles = {
        # the library's Precompiled drops marks behind characters that the table maps
        f"normalization_rule_name {normalizer_spec.name!r} instead of 'identity'": normalizer_spec.precompiled_charsmap,
        "user_defined_symbols": piece.USER_DEFINED in kinds and not symbols,
        "unused pieces": piece.UNUSED in kinds,
        "treat_whitespace_as_suffix": trained.treat_whitespace_as_suffix,
        "escape_whitespaces switched off": not normalizer_spec.escape_whitespaces,
    }
    if found := ", ".join(name for name, there in obstacles.items() if there):
        raise ValueError(
            f"the SentencePiece model has {found}, which cannot be converted without changing ids: "
            "train it without, or use a tokenizer.json"
        )
    return proto


def spaced_steps(prefix: bool = True) -> list:
    """List what SentencePiece does to text: spaces become ▁, and with a prefix one stands before it."""
    return [normalizers.Prepend("▁")] * prefix + [normalizers.Replace(" ", "▁")]


def spaced_decoder(prefix: bool = True) -> decoders.Decoder:
    """Make what undoes `spaced_steps`: ▁ and byte tokens become text, without the prefix."""
    undo = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(undo + [decoders.Strip(" ", 1, 0)] * prefix)


def _spm_normalizer(normalizer_spec):
    steps = spaced_steps(normalizer_spec.add_dummy_prefix)
    if (
        normalizer_spec.remove_extra_whitespaces
    ):  # spaces alone, and at the end the space symbol as well
        first, runs, last = (Regex(found) for found in (r"\A +", " +", r"▁+\z"))
        fewer = [normalizers.Replace(first, ""), normalizers.Replace(runs, " ")]
        steps = [*fewer, *steps, normalizers.Replace(last, "")]
    return normalizers.Sequence(steps)


def save_sentencepiece(
    tokenizer: Tokenizer, path: str | os.PathLike, *, model: str | os.PathLike | None = None
) -> None:
    """Write a tokenizer as a SentencePiece ``.model``, whole or not at all.

    ``model`` is the ``.model`` file from which the tokenizer was converted before it was extended
    or pruned; None for one of ``train_sentencepiece_bpe``, with ``<unk>`` among its special tokens.
    Pruned pieces are left out. New ones are appended under their ids, each with a score below all
    before it, as the encoder merges the pair with the highest score. Then sentencepiece's own encoder
    gives the tokenizer's tokens. Raises ValueError where it would give others: when ``tokenizer``
    does not come from ``model``, or when its merges come in another order or lack splits.

    >>> import tempfile
    >>> new = th.extend(th.load_tokenizer("mistral-v1"), th.Extension(tokens=["▁phenotype"]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = th.tokenizer.source_file("mistral-v1")
    ...     save_sentencepiece(new, f"{folder}/new.model", model=file)
    ...     th.load_tokenizer(f"{folder}/new.model").encode("phenotype").tokens
    ['▁phenotype']
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    proto = _without_pieces(spec) if model is None else spm_file(model)
    kept, new = _kept_and_new(spec, proto.pieces)
    del proto.pieces[:]
    proto.pieces.extend(kept)
    kinds, score = proto.SentencePiece, np.float32(min((p.score for p in kept), default=0))
    for token in new:
        score = min(score - np.float32(1), np.nextafter(score, np.float32(-np.inf)))
        kind = kinds.CONTROL if token in spec.special else kinds.NORMAL
        if model is None and token in (proto.trainer_spec.unk_piece, *BYTE_TOKENS):
            kind = kinds.BYTE if token in BYTE_TOKENS else kinds.UNKNOWN
        proto.pieces.add(piece=token, score=float(score), type=kind)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    _check_scores(spec, {p.piece: p.score for p in proto.pieces if p.type == kinds.NORMAL})
    write_whole(path, proto.SerializeToString())


def _without_pieces(spec: TokenizerSpec):
    """A model that treats text as ``train_sentencepiece_bpe`` does, before it has any piece."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    proto = ModelProto()
    trained, normalizer_spec = proto.trainer_spec, proto.normalizer_spec
    normalizer_spec.name, normalizer_spec.add_dummy_prefix, normalizer_spec.escape_whitespaces = (
        "identity",
        True,
        True,
    )
    normalizer_spec.remove_extra_whitespaces = False
    for what, ours in (
        ("normalizer", _spm_normalizer(normalizer_spec)),
        ("pre_tokenizer", SPACED_WORDS),
    ):
        if spec.steps[what] != json.loads(ours.__getstate__()):
            raise ValueError(
                "without model, what train_sentencepiece_bpe trains by default can be written, and "
                f"this tokenizer has another {what}: give the .model it was converted from"
            )
    trained.model_type, trained.byte_fallback = trained.BPE, spec.byte_fallback
    trained.unk_piece = spec.unk_token or "<unk>"
    ids = spec.all_ids
    if trained.unk_piece not in ids:
        raise ValueError(
            "a SentencePiece model needs the piece '<unk>', and the tokenizer has none: train it with "
            "special_tokens=['<unk>']"
        )
    trained.unk_id, trained.pad_id = ids[trained.unk_piece], -1
    trained.bos_id, trained.eos_id = ids.get("<s>", -1), ids.get("</s>", -1)
    return proto


def _kept_and_new(spec: TokenizerSpec, pieces) -> tuple[list, list[str]]:
    """The model's pieces that were not pruned, and the tokens after them, in order of their ids."""
    ids, kept = spec.all_tokens, []
    for piece in pieces:
        there = ids.get(len(kept))
        if there == piece.piece:
            kept.append(piece)
        elif piece.type != piece.NORMAL or len(piece.piece) == 1:  # these are never pruned
            raise ValueError(
                f"the tokenizer does not come from this model: id {len(kept)} is {there!r}, not "
                f"{piece.piece!r}; give the .model it was converted from"
            )
    cutting = [t for t, i in spec.added.items() if i >= len(kept) and t not in spec.special]
    if cutting:
        raise ValueError(
            f"{len(cutting):,} tokens, first {cutting[0]!r}, cut the raw text, which a SentencePiece "
            "model cannot: extend with how='append' or 'regenerate'"
        )
    new = [ids.get(i) for i in range(len(kept), spec.next_id)]
    if None in new:
        hole = len(kept) + new.index(None)
        raise ValueError(f"no token has the id {hole}: number the tokens without holes")
    return kept, new


def _check_scores(spec: TokenizerSpec, scores: dict[str, float]) -> None:
    """Refuse merges with which sentencepiece, which has scores alone, would not agree.

    It merges any two neighbours that make a piece. If a token comes back whole when it is tokenized
    alone, no other split of it occurs in any text, as it would have occurred there as well. So only
    the merges of such tokens may lack splits.
    """
    pairs = spec.pairs()
    ranks = [-scores.get(left + right, np.inf) for left, right in pairs]
    _check_order(spec, ranks, "extend with how='regenerate', or by continue_bpe")
    splits = ((token[:i], token[i:]) for token in scores for i in range(1, len(token)))
    missing = {pair for pair in splits if {*pair} <= scores.keys()} - set(pairs)
    split = sorted({left + right for left, right in missing})
    never = [split[i] for i in np.flatnonzero(spec.sizes_of(split) != 1)]
    if never:
        raise ValueError(
            f"{len(never):,} tokens, first {never[0]!r}, lack merges that sentencepiece would use: "
            "extend with how='regenerate'"
        )


# --- tiktoken -----------------------------------------------------------------------------------
def to_tiktoken(tokenizer: Tokenizer) -> tiktoken.Encoding:
    """Convert a byte-level BPE tokenizer to a ``tiktoken.Encoding`` that gives the same ids.

    ``encode(text, allowed_special="all")`` gives what ``encode(text, add_special_tokens=False)``
    gives here. tiktoken merges any two neighbours that make a token, the smallest id first, and
    takes a pre-token that is a token whole. So merges must come in order of the ids of their
    results, and every token must be what merges make of its bytes (with merge skipping, one that is
    not must come out in three parts at least: no two parts of it make it up). Most extensions of
    Llama-3 join parts of such an old token: ``tiktoken_merges`` helps.

    Raises ValueError for what tiktoken cannot express: other merges, a normalizer, a pre-tokenizer
    other than those of GPT-2, Llama-3, Qwen and Mistral Nemo, added tokens that are not special.

    >>> tokenizer = th.train_byte_level_bpe(["bat bat bag"], vocab_size=258)
    >>> to_tiktoken(tokenizer).encode("bat bag") == tokenizer.encode("bat bag").ids
    True
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    ordinary = [token for token in spec.vocab if token not in spec.added]
    pattern = proven_pattern(
        json.dumps({"normalizer": None, "pre_tokenizer": spec.steps["pre_tokenizer"]})
    )
    _check_settings(spec, pattern, ordinary)
    _check_merges(spec, ordinary)
    ranks = {bytes(map(byte_of().__getitem__, token)): spec.vocab[token] for token in ordinary}
    options = {"mergeable_ranks": ranks, "special_tokens": spec.added}
    return tiktoken.Encoding("tokhelpers", pat_str=pattern, **options)


def tiktoken_merges(tokenizer: Tokenizer) -> Tokenizer:
    """Copy a byte-level BPE tokenizer with the merges that tiktoken makes of its vocabulary.

    These are all splits of each token into two tokens, in order of the ids of what they make, and
    merge skipping is on. Tokens and ids stay; text may be segmented differently where two
    neighbours make a token and had no merge. The result can be given to ``to_tiktoken``.

    Raises ValueError for a tokenizer that is not byte-level BPE.

    >>> base = th.train_byte_level_bpe(["at"], vocab_size=257)
    >>> longer = th.extend(base, th.Extension(["ba", "bat"], [("b", "a"), ("ba", "t")]))
    >>> longer.encode("bat").tokens, tiktoken_merges(longer).encode("bat").tokens
    (['b', 'at'], ['bat'])
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    if not spec.byte_level:
        raise ValueError("the tokenizer is not byte-level BPE, and tiktoken knows bytes only")
    ordinary = sorted(spec.vocab.keys() - spec.special, key=spec.vocab.get)
    made = spec.with_(merges=all_splits(spec, ordinary)).with_skipping(True)
    return as_given(tokenizer, made)


def _check_settings(spec: TokenizerSpec, pattern: str | None, ordinary: list[str]) -> None:
    """Refuse what has no counterpart in tiktoken."""
    alphabet, added = byte_of().keys(), spec.added_tokens.values()
    flags = ("single_word", "lstrip", "rstrip")
    pre_tokenizer = json.dumps(spec.steps["pre_tokenizer"])
    obstacles = {
        "a normalizer": spec.steps["normalizer"],
        f"the pre-tokenizer {pre_tokenizer[:80]}": pattern is None,
        "truncation or padding": spec.settings["truncation"] or spec.settings["padding"],
        "merge dropout": spec.dropout,
        "added tokens that are not special": spec.cuts_text,
        f"special tokens with one of {', '.join(flags)}": any(
            getattr(t, flag) for t in added for flag in flags
        ),
        "a special token with which another begins": any(
            b.startswith(a) for a, b in pairwise(sorted(spec.added))
        ),
        "merges of special tokens": np.isin(spec.merges, [*spec.added.values()]).any(),
        "no token for some bytes": not alphabet <= spec.vocab.keys() - spec.added.keys(),
        "tokens outside the byte alphabet": any(not alphabet >= set(token) for token in ordinary),
    }
    if found := ", ".join(what for what, there in obstacles.items() if there):
        raise ValueError(
            f"the tokenizer has {found}, which tiktoken cannot express: use tokenizer.json"
        )


def _check_merges(spec: TokenizerSpec, ordinary: list[str]) -> None:
    """Refuse merges with which tiktoken, which has the ids of tokens alone, would not agree.

    How merges build a token does not depend on the text around it. So two neighbours that make a
    token, but have no merge, occur in a text only if they occur when that token is tokenized alone.
    """
    _check_order(spec, spec.merges[:, 2], "tiktoken merges in that order, use tiktoken_merges")
    sizes = spec.sizes_of(ordinary)
    wrong = np.flatnonzero(sizes == 2 if spec.merge_skipping else sizes > 1)
    if len(wrong):
        raise ValueError(
            f"{len(wrong):,} tokens, first {ordinary[wrong[0]]!r}, are not what merges make of their "
            "bytes, as they would be in tiktoken: use tiktoken_merges"
        )
