"""A language model's dimensions, from its configuration alone; no weights are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from collab.errors import ModelUnavailable
from collab.models import store
from collab.recipe import TrainerSpec
from collab.recipe.model import TransformersModel


@dataclass(frozen=True)
class Sizes:
    """A language model's dimensions, as its configuration gives them."""

    parameters: int
    adapter_parameters: int
    """Of one adapter."""
    layers: int
    hidden: int
    intermediate: int
    key_values: int
    """Numbers that the cache holds for one token in one layer."""
    attention: int
    """Numbers kept to learn from for one token and one key that it attends to, in one layer."""
    vocabulary: int
    bytes: int
    """Of one number."""
    packed: int
    """Parameters that sampling holds once more, in the processor's own layout."""
    shares: bool
    """Whether responses can share a row with what they begin with in common."""


def sizes_of(model: TransformersModel, spec: TrainerSpec) -> Sizes:
    """Raises ModelUnavailable where the configuration is not at hand."""
    return _measure(model.name, model.revision, model.dtype, model.device, spec.model_dump_json())


@cache
def _measure(name: str, revision: str | None, dtype: str, device: str, trainer: str) -> Sizes:
    """Build the model without memory, on torch's `meta` device, and count."""
    import torch
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM

    from collab.models.local.fast.prepacked_weights import can_pack, weights_to_pack
    from collab.models.local.fast.shared_prefix import attends_to_all
    from collab.models.weights import pick_device, pick_dtype, quiet_transformers
    from collab.trainers.learner.lora import lora_config
    from collab.trainers.learner.prefix_tree.attention import by_formula

    spec = TrainerSpec.model_validate_json(trainer)
    place = pick_device(device)
    number = pick_dtype(dtype, place)
    with quiet_transformers(), torch.device("meta"):
        module = AutoModelForCausalLM.from_config(_config(name, revision))
        parameters = sum(p.numel() for p in module.parameters())
        packed = weights_to_pack(module) if can_pack(number, place) else 0
        adapted = get_peft_model(module, lora_config(spec.lora))
        adapter = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    config = module.config.get_text_config()
    heads = config.num_attention_heads
    width_of_head = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Sizes(
        parameters=parameters,
        adapter_parameters=adapter,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        key_values=2 * width_of_head * (getattr(config, "num_key_value_heads", None) or heads),
        attention=heads if attends_to_all(config) and by_formula(place, number) else 0,
        vocabulary=config.vocab_size,
        bytes=number.itemsize,
        packed=packed,
        shares=attends_to_all(config),
    )


def _config(name: str, revision: str | None) -> Any:
    """A model's configuration: of an alias or folder as it lies here, of a hub model by itself."""
    from transformers import AutoConfig

    store.check_name(name, revision)
    if name in store.ALIASES or Path(name).expanduser().is_dir():
        return AutoConfig.from_pretrained(store.resolve(name, revision), local_files_only=True)
    try:
        return AutoConfig.from_pretrained(name, revision=revision)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelUnavailable(
            f"the configuration of {name!r} cannot be had from the hub: {reason}; check the"
            " network, or give a local folder"
        ) from error
