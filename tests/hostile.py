"""Hostile input: one table of targets, each a strategy and what must hold of every example.

`tests/test_hostile.py` tries a few hundred examples of each; `python tests/hostile.py --minutes 30`
(`make soak`) shares its time evenly among them and says how many examples each one saw. A target
gives a right result, or one of the errors that are ours; anything else is a finding.
"""

import argparse
import gzip
import io
import json
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import sentencepiece
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

import tokhelpers as th
from tokhelpers.measures import token_counts
from tokhelpers.pretokens import BEFORE_META, cuts_text
from tokhelpers.surgery import read

OURS = (ValueError, TypeError, OSError)  # with a message: everything else is a defect
ANY = st.text(max_size=200) | st.text(
    st.sampled_from("aAbB 0'.\n\r\t▁Ġ#é\u0301\u200d\u0378\ufeff\x00\x85日한ß/<>"), max_size=200
)
BYTES = st.binary(max_size=400) | ANY.map(lambda text: text.encode("utf-8", "surrogatepass"))


@cache
def encoders() -> dict[str, Tokenizer]:
    words = list(th.load_corpus("wordfreq:en", chars=20_000))
    return {
        "llama-3": th.load_tokenizer("llama-3"),
        "qwen": th.load_tokenizer("qwen"),
        "mistral-v1": th.load_tokenizer("mistral-v1"),
        "byte-level": th.train_byte_level_bpe(words, vocab_size=500),
        "sentencepiece": th.train_sentencepiece_bpe(words, vocab_size=600),
        "wordpiece": th.train_wordpiece(words, vocab_size=300),
        "unigram": th.train_unigram(words, vocab_size=600),
    }


@cache
def parts(name: str):
    """What is measured: parts where the package knows them, which are not read anew each time."""
    try:
        return read(encoders()[name])
    except ValueError:
        return encoders()[name]


@cache
def added(name: str) -> list[str]:
    return [t.content for t in encoders()[name].get_added_tokens_decoder().values()]


# --- any text through every encoder and counter ---------------------------------------------------
def by_the_library(text: str, tokenizer: Tokenizer) -> Counter:
    """Pre-tokens of one text, by the library's own normalizer and pre-tokenizer."""
    if tokenizer.normalizer is not None:
        text = tokenizer.normalizer.normalize_str(text)
    if tokenizer.pre_tokenizer is None or not cuts_text(
        json.loads(tokenizer.pre_tokenizer.__getstate__())
    ):
        return Counter(piece for piece in BEFORE_META.split(text) if piece)
    return Counter(piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))


def count_and_encode(name: str, text: str, memory: int) -> None:
    """Counts are the library's, in memory and through runs; tokens are as many as it makes."""
    tokenizer = encoders()[name]
    special = added(name)
    expected = by_the_library(text, tokenizer)
    if not expected:
        return
    counted = th.count_pretokens([text], parts(name))
    assert dict(counted) == dict(expected)
    if memory < 20:
        assert dict(th.count_pretokens([text], parts(name), memory=memory + 1)) == dict(expected)
    if not any(content in text for content in special):
        encoded = tokenizer.encode(text, add_special_tokens=False)
        assert token_counts(parts(name), counted).sum() == len(encoded.ids)


def adapt(text: str) -> None:
    """AdaptBPE's tokens join to the text, whatever it is."""
    encoder = adapted()
    tokens = encoder.encode(text)
    assert encoder.ids(text) == [encoder.parts.vocab[token] for token in tokens]
    decoded = encoders()["byte-level"].decoder.decode(tokens)
    assert decoded == text


@cache
def adapted():
    return th.adapt_bpe(encoders()["byte-level"], ["Ġunbelievable", "ing", "ation"])


def train_and_continue(documents: list[str]) -> None:
    """Training on anything ends in a tokenizer that reads it, or in a message."""
    with warnings.catch_warnings(action="ignore"):  # of texts that yield few tokens
        for train in (th.train_byte_level_bpe, th.train_sentencepiece_bpe, th.train_wordpiece):
            try:
                made = train(documents, vocab_size=700)
            except ValueError:
                continue
            for text in documents:
                made.encode(text)
        try:
            extension = th.continue_bpe(encoders()["byte-level"], documents, 20)
        except ValueError:
            return
        longer = th.extend(encoders()["byte-level"], extension)
        assert th.unreachable(longer, extension.tokens) == []


# --- files that were damaged or made up -----------------------------------------------------------
@contextmanager
def written(content: bytes, ending: str):
    """A file that holds the bytes."""
    with tempfile.NamedTemporaryFile(suffix=ending) as file:
        file.write(content)
        file.flush()
        yield file


def use(tokenizer: Tokenizer) -> None:
    """What notebooks do to a tokenizer that came from anywhere."""
    for do in (
        lambda: tokenizer.encode("a text 12"),
        lambda: th.count_pretokens(["a text 12"], tokenizer),
        lambda: th.evaluate(tokenizer, ["a text 12"]),
        lambda: th.unreachable(tokenizer),
        lambda: th.reachability(tokenizer),
        lambda: th.extend(tokenizer, th.continue_bpe(tokenizer, ["a text 12 texts"], 3)),
        lambda: th.prune(tokenizer, th.pruning_order(tokenizer, by="leaf-id"), 2),
        lambda: th.merge_skipping(tokenizer, True),
    ):
        ours_or_nothing(do)


def ours_or_nothing(do) -> None:
    try:
        do()
    except OURS as error:
        assert str(error).strip(), f"{type(error).__name__} without a message"
    except Exception as error:
        # the library's encoder raises plain Exception, with a message, for text it cannot encode
        assert type(error) is Exception and str(error), f"{type(error).__name__}: {error}"


