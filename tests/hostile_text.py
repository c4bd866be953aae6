"""Any text through every encoder and counter: the targets of `hostile.py` that need no files."""

import json
import tempfile
import warnings
from collections import Counter
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import strategies as st
from spm import processor_of, train_spm
from strategies import LIKE_REAL, MARKED, loaded
from tokenizers import Tokenizer

import tokhelpers as th
from tokhelpers.text import counting, pretokens
from tokhelpers.tokenizer.library_encoder import count_tokens
from tokhelpers.tokenizer.pretokenization import BEFORE_META, splits_text
from tokhelpers.tokenizer.spec import TokenizerSpec

OURS = (ValueError, TypeError, OSError)  # with a message: everything else is a defect
ANY = st.text(max_size=200) | st.text(
    st.sampled_from("aAbB 0'.\n\r\t▁Ġ#é\u0301\u200d\u0378\ufeff\x00\x85日한ß/<>"), max_size=200
)
LONE = st.builds("{}{}{}".format, ANY, st.characters(categories=["Cs"]), ANY)
TRAINED = {  # with a size of vocabulary
    "byte-level": (th.train_byte_level_bpe, 500),
    "sentencepiece": (th.train_sentencepiece_bpe, 600),
    "wordpiece": (th.train_wordpiece, 300),
    "unigram": (th.train_unigram, 600),
}
NAMES = ["llama-3", "qwen", "mistral-v1", *TRAINED]
OTHERS = LIKE_REAL | MARKED  # as people have them
NOTES = st.lists(ANY | st.sampled_from(["</s>", " </s>  ", "<|note|>", "<|end|>", "low"])).map(
    "".join
)


@cache
def words() -> list[str]:
    return list(th.load_corpus("wordfreq:en", chars=20_000))


@cache
def encoder(name: str) -> Tokenizer:
    if name in OTHERS:
        return OTHERS[name]()
    if name not in TRAINED:
        return loaded(name)
    train, size = TRAINED[name]
    return train(words(), vocab_size=size)


@cache
def spec(name: str):
    """What is measured: parts where the package knows them, which are not read anew each time."""
    try:
        return TokenizerSpec.from_tokenizer(encoder(name))
    except ValueError:
        return encoder(name)


@cache
def added(name: str) -> list[str]:
    return [t.content for t in encoder(name).get_added_tokens_decoder().values()]


def by_the_library(text: str, tokenizer: Tokenizer) -> Counter:
    """Pre-tokens of one text, by the library's own normalizer and pre-tokenizer."""
    if tokenizer.normalizer is not None:
        text = tokenizer.normalizer.normalize_str(text)
    if tokenizer.pre_tokenizer is None or not splits_text(
        json.loads(tokenizer.pre_tokenizer.__getstate__())
    ):
        return Counter(piece for piece in BEFORE_META.split(text) if piece)
    return Counter(piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))


def count_and_encode(text: str, size: int, name: str) -> None:
    """Counts are the library's, in memory and in parts; tokens are as many as it makes."""
    tokenizer = encoder(name)
    expected = by_the_library(text, tokenizer)
    if not expected:
        return
    counted = th.count_pretokens([text], spec(name))
    assert dict(counted) == dict(expected)
    if size < 20:
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
            patch.setattr(counting, "PART_BYTES", size + 1)
            patch.setattr(pretokens, "BATCH_BYTES", size)
            counted_in_parts = th.count_pretokens([text] * 3, spec(name), folder=folder)
        assert dict(counted_in_parts) == {piece: 3 * n for piece, n in expected.items()}
    if not any(content in text for content in added(name)):
        encoded = tokenizer.encode(text, add_special_tokens=False)
        assert count_tokens(spec(name), counted).sum() == len(encoded.ids)


@cache
def plain(name: str) -> Tokenizer:
    """The tokenizer without truncation, padding and dropout, by its file."""
    settings = json.loads(encoder(name).to_str()) | {"truncation": None, "padding": None}
    settings["model"]["dropout"] = None
    made = Tokenizer.from_str(json.dumps(settings))
    if all(token.special for token in made.get_added_tokens_decoder().values()):
        made.encode_special_tokens = True  # they count as plain text
    return made


