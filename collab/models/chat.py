"""From messages to tokens, and from tokens to text: the same for every local engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from collab.errors import ContextOverflow, ModelError
from collab.models.base import Request
from collab.models.controls import chat_ids
from collab.models.tool_text import fenced


def prompt_ids(request: Request, tokenizer: Any, model: str) -> list[int]:
    """The request's tokens as the model sees them; what its messages say is text, never control.

    Raises ModelError where there are none.
    """
    if request.prompt_ids:
        return list(request.prompt_ids)
    if not request.messages:
        raise ModelError("a request has neither messages nor prompt_ids")
    if not tokenizer.chat_template:
        raise ModelError(
            f"model {model!r} has no chat template, so it cannot read messages; take its "
            "instruction-tuned variant, or give prompt_ids"
        )
    messages = [{"role": m.role, "content": m.content} for m in fenced(request)]
    try:
        return chat_ids(tokenizer, messages)
    except TemplateError as error:
        raise ModelError(f"the chat template of {model!r} refuses the messages: {error}") from error


def check_context(prompt: int, new: int, context: int, model: str) -> None:
    """Raise ContextOverflow unless `prompt` and `new` tokens fit into `context`."""
    if prompt + new <= context:
        return
    room = context - prompt
    remedy = f"set sampling.max_new_tokens to {room} or less, or " if room > 0 else ""
    raise ContextOverflow(
        f"a prompt of {prompt} tokens and max_new_tokens {new} exceed the context of "
        f"{model!r}, {context} tokens; {remedy}shorten the prompt"
    )


def response_text(token_ids: Sequence[int], stop: Sequence[str], tokenizer: Any) -> str:
    """A response without special tokens, up to the first of the stop strings."""
    text: str = tokenizer.decode(list(token_ids), skip_special_tokens=True)
    ends = [at for string in stop if (at := text.find(string)) >= 0]
    return text[: min(ends)] if ends else text
