"""Converts messages to tokens and tokens to actions, in the same way for every local engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from collab.errors import CollabError, ContextOverflow, ModelError
from collab.models.base import Request
from collab.models.control_tokens import chat_ids, leading_ids, text_ids
from collab.models.tool_template import special_ids, tool_template
from collab.models.tool_text import plain_messages, tool_schemas
from collab.records import Action, FinishReason, ToolCall, Usage, failure_of
from collab.trust.template_costs import MAX_COST, STEP_COST, Overrun


def prompt_ids(request: Request, tokenizer: Any, model: str) -> list[int]:
    """Return the request's tokens as the model sees them. Message text never becomes control
    tokens.

    Raises:
        ModelError: the request has no tokens.
    """
    if not request.prompt_ids and not request.messages:
        raise ModelError("a request has neither messages nor prompt_ids")
    ids = list(request.prompt_ids) or _message_ids(request, tokenizer, model)
    if not ids:
        raise ModelError(f"the prompt for {model!r} has no tokens; give the agent a prompt")
    return ids


def _message_ids(request: Request, tokenizer: Any, model: str) -> list[int]:
    if request.style == "completion":
        parts = ["\n\n".join(m.content for m in request.messages), request.prefix]
        text = "\n".join(part for part in parts if part)
        return [*leading_ids(tokenizer), *text_ids(tokenizer, text)]
    return chat_prompt_ids(request, tokenizer, model) + text_ids(tokenizer, request.prefix)


def chat_prompt_ids(request: Request, tokenizer: Any, model: str) -> list[int]:
    """Return the tokens of a request's messages and of the answer's beginning in the chat template.

    Raises:
        ModelError: the model has no chat template, or the template refuses the messages or exceeds
            the cost of a rendering.
    """
    if not tokenizer.chat_template:
        raise ModelError(
            f"model {model!r} has no chat template, so it cannot read messages; take its "
            "instruction-tuned variant, set the agent's style to 'completion', or give prompt_ids"
        )
    template = tool_template(tokenizer) if request.tools else None
    try:
        if template:
            messages = template.convert_messages(request.messages)
            return chat_ids(tokenizer, messages, tool_schemas(request.tools))
        return chat_ids(
            tokenizer, [{"role": m.role, "content": m.content} for m in plain_messages(request)]
        )
    except TemplateError as error:
        raise ModelError(f"the chat template of {model!r} refuses the messages: {error}") from error
    except Overrun as error:
        raise ModelError(
            f"the chat template of {model!r} handles more than {MAX_COST:,} characters, where"
            f" each step counts as {STEP_COST}; use another model, or shorten the messages"
        ) from error


def check_context(prompt: int, new: int, context: int, model: str) -> None:
    """Raise ContextOverflow unless `prompt` tokens and `new` generated ones fit into `context`."""
    if prompt + new <= context:
        return
    room = context - prompt
    remedy = f"set sampling.max_new_tokens to {room} or less, or " if room > 0 else ""
    raise ContextOverflow(
        f"a prompt of {prompt} tokens and max_new_tokens {new} exceed the context of "
        f"{model!r}, {context} tokens; {remedy}shorten the prompt"
    )


def parse_answer(
    request: Request, prompt: Sequence[int], token_ids: Sequence[int], tokenizer: Any
) -> tuple[str, tuple[ToolCall, ...]]:
    """Return a response's text, and the tool calls that transformers finds in it.

    The text begins with the request's prefix and ends before the first stop string. Special tokens
    are removed, except those that mark a tool call, which must be parsed.
    """
    template = tool_template(tokenizer) if request.tools else None
    ids = list(token_ids)
    if template:
        dropped = special_ids(tokenizer) - template.markers
        ids = [i for i in ids if i not in dropped]
    text: str = tokenizer.decode(ids, skip_special_tokens=not template)
    ends = [at for string in request.sampling.stop if (at := text.find(string)) >= 0]
    text = request.prefix + (text[: min(ends)] if ends else text)
    return text, template.parse_calls(tokenizer, text, prompt, request.tools) if template else ()


def action_of(
    request: Request,
    prompt: Sequence[int],
    token_ids: Sequence[int],
    logprobs: Sequence[float],
    finish_reason: FinishReason,
    *,
    tokenizer: Any,
    model: str,
    started: float,
    cached_tokens: int = 0,
    version: int | None = None,
) -> Action:
    """Return the action of a response to a request that was dispatched at the time `started`."""
    text, calls = parse_answer(request, prompt, token_ids, tokenizer)
    return Action(
        text=text,
        token_ids=tuple(token_ids),
        logprobs=tuple(logprobs),
        prompt_ids=tuple(prompt),
        finish_reason=finish_reason,
        tool_calls=calls,
        model=model,
        adapter=request.adapter,
        version=version,
        usage=Usage(
            prompt_tokens=len(prompt), new_tokens=len(token_ids), cached_tokens=cached_tokens
        ),
        seconds=time.monotonic() - started,
    )


def failed_action(request: Request, error: CollabError, model: str, started: float) -> Action:
    """Return the action of a request, dispatched at the time `started`, that has no response."""
    return Action(
        text="",
        finish_reason="failed",
        model=model,
        adapter=request.adapter,
        seconds=time.monotonic() - started,
        failure=failure_of(error),
    )
