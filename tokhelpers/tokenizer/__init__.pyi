from .formats import save_sentencepiece as save_sentencepiece
from .library_encoder import (
    count_tokens as count_tokens,
    pretokenizer_config_of as pretokenizer_config_of,
    with_merge_skipping as with_merge_skipping,
)
from .merge_rows import merge_ids as merge_ids
from .patterns import (
    GPT_2 as GPT_2,
    GPT_4 as GPT_4,
    LLAMA_3 as LLAMA_3,
    QWEN as QWEN,
    TEKKEN as TEKKEN,
)
from .pretokenization import (
    Pretokenizer as Pretokenizer,
    pretokenizer as pretokenizer,
)
from .saving import save_pretrained as save_pretrained
from .segmentation import (
    initial_ids as initial_ids,
    merge_table as merge_table,
    segment as segment,
)
from .spec import TokenizerSpec as TokenizerSpec
from .superwords import with_superwords as with_superwords
from .tiktoken_format import (
    tiktoken_merges as tiktoken_merges,
    to_tiktoken as to_tiktoken,
)
from .token_bytes import (
    byte_alphabet as byte_alphabet,
    token_strings as token_strings,
)
from .vendors import load_tokenizer as load_tokenizer, source_file as source_file
