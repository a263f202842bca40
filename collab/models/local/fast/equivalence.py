"""Whether a model makes the same of the same tokens in two ways, layer by layer.

Each layer is given the states that it read in the first way: what one layer rounds otherwise, those
after it may blow up until nothing can be told from the last states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from collab.models.local.layers import decoder_layers

ROUNDING = {torch.bfloat16: 0.05, torch.float16: 0.01}
"""How far equal states may be apart, against their own size; 1e-3 in wider types."""

OUTLIER = 4
"""How much farther than most one layer may be apart: it may add little to what it was given."""

REFUSALS = (ValueError, TypeError, RuntimeError, IndexError, AttributeError, KeyError)
"""What models raise that cannot be run in a second way."""


class Pass(NamedTuple):
    """One layer's: what came to it, and what it gave; both end in [hidden]."""

    came: Tensor
    gave: Tensor


@contextmanager
def watched(
    base: Any, given: Callable[[Tensor], Tensor] = lambda states: states
) -> Iterator[list[Pass]]:
    """The passes of the decoder's layers while entered, in their order.

    A layer reads what is `given` for what came to it.
    """
    came: list[Tensor] = []
    passes: list[Pass] = []

    def before(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        came.append(args[0])
        return given(args[0]), *args[1:]

    def after(_: Any, args: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
        passes.append(Pass(came[-1], output[0] if isinstance(output, tuple) else output))

    with ExitStack() as stack:
        for layer in decoder_layers(base):
            stack.callback(layer.register_forward_pre_hook(before).remove)
            stack.callback(layer.register_forward_hook(after).remove)
        yield passes


def equivalent(ours: Sequence[Pass], theirs: Sequence[Pass]) -> bool:
    """Whether layers that read what came to `theirs` gave the same; tokens in the same order."""
    if not theirs:
        return False
    bound = ROUNDING.get(theirs[0].came.dtype, 1e-3)
    errors = [
        _error(one.gave, other.gave, other.came) for one, other in zip(ours, theirs, strict=True)
    ]
    begun = _error(ours[0].came, theirs[0].came, torch.zeros_like(theirs[0].came))
    alike = all(error <= OUTLIER * bound for error in errors)  # not so where one is no number
    return begun <= bound and alike and median(errors) <= bound


def _error(ours: Tensor, theirs: Tensor, start: Tensor) -> float:
    """How far they are apart, against how far they are from `start`."""
    found, exact, begun = (states.detach().float() for states in (ours, theirs, start))
    return float((found - exact).norm() / (exact - begun).norm())