@cache
def small_json() -> str:
    base = encoders()["byte-level"]
    return th.prune(base, th.pruning_order(base, by="leaf-id"), 200).to_str()


VALUES = st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats() | st.text(max_size=5)
VALUES |= st.lists(st.integers(-1, 9), max_size=3) | st.just({}) | st.just([[["x"]]])


@st.composite
def damaged_json(draw) -> bytes:
    """A tokenizer.json with some of its values replaced, dropped or copied elsewhere."""
    tree = json.loads(small_json())
    for _ in range(draw(st.integers(1, 3))):
        node = tree
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            inner = node[key]
            if isinstance(inner, dict | list) and draw(st.integers(0, 3)):
                node = inner
                continue
            if draw(st.booleans()):
                node[key] = draw(VALUES)
            elif isinstance(node, dict):
                node[draw(st.text(max_size=3))] = node.pop(key)
            else:
                node.append(inner)
            break
    return json.dumps(tree).encode()


def read_damaged_tokenizer(content: bytes, ending: str) -> None:
    with written(content, ending) as file, warnings.catch_warnings(action="ignore"):
        try:
            tokenizer = th.load_tokenizer(file.name)
        except OURS as error:
            assert file.name in str(error)
            return
        use(tokenizer)


@cache
def small_model() -> bytes:
    """A SentencePiece model as its own trainer writes it."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(th.load_corpus("wordfreq:en", chars=20_000)),
        model_writer=written,
        model_type="bpe",
        vocab_size=400,
        byte_fallback=True,
        num_threads=1,
        minloglevel=2,
    )
    return written.getvalue()


@st.composite
def damaged_bytes(draw, whole) -> bytes:
    """A file with bytes changed, cut out or put in."""
    content = bytearray(whole())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        some = draw(st.binary(max_size=6))
        content[at : at + draw(st.sampled_from([0, 1, len(some), 50, 10**9]))] = some
    return bytes(content)


@cache
def small_counts() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "counts.parquet")
        th.save_counts(th.count_pretokens(["a b c a"], encoders()["byte-level"]), path)
        return path.read_bytes()


def read_counts(content: bytes, ending: str) -> None:
    with written(content, ending) as file:
        try:
            counts = th.load_counts(file.name)
        except OURS as error:
            assert file.name in str(error)
            return
        assert all(isinstance(word, str) and n >= 0 for word, n in counts.items())


def read_corpus(content: bytes, kind: str, packed: bool, errors: str) -> None:
    ending = ".parquet" if kind == "parquet" else f".{kind}" + ".gz" * packed
    with written(gzip.compress(content) if packed else content, ending) as file:
        try:
            corpus = th.load_corpus(f"{kind}:{file.name}", errors=errors)
            documents = list(corpus)
        except OURS as error:
            assert file.name in str(error)
            return
        assert all(isinstance(text, str) and text.strip() for text in documents)
        for text in documents:
            text.encode()  # no lone surrogate came through
        if not packed:
            parts = [text for part in corpus.parts(7) for text in part]
            assert parts == documents


CORPORA = st.tuples(
    BYTES | st.lists(ANY).map(lambda some: b"\n".join(t.encode() for t in some)),
    st.sampled_from(["text", "jsonl", "parquet"]),
    st.booleans(),
    st.sampled_from(["strict", "replace"]),
)
NAMES = ["llama-3", "qwen", "mistral-v1", "byte-level", "sentencepiece", "wordpiece", "unigram"]
TARGETS = {
    **{
        f"text: {name}": (
            st.tuples(st.just(name), ANY, st.integers(0, 500)),
            lambda example: count_and_encode(*example),
        )
        for name in NAMES
    },
    "text: AdaptBPE": (ANY, adapt),
    "text: training": (st.lists(ANY, min_size=1, max_size=4), train_and_continue),
    "files: tokenizer.json": (
        damaged_json(),
        lambda content: read_damaged_tokenizer(content, ".json"),
    ),
    "files: any bytes as tokenizer.json": (
        BYTES,
        lambda content: read_damaged_tokenizer(content, ".json"),
    ),
    "files: SentencePiece model": (
        damaged_bytes(small_model),
        lambda content: read_damaged_tokenizer(content, ".model"),
    ),
    "files: our counts": (
        damaged_bytes(small_counts),
        lambda content: read_counts(content, ".parquet"),
    ),
    "files: lines of counts": (BYTES, lambda content: read_counts(content, ".tsv")),
    "files: corpora": (CORPORA, lambda example: read_corpus(*example)),
}


def tried(name: str, examples: int, number: int = 0) -> int:
    """Try a target with that many examples, other ones for each number; returns how many it saw."""
    strategy, holds = TARGETS[name]
    seen = 0

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(strategy)
    def run(example):
        nonlocal seen
        seen += 1
        holds(example)

    run()
    return seen


def soak(minutes: float) -> int:
    """All targets in turn, each for its share of the time; returns how many failed."""
    failed, first = 0, random.SystemRandom().randrange(2**32)
    print(f"{minutes:g} minutes for {len(TARGETS)} targets, seeds from {first}", flush=True)
    for name in TARGETS:
        ends, seen, number = time.monotonic() + 60 * minutes / len(TARGETS), 0, first
        try:
            while time.monotonic() < ends:
                seen += tried(name, 100, number)
                number += 1
            print(f"{name}: {seen:,} examples", flush=True)
        except Exception as error:
            failed += 1
            notes = "\n".join(getattr(error, "__notes__", []))
            print(f"{name}: FAILED at seed {number}: {error!r}\n{notes}", flush=True)
    return failed


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=30)
    sys.exit(1 if soak(options.parse_args().minutes) else 0)
