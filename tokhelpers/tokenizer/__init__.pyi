__all__ = [
    "GPT_2",
    "LLAMA_3",
    "Parts",
    "QWEN",
    "TEKKEN",
    "all_splits",
    "build_tokenizer",
    "byte_alphabet",
    "cutting_rules",
    "library_cutter",
    "load_tokenizer",
    "merge_ids",
    "merge_skipping",
    "merge_table",
    "read_parts",
    "save_pretrained",
    "save_sentencepiece",
    "segment",
    "source_file",
    "symbols_of",
    "tiktoken_merges",
    "to_tiktoken",
    "token_counts",
    "token_strings",
    "token_text",
    "with_merge_skipping",
]

from .parts import (
    Parts as Parts,
)
from .parts import (
    all_splits as all_splits,
)
from .parts import (
    build_tokenizer as build_tokenizer,
)
from .parts import (
    merge_ids as merge_ids,
)
from .parts import (
    merge_skipping as merge_skipping,
)
from .parts import (
    read_parts as read_parts,
)
from .parts import (
    with_merge_skipping as with_merge_skipping,
)
from .pretokenization import (
    GPT_2 as GPT_2,
)
from .pretokenization import (
    LLAMA_3 as LLAMA_3,
)
from .pretokenization import (
    QWEN as QWEN,
)
from .pretokenization import (
    TEKKEN as TEKKEN,
)
from .pretokenization import (
    cutting_rules as cutting_rules,
)
from .pretokenization import (
    library_cutter as library_cutter,
)
from .pretokenization import (
    token_text as token_text,
)
from .saving import save_pretrained as save_pretrained
from .segmentation import (
    merge_table as merge_table,
)
from .segmentation import (
    segment as segment,
)
from .segmentation import (
    symbols_of as symbols_of,
)
from .segmentation import (
    token_counts as token_counts,
)
from .sentencepiece_files import save_sentencepiece as save_sentencepiece
from .tiktoken_files import tiktoken_merges as tiktoken_merges
from .tiktoken_files import to_tiktoken as to_tiktoken
from .token_bytes import byte_alphabet as byte_alphabet
from .token_bytes import token_strings as token_strings
from .vendors import load_tokenizer as load_tokenizer
from .vendors import source_file as source_file
