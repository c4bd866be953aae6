"""Architectures of language models by name, built with fresh weights and without the hub."""

import torch
import transformers

# Layer sizes as in the vendors' own config.json files; thesis, Table 1, for the first three.
_DEEP_THIN = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1_536,
    "tie_word_embeddings": True,
}
_LLAMA_3_2 = {
    "model_type": "llama",
    "vocab_size": 128_256,
    "num_key_value_heads": 8,
    "intermediate_size": 8_192,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131_072,
}
_SMALL = {
    "vocab_size": 8_000,
    "hidden_size": 192,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
}
ARCHITECTURES = {
    "bert-base-cased": {"model_type": "bert", "vocab_size": 28_996},
    "mobilellm-125m": {**_DEEP_THIN, "vocab_size": 32_000, "max_position_embeddings": 2_048},
    "smollm2-135m": {**_DEEP_THIN, "vocab_size": 49_152, "max_position_embeddings": 8_192},
    "llama-3.2-1b": {
        **_LLAMA_3_2,
        "hidden_size": 2_048,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
    },
    "llama-3.2-3b": {
        **_LLAMA_3_2,
        "hidden_size": 3_072,
        "num_hidden_layers": 28,
        "num_attention_heads": 24,
    },
    # our own, for trainings on a laptop: 1.2 or 1.3 million parameters apart from the embeddings
    "small-bert": {**_SMALL, "model_type": "bert", "intermediate_size": 640},
    "small-llama": {
        **_SMALL,
        "model_type": "llama",
        "num_key_value_heads": 3,
        "intermediate_size": 448,
        "tie_word_embeddings": True,
        "max_position_embeddings": 512,
    },
}
HEADS = {
    "none": "AutoModel",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "text-classification": "AutoModelForSequenceClassification",
}


def configuration(architecture: str, vocab_size: int | None = None, **settings):
    """Make the ``transformers`` configuration of an architecture.

    ``architecture`` is a name in ``ARCHITECTURES`` or its beginning, in upper or lower case
    ("SmolLM2"); ``vocab_size`` counts rows of the embedding table (default: the architecture's own);
    further ``settings`` are the configuration's, such as ``num_labels`` or ``pad_token_id``. Raises
    ValueError for an unknown name.

    >>> configuration("SmolLM2").hidden_size
    576
    """
    wanted = architecture.lower().rpartition("/")[2].replace(" ", "-").replace("_", "-")
    found = [name for name in ARCHITECTURES if name.startswith(wanted)] if wanted else []
    if wanted in found:
        found = [wanted]
    if len(found) != 1:
        names = ", ".join(found or ARCHITECTURES)
        raise ValueError(f"{architecture!r} does not name one architecture: use {names}")
    known = {**ARCHITECTURES[found[0]], **settings}
    if vocab_size is not None:
        known["vocab_size"] = int(vocab_size)
    return transformers.AutoConfig.for_model(**known)


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

    ``architecture`` and ``settings`` are as for ``configuration``; a configuration itself will do,
    too. ``head`` is "none", "masked-lm", "causal-lm" or "text-classification". On the device "meta"
    the model has shapes and takes no memory. Raises ValueError for an unknown name or head, and for
    a head that the architecture does not have.

    >>> new_model("small-llama", 1_000).get_input_embeddings().weight.shape
    torch.Size([1000, 192])
    """
    wanted = head.lower().replace(" ", "-").replace("_", "-")
    if wanted not in HEADS:
        raise ValueError(f"no head is called {head!r}: use {', '.join(HEADS)}")
    config = architecture
    if isinstance(architecture, str):
        config = configuration(architecture, vocab_size, **settings)
    missing = f"{config.model_type} has no head {head!r}: try another"
    if wanted == "causal-lm" and getattr(config, "is_decoder", True) is False:
        raise ValueError(missing)  # the library would build one that looks ahead
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(seed)
        try:
            return getattr(transformers, HEADS[wanted]).from_config(config).float()
        except ValueError as error:
            raise ValueError(missing) from error
