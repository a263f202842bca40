"""A component that a recipe names: by its name alone, or with options of its own."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from collab.recipe.base import Spec


class Component(Spec):
    """A named component with its options."""

    use: str
    """A built-in name, a registered one, `module:function` or `file.py:function`."""
    options: dict[str, Any] = {}
    """Passed on to the component."""

    def __str__(self) -> str:
        if not self.options:
            return self.use
        return f"{self.use} ({', '.join(f'{k}={v}' for k, v in self.options.items())})"


def _read(value: Any) -> Any:
    return {"use": value} if isinstance(value, str) else value


def _write(component: Component) -> str | dict[str, Any]:
    if not component.options:
        return component.use
    return {"use": component.use, "options": component.options}


Named = Annotated[
    Component, BeforeValidator(_read), PlainSerializer(_write, return_type=str | dict[str, Any])
]
"""Written as `NAME`, or as `{use: NAME, options: {...}}`."""
