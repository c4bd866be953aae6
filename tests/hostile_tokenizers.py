"""Random small tokenizers: added tokens with any flags, byte fallback with missing bytes, odd merges.

What counts, learns, extends and prunes must agree with the library, or refuse the tokenizer by name.
"""

import warnings
from contextlib import suppress

from hypothesis import strategies as st
from strategies import PIPELINES, added_tokens, texts_of_pieces
from tokenizers import Tokenizer, models

import tokhelpers as th
from tokhelpers.tokenizer.library_encoder import open_tokenizer
from tokhelpers.tokenizer.token_bytes import BYTE_TOKENS, byte_alphabet

LETTERS = "abcfnox1.<>▁"
METHODS = ("append", "prepend", "regenerate", "add_tokens")


@st.composite
def bpe_models(draw, pipeline: str):
    """BPE with some splits of a few tokens as merges, and any options."""
    letters = byte_alphabet() if pipeline in ("GPT-2", "Qwen") else LETTERS
    tokens = draw(st.lists(st.text("abf▁" if "▁" in letters else "abfĠ", min_size=2, max_size=4)))
    byte_tokens = draw(st.lists(st.sampled_from([BYTE_TOKENS[b] for b in "é!".encode()])))
    vocab = dict.fromkeys(["<unk>", *byte_tokens, *letters, *tokens])
    vocab = {token: i for i, token in enumerate(vocab)}
    pairs = [(t[:k], t[k:]) for t in tokens for k in range(1, len(t))]
    pairs = list(dict.fromkeys(pair for pair in pairs if set(pair) <= vocab.keys()))
    merges = draw(st.permutations(pairs))[: draw(st.integers(0, len(pairs)))]
    flags = ("byte_fallback", "fuse_unk", "ignore_merges")
    options = draw(st.fixed_dictionaries(dict.fromkeys(flags, st.booleans())))
    return models.BPE(vocab, merges, unk_token="<unk>", **options)


@st.composite
def random_tokenizers(draw):
    """A tokenizer with a random model, a pipeline of those that people have, and added tokens."""
    pipeline = draw(st.sampled_from(list(PIPELINES)))
    tokenizer = Tokenizer(draw(bpe_models(pipeline)))
    tokenizer.normalizer, tokenizer.pre_tokenizer = PIPELINES[pipeline]
    if draw(st.booleans()):
        tokenizer.add_tokens(draw(added_tokens()))
    return tokenizer


def agrees_with_library(tokenizer: Tokenizer, texts: list[str]) -> None:
    """The encoder's IDs and the number of tokens of a text are the library's."""
    expected = [tokenizer.encode(text).ids for text in texts]
    assert open_tokenizer(tokenizer).ids_batch(texts) == expected
    if any(not text.isspace() for text in texts):
        assert th.evaluate(tokenizer, texts).tokens == sum(map(len, expected))


def hold_against_library(tokenizer: Tokenizer, texts: list[str]) -> None:
    """Encode, continue, extend by every method, and prune."""
    with suppress(ValueError), warnings.catch_warnings(action="ignore"):  # what is refused by name
        _ = open_tokenizer(tokenizer).pretokenizer_config
        agrees_with_library(tokenizer, texts)
        extension = th.continue_bpe(tokenizer, texts, 4)
        for how in METHODS:
            extended = th.extend(tokenizer, extension, how=how)
            agrees_with_library(extended, texts)
            spec = th.TokenizerSpec.from_tokenizer(tokenizer)
            table = th.evaluate_sizes(spec, {how: (extension, how)}, [len(extension.tokens)], texts)
            assert table.tokens[0] == th.evaluate(extended, texts).tokens
            if how == "append":
                assert th.unreachable_tokens(extended, extension.tokens) == []
        table = th.reachability(tokenizer)
        for i, example in table.example.dropna().items():
            assert i in tokenizer.encode(example).ids, (i, example)
        order = th.pruning_order(tokenizer, texts, by="leaf-frequency")
        agrees_with_library(th.prune(tokenizer, order, len(order) // 2), texts)


TARGETS = {
    "tokenizers: random BPE": (
        st.tuples(random_tokenizers(), st.lists(texts_of_pieces, min_size=1, max_size=3)),
        hold_against_library,
    )
}
