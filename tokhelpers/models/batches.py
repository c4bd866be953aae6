"""From texts to batches of ids: encoding, cutting into sequences, masking, padding, checks."""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from numbers import Integral
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer

NO_LABEL = -100  # the label of a place that is not learned, as in torch and transformers
MASKED, REPLACED = 0.8, 0.1  # of the chosen tokens; thesis, section 3.2.1
CHOSEN = 0.15
LENGTH = 2_048  # ids of a sequence at most, where the caller sets no other; thesis, section 5.2.1


class Task(NamedTuple):
    """What a model is trained on: examples, and the loss on some of them.

    ``row(number, rng)`` gives one example: ``ids``, and ``labels`` that are one number or one a
    place (``NO_LABEL``: none). ``loss(model, batch)`` is the sum over the labels of rows collated.
    ``mark`` stands for all the examples: a training is resumed only with the same.
    """

    size: int
    row: Callable[[int, np.random.Generator], dict]
    loss: Callable[[torch.nn.Module, dict], torch.Tensor]
    mark: str = ""


def encode_texts(tokenizer, texts: Iterable[str]) -> list[list[int]]:
    """The ids of each text, with no special tokens around it, not cut off and not padded.

    ``tokenizer`` is a ``tokenizers.Tokenizer``, one of ``transformers``, or an AdaptBPE encoder.
    Raises TypeError for one string instead of many, ValueError for no text at all.

    >>> from tokhelpers.train.trainers import train_byte_level_bpe
    >>> encode_texts(train_byte_level_bpe(["bat bat"], vocab_size=258), ["bat", ""])
    [[257], []]
    """
    if isinstance(texts, str):
        raise TypeError(f"texts is one string, {texts!r:.40}: put it in a list")
    texts = list(texts)
    if not texts:
        raise ValueError("there is no text: give one at least")
    if hasattr(tokenizer, "ids_batch"):
        return tokenizer.ids_batch(texts)
    found = backend(tokenizer).encode_batch_fast(texts, add_special_tokens=False)
    return [encoding.ids for encoding in found]


def backend(tokenizer) -> Tokenizer:
    """The ``tokenizers.Tokenizer`` inside, without truncation and padding."""
    inner = tokenizer.tokenizer if hasattr(tokenizer, "ids_batch") else tokenizer
    inner = getattr(inner, "backend_tokenizer", inner)
    if inner.truncation is not None or inner.padding is not None:
        inner = Tokenizer.from_str(inner.to_str())
        inner.no_truncation()
        inner.no_padding()
    return inner


def special_ids(tokenizer) -> list[int]:
    added = backend(tokenizer).get_added_tokens_decoder()
    return sorted(i for i, token in added.items() if token.special)


def token_id(tokenizer, token: str | int) -> int:
    """The id of a token given by its stored form, or by its id."""
    found = token if isinstance(token, Integral) else backend(tokenizer).token_to_id(token)
    if found is None or found < 0:
        raise ValueError(f"this tokenizer has no token {token!r}: give one that it has, or its id")
    return int(found)


def around(tokenizer, separator: str | int | None = None) -> tuple[list[int], list[int]]:
    """Ids to put before and after a text.

    ``separator`` on both sides where it is given; else what the tokenizer's post-processor puts
    there ([CLS] and [SEP]); else its special token, where it has only one. Raises ValueError where
    none of these is there.
    """
    if separator is not None:
        return [token_id(tokenizer, separator)], [token_id(tokenizer, separator)]
    inner = backend(tokenizer)
    shown = inner.encode("a")
    if sum(shown.special_tokens_mask):
        first = shown.special_tokens_mask.index(0) if 0 in shown.special_tokens_mask else 1
        before = shown.ids[:first]
        after = [i for i, s in zip(shown.ids, shown.special_tokens_mask, strict=True) if s][first:]
        return before or after, after
    special = special_ids(inner)
    if len(special) == 1:
        return special, special
    some = ", ".join(str(inner.id_to_token(i)) for i in special[:8]) or "it has none"
    raise ValueError(
        "which token stands between texts is not clear: give separator= a special token of the "
        f"tokenizer ({some}), or an id"
    )


def blocks(
    documents: Iterable[Sequence[int]], length: int, separator: int, *, causal: bool = True
) -> list[np.ndarray]:
    """Cut documents, as one stream with a separator before, between and after them, into blocks.

    ``documents`` are lists of ids. Causal: blocks of ``length`` + 1 ids that share one with their
    neighbours, so that each id but the first of the stream is predicted once. Otherwise: blocks of
    ``length``. The last may be shorter; nothing is left out. Raises ValueError for a length below 1.

    >>> [block.tolist() for block in blocks([[5, 6, 7], [8]], 4, 0)]
    [[0, 5, 6, 7, 0], [0, 8, 0]]
    """
    positive(length=length)
    ids = chain([separator], *((*document, separator) for document in documents))
    stream = np.fromiter(ids, np.int64)
    extra = int(causal)
    return [stream[i : i + length + extra] for i in range(0, len(stream) - extra, length)]


