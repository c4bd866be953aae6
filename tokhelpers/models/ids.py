"""Match the IDs of two tokenizers by token string."""

import pandas as pd
from tokenizers import Tokenizer, models

from ..common.checks import check_ids
from ..tokenizer.library_encoder import as_encoder, without_truncation


def id_map(old: Tokenizer, new: Tokenizer) -> dict[int, int]:
    """Map old IDs to new IDs for the tokens that both tokenizers have, in order of old IDs.

    Works for any two tokenizers, of any model; added tokens are included. Raises TypeError for
    anything that is not a tokenizer.

    >>> base = th.train_byte_level_bpe(["bat bat bag tag"], vocab_size=260)
    >>> ids = id_map(base, th.prune(base, th.pruning_order(base, by="id")[1:], 1))
    >>> [(i, ids.get(i)) for i in range(256, 260)]
    [(256, 256), (257, 257), (258, None), (259, 258)]
    """
    old_ids, new_ids = (as_encoder(tokenizer).all_ids for tokenizer in (old, new))
    by_id = sorted(old_ids.items(), key=lambda item: item[1])
    return {i: new_ids[token] for token, i in by_id if token in new_ids}


def row_sources(old: Tokenizer, new: Tokenizer) -> pd.DataFrame:
    """Tabulate where each embedding of a new vocabulary comes from, one row per new ID from 0 on.

    Columns: ``token``; ``origin``, which is "copied" (the old tokenizer has this token), "new" or
    "unused" (an ID without a token); and ``pieces``, a tuple of old IDs: a copied token's own ID, or
    the segmentation of a new token by the old model (of a new added token: of its text). Raises
    ValueError for tokenizers that store tokens differently (as bytes, characters or WordPieces), for
    two tokens with one ID, and for IDs far beyond the number of tokens.
    Source: Purason et al. 2025, Appendix L.

    >>> old = th.train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> new = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    >>> row_sources(old, new).tail(2).values.tolist()
    [['at', 'copied', (256,)], ['bat', 'new', (65, 256)]]
    """
    old, new = without_truncation(old), as_encoder(new).backend_tokenizer
    if _notation(old) != _notation(new):
        raise ValueError(
            f"the new tokenizer stores tokens as {_notation(new)}, the old one as {_notation(old)}: "
            "embeddings cannot be matched by token; pass two tokenizers of one kind"
        )
    old_vocab, new_vocab = old.get_vocab(), new.get_vocab()
    check_ids(old_vocab)
    check_ids(new_vocab)
    added_tokens = {token.content for token in new.get_added_tokens_decoder().values()}
    rows = [("", "unused", ())] * (1 + max(new_vocab.values()))
    for token, i in new_vocab.items():
        if token in old_vocab:
            rows[i] = token, "copied", (old_vocab[token],)
        elif token in added_tokens:
            rows[i] = token, "new", tuple(old.encode(token, add_special_tokens=False).ids)
        else:
            rows[i] = token, "new", _segment_token(old.model, token)
    return pd.DataFrame(rows, columns=["token", "origin", "pieces"])


def _notation(tokenizer: Tokenizer) -> str:
    if isinstance(tokenizer.model, models.WordPiece):
        return f"WordPieces with {tokenizer.model.continuing_subword_prefix!r}"
    return "bytes" if "ByteLevel" in repr(tokenizer.pre_tokenizer) else "characters"


def _segment_token(model, token: str) -> tuple[int, ...]:
    """Segment a token string with the old model; returns old IDs."""
    prefix = model.continuing_subword_prefix if isinstance(model, models.WordPiece) else ""
    if not (prefix and token.startswith(prefix)):
        return tuple(piece.id for piece in model.tokenize(token))
    # WordPiece itself would take a "##" token for the beginning of a word
    ids, rest = [], token.removeprefix(prefix)
    while rest:
        lengths = range(len(rest), 0, -1)
        matches = (n for n in lengths if model.token_to_id(prefix + rest[:n]) is not None)
        if not (longest := next(matches, 0)):
            return (model.token_to_id(model.unk_token),)
        ids.append(model.token_to_id(prefix + rest[:longest]))
        rest = rest[longest:]
    return tuple(ids)
