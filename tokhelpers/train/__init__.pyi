from .merges import learn_vocabulary as learn_vocabulary
from .trainers import (
    train_byte_level_bpe as train_byte_level_bpe,
    train_sentencepiece_bpe as train_sentencepiece_bpe,
    train_unigram as train_unigram,
    train_wordpiece as train_wordpiece,
)
