"""Convert from and to SentencePiece, whose encoder has scores but no merges."""

import json
import os
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from ..common.extras import requires
from ..common.files import read_whole, write_whole
from .encoder import Encoder
from .library_encoder import LibraryEncoder, as_encoder
from .renumbering import is_placeholder
from .spec import TokenizerSpec
from .tiktoken_format import check_order
from .token_bytes import BYTE_TOKENS

SPACED_WORDS = pre_tokenizers.Split("▁", "merged_with_next")  # how our trainers split such text
# splits after the first character of text that spells a byte token
SPELLED_BYTES = pre_tokenizers.Split(Regex("<(?=0x[0-9A-F]{2}>)"), "merged_with_previous")


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
    """Write a BPE or Unigram tokenizer as a SentencePiece ``.model`` file.

    ``model`` is the ``.model`` file from which a BPE tokenizer was converted before it was extended or
    pruned, or None for a tokenizer of ``train_sentencepiece_bpe`` with ``<unk>`` among its special
    tokens. Pruned pieces are removed, or replaced by their placeholders where IDs were kept. New ones
    are appended under their IDs, each with a score below all previous ones, since the encoder merges
    the pair with the highest score first. A Unigram tokenizer, one of ``train_unigram`` that may have
    been extended or pruned, is written with its own scores and without ``model``. sentencepiece then
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
    if as_encoder(tokenizer).kind == "Unigram":
        write_whole(path, _unigram_model(as_encoder(tokenizer), model).SerializeToString())
        return
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


def _unigram_model(encoder: LibraryEncoder, model):
    """A Unigram tokenizer as a SentencePiece model, with the IDs and scores that it has."""
    if model is not None:
        raise ValueError(
            "a Unigram tokenizer is written with its own scores: leave out model=, which is for BPE"
        )
    settings = json.loads(encoder.backend_tokenizer.to_str())["model"]
    pieces, unk = settings["vocab"], settings["unk_id"]
    if unk is None or len(pieces) < encoder.next_id:
        raise ValueError(
            "a SentencePiece model has an unknown piece, and all added tokens among its pieces: use a "
            "tokenizer of train_unigram"
        )
    proto = _without_pieces(encoder, pieces[unk][0])
    proto.trainer_spec.model_type = proto.trainer_spec.UNIGRAM
    kinds = proto.SentencePiece
    special = dict.fromkeys(encoder.special, kinds.CONTROL) | {pieces[unk][0]: kinds.UNKNOWN}
    if encoder.byte_fallback:
        special |= dict.fromkeys(BYTE_TOKENS, kinds.BYTE)
    for i, (piece, score) in enumerate(pieces):
        kind = kinds.UNUSED if is_placeholder(piece, i) else kinds.NORMAL
        proto.pieces.add(piece=piece, score=score, type=special.get(piece, kind))
    proto.trainer_spec.vocab_size = len(pieces)
    return proto


def _without_pieces(spec: Encoder, unk_token: str | None = None):
    """A model that normalises text as our trainers do, without pieces; with ``unk_token``, of Unigram."""
    with requires("data"):
        from sentencepiece.sentencepiece_model_pb2 import ModelProto

    proto = ModelProto()
    trainer, text_rules = proto.trainer_spec, proto.normalizer_spec
    text_rules.name, text_rules.add_dummy_prefix = "identity", True
    text_rules.escape_whitespaces, text_rules.remove_extra_whitespaces = True, False
    words = SPACED_WORDS
    if unk_token and spec.byte_fallback:
        words = pre_tokenizers.Sequence([SPACED_WORDS, SPELLED_BYTES])
    expected = {"normalizer": _spm_normalizer(text_rules), "pre_tokenizer": words}
    for name, step in expected.items():
        if spec.pipeline[name] != json.loads(step.__getstate__()):
            raise ValueError(
                "without model=, only tokenizers with the defaults of their trainer can be "
                f"written, and this one has another {name}: give the .model it was converted from"
            )
    trainer.model_type, trainer.byte_fallback = trainer.BPE, spec.byte_fallback
    trainer.unk_piece = unk_token or spec.unk_token or "<unk>"
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
    check_order(spec, ranks, "extend with how='regenerate', or by continue_bpe")
    splits = ((token[:i], token[i:]) for token in scores for i in range(1, len(token)))
    missing = {pair for pair in splits if {*pair} <= scores.keys()} - set(pairs)
    split = sorted({left + right for left, right in missing})
    unreachable = [split[i] for i in np.flatnonzero(~spec.are_reached(split))]
    if unreachable:
        raise ValueError(
            f"{len(unreachable):,} tokens, first {unreachable[0]!r}, lack merges that sentencepiece would "
            "use: extend with how='regenerate'"
        )
