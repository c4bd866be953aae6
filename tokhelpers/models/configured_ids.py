"""The IDs of tokens that a model's configurations hold, with the IDs of another tokenizer."""

import warnings

from ..tokenizer.encoder import Encoder

SETS = ("suppress_tokens", "begin_suppress_tokens")  # a token that is gone is not generated anyway
SEQUENCES = ("bad_words_ids", "force_words_ids")  # nested lists of IDs
ROLES = ("_token_id", "_token_index")  # endings of names whose value is one ID or several


class RenumberedConfigs:
    """Moves the IDs in configurations from one tokenizer to another.

    ``missing`` collects the tokens in them that the new tokenizer lacks.
    """

    def __init__(self, old: Encoder, new: Encoder):
        self.tokens, self.missing = old.all_tokens, set()
        self._new_id = {i: new.all_ids.get(token) for i, token in self.tokens.items()}

    def renumber(self, config) -> None:
        """Replace the IDs of a model's or a generation configuration, in place."""
        for name, value in list(vars(config).items()):
            if value is None or isinstance(value, bool | str):
                continue
            if name.endswith(ROLES) and isinstance(value, int | list):
                value = self._roles(value)
            elif name in SETS:
                value = [i for i in map(self._moved, value) if i is not None] or None
            elif name in SEQUENCES:
                value = self._sequences(value)
            elif name == "sequence_bias":
                value = self._biases(value)
            elif name == "forced_decoder_ids":  # pairs of a position and an ID
                pairs = [(position, self._sequence(i)) for position, i in value]
                value = [[position, i] for position, i in pairs if i is not None] or None
            else:
                continue
            setattr(config, name, value)

    def _moved(self, i: int | None) -> int | None:
        """The new ID of a token; an ID that the old tokenizer lacks stays; None if the token is gone."""
        return self._new_id.get(i, i)

    def _roles(self, value: int | list[int]) -> int | list[int] | None:
        ids = value if isinstance(value, list) else [value]
        self.missing |= {self.tokens[i] for i in ids if self._moved(i) is None}
        kept = [new for i in ids if (new := self._moved(i)) is not None]
        return (kept or None) if value is ids else next(iter(kept), None)

    def _sequence(self, ids):
        """Nested IDs, moved; None if one of the tokens is gone."""
        if not isinstance(ids, list | tuple):
            if (new := self._moved(ids)) is None and ids is not None:
                self.missing.add(self.tokens[ids])
            return new
        moved = [self._sequence(i) for i in ids]
        return None if None in moved else type(ids)(moved)

    def _sequences(self, value: list) -> list | None:
        return [ids for ids in map(self._sequence, value) if ids is not None] or None

    def _biases(self, value: dict | list) -> dict | list | None:
        """Biases of sequences: a mapping from tuples of IDs, or pairs of a list of IDs and its bias."""
        pairs = value.items() if isinstance(value, dict) else value
        moved = [(self._sequence(ids), bias) for ids, bias in pairs]
        kept = [(ids, bias) for ids, bias in moved if ids is not None]
        return (dict(kept) if isinstance(value, dict) else [[*pair] for pair in kept]) or None


def update_configured_ids(model, old: Encoder, new: Encoder) -> None:
    """Replace the IDs in a model's configurations by the new tokenizer's; warn of missing tokens."""
    renumbered = RenumberedConfigs(old, new)
    text_config = model.config.get_text_config()
    configs = (model.config, text_config, getattr(model, "generation_config", None))
    for config in {id(c): c for c in configs if c is not None}.values():
        renumbered.renumber(config)
    table = model.get_input_embeddings()
    if table.padding_idx is not None:
        table.padding_idx = text_config.pad_token_id
    if missing := sorted(renumbered.missing):
        warnings.warn(
            f"the model's configuration names {missing}, which the new tokenizer lacks: these "
            "settings are now empty; set them by hand",
            stacklevel=3,
        )
