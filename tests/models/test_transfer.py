"""Embedding transfer: rows by token, whatever the ids, the tying, the padding and the type."""

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, strategies as st
from strategies import LIKE_REAL, examples, loaded, one_fast, tokenizers_with_gaps
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

import tokhelpers as th
from tokhelpers.models.architectures import new_model
from tokhelpers.models.initialisation import INITS

pytestmark = pytest.mark.usefixtures("one_thread")
TEXT = ["the cat sat on the mat", "the bat and the rat", "a hat for the cat"] * 3
READ = ["hatter battery catalogue", "rattle the battery"]
SMALL = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 32, "num_key_value_heads": 2}
UNTIED = {"tie_word_embeddings": False}
KINDS = {
    "tied": ("small-llama", "causal-lm", {}),
    "untied": ("small-llama", "causal-lm", UNTIED),
    "bias": ("small-bert", "masked-lm", {}),
    "untied bias": ("small-bert", "masked-lm", UNTIED),
}


def a_model(kind, rows=282, dtype=torch.float32, **settings):
    """A small model whose every parameter is drawn, the bias too, which the library starts at 0."""
    architecture, head, extra = KINDS[kind]
    model = new_model(architecture, rows, head, seed=1, **SMALL, **extra, **settings)
    bias = getattr(model.get_output_embeddings(), "bias", None)
    if bias is not None:
        torch.nn.init.normal_(bias, generator=torch.Generator().manual_seed(2))
    return model.to(dtype).eval()


@pytest.fixture(scope="module")
def old() -> Tokenizer:
    tokenizer = th.train_byte_level_bpe(TEXT, vocab_size=280)
    tokenizer.add_special_tokens(["<|pad|>", "<|end|>"])
    return tokenizer


@pytest.fixture(scope="module")
def longer(old) -> Tokenizer:
    """With nine tokens more, of the ids 282 to 290."""
    return th.extend(old, th.continue_bpe(old, ["hatter battery catalogue rattle"] * 2, 9))


def with_added(tokenizer: Tokenizer, tokens: list) -> Tokenizer:
    new = Tokenizer.from_str(tokenizer.to_str())
    new.add_tokens(tokens)
    return new


def reordered(tokenizer: Tokenizer, seed: int = 0) -> Tokenizer:
    """The same tokenizer under other ids."""
    spec = th.TokenizerSpec.from_tokenizer(tokenizer)
    every = {**spec.vocab, **{t["content"]: t["id"] for t in spec.settings["added_tokens"]}}
    ids = np.random.default_rng(seed).permutation(max(every.values()) + 1)
    vocab = {token: int(ids[i]) for token, i in every.items()}
    made = Tokenizer(models.BPE(vocab, spec.pairs()))
    made.pre_tokenizer, made.decoder = tokenizer.pre_tokenizer, tokenizer.decoder
    made.add_special_tokens([t["content"] for t in spec.settings["added_tokens"]])
    assert made.get_vocab() == vocab
    return made


def logits(model, ids) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].float()


def rows_of(model) -> list[torch.Tensor]:
    head = model.get_output_embeddings()
    made = [model.get_input_embeddings().weight, head.weight]
    return [*made, head.bias[:, None]] if head.bias is not None else made


