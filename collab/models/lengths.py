"""Checks requests and adapters against a local model, without loading its weights."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from collab.errors import ModelError
from collab.models import store
from collab.models.base import Request
from collab.models.chat import check_context, prompt_ids
from collab.models.local.adapters import check_base, check_harmless
from collab.models.tool_template import tool_template
from collab.recipe.model import ModelSpec, VLLMSpec, local_weights

TEMPLATE_BYTES, MESSAGE_BYTES = 1024, 128
"""Upper estimates of the bytes that a chat template adds to a prompt, and to each message."""


def context_of(spec: ModelSpec) -> int | None:
    """Return the maximum number of tokens of prompt plus response, or None for a model that is
    hosted or not downloaded."""
    weights = local_weights(spec)
    config = _config(weights.name, weights.revision) if weights else None
    if config is None:
        return None
    key, text = "max_position_embeddings", config.get("text_config")
    context = config.get(key) or (text.get(key) if isinstance(text, dict) else None)
    limits = [context, spec.context if isinstance(spec, VLLMSpec) else None]
    return min((limit for limit in limits if isinstance(limit, int)), default=None)


def check_adapter(folder: Path, spec: ModelSpec) -> None:
    """Check that an adapter belongs to a model of this size, if the model is on this machine.

    Raises:
        ModelError: the adapter does not fit, or cannot be read.
    """
    from safetensors import SafetensorError

    weights = local_weights(spec)
    size = (_config(weights.name, weights.revision) or {}).get("hidden_size") if weights else None
    if weights is None or size is None:
        return
    try:
        check_harmless(folder)
        check_base(folder, size)
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelError(
            f"adapter {folder} does not fit model {weights.name!r}: {error}"
        ) from error


def check_fits(request: Request, spec: ModelSpec) -> None:
    """Check a request against the context of the model that will answer it.

    Raises:
        ContextOverflow: the request does not fit.
        ModelError: the model cannot read the request at all.
    """
    context, weights = context_of(spec), local_weights(spec)
    if context is None or weights is None:
        return
    new = request.sampling.max_new_tokens
    tokens = len(request.prompt_ids)
    if not tokens:
        # A token has at least one byte.
        if _max_prompt_bytes(request) + new <= context and not request.tools:
            return
        tokenizer = _tokenizer(weights.name, weights.revision)
        tokens = len(prompt_ids(request, tokenizer, weights.name))
    check_context(tokens, new, context, weights.name)


def _max_prompt_bytes(request: Request) -> int:
    """Return an upper estimate of the bytes of a prompt without tools."""
    texts = [*(message.content for message in request.messages), request.prefix]
    added = TEMPLATE_BYTES + MESSAGE_BYTES * len(request.messages)
    return sum(len(text.encode()) for text in texts) + added


def knows_tools(spec: ModelSpec) -> bool | None:
    """Return whether a local model's chat template supports tools, or None for a model that is
    hosted or not downloaded."""
    weights = local_weights(spec)
    if weights is None or _config(weights.name, weights.revision) is None:
        return None
    return tool_template(_tokenizer(weights.name, weights.revision)) is not None


@cache
def _config(name: str, revision: str | None) -> dict[str, Any] | None:
    folder = store.local_folder(name, revision)
    return store.read_config(folder, name) if folder else None


@cache
def _tokenizer(name: str, revision: str | None) -> Any:
    from collab.models.weights import load_errors, load_tokenizer

    folder = store.local_folder(name, revision)
    assert folder is not None  # its configuration was read
    with load_errors(name, folder):
        return load_tokenizer(folder)
