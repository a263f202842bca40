"""Determines a language model's dimensions from its configuration, without loading weights."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from collab.errors import ModelUnavailable
from collab.models import store
from collab.models.local.dimensions import Dimensions, attends_to_all, dimensions_of
from collab.models.local.fast.memory import LEAST_WEIGHTS
from collab.recipe import LoraSpec, TrainerSpec
from collab.recipe.model import TransformersModel
from collab.trainers.training.plan.cards import Card, ModelPlace, place_of

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
MOST_HEADER = 100_000_000
"""Maximum size of a file's header in bytes, as in safetensors."""

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
TOLD = {"num_attention_heads", "intermediate_size", "num_hidden_layers"}
"""Keys that a configuration must have, besides the shape of the head."""

_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(?:weight|bias)")
_LINEAR = re.compile(r"self_attn\.[qkvo]_proj|mlp\.(?:gate|up|down)_proj")
_NORM = re.compile(r"(?:input|post_attention)_layernorm")

NF4_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Number of bytes per number: 4 bits, an 8-bit scale per 64 numbers, and a 32-bit one per 64 x 256.
"""


@dataclass(frozen=True)
class Counts:
    """Number of a model's weights for each use, not in bytes."""

    parameters: int
    linear: int
    """Weights of linear layers, without the head."""
    packed: int
    """Number of weights in layers that are large enough to be packed, including the head."""
    packed_head: int
    """Weights of the head alone, if packed."""
    adapter: int
    """Parameters of one adapter."""
    config: Any
    """Text configuration of the model, by attributes."""


def counts_of(model: TransformersModel, lora: LoraSpec) -> Counts:
    """Count the weights of a model with an adapter.

    Raises:
        ModelUnavailable: the model has no configuration.
    """
    return counted_in_files(model, lora) or counted_as_built(model, lora)


def counted_in_files(model: TransformersModel, lora: LoraSpec) -> Counts | None:
    """Count the weights by their names in the model's files, or return None if these are not
    sufficient."""
    folder = store.at_hand(model.name, model.revision)
    try:
        config = json.loads((folder / "config.json").read_text()) if folder else {}
        if folder is None or config.get("model_type") != "llama" or TOLD - config.keys():
            return None
        shapes = dict(_shapes_in(folder))
        return _counts(shapes, config, model, lora)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # transformers reports the error


