"""AdamW with its state in float32, gradient clipping, and the learning rate's schedule."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from collab.recipe import TrainerSpec


class Optimizer:
    """AdamW (arXiv 1711.05101) on float32 masters of the parameters.

    Parameters of a narrower type are copies of their masters, so small updates add up instead of
    being rounded away. The gradients of several backward passes also add up in the master, each
    right after its pass. Parameters in float32 or wider are their own masters.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], weight_decay: float) -> None:
        self._parameters = list(parameters)
        self.masters = [
            p if p.dtype in (torch.float32, torch.float64) else nn.Parameter(p.detach().float())
            for p in self._parameters
        ]
        """Parameters that the steps move, in float32 or wider. They hold the gradients."""
        pairs = zip(self._parameters, self.masters, strict=True)
        self._copies = [
            (parameter, master) for parameter, master in pairs if master is not parameter
        ]
        """Parameters of a narrower type, with their masters."""
        self._adamw = torch.optim.AdamW(self.masters, weight_decay=weight_decay, fused=True)
        for parameter, master in self._copies:
            hook = partial(_move_gradient_to_master, master=master)
            parameter.register_post_accumulate_grad_hook(hook)

    @torch.no_grad()
    def step(self, rate: float, max_norm: float | None) -> float:
        """Take an AdamW step, clear the gradients, and return their norm before clipping."""
        for parameter, master in self._copies:
            _move_gradient_to_master(parameter, master)
        norm = float(gradient_norm(self.masters))
        if math.isfinite(norm):
            if max_norm is not None and norm > max_norm:
                for master in self.masters:
                    if master.grad is not None:
                        master.grad.mul_(max_norm / norm)
            for group in self._adamw.param_groups:
                group["lr"] = rate
            self._adamw.step()
            torch.autograd.graph.increment_version(self.masters)  # fused AdamW does not do this
        self.zero_grad()
        self._copy_masters()
        return norm

    @property
    def unallocated_bytes(self) -> int:
        """Number of bytes that the first step will allocate for gradients and moments."""
        moments = 0 if self._adamw.state else 2
        size = sum(m.nbytes * (1 + moments) for m in self.masters)
        if self._copies:
            size += max(p.nbytes for p in self._parameters)  # moved as soon as computed
        return size

    def zero_grad(self) -> None:
        """Drop the gradients accumulated since the last step."""
        for parameter in (*self._parameters, *self.masters):
            parameter.grad = None

    def state(self) -> dict[str, Any]:
        """Return the moments, masters and step count, for a checkpoint."""
        masters = [m.detach() for m in self.masters] if self._copies else []
        return {"adamw": self._adamw.state_dict(), "masters": masters}

    @torch.no_grad()
    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state` from a checkpoint. Restore the parameters first."""
        self._adamw.load_state_dict(copy.deepcopy(state["adamw"]))
        for master, saved in zip(self.masters, state["masters"] or self._parameters, strict=True):
            master.copy_(saved)
        self._copy_masters()

    def _copy_masters(self) -> None:
        for parameter, master in self._copies:
            parameter.copy_(master)


def _move_gradient_to_master(parameter: Tensor, master: Tensor) -> None:
    """Move the gradient of a narrow parameter to its master."""
    gradient, parameter.grad = parameter.grad, None
    if gradient is not None:
        if master.grad is None:
            master.grad = gradient.to(master.dtype)
        else:
            master.grad.add_(gradient)


def gradient_norm(parameters: Iterable[nn.Parameter]) -> Tensor:
    """Return the 2-norm of all gradients together, a scalar tensor; 0 if there are no gradients."""
    norms = [torch.linalg.vector_norm(p.grad) for p in parameters if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())


def rate_at(step: int, total: int, spec: TrainerSpec) -> float:
    """Return the learning rate of `step`, counted from 0, of `total`.

    The rate rises linearly over `warmup_steps`. Then it is constant, or falls linearly or by a
    cosine. A falling rate would reach 0 one step after the last.
    """
    if step < spec.warmup_steps:
        return spec.rate * (step + 1) / (spec.warmup_steps + 1)
    done = (step - spec.warmup_steps) / max(1, total - spec.warmup_steps)
    if spec.schedule == "linear":
        return spec.rate * (1 - done)
    if spec.schedule == "cosine":
        return spec.rate * 0.5 * (1 + math.cos(math.pi * done))
    return spec.rate
