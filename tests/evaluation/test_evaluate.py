"""`collab.evaluate`: untrained and trained teams on one model in memory; the default model."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.trainer_recipes import make_game

import collab
from collab.errors import RecipeError
from collab.evaluation.results import Results
from collab.models import weights
from collab.recipe.model import TransformersSpec
from collab.recipe.writing import dump_recipe
from collab.runs.about import read_about
from collab.trainers.training.run import TrainingRun


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the names of models whose weights are loaded."""
    names: list[str] = []
    load = weights.load_model

    def counted(folder: Path, spec: TransformersSpec) -> Any:
        names.append(spec.name)
        return load(folder, spec)

    monkeypatch.setattr(weights, "load_model", counted)
    return names


def test_untrained_and_trained_team_share_one_model(
    tiny_words: Path, here: Path, loads: list[str]
) -> None:
    game = make_game(tiny_words, here, steps=2, learning_rate=0.05)
    asyncio.run(TrainingRun(game, here / "runs" / "trained", emit=lambda event: None).run())
    untrained = game.model_copy(update={"trainer": None})
    (here / "untrained.yaml").write_text(dump_recipe(untrained))
    loads.clear()

    teams = ("untrained.yaml", "runs/trained")
    result = collab.evaluate(*teams, split="test", samples=6, out="evals/first")

    assert len(loads) == 1
    assert [team.label for team in result.teams] == ["untrained", "trained"]
    before, after = result.teams
    assert before.identity != after.identity
    assert before.metrics["return"] != after.metrics["return"]
    assert [team.episodes for team in result.teams] == [24, 24]
    assert result.differences[0].metrics["return"].mean == pytest.approx(
        after.metrics["return"].mean - before.metrics["return"].mean
    )
    assert all(team.speed and team.speed.tokens_per_second > 0 for team in result.teams)
    about = read_about(here / "evals" / "first" / "trained")
    assert about.keys().isdisjoint(("type", "trainer", "warnings"))

    loads.clear()
    again = collab.evaluate(*teams, split="test", samples=6, out="evals/first")
    assert loads == []
    assert metrics(again) == metrics(result)


def metrics(results: Results) -> list[Any]:
    return [team.metrics for team in results.teams]


def test_evaluation_without_a_folder_writes_nothing(here: Path) -> None:
    result = collab.evaluate("coding-single", "coding", task="humaneval/0", model="echo")
    assert result.status == "done"
    assert [team.folder for team in result.teams] == [None, None]
    assert list(here.iterdir()) == []


def test_k_larger_than_the_samples_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"use --samples 5 \(.*, or leave 5 out of --k"):
        collab.evaluate("coding", task="humaneval/0", samples=2, k=[1, 5], model="echo")


def test_problems_with_fewer_than_k_finished_episodes_are_noted(here: Path) -> None:
    Path("script.yaml").write_text("[{failure: the line is dead}, x, x, x]")
    result = collab.evaluate(
        "coding-single", task="coopcode/0-1", samples=2, k=[1, 2], model="scripted:script.yaml"
    )
    assert {k: result.teams[0].metrics[f"pass@{k}"].tasks for k in (1, 2)} == {1: 2, 2: 1}
    text = (
        "coding-single: pass@2 and other values at 2 cover 1 of 2 problems: those with 2 finished"
        " episodes"
    )
    assert [note for note in result.notes if "pass@" in note] == [text]


@pytest.mark.parametrize("model", ["echo", pytest.param("smollm2-135m", marks=pytest.mark.slow)])
def test_one_agent_and_two_on_humaneval(here: Path, model: str) -> None:
    result = collab.evaluate(
        "coding-single",
        "coding",
        task="humaneval/133-134",
        samples=2,
        k=[1, 2],
        model=model,
        settings=["team.sampling.max_new_tokens=24"],
    )
    single, pair = result.teams
    assert single.models == {"main": model}
    assert set(pair.agents) == {"aux", "main"}
    assert {"pass@1", "pass@2", "accuracy@2", "level/tests", "return"} <= set(single.metrics)
    assert "coop@1" in pair.metrics
    assert "coop@1" not in single.metrics
    assert (single.maximum, pair.maximum) == (2.1, 4.0)
    assert 0 < pair.agents["aux"]["new_tokens"] <= 4 * 24
