from .merges import learn_vocabulary as learn_vocabulary
from .parity import train_parity_bpe as train_parity_bpe
from .trainers import (
    train_byte_level_bpe as train_byte_level_bpe,
    train_sentencepiece_bpe as train_sentencepiece_bpe,
    train_unigram as train_unigram,
    train_wordpiece as train_wordpiece,
)
