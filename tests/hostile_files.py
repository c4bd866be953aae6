"""Files that were damaged or made up: the targets of `hostile.py` that read them."""

import gzip
import io
import json
import lzma
import tempfile
import warnings
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from hostile_text import ANY, OTHERS, OURS, TRAINED, encoder, small_model, words
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
        lambda: th.unreachable_tokens(tokenizer),
        lambda: th.reachability(tokenizer),
        lambda: th.extend(tokenizer, th.continue_bpe(tokenizer, ["a text 12 texts"], 3)),
        lambda: th.prune(tokenizer, th.pruning_order(tokenizer, by="leaf-id"), 2),
        lambda: th.with_merge_skipping(tokenizer, True),
        lambda: th.AdaptBPE(tokenizer, ["text"]).encode("a text 12"),
        lambda: th.to_tiktoken(tokenizer).encode("a text 12"),
        lambda: th.tiktoken_merges(tokenizer).encode("a text 12"),
    ):
        try:
            do()
        except Exception as error:
            # the library's encoder raises plain Exception, with a message, for text it cannot encode
            assert isinstance(error, OURS) or type(error) is Exception, repr(error)
            assert str(error).strip(), f"{type(error).__name__} without a message"


FAMILIES = st.sampled_from([*TRAINED, *OTHERS]).map(lambda name: encoder(name).to_str())
VALUES = st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats() | st.text(max_size=5)
VALUES |= st.lists(st.integers(-1, 9), max_size=3)
VALUES |= st.builds(dict) | st.builds(lambda: [[["x"]]])  # new ones each time: they are changed


@st.composite
def damaged_json(draw) -> bytes:
    """A tokenizer.json with some of its values replaced, dropped or copied elsewhere."""
    tree = json.loads(draw(FAMILIES))
    for _ in range(draw(st.integers(1, 3))):
        node = tree
        while keys := list(node) if isinstance(node, dict) else range(len(node)):
            key = draw(st.sampled_from(keys))
            if isinstance(node[key], dict | list) and draw(st.integers(0, 3)):
                node = node[key]
                continue
            if draw(st.booleans()):
                node[key] = draw(VALUES)
            elif isinstance(node, dict):
                node[draw(st.text(max_size=3))] = node.pop(key)
            else:
                node.append(node[key])
            break
    return json.dumps(tree).encode()


DAMAGED_JSON = FAMILIES.flatmap(lambda written: damaged_bytes(written.encode))


def read_tokenizer(content: bytes, ending: str) -> None:
    with written(content, ending) as file, warnings.catch_warnings(action="ignore"):
        use(th.load_tokenizer(file))


# --- counts ---------------------------------------------------------------------------------------
def everything(counts) -> tuple:
    """What counts hold, to compare."""
    names = ("chars", "bytes", "spaced_words", "documents", "pretokenizer_config")
    return dict(counts), *(getattr(counts, name, None) for name in names)


@cache
def our_counts() -> tuple[bytes, tuple]:
    """A file of counts of several row groups, and what it holds."""
    counts = th.count_pretokens(words()[:3], encoder("byte-level"))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_files, "ROWS", 32)
        th.save_counts(counts, Path(folder, "counts.parquet"))
        content = Path(folder, "counts.parquet").read_bytes()
    assert parquet.ParquetFile(io.BytesIO(content)).num_row_groups > 2
    return content, everything(counts)


def read_our_counts(content: bytes) -> None:
    """As they were saved, or refused: no damage goes unnoticed."""
    with written(content, ".parquet") as file:
        assert everything(th.load_counts(file)) == our_counts()[1]


def table(lines=LINES) -> bytes:
    """A Parquet file of several row groups, with a column of strings and one of numbers."""
    written = io.BytesIO()
    parquet.write_table(
        pa.table([lines, range(len(lines))], ("text", "n")), written, row_group_size=15
    )
    return written.getvalue()


# --- corpora --------------------------------------------------------------------------------------
def rows(lines) -> bytes:
    return "".join(json.dumps({"text": line, "n": [1]}) + "\n" for line in lines).encode()


PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def read_corpus(content: bytes, kind: str, ending: str, errors: str) -> None:
    """Documents that are text; they have the same counts one by one."""
    with written(content, f".{kind}{ending}") as file:
        corpus = th.load_corpus(f"{kind}:{file}", errors=errors, split="all")
        documents = list(corpus)
        assert all(text.strip() and text.encode() for text in documents)  # no lone surrogate
        counts = th.count_pretokens(corpus, encoder("byte-level"))
        assert everything(counts) == everything(
            th.count_pretokens(documents, encoder("byte-level"))
        )


def read_archive(content: bytes, ending: str) -> None:
    """The lines as they were packed: archives have checksums."""
    with written(content, f".txt{ending}") as file:
        train, test = (list(th.load_corpus(f"text:{file}", split=s)) for s in ("train", "test"))
        assert sorted(train + test) == sorted(LINES)


ERRORS = st.sampled_from(["strict", "replace"])
MADE_UP = st.builds(
    lambda content, kind, errors: (PACK[kind[1]](content), *kind, errors),
    BYTES | st.lists(ANY).map(lambda some: b"\n".join(t.encode() for t in some)),
    st.sampled_from([*product(["text", "jsonl", "csv"], PACK), ("parquet", "")]),
    ERRORS,
)
WHOLE = "\n".join(LINES).encode()
CSV = "".join(f'{i},"{line}"\n' for i, line in enumerate(LINES)).encode()
CORPORA = {"text": WHOLE, "jsonl": rows(LINES), "csv": b"n,text\n" + CSV, "parquet": table()}
DAMAGED = st.sampled_from(list(CORPORA)).flatmap(
    lambda kind: st.tuples(damaged_bytes(lambda: CORPORA[kind]), st.just(kind), st.just(""), ERRORS)
)
ARCHIVES = st.sampled_from([".gz", ".xz"]).flatmap(
    lambda ending: st.tuples(damaged_bytes(lambda: PACK[ending](WHOLE)), st.just(ending))
)
TARGETS = {
    "values of tokenizer.json": (damaged_json(), read_tokenizer, ".json"),
    "bytes of tokenizer.json": (DAMAGED_JSON, read_tokenizer, ".json"),
    "any bytes as tokenizer.json": (BYTES, read_tokenizer, ".json"),
    "SentencePiece model": (damaged_bytes(small_model), read_tokenizer, ".model"),
    "our counts": (damaged_bytes(lambda: our_counts()[0]), read_our_counts),
    "any bytes as counts": (BYTES, read_our_counts),
    "any bytes as corpora": (MADE_UP, read_corpus),
    "damaged corpora": (DAMAGED, read_corpus),
    "damaged archives": (ARCHIVES, read_archive),
}
TARGETS = {f"files: {name}": target for name, target in TARGETS.items()}
