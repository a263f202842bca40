"""Renders chat templates like transformers, but within bounds, because a model's author may be
anyone.

A tokenizer's template runs whenever a model reads a chat, also before any approval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import Template

from collab.trust.bounded import BoundedEnvironment, bounded, charge, cost_of_json, cost_of_time

Given = dict[str, Any]
"""A message or a tool, in the form that a template takes."""


def render(
    tokenizer: Any, messages: Sequence[Given], tools: Sequence[Given] = (), *, begin_answer: bool
) -> str:
    """Return the text of a chat in the tokenizer's template, and the beginning of the answer.

    The text is that of `apply_chat_template` for plain data.

    Raises:
        TemplateError: the template does not parse, or refuses the messages.
        Overrun: the template exceeds the cost of a rendering.
    """
    with bounded():
        template = _compiled(tokenizer.get_chat_template(tools=list(tools) or None))
        return template.render(
            messages=[_without_none(message) for message in messages],
            tools=list(tools) or None,
            documents=None,
            add_generation_prompt=begin_answer,
            **tokenizer.special_tokens_map,
        )


def _without_none(message: Mapping[str, Any]) -> Given:
    return {key: value for key, value in message.items() if value is not None}


@lru_cache(maxsize=64)
def _compiled(template: str) -> Template:
    return _environment().from_string(template)


@lru_cache(maxsize=1)
def _environment() -> BoundedEnvironment:
    """Return a bounded environment with the tags, filters and globals of transformers."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    theirs = _compile_jinja_template("").environment
    environment = BoundedEnvironment(
        one_shot=True,
        trim_blocks=theirs.trim_blocks,
        lstrip_blocks=theirs.lstrip_blocks,
        extensions=[type(extension) for extension in theirs.iter_extensions()],
    )
    environment.add_filter("tojson", theirs.filters["tojson"], cost_of_json)
    environment.globals |= {name: theirs.globals[name] for name in _OF_TRANSFORMERS}
    tell_time = theirs.globals["strftime_now"]

    def strftime_now(text: str) -> str:
        charge(cost_of_time(text))
        return str(tell_time(text))

    environment.globals["strftime_now"] = strftime_now
    return environment


_OF_TRANSFORMERS = ("raise_exception", "dict", "namespace")
