"""Agents and reward parts may have names that are keys of a recipe."""

import keyword
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from collab import plugins
from collab.errors import RecipeError
from collab.recipe import Recipe, TaskSpec, read_recipe, read_task
from collab.recipe.schema import json_schema

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
        plugins.load("reward", f"{file}:{name}")
    assert not file.with_name("ran").exists()


def test_file_name_with_a_line_break_loads_nothing(tmp_path: Path) -> None:
    file = tmp_path / "line\nbreak.py"
    file.write_text("def f(context): ...\n")
    with pytest.raises(RecipeError, match="does not name a function"):
        plugins.load("reward", f"{file}:f")
