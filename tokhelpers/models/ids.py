"""Where each row of a changed embedding table comes from: matched by token, without a model."""

import pandas as pd
from tokenizers import Tokenizer, models

from ..tokenizer.library import described, without_truncation


def row_sources(old: Tokenizer, new: Tokenizer) -> pd.DataFrame:
    """Say where each row of the new embedding table comes from, one row per id, from 0 on.

    Columns: ``token``; ``origin``, which is "copied" (the old tokenizer has this token), "new", or
    "unused" (an id without a token); and ``pieces``, old ids: the token's own where it is copied,
    what the old model makes of a new token as a pre-token, of a new added token as text. Raises
    ValueError for tokenizers that write tokens differently, as bytes, characters or parts of words.
    Source: Purason et al. 2025, Appendix L.

    >>> old = th.train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> new = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    >>> row_sources(old, new).tail(2).values.tolist()
    [['at', 'copied', (256,)], ['bat', 'new', (65, 256)]]
    """
    old, new = without_truncation(old), described(new).backend_tokenizer
    if _writes(old) != _writes(new):
        raise ValueError(
            f"the new tokenizer stores its tokens as {_writes(new)}, the old one as {_writes(old)}: "
            "rows cannot be matched by token; give tokenizers of one kind"
        )
    known, tokens = old.get_vocab(), new.get_vocab()
    as_text = {token.content for token in new.get_added_tokens_decoder().values()}
    rows = [("", "unused", ())] * (1 + max(tokens.values()))
    for token, i in tokens.items():
        if token in known:
            rows[i] = token, "copied", (known[token],)
        elif token in as_text:
            rows[i] = token, "new", tuple(old.encode(token, add_special_tokens=False).ids)
        else:
            rows[i] = token, "new", _pieces(old, token)
    return pd.DataFrame(rows, columns=["token", "origin", "pieces"])


def _writes(tokenizer: Tokenizer) -> str:
    if isinstance(tokenizer.model, models.WordPiece):
        return f"words and parts with {tokenizer.model.continuing_subword_prefix!r}"
    return "bytes" if "ByteLevel" in repr(tokenizer.pre_tokenizer) else "characters"


def _pieces(old: Tokenizer, token: str) -> tuple[int, ...]:
    """Old ids of a token string, as the old model cuts it."""
    model = old.model
    prefix = model.continuing_subword_prefix if isinstance(model, models.WordPiece) else ""
    if not (prefix and token.startswith(prefix)):
        return tuple(piece.id for piece in model.tokenize(token))
    ids, rest, known = [], token.removeprefix(prefix), model.token_to_id
    while rest:  # the model itself would take it for the start of a word
        ends = (n for n in range(len(rest), 0, -1) if known(prefix + rest[:n]) is not None)
        if not (end := next(ends, 0)):
            return (known(model.unk_token),)
        ids.append(known(prefix + rest[:end]))
        rest = rest[end:]
    return tuple(ids)


def id_map(old: Tokenizer, new: Tokenizer) -> dict[int, int]:
    """Map old ids to new ids, for the tokens that both tokenizers have, in order of the old ids.

    Any two tokenizers will do, of any model; added tokens count. Raises TypeError for anything else.

    >>> base = th.train_byte_level_bpe(["bat bat bag tag"], vocab_size=260)
    >>> ids = id_map(base, th.prune(base, th.pruning_order(base, by="id")[1:], 1))
    >>> [(i, ids.get(i)) for i in range(256, 260)]
    [(256, 256), (257, 257), (258, None), (259, 258)]
    """
    old, new = (described(tokenizer).all_ids for tokenizer in (old, new))
    return {i: new[token] for token, i in sorted(old.items(), key=lambda x: x[1]) if token in new}