# --- copied rows ---------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("change", ["reordered", "pruned"])
def test_logits_of_kept_tokens_stay_whatever_their_ids(old, kind, dtype, change):
    order = th.pruning_order(old, [TEXT[0]], by="leaf-frequency")
    new = reordered(old) if change == "reordered" else th.prune(old, order, 9)
    before = a_model(kind, dtype=dtype)
    after = th.transfer_embeddings(before, old, new)
    there = th.id_map(old, new)
    ids = old.encode(TEXT[0]).ids
    assert len(there) == new.get_vocab_size()
    assert new.encode(TEXT[0]).ids == [there[i] for i in ids]
    was = logits(before, ids)[:, list(there)]
    now = logits(after, [there[i] for i in ids])[:, list(there.values())]
    assert torch.allclose(now, was, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", INITS)
def test_an_extended_model_keeps_every_old_row(old, longer, kind, init, tmp_path):
    before = a_model(kind)
    after = th.transfer_embeddings(before, old, longer, init=init, corpus=READ)
    for was, now in zip(rows_of(before), rows_of(after), strict=True):
        assert torch.equal(now[:282], was) and len(now) == 291
        if init == "mean":
            assert torch.allclose(now[282:], was.mean(0), rtol=1e-5, atol=1e-7)
        assert now[282:].any() == (init != "zero")
    tied = after.get_input_embeddings().weight is after.get_output_embeddings().weight
    assert tied == ("untied" not in kind)
    assert after.config.vocab_size == after.get_output_embeddings().out_features == 291
    after.save_pretrained(tmp_path)
    ids, again = longer.encode(TEXT[0]).ids, type(after).from_pretrained(tmp_path).eval()
    assert torch.equal(logits(again, ids), logits(after, ids))


# --- new rows ------------------------------------------------------------------------------------
@examples(50)
@given(tokenizers_with_gaps(), st.data())
def test_fvt_is_the_formula_row_by_row(base, data):
    words = data.draw(st.lists(st.text("abc", min_size=2, max_size=6), unique=True, max_size=8))
    words = [word for word in words if word not in base.get_vocab()]
    new = th.extend(base, th.Extension(tokens=words))
    before = a_model("untied", base.get_vocab_size())
    after = th.transfer_embeddings(before, base, new)
    for was, now in zip(rows_of(before), rows_of(after), strict=True):
        for token, i in new.get_vocab().items():
            own = base.token_to_id(token)
            pieces = [own] if own is not None else base.encode(token).ids
            expected = sum(was[p].double() for p in pieces) / len(pieces)
            assert torch.allclose(now[i].double(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3"))
def test_pieces_are_those_of_the_encoder(name):
    """On real tokenizers: what a token's text becomes in front of a word, where that is one token."""
    real = loaded(name)
    words = ["hepatosplenomegaly", "thrombocytopenia", "kalsarikännit"]
    start = "▁" if name == "mistral-v1" else "Ġ"
    alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    stored = [start + (w if start == "▁" else alphabet.pre_tokenize_str(w)[0][0]) for w in words]
    new = th.extend(real, th.Extension(tokens=stored))
    found = th.models.row_sources(real, new).set_index("token").pieces
    for word, token in zip(words, stored, strict=True):
        text = word if name == "mistral-v1" else " " + word
        assert list(found[token]) == real.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("kind, rows", [("tied", 282), ("untied", 320), ("untied bias", 320)])
def test_first_and_last_pieces(old, longer, kind, rows):
    """A tied table is the input's, and takes the last piece."""
    before = a_model(kind, rows)
    after = th.transfer_embeddings(before, old, longer, init="first-last")
    ends = [-1, *[-1 if kind == "tied" else 0] * 2]  # of the input table, the head, its bias
    pieces = th.models.row_sources(old, longer).pieces[282:291]
    for was, now, end in zip(rows_of(before), rows_of(after), ends, strict=False):
        assert torch.equal(now[282:291], was[[p[end] for p in pieces]])


@pytest.mark.parametrize("kind, rows", [("tied", 282), ("bias", 282), ("untied", 320)])
def test_rescaled_rows_are_as_far_from_the_mean_row_as_the_old_ones(old, longer, kind, rows):
    before = a_model(kind, rows)
    plain = rows_of(th.transfer_embeddings(before, old, longer))
    made = rows_of(th.transfer_embeddings(before, old, longer, rescale=True))
    tokens = plain[0][:282]
    mean = tokens.mean(0)
    median = (tokens - mean).norm(dim=1).median()
    new, fvt = made[0][282:291] - mean, plain[0][282:291] - mean
    assert torch.allclose(new, fvt * median / fvt.norm(dim=1, keepdim=True), rtol=1e-3, atol=1e-6)
    for was, now in zip(plain[1:], made[1:], strict=True):  # an untied head and a bias stay
        assert torch.equal(was, now) or was.shape[1] > 1 and "untied" not in kind


@pytest.mark.parametrize("kind, rows", [("tied", 282), ("untied bias", 320)])
@pytest.mark.parametrize("init", ["fvt", "normal"])
def test_a_row_may_be_that_of_a_named_token(old, longer, kind, rows, init):
    before, token = a_model(kind, rows), longer.id_to_token(285)
    plain = rows_of(th.transfer_embeddings(before, old, longer, init=init))
    like = {token: "Ġcat", longer.id_to_token(290): "<|end|>"}
    made = th.transfer_embeddings(before, old, longer, init=init, rows=like, rescale=True)
    for was, now, without in zip(rows_of(before), rows_of(made), plain, strict=True):
        assert torch.equal(now[285], was[old.token_to_id("Ġcat")])
        assert torch.equal(now[290], was[old.token_to_id("<|end|>")])
        assert torch.equal(now[:282], without[:282]) and not torch.equal(now[285], without[285])


@pytest.mark.parametrize("rows", [{"Ġcat": "a"}, {"nothing": "a"}, {"Ġhatter": "nothing"}])
def test_named_rows_of_other_tokens_are_refused(old, longer, rows):
    with pytest.raises(ValueError, match="rows maps new tokens to tokens of the old"):
        th.transfer_embeddings(a_model("tied"), old, longer, rows=rows)


@pytest.mark.parametrize("kind", ["tied", "untied"])
@pytest.mark.parametrize("padding", [0, 3])
def test_focus_takes_the_row_of_a_token_in_the_same_company(kind, padding):
    """`ab` stands where `c` stands and never beside what others stand beside: its row is c's."""
    vocab = {"a": 0, "b": 1, "c": 2, "x": 3, "y": 4, "z": 5, "Ġ": 6}
    old = Tokenizer(models.BPE(vocab, []))
    new = Tokenizer(models.BPE(vocab | {"ab": 7, "zz": 8}, [("a", "b"), ("z", "z")]))
    before, focus = a_model(kind, 7 + padding), {"init": "focus"}
    after = th.transfer_embeddings(before, old, new, **focus, corpus=["xc", "xab", "yz", "ya"])
    for was, now in zip(rows_of(before), rows_of(after), strict=True):
        assert torch.allclose(now[7], was[2], atol=1e-6)
        assert torch.allclose(now[8], was[5], atol=1e-6)  # not in the text: the mean of its pieces
    for corpus, message in (
        (None, "pass the text"),
        (["xc", "ya"], "no new token"),
        (["x"], "no two"),
    ):
        with pytest.raises(ValueError, match=message):
            th.transfer_embeddings(before, old, new, **focus, corpus=corpus)


def test_normal_has_the_mean_and_covariance_of_the_old_rows(old):
    """With many new tokens the sample's moments come near; in each direction, not only on average."""
    before = a_model("tied")
    with torch.no_grad():  # rows in a plane, far from the origin: a covariance of rank 2
        table = before.get_input_embeddings().weight
        table[:, 2:] = 5 + table[:, :1] - 2 * table[:, 1:2]
    new = with_added(old, [f"word{i}" for i in range(2_000)])
    made = th.transfer_embeddings(before, old, new, init="normal").get_input_embeddings().weight
    was, now = table.detach().double(), made[282:].detach().double()
    near = 4 * float(was.std(0).max()) / len(now) ** 0.5
    assert torch.allclose(now.mean(0), was.mean(0), atol=near)
    spread = torch.cov(was.T)
    assert torch.allclose(torch.cov(now.T), spread, atol=0.15 * float(spread.abs().max()))
    # no draw leaves the plane
    assert torch.allclose(now[:, 2], 5 + now[:, 0] - 2 * now[:, 1], atol=1e-4)


def test_parts_of_words_in_wordpiece_are_cut_as_parts():
    vocab = ["[UNK]", "car", "##dio", "##d", "##io", "d", "dio", "##pa", "##th", "##y"]
    old = Tokenizer(models.WordPiece({t: i for i, t in enumerate(vocab)}, unk_token="[UNK]"))
    old.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    new = th.extend(old, th.Extension(tokens=["##diopathy", "dioxy", "cardio", "##dioq"]))
    found = th.models.row_sources(old, new).set_index("token").pieces
    names = {token: [vocab[i] for i in found[token]] for token in found.index[len(vocab) :]}
    assert names == {
        "##diopathy": ["##dio", "##pa", "##th", "##y"],
        "dioxy": ["[UNK]"],
        "cardio": ["car", "##dio"],
        "##dioq": ["[UNK]"],
    }


def test_an_added_token_is_cut_as_text(old):
    new = with_added(old, [AddedToken("<|the cat|>", special=True)])
    pieces = th.models.row_sources(old, new).pieces.iloc[-1]
    assert [old.id_to_token(i) for i in pieces] == old.encode("<|the cat|>").tokens
    assert len(pieces) > 3


def test_a_token_without_pieces_takes_the_mean():
    old = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    new = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "é": 3}, [("a", "b")]))
    with pytest.warns(UserWarning, match="1 new tokens, first 'é', have no piece"):
        made = rows_of(th.transfer_embeddings(a_model("tied", 3), old, new))[0]
    assert torch.allclose(made[3], made[:3].mean(0), rtol=1e-5, atol=1e-7)


