"""SentencePiece ``.model`` files of BPE models, read and written."""

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from .files import read_whole, write_whole
from .parts import BYTE_TOKENS, Parts, read_parts
from .segmentation import merges_of, segment, symbols_of


def from_spm(content: bytes, *, symbols_special: bool = False) -> Tokenizer:
    """Convert a SentencePiece BPE model, given as the bytes of its file, to a tokenizer.

    Merges are all splits of each piece into two others, in order of the piece's score. With
    ``symbols_special`` user-defined symbols become special tokens, which gives the same ids in
    texts that do not spell one out. Raises ValueError for bytes that are no SentencePiece model,
    and for a model that cannot be converted so that it gives the same ids.
    """
    from transformers.convert_slow_tokenizer import generate_merges

    proto = _spm_proto(content, symbols_special)
    kinds = type(proto.pieces[0])
    vocab = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    scores = {p.piece: p.score for p in proto.pieces if p.type == kinds.NORMAL}
    model = models.BPE(
        vocab,
        generate_merges(vocab, scores),
        unk_token=proto.pieces[proto.trainer_spec.unk_id].piece,
        fuse_unk=True,
        byte_fallback=proto.trainer_spec.byte_fallback,
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = _spm_normalizer(proto.normalizer_spec)
    undo = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if proto.normalizer_spec.add_dummy_prefix:
        undo.append(decoders.Strip(" ", 1, 0))
    tokenizer.decoder = decoders.Sequence(undo)
    apart = (kinds.UNKNOWN, kinds.CONTROL, kinds.USER_DEFINED)
    special = [p.piece for p in proto.pieces if p.type in apart]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    return tokenizer


def spm_file(path: str | os.PathLike):
    """Read a SentencePiece model, as protobuf, from its file.

    Raises ValueError, naming the file, for one that is none or that ``from_spm`` cannot convert.
    """
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
    trained, spec, piece = proto.trainer_spec, proto.normalizer_spec, ModelProto.SentencePiece
    if trained.model_type != trained.BPE:
        raise ValueError(
            "the SentencePiece model is not of type BPE: only BPE models are converted"
        )
    kinds = {p.type for p in proto.pieces}
    obstacles = {
        # the library's Precompiled drops marks behind characters that the table maps
        f"normalization_rule_name {spec.name!r} instead of 'identity'": spec.precompiled_charsmap,
        "user_defined_symbols": piece.USER_DEFINED in kinds and not symbols,
        "unused pieces": piece.UNUSED in kinds,
        "treat_whitespace_as_suffix": trained.treat_whitespace_as_suffix,
        "escape_whitespaces switched off": not spec.escape_whitespaces,
    }
    found = ", ".join(name for name, there in obstacles.items() if there)
    if found:
        raise ValueError(
            f"the SentencePiece model has {found}, which cannot be converted without changing ids: "
            "train it without, or use a tokenizer.json"
        )
    return proto


def _spm_normalizer(spec):
    prefix = [normalizers.Prepend("▁")] if spec.add_dummy_prefix else []
    steps = [*prefix, normalizers.Replace(" ", "▁")]
    if spec.remove_extra_whitespaces:  # spaces alone, and at the end the space symbol as well
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
    does not come from ``model``, or when its merges come in another order or leave out splits.

    >>> import tempfile
    >>> new = th.extend(th.load_tokenizer("mistral-v1"), th.Extension(tokens=["▁phenotype"]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = th.tokenizer.source_file("mistral-v1")
    ...     save_sentencepiece(new, f"{folder}/new.model", model=file)
    ...     th.load_tokenizer(f"{folder}/new.model").encode("phenotype").tokens
    ['▁phenotype']
    """
    parts = read_parts(tokenizer)
    proto = _without_pieces(parts) if model is None else spm_file(model)
    kinds = proto.SentencePiece
    kept, new = _kept_and_new(parts, proto.pieces)
    del proto.pieces[:]
    proto.pieces.extend(kept)
    score = np.float32(min((piece.score for piece in kept), default=0))
    for token in new:
        score = min(score - np.float32(1), np.nextafter(score, np.float32(-np.inf)))
        kind = kinds.CONTROL if token in parts.special else kinds.NORMAL
        if model is None and token in (proto.trainer_spec.unk_piece, *BYTE_TOKENS):
            kind = kinds.BYTE if token in BYTE_TOKENS else kinds.UNKNOWN
        proto.pieces.add(piece=token, score=float(score), type=kind)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    ordinary = {piece.piece: piece.score for piece in proto.pieces if piece.type == kinds.NORMAL}
    _check_merges(parts, ordinary)
    write_whole(path, proto.SerializeToString())


def _without_pieces(parts: Parts):
    """A model that treats text as ``train_sentencepiece_bpe`` does, before it has any piece."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    proto = ModelProto()
    trained, spec, model = proto.trainer_spec, proto.normalizer_spec, parts.settings["model"]
    spec.name, spec.add_dummy_prefix, spec.escape_whitespaces = "identity", True, True
    spec.remove_extra_whitespaces = False
    cut = pre_tokenizers.Split("▁", "merged_with_next")
    for what, ours in (("normalizer", _spm_normalizer(spec)), ("pre_tokenizer", cut)):
        if parts.settings[what] != json.loads(ours.__getstate__()):
            raise ValueError(
                "without model, what train_sentencepiece_bpe trains by default can be written, and "
                f"this tokenizer has another {what}: give the .model it was converted from"
            )
    trained.model_type, trained.byte_fallback = trained.BPE, model["byte_fallback"]
    trained.unk_piece = model["unk_token"] or "<unk>"
    ids = parts.vocab | {t["content"]: t["id"] for t in parts.settings["added_tokens"]}
    if trained.unk_piece not in ids:
        raise ValueError(
            "a SentencePiece model needs the piece '<unk>', and the tokenizer has none: train it with "
            "special_tokens=['<unk>']"
        )
    trained.unk_id, trained.pad_id = ids[trained.unk_piece], -1
    trained.bos_id, trained.eos_id = ids.get("<s>", -1), ids.get("</s>", -1)
    return proto


def _kept_and_new(parts: Parts, pieces) -> tuple[list, list[str]]:
    """The model's pieces that were not pruned, and the tokens after them, in order of their ids."""
    added = parts.settings["added_tokens"]
    ids = parts.tokens | {t["id"]: t["content"] for t in added}
    kept = []
    for piece in pieces:
        there = ids.get(len(kept))
        if there == piece.piece:
            kept.append(piece)
        elif piece.type != piece.NORMAL or len(piece.piece) == 1:  # these are never pruned
            raise ValueError(
                f"the tokenizer does not come from this model: id {len(kept)} is {there!r} there and "
                f"{piece.piece!r} here; give the .model it was converted from"
            )
    cutting = [t["content"] for t in added if t["id"] >= len(kept) and not t["special"]]
    if cutting:
        raise ValueError(
            f"{len(cutting):,} tokens, first {cutting[0]!r}, cut the raw text (how='add_tokens'), for "
            "which a SentencePiece model has no scores: extend with how='append' or 'regenerate'"
        )
    missing = next((i for i in range(len(kept), parts.next_id) if i not in ids), None)
    if missing is not None:
        raise ValueError(
            f"no token has the id {missing}: a SentencePiece model has no holes, so number the tokens "
            "without them"
        )
    return kept, [ids[i] for i in range(len(kept), parts.next_id)]


def _check_merges(parts: Parts, scores: dict[str, float]) -> None:
    """Refuse merges with which sentencepiece, which has scores alone, would not agree.

    It merges any two neighbours that make a piece. If a token comes back whole when it is tokenized
    alone, no other split of it occurs in any text, as it would have occurred there as well. So only
    the merges of such tokens may lack splits.
    """
    pairs = parts.pairs()
    ranks = [scores.get(left + right, np.inf) for left, right in pairs]
    highest = max(scores.values(), default=0)
    early = next((i for i, (a, b) in enumerate(pairwise([highest, *ranks])) if a < b), None)
    if early is not None:
        raise ValueError(
            f"the merge into {''.join(pairs[early])!r} comes later than the order of the ids says: "
            "sentencepiece would merge it sooner; extend with how='regenerate', or by continue_bpe"
        )
    there = set(pairs)
    splits = ((token[:i], token[i:]) for token in scores for i in range(1, len(token)))
    missing = (a + b for a, b in splits if a in scores and b in scores and (a, b) not in there)
    split = list(dict.fromkeys(missing))
    _, offsets = segment(*symbols_of(split, parts), merges_of(parts))
    never = [split[i] for i in np.flatnonzero(np.diff(offsets) != 1)]
    if never:
        raise ValueError(
            f"{len(never):,} tokens, first {never[0]!r}, lack merges that sentencepiece would use: "
            "extend with how='regenerate'"
        )
