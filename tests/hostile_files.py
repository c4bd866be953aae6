"""Files that were damaged or made up: the targets of `hostile.py` that read them."""

import gzip
import io
import json
import lzma
import tempfile
import warnings
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from hostile_text import ANY, OURS, encoder, small_model, words
from hypothesis import strategies as st
from pyarrow import parquet
from tokenizers import Tokenizer

import tokhelpers as th
from tokhelpers.text import count_files

BYTES = st.binary(max_size=400) | ANY.map(lambda text: text.encode("utf-8", "surrogatepass"))
LINES = [f"line {i} of the file, é" for i in range(40)]


@contextmanager
def written(content: bytes, ending: str):
    """A file that holds the bytes; an error of what is done with it must be ours, and name it."""
    with tempfile.NamedTemporaryFile(suffix=ending) as file:
        file.write(content)
        file.flush()
        try:
            yield file.name
        except OURS as error:
            assert file.name in str(error)


@st.composite
def damaged_bytes(draw, whole) -> bytes:
    """A file with bytes changed, cut out or put in."""
    content = bytearray(whole())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        some = draw(st.binary(max_size=6))
        content[at : at + draw(st.sampled_from([0, 1, len(some), 50, 10**9]))] = some
    return bytes(content)


# --- tokenizers -----------------------------------------------------------------------------------
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
        lambda: th.with_merge_skipping(tokenizer, True),
        lambda: th.adapt_bpe(tokenizer, ["text"]).encode("a text 12"),
        lambda: th.to_tiktoken(tokenizer).encode("a text 12"),
        lambda: th.tiktoken_merges(tokenizer).encode("a text 12"),
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
def small_json(name: str) -> str:
    few = words()[:20]
    made = {
        "byte-level": lambda: th.prune(
            encoder(name), th.pruning_order(encoder(name), by="leaf-id"), 200
        ),
        "sentencepiece": lambda: th.train_sentencepiece_bpe(few, vocab_size=330),
        "wordpiece": lambda: th.train_wordpiece(few, vocab_size=150),
        "unigram": lambda: th.train_unigram(few, vocab_size=350),
    }
    return made[name]().to_str()


FAMILIES = st.sampled_from(["byte-level", "sentencepiece", "wordpiece", "unigram"])
VALUES = st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats() | st.text(max_size=5)
VALUES |= st.lists(st.integers(-1, 9), max_size=3)
VALUES |= st.builds(dict) | st.builds(lambda: [[["x"]]])  # new ones each time: they are changed


@st.composite
def damaged_json(draw) -> bytes:
    """A tokenizer.json with some of its values replaced, dropped or copied elsewhere."""
    tree = json.loads(small_json(draw(FAMILIES)))
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


DAMAGED_JSON = FAMILIES.flatmap(lambda name: damaged_bytes(lambda: small_json(name).encode()))


def read_tokenizer(content: bytes, ending: str) -> None:
    with written(content, ending) as file, warnings.catch_warnings(action="ignore"):
        use(th.load_tokenizer(file))


# --- counts ---------------------------------------------------------------------------------------
@cache
def counts_in_groups() -> tuple[bytes, th.text.Pretokens]:
    """A file of counts of several row groups, and what it holds."""
    counts = th.count_pretokens(words()[:3], encoder("byte-level"))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_files, "ROWS", 32)
        th.save_counts(counts, Path(folder, "counts.parquet"))
        content = Path(folder, "counts.parquet").read_bytes()
    assert parquet.ParquetFile(io.BytesIO(content)).num_row_groups > 2
    return content, counts


def everything(counts) -> tuple:
    """What counts hold, to compare."""
    names = ("chars", "bytes", "spaced_words", "documents", "rules")
    return dict(counts), *(getattr(counts, name, None) for name in names)


def read_our_counts(content: bytes) -> None:
    """As they were saved, or refused: no damage goes unnoticed."""
    with written(content, ".parquet") as file:
        assert everything(th.load_counts(file)) == everything(counts_in_groups()[1])


def table(lines=LINES, names=("text", "n")) -> bytes:
    """A Parquet file of several row groups, with a column of strings and one of numbers."""
    written = io.BytesIO()
    parquet.write_table(pa.table([lines, range(len(lines))], names), written, row_group_size=15)
    return written.getvalue()


