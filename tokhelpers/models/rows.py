"""Where each row of a changed embedding table comes from: matched by token, without a model."""

import pandas as pd
from tokenizers import Tokenizer, models

from ..tokenizer.parts import backend_of


def row_sources(old: Tokenizer, new: Tokenizer) -> pd.DataFrame:
    """Where each row of the new embedding table comes from, one row an id, from 0 to the largest.

    ``origin`` is "copied" (the old tokenizer has this token), "new", or "unused" (an id without a
    token). ``pieces`` are old ids: the token's own where it is copied; for a new token what the old
    model makes of it as a pre-token, for a new added token what the old tokenizer makes of it as
    text. Raises ValueError for tokenizers that store tokens in different forms.

    Source: Purason et al. 2025, Appendix L.

    >>> from tokhelpers.train.trainers import train_byte_level_bpe
    >>> old = train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> new = train_byte_level_bpe(["bat bat"], vocab_size=258)
    >>> row_sources(old, new).tail(2).values.tolist()
    [['at', 'copied', (256,)], ['bat', 'new', (65, 256)]]
    """
    old, new = backend_of(old), backend_of(new)
    if _stored_form(old) != _stored_form(new):
        raise ValueError(
            f"the new tokenizer stores its tokens as {_stored_form(new)}, the old one as "
            f"{_stored_form(old)}: rows cannot be matched by token; give tokenizers of one kind"
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


def _stored_form(tokenizer: Tokenizer) -> str:
    if isinstance(tokenizer.model, models.WordPiece):
        return f"words and parts with {tokenizer.model.continuing_subword_prefix!r}"
    return "bytes" if "ByteLevel" in repr(tokenizer.pre_tokenizer) else "characters"


def _pieces(old: Tokenizer, token: str) -> tuple[int, ...]:
    """Old ids of a token in stored form, as the old model cuts it."""
    model, prefix = old.model, ""
    if isinstance(model, models.WordPiece):
        prefix = model.continuing_subword_prefix
    if not (prefix and token.startswith(prefix)):
        return tuple(piece.id for piece in model.tokenize(token))
    ids, rest = [], token.removeprefix(prefix)  # the model itself would take it for a word's start
    while rest:
        ends = range(len(rest), 0, -1)
        found = ((model.token_to_id(prefix + rest[:end]), end) for end in ends)
        i, end = next(((i, end) for i, end in found if i is not None), (None, 0))
        if i is None:
            return (model.token_to_id(model.unk_token),)
        ids.append(i)
        rest = rest[end:]
    return tuple(ids)


def id_map(old: Tokenizer, new: Tokenizer) -> dict[int, int]:
    """Old id to new id, for the tokens that both tokenizers have, in order of the old ids.

    Any two tokenizers, of any model; added tokens count.

    >>> from tokhelpers.train.trainers import train_byte_level_bpe
    >>> base = train_byte_level_bpe(["bat bat bag tag"], vocab_size=260)
    >>> ids = id_map(base, prune(base, pruning_order(base, by="id")[1:], 1))
    >>> [(i, ids.get(i)) for i in range(256, 260)]
    [(256, 256), (257, 257), (258, None), (259, 258)]
    """
    old, new = (backend_of(t).get_vocab() for t in (old, new))
    return {i: new[token] for token, i in sorted(old.items(), key=lambda x: x[1]) if token in new}
