"""The settings of a tokenizer that hold IDs, with new IDs, and placeholders for pruned tokens."""

from collections.abc import Container
from functools import partial

import numpy as np


def renumbered(settings: dict, new_id: np.ndarray) -> dict:
    """Return settings with new IDs wherever they hold IDs; ``new_id`` has -1 for pruned tokens.

    Raises ValueError if padding or the post-processor uses a token that is pruned or does not exist.
    """
    added = [{**token, "id": int(new_id[token["id"]])} for token in settings["added_tokens"]]
    padding = settings["padding"]
    if padding is not None:
        padding = {**padding, "pad_id": _new(padding["pad_id"], "padding", new_id)}
    post = _post_processor(settings["post_processor"], new_id)
    return {**settings, "added_tokens": added, "padding": padding, "post_processor": post}


def _new(i: int, user: str, new_id: np.ndarray) -> int:
    """The new ID of a token that a setting uses; ValueError if there is no such token any more."""
    if i >= len(new_id):
        raise ValueError(
            f"{user} uses the ID {i}, which no token has: set the tokenizer's {user} anew"
        )
    if new_id[i] < 0:
        raise ValueError(
            f"{user} uses the token with ID {i}, which would be pruned: keep that token"
        )
    return int(new_id[i])


def _post_processor(rule: dict | None, new_id: np.ndarray) -> dict | None:
    if rule is None:
        return None
    new = partial(_new, user="post_processor", new_id=new_id)
    match rule["type"]:
        case "Sequence":
            return {**rule, "processors": [_post_processor(r, new_id) for r in rule["processors"]]}
        case "TemplateProcessing":
            special = {
                name: {**token, "ids": [new(i) for i in token["ids"]]}
                for name, token in rule["special_tokens"].items()
            }
            return {**rule, "special_tokens": special}
        case "BertProcessing" | "RobertaProcessing":
            ends = {end: [rule[end][0], new(rule[end][1])] for end in ("sep", "cls")}
            return {**rule, **ends}
    return rule


# --- placeholders of pruned tokens ----------------------------------------------------------------
def placeholder(i: int, existing: Container[str] = ()) -> str:
    """Return a token string for the ID of a pruned token, different from all existing ones.

    It contains a space, which no pre-token does.

    >>> placeholder(300), placeholder(300, {"<pruned 300>"})
    ('<pruned 300>', '<<pruned 300>>')
    """
    token = f"<pruned {i}>"
    while token in existing:
        token = f"<{token}>"
    return token


def is_placeholder(token: str | None, i: int) -> bool:
    """Whether a token string is the placeholder of a pruned token with this ID."""
    return token is not None and token.strip("<>") == f"pruned {i}"
