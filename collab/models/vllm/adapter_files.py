"""Reads an adapter's files without torch, and checks that vLLM can serve it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from collab.errors import ModelError, RecipeError
from collab.models.local.adapters import check_harmless
from collab.recipe.documents import parse_json
from collab.runs.layout import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from collab.runs.reading import read_bytes

SERVED_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Adapter ranks for which vLLM can reserve room."""

EMBEDDING_MODULES = ("embed_tokens", "lm_head", "wte", "embed_out")
"""Modules that turn tokens into vectors, and back."""

UNSUPPORTED_OPTIONS = (
    *("use_dora", "use_qalora", "use_bdlora", "modules_to_save", "bias", "lora_bias"),
    *("rank_pattern", "alpha_pattern", "layer_replication", "trainable_token_indices"),
    "alora_invocation_tokens",
)
"""Options of adapters that vLLM does not support. Older versions misread the patterns."""

SAFE_INITIALIZATIONS = ("gaussian", "eva", "orthogonal", "mica", "lora_ga")
"""Initializations of an adapter that leave the base model unchanged."""


def is_adapter(folder: Path) -> bool:
    """Return True if a folder holds an adapter in PEFT's format."""
    return (folder / ADAPTER_CONFIG).is_file()


def served_rank(rank: int) -> int:
    """Return vLLM's reserved rank for an adapter of `rank`, or raise RecipeError above the last."""
    fitting = [size for size in SERVED_RANKS if size >= rank]
    if not fitting:
        raise RecipeError(
            f"vLLM serves adapters up to rank {SERVED_RANKS[-1]}, not {rank}; lower lora.rank, or"
            " run the model with engine transformers"
        )
    return fitting[0]


def check_servable(folder: Path) -> int:
    """Return the rank of an adapter that vLLM can serve.

    Raises:
        RecipeError: vLLM would refuse the adapter, or serve only a part of it.
        ModelError: the files cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    try:
        check_harmless(folder)
        config = parse_json(read_bytes(folder / ADAPTER_CONFIG))
        with safe_open(folder / ADAPTER_WEIGHTS, framework="np") as file:
            tensors = list(file.keys())
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelError(f"adapter {folder} cannot be read: {error}") from error
    for reason in _find_obstacles(config, tensors):
        raise RecipeError(
            f"vLLM cannot serve adapter {folder}: {reason}; run its model with engine transformers"
        )
    rank = int(config.get("r", 0))
    served_rank(rank)
    return rank


def _find_obstacles(config: Mapping[str, Any], tensors: list[str]) -> Iterator[str]:
    for option in UNSUPPORTED_OPTIONS:
        if (value := config.get(option)) and value != "none":
            yield f"its {option} is {value!r:.80}"
    start = config.get("init_lora_weights", True)
    if isinstance(start, str) and start.lower() not in SAFE_INITIALIZATIONS:
        yield f"it changes the base model (init_lora_weights {start})"
    for name in tensors:
        module, _, matrix = name.rpartition(".lora_")
        if matrix not in ("A.weight", "B.weight"):
            yield f"it holds {name}"
        elif module.rpartition(".")[2] in EMBEDDING_MODULES:
            yield f"it adapts {module}, the embeddings or the head"


def write_zero_adapter(source: Path, target: Path) -> None:
    """Write an adapter of zeros to `target`, in the shape of the adapter in `source`. It does not
    change the model."""
    import torch
    from safetensors.torch import load_file, save_file

    target.mkdir()
    (target / ADAPTER_CONFIG).write_text((source / ADAPTER_CONFIG).read_text())
    tensors = load_file(source / ADAPTER_WEIGHTS)
    save_file({name: torch.zeros_like(t) for name, t in tensors.items()}, target / ADAPTER_WEIGHTS)
