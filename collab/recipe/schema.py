"""JSON Schema of the files that users write, for editors."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, Literal

from collab.recipe.base import Spec
from collab.recipe.recipe import Recipe
from collab.recipe.reward import RewardSpec
from collab.recipe.task import TaskSpec
from collab.recipe.team import TeamSpec
from collab.recipe.trainer import TrainerSpec

SchemaKind = Literal["recipe", "team", "task", "reward", "trainer"]

PARTS: dict[SchemaKind, type[Spec]] = {
    "recipe": Recipe,
    "team": TeamSpec,
    "task": TaskSpec,
    "reward": RewardSpec,
    "trainer": TrainerSpec,
}


_COMPONENT_CLASSES = {spec.__name__ for part, spec in PARTS.items() if part != "recipe"}
"""Parts that may be a name in a recipe, or extend a component of a name."""


def json_schema(part: SchemaKind = "recipe") -> dict[str, Any]:
    """Return the JSON schema of a part of the recipe, including its short forms (a name for a
    mapping).
    """
    schema = PARTS[part].model_json_schema()
    _add_descriptions({PARTS[part].__name__: schema, **schema.get("$defs", {})})
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    for component in (schema, *schema.get("$defs", {}).values()):
        if component["title"] in _COMPONENT_CLASSES:
            component["properties"]["extends"] = {
                "type": "string",
                "description": "Start from the component of this name.",
            }
            component["required"] = []
    return {key: _allow_names(value) for key, value in schema.items()}


def _add_descriptions(schemas: dict[str, Any]) -> None:
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


@cache
def _field_texts(spec: type[Spec]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a class that have a docstring, with that docstring."""
    (definition,) = ast.parse(inspect.getsource(spec)).body
    assert isinstance(definition, ast.ClassDef)
    texts = []
    for field, below in pairwise(definition.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                texts.append((name, inspect.cleandoc(text)))
    return tuple(texts)


def _allow_names(node: Any) -> Any:
    """Allow a component's name wherever the component is allowed."""
    if isinstance(node, list):
        return [_allow_names(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: _allow_names(value) for key, value in node.items()}
    target = str(node.get("$ref", "")).rpartition("/")[2]
    if target in _COMPONENT_CLASSES:
        described = {key: value for key, value in node.items() if key != "$ref"}
        return {"anyOf": [{"type": "string"}, {"$ref": node["$ref"]}], **described}
    return node