# --- padding, ids, copies ------------------------------------------------------------------------
@pytest.mark.parametrize("kind, padding", [("bias", 38), ("untied", 1_069)])  # as gpt-oss has
def test_a_padded_table_keeps_its_padding(old, longer, kind, padding):
    before = a_model(kind, 282 + padding)
    after = th.transfer_embeddings(before, old, longer, max_padding=padding)
    for was, now in zip(rows_of(before), rows_of(after), strict=True):
        # what stood first without a token still does
        assert torch.equal(now[:282], was[:282]) and torch.equal(now[291:], was[282:-9])


@pytest.mark.parametrize(
    "rows, tokens, new_rows",
    [(282, 291, 291), (320, 291, 320), (320, 382, 384), (288, 321, 352), (448, 262, 320)],
)
def test_sizes_of_the_new_table(old, rows, tokens, new_rows):
    if tokens < 282:
        new = th.prune(old, th.pruning_order(old, by="leaf-id"), 282 - tokens)
    else:
        new = with_added(old, [f"word{i}" for i in range(tokens - 282)])
    plan = th.plan_transfer(a_model("tied", rows), old, new)
    assert (plan.tokens, plan.new_rows) == (tokens, new_rows)
    assert plan.new_padding == new_rows - tokens and plan.padding == rows - 282
    assert plan.new_ids == list(range(282, tokens))


