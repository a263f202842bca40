"""Settings that change an episode's identity, and settings that do not."""

from pathlib import Path
from typing import Any

import pytest

from collab.evaluation.teams import identity_of
from collab.recipe import Recipe

ROWS = [{"text": "a"}, {"text": "b"}]


def make(**changes: Any) -> Recipe:
    data: dict[str, Any] = {
        "model": {"engine": "echo"},
        "team": {"name": "pair", "agents": {"a": {"prompt": "say"}}},
        "task": {"source": {"path": "x.jsonl"}, "reward": {"parts": {"p": {"use": "length"}}}},
    }
    return Recipe.model_validate({**data, **changes})


AGENT = {"prompt": "say"}
SOURCE = {"path": "elsewhere.jsonl"}
REWARD = {"parts": {"p": {"use": "length"}}}


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": 7},
        {"name": "other", "description": "words"},
        {"team": {"name": "other", "agents": {"a": AGENT}}},
        {"task": {"source": SOURCE, "splits": {"test": "0-1"}, "reward": REWARD}},
        {"trainer": {"algorithm": "magrpo"}},
        {"sandbox": {"workers": 3}},
        {"concurrency": 1},
    ],
)
def test_irrelevant_changes_keep_the_identity(changes: dict[str, Any]) -> None:
    assert identity_of(make(**changes), ROWS) == identity_of(make(), ROWS)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"model": {"engine": "echo", "name": "other"}},
        {"sampling": {"temperature": 0.5}},
        {"sandbox": {"seconds": 1}},
        {"team": {"agents": {"a": {"prompt": "shout"}}}},
        {"task": {"source": SOURCE, "reward": {"parts": {"p": {"use": "length", "weight": 2}}}}},
    ],
)
def test_relevant_changes_alter_the_identity(changes: dict[str, Any]) -> None:
    assert identity_of(make(**changes), ROWS) != identity_of(make(), ROWS)


def test_identity_depends_on_the_rows() -> None:
    assert identity_of(make(), ROWS) != identity_of(make(), [*ROWS, {"text": "c"}])


def test_identity_depends_on_the_order_in_which_agents_act() -> None:
    orders = ({"a": AGENT, "b": AGENT}, {"b": AGENT, "a": AGENT})
    first, other = (identity_of(make(team={"agents": agents}), ROWS) for agents in orders)
    assert first != other


def test_prompt_that_begins_with_a_tilde_is_no_path() -> None:
    prompts = ("~{{ task.text }}. Say it.", "~{{ task.text }}. Shout it.")
    first, other = (make(team={"agents": {"a": {"prompt": prompt}}}) for prompt in prompts)
    assert identity_of(first, ROWS) != identity_of(other, ROWS)


def test_identity_depends_on_file_contents_not_paths(tmp_path: Path) -> None:
    def with_adapter(place: str, weights: bytes) -> str:
        folder = tmp_path / place
        folder.mkdir(exist_ok=True)
        (folder / "adapter_config.json").write_text("{}")
        (folder / "adapter_model.safetensors").write_bytes(weights)
        agents = {"a": {**AGENT, "adapter": str(folder)}}
        return identity_of(make(team={"agents": agents}), ROWS)

    before = with_adapter("one", b"first")
    assert with_adapter("two", b"first") == before
    assert with_adapter("one", b"second") != before


def test_identity_depends_on_the_source_of_a_reward_function(tmp_path: Path) -> None:
    path = tmp_path / "parts.py"

    def with_function(body: str, name: str = "right") -> str:
        path.write_text(body)
        parts = {"p": {"use": f"{path}:{name}"}}
        return identity_of(make(task={"source": SOURCE, "reward": {"parts": parts}}), ROWS)

    before = with_function("def right(context): return 1")
    assert with_function("def right(context): return 0") != before
    assert with_function("def right(context): return 1", "wrong") != before
    assert with_function("def right(context): return 1") == before


def test_a_file_called_like_a_join_keeps_the_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = {"agents": {"a": AGENT}, "join": "text"}
    before = identity_of(make(team=team), ROWS)
    (tmp_path / "text").write_text("notes")
    monkeypatch.chdir(tmp_path)
    assert identity_of(make(team=team), ROWS) == before
