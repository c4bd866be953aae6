"""Convert from and to SentencePiece and tiktoken, whose encoders have scores or ranks but no merges."""

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from ..extras import requires
from .files import read_whole, write_whole
from .pretokenization import proven_pattern
from .renumbering import is_placeholder
from .spec import TokenizerSpec, all_splits
from .token_bytes import BYTE_TOKENS, byte_of

SPACED_WORDS = pre_tokenizers.Split("▁", "merged_with_next")  # how our trainers split such text


def _check_order(spec: TokenizerSpec, order, advice: str) -> None:
    """Refuse merges of which one has a smaller number in ``order`` than the one before it."""
    decreases = np.flatnonzero(np.diff(order) < 0)
    if len(decreases):
        token = spec.tokens[int(spec.merges[decreases[0] + 1, 2])]
        raise ValueError(f"merge order disagrees with IDs at {token!r}: {advice}")


# --- sentencepiece -------------------------------------------------------------------------------
def from_spm(content: bytes, *, symbols_special: bool = False) -> Tokenizer:
    """Convert the bytes of a SentencePiece BPE model; ValueError if IDs would differ.

    The merges are all splits of each piece into two others, in order of the piece's score. With
    ``symbols_special`` user-defined symbols become special tokens; IDs are then the same for texts that
    do not contain such a symbol.
    """
    with requires("data"):
        from transformers.convert_slow_tokenizer import generate_merges

    proto = _spm_proto(content, symbols_special)
    kinds, trainer, text_rules = proto.SentencePiece, proto.trainer_spec, proto.normalizer_spec
    vocab = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    scores = {p.piece: p.score for p in proto.pieces if p.type == kinds.NORMAL}
    options = {"unk_token": proto.pieces[trainer.unk_id].piece, "fuse_unk": True}
    options["byte_fallback"] = trainer.byte_fallback
    tokenizer = Tokenizer(models.BPE(vocab, generate_merges(vocab, scores), **options))
    tokenizer.normalizer = _spm_normalizer(text_rules)
    tokenizer.decoder = spaced_decoder(text_rules.add_dummy_prefix)
    special_kinds = (kinds.UNKNOWN, kinds.CONTROL, kinds.USER_DEFINED)
    special = [p.piece for p in proto.pieces if p.type in special_kinds]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    return tokenizer


def spm_file(path: str | os.PathLike):
    """Read a SentencePiece model as protobuf; ValueError, naming the file, if it is not one."""
    try:
        return _spm_proto(read_whole(Path(path)))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _spm_proto(content: bytes, symbols: bool = False):
    """Read a SentencePiece model, and refuse one that cannot be converted with the same IDs."""
    with requires("data"):
        from google.protobuf.message import DecodeError
        from sentencepiece.sentencepiece_model_pb2 import ModelProto

    proto = ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError:
        proto.Clear()
    if not proto.pieces:
        raise ValueError(
            "this is not a SentencePiece model; for Llama-3's own tiktoken file use the name 'llama-3'"
        )
    trainer, text_rules, piece = proto.trainer_spec, proto.normalizer_spec, ModelProto.SentencePiece
    if trainer.model_type != trainer.BPE:
        raise ValueError("the SentencePiece model is not of type BPE, and only those are converted")
    kinds = {p.type for p in proto.pieces}
    obstacles = {
        # the library's Precompiled drops marks after characters that the table maps
        f"normalization_rule_name {text_rules.name!r} instead of 'identity'": (
            text_rules.precompiled_charsmap
        ),
        "user_defined_symbols": piece.USER_DEFINED in kinds and not symbols,
        "unused pieces": piece.UNUSED in kinds,
        "treat_whitespace_as_suffix": trainer.treat_whitespace_as_suffix,
        "escape_whitespaces switched off": not text_rules.escape_whitespaces,
    }
    if present := ", ".join(name for name, is_present in obstacles.items() if is_present):
        raise ValueError(
            f"the SentencePiece model has {present}, which cannot be converted without changing IDs: "
            "train it without, or use a tokenizer.json"
        )
    return proto


def spaced_steps(prefix: bool = True) -> list:
    """List SentencePiece's normalizers: spaces become ▁, and with ``prefix`` one is put before the text."""
    return [normalizers.Prepend("▁")] * prefix + [normalizers.Replace(" ", "▁")]


def spaced_decoder(prefix: bool = True) -> decoders.Decoder:
    """Make the decoder for ``spaced_steps``: ▁ and byte tokens become text, without the prefix."""
    undo = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(undo + [decoders.Strip(" ", 1, 0)] * prefix)


def _spm_normalizer(text_rules):
    steps = spaced_steps(text_rules.add_dummy_prefix)
    if text_rules.remove_extra_whitespaces:  # runs of spaces, and space symbols at the end
        first, runs, last = map(Regex, (r"\A +", " +", r"▁+\z"))
        fewer = [normalizers.Replace(first, ""), normalizers.Replace(runs, " ")]
        steps = [*fewer, *steps, normalizers.Replace(last, "")]
    return normalizers.Sequence(steps)


