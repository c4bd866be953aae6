"""Build randomly initialised language models by the name of an architecture."""

import copy

import torch
import transformers

from ..common.checks import positive

# Layer sizes of the vendors' config.json files; thesis, Table 1, for the first three. The two small
# ones are ours, for training on a laptop: 1.2 and 1.3 million parameters besides the embeddings.
SIZE_NAMES = ["model_type", "vocab_size", "hidden_size", "num_hidden_layers"]
SIZE_NAMES += ["num_attention_heads", "intermediate_size"]
SIZE_NAMES += ["num_key_value_heads", "max_position_embeddings"]
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

    ``architecture`` is a name in ``ARCHITECTURES``, a unique prefix of one in upper or lower case
    ("SmolLM2"), or a configuration, which is copied. ``vocab_size`` is the number of embeddings
    (default: the architecture's own); further ``settings`` are those of the configuration, such as
    ``num_labels``. Raises ValueError for an unknown or ambiguous name and for a size below 1.

    >>> configuration("SmolLM2").hidden_size
    576
    """
    if vocab_size is not None:
        settings["vocab_size"] = positive("vocab_size", vocab_size)
    if not isinstance(architecture, str):
        config = copy.deepcopy(architecture)
        config.update(settings)
        return config
    prefix = architecture.lower().rpartition("/")[2]
    matches = [name for name in ARCHITECTURES if name.startswith(prefix)]
    if len(matches) != 1:
        names = ", ".join(matches or ARCHITECTURES)
        raise ValueError(f"{architecture!r} does not name one architecture: use {names}")
    sizes = dict(zip(SIZE_NAMES, ARCHITECTURES[matches[0]], strict=False))
    return transformers.AutoConfig.for_model(**{**sizes, "tie_word_embeddings": True, **settings})


def new_model(
    architecture,
    vocab_size: int | None = None,
    head: str = "causal-lm",
    *,
    seed: int = 0,
    device: str = "cpu",
    **settings,
):
    """Build a randomly initialised model in float32.

    ``architecture``, ``vocab_size`` and ``settings`` are those of ``configuration``; ``head`` is
    "none", "masked-lm", "causal-lm" or "text-classification". On the device "meta" parameters have
    a shape and use no memory. Raises ValueError as ``configuration`` does, for an unknown head, and
    for a head that the architecture does not support.

    >>> new_model("small-llama", 1_000).get_input_embeddings().weight.shape
    torch.Size([1000, 192])
    """
    if head not in HEADS:
        raise ValueError(f"unknown head {head!r}: use {', '.join(HEADS)}")
    config = configuration(architecture, vocab_size, **settings)
    unsupported = f"{config.model_type} has no head {head!r}: try another"
    if head == "causal-lm" and getattr(config, "is_decoder", True) is False:
        raise ValueError(unsupported)  # transformers would build one with bidirectional attention
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(seed)
        try:
            return getattr(transformers, HEADS[head]).from_config(config).float()
        except ValueError as error:
            raise ValueError(unsupported) from error


def dtype_of(name: str) -> torch.dtype:
    """Return the torch dtype of a name; raises ValueError unless it is bfloat16 or float32."""
    if name not in ("bfloat16", "float32"):
        raise ValueError(f"dtype is {name!r}: use bfloat16 or float32")
    return getattr(torch, name)