def read_words(content: bytes, ending: str) -> None:
    with written(content, ending) as file:
        assert all(isinstance(word, str) and n >= 0 for word, n in th.load_counts(file).items())


@cache
def counted_folder() -> tuple[str, bytes, th.text.Pretokens]:
    """What a count leaves in its folder for a second one: the file's name, what it holds, counts."""
    with tempfile.TemporaryDirectory() as folder:
        counts = th.count_pretokens(LINES, encoder("byte-level"), folder=folder, memory=1)
        [file] = [f for f in Path(folder).iterdir() if f.name != "counts.parquet"]
        return file.name, file.read_bytes(), counts


def count_again(content: bytes) -> None:
    """A second count over a damaged file of the first: the same counts, or the file is named."""
    name, _, counts = counted_folder()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(content)
        try:
            again = th.count_pretokens(LINES, encoder("byte-level"), folder=folder, memory=1)
        except OURS as error:
            assert name in str(error)
        else:
            assert everything(again) == everything(counts)


# --- corpora --------------------------------------------------------------------------------------
def rows(lines) -> bytes:
    return "".join(json.dumps({"text": line, "n": [1]}) + "\n" for line in lines).encode()


PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def read_corpus(content: bytes, kind: str, packed: str, errors: str) -> None:
    """Documents that are text, the same in parts."""
    ending = ".parquet" if kind == "parquet" else f".{kind}" + packed
    with written(content if kind == "parquet" else PACK[packed](content), ending) as file:
        corpus = th.load_corpus(f"{kind}:{file}", errors=errors)
        documents = list(corpus)
        assert all(text.strip() and text.encode() for text in documents)  # no lone surrogate
        assert [text for part in corpus.parts(7) for text in part] == documents


def read_archive(ending: str, content: bytes) -> None:
    """The lines as they were packed: archives have checksums."""
    with written(content, f".txt{ending}") as file:
        train, test = (list(th.load_corpus(f"text:{file}", split=s)) for s in ("train", "test"))
        assert sorted(train + test) == sorted(LINES)


MADE_UP = st.tuples(
    BYTES | st.lists(ANY).map(lambda some: b"\n".join(t.encode() for t in some)),
    st.sampled_from(["text", "jsonl", "parquet"]),
    st.sampled_from(list(PACK)),
    st.sampled_from(["strict", "replace"]),
)
DAMAGED = st.tuples(
    st.sampled_from([(lambda: rows(LINES), "jsonl"), (table, "parquet")]).flatmap(
        lambda source: st.tuples(damaged_bytes(source[0]), st.just(source[1]))
    ),
    st.sampled_from(["strict", "replace"]),
).map(lambda drawn: (*drawn[0], "", drawn[1]))
ARCHIVES = st.sampled_from([".gz", ".xz"]).flatmap(
    lambda ending: st.tuples(
        st.just(ending), damaged_bytes(lambda: PACK[ending]("\n".join(LINES).encode()))
    )
)
TSV = "".join(f"{word}\t{i}\n" for i, word in enumerate(LINES)).encode()
TARGETS = {
    "values of tokenizer.json": (damaged_json(), read_tokenizer, ".json"),
    "bytes of tokenizer.json": (DAMAGED_JSON, read_tokenizer, ".json"),
    "any bytes as tokenizer.json": (BYTES, read_tokenizer, ".json"),
    "SentencePiece model": (damaged_bytes(small_model), read_tokenizer, ".model"),
    "our counts": (damaged_bytes(lambda: counts_in_groups()[0]), read_our_counts),
    "any bytes as lines of counts": (BYTES, read_words, ".tsv"),
    "lines of counts": (damaged_bytes(lambda: TSV), read_words, ".tsv"),
    "a table of counts": (
        damaged_bytes(lambda: table(names=("word", "count"))),
        read_words,
        ".parquet",
    ),
    "a folder of counts": (damaged_bytes(lambda: counted_folder()[1]), count_again),
    "any bytes as corpora": (MADE_UP, read_corpus),
    "damaged corpora": (DAMAGED, read_corpus),
    "damaged archives": (ARCHIVES, read_archive),
}
TARGETS = {f"files: {name}": target for name, target in TARGETS.items()}