def sequences(
    documents: Iterable[Sequence[int]], length: int, before: list[int], after: list[int]
) -> list[np.ndarray]:
    """One sequence a document, cut off at ``length`` ids; what is put around it stays on.

    Warns of what is cut off.
    """
    room = length - len(before) - len(after)
    if room < 1:
        raise ValueError(f"length={length} leaves no room for text between special tokens")
    documents = list(documents)
    lost = sum(max(0, len(document) - room) for document in documents)
    if lost:
        share = lost / sum(map(len, documents))
        warnings.warn(
            f"{lost:,} ids, {share:.0%} of all, stand beyond length={length} and are cut off: give a "
            "larger length, or shorter texts",
            stacklevel=2,
        )
    return [np.array([*before, *document[:room], *after], np.int64) for document in documents]


def masking(mask: int, special: Iterable[int], vocabulary: int, *, all_masked: bool = False):
    """A function that hides tokens of a row: ``row(ids, rng)`` gives ``ids`` and ``labels``.

    15 % of the row's tokens that are not special are chosen, one at least; of them 80 % become the
    mask, 10 % a token drawn from the others, 10 % stay (``all_masked``: all become the mask).

    Source: BERT, as in the thesis, section 3.2.1; there of words, here of tokens.
    """
    free = np.ones(vocabulary, bool)
    free[[i for i in {*special, mask} if i < vocabulary]] = False
    ordinary = np.flatnonzero(free)

    def row(ids: np.ndarray, rng: np.random.Generator) -> dict:
        places = np.flatnonzero(free[ids])
        n = min(len(places), max(1, round(CHOSEN * len(places))))
        chosen = rng.choice(places, n, replace=False) if n else places
        dice, drawn = rng.random(n), rng.choice(ordinary, n)
        labels = np.full(len(ids), NO_LABEL)
        labels[chosen] = ids[chosen]
        new = np.where(dice < MASKED + REPLACED, drawn, ids[chosen])
        new = np.where((dice < MASKED) | all_masked, mask, new)
        hidden = ids.copy()
        hidden[chosen] = new
        return {"ids": hidden, "labels": labels}

    return row


def collated(rows: list[dict]) -> dict[str, torch.Tensor]:
    """Rows as one batch: arrays padded on the right to the longest, and a mask for each of ids.

    Padding has the id 0: the mask keeps it out of attention, whatever the token 0 is.
    """
    batch = {}
    for key in rows[0]:
        values = [row[key] for row in rows]
        if np.ndim(values[0]) == 0:
            batch[key] = torch.tensor(values, dtype=torch.int64)
            continue
        sizes = np.array([len(value) for value in values])
        real = np.arange(sizes.max()) < sizes[:, None]
        padded = np.full(real.shape, NO_LABEL if key == "labels" else 0, np.int64)
        padded[real] = np.concatenate(values)
        batch[key] = torch.from_numpy(padded)
        if key.endswith("ids"):
            batch[key.replace("ids", "mask")] = torch.from_numpy(real.astype(np.int64))
    return batch


def check_ids(model, examples: Iterable, numbers: Iterable[int] | None = None) -> None:
    """Refuse ids outside the embedding table: on a GPU they would end the whole process."""
    rows = model.get_input_embeddings().num_embeddings
    examples = list(examples)
    numbers = range(len(examples)) if numbers is None else list(numbers)
    largest = [int(np.max(example, initial=0)) for example in examples]
    lowest = [int(np.min(example, initial=0)) for example in examples]
    if largest and (max(largest) >= rows or min(lowest) < 0):
        worst = int(np.argmin(lowest) if min(lowest) < 0 else np.argmax(largest))
        found = lowest[worst] if min(lowest) < 0 else largest[worst]
        raise ValueError(
            f"example {numbers[worst]} has the id {found}, and the embedding table has {rows} rows, "
            f"0 to {rows - 1}: use the tokenizer that the model was made for, or transfer_embeddings"
        )


def sequence_length(model, length: int | None = None) -> int:
    """The length to cut sequences at: the one asked for, if the model has so many positions.

    None: all its positions, 2,048 at most.
    """
    limit = positions(model)
    if length is None:
        return min(LENGTH, limit or LENGTH)
    positive(length=length)
    if limit is not None and length > limit:
        raise ValueError(f"length={length}: the model has {limit} positions, so give that at most")
    return length


def positions(model) -> int | None:
    """The longest sequence that a model takes; None where its configuration sets no limit."""
    limit = getattr(model.config, "max_position_embeddings", None)
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if limit is not None and getattr(table, "padding_idx", None) is not None:
        limit -= table.padding_idx + 1  # RoBERTa counts positions from behind its padding id
    return limit


def positive(**numbers) -> None:
    for name, number in numbers.items():
        if not isinstance(number, Integral) or number < 1:
            raise ValueError(f"{name}={number!r}: give a whole number from 1 on")


def texts_digest(*arrays) -> str:
    """A mark by which to know the same examples again."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.asarray(array, np.int64).tobytes() + b"|")
    return found.hexdigest()[:16]
