"""JSON Schema of recipes, and the copies for editors."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from collab.errors import RecipeError
from collab.recipe import library, load_recipe
from collab.recipe.base import Spec
from collab.recipe.packing import RecipePacker
from collab.recipe.schema import PARTS, SchemaKind, json_schema
from collab.recipe.writing import write_recipe

ROOT = Path(__file__).resolve().parents[2]


@cache
def schema_of(part: SchemaKind) -> dict[str, Any]:
    """The schema of a part; cached, because it takes a second."""
    return json_schema(part)


@pytest.mark.parametrize("part", PARTS)
def test_the_copies_in_docs_are_up_to_date(part: SchemaKind) -> None:
    text = (ROOT / "docs" / "schema" / f"{part}.json").read_text()
    assert json.loads(text) == schema_of(part), "remedy: make schema"


def test_specs_defined_elsewhere_do_not_change_the_schema() -> None:
    """Holds even for a class within a function, whose source cannot be parsed alone."""

    class Other(Spec):
        field: int = 0

    assert "Other" not in json.dumps(json_schema())
    del Other


@pytest.mark.parametrize("part", PARTS)
def test_every_field_is_described(part: SchemaKind) -> None:
    missing = [
        f"{name}.{field}"
        for name, node in {part: schema_of(part), **schema_of(part).get("$defs", {})}.items()
        for field, schema in node.get("properties", {}).items()
        if "description" not in schema
        and "$ref" not in schema
        and "const" not in schema
        and field not in ("name", "description", "extends", "agents", "parts")
    ]
    assert missing == []


@pytest.mark.parametrize("kind", ["team", "task", "reward", "trainer"])
def test_shipped_components_name_their_schema(kind: library.ComponentKind) -> None:
    for _, path in library.components(kind):
        first = path.read_text().split("\n", 1)[0]
        assert first.startswith("# yaml-language-server: $schema=")
        schema = (path.parent / first.partition("$schema=")[2]).resolve()
        assert schema.is_file(), f"{path} names {schema}"
        assert yaml.safe_load(path.read_text())


@pytest.mark.parametrize("part", PARTS)
def test_schema_accepts_every_shipped_file(part: SchemaKind) -> None:
    files = [*(ROOT / "examples" / "recipes").glob("*.yaml")]
    if part != "recipe":
        files = [path for _, path in library.components(part)]
    schema = pytest.importorskip("jsonschema").Draft202012Validator(schema_of(part))
    for path in files:
        faults = [fault.message for fault in schema.iter_errors(yaml.safe_load(path.read_text()))]
        assert not faults, path


def test_schema_accepts_one_server_as_a_recipe_does() -> None:
    schema = pytest.importorskip("jsonschema").Draft202012Validator(schema_of("recipe"))
    model = {"engine": "vllm", "name": "m", "servers": "http://127.0.0.1:8000"}
    schema.validate({"team": "coding", "model": model})
    assert load_recipe({"team": "coding", "model": model})


def test_too_long_recipe_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collab.recipe.writing.MAX_YAML_CHARACTERS", 100)
    with pytest.raises(RecipeError, match=r"has [\d,]+ characters of YAML, more than 100; shorten"):
        write_recipe(tmp_path / "recipe.yaml", load_recipe("coding"), RecipePacker(tmp_path))
    assert not (tmp_path / "recipe.yaml").exists()