def save_sentencepiece(
    tokenizer: Tokenizer, path: str | os.PathLike, *, model: str | os.PathLike | None = None
) -> None:
    """Write a tokenizer as a SentencePiece ``.model`` file.

    ``model`` is the ``.model`` file from which the tokenizer was converted before it was extended or
    pruned, or None for a tokenizer of ``train_sentencepiece_bpe`` with ``<unk>`` among its special
    tokens. Pruned pieces are removed. New ones are appended under their IDs, each with a score below all
    previous ones, since the encoder merges the pair with the highest score first. sentencepiece then
    produces the tokenizer's tokens. Raises ValueError if it would not: if ``tokenizer`` does not come
    from ``model``, or if its merges are in another order or lack splits.

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
    """A model that normalises text as ``train_sentencepiece_bpe`` does, without pieces."""
    with requires("data"):
        from sentencepiece.sentencepiece_model_pb2 import ModelProto

    proto = ModelProto()
    trainer, text_rules = proto.trainer_spec, proto.normalizer_spec
    text_rules.name, text_rules.add_dummy_prefix = "identity", True
    text_rules.escape_whitespaces, text_rules.remove_extra_whitespaces = True, False
    expected = {"normalizer": _spm_normalizer(text_rules), "pre_tokenizer": SPACED_WORDS}
    for name, step in expected.items():
        if spec.pipeline[name] != json.loads(step.__getstate__()):
            raise ValueError(
                "without model=, only tokenizers with the defaults of train_sentencepiece_bpe can be "
                f"written, and this one has another {name}: give the .model it was converted from"
            )
    trainer.model_type, trainer.byte_fallback = trainer.BPE, spec.byte_fallback
    trainer.unk_piece = spec.unk_token or "<unk>"
    ids = spec.all_ids
    if trainer.unk_piece not in ids:
        raise ValueError(
            "a SentencePiece model needs the piece '<unk>', which the tokenizer lacks: train it with "
            "special_tokens=['<unk>']"
        )
    trainer.unk_id, trainer.pad_id = ids[trainer.unk_piece], -1
    trainer.bos_id, trainer.eos_id = ids.get("<s>", -1), ids.get("</s>", -1)
    return proto


def _kept_and_new(spec: TokenizerSpec, pieces) -> tuple[list, list[str]]:
    """The model's pieces that keep their IDs, and the tokens after them, in order of their IDs."""
    tokens, kept = spec.all_tokens, []
    for piece in pieces:
        token = tokens.get(len(kept))
        if token == piece.piece or is_placeholder(token, len(kept)):
            piece.piece = token
            kept.append(piece)
        elif piece.type != piece.NORMAL or len(piece.piece) == 1:  # these are never pruned
            raise ValueError(
                f"the tokenizer does not come from this model: ID {len(kept)} is {token!r}, not "
                f"{piece.piece!r}; give the .model it was converted from"
            )
    ordinary = [t for t, i in spec.added.items() if i >= len(kept) and t not in spec.special]
    if ordinary:
        raise ValueError(
            f"{len(ordinary):,} added tokens, first {ordinary[0]!r}, split the raw text, which a "
            "SentencePiece model cannot do: extend with how='append' or 'regenerate'"
        )
    new = [tokens.get(i) for i in range(len(kept), spec.next_id)]
    if None in new:
        raise ValueError(
            f"no token has the ID {len(kept) + new.index(None)}: number tokens without gaps"
        )
    return kept, new


def _check_scores(spec: TokenizerSpec, scores: dict[str, float]) -> None:
    """Refuse merges that sentencepiece, which has only scores, would not reproduce.

    It merges any two adjacent symbols that form a piece. If a token alone is segmented into itself, no
    other split of it can occur in any text, since it would have occurred there as well. So only merges
    into such tokens may lack splits.
    """
    pairs = spec.pairs()
    ranks = [-scores.get(left + right, np.inf) for left, right in pairs]
    _check_order(spec, ranks, "extend with how='regenerate', or by continue_bpe")
    splits = ((token[:i], token[i:]) for token in scores for i in range(1, len(token)))
    missing = {pair for pair in splits if {*pair} <= scores.keys()} - set(pairs)
    split = sorted({left + right for left, right in missing})
    unreachable = [split[i] for i in np.flatnonzero(~spec.are_reached(split))]
    if unreachable:
        raise ValueError(
            f"{len(unreachable):,} tokens, first {unreachable[0]!r}, lack merges that sentencepiece would "
            "use: extend with how='regenerate'"
        )


