"""What a vocabulary costs in training: parameters, and the modelled memory of a step."""

import weakref
from collections import Counter

import pandas as pd
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..tokenizer.checks import positive
from .architectures import configuration, dtype_of, new_model

KINDS = ["weights", "gradients", "adamw", "activations", "logits"]


def parameter_count(architecture, vocab_size: int, head: str) -> int:
    """Count a model's parameters, a tied head's once.

    Arguments and errors are those of ``new_model``; the model is built without memory. Text
    classification has two labels unless a configuration says otherwise. Source: thesis, Table 9.

    >>> parameter_count("SmolLM2-135M", 49_152, "causal-lm")
    134515008
    """
    return new_model(architecture, vocab_size, head, device="meta").num_parameters()


def training_memory(
    architecture, vocab_size: int, *, head: str, batch: int, length: int, dtype: str = "bfloat16"
) -> pd.Series:
    """Model the memory of one training step, in bytes, at the moment when most of it is in use.

    The step is forward, backward and a fused AdamW on ``batch`` sequences of ``length`` tokens, with
    weights, gradients and AdamW's two averages in ``dtype`` ("bfloat16" or "float32"). It is run
    with tensors that have shapes and no memory; each is counted from when it is made until it is
    freed. "logits" is what lives between the language-model head and its gradient: scores over the
    vocabulary in ``dtype`` and, where the library's loss wants them, in float32. "activations" is
    the rest, temporary tensors included; "total" is the sum.

    The total is what torch's allocator gives out on a CPU, to one in ten thousand. Not modelled:
    work space inside kernels, the allocator's fragments and caches, and the libraries themselves.
    Attention has no dropout here, so that it is fused and never writes its square matrix; other
    dropout masks are kept in ``dtype``, as on a CPU (a GPU keeps bytes). Raises ValueError as
    ``parameter_count`` does, and for a length beyond the model's positions, a head without a loss,
    or an unknown dtype.

    >>> bill = training_memory("small-llama", 1_000, head="causal-lm", batch=2, length=64)
    >>> float(bill.adamw / parameter_count("small-llama", 1_000, "causal-lm"))
    4.0
    """
    config = trainable(architecture, vocab_size, head, batch, length)
    model = new_model(config, head=head, device="meta").to(dtype_of(dtype)).train()
    ledger = Ledger()
    # what is made in this mode has shapes and takes no memory
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device="cpu").tie_weights()
        optimiser = [torch.empty_like(p) for p in model.parameters() for _ in "mv"]
        ledger.enter("weights", [*model.parameters(), *model.buffers()])
        ledger.enter("adamw", optimiser)
        ledger.enter_gradients_of(model)
        ledger.enter_logits_of(model)
        inputs = inputs_for(config, head, batch, length, "cpu")
        with ledger:  # enters all that is made, and strikes out what is freed
            loss = model(**inputs).loss
            ledger.table = model.get_input_embeddings().weight.numel()
            loss.backward()
    bill = {kind: ledger.peak[kind] for kind in KINDS}
    return pd.Series({**bill, "total": sum(bill.values())}, name="bytes")


class Ledger(TorchDispatchMode):
    """The bytes that are alive, by kind, and what they were at the peak."""

    def __init__(self):
        super().__init__()
        self.now = "activations"  # the kind of what is made now
        self.table = 0  # elements of the embedding table, once the backward pass has begun
        self.kinds, self.alive, self.peak = {}, Counter(), Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        whole = False
        for tensor in filter(torch.is_tensor, tree_leaves(made)):
            # gradients of a tied table are whole before autograd hands over their sum
            whole = tensor.dim() == 2 and tensor.numel() == self.table
            self.add(tensor, "gradients" if whole else self.now, new=True)
        # autograd adds gradients of activations in place, but not while somebody looks on
        in_place = self.table and function is torch.ops.aten.add.Tensor and not whole
        if not in_place and self.alive.total() > self.peak.total():
            self.peak = self.alive.copy()
        return made

    def add(self, tensor, kind, new=False):
        """Enter a tensor's memory under a kind; memory known already changes its kind or stays."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self.kinds:
            weakref.finalize(storage, self.free, key, size).atexit = False
        elif new:
            return
        else:
            self.alive[self.kinds[key]] -= size
        self.kinds[key] = kind
        self.alive[kind] += size

    def free(self, key, size):
        """Strike out memory that is freed."""
        self.alive[self.kinds.pop(key)] -= size

    def enter(self, kind, tensors):
        """Enter tensors that are there before the step."""
        for tensor in tensors:
            self.add(tensor, kind)

    def enter_gradients_of(self, model):
        """Enter gradients as such once they are whole."""
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: self.add(p.grad, "gradients"))

    def enter_logits_of(self, model):
        """Enter as logits what is made from the head on, until their gradient is there."""

        def begin(module, inputs):
            self.now = "logits"

        def end(module, inputs, logits):
            logits.register_hook(lambda gradient: setattr(self, "now", "activations"))

        head = model.get_output_embeddings()
        if head is not None:
            head.register_forward_pre_hook(begin)
            head.register_forward_hook(end)


def trainable(architecture, vocab_size, head, batch, length):
    """Return the configuration for a training step, with fused attention and a padding id."""
    config = configuration(architecture, vocab_size)
    if head == "none":
        raise ValueError("the head 'none' has no loss to train on: use 'causal-lm' or 'masked-lm'")
    positive("batch", batch)
    limit = getattr(config, "max_position_embeddings", length)
    if positive("length", length) > limit:
        raise ValueError(
            f"{config.model_type} has {limit:,} positions here; got length={length:,}: use fewer"
        )
    if hasattr(config, "attention_probs_dropout_prob"):
        config.attention_probs_dropout_prob = 0.0
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0  # classification of several texts asks for one
    return config


def inputs_for(config, head, batch, length, device) -> dict[str, torch.Tensor]:
    """Draw a batch of random ids and labels."""
    ids = torch.randint(config.vocab_size, (batch, length), device=device)
    classes = torch.randint(config.num_labels, (batch,), device=device)
    return {"input_ids": ids, "labels": classes if head == "text-classification" else ids}