def test_ids_without_a_token_inside_the_vocabulary(old):
    spec = th.TokenizerSpec.from_tokenizer(old)
    vocab = {t: i + 5 if i > 270 else i for t, i in spec.vocab.items()}  # a hole of five ids
    new = Tokenizer(models.BPE(vocab, spec.pairs()))
    new.pre_tokenizer, new.decoder = old.pre_tokenizer, old.decoder
    before = a_model("tied")
    plan = th.plan_transfer(before, old, new)
    made = rows_of(th.transfer_embeddings(before, old, new))[0]
    assert plan.new_padding == 5 and plan.dropped == 2
    mean = rows_of(before)[0].mean(0)
    assert torch.allclose(made[271:276], mean.expand(5, -1), rtol=1e-5, atol=1e-7)


def test_configured_ids_follow_their_tokens(old):
    new = reordered(old, seed=3)
    pad, end = (old.token_to_id(t) for t in ("<|pad|>", "<|end|>"))
    before = a_model("tied", pad_token_id=pad, eos_token_id=[end, pad])
    before.generation_config.eos_token_id = end
    after = th.transfer_embeddings(before, old, new)
    assert after.config.pad_token_id == new.token_to_id("<|pad|>") != pad
    assert after.config.eos_token_id == [new.token_to_id(t) for t in ("<|end|>", "<|pad|>")]
    assert after.generation_config.eos_token_id == new.token_to_id("<|end|>")
    assert after.get_input_embeddings().padding_idx == after.config.pad_token_id
    assert (before.config.pad_token_id, before.get_input_embeddings().padding_idx) == (pad, pad)
    without = th.train_byte_level_bpe(TEXT, vocab_size=280)
    with pytest.warns(UserWarning, match=r"names \['<\|end\|>', '<\|pad\|>'\], which the new"):
        after = th.transfer_embeddings(before, old, without)
    assert after.config.pad_token_id is None and after.get_input_embeddings().padding_idx is None


