"""What must hold of every tokenizer that the package makes from another one."""

import json
from collections import Counter
from functools import lru_cache

import numpy as np
from tokenizers import Tokenizer, models

from tokhelpers.tokenizer.library_encoder import without_truncation
from tokhelpers.tokenizer.spec import TokenizerSpec

TEXTS = [
    "", " ", "  two  spaces ", "\n\r\n\t x", "Tietokoneohjelmoija söi puuroa.", "Хорошая погода!",
    "अच्छा नमस्ते", "今日は良い天気ですね", "아름다운 나라", "שלום עולם", "مرحبا بالعالم",
    "e\u0301 \u0301x", "👩\u200d💻🏳️\u200d🌈", "\u0378\U000e0080", "\x00\x01\x7f\x85\u2028", "\ufeffx\ufffd",
    "It's 12345.67%", "x" * 300, "ab" * 200, "\u1100\u1161\u11a8", "def f(x):\n    return x[1:]\n",
    "low lower lowest newest widest", " ▁ Ġ ## <0x41> <unk> </s>", "hypercholesterolemia",
]  # fmt: skip


def keep(old: Tokenizer, new: Tokenizer, *, same_ids: bool, round_trip: bool = True) -> None:
    """Hold a new tokenizer against the one that it was made from.

    ``same_ids``: it is an extension, so that each old token has its old id. ``round_trip``: what
    the old one decodes to the text, the new one does.
    """
    (_, before, was), (written, after, vocab) = known(old), known(new)
    ids_have_no_new_holes(vocab, was)
    if same_ids:
        assert {token: vocab.get(token) for token in was} == was
    merges_stay_inside(after["model"])
    names_are_the_same(before, after)
    again = Tokenizer.from_str(written)
    assert again.to_str() == written
    parts_are_what_is_written(new, again)
    old, new, again = map(without_truncation, (old, new, again))
    specials_are_themselves(old, new)
    for text in TEXTS if round_trip else ():
        if decoded(old, text) == text:
            assert decoded(new, text) == text
    assert [again.encode(t).ids for t in TEXTS] == [new.encode(t).ids for t in TEXTS]


@lru_cache(maxsize=4)  # a chain of three, and what it begins with
def known(tokenizer: Tokenizer) -> tuple[str, dict, dict[str, int]]:
    """What is written, settings and vocabulary, read once: that a base did not change is tested apart."""
    written = tokenizer.to_str()
    return written, json.loads(written), tokenizer.get_vocab()


def decoded(tokenizer, text):
    return tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False)


def parts_are_what_is_written(tokenizer: Tokenizer, again: Tokenizer) -> None:
    """What is remembered of a tokenizer that was put together is what would be read of it."""
    if isinstance(tokenizer.model, models.BPE):
        found, read = TokenizerSpec.from_tokenizer(tokenizer), TokenizerSpec.from_tokenizer(again)
        assert list(found.vocab.items()) == list(read.vocab.items())
        assert found.settings == read.settings and np.array_equal(found.merges, read.merges)


def ids_have_no_new_holes(vocab: dict, was: dict) -> None:
    holes = set(range(max(vocab.values()) + 1)) - set(vocab.values())
    assert holes <= set(range(max(was.values()) + 1)) - set(was.values())
    assert len(set(vocab.values())) == len(vocab)


def merges_stay_inside(model: dict) -> None:
    vocab, merges = model["vocab"], model.get("merges", ())
    outside = [(a, b) for a, b in merges if not (a in vocab and b in vocab and a + b in vocab)]
    assert outside == []


def named_ids(settings: dict) -> dict[str, set[str]]:
    """The tokens that post-processor, padding and unknown token name, by place."""
    places = {"padding": [], "post_processor": []}
    if settings["padding"]:
        places["padding"] = [(settings["padding"]["pad_token"], settings["padding"]["pad_id"])]

    def walk(rule):
        for inner in (rule or {}).get("processors", ()):
            walk(inner)
        for token in (rule or {}).get("special_tokens", {}).values():
            places["post_processor"].extend(zip(token["tokens"], token["ids"], strict=True))
        for end in ("sep", "cls"):
            if end in (rule or {}):
                places["post_processor"].append(tuple(rule[end]))

    walk(settings["post_processor"])
    places["added"] = [(t["content"], t["id"]) for t in settings["added_tokens"]]
    places["unknown"] = [settings["model"].get("unk_token")]
    return places


def names_are_the_same(before: dict, after: dict) -> None:
    vocab = all_ids(after)
    for place, named in named_ids(after).items():
        old = named_ids(before)[place]
        if place == "unknown":
            assert named == old and (named[0] is None or named[0] in vocab)
            continue
        assert {token for token, _ in old} <= {token for token, _ in named}, place
        for token, i in named:
            assert vocab.get(token) == i, (place, token, i, vocab.get(token))
    assert after["decoder"] == before["decoder"]
    assert after["normalizer"] == before["normalizer"]
    assert after["pre_tokenizer"] == before["pre_tokenizer"]
    assert after["truncation"] == before["truncation"]
    lengths = [{**(t["padding"] or {}), "pad_id": None} for t in (before, after)]
    assert lengths[0] == lengths[1]
    assert after["model"].get("dropout") == before["model"].get("dropout")


def all_ids(settings: dict) -> dict[str, int]:
    model = settings["model"]["vocab"]
    if isinstance(model, list):  # Unigram: pieces and scores
        model = {piece: i for i, (piece, _) in enumerate(model)}
    return model | {t["content"]: t["id"] for t in settings["added_tokens"]}


def specials_are_themselves(old: Tokenizer, new: Tokenizer) -> None:
    """Special tokens are found in a text, but for those that the old tokenizer does not find either."""
    assert found_once(old) <= found_once(new)


def found_once(tokenizer: Tokenizer) -> set[str]:
    special = {i: t for i, t in tokenizer.get_added_tokens_decoder().items() if t.special}
    text = "".join(f"a{token.content} b" for token in special.values())
    ids = Counter(tokenizer.encode(text, add_special_tokens=False).ids)
    return {token.content for i, token in special.items() if ids[i] == 1}
