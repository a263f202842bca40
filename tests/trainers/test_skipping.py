"""Training skips a bad task or gradient and stops if the problem persists."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from support.gradients import on_policy_samples
from support.trainer_recipes import make_game, steps_of
from torch import Tensor

from collab.errors import TrainingError
from collab.recipe import Recipe
from collab.records import read_episodes
from collab.trainers import TrainingRun
from collab.trainers.learner.learner import Learner
from collab.trainers.ranks import orders
from collab.trainers.training import skipping
from collab.trainers.training.events import StepFinished, TrainingEvent
from collab.trainers.training.skipping import StepHistory


def make_long(model: Path, folder: Path, long: set[int], **trainer: Any) -> Recipe:
    """A game in which some tasks exceed the model's context of 256 tokens."""
    recipe = make_game(model, folder, **trainer)
    rows = [
        {"task_id": str(n), "text": "say a word " * (200 if n in long else 1)} for n in range(12)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "game.jsonl").write_text(text)
    return recipe


OWN = """\
from pathlib import Path
def own(context):
    if not Path({mended!r}).exists():
        raise ValueError("broken")
    return min(len(context.joint.text), 9) / 9
"""


def make_broken(model: Path, folder: Path, **trainer: Any) -> Recipe:
    """A game whose reward fails until the file `mended` exists."""
    (folder / "own.py").write_text(OWN.format(mended=str(folder / "mended")))
    data = make_game(model, folder, **trainer).model_dump()
    data["task"]["reward"] = {"parts": {"own": {"use": f"{folder / 'own.py'}:own"}}}
    return Recipe.model_validate(data)


def train(recipe: Recipe, run: Path, **options: Any) -> list[StepFinished]:
    events: list[TrainingEvent] = []
    asyncio.run(TrainingRun(recipe, run, emit=events.append, **options).run())
    return [event for event in events if isinstance(event, StepFinished)]


