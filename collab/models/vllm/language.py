"""A model's tokenizer and limits, without its weights."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collab.errors import ModelUnavailable
from collab.models import chat
from collab.models.base import Request
from collab.records import ToolCall


@dataclass(frozen=True)
class Language:
    """What it takes to talk to a model that runs elsewhere."""

    tokenizer: Any
    stop_ids: list[int]
    """Tokens that end a response."""
    context: int
    """Positions of prompt and response together."""
    folder: Path

    def prompt_ids(self, request: Request, model: str) -> list[int]:
        """The request's tokens; raises ModelError where there are none."""
        return chat.prompt_ids(request, self.tokenizer, model)

    def check_context(self, prompt: Sequence[int], request: Request, most: int, model: str) -> None:
        """Raise ContextOverflow for what does not fit into the model's context, or `most`."""
        new = request.sampling.max_new_tokens
        chat.check_context(len(prompt), new, min(self.context, most), model)

    def answer(
        self, request: Request, prompt: Sequence[int], token_ids: Sequence[int]
    ) -> tuple[str, tuple[ToolCall, ...]]:
        """A response up to the first stop string, and the calls of tools found in it."""
        return chat.answer(request, prompt, token_ids, self.tokenizer)


def load_language(folder: Path, name: str) -> Language:
    """Read it from the model in `folder`; raises ModelUnavailable where that holds none."""
    from collab.models.weights import quiet_transformers

    try:
        with quiet_transformers():
            from transformers import AutoConfig, AutoTokenizer, GenerationConfig

            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            if (folder / "generation_config.json").is_file():
                generation = GenerationConfig.from_pretrained(folder, local_files_only=True)
            else:
                generation = GenerationConfig.from_model_config(config)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelUnavailable(f"model {name!r} cannot be read from {folder}: {error}") from error
    ends = generation.eos_token_id
    listed = ends if isinstance(ends, list) else [ends]
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    return Language(
        tokenizer=tokenizer,
        stop_ids=sorted({i for i in [*listed, tokenizer.eos_token_id] if i is not None}),
        context=positions or sys.maxsize,
        folder=folder,
    )
