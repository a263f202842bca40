"""Whether rows of a model can attend to their prompts together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from collab.models.local.attention import ROUNDING, attends_to_all
from collab.models.local.forwards import decoder_layers
from collab.models.local.mixture import BASE, bare, unwrapped
from collab.models.local.prefixes import Prefixes

OUTLIER = 4
"""How much farther than most one layer may be apart: it may add little to what it was given."""


class _Pass(NamedTuple):
    """What one layer read and gave, [rows, time, hidden]."""

    read: Tensor
    gave: Tensor


_CAN_SHARE: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def can_share(module: Any) -> bool:
    """Whether the rows of a causal language model can attend to their prompts together.

    What its configuration leaves open, a probe decides, once for each model.
    """
    base = unwrapped(module)
    if base not in _CAN_SHARE:
        config = base.config.get_text_config()
        _CAN_SHARE[base] = attends_to_all(config) and _agrees(base)
    return _CAN_SHARE[base]


def _agrees(base: Any) -> bool:
    """Whether layers that share make of the same states what layers make that do not.

    Each layer is given the states that it read without sharing: what one layer rounds otherwise,
    those after it may blow up until nothing can be told from the logits.
    """
    try:
        apart = _probe(base, shared=False)
        states = iter([layer.read for layer in apart])
        together = _probe(base, shared=True, given=lambda _: next(states))
    except (ValueError, TypeError, RuntimeError, IndexError, AttributeError, KeyError):
        return False
    errors = [_error(*pair) for pair in zip(together, apart, strict=True)]
    bound = ROUNDING.get(base.dtype, 1e-3)
    alike = all(error <= OUTLIER * bound for error in errors)  # not so where one is no number
    return bool(errors) and alike and median(errors) <= bound


def _error(ours: _Pass, theirs: _Pass) -> float:
    """The difference of what they added, against its size."""
    read, gave = theirs.read.float(), theirs.gave.float()
    return float((ours.gave.float() - gave).norm() / (gave - read).norm())


@torch.no_grad()
def _probe(
    base: Any, *, shared: bool, given: Callable[[Tensor], Tensor] = lambda states: states
) -> list[_Pass]:
    """Of three rows of two prompts, with tokens of their own; layers read what is `given`."""
    vocabulary = base.config.get_text_config().vocab_size
    ids = torch.tensor([[7, 5, 3], [2, 4, 6]], device=base.device) % vocabulary
    prefixes = Prefixes(base, [BASE, BASE], shared=shared)
    with bare(base):
        prefixes.read(ids, torch.tensor([[0, 1, 1], [1, 1, 1]], device=base.device))
        prefixes.select([1, 0, 1])
        with _watched(base, given) as passes:
            for tokens in ([1, 2, 3], [4, 5, 6]):
                prefixes.extend(torch.tensor(tokens, device=base.device) % vocabulary)
    return passes


@contextmanager
def _watched(base: Any, given: Callable[[Tensor], Tensor]) -> Iterator[list[_Pass]]:
    """The passes of the decoder's layers while entered, in their order."""
    passes: list[_Pass] = []

    def before(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return given(args[0]), *args[1:]

    def after(_: Any, args: tuple[Any, ...], output: Any) -> None:
        gave = output[0] if isinstance(output, tuple) else output
        passes.append(_Pass(args[0], gave))

    with ExitStack() as stack:
        for layer in decoder_layers(base):
            stack.callback(layer.register_forward_pre_hook(before).remove)
            stack.callback(layer.register_forward_hook(after).remove)
        yield passes
