"""A language model's dimensions, from its configuration alone; no weights are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from collab.errors import ModelUnavailable
from collab.models import store
from collab.recipe import LoraSpec, TrainerSpec
from collab.recipe.model import TransformersModel
from collab.trainers.learner.memory import Dimensions, dimensions_of


@dataclass(frozen=True)
class Sizes:
    """A language model's dimensions, as its configuration gives them."""

    parameters: int
    weight_bytes: int
    """Of all of them."""
    layer_bytes: int
    """Of those that are in the decoder's layers."""
    adapter_parameters: int
    """Of one adapter."""
    dimensions: Dimensions
    packed: int
    """Parameters that sampling holds once more, in the processor's own layout."""
    shares: bool
    """Whether responses can share a row with what they begin with in common."""
    device: torch.device
    device_bytes: int
    """The GPU's whole memory; 0 for a CPU."""

    @property
    def bytes(self) -> int:
        """Of one number."""
        return self.dimensions.bytes


def sizes_of(model: TransformersModel, spec: TrainerSpec, gpu: int | None = None) -> Sizes:
    """Those of a model where it runs, or on a GPU of `gpu` bytes, which need not be here.

    Raises:
        ModelUnavailable: the configuration is not at hand.
    """
    return _measure(model.model_dump_json(), spec.lora.model_dump_json(), gpu)


@cache
def _measure(text: str, lora: str, gpu: int | None) -> Sizes:
    """Build the model without memory, on torch's `meta` device, and count."""
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM

    from collab.models.four_bits import BYTES, four_bit_weights
    from collab.models.local.fast.prepacked_weights import can_pack, weights_to_pack
    from collab.models.local.fast.shared_prefix import attends_to_all
    from collab.models.local.layers import decoder_layers
    from collab.models.weights import pick_device, pick_dtype, quiet_transformers
    from collab.trainers.learner.lora import lora_config

    model = TransformersModel.model_validate_json(text)
    place = pick_device(model.device) if gpu is None else torch.device("cuda")
    native = gpu is not None and model.dtype == "auto"
    number = torch.bfloat16 if native else pick_dtype(model.dtype, place)
    with quiet_transformers(), torch.device("meta"):
        module = AutoModelForCausalLM.from_config(
            _config(model.name, model.revision), attn_implementation=model.attn_implementation
        )
        parameters = sum(p.numel() for p in module.parameters())
        bits = four_bit_weights(module) if model.load_in else 0
        saved = int(bits * (number.itemsize - BYTES))
        within = sum(p.numel() for layer in decoder_layers(module) for p in layer.parameters())
        plain = module.get_output_embeddings() if model.load_in else module
        packed = weights_to_pack(plain) if can_pack(number, place) else 0
        adapted = get_peft_model(module, lora_config(LoraSpec.model_validate_json(lora)))
        adapter = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    config = module.config.get_text_config()
    return Sizes(
        parameters=parameters,
        weight_bytes=parameters * number.itemsize - saved,
        layer_bytes=within * number.itemsize - saved,
        adapter_parameters=adapter,
        dimensions=dimensions_of(config, number, place),
        packed=packed,
        shares=attends_to_all(config),
        device=place,
        device_bytes=_memory_of(place) if gpu is None else gpu,
    )


def _memory_of(device: torch.device) -> int:
    """A GPU's whole memory; 0 for a CPU."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).total_memory)


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
