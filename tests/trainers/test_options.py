"""Every trainer option has an effect; this list covers all of them."""

import asyncio
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.shares import one_in
from support.trainer_recipes import make_game

from collab.api.reading import read_metrics
from collab.errors import CollabError
from collab.recipe import EvaluationSpec, LoraSpec, Recipe, TrainerSpec
from collab.recipe.trainer import PhaseSpec
from collab.records import Sampling
from collab.trainers import TrainingRun, make_plan

TWO_TURNS = {"team.turns": 2}
CLIPPED = {"inner_epochs": 2, "clip_ratio": 0.2}


# Each option has a value, and the other settings without which it has no effect.
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "name": ("mine", {}),
    "description": ("why", {}),
    "algorithm": ("marloo", {}),
    "group_size": (3, {}),
    "tasks": ("0-1", {}),
    "tasks_per_step": (1, {}),
    "epochs": (2, {"steps": None, "tasks": "0-1"}),
    "steps": (1, {}),
    "tokens": (20, {"steps": None}),
    "discount": (0.5, TWO_TURNS),
    "normalize": ("agent", {}),
    "turn_structure": ("tree", {**TWO_TURNS, "group_size": 2}),
    "local_parts": ({"a": ["a_left"]}, {}),
    "team_weight": (0.0, {"local_parts": {"a": ["a_left"], "b": ["b_left"]}}),
    "token_weighting": ("response_mean", {}),
    "clip_ratio": (0.01, CLIPPED),
    "clip_ratio_high": (0.5, CLIPPED),
    "objective": ("gspo", CLIPPED),
    "inner_epochs": (3, CLIPPED),
    "update_order": ("alternating", {}),
    "alternate_every": (2, {"update_order": "alternating"}),
    "importance_cap": (0.5, {}),
    "importance_band": ([0.0, 1.0001], {"temperature": 0.7}),
    "sequence_limit": (0.5, {}),
    "max_staleness": (1, {}),
    "kl_coef": (0.5, {}),
    "policies": ("shared_adapter", {}),
    "lora.rank": (2, {}),
    "lora.alpha": (4.0, {}),
    "lora.targets": (["q_proj"], {}),
    "learning_rate": (1e-3, {}),
    "schedule": ("cosine", {}),
    "warmup_steps": (1, {}),
    "weight_decay": (0.5, {}),
    "max_grad_norm": (1e-6, {}),
    "micro_batch_tokens": (16, {}),
    "tree_attention": ("varlen", {}),
    "gradient_checkpointing": (True, {}),
    "curriculum": ([{"steps": 1, "turns": 1}], TWO_TURNS),
    "curriculum.steps": (2, {**TWO_TURNS, "curriculum": [{"steps": 1, "turns": 1}]}),
    "curriculum.turns": (2, {**TWO_TURNS, "curriculum": [{"steps": 1, "turns": 1}]}),
    "curriculum.feedback": (["solved"], {**TWO_TURNS, "curriculum": [{"steps": 2, "turns": 2}]}),
    "learn_from": ("nowhere", {"algorithm": "sft"}),
    "evaluation": ({"samples": 1}, {}),
    "evaluation.tasks": ("8-9", {"evaluation": {"samples": 1}}),
    "evaluation.every": (1, {"evaluation": {"samples": 1}}),
    "evaluation.every_tokens": (20, {"evaluation": {"samples": 1}}),
    "evaluation.samples": (2, {"evaluation": {"samples": 1}}),
    "evaluation.greedy": (False, {"evaluation": {"samples": 1}}),
    "checkpoint_every": (1, {"keep_checkpoints": 3}),
    "keep_checkpoints": (1, {"keep_checkpoints": 3, "checkpoint_every": 1}),
    "mismatch_tolerance": (1e-12, {"temperature": 0.7}),
    "report_to": (["trackio"], {}),
    "report_episodes": (1, {"report_to": ["trackio"]}),
}

NESTED: dict[str, Any] = {"lora": LoraSpec, "curriculum": PhaseSpec, "evaluation": EvaluationSpec}

TRACKIO = """\
logged = []
def init(**about): logged.append(about["project"])
def log(metrics, step): logged.append((step, metrics.get("samples")))
def Table(columns, data): return len(data)
def finish(): print("logged", logged)
"""


def test_the_list_holds_every_option() -> None:
    several_ranks = "rank_timeout"
    options = set(TrainerSpec.model_fields) - {"lora", several_ranks}
    for name, spec in NESTED.items():
        options |= {f"{name}.{field}" for field in spec.model_fields}
    assert options == set(CHANGES)


