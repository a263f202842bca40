"""Prompt templates: Jinja2, sandboxed, over the fields that an agent may see."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, UndefinedError
from jinja2 import Template as JinjaTemplate
from jinja2.sandbox import ImmutableSandboxedEnvironment

from collab.errors import AgentError, RecipeError


class Template:
    """A prompt with `{{ fields }}`.

    Raises:
        RecipeError: on construction, when the template does not parse.
    """

    def __init__(self, source: str, place: str) -> None:
        self.place = place
        try:
            self._template = _compile(source)
        except TemplateSyntaxError as error:
            raise RecipeError(f"{place}, line {error.lineno}: {error.message}") from error

    def render(self, **fields: Any) -> str:
        """The prompt, stripped of outer blank lines.

        Raises:
            AgentError: the template names a field that the task does not have, or fails.
        """
        try:
            return self._template.render(fields).strip()
        except UndefinedError as error:
            task = fields.get("task")
            known = f"; the task's fields: {', '.join(task)}" if isinstance(task, dict) else ""
            raise AgentError(f"{self.place}: {error.message}{known}") from error
        except Exception as error:  # whatever an expression within it can raise
            raise AgentError(f"{self.place}: {type(error).__name__}: {error}") from error


@lru_cache(maxsize=512)
def _compile(source: str) -> JinjaTemplate:
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source)
