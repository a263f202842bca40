"""Determines a language model's dimensions from its configuration, without loading weights."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from collab.errors import ModelUnavailable
from collab.models import store
from collab.models.local.dimensions import Dimensions, dimensions_of
from collab.recipe import LoraSpec
from collab.recipe.documents import parse_json
from collab.recipe.model import TransformersSpec
from collab.runs.layout import MODEL_CONFIG
from collab.runs.reading import open_file, read_bytes
from collab.trainers.training.plan.cards import Card, ModelDevice, device_for

WEIGHTS_FILE, WEIGHTS_INDEX = "model.safetensors", "model.safetensors.index.json"
MAX_HEADER_BYTES = 100_000_000
"""Maximum size of a file's header in bytes, as in safetensors."""

EMBEDDING_TENSOR, HEAD_TENSOR = "model.embed_tokens.weight", "lm_head.weight"
PLAIN_MODEL_TYPES = "llama", "mistral", "qwen2", "qwen3"
"""Model types in which every other tensor of two dimensions belongs to a linear layer."""

CONFIG_KEYS = (
    *("hidden_size", "intermediate_size", "vocab_size"),
    *("num_attention_heads", "num_hidden_layers"),
)
"""Keys of a configuration that `dimensions_of` reads."""

NF4_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes per number: 4 bits, an 8-bit scale per 64 numbers, and a 32-bit one per 64 x 256."""


@dataclass(frozen=True)
class WeightCounts:
    """Number of a model's weights for each use, not in bytes."""

    parameters: int
    linear: int
    """Weights of linear layers, without the head."""
    head: int
    adapter: int
    """Parameters of one adapter."""
    config: Any
    """Text configuration of the model, by attributes."""


def count_weights_in_files(model: TransformersSpec, lora: LoraSpec) -> WeightCounts | None:
    """Return the numbers of weights from the model's files, or None if these do not suffice."""
    folder = store.local_folder(model.name, model.revision)
    config = store.read_config(folder, model.name) if folder else {}
    if folder is None or config.get("model_type") not in PLAIN_MODEL_TYPES:
        return None
    needed = [*(config.get(key) for key in CONFIG_KEYS), config.get("head_dim") or 1]
    if not all(isinstance(value, int) for value in needed):
        return None
    try:
        shapes = _shapes_in(folder)
        embedding = shapes.pop(EMBEDDING_TENSOR)
        head = shapes.pop(HEAD_TENSOR, embedding)
        tied = config.get("tie_word_embeddings", False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # transformers reports the error
    linear: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for name, shape in shapes.items():
        if len(shape) == 2:
            linear[name.split(".")[-2]].append(shape)
    if set(lora.targets) - linear.keys():
        return None
    adapted = lora.targets or tuple(linear)
    return WeightCounts(
        parameters=sum(map(prod, shapes.values())) + prod(embedding) + (0 if tied else prod(head)),
        linear=sum(prod(shape) for listed in linear.values() for shape in listed),
        head=prod(head),
        adapter=lora.rank * sum(sum(shape) for name in adapted for shape in linear[name]),
        config=SimpleNamespace(**config),
    )


def _shapes_in(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all tensors by name."""
    names = {WEIGHTS_FILE}
    if (folder / WEIGHTS_INDEX).is_file():
        names = set(parse_json(read_bytes(folder / WEIGHTS_INDEX))["weight_map"].values())
    shapes: dict[str, tuple[int, ...]] = {}
    for name in sorted(names):
        with open_file(folder / name) as stream:
            size = int.from_bytes(stream.read(8), "little")
            if size > MAX_HEADER_BYTES:
                raise ValueError(f"{name} has a header of {size} bytes")
            header = parse_json(stream.read(size))
        header.pop("__metadata__", None)
        shapes |= {tensor: tuple(about["shape"]) for tensor, about in header.items()}
    return shapes


def count_weights_in_model(model: TransformersSpec, lora: LoraSpec) -> WeightCounts:
    """Return the numbers of weights of the model that transformers builds on the device `meta`."""
    import torch
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM

    from collab.models.weights import count_four_bit_weights, load_errors, quiet_transformers
    from collab.trainers.learner.lora import lora_config

    with quiet_transformers(), torch.device("meta"):
        config = _find_config(model.name, model.revision)
        with load_errors(model.name, Path(config.name_or_path)):
            module = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        parameters = sum(p.numel() for p in module.parameters())
        linear, head = count_four_bit_weights(module), module.get_output_embeddings().weight.numel()
        adapted = get_peft_model(module, lora_config(lora, module))
        adapter = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    return WeightCounts(parameters, linear, head, adapter, module.config.get_text_config())


def _find_config(name: str, revision: str | None) -> Any:
    """Return a model's configuration, of a hub model downloaded without its weights."""
    from transformers.utils import cached_file

    from collab.models.weights import load_config, load_errors

    store.check_name(name, revision)
    try:
        if name in store.ALIASES or Path(name).expanduser().is_dir():
            folder = store.resolve(name, revision)
        else:
            folder = Path(str(cached_file(name, MODEL_CONFIG, revision=revision))).parent
    except OSError as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ModelUnavailable(
            f"the configuration of {name!r} cannot be loaded: {reason}; check the network, or use a"
            " local folder"
        ) from error
    store.read_config(folder, name)
    with load_errors(name, folder):
        return load_config(folder)


@dataclass(frozen=True)
class ModelSize:
    """A language model's dimensions, from its configuration."""

    parameters: int
    weight_bytes: int
    """Size of all weights in bytes."""
    adapter_parameters: int
    """Parameters of one adapter."""
    dimensions: Dimensions
    packed: int
    """Number of parameters that sampling holds a second time, in the processor's own layout."""
    device: ModelDevice


@cache
def sizes_of(model: TransformersSpec, lora: LoraSpec, card: Card | None = None) -> ModelSize:
    """Return a model's dimensions on `card`, or on this machine's device."""
    counts = count_weights_in_files(model, lora) or count_weights_in_model(model, lora)
    return compute_sizes(model, device_for(model, card), counts)


def compute_sizes(model: TransformersSpec, device: ModelDevice, counts: WeightCounts) -> ModelSize:
    """Return a model's dimensions on a device, computed from its weight counts."""
    saved = int(counts.linear * (device.itemsize - NF4_BYTES)) if model.load_in else 0
    packed = counts.head + (0 if model.load_in else counts.linear)
    return ModelSize(
        parameters=counts.parameters,
        weight_bytes=counts.parameters * device.itemsize - saved,
        adapter_parameters=counts.adapter,
        dimensions=dimensions_of(counts.config, device.itemsize),
        packed=packed if device.packs_weights else 0,
        device=device,
    )
