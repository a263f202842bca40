"""Shards the layers of a frozen base over all ranks, by torch's FSDP2.

A layer is gathered from all ranks for each pass over it, and released afterwards. So all ranks make
the same passes at the same time. Adapters are added to the layers later and are complete on every
rank. So are embeddings, the last norm and the head, because the head processes one chunk of tokens
at a time, and ranks have different numbers of chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from collab.errors import ModelUnavailable, TrainingError
from collab.models.local.layers import decoder_layers
from collab.models.local.multi_lora import unwrapped
from collab.models.weights import Load, LoadedModel, pick_device, read_model
from collab.recipe.model import TransformersModel
from collab.trainers.learner.policy import Policies
from collab.trainers.learner.ranks import Ranks
from collab.trainers.ranks.group import TorchRanks


def shared_load(ranks: Ranks) -> Load | None:
    """Return the function that loads sharded bases; None if each rank holds whole ones."""
    return partial(_load, ranks) if isinstance(ranks, TorchRanks) and ranks.shards else None


def _load(ranks: TorchRanks, folder: Path, spec: TransformersModel) -> LoadedModel:
    """Load a base: only rank 0 reads the weights, into the host's memory, and sends the others
    their parts."""
    device = pick_device(spec.device)
    into = torch.device("cpu" if ranks.rank == 0 else "meta")
    loaded = ranks.each(partial(read_model, folder, spec, device, into=into))
    layers = list(decoder_layers(loaded.module))
    if not layers:
        raise ModelUnavailable(
            f"model {spec.name!r} has no list of layers to spread over the ranks; set"
            " trainer.ranks.shard=false"
        )
    share_out(loaded.module, layers, ranks.mesh(device.type), device)
    loaded.sharded = True
    loaded.module.base_model.register_forward_pre_hook(
        partial(_check_all_are_here, ranks), prepend=True
    )
    return loaded


def share_out(
    module: Any, layers: Sequence[nn.Module], mesh: DeviceMesh, device: torch.device
) -> None:
    """Shard the layers of a model that rank 0 has with weights, and the others without.

    A device only has to hold its part, one whole layer, and the parts that are not sharded.
    """
    group = mesh.get_group()
    module.requires_grad_(False)
    within = {part for layer in layers for part in layer.modules()}
    outside = [part for part in module.modules() if part not in within]
    _move(outside, device)
    module.tie_weights()  # moved one by one, those of embeddings and head are two
    _hand_out(outside, group)
    for layer in layers:
        _move(layer.modules(), device)
        _hand_out(layer.modules(), group)
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)
    whole = {parameter for part in outside for parameter in part.parameters(recurse=False)}
    fully_shard(module.base_model, mesh=mesh, ignored_params=whole)


def describe_parts(policies: Policies) -> str:
    """Describe this rank's share of the base models; empty if it holds them whole."""
    engines = dict.fromkeys(policy.engine for policy in policies)
    lines = []
    for engine in engines:
        loaded = engine.load()
        if loaded.sharded:
            base = unwrapped(loaded.module).named_parameters()
            frozen = [p for name, p in base if ".lora_" not in name]
            held = sum((p.to_local() if isinstance(p, DTensor) else p).numel() for p in frozen)
            whole = sum(p.numel() for p in frozen)
            lines.append(f"holds {held:,} of {whole:,} parameters of {engine.name}")
    return "\n".join(lines)


def _move(parts: Iterable[nn.Module], device: torch.device) -> None:
    """Move the parts' own tensors to `device`; allocate those without data."""

    def moved(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor, device=device) if tensor.is_meta else tensor.to(device)

    for part in parts:
        part._apply(moved, recurse=False)  # type: ignore[no-untyped-call]


def _hand_out(parts: Iterable[nn.Module], group: Any) -> None:
    """Send rank 0's tensors to all ranks."""
    held = (
        tensor
        for part in parts
        for tensor in (*part._parameters.values(), *part._buffers.values())
        if tensor is not None
    )
    for tensor in dict.fromkeys(held):
        dist.broadcast(tensor.detach(), 0, group=group)


def _check_all_are_here(ranks: TorchRanks, *_: Any) -> None:
    """Before a pass, raise TrainingError unless all ranks make it."""
    if not ranks.learning:
        raise TrainingError(
            "the base model is sharded over the ranks (trainer.ranks.shard), and rank"
            f" {ranks.rank} alone cannot run it; set trainer.ranks.shard=false, or leave out what"
            " else uses the base model"
        )