def evaluate_as_people_have_them(text: str, name: str) -> None:
    """As many tokens as the library makes of the whole text, each time."""
    with suppress(ValueError):  # of a text without documents
        expected = len(plain(name).encode(text, add_special_tokens=False).ids)
        assert th.evaluate(encoder(name), [text]).tokens == expected
        assert th.evaluate(spec(name), [text]).tokens == expected


# --- other encoders of the same tokens ------------------------------------------------------------
@cache
def adapted():
    return th.AdaptBPE(encoder("byte-level"), ["Ġunbelievable", "ing", "ation"])


def adapt(text: str) -> None:
    """AdaptBPE's tokens join to the text, whatever it is."""
    tokens = adapted().encode(text)
    assert adapted().ids(text) == [adapted().spec.vocab[token] for token in tokens]
    assert encoder("byte-level").decoder.decode(tokens) == text


@cache
def in_tiktoken(name: str):
    return th.to_tiktoken(encoder(name))


def encode_in_tiktoken(text: str, name: str) -> None:
    if not any(content in text for content in added(name)):
        expected = encoder(name).encode(text, add_special_tokens=False).ids
        assert in_tiktoken(name).encode_ordinary(text) == expected


@cache
def small_model() -> bytes:
    """A SentencePiece model as its own trainer writes it."""
    return train_spm(words(), 400, byte_fallback=True, num_threads=1)


@cache
def in_sentencepiece():
    """An extension of the small model, here and in sentencepiece's own encoder."""
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder, "old.model"), Path(folder, "new.model")
        old.write_bytes(small_model())
        base = th.load_tokenizer(old)
        longer = th.extend(base, th.continue_bpe(base, words(), 50))
        th.save_sentencepiece(longer, new, model=old)
        longer.encode_special_tokens = True  # in a text they are plain text to sentencepiece
        return longer, processor_of(new.read_bytes())


def encode_in_sentencepiece(text: str) -> None:
    tokenizer, processor = in_sentencepiece()
    assert processor.encode(text) == tokenizer.encode(text, add_special_tokens=False).ids


# --- training, and what is no text ----------------------------------------------------------------
def train_and_continue(documents: list[str]) -> None:
    """Training on anything ends in a tokenizer that reads it, or in a ValueError."""
    with warnings.catch_warnings(action="ignore"):  # of texts that yield few tokens
        for train, _ in TRAINED.values():
            with suppress(ValueError):
                made = train(documents, vocab_size=700)
                for text in documents:
                    made.encode(text)
        for base in (encoder("byte-level"), encoder("sentencepiece")):
            with suppress(ValueError):
                extension = th.continue_bpe(base, documents, 20)
                assert th.unreachable_tokens(th.extend(base, extension), extension.tokens) == []


def refuse_lone_surrogates(text: str) -> None:
    """No encoding writes them: each function says so in one of our errors."""
    refused = [lambda: adapted().encode(text)]
    for name, (train, _) in TRAINED.items():
        base = encoder(name)
        refused += [
            partial(train, [text], vocab_size=700),
            partial(train, ["a bat"], vocab_size=700, special_tokens=[text]),
            partial(th.count_pretokens, [text], base),
            partial(th.count_pretokens, {text: 2}, base),
            partial(th.evaluate, base, [text]),
            partial(th.evaluate, base, ["a b"], added=[text]),
            partial(th.continue_bpe, base, [text], 3),
            partial(th.extend, base, th.Extension(tokens=[text])),
        ]
    for do in refused:
        with pytest.raises(OURS, match="."):
            do()


# What draws examples, what must hold of each, and what that takes beside the example
TARGETS = {
    **{name: (st.tuples(ANY, st.integers(0, 500)), count_and_encode, name) for name in NAMES},
    **{f"like {name}": (NOTES, evaluate_as_people_have_them, name) for name in OTHERS},
    "AdaptBPE": (ANY, adapt),
    "tiktoken": (ANY, encode_in_tiktoken, "byte-level"),
    "tiktoken, llama-3": (ANY, encode_in_tiktoken, "llama-3"),
    "sentencepiece's own encoder": (ANY, encode_in_sentencepiece),
    "training": (st.lists(ANY, min_size=1, max_size=4), train_and_continue),
    "lone surrogates": (LONE, refuse_lone_surrogates),
}
TARGETS = {f"text: {name}": target for name, target in TARGETS.items()}
