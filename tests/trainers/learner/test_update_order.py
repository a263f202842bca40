"""Agents that learn one after another."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError
from support.algorithm_runs import check_resume

from collab.recipe import TrainerSpec, load_recipe
from collab.trainers.learner.learner import updated_policies
from collab.trainers.learner.policy import Policy


def fake_policy(agent: str) -> Policy:
    """A policy with only a name and an agent."""
    return SimpleNamespace(name=agent, agents=(agent,))  # type: ignore[return-value]


def test_agents_alternate_every_n_steps() -> None:
    policies = [fake_policy(name) for name in "abc"]
    alternating = TrainerSpec(update_order="alternating", alternate_every=2)
    assert [updated_policies(n, policies, alternating)[0].name for n in range(7)] == list("aabbcca")


def trainer_named(name: str, **changes: Any) -> dict[str, Any]:
    spec = load_recipe("coding", task="humaneval", trainer=name).trainer
    assert spec is not None
    return {**spec.model_dump(exclude={"name", "description"}, exclude_unset=True), **changes}


@pytest.mark.slow
def test_agents_waiting_for_their_turn_stay_the_same(tiny_words: Path, tmp_path: Path) -> None:
    trainer = trainer_named("alternating", alternate_every=1, keep_checkpoints=9)
    rows = check_resume(trainer.pop("algorithm"), tiny_words, tmp_path, **trainer)
    assert [[key for key in row if key.startswith("loss/")] for row in rows] == [
        ["loss/a"],
        ["loss/b"],
    ]
    folders = sorted((tmp_path / "whole" / "checkpoints").glob("step-*"))
    saved = [
        {p.parent.name: p.read_bytes() for p in folder.glob("policies/*/*.safetensors")}
        for folder in folders
    ]
    changed = [
        {name for name in "ab" if before[name] != after[name]} for before, after in pairwise(saved)
    ]
    assert changed == [{"a"}, {"b"}]


def test_alternating_order_with_shared_parameters_is_refused() -> None:
    with pytest.raises(ValidationError, match="set policies to 'adapters'"):
        TrainerSpec(update_order="alternating", policies="shared_adapter")
