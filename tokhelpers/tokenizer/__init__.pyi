from .formats import (
    save_sentencepiece as save_sentencepiece,
    tiktoken_merges as tiktoken_merges,
    to_tiktoken as to_tiktoken,
)
from .library import (
    cutting_rules as cutting_rules,
    read_parts as read_parts,
    token_counts as token_counts,
    with_merge_skipping as with_merge_skipping,
)
from .parts import (
    Parts as Parts,
    build_tokenizer as build_tokenizer,
    merge_ids as merge_ids,
)
from .pretokenization import (
    GPT_2 as GPT_2,
    GPT_4 as GPT_4,
    LLAMA_3 as LLAMA_3,
    QWEN as QWEN,
    TEKKEN as TEKKEN,
    library_cutter as library_cutter,
)
from .saving import save_pretrained as save_pretrained
from .segmentation import (
    merge_table as merge_table,
    segment as segment,
    symbols_of as symbols_of,
)
from .token_bytes import (
    byte_alphabet as byte_alphabet,
    token_strings as token_strings,
)
from .vendors import load_tokenizer as load_tokenizer, source_file as source_file
