"""Write a web page on which tokenizers are compared, with the tokenizers inside it."""

import base64
import gzip
import json
import os
from html import escape
from pathlib import Path

from tokenizers import Tokenizer

from ..common.files import write_whole
from ..tokenizer.encoder import Encoder
from ..tokenizer.library_encoder import as_encoder
from ..tokenizer.vendors import NAMES, load_tokenizer

PAGE = Path(__file__).parent / "page"
LIBRARY = ("@huggingface/tokenizers", "0.2.0", "Apache-2.0")  # npm name, version, licence
LICENCES = {  # of the vocabularies, by name
    "llama-3": "Llama 3 Community License", "llama-4": "Llama 4 Community License",
    "gpt-4": "MIT", "gpt-4o": "MIT", "deepseek-v3": "MIT",
}  # fmt: skip
APACHE = "Apache-2.0"  # of all others that the package loads by name
# The page encodes it, too, and says so if its IDs are others than Python's
CHECK = (
    "It's 12345 naïve   kyllästyä,\n\tभाषा 한국어 中文 \u200d👩‍🔬 x_y = [1.5]; <b>ÀÉ</b>\r\n  end"
)


def write_playground(
    path: str | os.PathLike, /, *names: str | os.PathLike, **tokenizers: Tokenizer
) -> None:
    """Write a self-contained web page on which tokenizers are compared on any text.

    The tokenizers are given by name or path, as in ``load_tokenizer``, or as keywords whose name is
    the label. The page holds them compressed, opens from disk in any current browser without a
    server, requests nothing, and keeps the text that is typed. It shows each tokenizer's tokens with
    IDs, bytes and merges, and its number of tokens, bytes per token and tokens per word; tokens that
    an extension adds to another tokenizer of the page are marked. Llama 3 adds 2.4 MB to the page.

    Raises ValueError without a tokenizer, for two of one name and for an AdaptBPE encoder, which
    ``tokenizer.json`` cannot express; TypeError for other objects; OSError if the page cannot be
    written; and what ``load_tokenizer`` raises.

    >>> import tempfile
    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=257)
    >>> longer = th.extend(base, th.Extension(["bat"]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_playground(f"{folder}/page.html", base=base, longer=longer)
    ...     "longer" in Path(folder, "page.html").read_text("utf-8")
    True
    """
    labels = [label_of(name) for name in names] + list(tokenizers)
    if not labels:
        raise ValueError("no tokenizer for the page: give at least one name, path or keyword")
    if repeated := [label for label in labels if labels.count(label) > 1]:
        raise ValueError(
            f"two tokenizers are called {repeated[0]!r}: rename a folder, or pass one as a keyword"
        )
    loaded = [*map(load_tokenizer, names), *tokenizers.values()]
    entries, data = [], []
    for label, tokenizer in zip(labels, loaded, strict=True):
        licence = licence_of(label) if label in names else ""
        entries.append(entry(label, tokenizer, licence))
        data.append(
            f'<script type="text/plain" data-tokenizer="{escape(label)}">{packed(tokenizer)}</script>'
        )
    page = (PAGE / "page.html").read_text(encoding="utf-8")
    parts = {
        "STYLE": f"<style>\n{stylesheet()}</style>",
        "PLAYGROUND": fragment(entries),
        "DATA": "\n".join(data),
        "SCRIPT": f"<script>\n{script()}</script>",
    }
    for mark, part in parts.items():
        page = page.replace(f"<!--{mark}-->", part)
    write_whole(path, page.encode())


def label_of(name: str | os.PathLike) -> str:
    """The label of a tokenizer that is loaded by name or from a path.

    >>> label_of("llama-3")
    'llama-3'
    """
    if str(name) in NAMES or not (path := Path(os.path.expanduser(name))).exists():
        return str(name)
    path = path.resolve()
    if path.is_dir():
        return path.name
    return path.parent.name if path.name == "tokenizer.json" else path.stem


def licence_of(name: str) -> str:
    """The licence of a vocabulary that is loaded by name; empty for other names."""
    return LICENCES.get(name, APACHE) if name in NAMES else ""


# --- the parts of the page, which the site uses as well -------------------------------------------
def entry(label: str, tokenizer: Tokenizer | Encoder, licence: str = "", **more) -> dict:
    """What the page knows of a tokenizer before its data are unpacked."""
    backend = _backend(label, tokenizer)
    ids = backend.encode(CHECK, add_special_tokens=False).ids
    tokens = backend.get_vocab_size()
    return {"name": label, "tokens": tokens, "licence": licence, "check": ids, **more}


def packed(tokenizer: Tokenizer | Encoder) -> str:
    """A tokenizer's ``tokenizer.json``, compressed, as ASCII.

    A BPE vocabulary is a list by ID, and merges are the IDs of their parts: read in a third of the time.
    """
    settings = json.loads(_backend("", tokenizer).to_str())
    model = settings["model"]
    if model["type"] == "BPE":
        vocab, merges = model["vocab"], model["merges"]
        model["merges"] = [vocab[part] for merge in merges for part in merge]
        model["vocab"] = [None] * (1 + max(vocab.values(), default=-1))
        for token, i in vocab.items():
            model["vocab"][i] = token
    content = json.dumps(settings, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(content.encode(), 6, mtime=0)).decode()


def _backend(label: str, tokenizer: Tokenizer | Encoder) -> Tokenizer:
    encoder = as_encoder(tokenizer)
    if encoder is tokenizer:
        raise ValueError(
            f"{label or 'the tokenizer'} is an {type(tokenizer).__name__} encoder, which tokenizer.json "
            "cannot express: give a tokenizer"
        )
    return encoder.backend_tokenizer


def fragment(entries: list[dict]) -> str:
    """The playground's HTML without its data, to stand in a page."""
    text = (PAGE / "playground.html").read_text(encoding="utf-8")
    catalogue = json.dumps({"check": CHECK, "tokenizers": entries}, ensure_ascii=False)
    return text.replace("<!--CATALOGUE-->", catalogue.replace("<", "\\u003c"))


def stylesheet() -> str:
    """The playground's CSS."""
    return (PAGE / "playground.css").read_text(encoding="utf-8")


def script() -> str:
    """The playground's JavaScript, with the worker's and the library's as a string in it."""
    library, worker, main = (
        (PAGE / name).read_text(encoding="utf-8")
        for name in ("tokenizers.min.cjs", "worker.js", "playground.js")
    )
    name, version, licence = LIBRARY
    notice = (
        f"/*! {name} {version}, Copyright Hugging Face, licence {licence}: "
        "https://www.apache.org/licenses/LICENSE-2.0 */\n"
    )
    scope = f"((module, exports) => {{\n{library}\n}})(module, module.exports);\n"
    wrapped = f"const module = {{exports: {{}}}};\n{scope}"
    source = json.dumps(notice + wrapped + worker, ensure_ascii=False).replace("</", "<\\/")
    return f"{notice}const PLAYGROUND_WORKER = {source};\n{main}"