@pytest.fixture
def folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a fake tracker."""
    (here / "trackio.py").write_text(TRACKIO)
    monkeypatch.syspath_prepend(here)
    for name in [name for name in sys.modules if name.split(".")[0] == "trackio"]:
        monkeypatch.delitem(sys.modules, name)
    yield here
    sys.modules.pop("trackio", None)


UNCHANGED: dict[str, dict[str, Any]] = {}
"""Metrics of training without an option, by the other settings."""


@pytest.mark.parametrize("option", one_in(8, CHANGES))
def test_every_option_changes_something(
    option: str, tiny_words: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def left_behind(name: str, options: dict[str, Any]) -> dict[str, Any]:
        sys.modules.pop("trackio", None)
        return {**observe(tiny_words, folder / name, options), "output": capsys.readouterr().out}

    value, others = CHANGES[option]
    if (key := json.dumps(others)) not in UNCHANGED:
        UNCHANGED[key] = left_behind("before", others)
    after = left_behind("after", changed(others, option, value))
    assert after != UNCHANGED[key] or changes_number_of_passes(tiny_words, folder, option)


def test_unchanged_options_give_the_same_run(tiny_words: Path, tmp_path: Path) -> None:
    once, again = (observe(tiny_words, tmp_path / name, {}) for name in ("once", "again"))
    assert once == again


def changed(options: dict[str, Any], option: str, value: Any) -> dict[str, Any]:
    outer, _, inner = option.partition(".")
    if not inner:
        return {**options, outer: value}
    held = options.get(outer, {})
    if isinstance(held, list):
        return {**options, outer: [{**held[0], inner: value}]}
    return {**options, outer: {**held, inner: value}}


def observe(model: Path, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Train for two steps and return all results except times."""
    folder.mkdir()
    options = {"steps": 2, "checkpoint_every": 10, **options}
    recipe = recipe_of(model, folder, options)
    try:
        asyncio.run(TrainingRun(recipe, folder / "run").run())
    except CollabError as error:
        return {"error": type(error).__name__}
    run = folder / "run"
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "rows": [without_times(row) for row in rows],
        "team": [digest(path) for path in sorted(run.glob("adapters/*/*"))],
        "checkpoints": sorted(path.name for path in (run / "checkpoints").iterdir()),
        "labels": [recipe.trainer.name, recipe.trainer.description] if recipe.trainer else [],
    }


def recipe_of(model: Path, folder: Path, options: dict[str, Any]) -> Recipe:
    options = dict(options)
    turns = options.pop("team.turns", 1)
    temperature = options.pop("temperature", 1.0)
    data = make_game(model, folder, **options).model_dump()
    data["team"]["turns"] = turns
    data["sampling"]["temperature"] = temperature
    return Recipe.model_validate(data)


def changes_number_of_passes(model: Path, folder: Path, option: str) -> bool:
    value, others = CHANGES[option]
    return layer_passes(recipe_of(model, folder, others)) != layer_passes(
        recipe_of(model, folder, changed(others, option, value))
    )


def layer_passes(recipe: Recipe) -> int:
    """Count the forward passes of a layer for learning from one response."""
    from collab.trainers.learner.logprobs import response_logprobs
    from collab.trainers.learner.policy import open_policies
    from collab.trainers.learner.prefix_tree.packing import PackedSequence
    from collab.trainers.learner.samples import Sample

    assert recipe.trainer is not None
    policies = open_policies(recipe, recipe.trainer)
    policy = next(iter(policies))
    calls: list[int] = []
    with policy.training() as module:
        module.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
        sample = Sample("a", (1, 2), (3, 4), (0.0, 0.0), Sampling(), weight=1.0, scale=1.0)
        row = PackedSequence([sample])
        response_logprobs(module, [row], policy.device).logprobs.sum().backward()
    asyncio.run(policies.aclose())
    return len(calls)


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    timed = ("seconds", "tokens_per_second", "memory_gb")
    return {k: v for k, v in row.items() if k not in timed and not k.startswith("time/")}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_size": 1, "algorithm": "mareinforce", "normalize": "group"}, "normalize 'group'"),
        ({"inner_epochs": 2}, "set objective to ppo and clip_ratio to e.g. 0.2"),
        ({"inner_epochs": 2, "objective": "reinforce", "clip_ratio": 0.2}, "set objective to ppo"),
        ({"team_weight": 0.0}, "name each agent's own parts in local_parts"),
        ({"learning_rates": 1}, "did you mean 'learning_rate'?"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message.replace("?", r"\?")):
        TrainerSpec.model_validate(options)


def test_one_episode_per_group_needs_no_baseline() -> None:
    assert TrainerSpec(group_size=1, algorithm="mareinforce").group_size == 1


def test_plan_shows_what_each_agent_earns(tiny_words: Path, tmp_path: Path) -> None:
    parts = {"a": {"a_left": 2.0}, "b": ["b_left"]}
    plan = make_plan(make_game(tiny_words, tmp_path, local_parts=parts, team_weight=0.5))
    assert plan.credit == ["a earns: 0.5 x reward + 2 x a_left", "b earns: 0.5 x reward + b_left"]
    alone = make_plan(make_game(tiny_words, tmp_path, local_parts={"b": ["b_left"]}))
    assert alone.credit == ["a earns: 1 x reward", "b earns: 1 x reward + b_left"]


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_metrics_show_what_each_agent_earned(
    tiny_words: Path, tmp_path: Path, weight: float
) -> None:
    parts = {"a": {"a_left": weight}, "b": ["b_left"] if weight else {"b_left": 0.0}}
    recipe = make_game(tiny_words, tmp_path, local_parts=parts, team_weight=0.5, steps=1)
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    [row] = read_metrics(tmp_path / "run")
    points = {"a": weight * row["points/a_left"], "b": row["points/b_left"] if weight else 0.0}
    for agent, extra in points.items():
        expected = 0.5 * row["return/mean"] + extra
        assert row[f"agent/{agent}/return"] == pytest.approx(expected)
