"""Agents and reward parts may have names that are keys of a recipe."""

import keyword
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml

from collab import plugins
from collab.errors import RecipeError
from collab.recipe import Recipe, TaskSpec, read_recipe, read_task
from collab.recipe.base import Component, Spec
from collab.recipe.names import names_of_data
from collab.recipe.schema import json_schema
from collab.study.spec import StudySpec

MODEL = {"engine": "openai", "name": "m", "base_url": "http://evil.example/v1", "key": "A_API_KEY"}
SERVER = {"mcp": ["sh", "-c", "touch ran"]}
EXPERT = {"source": "expert", "model": {**MODEL, "base_url": "http://expert.example/v1"}}
ASKED = ("evil.py", "evil.example", "expert.example", "touch ran", "scripted")


def _keys(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        for below in schema.values():
            yield from _keys(below)
    elif isinstance(schema, list):
        for below in schema:
            yield from _keys(below)


NAME_NO_CODE = {
    "adapter_folder", "base_url", "best_of", "config", "device", "entry", "file", "functions",
    "hub", "id_field", "key", "leave_out", "level", "model", "only", "package",
    "prefix", "recipe", "requires", "revision", "says", "seats", "servers", "settings", "shown_as",
    "split", "splits", "stop", "suite", "targets", "tasks", "trainer", "trainer_device",
}  # fmt: skip
"""Keys with text that is never looked up as a function."""
ASKED_OTHERWISE = {"mcp", "server_command", "adapter", "path", "learn_from"}
"""Commands and files, about which `collab.recipe.approval` asks as well."""
FREE_TEXT = {
    "role", "prompt", "revise", "discuss", "templates", "name", "description", "options", "hidden",
}  # fmt: skip


def specs_below(annotation: Any, found: dict[type[Spec], None]) -> dict[type[Spec], None]:
    """Return the specs that a field of this type may hold, with those below them."""
    if isinstance(annotation, type) and issubclass(annotation, Spec) and annotation not in found:
        found[annotation] = None
        for field in annotation.model_fields.values():
            specs_below(field.annotation, found)
    for part in get_args(annotation):
        specs_below(part, found)
    return found


def leaves(annotation: Any) -> set[Any]:
    """Return the types without parts in a type, without keys of mappings and fixed values."""
    if get_origin(annotation) is Literal:
        return set()
    parts = get_args(annotation)[1:] if get_origin(annotation) is dict else get_args(annotation)
    return set().union(*map(leaves, parts)) or {annotation}


def is_found(data: Any) -> bool:
    return ("module function", "shop.tools:buy") in [
        (k, text) for k, _, text in names_of_data(data)
    ]


def test_every_field_that_may_name_a_function_is_known() -> None:
    """A new field with text fails here, until it is asked about or listed above as harmless."""
    not_asked, hidden = set(), set()
    for spec in specs_below(StudySpec, specs_below(Recipe, {})):
        for key, field in spec.model_fields.items():
            if leaves(field.annotation) & {str, Any, Component}:
                not_asked |= set() if is_found({key: "shop.tools:buy"}) else {key}
            if get_origin(field.annotation) is dict and key not in {*FREE_TEXT, "settings"}:
                found = is_found({key: {"options": {"use": "shop.tools:buy"}}})
                hidden |= set() if found else {key}
    assert not_asked == NAME_NO_CODE | ASKED_OTHERWISE | FREE_TEXT
    assert hidden == set()


@cache
def words() -> list[str]:
    return sorted({word for word in _keys(json_schema()) if not keyword.iskeyword(word)})


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "evil.py").write_text("")
    (folder / "words.jsonl").write_text('{"prompt": "p"}\n')
    (tmp_path / "scripted.yaml").write_text("[]")
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    return folder


def test_tested_words_include_the_keys_of_a_recipe() -> None:
    assert {"options", "prompt", "model", "agents", "parts", "templates", "tools"} <= set(words())


def test_agent_named_like_a_key_hides_nothing_from_the_question(theirs: Path) -> None:
    path = theirs / "recipe.yaml"
    hidden = {}
    for word in words():
        agent = {"prompt": "p", "model": MODEL, "parser": "evil.py:f", "tools": [SERVER]}
        scripted = {"prompt": "p", "model": "scripted:../scripted.yaml"}
        team = {"turns": 2, "feedback": [EXPERT], "agents": {word: agent, f"{word}_2": scripted}}
        path.write_text(yaml.safe_dump({"team": team, "model": "echo"}))
        recipe, question = read_recipe(str(path))
        assert isinstance(recipe, Recipe)
        text_shown = question.text()
        if missing := [text for text in ASKED if text not in text_shown]:
            hidden[word] = missing
    assert hidden == {}


def test_part_named_like_a_key_hides_nothing_from_the_question(theirs: Path) -> None:
    path = theirs / "suite.yaml"
    task = {"name": "x", "kind": "text", "source": {"path": "words.jsonl"}}
    hidden = []
    for word in words():
        parts = {word: {"use": "evil.py:f"}}
        path.write_text(yaml.safe_dump({**task, "reward": {"parts": parts}}))
        spec, question = read_task(str(path))
        assert isinstance(spec, TaskSpec)
        if "evil.py" not in question.text():
            hidden.append(word)
    assert hidden == []


@pytest.mark.parametrize("name", ["K.f", "f.__call__", "", "f:f", " f", "f\n", "0"])
@pytest.mark.parametrize("folder", ["theirs", "line\nbreak"])
def test_invalid_function_name_loads_no_file(tmp_path: Path, name: str, folder: str) -> None:
    file = tmp_path / folder / "evil.py"
    file.parent.mkdir()
    file.write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n")
    with pytest.raises(RecipeError, match="does not name a function"):
        plugins.load_function("reward", f"{file}:{name}")
    assert not file.with_name("ran").exists()


def test_file_name_with_a_line_break_loads_nothing(tmp_path: Path) -> None:
    file = tmp_path / "line\nbreak.py"
    file.write_text("def f(context): ...\n")
    with pytest.raises(RecipeError, match="does not name a function"):
        plugins.load_function("reward", f"{file}:f")
