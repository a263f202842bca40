"""Reads a model's `config.json`, which others may have written, and checks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from collab.errors import ModelUnavailable
from collab.models.store.aliases import ALIASES
from collab.recipe.documents import parse_json
from collab.runs.layout import MODEL_CONFIG
from collab.runs.reading import open_file

MAX_CONFIG_BYTES = 10_000_000
"""Maximum size of a configuration."""

CONFIG_LIMITS = {
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layers", "n_layer"), 1_000),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads"), 1_000_000),
    **dict.fromkeys(("hidden_size", "intermediate_size", "vocab_size"), 1_000_000_000),
    "max_position_embeddings": 1_000_000_000,
}
"""Largest credible numbers."""


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """Return the configuration in a model's folder. Messages use `name`.

    Raises:
        ModelUnavailable: the file is not a configuration that transformers can use.
    """
    path = folder / MODEL_CONFIG
    try:
        with open_file(path) as stream:
            content = stream.read(MAX_CONFIG_BYTES + 1)
        if len(content) > MAX_CONFIG_BYTES:
            raise ValueError(f"it has more than the limit of {MAX_CONFIG_BYTES:,} bytes")
        config = parse_json(content, object_hook=_check_object)
        if not isinstance(config, dict):
            raise ValueError("not a mapping")
    except (OSError, ValueError) as error:
        raise ModelUnavailable(
            f"model {name!r}: {path} is not a configuration ({error});"
            f" {how_to_replace(name, folder)}"
        ) from error
    return config


def how_to_replace(name: str, folder: Path | None) -> str:
    """Return the remedy for damaged files of a model. The files of an alias must be deleted first,
    because an installed alias is not downloaded again."""
    if name in ALIASES:
        return f"delete {folder} to download the model again, or use another"
    return "download the model again, or use another"


def _check_object(part: dict[str, Any]) -> dict[str, Any]:
    """Return an object of the configuration, or raise ValueError if it is unsafe or not credible.

    transformers loads an implementation with a hub's name, e.g. of attention, as native code.
    """
    for key, value in part.items():
        if key == "attribute_map" or (key.endswith("_implementation") and "/" in str(value)):
            raise ValueError(f"{key} {value!r:.80} can load code from the hub")
    for key in CONFIG_LIMITS.keys() & part.keys():
        value, limit = part[key], CONFIG_LIMITS[key]
        if value is None or isinstance(value, list | dict):  # one number per layer or part
            continue
        if not isinstance(value, int | float) or not 1 <= value <= limit:
            raise ValueError(f"{key} is {value!r:.40}; use 1 to {limit:,}")
    return part
