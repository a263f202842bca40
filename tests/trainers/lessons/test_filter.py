"""Tasks are measured before training, and only those of middling difficulty are trained on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from pydantic import ValidationError
from support.shares import one_in
from support.trainer_recipes import make_game

from collab.errors import RecipeError, RecordError, TrainingError
from collab.recipe import Recipe, TrainerSpec, load_recipe
from collab.records import read_episodes
from collab.trainers import TrainingRun
from collab.trainers.training import rates
from collab.trainers.training.plan.plan import make_plan

FILTER = {"samples": 4, "low": 0.15, "high": 0.3, "by": "return"}


def filtered(model: Path, folder: Path, filter_: dict[str, Any], **trainer: Any) -> Recipe:
    given = {"steps": 3, "checkpoint_every": 1, "tasks_per_step": 1, "algorithm": "marloo"}
    return make_game(model, folder, filter=filter_, **{**given, **trainer})


def train(recipe: Recipe, run: Path, **options: Any) -> None:
    asyncio.run(TrainingRun(recipe, run, **options).run())


def told(run: Path) -> tuple[dict[str, float], list[str]]:
    """The rates of a run, and the tasks that were kept."""
    found = json.loads((run / "rates.json").read_text())["rates"]
    return found, json.loads((run / "run.json").read_text())["filter"]["kept"]


def left_behind(run: Path) -> tuple[Any, ...]:
    """What does not depend on time."""
    played = [
        (e.id, [d.action.token_ids for t in e.turns for d in t.decisions])
        for e in read_episodes(run)
    ]
    adapters = {p.parent.name: p.read_bytes() for p in run.glob("adapters/*/*.safetensors")}
    return (told(run), played, adapters)


def test_only_tasks_within_the_bounds_are_trained_on(tiny_words: Path, tmp_path: Path) -> None:
    train(filtered(tiny_words, tmp_path, FILTER, steps=8), tmp_path / "run")
    found, kept = told(tmp_path / "run")
    assert list(found) == [f"game/{n}" for n in range(8)]
    assert kept == [task for task, rate in found.items() if 0.15 <= rate <= 0.3]
    assert 0 < len(kept) < 8, found
    assert {episode.task for episode in read_episodes(tmp_path / "run")} == set(kept)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["filter"]["measured"] == 8
    assert 0 < about["filter"]["tokens"] <= 8 * 4 * 2 * 3, "they are not those of training"


@pytest.mark.parametrize("stop", one_in(3, ["in a part", "between parts", "after a step"]))
def test_one_that_was_stopped_goes_on_exactly(
    stop: str, tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "TOGETHER", 3)
    recipe = filtered(tiny_words, tmp_path, FILTER)
    train(recipe, tmp_path / "whole")
    run = tmp_path / "part"

    def emit(event: Any) -> None:
        measuring = event.type == "training.progress" and event.phase == "filter"
        at = {"between parts": 13, "in a part": 17}.get(stop)
        if (measuring and event.done == at) or (at is None and event.type == "step.finished"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, run, emit=emit)
    if stop != "after a step":
        assert len(json.loads((run / "rates.json").read_text())["rates"]) == 3
    measured: list[int] = []

    def count(event: Any) -> None:
        if event.type == "training.progress" and event.phase == "filter":
            measured.append(event.done)

    train(recipe, run, resume=True, emit=count)
    assert left_behind(run) == left_behind(tmp_path / "whole")
    assert len(measured) == (0 if stop == "after a step" else 5 * 4)


def test_episodes_of_other_tasks_are_told_from_episodes_that_failed(
    tiny_words: Path, tmp_path: Path
) -> None:
    train(make_game(tiny_words, tmp_path, steps=1), tmp_path / "before")
    file = tmp_path / "before" / "episodes.jsonl"
    played = [json.loads(line) for line in file.read_text().splitlines()]

    def refusal(run: str, **changed: Any) -> str:
        file.write_text("".join(json.dumps({**e, **changed}) + "\n" for e in played))
        earlier = {**FILTER, "episodes": str(file)}
        with pytest.raises(TrainingError, match="leaves nothing to train on") as raised:
            train(filtered(tiny_words, tmp_path, earlier), tmp_path / run)
        return str(raised.value)

    none = refusal("a", task="other/3")
    assert f"{file} has no episode of game/0 and 7 more; its episodes are of other/3" in none
    assert "failed" not in none
    assert not (tmp_path / "a" / "rates.json").exists(), "nothing was measured"
    failure = {"boundary": "model", "type": "ModelError", "message": "gone"}
    assert "all episodes failed" in refusal("b", failure=failure)


@pytest.mark.slow
def test_rates_of_an_earlier_run_take_the_place_of_playing(
    tiny_words: Path, tmp_path: Path
) -> None:
    train(make_game(tiny_words, tmp_path, steps=4, group_size=4), tmp_path / "before")
    earlier = {**FILTER, "low": 0.0, "high": 0.25, "episodes": str(tmp_path / "before")}
    train(filtered(tiny_words, tmp_path, earlier, steps=1), tmp_path / "run")
    found, kept = told(tmp_path / "run")
    for task, rate in found.items():
        returns = [e.joint_return for e in read_episodes(tmp_path / "before") if e.task == task]
        assert rate == pytest.approx(sum(filter(None, returns)) / len(returns) / 3)
    assert kept
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["filter"]["tokens"] == 0
    rmtree(tmp_path / "before")
    again = load_recipe(str(tmp_path / "run" / "training.yaml"), settings=["trainer.steps=2"])
    assert again.trainer is not None
    assert again.trainer.filter is not None
    assert again.trainer.filter.episodes == str(tmp_path / "run" / "data" / "episodes.jsonl")
    train(again, tmp_path / "run", resume=True)
    assert told(tmp_path / "run") == (found, kept)


@pytest.mark.slow
def test_nothing_left_is_told_and_other_bounds_go_on(tiny_words: Path, tmp_path: Path) -> None:
    none = {**FILTER, "low": 0.99, "high": 1.0}
    with pytest.raises(TrainingError, match=r"none of 8 tasks has a rate from 0.99 to 1; they are"):
        train(filtered(tiny_words, tmp_path, none), tmp_path / "run")
    train(filtered(tiny_words, tmp_path, FILTER, steps=1), tmp_path / "run", resume=True)
    train(filtered(tiny_words, tmp_path, FILTER, steps=1), tmp_path / "whole")
    assert left_behind(tmp_path / "run") == left_behind(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"samples": 5}, None])
def test_a_trained_team_is_not_measured(
    change: dict[str, Any] | None, tiny_words: Path, tmp_path: Path
) -> None:
    train(filtered(tiny_words, tmp_path, FILTER, steps=1), tmp_path / "run")
    other = {**FILTER, **change} if change else None
    recipe = make_game(tiny_words, tmp_path, algorithm="marloo", tasks_per_step=1, filter=other)
    with pytest.raises(RecipeError, match="would change it"):
        train(recipe, tmp_path / "run", resume=True)


def test_a_rate_that_is_lost_is_not_made_up(tiny_words: Path, tmp_path: Path) -> None:
    train(filtered(tiny_words, tmp_path, FILTER, steps=1), tmp_path / "run")
    (tmp_path / "run" / "rates.json").unlink()
    with pytest.raises(RecordError, match=r"lacks the rate of game/0.*start again"):
        train(filtered(tiny_words, tmp_path, FILTER), tmp_path / "run", resume=True)


def test_with_levels_the_kept_tasks_are_ordered(tiny_words: Path, tmp_path: Path) -> None:
    levels = {"above": 0.0, "steps": 1, "by": "return"}
    recipe = filtered(tiny_words, tmp_path, {**FILTER, "low": 0.0, "high": 1.0}, levels=levels)
    train(recipe, tmp_path / "run")
    first = next(iter(read_episodes(tmp_path / "run")))
    assert first.task in {f"game/{n}" for n in (0, 1, 4, 5)}, "those of level 1"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"filter": {}}, "with filter the number of steps"),
        ({"filter": {"low": 0.6, "high": 0.5}, "steps": 1}, "low 0.6 is above high 0.5"),
    ],
)
def test_what_cannot_be_filtered_by(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TrainerSpec.model_validate(settings)


def test_the_plan_says_what_measuring_takes(tiny_words: Path, tmp_path: Path) -> None:
    recipe = filtered(tiny_words, tmp_path, FILTER)
    plan = make_plan(recipe)
    [line] = plan.filter
    assert "before the first step 32 episodes (8 x 4), at most 192 new tokens" in line
    assert "with a rate from 0.15 to 0.3" in line
    assert line in plan.text()
    assert not make_plan(make_game(tiny_words, tmp_path)).filter


def test_a_filter_by_recorded_episodes_takes_nothing(tiny_words: Path, tmp_path: Path) -> None:
    train(filtered(tiny_words, tmp_path, FILTER, steps=1), tmp_path / "run")
    recalled = {**FILTER, "episodes": str(tmp_path / "run")}
    [line] = make_plan(filtered(tiny_words, tmp_path, recalled)).filter
    assert line.startswith(f"filter: nothing is played, the episodes are those of {tmp_path}/run;")
