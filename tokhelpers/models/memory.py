"""Model the memory of a training step by running it on tensors that allocate none."""

import weakref
from collections import Counter

import pandas as pd
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .architectures import dtype_of, new_model
from .costs import training_config, training_inputs

KINDS = ["weights", "gradients", "adamw", "activations", "logits"]


def training_memory(
    architecture, vocab_size: int, *, head: str, batch: int, length: int, dtype: str = "bfloat16"
) -> pd.Series:
    """Model the peak memory of a training step, in bytes.

    The step is a forward pass, a backward pass and a fused AdamW update on ``batch`` sequences of
    ``length`` tokens; weights, gradients and AdamW's two moments have ``dtype`` ("bfloat16" or
    "float32"). It runs on fake tensors (a shape, no memory), each counted while it is alive. Returns
    ``weights``, ``gradients``, ``adamw``, ``logits`` (from the language-model head to the gradient
    of its output, in float32 where the loss needs it), ``activations`` (the rest, with temporary
    tensors) and their sum ``total`` at the peak. The total agrees with torch's CPU allocator to
    1 in 10,000. Not modelled: kernel workspaces, fragmentation, attention dropout and the libraries.

    Raises ValueError as ``parameter_count`` does, for a length beyond the model's positions, a head
    without a loss, and an unknown dtype.

    >>> memory = training_memory("small-llama", 1_000, head="causal-lm", batch=2, length=64)
    >>> float(memory.adamw / th.parameter_count("small-llama", 1_000, "causal-lm"))
    4.0
    """
    config = training_config(architecture, vocab_size, head, batch, length)
    model = new_model(config, head=head, device="meta").to(dtype_of(dtype)).train()
    tracker = MemoryTracker()
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device="cpu").tie_weights()
        moments = [torch.empty_like(p) for p in model.parameters() for _ in range(2)]
        tracker.add_all("weights", [*model.parameters(), *model.buffers()])
        tracker.add_all("adamw", moments)
        tracker.track_gradients(model)
        tracker.track_logits(model)
        inputs = training_inputs(config, head, batch, length, "cpu")
        with tracker:
            loss = model(**inputs).loss
            tracker.embedding_size = model.get_input_embeddings().weight.numel()
            loss.backward()
    peak = {kind: tracker.peak[kind] for kind in KINDS}
    return pd.Series({**peak, "total": sum(peak.values())}, name="bytes")


class MemoryTracker(TorchDispatchMode):
    """Bytes of the tensors that are alive, by kind, now and at the peak."""

    def __init__(self):
        super().__init__()
        self.current_kind = "activations"  # of newly allocated tensors
        self.embedding_size = 0  # elements of the embedding table; 0 before the backward pass
        self.kinds, self.alive, self.peak = {}, Counter(), Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        is_embedding = False
        for tensor in filter(torch.is_tensor, tree_leaves(result)):
            # both gradients of tied embeddings are complete before autograd adds them
            is_embedding = tensor.dim() == 2 and tensor.numel() == self.embedding_size
            self.add(tensor, "gradients" if is_embedding else self.current_kind, is_new=True)
        # autograd accumulates gradients of activations in place, but not under a dispatch mode
        is_addition = function is torch.ops.aten.add.Tensor
        in_place = self.embedding_size and is_addition and not is_embedding
        if not in_place and self.alive.total() > self.peak.total():
            self.peak = self.alive.copy()
        return result

    def add(self, tensor, kind: str, is_new: bool = False) -> None:
        """Count a tensor's storage under a kind; one that is counted already may change its kind."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self.kinds:
            weakref.finalize(storage, self.free, key, size).atexit = False
        elif is_new:  # a view, or an operation in place
            return
        else:
            self.alive[self.kinds[key]] -= size
        self.kinds[key] = kind
        self.alive[kind] += size

    def free(self, key: int, size: int) -> None:
        self.alive[self.kinds.pop(key)] -= size

    def add_all(self, kind: str, tensors) -> None:
        for tensor in tensors:
            self.add(tensor, kind)

    def track_gradients(self, model) -> None:
        """Count a parameter's gradient as such once it is accumulated."""
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: self.add(p.grad, "gradients"))

    def track_logits(self, model) -> None:
        """Count as logits what is allocated from the head on, until their gradient is computed."""

        def begin(module, inputs):
            self.current_kind = "logits"

        def end(module, inputs, logits):
            logits.register_hook(lambda _: setattr(self, "current_kind", "activations"))

        if (head := model.get_output_embeddings()) is not None:
            head.register_forward_pre_hook(begin)
            head.register_forward_hook(end)
