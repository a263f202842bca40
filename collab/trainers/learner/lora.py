"""Trainable LoRA adapters: created, read and written in PEFT's format."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from collab.errors import ModelError, RecipeError, RecordError
from collab.models.local.adapters import check_harmless
from collab.models.local.engine import TransformersEngine
from collab.models.local.multi_lora import merge
from collab.models.store.models import public_name
from collab.recipe import LoraSpec
from collab.runs.atomic import replacing_files
from collab.runs.layout import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from collab.seeds import derive_seed


def add_adapter(
    engine: TransformersEngine, name: str, spec: LoraSpec, *, seed: int, start: str | None
) -> dict[str, nn.Parameter]:
    """Add a new adapter to the engine's module, and return its parameters by their names in a file.

    A new adapter leaves the model's outputs unchanged, because its matrix B is 0; its matrix A is
    drawn with `seed`. With `start`, a folder in PEFT's format, the new adapter takes its shape and
    values from the adapter in this folder.

    Raises:
        RecipeError: no layer has a name in `spec.targets`, or `start` is not an adapter.
        RecordError: `start` does not fit.
    """
    from peft import get_peft_model

    from collab.models.weights import quiet_transformers

    with quiet_transformers(), torch.random.fork_rng():
        torch.manual_seed(derive_seed(seed, "adapter", name))
        module: Any = engine.module
        config, tensors = _read_adapter(Path(start)) if start else (lora_config(spec, module), None)
        config.inference_mode = False
        try:
            if hasattr(module, "peft_config"):
                module.add_adapter(name, config)
            else:
                engine.module = module = get_peft_model(module, config, adapter_name=name)
        except ValueError as error:
            raise RecipeError(
                f"{engine.name!r} cannot get an adapter with lora.targets"
                f" {list(spec.targets)}: {error}"
            ) from error
    parameters = parameters_of(module, name)
    if start and tensors is not None:
        copy_tensors(parameters, tensors, Path(start))
    return parameters


def merge_adapter(engine: TransformersEngine, folder: str) -> None:
    """Add an adapter, a folder in PEFT's format, to the weights of the engine's module.

    Raises:
        RecipeError: the folder contains no adapter, or an adapter of another model.
    """
    try:
        name = engine.load_adapter(folder)
    except ModelError as error:
        raise RecipeError(str(error)) from error
    engine.module = merge(engine.module, name)
    engine.module.requires_grad_(True)


def _read_adapter(folder: Path) -> tuple[Any, dict[str, Tensor]]:
    """Read an adapter's configuration and tensors."""
    from peft import PeftConfig

    try:
        check_harmless(folder)
        tensors = read_tensors(folder / ADAPTER_WEIGHTS)
        return PeftConfig.from_pretrained(str(folder)), tensors
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecipeError(
            f"adapter {folder} cannot be read: {error}; use a folder with an adapter in PEFT's"
            f" format, {ADAPTER_CONFIG} and {ADAPTER_WEIGHTS}"
        ) from error


def lora_config(spec: LoraSpec, module: nn.Module) -> Any:
    """Return the PEFT configuration of an adapter of `module`. Errors appear only when it is
    applied."""
    from peft import LoraConfig

    return LoraConfig(
        r=spec.rank,
        lora_alpha=spec.alpha,
        target_modules=list(spec.targets) or _default_targets(module),
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )


def _default_targets(module: nn.Module) -> list[str] | str:
    """Return the layers to adapt: all linear ones except the head.

    In a mixture of experts, they are those of attention only, because PEFT cannot adapt experts
    for several adapters.
    """
    others = (part for part in module.modules() if not isinstance(part, nn.Conv1d))
    weights = (p for part in others for p in part.parameters(recurse=False))
    if not any(p.dim() == 3 and len(p) > 1 for p in weights):  # weights of experts, stacked
        return "all-linear"
    linear = (name for name, part in module.named_modules() if isinstance(part, nn.Linear))
    names = (name.removesuffix(".base_layer") for name in linear if ".lora_" not in name)
    return sorted({name.rpartition(".")[2] for name in names if re.search("attn|attention", name)})


def parameters_of(module: nn.Module, name: str) -> dict[str, nn.Parameter]:
    """Return an adapter's parameters by their names in PEFT's files, which omit its own name."""
    pattern = re.compile(rf"(\.lora_[AB])\.{re.escape(name)}(\.weight)$")
    return {
        pattern.sub(r"\1\2", key): p for key, p in module.named_parameters() if pattern.search(key)
    }


def save_adapter(engine: TransformersEngine, name: str, folder: Path) -> None:
    """Write an adapter in PEFT's format, with its base model's name, each file atomically."""
    module: Any = engine.module
    config = copy.copy(module.peft_config[name])
    config.inference_mode = True
    config.base_model_name_or_path = public_name(engine.spec.name)
    config.revision = engine.spec.revision
    tensors = {key: p.detach().contiguous() for key, p in parameters_of(module, name).items()}
    with replacing_files(folder) as partial:
        config.save_pretrained(partial)
        save_tensors(tensors, partial / ADAPTER_WEIGHTS)


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write named tensors, of any shape and device, to a safetensors file.

    Raises:
        OSError: the file cannot be written.
    """
    try:
        save_file({key: tensor.cpu() for key, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the named tensors of a safetensors file, onto the CPU.

    Raises:
        OSError: the file is missing or incomplete.
    """
    try:
        return load_file(path)
    except SafetensorError as error:
        raise OSError(f"{path.name}: {error}") from error


@torch.no_grad()
def copy_tensors(
    parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor], place: Path
) -> None:
    """Copy tensors into the parameters of the same names and shapes. `place` is their source in
    errors.

    Raises:
        RecordError: a name or a shape differs.
    """
    if set(parameters) != set(tensors):
        unmatched = sorted(set(parameters) ^ set(tensors))
        raise RecordError(
            f"{place}: {len(unmatched)} tensors match nothing in the model, e.g. {unmatched[0]}"
        )
    for key, parameter in parameters.items():
        if parameter.shape != tensors[key].shape:
            raise RecordError(
                f"{place}: {key} has shape {list(tensors[key].shape)}, the model needs"
                f" {list(parameter.shape)}"
            )
        parameter.copy_(tensors[key])
