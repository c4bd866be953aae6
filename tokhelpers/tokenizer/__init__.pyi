from .formats import (
    save_sentencepiece as save_sentencepiece,
    tiktoken_merges as tiktoken_merges,
    to_tiktoken as to_tiktoken,
)
from .parts import (
    Parts as Parts,
    build_tokenizer as build_tokenizer,
    merge_ids as merge_ids,
    merge_skipping as merge_skipping,
    read_parts as read_parts,
    with_merge_skipping as with_merge_skipping,
)
from .pretokenization import (
    GPT_2 as GPT_2,
    GPT_4 as GPT_4,
    LLAMA_3 as LLAMA_3,
    QWEN as QWEN,
    TEKKEN as TEKKEN,
    cutting_rules as cutting_rules,
    library_cutter as library_cutter,
    token_text as token_text,
)
from .saving import save_pretrained as save_pretrained
from .segmentation import (
    merge_table as merge_table,
    segment as segment,
    symbols_of as symbols_of,
    token_counts as token_counts,
)
from .token_bytes import (
    byte_alphabet as byte_alphabet,
    ordinary_tokens as ordinary_tokens,
    raw_tokens as raw_tokens,
    token_strings as token_strings,
)
from .vendors import load_tokenizer as load_tokenizer, source_file as source_file