def _shapes_in(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes of all tensors."""
    names = {FILE}
    if (folder / INDEX).is_file():
        names = set(json.loads((folder / INDEX).read_text())["weight_map"].values())
    for name in sorted(names):
        with (folder / name).open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            if size > MOST_HEADER:
                raise ValueError(f"{name} has a header of {size} bytes")
            header = json.loads(stream.read(size))
        header.pop("__metadata__", None)
        yield from (
            (tensor, tuple(tensor_header["shape"])) for tensor, tensor_header in header.items()
        )


def _counts(
    shapes: dict[str, tuple[int, ...]],
    config: Mapping[str, Any],
    model: TransformersModel,
    lora: LoraSpec,
) -> Counts | None:
    """Count the weights of a Llama, or return None if it has an unknown tensor, or lacks one."""
    tied = bool(config.get("tie_word_embeddings", False))
    head = shapes[EMBEDDING] if tied else shapes[HEAD]
    own = {name: shape for name, shape in shapes.items() if name != HEAD}
    linear: dict[str, tuple[int, ...]] = {}
    layers = set()
    for name, shape in own.items():
        match = _LAYER.fullmatch(name)
        if match is None:
            if name not in (EMBEDDING, "model.norm.weight"):
                return None
            continue
        layers.add(int(match[1]))
        if _LINEAR.fullmatch(match[2]):
            if name.endswith("weight"):
                linear[f"{match[1]}.{match[2]}"] = shape
        elif not _NORM.fullmatch(match[2]):
            return None
    if layers != set(range(config["num_hidden_layers"])) or len(linear) != 7 * len(layers):
        return None
    known = {name.rpartition(".")[2] for name in linear}
    targets = set(lora.targets) or known
    if targets - known or head != (config["vocab_size"], config["hidden_size"]):
        return None
    adapted = [shape for name, shape in linear.items() if name.rpartition(".")[2] in targets]
    settings = {"_attn_implementation": model.attn_implementation or "sdpa", **config}
    return Counts(
        parameters=sum(map(prod, own.values())) + (0 if tied else prod(head)),
        linear=sum(map(prod, linear.values())),
        packed=sum(size for size in map(prod, (*linear.values(), head)) if size >= LEAST_WEIGHTS),
        packed_head=prod(head) if prod(head) >= LEAST_WEIGHTS else 0,
        adapter=sum(lora.rank * sum(shape) for shape in adapted),
        config=SimpleNamespace(**settings),
    )


def counted_as_built(model: TransformersModel, lora: LoraSpec) -> Counts:
    """Count the weights of the model as transformers builds it, on torch's device `meta`."""
    import torch
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM

    from collab.models.local.fast.prepacked_weights import weights_to_pack
    from collab.models.weights import four_bit_weights, quiet_transformers
    from collab.trainers.learner.lora import lora_config

    with quiet_transformers(), torch.device("meta"):
        module = AutoModelForCausalLM.from_config(
            _config(model.name, model.revision), attn_implementation=model.attn_implementation
        )
        counted = {
            "parameters": sum(p.numel() for p in module.parameters()),
            "linear": four_bit_weights(module),
            "packed": weights_to_pack(module),
            "packed_head": weights_to_pack(module.get_output_embeddings()),
        }
        adapted = get_peft_model(module, lora_config(lora))
        adapter = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    return Counts(**counted, adapter=adapter, config=module.config.get_text_config())


def _config(name: str, revision: str | None) -> Any:
    """Return a model's configuration: from the local folder or, for a hub model, downloaded without
    weights.
    """
    from transformers import AutoConfig

    store.check_name(name, revision)
    if name in store.ALIASES or Path(name).expanduser().is_dir():
        return AutoConfig.from_pretrained(
            store.resolve(name, revision), local_files_only=True, trust_remote_code=False
        )
    try:
        return AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelUnavailable(
            f"the configuration of {name!r} cannot be loaded from the hub: {reason}; check the"
            " network, or give a local folder"
        ) from error


@dataclass(frozen=True)
class Sizes:
    """A language model's dimensions, from its configuration."""

    parameters: int
    weight_bytes: int
    """Size of all weights in bytes."""
    adapter_parameters: int
    """Parameters of one adapter."""
    dimensions: Dimensions
    packed: int
    """Number of parameters that sampling holds a second time, in the processor's own layout."""
    shares: bool
    """True if responses can share a row with their common beginning."""
    device: ModelPlace

    @property
    def bytes(self) -> int:
        """Number of bytes per number."""
        return self.dimensions.bytes


def sizes_of(model: TransformersModel, spec: TrainerSpec, card: Card | None = None) -> Sizes:
    """Return the dimensions of a model on its device, or on a `card`, which may be elsewhere.

    Raises:
        ModelUnavailable: the configuration is not available.
    """
    return _measure(model.model_dump_json(), spec.lora.model_dump_json(), card)


@cache
def _measure(text: str, lora: str, card: Card | None) -> Sizes:
    model = TransformersModel.model_validate_json(text)
    place = place_of(model, card)
    return measured(model, place, counts_of(model, LoraSpec.model_validate_json(lora)))


def measured(model: TransformersModel, place: ModelPlace, counts: Counts) -> Sizes:
    """Compute a model's dimensions on a device from the counts."""
    saved = int(counts.linear * (place.itemsize - NF4_BYTES)) if model.load_in else 0
    packed = counts.packed_head if model.load_in else counts.packed
    return Sizes(
        parameters=counts.parameters,
        weight_bytes=counts.parameters * place.itemsize - saved,
        adapter_parameters=counts.adapter,
        dimensions=dimensions_of(counts.config, place),
        packed=packed if place.packs else 0,
        shares=attends_to_all(counts.config),
        device=place,
    )
