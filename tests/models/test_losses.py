"""Loss per byte of a causal model, and the IDs that stand around a text."""

import pytest
import torch
import transformers
from tokenizers import processors

import tokhelpers as th
from tokhelpers.models import encode_texts, loss_per_byte, losses, new_model
from tokhelpers.models.losses import start_id

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 64}
TEXTS = ["the cat sat on the mat", "a bat ate the rat", "the hat is on the cat", "rats at bats"]
SPECIAL = ["<end>", "[MASK]"]

pytestmark = pytest.mark.usefixtures("one_thread")


def small(vocab_size=280, head="causal-lm", **settings):
    return new_model("small-llama", vocab_size, head, **{**SMALL, **settings})


@pytest.fixture(scope="module")
def tokenizer():
    return th.train_byte_level_bpe(TEXTS, vocab_size=275, special_tokens=SPECIAL)


def framed_by(tokenizer, template: str):
    """The same tokenizer, which puts special tokens around a text."""
    framed = tokenizer.from_str(tokenizer.to_str())
    special = [(name, framed.token_to_id(name)) for name in SPECIAL]
    framed.post_processor = processors.TemplateProcessing(template, special_tokens=special)
    return framed


def test_encode_puts_and_cuts_nothing(tokenizer):
    plain = [tokenizer.encode(text).ids for text in TEXTS]
    dressed = framed_by(tokenizer, "<end> $A <end>")
    dressed.enable_truncation(4)
    dressed.enable_padding(length=30)
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=dressed)
    for same in (tokenizer, dressed, wrapped):
        assert encode_texts(same, iter(TEXTS)) == plain
    assert dressed.truncation and dressed.padding
    adapted = th.AdaptBPE(tokenizer, ["Ġbats"])
    assert encode_texts(adapted, TEXTS) == [adapted.ids(text) for text in TEXTS] != plain
    with pytest.raises(TypeError, match="texts is a single string, 'the cat': pass a list"):
        encode_texts(tokenizer, "the cat")
    with pytest.raises(ValueError, match="texts is empty"):
        encode_texts(tokenizer, [])


def test_what_stands_before_a_text(tokenizer):
    end, mask = map(tokenizer.token_to_id, SPECIAL)
    assert start_id(tokenizer, "[MASK]") == mask
    assert start_id(tokenizer, 5) == 5
    with pytest.raises(ValueError, match=r"pass separator=.*<end>, \[MASK\]"):
        start_id(tokenizer)
    with pytest.raises(ValueError, match="no token '<pad>'"):
        start_id(tokenizer, "<pad>")
    assert start_id(framed_by(tokenizer, "[MASK] <end> $A")) == end
    assert start_id(framed_by(tokenizer, "<end> [MASK] $A <end>")) == mask
    assert start_id(framed_by(tokenizer, "$A <end>")) == end
    one = th.train_byte_level_bpe(["a"], vocab_size=257, special_tokens=["<end>"])
    assert start_id(one) == one.token_to_id("<end>")
    with pytest.raises(ValueError, match="it has none"):
        start_id(th.train_byte_level_bpe(["a"], vocab_size=256))


@pytest.mark.parametrize("places", [40, 8_192])
def test_loss_per_byte_by_the_library(tokenizer, monkeypatch, places):
    monkeypatch.setattr(losses, "MAX_POSITIONS", places)
    model = small().eval()
    end, total = tokenizer.token_to_id("<end>"), 0.0
    for ids in encode_texts(tokenizer, TEXTS):
        row = torch.tensor([[end, *ids]])
        with torch.no_grad():
            total += model(input_ids=row, labels=row).loss.item() * len(ids)
    found = loss_per_byte(model, tokenizer, TEXTS, separator="<end>")
    assert found == pytest.approx(total / sum(map(len, TEXTS)), rel=1e-5)
    with pytest.raises(ValueError, match="all empty"):
        loss_per_byte(model, tokenizer, [""], separator="<end>")
    with pytest.raises(ValueError, match="example 0 has ID .* has 250 rows, 0 to 249"):
        loss_per_byte(small(250), tokenizer, TEXTS, separator="<end>")


def test_what_loss_per_byte_refuses(tokenizer):
    for head in ("none", "text-classification"):
        with pytest.raises(ValueError, match="no head for this task: .* with AutoModelForCausalLM"):
            loss_per_byte(small(head=head), tokenizer, TEXTS, separator="<end>")
    with pytest.raises(ValueError, match="length=65 exceeds the model's 64 positions"):
        loss_per_byte(small(), tokenizer, TEXTS, length=65, separator="<end>")
