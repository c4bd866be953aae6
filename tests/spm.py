"""Models that sentencepiece's own trainer makes, for the tests that compare with it."""

import io

import sentencepiece


def train_spm(lines, vocab_size: int, **options) -> bytes:
    """A SentencePiece model, by default BPE of unchanged text, as the bytes of its file."""
    model = io.BytesIO()
    options = {"model_type": "bpe", "normalization_rule_name": "identity"} | options
    options = {"character_coverage": 1.0, "hard_vocab_limit": False, "minloglevel": 2} | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=vocab_size, **options
    )
    return model.getvalue()


def processor_of(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)