# --- tiktoken -----------------------------------------------------------------------------------
def to_tiktoken(tokenizer: Tokenizer):
    """Convert a byte-level BPE tokenizer to a ``tiktoken.Encoding`` with the same IDs.

    ``encode(text, allowed_special="all")`` returns what ``encode(text, add_special_tokens=False)``
    returns here. tiktoken merges any two adjacent symbols that form a token, the one with the smallest ID
    first, and emits a pre-token that is a token unchanged. Merges must therefore be in order of the IDs
    of their results, and every token must be what merges make of its bytes; with merge skipping, one
    that is not must be segmented into at least three tokens. Most extensions of Llama-3 violate this:
    use ``tiktoken_merges``.

    Raises ValueError for what tiktoken cannot express: other merges, a normalizer, a pre-tokenizer
    other than those of GPT-2, GPT-4, Llama-3, Qwen and Mistral Nemo, added tokens that are not special.

    >>> tokenizer = th.train_byte_level_bpe(["bat bat bag"], vocab_size=258)
    >>> to_tiktoken(tokenizer).encode("bat bag") == tokenizer.encode("bat bag").ids
    True
    """
    with requires("data"):
        import tiktoken

    spec = TokenizerSpec.from_tokenizer(tokenizer)
    ordinary = [token for token in spec.vocab if token not in spec.added]
    pattern = proven_pattern(json.dumps(spec.pipeline | {"normalizer": None}))
    _check_settings(spec, pattern, ordinary)
    _check_merges(spec, ordinary)
    ranks = {bytes(map(byte_of().__getitem__, token)): spec.vocab[token] for token in ordinary}
    options = {"mergeable_ranks": ranks, "special_tokens": spec.added}
    return tiktoken.Encoding("tokhelpers", pat_str=pattern, **options)


def tiktoken_merges(tokenizer: Tokenizer) -> Tokenizer:
    """Copy a byte-level BPE tokenizer with the merges that tiktoken derives from its vocabulary.

    These are all splits of each token into two tokens, in order of the ID of the result, with merge
    skipping on. Tokens and IDs stay; text is segmented differently where two adjacent symbols form a
    token but had no merge. The result can be passed to ``to_tiktoken``.

    Raises ValueError for a tokenizer that is not byte-level BPE.

    >>> base = th.train_byte_level_bpe(["at"], vocab_size=257)
    >>> longer = th.extend(base, th.Extension(["ba", "bat"], [("b", "a"), ("ba", "t")]))
    >>> longer.encode("bat").tokens, tiktoken_merges(longer).encode("bat").tokens
    (['b', 'at'], ['bat'])
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    if not spec.byte_level:
        raise ValueError(
            "the tokenizer is not byte-level BPE, and tiktoken has tokens of bytes only"
        )
    ordinary = sorted(spec.vocab.keys() - spec.special, key=spec.vocab.get)
    merges = all_splits(spec, ordinary)
    return spec.with_(merges=merges).with_skipping(True).to_type_of(tokenizer)


def _check_settings(spec: TokenizerSpec, pattern: str | None, ordinary: list[str]) -> None:
    """Refuse settings that have no counterpart in tiktoken."""
    alphabet, added = byte_of().keys(), spec.added_tokens.values()
    flags = ("single_word", "lstrip", "rstrip")
    pre_tokenizer = json.dumps(spec.pipeline["pre_tokenizer"])
    obstacles = {
        "a normalizer": spec.pipeline["normalizer"],
        f"the pre-tokenizer {pre_tokenizer[:80]}": pattern is None,
        "truncation or padding": spec.settings["truncation"] or spec.settings["padding"],
        "merge dropout": spec.dropout,
        "added tokens that are not special": spec.splits_at_added,
        f"special tokens with one of {', '.join(flags)}": any(
            getattr(t, flag) for t in added for flag in flags
        ),
        "a special token that is a prefix of another": any(
            b.startswith(a) for a, b in pairwise(sorted(spec.added))
        ),
        "merges of special tokens": np.isin(spec.merges, [*spec.added.values()]).any(),
        "no token for some bytes": not alphabet <= spec.vocab.keys() - spec.added.keys(),
        "tokens outside the byte alphabet": any(not alphabet >= set(token) for token in ordinary),
    }
    if present := ", ".join(name for name, is_present in obstacles.items() if is_present):
        raise ValueError(
            f"the tokenizer has {present}, which tiktoken cannot express: use tokenizer.json"
        )


def _check_merges(spec: TokenizerSpec, ordinary: list[str]) -> None:
    """Refuse merges that tiktoken, which has only the IDs of tokens, would not reproduce.

    How merges build a token does not depend on the text around it. So two adjacent symbols that form a
    token but have no merge occur in a text only if they occur when that token is tokenized alone.
    """
    _check_order(spec, spec.merges[:, 2], "tiktoken merges in order of IDs, use tiktoken_merges")
    lengths = spec.token_lengths(ordinary)
    wrong = np.flatnonzero(lengths == 2 if spec.merge_skipping else lengths > 1)
    if len(wrong):
        raise ValueError(
            f"{len(wrong):,} tokens, first {ordinary[wrong[0]]!r}, are not what merges make of their "
            "bytes, as tiktoken would have it: use tiktoken_merges"
        )
