"""The names in a recipe: of functions, components, models and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from collab.passed_functions import is_in_file, is_in_module, is_passed_in_python
from collab.recipe import library
from collab.recipe.base import Component, Spec, specs_in

NameKind = Literal[
    "file function", "module function", "component", "data", "model", "adapter", "program"
]
"""The kind of thing that a name refers to.

A `component` is the file of a team, task, reward or trainer. `data` are a suite's rows or an
earlier run's episodes. A `program` is a Python file in an MCP server's command."""

ReplaceName = Callable[[NameKind, str, str], str]
"""Maps the kind of a name, its key and the name to its replacement."""

_FUNCTION_KEYS = {
    "use", "parser", "join", "source", "engine", "algorithm", "protocol", "harness", "tools",
    "generate", "adapt", "environment",
}  # fmt: skip
"""Keys that may name a function of a module. As for the sets below, the keys count, not the fields
of specs, because files are searched for names before they are joined and validated.
`tests/trust/test_names_hide_nothing.py` fails for a new field of text until it has a set."""
_COMPONENT_KEYS = {
    "team", "task", "reward", "trainer", "extends", "suite",
    "recipe", "tasks", "trainers",
}  # fmt: skip
"""Keys that name components. The last three are keys of a study."""
_FREE_TEXT_KEYS = {
    "role", "prompt", "revise", "discuss", "templates",
    "name", "description", "options", "hidden",
}  # fmt: skip
"""Keys whose values are passed on unchanged."""
_USER_NAMED_KEYS = {"agents", "parts", "functions", "local_parts", "splits", "seats"}
"""Keys of mappings whose own keys are names chosen by the user, with no meaning here."""

VERIFIERS = "verifiers"
"""The generator with the option `environment`: a module to import."""

_COMPONENT_ENDINGS = (*library.YAML_ENDINGS, ".jsonl", ".json", ".gz")
_LOCAL_ENGINES = ("transformers", "vllm", "scripted", "replay")


def environment_function(name: str) -> str:
    """Return the reference `module:function` of the loader of a verifiers environment."""
    return f"{name.replace('-', '_').lower()}:taskset"


def names_of_spec(spec: Spec) -> list[tuple[NameKind, str, str]]:
    """Return the names in a part of a recipe and in the parts below it: kind, key, text."""
    names = names_of_data(spec.model_dump(mode="json", exclude_none=True))
    components = (part for part in specs_in(spec) if isinstance(part, Component))
    for part in components:
        if part.use == VERIFIERS and (name := part.options.get("environment")):
            names.append(("module function", "generate", environment_function(str(name))))
    return names


def names_of_data(data: Any) -> list[tuple[NameKind, str, str]]:
    """Return the names in recipe data: kind, key, text."""
    names: list[tuple[NameKind, str, str]] = []

    def note(kind: NameKind, key: str, text: str) -> str:
        names.append((kind, key, text))
        return text

    map_names(data, note)
    return names


def functions_passed_in_python(spec: Spec) -> tuple[str, ...]:
    """Return the references in `spec` to functions that were passed as Python objects.

    Only this process can call them.
    """
    return tuple(
        dict.fromkeys(text for _, _, text in names_of_spec(spec) if is_passed_in_python(text))
    )


def map_names(value: Any, change: ReplaceName, key: str = "") -> Any:
    """Return a copy of the value of `key` in a recipe's data, or of all data, with `change` applied
    to every name in it."""
    if isinstance(value, dict) and key in _USER_NAMED_KEYS:
        return {name: map_names(item, change) for name, item in value.items()}
    if isinstance(value, dict):
        fields = _map_model(value, change) if key == "model" else value
        return {
            name: item if name in _FREE_TEXT_KEYS else map_names(item, change, _last_key(str(name)))
            for name, item in fields.items()
        }
    if isinstance(value, list | tuple):
        return [map_names(item, change, key) for item in value]
    if not isinstance(value, str):
        return value
    if key == "model" and not is_in_file(value):
        return _map_model_text(value, change)
    kind = _find_kind(value, key)
    return change(kind, key, value) if kind else value


def _last_key(path: str) -> str:
    """Return the last key of a setting's path, or "" if the user chose it."""
    key, *above = reversed(path.split("."))
    is_chosen = above[:1] and above[0] in _USER_NAMED_KEYS and above[1:2] != ["agents"]
    return "" if is_chosen else key


def _find_kind(text: str, key: str) -> NameKind | None:
    if key == "mcp":
        return "program" if text.endswith(".py") else None
    if is_in_file(text):
        return "file function"
    if key in (*_FUNCTION_KEYS, "feedback") and is_in_module(text):
        return "module function"
    if key in _COMPONENT_KEYS and ("/" in text or text.endswith(_COMPONENT_ENDINGS)):
        return "component"
    if key in ("path", "learn_from", "episodes"):  # `episodes`: the former name
        return "data"
    return "adapter" if key == "adapter" else None


def _map_model_text(text: str, change: ReplaceName) -> str:
    engine, separator, name = text.partition(":")
    if not separator:
        return change("model", "transformers", text)
    return f"{engine}:{change('model', engine, name)}" if engine in _LOCAL_ENGINES else text


def _map_model(model: dict[str, Any], change: ReplaceName) -> dict[str, Any]:
    engine, name = str(model.get("engine", "transformers")), model.get("name")
    if engine in _LOCAL_ENGINES and isinstance(name, str):
        return {**model, "name": change("model", engine, name)}
    return model
