"""The base of every part of a recipe: unknown keys are errors, fields are documented."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from collab.errors import nearest_name
from collab.wording import counted


class Spec(BaseModel):
    """A part of a recipe, written by a user: frozen, strict about its keys.

    The string below a field describes it. `schema` reads them, which is too slow for an import.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        protected_namespaces=(),
        allow_inf_nan=False,
        hide_input_in_errors=True,  # an address may hold a password
    )

    renamed: ClassVar[Mapping[str, str]] = {}
    """Maps the old names of keys, as older run folders have them, to the current names."""

    removed: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    """Removed keys, which older run folders still hold: their default, and what to do instead."""

    sections: ClassVar[Mapping[str, type[Spec]]] = {}
    """Sections below this part whose keys users often write here by mistake, by name."""

    @model_validator(mode="before")
    @classmethod
    def _resolve_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = {cls.renamed.get(key, key): value for key, value in data.items()}
        lines = []
        for key in sorted(cls.removed.keys() & data.keys()):
            default, instead = cls.removed[key]
            if (value := data.pop(key)) != default:
                lines.append(f"{key} {value!r} was removed; leave the key out{instead}")
        known = {key: value for key, value in data.items() if key in cls.model_fields}
        if unknown := [str(key) for key in data if key not in known]:
            lines += _unknown_key_lines(unknown, cls)
        if not lines:
            return data
        faults: list[Any] = [{"type": "value_error", "ctx": {"error": "\n".join(lines)}}]
        try:
            cls.model_validate(known)
        except ValidationError as error:
            faults += error.errors(include_url=False)
        raise ValidationError.from_exception_data(cls.__name__, faults)

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if faults := list(dict.fromkeys(self._faults())):
            raise ValueError("\n".join(_limited(faults, "fault")))
        return self

    def _faults(self) -> Iterator[str]:
        """Yield the faults of values that do not fit together. Each becomes a line of the error."""
        yield from ()


def specs_in(value: Any) -> Iterator[Spec]:
    """Yield a part of a recipe and every part below it.

    Parts are found by their types, so the names of agents and reward parts do not matter.
    """
    if isinstance(value, Spec):
        yield value
        value = dict(value)
    if isinstance(value, Mapping):
        value = tuple(value.values())
    for below in value if isinstance(value, list | tuple) else ():
        yield from specs_in(below)


def paths_of(key: str, sections: Mapping[str, type[Spec]]) -> list[str]:
    """Return the paths of the key, or of the one that replaced it, in all sections that have it,
    e.g. `team.turns`."""
    return [
        f"{name}.{section.renamed.get(key, key)}"
        for name, section in sections.items()
        if key in {*section.model_fields, *(old.partition(".")[0] for old in section.renamed)}
    ]


_SAME_LEVEL_SIMILARITY = 0.8
"""Similarity from which a key of the same level is suggested rather than one of a section: `task`
for `tasks`, but `trainer.report_episodes` for `report_episodes`."""
_MAX_LISTED_FAULTS = 20
"""Number of unknown keys, or of other faults, that the error about a part lists."""


def _unknown_key_lines(keys: list[str], spec: type[Spec]) -> list[str]:
    known, sections = list(spec.model_fields), spec.sections
    below = [field for section in sections.values() for field in section.model_fields]
    lines: list[str] = []
    for key in keys[:_MAX_LISTED_FAULTS]:
        close = (
            nearest_name(key, known, cutoff=_SAME_LEVEL_SIMILARITY)
            or "' or '".join(paths_of(key, sections))
            or nearest_name(key, known)
            or "' or '".join(paths_of(nearest_name(key, below) or "", sections))
        )
        remedy = f"did you mean '{close}'?" if close else f"known keys: {', '.join(sorted(known))}"
        lines.append(f"unknown key '{key}'; {remedy}")
    return _limited(lines, "unknown key", len(keys))


def _limited(lines: list[str], noun: str, total: int | None = None) -> list[str]:
    """Return the first lines, and a line that counts the others of `total`."""
    more = (total or len(lines)) - _MAX_LISTED_FAULTS
    return [*lines[:_MAX_LISTED_FAULTS], *([counted(more, f"more {noun}")] if more > 0 else [])]


class Component(Spec):
    """A named component with its options."""

    use: str
    """A built-in name, a registered one, `module:function` or `file.py:function`."""
    options: dict[str, Any] = {}
    """Options passed on to the component."""

    def __str__(self) -> str:
        if not self.options:
            return self.use
        return f"{self.use} ({', '.join(f'{k}={v}' for k, v in self.options.items())})"


def _parse_component(value: Any) -> Any:
    return {"use": value} if isinstance(value, str) else value


def _component_data(component: Component) -> str | dict[str, Any]:
    if not component.options:
        return component.use
    return {"use": component.use, "options": component.options}


NamedComponent = Annotated[
    Component,
    BeforeValidator(_parse_component, json_schema_input_type=str | Component),
    PlainSerializer(_component_data, return_type=str | dict[str, Any]),
]
"""A component, written as `NAME` or as `{use: NAME, options: {...}}`."""
