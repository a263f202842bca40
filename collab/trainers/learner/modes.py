"""How a language model is to run while it is learned from."""

from __future__ import annotations

from typing import Any

from torch import nn


def enable_checkpointing(base: Any) -> None:
    options = {"use_reentrant": False}
    if hasattr(base, "activation_checkpointing_enable"):
        base.activation_checkpointing_enable(options)
    else:  # transformers before 5.20
        base.gradient_checkpointing_enable(options)


def quieten(module: nn.Module) -> None:
    """Noise of training mode would make the trainer's log-probabilities others than the sampler's.

    Dropout by layer, for gradient checkpointing goes back to that mode.
    """
    module.eval()
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        if hasattr(part, "attention_dropout"):
            setattr(part, "attention_dropout", 0.0)  # noqa: B010