def test_task_that_is_too_long_is_skipped(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_long(tiny_words, tmp_path, {2}, tasks="0-3", tasks_per_step=1, steps=4)
    events = train(recipe, tmp_path / "run")
    rows = steps_of(tmp_path / "run")
    skipped = [row["step"] for row in rows if row.get("skipped/step")]
    assert (len(rows), len(skipped)) == (4, 1)
    [event] = [event for event in events if event.step == skipped[0]]
    assert "the step was skipped: 4 of 4 episodes failed (4 ContextOverflow)" in event.warnings[0]
    assert "game/2#0" in event.warnings[0]
    assert rows[skipped[0] - 1]["groups/skipped"] == 1.0
    assert sum(e.failure is not None for e in read_episodes(tmp_path / "run")) == 4


def test_group_that_is_too_long_is_skipped_in_its_step(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_long(tiny_words, tmp_path, {2}, tasks_per_step=2, steps=4)
    events = train(recipe, tmp_path / "run")
    rows = steps_of(tmp_path / "run")
    assert sorted(row["groups/skipped"] for row in rows) == [0.0, 0.0, 0.0, 0.5]
    assert all("loss/a" in row and "skipped/step" not in row for row in rows)
    [skipped] = [event.warnings for event in events if event.warnings]
    assert skipped[0].startswith("game/2 was skipped: 4 of 4 episodes failed")


def test_repeated_skips_end_the_training_and_resume_continues_after_them(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skipping, "MAX_SKIPPED_STEPS", 1)
    recipe = make_broken(tiny_words, tmp_path, tasks_per_step=1, steps=4)
    with pytest.raises(TrainingError, match=r"2 steps in a row .* limit 1; "):
        train(recipe, tmp_path / "run")
    assert len(steps_of(tmp_path / "run")) == 2
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "failed"
    (tmp_path / "mended").touch()
    train(recipe, tmp_path / "run", resume=True)
    rows = steps_of(tmp_path / "run")
    assert [bool(row.get("skipped/step")) for row in rows] == [True] * 2 + [False] * 2


def test_run_that_skipped_every_step_fails(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_broken(tiny_words, tmp_path, tasks_per_step=1, steps=2)
    with pytest.raises(TrainingError, match="training skipped every step; the last: 4 of 4"):
        train(recipe, tmp_path / "run")


def test_skips_are_counted_by_policy_until_an_update(tiny_words: Path, tmp_path: Path) -> None:
    history = StepHistory(make_game(tiny_words, tmp_path), total_steps=100)
    for skipped in ("a", "b", "a", "a", "a"):
        history.check_skipped({f"policy/{skipped}": "no number"})
    history.check_skipped({})
    for _ in range(3):
        history.check_skipped({"policy/a": "no number"})
    with pytest.raises(TrainingError, match="4 steps in a row"):
        history.check_skipped({"policy/a": "no number", "policy/b": "no number"})


def poison(learner: Learner, name: str) -> Callable[[], None]:
    """Make one gradient of a policy nan; return a function that undoes it."""
    parameter = next(iter(learner.policies.by_name[name].parameters.values()))

    def spoilt(gradient: Tensor) -> Tensor:
        return torch.full_like(gradient, torch.nan)

    remove: Callable[[], None] = parameter.requires_grad_().register_hook(spoilt).remove
    return remove


def test_nan_gradient_skips_its_policy_once(learner: Learner) -> None:
    policies = learner.policies
    before = {p.name: [x.clone() for x in p.parameters.values()] for p in policies}
    heal = poison(learner, "a")
    update = learner.learn(on_policy_samples(learner.policies), 0, Event())
    assert list(update.skipped) == ["a"]
    assert "the gradient norm of policy 'a' is nan" in update.skipped["a"]
    assert list(update.gradient_norms) == ["b"]
    same = {p.name: all(map(torch.equal, p.parameters.values(), before[p.name])) for p in policies}
    assert same == {"a": True, "b": False}
    heal()
    update = learner.learn(on_policy_samples(learner.policies), 1, Event())
    assert (update.skipped, sorted(update.gradient_norms)) == ({}, ["a", "b"])


def test_nan_loss_leaves_no_trace(learner: Learner) -> None:
    """If the parameters are finite, a single response may be the cause."""
    a, b = on_policy_samples(learner.policies)
    update = learner.learn([replace(a, weight=float("inf")), b], 0, Event())
    assert list(update.skipped) == ["a"]
    assert learner.learn(on_policy_samples(learner.policies), 1, Event()).skipped == {}
    assert all(p.isfinite().all() for p in learner.policies.by_name["a"].parameters.values())


def test_persistent_nan_gradients_end_the_training(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(*arguments: Any) -> Learner:
        learner = Learner(*arguments)
        poison(learner, "a")
        return learner

    monkeypatch.setattr(orders, "Learner", poisoned)
    recipe = make_game(tiny_words, tmp_path, steps=20)
    with pytest.raises(TrainingError, match="the gradient norm of policy 'a' is nan"):
        train(recipe, tmp_path / "run")
    rows = steps_of(tmp_path / "run")
    assert [row["skipped/policy/a"] for row in rows] == [1] * (skipping.MAX_SKIPPED_STEPS + 1)
    assert all("loss/b" in row for row in rows)


def test_nan_gradients_of_all_policies_end_an_alternating_training(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(*arguments: Any) -> Learner:
        learner = Learner(*arguments)
        for name in learner.policies.by_name:
            poison(learner, name)
        return learner

    monkeypatch.setattr(orders, "Learner", poisoned)
    recipe = make_game(tiny_words, tmp_path, steps=20, update_order="alternating")
    with pytest.raises(TrainingError, match="4 steps in a row were skipped"):
        train(recipe, tmp_path / "run")
    assert [row["skipped/step"] for row in steps_of(tmp_path / "run")] == [1] * 4
