"""JSON Schema of the files that users write, for editors."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import yaml

from collab.errors import CollabError, RecipeError
from collab.recipe.base import Spec
from collab.recipe.documents import MOST_CHARACTERS, parse_yaml
from collab.recipe.load import read_recipe
from collab.recipe.overrides import flatten
from collab.recipe.packing import Packing, preface
from collab.recipe.question import about_adapters
from collab.recipe.recipe import Recipe
from collab.recipe.reward import RewardSpec
from collab.recipe.task import TaskSpec
from collab.recipe.team import TeamSpec
from collab.recipe.trainer import TrainerSpec
from collab.runs.atomic import write_atomically
from collab.runs.layout import RECIPE, TRAINING
from collab.trust import remember

Part = Literal["recipe", "team", "task", "reward", "trainer"]

PARTS: dict[Part, type[Spec]] = {
    "recipe": Recipe,
    "team": TeamSpec,
    "task": TaskSpec,
    "reward": RewardSpec,
    "trainer": TrainerSpec,
}


_COMPONENTS = {spec.__name__ for part, spec in PARTS.items() if part != "recipe"}
"""Parts that may be a name in a recipe, or extend a component of a name."""


def json_schema(part: Part = "recipe") -> dict[str, Any]:
    """Return the JSON schema of a part of the recipe, including its short forms (a name for a
    mapping).
    """
    schema = PARTS[part].model_json_schema()
    _describe({PARTS[part].__name__: schema, **schema.get("$defs", {})})
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    for component in (schema, *schema.get("$defs", {}).values()):
        if component["title"] in _COMPONENTS:
            component["properties"]["extends"] = {
                "type": "string",
                "description": "Start from the component of this name.",
            }
            component["required"] = []
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
    if target in _COMPONENTS:
        described = {key: value for key, value in node.items() if key != "$ref"}
        return {"anyOf": [{"type": "string"}, {"$ref": node["$ref"]}], **described}
    return node


def dump_recipe(recipe: Recipe) -> str:
    """Return the recipe as YAML that loads to the same recipe."""
    return _as_yaml(recipe.model_dump(mode="json", exclude_none=True))


def write_recipe(path: Path, recipe: Recipe, packing: Packing) -> None:
    """Write a trusted recipe with all the files it names, so that its folder can be moved.

    Raises:
        RecipeError: the recipe is too long to be read again.
        RecordError: the recipe cannot be written.
        OSError: a file that it names cannot be copied.
    """
    text = preface(recipe) + _as_yaml(packing.pack(recipe))
    if len(text) > MOST_CHARACTERS:
        raise RecipeError(
            f"with all settings, the recipe has {len(text):,} characters of YAML, more than"
            f" {MOST_CHARACTERS:,}; shorten its texts"
        )
    write_atomically(path, text)
    with suppress(CollabError):
        written, question = read_recipe(str(path), is_run=True)
        remember(question)
        remember(about_adapters(written, question, path.parent))


def changes_since(before: Path, now: Recipe) -> Iterator[str]:
    """Yield the settings and files of a recipe that differ from the recipe `before` of a run.

    Raises:
        RecipeError: the earlier recipe cannot be read.
    """
    run, was = before.parent, read_recipe(str(before), is_run=True)[0]
    with TemporaryDirectory() as name:
        fresh = Path(name)
        old, new = flatten(Packing(run).pack(was)), flatten(Packing(fresh, as_read=False).pack(now))
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                yield f"{key} was {old.get(key)!r:.80} and is {new.get(key)!r:.80} now"
        for path in filter(Path.is_file, fresh.rglob("*")):
            file = path.relative_to(fresh)
            if not (run / file).is_file() or (run / file).read_bytes() != path.read_bytes():
                yield f"{file} has changed"


def reward_in(folder: Path) -> RewardSpec | None:
    """Return the reward in the recipe of a run's folder, or None if it cannot be read."""
    files = [file for name in (TRAINING, RECIPE) if (file := folder / name).is_file()]
    try:
        data = parse_yaml(files[0].read_text(encoding="utf-8"), str(files[0]))
        return RewardSpec.model_validate(data["task"]["reward"])
    except (OSError, ValueError, LookupError, TypeError, RecipeError):
        return None


def _as_yaml(data: dict[str, Any]) -> str:
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


class _Dumper(yaml.SafeDumper):
    """Dumps multi-line strings, such as prompts, unescaped."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.strip("\n") else None
    style = '"' if "\x85" in text else style  # YAML takes it for a line end
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _write_text)
