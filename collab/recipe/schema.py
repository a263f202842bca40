"""JSON Schema of what users write, for editors."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

from collab.recipe.base import Spec
from collab.recipe.recipe import Recipe
from collab.recipe.reward import RewardSpec
from collab.recipe.task import TaskSpec
from collab.recipe.team import TeamSpec
from collab.recipe.trainer import TrainerSpec

Part = Literal["recipe", "team", "task", "reward", "trainer"]

PARTS: dict[Part, type[Spec]] = {
    "recipe": Recipe,
    "team": TeamSpec,
    "task": TaskSpec,
    "reward": RewardSpec,
    "trainer": TrainerSpec,
}

_NAMED = {"TeamSpec", "TaskSpec", "RewardSpec", "TrainerSpec", "Component"}


def json_schema(part: Part = "recipe") -> dict[str, Any]:
    """The schema of a part, with the short forms (a name in place of a mapping) allowed."""
    schema = PARTS[part].model_json_schema()
    _describe({PARTS[part].__name__: schema, **schema.get("$defs", {})})
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    if part != "recipe":
        schema.setdefault("properties", {})["extends"] = {
            "type": "string",
            "description": "Start from the component of this name.",
        }
        schema["required"] = []
    return {key: _allow_names(value) for key, value in schema.items()}


def _describe(schemas: dict[str, Any]) -> None:
    """Add the fields' descriptions to the schemas of specs, by class name."""
    for spec in _subclasses(Spec):
        properties = schemas.get(spec.__name__, {}).get("properties")
        if not properties:
            continue
        for owner in reversed(spec.__mro__):
            for name, text in _field_texts(owner) if issubclass(owner, Spec) else ():
                if name in properties:
                    properties[name]["description"] = text


def _subclasses(spec: type[Spec]) -> Iterator[type[Spec]]:
    for child in spec.__subclasses__():
        yield child
        yield from _subclasses(child)


def _field_texts(spec: type[Spec]) -> Iterator[tuple[str, str]]:
    """The fields of a class that have a string below them, and that string."""
    (definition,) = ast.parse(inspect.getsource(spec)).body
    assert isinstance(definition, ast.ClassDef)
    for field, below in pairwise(definition.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                yield name, inspect.cleandoc(text)


def _allow_names(node: Any) -> Any:
    """Let a reference to a component also be its name."""
    if isinstance(node, list):
        return [_allow_names(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: _allow_names(value) for key, value in node.items()}
    target = str(node.get("$ref", "")).rpartition("/")[2]
    if target in _NAMED:
        described = {key: value for key, value in node.items() if key != "$ref"}
        return {"anyOf": [{"type": "string"}, {"$ref": node["$ref"]}], **described}
    return node
