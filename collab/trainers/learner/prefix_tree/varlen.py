"""Attention over prefix trees in one call of flash attention, without mask and padding.

Queries are the tokens that each branch has added, keys and values those of its path, one branch
after the other. A branch's queries are the last tokens of its path, so attention is causal if both
are aligned at their ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from inspect import signature
from itertools import accumulate
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from collab.errors import TrainingError
from collab.trainers.learner.prefix_tree.packing import PrefixTree
from collab.trainers.learner.to_device import tensor_on

MIN_CAPABILITY = (8, 0)
"""Smallest compute capability, because flash attention needs Ampere or later."""

KERNEL_ERRORS = (NotImplementedError, ImportError, RuntimeError, TypeError, ValueError)
"""Errors that torch raises if it has no such kernel, for this head size or at all."""


class Heads(NamedTuple):
    """The head counts and head size of a model's attention."""

    queries: int
    """Number of query heads."""
    keys: int
    """Number of key heads, each shared by the same number of query heads."""
    size: int


Kernel = Callable[..., Tensor]
"""Called like `torch.nn.attention.varlen.varlen_attn`."""


class BranchPlan(NamedTuple):
    """Queries, keys and outputs of each branch, as indices into the tokens of all rows."""

    queries: list[int]
    keys: list[int]
    query_ends: list[int]
    """Start of each branch among the queries, followed by their number."""
    key_ends: list[int]
    max_queries: int
    """Maximum number of queries of a branch."""
    max_keys: int
    query_positions: list[int]
    """Index of each token's own query, or 0 for padding."""


def branch_plan(trees: Sequence[PrefixTree], width: int) -> BranchPlan:
    """Return the plan for the branches of rows that are `width` wide, padding included."""
    branches = [
        (start, [row * width + place for place in path])
        for row, tree in enumerate(trees)
        for start, path in tree.branches
    ]
    queries = [token for start, path in branches for token in path[start:]]
    new_lengths = [len(path) - start for start, path in branches]
    lengths = [len(path) for _, path in branches]
    query_positions = [0] * (len(trees) * width)
    for number, token in enumerate(queries):
        query_positions[token] = number
    return BranchPlan(
        queries=queries,
        keys=[token for _, path in branches for token in path],
        query_ends=[0, *accumulate(new_lengths)],
        key_ends=[0, *accumulate(lengths)],
        max_queries=max(new_lengths),
        max_keys=max(lengths),
        query_positions=query_positions,
    )


class VarlenAttention:
    """Attention over branches by a kernel for sequences of different lengths."""

    def __init__(
        self, plan: BranchPlan, device: torch.device, kernel: Kernel, *, checkpointing: bool = False
    ) -> None:
        """Prepare the plan. `checkpointing` means that activations are recomputed, not kept."""
        self._plan, self._kernel, self._checkpointing = plan, kernel, checkpointing
        self._queries, self._keys = tensor_on(plan.queries, device), tensor_on(plan.keys, device)
        self._query_ends = tensor_on(plan.query_ends, device, torch.int32)
        self._key_ends = tensor_on(plan.key_ends, device, torch.int32)
        self._query_positions = tensor_on(plan.query_positions, device)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, scaling: float | None) -> Tensor:
        batch, heads, time, size = query.shape
        # [tokens, heads, size]
        queries, keys, values = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))
        repeats, options = heads // key.shape[1], {}
        if supports_head_groups(self._kernel):
            repeats, options = 1, {"enable_gqa": repeats > 1}
        by_branch = [self._gather_keys(x, repeats) for x in (keys, values)]
        with self._save_once(by_branch, (keys, values), repeats):
            outputs = self._kernel(
                queries.index_select(0, self._queries),
                *by_branch,
                self._query_ends,
                self._key_ends,
                self._plan.max_queries,
                self._plan.max_keys,
                scale=size**-0.5 if scaling is None else scaling,
                window_size=(-1, 0),
                **options,
            )
        return outputs.index_select(0, self._query_positions).view(batch, time, heads, size)

    def _gather_keys(self, x: Tensor, repeats: int) -> Tensor:
        """Map [tokens, heads, size] to [keys, heads, size], with each head repeated `repeats`."""
        gathered = x.index_select(0, self._keys)
        return gathered if repeats == 1 else gathered.repeat_interleave(repeats, dim=1)

    def _save_once(
        self, by_branch: Sequence[Tensor], once: Sequence[Tensor], repeats: int
    ) -> AbstractContextManager[Any]:
        """Context manager in which a kernel that would keep `by_branch` keeps `once` instead.

        It maps [keys, heads, size] to [tokens, heads, size]. The backward pass gathers the keys
        again, so a prompt is not kept once per response.
        """
        if self._checkpointing:
            return nullcontext()  # no activations are kept
        sources = {
            _tensor_key(gathered): source.detach()
            for gathered, source in zip(by_branch, once, strict=True)
        }

        def pack(tensor: Tensor) -> tuple[Tensor, bool]:
            source = sources.get(_tensor_key(tensor))
            return (tensor, False) if source is None else (source, True)

        def unpack(packed: tuple[Tensor, bool]) -> Tensor:
            tensor, is_source = packed
            return self._gather_keys(tensor, repeats) if is_source else tensor

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def _tensor_key(tensor: Tensor) -> tuple[object, ...]:
    """Return a key that tells a tensor from all other live tensors, including its own slices."""
    place = tensor.untyped_storage()._cdata, tensor.storage_offset()
    return (*place, *tensor.shape, *tensor.stride())


