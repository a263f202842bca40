"""Sample the next step during an update, on servers that answer like vLLM."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.trainer_recipes import make_game, steps_of
from support.vllm_servers.twin import VLLMTwin

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import VLLMSpec
from collab.records import Episode, read_episodes
from collab.trainers import TrainingRun
from collab.trainers.training.check import check_recipe

pytestmark = pytest.mark.slow

PER_STEP = 2 * 2
"""Episodes per step: tasks times samples."""


@pytest.fixture
def server(tiny_words: Path) -> Iterator[VLLMTwin]:
    with VLLMTwin(tiny_words) as opened:
        yield opened


def overlap_recipe(model: Path, folder: Path, server: VLLMTwin, **trainer: Any) -> Recipe:
    recipe = make_game(model, folder, max_staleness=1, learning_rate=1e-3, group_size=2, **trainer)
    model_here = VLLMSpec(name=str(model), servers=(server.url,), dtype="float32", seeds=True)
    return recipe.model_copy(update={"model": model_here})


def train(recipe: Recipe, run: Path, *, resume: bool = False) -> list[Any]:
    """Train and return all events."""
    events: list[Any] = []
    asyncio.run(TrainingRun(recipe, run, resume=resume, emit=events.append).run())
    return events


def versions_of(run: Path, groups: int = 2) -> list[set[int | None]]:
    """The policy versions that sampled each step's responses."""
    found: dict[int, set[int | None]] = {}
    for episode in read_episodes(run):
        actions = [d.action for turn in episode.turns for d in turn.decisions]
        found.setdefault(episode.group // groups, set()).update(a.version for a in actions)
    return [found[step] for step in sorted(found)]


def check_every_step_once(run: Path, steps: int) -> None:
    """Each step was sampled, recorded and learned once, with policies at most one step old."""
    assert [row["step"] for row in steps_of(run)] == list(range(1, steps + 1))
    ids = [(episode.group, episode.sample) for episode in read_episodes(run)]
    assert len(ids) == len(set(ids)) == steps * PER_STEP
    for step, versions in enumerate(versions_of(run)):
        assert versions <= {max(0, step - 1), step}
    assert all(0 <= row["staleness"] <= 1 for row in steps_of(run))


def test_updates_sample_the_next_step(tiny_words: Path, tmp_path: Path, server: VLLMTwin) -> None:
    recipe = overlap_recipe(tiny_words, tmp_path, server, steps=4)
    events = train(recipe, tmp_path / "run")
    check_every_step_once(tmp_path / "run", 4)
    progress = [(e.type, e.step, getattr(e, "phase", "")) for e in events if hasattr(e, "step")]
    for step in (1, 2, 3):
        began = progress.index(("training.progress", step + 1, "sampling"))
        assert began < progress.index(("step.finished", step, "")), (
            "sampling starts before the previous step is learned"
        )
    rows = steps_of(tmp_path / "run")
    assert rows[0]["staleness"] == 0
    assert any(row["staleness"] > 0 for row in rows[1:])
    assert any(row["agent/a/importance"] != pytest.approx(1, abs=1e-4) for row in rows[1:])
    assert "time/waiting" not in rows[0]
    assert all("time/waiting" in row for row in rows[1:])
    assert all("time/scoring" in row for row in rows)
    assert len(server.bodies) == 4 * PER_STEP * 2, "every sampled response is learned"


@pytest.mark.parametrize(
    "stop_at", [("update", 2), pytest.param(("sampling", 3), marks=pytest.mark.slow)]
)
def test_interrupted_run_resumes_without_losing_episodes(
    tiny_words: Path, tmp_path: Path, server: VLLMTwin, stop_at: tuple[str, int]
) -> None:
    recipe, run = overlap_recipe(tiny_words, tmp_path, server, checkpoint_every=2), tmp_path / "run"

    async def main() -> None:
        def emit(event: Any) -> None:
            if (getattr(event, "phase", ""), getattr(event, "step", 0)) == stop_at:
                task.cancel()

        task = asyncio.ensure_future(TrainingRun(recipe, run, emit=emit).run())
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    train(recipe, run, resume=True)
    check_every_step_once(run, 4)


def test_token_limit_wastes_no_step(tiny_words: Path, tmp_path: Path, server: VLLMTwin) -> None:
    train(overlap_recipe(tiny_words, tmp_path, server, steps=None, tokens=60), tmp_path / "run")
    played = [d for e in read_episodes(tmp_path / "run") for t in e.turns for d in t.decisions]
    assert len(server.bodies) == len(played)


def test_new_curriculum_phase_is_not_sampled_ahead(
    tiny_words: Path, tmp_path: Path, server: VLLMTwin
) -> None:
    recipe = overlap_recipe(
        tiny_words, tmp_path, server, steps=3, curriculum=[{"steps": 2, "turns": 1}]
    )
    recipe = recipe.model_copy(update={"team": recipe.team.model_copy(update={"turns": 2})})
    train(recipe, tmp_path / "run")
    assert versions_of(tmp_path / "run")[2] == {2}
    assert steps_of(tmp_path / "run")[2]["staleness"] == 0


@pytest.mark.slow
def test_evaluations_use_new_weights(tiny_words: Path, tmp_path: Path, server: VLLMTwin) -> None:
    evaluation = {"samples": 1, "every": 1}
    recipe = overlap_recipe(tiny_words, tmp_path, server, steps=2, evaluation=evaluation)
    train(recipe, tmp_path / "run")
    lines = (tmp_path / "run" / "evaluation.jsonl").read_text().splitlines()
    for line in map(json.loads, lines):
        episode = Episode.model_validate(line["episode"])
        versions = {d.action.version for turn in episode.turns for d in turn.decisions}
        assert versions == {line["step"]}
    check_every_step_once(tmp_path / "run", 2)


def test_runs_without_overlap_record_no_versions(game: Recipe, tmp_path: Path) -> None:
    train(game, tmp_path / "run")
    assert '"version"' not in (tmp_path / "run" / "episodes.jsonl").read_text()
    assert all("staleness" not in row for row in steps_of(tmp_path / "run"))


def test_overlap_is_refused_if_the_sampler_shares_the_trained_weights(
    tiny_words: Path, tmp_path: Path
) -> None:
    recipe = make_game(tiny_words, tmp_path, max_staleness=1)
    with pytest.raises(RecipeError, match=r"set model.engine to 'vllm', or trainer.max_staleness"):
        check_recipe(recipe)
    beside = recipe.with_agents(
        {"a": {"model": VLLMSpec(name=str(tiny_words), dtype="float32", trainer_device="cpu")}}
    )
    beside = beside.with_agents({"b": {"trainable": False}})
    with pytest.raises(RecipeError, match=r"agent 'b' samples with the weights"):
        check_recipe(beside)
    asleep = VLLMSpec(name=str(tiny_words), sleep=True)
    with pytest.raises(RecipeError, match=r"remove model.sleep"):
        check_recipe(recipe.model_copy(update={"model": asleep}))


def test_overlap_enables_corrections_by_default() -> None:
    stale = TrainerSpec(max_staleness=1)
    assert (stale.effective_cap, stale.effective_tolerance, stale.has_correction) == (
        2.0,
        1.0,
        True,
    )
    assert TrainerSpec().effective_cap is None
    assert TrainerSpec().effective_tolerance == 0.1
    assert TrainerSpec(max_staleness=1, importance_band=(0.5, 5.0)).effective_cap is None
    assert TrainerSpec(max_staleness=1, importance_cap=1.5).effective_cap == 1.5
    assert TrainerSpec(max_staleness=1, mismatch_tolerance=0.2).effective_tolerance == 0.2


def test_training_run_is_a_tree_of_spans(exported: Any, tiny_words: Path, tmp_path: Path) -> None:
    held_out = {"samples": 1, "greedy": False}
    recipe = make_game(tiny_words, tmp_path, steps=2, group_size=2, evaluation=held_out)
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    *spans, root = exported.get_finished_spans()
    assert root.name == "train pair"
    below: dict[int, list[Any]] = {}
    for span in spans:
        below.setdefault(span.parent.span_id, []).append(span)
    parts = below[root.context.span_id]
    assert [(span.name, span.attributes["collab.step"]) for span in parts] == [
        ("evaluation", 0),
        ("training_step", 1),
        ("training_step", 2),
        ("evaluation", 2),
    ]
    for span in parts:
        [scored] = [e for e in span.events if e.name == "gen_ai.evaluation.result"]
        assert scored.attributes["gen_ai.evaluation.name"] == "return"
        episodes = below[span.context.span_id]
        assert {episode.name for episode in episodes} == {"invoke_workflow pair"}
        assert len(episodes) == 4  # four held-out tasks, or two tasks with two samples
        assert len(below[episodes[0].context.span_id]) == 2
