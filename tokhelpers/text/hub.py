"""How documents (`str`) are read from data sets of the hub, as a stream."""

import os
import re
from collections.abc import Iterator

from ..tokenizer.files import reason
from .readers import field_of
from .sources import Source, source


@source("hf:ID[@CONFIG][@REVISION][#SPLIT]")
class HubData(Source):
    """A data set of the hub, streamed."""

    def provenance(self, split: str, column: str) -> tuple[str, str]:
        dataset, _, _ = hub_dataset(self.rest)
        address = f"https://huggingface.co/datasets/{dataset}"
        return f"see the data set's card, {address}", address

    def documents(self, reading) -> Iterator[str]:
        return read_hub(self.rest, reading.column, reading.errors)


def hub_dataset(name: str) -> tuple[str, str | None, dict[str, str]]:
    """ID, configuration, and split and revision by name, after checks without the network."""
    part = r"[A-Za-z0-9][\w.-]*"
    match = re.fullmatch(
        rf"({part}(?:/{part})?)(?:@([^@#]+)|@(?=@))?(?:@([^@#]+))?(?:#([^@#]+))?", name
    )
    if match is None:
        raise ValueError(
            f"hf:{name}: write hf:OWNER/NAME, hf:OWNER/NAME@CONFIG#SPLIT, hf:OWNER/NAME@@REVISION "
            "or the like"
        )
    dataset, config, revision, split = match.groups()
    if os.path.exists(dataset):
        raise ValueError(f"hf:{name}: the local path {dataset!r} would be read in its place")
    try:
        from datasets import __version__ as version
    except ImportError:
        version = "0"
    # From version 4 on, no code that comes with a data set is ever run.
    if int(version.partition(".")[0]) < 4:
        raise ImportError(f"hf:{name} needs datasets 4 or later: pip install 'tokhelpers[hub]'")
    options = {"split": split or "train"} | ({"revision": revision} if revision else {})
    return dataset, config, options


def read_hub(name: str, column: str, errors: str) -> Iterator[str]:
    """The field `column` of each row of a hub data set, streamed."""
    for number, row in enumerate(hub_rows(name), 1):
        try:
            text = field_of(row, column, errors)
        except ValueError as error:
            raise ValueError(f"{name}, row {number}: {error}") from None
        yield text


def hub_rows(name: str) -> Iterator[dict]:
    """The rows of a hub data set, streamed; ValueError or OSError in one sentence when it fails."""
    dataset, config, options = hub_dataset(name)
    import datasets

    # The hub's client has asked six times when it gives up; 20 such rounds would take half an hour.
    datasets.config.STREAMING_READ_MAX_RETRIES = datasets.config.STREAMING_OPEN_MAX_RETRIES = 1
    try:
        yield from datasets.load_dataset(dataset, config, streaming=True, **options)
    except Exception as error:  # the client's, the transport's or the file format's
        kind = ValueError if isinstance(error, ValueError) else OSError
        raise kind(
            f"hf:{name} cannot be read from the hub: {reason(error)}. Check the name and the "
            "connection, log in if it is gated (hf auth login), or give a local copy as jsonl:PATH "
            "or parquet:PATH"
        ) from None
