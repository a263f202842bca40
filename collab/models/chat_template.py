"""Renders chat templates like transformers, but within bounds, because a model's author may be
anyone.

A tokenizer's template runs whenever a model reads a chat, also before any approval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateError, TemplateRuntimeError

from collab.trust.bounded import BoundedEnvironment
from collab.trust.template_costs import Overrun, bounded, charge, cost_of_json, cost_of_time

TemplateItem = dict[str, Any]
"""A message or a tool, in the form that a template takes."""


def render(
    tokenizer: Any,
    messages: Sequence[TemplateItem],
    tools: Sequence[TemplateItem] = (),
    *,
    begin_answer: bool,
) -> str:
    """Return a chat as text in the tokenizer's template. With `begin_answer`, the text ends with
    the beginning of the answer.

    For plain data, the result equals that of `apply_chat_template`.

    Raises:
        TemplateError: the template does not parse, refuses the messages, or fails.
        Overrun: the template exceeds the cost of a compilation or of a rendering.
    """
    fields = {
        **tokenizer.special_tokens_map,
        "messages": [{k: v for k, v in each.items() if v is not None} for each in messages],
        "tools": list(tools) or None,
        "documents": None,
        "add_generation_prompt": begin_answer,
    }
    environment = _environment()
    with bounded(), _template_errors():
        source = tokenizer.get_chat_template(tools=list(tools) or None)
        template = _compile(environment, source)
    with bounded(), _template_errors():
        text = template.render(fields)
        text.encode()  # fails for half a character, which no tokenizer reads
    return text


@contextmanager
def _template_errors() -> Iterator[None]:
    """Context manager for a template's own code: any exception becomes a TemplateError."""
    try:
        yield
    except (TemplateError, Overrun):
        raise
    except Exception as error:  # an expression within it can raise anything
        raise TemplateRuntimeError(f"{type(error).__name__}: {error}") from error


@lru_cache(maxsize=64)
def _compile(environment: BoundedEnvironment, source: str) -> Template:
    return environment.from_string(source)


@lru_cache(maxsize=1)
def _environment() -> BoundedEnvironment:
    """Return a bounded environment with the tags, filters and globals of transformers."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    original = _compile_jinja_template("").environment
    environment = BoundedEnvironment(
        one_shot=True,
        trim_blocks=original.trim_blocks,
        lstrip_blocks=original.lstrip_blocks,
        extensions=[type(extension) for extension in original.iter_extensions()],
    )
    environment.add_filter("tojson", original.filters["tojson"], cost_of_json)
    environment.globals |= {name: original.globals[name] for name in _TRANSFORMERS_GLOBALS}
    format_time = original.globals["strftime_now"]

    def strftime_now(text: str) -> str:
        charge(cost_of_time(text))
        return str(format_time(text))

    environment.globals["strftime_now"] = strftime_now
    return environment


_TRANSFORMERS_GLOBALS = ("raise_exception", "dict", "namespace")
