"""Checks that a faster path computes the same as the plain one, and which models support it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from collab.models.local.dimensions import has_full_attention
from collab.models.local.fast.shared_prefix import SharedPrefixCache
from collab.models.local.kv_cache import KVCache
from collab.models.local.layers import decoder_layers
from collab.models.local.multi_lora import NO_ADAPTER, unwrap, without_adapters

ROUNDING = {torch.bfloat16: 0.05, torch.float16: 0.01}
"""Largest relative difference between equal states."""

WIDE_ROUNDING = 1e-3
"""The same for types with more bits."""

OUTLIER_FACTOR = 4
"""Factor on the rounding bound for a single layer, which may add little to its input."""

PROBE_ERRORS = (ValueError, TypeError, RuntimeError, IndexError, AttributeError, KeyError)
"""Errors of models that cannot run in a second way."""


class LayerStates(NamedTuple):
    """One layer's input and output, both with [hidden] as the last dimension."""

    inputs: Tensor
    outputs: Tensor


@contextmanager
def layer_states(
    base: Any, replace_inputs: Callable[[Tensor], Tensor] = lambda states: states
) -> Iterator[list[LayerStates]]:
    """Context manager that yields a list, which receives each decoder layer's input and output.

    `replace_inputs` maps the input of each layer, [rows, time, hidden], to the input that the layer
    computes with.
    """
    inputs: list[Tensor] = []
    passes: list[LayerStates] = []

    def before(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        inputs.append(args[0])
        return replace_inputs(args[0]), *args[1:]

    def after(_: Any, args: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
        passes.append(LayerStates(inputs[-1], output[0] if isinstance(output, tuple) else output))

    with ExitStack() as stack:
        for layer in decoder_layers(base):
            stack.callback(layer.register_forward_pre_hook(before).remove)
            stack.callback(layer.register_forward_hook(after).remove)
        yield passes


def are_equivalent(fast: Sequence[LayerStates], reference: Sequence[LayerStates]) -> bool:
    """Return True if the fast layers gave the reference's outputs, within rounding.

    `fast` and `reference` are lists of layer states for the same tokens and layers. The fast layers
    must have got the reference's inputs.
    """
    if not reference:
        return False
    bound = ROUNDING.get(reference[0].inputs.dtype, WIDE_ROUNDING)
    errors = [
        _error(one.outputs, other.outputs, other.inputs)
        for one, other in zip(fast, reference, strict=True)
    ]
    start_error = _error(fast[0].inputs, reference[0].inputs, torch.zeros_like(reference[0].inputs))
    alike = all(error <= OUTLIER_FACTOR * bound for error in errors)  # False if an error is NaN
    return start_error <= bound and alike and median(errors) <= bound


def _error(fast: Tensor, reference: Tensor, start: Tensor) -> float:
    """Return the difference relative to the reference's distance from `start`."""
    state, exact, origin = (states.detach().float() for states in (fast, reference, start))
    return float((state - exact).norm() / (exact - origin).norm())


_SHARED_PREFIX_SUPPORT: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def supports_shared_prefix(module: Any) -> bool:
    """Return whether the rows of a causal language model can attend to their prompts together.

    If its configuration leaves this open, a probe decides, once per model.
    """
    base = unwrap(module)
    if base not in _SHARED_PREFIX_SUPPORT:
        config = base.config.get_text_config()
        _SHARED_PREFIX_SUPPORT[base] = has_full_attention(config) and _shares_correctly(base)
    return _SHARED_PREFIX_SUPPORT[base]


def _shares_correctly(base: Any) -> bool:
    """Return True if shared-prefix attention gives the same as separate rows."""
    try:
        apart = _probe(base, KVCache)
        states = iter([layer.inputs for layer in apart])
        together = _probe(base, SharedPrefixCache, replace_inputs=lambda _: next(states))
    except PROBE_ERRORS:
        return False
    return are_equivalent(together, apart)


@torch.no_grad()
def _probe(
    base: Any,
    kind: type[KVCache],
    *,
    replace_inputs: Callable[[Tensor], Tensor] = lambda states: states,
) -> list[LayerStates]:
    """Run three rows of two prompts that begin alike, with their own tokens. `replace_inputs` maps
    the input of each layer."""
    vocabulary = base.config.get_text_config().vocab_size
    ids = torch.tensor([[0, 7, 5, 3, 2], [7, 5, 3, 4, 6]], device=base.device) % vocabulary
    mask = torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]], device=base.device)
    cache = kind(base, [NO_ADAPTER, NO_ADAPTER])
    with without_adapters(base):
        cache.read(ids, mask)
        cache.select([1, 0, 1])
        with layer_states(base, replace_inputs) as passes:
            for tokens in ([1, 2, 3], [4, 5, 6]):
                cache.extend(torch.tensor(tokens, device=base.device) % vocabulary)
    return passes
