"""Models from a folder or the hub, whole: every weight in its place, safetensors only."""

import os

import transformers


def load_model(
    name: str | os.PathLike,
    kind=None,
    *,
    revision: str | None = None,
    dtype="auto",
    unused: tuple[str, ...] = (),
):
    """Load a ``transformers`` model from a folder or a hub id, and refuse one that is not whole.

    ``kind`` is a class of ``transformers`` (default: the one that the configuration names). Weights
    are read from safetensors files only, in ``dtype`` (default: as they are stored); no code of the
    folder is run. A configuration that shares its embeddings as MobileLLM's does
    (``share_embedding``) gets a tied head. Raises ValueError for weights that are missing,
    unexpected or of another shape, but for unexpected ones that begin as one of ``unused``;
    OSError for a folder without safetensors files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     th.new_model("small-llama", 300).save_pretrained(folder)
    ...     len(load_model(folder).get_input_embeddings().weight)
    300
    """
    config_class = kind.config_class if kind else transformers.AutoConfig
    config = config_class.from_pretrained(name, revision=revision)
    if hasattr(config, "share_embedding"):
        config.tie_word_embeddings = bool(config.share_embedding)
    kind = kind or _named(config)
    model, report = kind.from_pretrained(
        name,
        config=config,
        revision=revision,
        dtype=dtype,
        use_safetensors=True,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
    )
    wrong = {
        "missing": report["missing_keys"],
        "unexpected": [k for k in report["unexpected_keys"] if not k.startswith(unused)],
        "of another shape": [str(key[0]) for key in report["mismatched_keys"]],
    }
    told = [
        f"{len(keys)} {what} ({', '.join(sorted(keys)[:3])})"
        for what, keys in wrong.items()
        if keys
    ]
    if told:
        raise ValueError(
            f"the weights of {name} do not fit {kind.__name__}: {'; '.join(told)}: load it as what "
            "it was saved as"
        )
    return model


def _named(config):
    names = config.architectures or []
    kind = getattr(transformers, names[0], None) if names else None
    if kind is None:
        raise ValueError(
            f"config.json names the architectures {names}, and transformers has none of these: "
            "say kind="
        )
    return kind