def test_the_old_model_is_left_alone_unless_told(old, longer):
    before = a_model("bias")
    copies = [p.clone() for p in before.parameters()]
    th.transfer_embeddings(before, old, longer)
    assert all(torch.equal(p, q) for p, q in zip(before.parameters(), copies, strict=True))
    assert before.config.vocab_size == 282
    assert th.transfer_embeddings(before, old, longer, inplace=True) is before
    assert before.config.vocab_size == len(before.get_input_embeddings().weight) == 291


@pytest.mark.parametrize("kind", KINDS)
def test_a_pruned_model_trains_on(old, kind):
    """Gradients of the old size go, and the padding id follows its token, also beyond the new size."""
    pad = old.token_to_id("<|pad|>")
    model = a_model(kind, pad_token_id=pad)
    ids = torch.tensor([old.encode(TEXT[0]).ids])
    model(input_ids=ids, labels=ids).loss.backward()
    new = th.prune(old, th.pruning_order(old, [TEXT[0]], by="leaf-frequency"), 9)
    th.transfer_embeddings(model, old, new, inplace=True)
    table = model.get_input_embeddings()
    assert table.padding_idx == new.token_to_id("<|pad|>") < len(table.weight) <= pad
    ids = torch.tensor([new.encode(TEXT[0]).ids])
    model(input_ids=ids, labels=ids).loss.backward()
    torch.optim.AdamW(model.parameters()).step()
    assert all(p.grad.shape == p.shape for p in model.parameters() if p.grad is not None)


def test_a_bias_apart_from_the_head(old, longer):
    """BART's is a buffer beside the head."""
    small = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
    config = transformers.BartConfig(vocab_size=282, **small, forced_eos_token_id=1)
    before = transformers.BartForConditionalGeneration(config).eval()
    torch.nn.init.normal_(before.final_logits_bias)
    after = th.transfer_embeddings(before, old, longer)
    assert th.plan_transfer(before, old, longer).head_bias
    bias = before.final_logits_bias[0]
    assert torch.equal(after.final_logits_bias[0, :282], bias)
    pieces = th.models.row_sources(old, longer).pieces[290]
    assert torch.allclose(after.final_logits_bias[0, 290], bias[list(pieces)].mean())
    ids = torch.tensor([longer.encode(TEXT[0]).ids])
    assert after(input_ids=ids, decoder_input_ids=ids).logits.shape[-1] == 291


# --- bad input -----------------------------------------------------------------------------------
@pytest.mark.parametrize("function", [th.plan_transfer, th.transfer_embeddings])
def test_a_tokenizer_that_is_not_the_models(old, longer, function):
    with pytest.raises(ValueError, match=r"IDs up to 281, the model's embedding table 281 rows"):
        function(a_model("tied", 281), old, longer, max_padding=None)
    with pytest.raises(ValueError, match="has 282 tokens.*pass the tokenizer .* max_padding="):
        function(a_model("tied", 282 + 1_025), old, longer)


def test_no_output_head(old, longer):
    model = new_model("small-bert", 282, "none", **SMALL)
    assert th.plan_transfer(model, old, longer)["head"] == "none"
    after = th.transfer_embeddings(model, old, longer)
    assert len(after.get_input_embeddings().weight) == 291


