"""Training that ends at a number of generated tokens and evaluates at fixed token counts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.trainer_recipes import make_game, steps_of

from collab.cli.screen.results import step_text
from collab.recipe import Recipe, TrainerSpec
from collab.trainers import TrainingRun, make_plan
from collab.trainers.training.events import StepFinished


def train(recipe: Recipe, run: Path, *, resume: bool = False) -> dict[str, Any]:
    return asyncio.run(TrainingRun(recipe, run, resume=resume).run())


def test_step_that_reaches_the_token_limit_is_the_last(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, steps=None, tokens=100)
    summary = train(recipe, tmp_path / "run")
    spent = [row["tokens"] for row in steps_of(tmp_path / "run")]
    assert sum(spent[:-1]) < 100 <= sum(spent) == summary["tokens"]
    assert summary["of"] is None
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (about["tokens"], about["status"], "steps" in about) == (100, "done", False)
    newest = tmp_path / "run" / "checkpoints" / f"step-{len(spent):06d}"
    assert newest.is_dir(), "the last step leaves a checkpoint"


def test_first_limit_reached_ends_the_run(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, steps=1, tokens=10_000)
    assert train(recipe, tmp_path / "run")["steps"] == 1


def test_evaluations_follow_every_tokens(tiny_words: Path, tmp_path: Path) -> None:
    evaluation = {"samples": 1, "greedy": False, "every_tokens": 60}
    recipe = make_game(tiny_words, tmp_path, steps=None, tokens=150, evaluation=evaluation)
    train(recipe, tmp_path / "run")
    found = [row["tokens"] for row in steps_of(tmp_path / "run", "evaluation.finished")]
    spent = [row["tokens"] for row in steps_of(tmp_path / "run")]
    sums = [sum(spent[:n]) for n in range(len(spent) + 1)]
    due = [0, *(next(s for s in sums if s >= mark) for mark in (60, 120)), sums[-1]]
    assert found == list(dict.fromkeys(due))


@pytest.mark.slow
def test_resumed_run_ends_where_an_uninterrupted_one_does(tiny_words: Path, tmp_path: Path) -> None:
    evaluation = {"samples": 1, "greedy": False, "every_tokens": 60}
    options = {"steps": None, "evaluation": evaluation, "checkpoint_every": 1}
    full = make_game(tiny_words, tmp_path, tokens=150, **options)
    train(full, tmp_path / "whole")
    train(make_game(tiny_words, tmp_path, tokens=70, **options), tmp_path / "parts")
    train(full, tmp_path / "parts", resume=True)
    spent = [[row["tokens"] for row in steps_of(tmp_path / name)] for name in ("whole", "parts")]
    assert spent[0] == spent[1]


def test_run_at_its_token_limit_takes_no_further_step(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, steps=None, tokens=50)
    steps = train(recipe, tmp_path / "run")["steps"]
    assert train(recipe, tmp_path / "run", resume=True)["steps"] == steps


def test_decaying_schedule_needs_a_number_of_steps() -> None:
    with pytest.raises(ValidationError, match="set steps too, or schedule to 'constant'"):
        TrainerSpec(tokens=1000, schedule="linear")
    assert TrainerSpec(tokens=1000, schedule="linear", steps=10).tokens == 1000


def test_plan_and_view_count_tokens(tiny_words: Path, tmp_path: Path) -> None:
    plan = make_plan(make_game(tiny_words, tmp_path, steps=None, tokens=500))
    assert plan.steps == 11, "at most 48 tokens per step: 8 episodes, 2 agents, 3 tokens"
    assert "500 generated tokens, 11 steps or more" in plan.text()
    event = StepFinished(step=3, steps=500, metrics={}, tokens=125, of_tokens=500)
    assert step_text(event) == "3 (25%)"
    assert step_text(event.model_copy(update={"of_tokens": None})) == "3/500"
