"""Training that cannot be right stops and says why."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from support.trainer_recipes import make_game
from typer.testing import CliRunner

from collab.cli.app import app
from collab.errors import CollabError, RecipeError, RecordError, TrainingError
from collab.recipe import Recipe
from collab.recipe.dump import dump_recipe
from collab.records import read_episodes
from collab.trainers import TrainingRun
from collab.trainers.credit import PerGroup
from collab.trainers.credit.magrpo import magrpo
from collab.trainers.learner.learner import OutOfMemory, TorchLearner, _memory
from collab.trainers.learner.lora import add_adapter
from collab.trainers.learner.policy import Policies, open_policies
from collab.trainers.learner.samples import Sample
from collab.trainers.training.check import check_recipe
from collab.trainers.training.checkpoints import Checkpoints


@pytest.fixture
def learner(game: Recipe) -> Iterator[TorchLearner]:
    spec = check_recipe(game)
    policies = open_policies(game, spec)
    yield TorchLearner(policies, spec, total_steps=4)
    asyncio.run(policies.aclose())


def samples_for(policies: Policies, agents: str = "ab", weight: float = 1.0) -> list[Sample]:
    """Responses with the log-probs that the policies themselves give them."""
    from collab.trainers.learner.logprobs import response_logprobs

    found = []
    for agent in agents:
        policy = policies.of(agent)
        plain = Sample(agent, (1, 2, 3), (4, 5), (0.0, 0.0), 1.0, weight=weight, scale=0.5)
        with policy.training() as model, torch.no_grad():
            own = response_logprobs(model, [[plain]], policy.device).logprobs.tolist()
        found.append(Sample(agent, (1, 2, 3), (4, 5), tuple(own), 1.0, weight=weight, scale=0.5))
    return found


def test_only_the_agents_own_adapter_changes(learner: TorchLearner) -> None:
    before = tensors(learner.policies)
    learner.learn(samples_for(learner.policies, "a"), 0, Event())
    after = tensors(learner.policies)
    changed = {name.split("/")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"a"}


def tensors(policies: Policies) -> dict[str, torch.Tensor]:
    found = {f"{p.name}/{k}": v.detach().clone() for p in policies for k, v in p.parameters.items()}
    module = policies.by_name["a"].engine.module
    base = {k: v for k, v in module.named_parameters() if "lora_" not in k}
    return {**found, **{f"base/{k}": v.detach().clone() for k, v in base.items()}}


def test_responses_without_weight_are_not_computed(learner: TorchLearner) -> None:
    update = learner.learn(samples_for(learner.policies, weight=0.0), 0, Event())
    assert update.computed_tokens == 0
    assert update.losses == {}


@pytest.mark.parametrize("policies", ["adapters", "full"])
def test_gradient_checkpointing_warns_of_nothing(
    tiny_words: Path, tmp_path: Path, policies: str
) -> None:
    """Warnings are errors here; the first sampling asks how the model attends."""
    recipe = make_game(tiny_words, tmp_path, policies=policies, gradient_checkpointing=True)
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())


def test_an_optimiser_of_stale_parameters_stops_the_run(learner: TorchLearner) -> None:
    policy = learner.policies.by_name["a"]
    with pytest.warns(UserWarning, match="Adapter a was active"):
        policy.engine.module.delete_adapter("a")
    add_adapter(policy.engine, "a", learner.spec.lora, seed=1, start=None)
    with pytest.raises(TrainingError, match="policy 'a' did not change in its first step"):
        learner.learn(samples_for(learner.policies, "a"), 0, Event())


def test_a_sampler_that_is_not_the_trainer_stops_the_run(learner: TorchLearner) -> None:
    [sample] = samples_for(learner.policies, "b")
    off = Sample("b", sample.prompt_ids, sample.token_ids, (-0.1, -0.1), 1.0, 1.0, 0.5)
    with pytest.raises(TrainingError, match=r"agent 'b'.*more than trainer.mismatch_tolerance 0.1"):
        learner.learn([off], 0, Event())


def test_a_loss_that_is_no_number_stops_the_run(learner: TorchLearner) -> None:
    samples = samples_for(learner.policies, "a")
    for parameter in learner.policies.by_name["a"].parameters.values():
        parameter.data.fill_(float("nan"))
    with pytest.raises(TrainingError, match="the loss of policy 'a' is nan"):
        learner.learn(samples, 0, Event())


def test_frozen_parameters_stop_the_run(learner: TorchLearner) -> None:
    policy = learner.policies.by_name["a"]
    samples = samples_for(learner.policies, "a")
    training = policy.training

    @contextmanager
    def frozen() -> Iterator[Any]:
        with training() as model:
            model.requires_grad_(False)
            yield model

    policy.training = frozen  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match="frozen in the model"):
        learner.learn(samples, 0, Event())


def test_no_memory_names_the_knobs(learner: TorchLearner) -> None:
    policy = learner.policies.by_name["a"]
    with pytest.raises(OutOfMemory, match=r"lower trainer.micro_batch_tokens, now 2048"):  # noqa: SIM117
        with _memory(learner.spec, policy):
            torch.empty(1 << 60)


REWARDS = """\
import time
def raises(context): raise ValueError("broken")
def nan(context): return float("nan")
def blocks(context): time.sleep(5); return 1.0
"""


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("raises", r"rewards.py:2: ValueError: broken"),
        ("nan", "gave nan"),
        ("blocks", "was not done within 0.2 s"),
    ],
)
def test_a_reward_that_fails_ends_training_with_its_reason(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, told: str
) -> None:
    (tmp_path / "rewards.py").write_text(REWARDS)
    monkeypatch.chdir(tmp_path)
    data = make_game(tiny_words, tmp_path).model_dump()
    data["task"]["reward"] = {"parts": {part: {"use": f"rewards.py:{part}"}}, "seconds": 0.2}
    with pytest.raises(TrainingError, match=f"8 of 8 episodes failed.*{told}"):
        asyncio.run(TrainingRun(Recipe.model_validate(data), tmp_path / "run").run())
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["status"] == "failed"
    kept = [episode.failure for episode in read_episodes(tmp_path / "run")]
    assert len(kept) % 8 == 0
    assert {failure and failure.type for failure in kept} == {"RewardError"}
    assert part != "raises" or 'ValueError("broken")' in str(kept[0] and kept[0].traceback)


def test_an_algorithm_that_raises_is_told_in_the_run(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("def broken(group):\n    return group.nothing\n")
    monkeypatch.chdir(tmp_path)
    recipe = make_game(tiny_words, tmp_path, algorithm="mine.py:broken")
    with pytest.raises(TrainingError, match=r"'mine.py:broken': mine\.py:2: AttributeError"):
        asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    failure = json.loads((tmp_path / "run" / "run.json").read_text())["failure"]
    assert "return group.nothing" in failure["traceback"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("team.join", "mine.py:nothing"),
        ("team.agents.a.parser", "mine.py:nothing"),
        ("team.feedback", ["mine.py:nothing"]),
        ("task.reward.parts", {"it": {"use": "mine.py:nothing"}}),
        ("trainer.algorithm", "mine.py:nothing"),
    ],
)
def test_functions_that_cannot_be_called_are_found_before_any_work(
    game: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, value: Any
) -> None:
    (tmp_path / "mine.py").write_text("def nothing(): ...\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match="is called with"):
        TrainingRun(changed(game, path, value), tmp_path / "run")


def changed(recipe: Recipe, path: str, value: Any) -> Recipe:
    data = recipe.model_dump()
    *keys, last = path.split(".")
    place = data
    for key in keys:
        place = place[key]
    place[last] = value
    return Recipe.model_validate(data)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("trainer", None, "names no trainer"),
        ("task", None, "names no task"),
        ("team.agents.a.model", "echo", "engine 'echo' has no weights here"),
        ("sampling.temperature", 0.0, "samples at temperature 0"),
        ("model.dtype", "float16", "float16: .* set model.dtype to bfloat16 or float32"),
        (
            "team.agents.b.model",
            {"engine": "vllm", "name": "smollm2-135m", "dtype": "float16"},
            "set agents.b.model.dtype to bfloat16 or float32",
        ),
        ("trainer.algorithm", "grpo", "unknown algorithm 'grpo'"),
        ("trainer.group_size", 1, "group_size 1 leaves 'magrpo' nothing to compare"),
        ("trainer.local_parts", {"c": ["a_left"]}, "unknown agent"),
        ("trainer.local_parts", {"a": ["a_lft"]}, "did you mean 'a_left'"),
        ("trainer.tasks", "train,test", "both trained on and held out"),
    ],
)
def test_recipes_that_cannot_be_trained_say_so(
    tiny_words: Path, tmp_path: Path, path: str, value: Any, told: str
) -> None:
    recipe = changed(make_game(tiny_words, tmp_path, evaluation={}), path, value)
    with pytest.raises(CollabError, match=told):
        TrainingRun(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("path", "value"), [("sampling.top_p", 0.9), ("sampling.top_k", 5)])
def test_divergence_needs_whole_distributions(
    tiny_words: Path, tmp_path: Path, path: str, value: Any
) -> None:
    recipe = changed(make_game(tiny_words, tmp_path, kl_coef=0.1), path, value)
    with pytest.raises(RecipeError, match=r"set kl_coef to 0, or top_p=1.0 and top_k=0"):
        TrainingRun(recipe, tmp_path / "run")


def test_truncated_sampling_agrees_with_the_trainer(tiny_words: Path, tmp_path: Path) -> None:
    recipe = changed(make_game(tiny_words, tmp_path, steps=2), "sampling.top_p", 0.7)
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    rows = [json.loads(r) for r in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    for row in rows:
        assert row["mismatch"] < 1e-5
        assert row["agent/a/outside_support"] == row["agent/b/outside_support"] == 0


def test_a_team_without_a_trainable_agent(game: Recipe, tmp_path: Path) -> None:
    frozen = changed(
        changed(game, "team.agents.a.trainable", False), "team.agents.b.trainable", False
    )
    with pytest.raises(RecipeError, match="no agent of the team is trainable"):
        TrainingRun(frozen, tmp_path / "run")


def test_cross_has_a_limit(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, joint_mode="cross", group_size=100)
    with pytest.raises(RecipeError, match=r"100\^2 = 10000 joint actions"):
        TrainingRun(recipe, tmp_path / "run")


def test_a_tracker_that_is_not_installed(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, report_to=["wandb"])
    with pytest.raises(RecipeError, match=r"pip install 'collab-agents\[wandb\]'"):
        TrainingRun(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_layers_that_are_not_there(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, lora={"targets": ["no_proj"]})
    with pytest.raises(RecipeError, match=r"lora.targets \['no_proj'\]"):
        asyncio.run(TrainingRun(recipe, tmp_path / "run").run())


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file grows beyond `size` bytes; Python ignores the signal, and the write fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_loses_nothing(
    game: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = game.model_dump()
    data["trainer"] |= {"steps": 200, "checkpoint_every": 1000, "lora": {"rank": 1}}
    (tmp_path / "r.yaml").write_text(dump_recipe(Recipe.model_validate(data)))
    monkeypatch.chdir(tmp_path)
    with full_disk(150_000):
        found = CliRunner().invoke(app, ["train", "r.yaml", "--out", "run"])
    assert found.exit_code == 2
    assert "free some room, then go on with --resume" in found.stderr
    assert len(list(read_episodes(tmp_path / "run"))) > 50
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"
    assert list((tmp_path / "run" / "checkpoints").glob("step-*"))


def test_a_full_disk_leaves_no_part_of_a_checkpoint(learner: TorchLearner, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=1)
    told = r"cannot be written: .*File too large"
    with full_disk(2000), pytest.raises(RecordError, match=told):
        Checkpoints(tmp_path / "checkpoints", 1).save(0, learner, PerGroup(magrpo), {})
    assert not list(checkpoints.folder.iterdir())


@pytest.mark.parametrize("files", [{}, {"adapter_config.json": '{"peft_type": "LORA"}'}])
def test_an_adapter_to_begin_from_that_is_not_there(
    game: Recipe, tmp_path: Path, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    recipe = changed(game, "team.agents.a.adapter", str(tmp_path))
    with pytest.raises(RecipeError, match=f"adapter {tmp_path} cannot be read"):
        asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