def test_other_mistakes(old, longer, mistral):
    model = a_model("untied")
    with pytest.raises(ValueError, match="stores tokens as characters, the old one as bytes"):
        th.transfer_embeddings(model, old, mistral)
    with pytest.raises(TypeError, match="a tokenizer is needed, got int"):
        th.transfer_embeddings(model, 3, longer)
    table = model.get_input_embeddings()
    whole = table.weight.data
    table.weight.data = whole.index_fill(0, torch.tensor([7]), torch.nan)
    with pytest.raises(ValueError, match="1 embeddings of the model are not finite, first ID 7"):
        th.transfer_embeddings(model, old, longer)
    table.weight = torch.nn.Parameter(whole.to(torch.int8), requires_grad=False)
    with pytest.raises(ValueError, match="int8 cannot be averaged: load an unquantised model"):
        th.transfer_embeddings(model, old, longer)
    table.weight = torch.nn.Parameter(whole)
    model.set_output_embeddings(torch.nn.Linear(24, 290, bias=False))
    with pytest.raises(ValueError, match="table has 282 rows, the output head 290"):
        th.transfer_embeddings(model, old, longer)


def test_positions_that_hang_on_the_padding_id(old):
    config = transformers.RobertaConfig(vocab_size=282, **SMALL)
    model = transformers.RobertaForMaskedLM(config)
    with pytest.raises(ValueError, match="counts positions from the ID of '\"', 1"):
        th.transfer_embeddings(model, old, reordered(old))


@pytest.mark.parametrize("name", ["truncating", "padding", "dropout"])
def test_rows_are_those_of_whole_tokens_without_chance(name):
    base, plain = LIKE_REAL[name](), LIKE_REAL["truncating"]()
    plain.no_truncation()
    new = th.extend(base, th.Extension(tokens=["hypercholesterol", "Ġphenotypes"]))
    new.add_tokens(["hypercholesterolemia is a phenotype"])
    found = [th.models.row_sources(old, new).pieces.tail(3).tolist() for old in (plain, base, base)]
    assert found[0] == found[1] == found[2]
    assert all(len(pieces) > 2 for pieces in found[0])


def test_every_field_of_ids_follows_its_tokens():
    old = th.train_byte_level_bpe(["bat bat bag tag"], vocab_size=260)
    new = th.prune(old, ["ag", "tag"], 1) if "ag" in old.get_vocab() else old
    gone, moved = old.token_to_id("ag"), old.token_to_id("tag")
    model = th.new_model("small-llama", 260, "causal-lm", hidden_size=6)
    generation = model.generation_config
    generation.suppress_tokens, generation.begin_suppress_tokens = [gone, moved, 5], [gone]
    generation.bad_words_ids = [[moved], [5, moved], [gone, 5]]
    generation.sequence_bias = [[[moved], -1.0], [[gone], 2.0]]
    generation.forced_bos_token_id = moved
    generation.forced_decoder_ids = [[1, moved]]
    model.config.image_token_index = moved
    with pytest.warns(UserWarning, match=r"configuration names \['ag'\]"):
        changed = th.transfer_embeddings(model, old, new)
    after, i = changed.generation_config, new.token_to_id("tag")
    assert i == moved - 1
    assert (after.suppress_tokens, after.begin_suppress_tokens) == ([i, 5], None)
    assert after.bad_words_ids == [[i], [5, i]] and after.sequence_bias == [[[i], -1.0]]
    assert after.forced_bos_token_id == changed.config.image_token_index == i
    assert after.forced_decoder_ids == [[1, i]] and generation.suppress_tokens == [gone, moved, 5]


def test_ids_far_beyond_the_tokens_are_refused():
    old = th.train_byte_level_bpe(["bat bat"], vocab_size=257)
    vocab = old.get_vocab()
    for largest in (20_000_000, 2**32 - 1):
        new = Tokenizer(models.BPE(vocab | {"new": largest}, []))
        new.pre_tokenizer = old.pre_tokenizer
        model = th.new_model("small-llama", 257, device="meta")
        for call in (th.plan_transfer, th.transfer_embeddings):
            with pytest.raises(ValueError, match=f"the largest ID is {largest:,}"):
                call(model, old, new)
