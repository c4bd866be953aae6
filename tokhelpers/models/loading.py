"""Models from a folder or the hub, whole: every weight in its place, safetensors only."""

import os

import transformers


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

    ``kind`` is a class of ``transformers`` (default: the one that the configuration names); with
    ``config`` another configuration than the stored one can be given, and with ``dtype`` another
    type than that of the stored weights. Weights are read from safetensors files only; no code of
    the folder is run. Raises ValueError for weights that are missing, unexpected or of another
    shape, but for unexpected ones that begin as one of ``unused``; OSError for a folder without
    safetensors files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     th.new_model("small-llama", 300).save_pretrained(folder)
    ...     len(load_model(folder).get_input_embeddings().weight)
    300
    """
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