def torch_kernel() -> Kernel:
    """Return torch's kernel with flash attention.

    Raises:
        ImportError: there is no such kernel.
    """
    from torch.nn.attention.varlen import varlen_attn

    return cast(Kernel, varlen_attn)


@cache
def supports_head_groups(kernel: Kernel) -> bool:
    """Return True if the kernel allows several query heads per key head.

    torch's kernel allows them from version 2.12 on.
    """
    return "enable_gqa" in signature(kernel).parameters


def varlen_kernel(model: Any, device: torch.device, setting: str) -> Kernel | None:
    """Return the attention kernel for `model` on `device`, or None for attention under masks.

    `setting` is the recipe's `tree_attention`. With `auto`, the kernel is used if its outputs and
    gradients on a small tree match those of masks. This is tested once.

    Raises:
        TrainingError: `setting` asks for the kernel, and it is not available.
    """
    reason = mask_reason(model, device, setting)
    if reason is None:
        return torch_kernel()
    if setting == "varlen":
        raise TrainingError(
            f"trainer.tree_attention 'varlen' is not available: {reason}; set it to 'auto' or"
            " 'mask'"
        )
    return None


def mask_reason(model: Any, device: torch.device, setting: str) -> str | None:
    """Return why `model` attends under masks on `device`, or None if it uses the kernel."""
    if setting == "mask":
        return "trainer.tree_attention is 'mask'"
    config = model.config.get_text_config()
    query_heads = config.num_attention_heads
    heads = Heads(
        query_heads,
        getattr(config, "num_key_value_heads", None) or query_heads,
        getattr(config, "head_dim", None) or config.hidden_size // query_heads,
    )
    return _kernel_refusal(device, model.dtype, heads)


def describe_attention(model: Any, device: torch.device, setting: str) -> str:
    """Return `varlen`, or `mask` with the reason why the kernel is not used."""
    reason = mask_reason(model, device, setting)
    return "varlen" if reason is None else f"mask, not varlen: {reason}"


def attention_warnings(model: Any, device: torch.device, setting: str) -> list[str]:
    """Return a warning if a GPU uses masks although the recipe does not ask for them, else []."""
    reason = mask_reason(model, device, setting)
    if reason is None or setting != "auto" or device.type != "cuda":
        return []
    return [
        f"attention uses masks, which are slower than flash attention (varlen): {reason}; to"
        " silence this warning, set trainer.tree_attention to 'mask'"
    ]


@cache
def _kernel_refusal(device: torch.device, dtype: torch.dtype, heads: Heads) -> str | None:
    """Return the reason why torch's kernel cannot be used for such heads, or None if it can."""
    if device.type != "cuda":
        return f"it needs a GPU, but the model is on {device}"
    capability = torch.cuda.get_device_capability(device)
    if capability < MIN_CAPABILITY:
        actual, least = (".".join(map(str, x)) for x in (capability, MIN_CAPABILITY))
        return f"the GPU has compute capability {actual}, and {least} is needed"
    try:
        gap = kernel_difference(torch_kernel(), device, dtype, heads)
    except KERNEL_ERRORS as error:
        return f"torch {torch.__version__} refuses: {str(error).strip().splitlines()[0]}"
    return None if gap <= 0.03 else f"its numbers differ from those of masks by {gap:.3g}"


def kernel_difference(
    kernel: Kernel, device: torch.device, dtype: torch.dtype, heads: Heads
) -> float:
    """Return the relative difference between the kernel's attention and masked attention.

    The difference is the norm over outputs and gradients together, on a small tree.
    """
    from collab.trainers.learner.prefix_tree.attention import TreeAttention

    tree = PrefixTree([(1, 2, 3, 4, 5, 6), (1, 2, 3, 7, 8), (1, 2, 9), (5, 5, 5, 5)])
    width = len(tree.tokens)
    generator = torch.Generator().manual_seed(0)
    query_heads, key_heads, size = heads
    shapes = [(1, n, width, size) for n in (query_heads, key_heads, key_heads)]
    shapes.append((1, width, query_heads, size))
    drawn = [torch.randn(shape, generator=generator).to(device, dtype) for shape in shapes]
    results = []
    implementations = (
        TreeAttention([tree], width, device),
        VarlenAttention(branch_plan([tree], width), device, kernel),
    )
    with torch.enable_grad():
        for implementation in implementations:
            inputs = [x.clone().requires_grad_() for x in drawn[:3]]
            outputs = implementation.attend(*inputs, scaling=None)
            gradients = torch.autograd.grad((outputs * drawn[3]).sum(), inputs)
            results.append(torch.cat([x.detach().flatten().float() for x in (outputs, *gradients)]))
    mask_results, kernel_results = results
    return float((kernel_results - mask_results).norm() / mask_results.norm())
