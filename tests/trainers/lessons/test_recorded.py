"""Fine-tune a team on recorded episodes, its own or another model's."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from threading import Event
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from support.algorithm_runs import check_resume
from support.naive import objective as naive
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS, make_solvable, steps_of

from collab.errors import RecipeError, RecordError
from collab.recipe import Recipe, TrainerSpec, load_recipe
from collab.records import Episode, read_episodes
from collab.trainers import TrainingRun
from collab.trainers.learner.learner import Learner
from collab.trainers.learner.policy import Policies, open_policies
from collab.trainers.learner.samples import Sample
from collab.trainers.training.check import check_recipe
from collab.trainers.training.data import choose_tasks
from collab.trainers.training.recorded import RecordedStepper, episodes_of_visit
from collab.trainers.training.rollouts import complete_episodes


@pytest.fixture(scope="module")
def recorded_run(tiny_words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose team solved some of its tasks."""
    folder = tmp_path_factory.mktemp("before")
    recipe = make_solvable(tiny_words, folder, steps=4, group_size=10, learning_rate=1e-6)
    asyncio.run(TrainingRun(recipe, folder / "run").run())
    assert len(solved_in(folder / "run")) > 4
    return folder / "run"


def solved_in(run: Path) -> list[Episode]:
    return [episode for episode in read_episodes(run) if episode.solved]


def sft_recipe(model: Path, folder: Path, episodes: Path, **trainer: Any) -> Recipe:
    settings = {"steps": 3, "algorithm": "sft", "checkpoint_every": 1, **trainer}
    return make_solvable(model, folder, learn_from=str(episodes), **settings)


def changed(recipe: Recipe, agent: str, **settings: Any) -> Recipe:
    data = recipe.model_dump(mode="json", exclude_none=True)
    data["team"]["agents"][agent] |= settings
    return Recipe.model_validate(data)


@contextmanager
def open_stepper(recipe: Recipe) -> Iterator[tuple[Policies, RecordedStepper]]:
    """Open a recipe's policies in float64 and its stepper for recorded episodes."""
    spec = check_recipe(recipe)
    policies = open_policies(recipe, spec)
    policies.by_name["a"].engine.module.double()
    learner = Learner(policies, spec, total_steps=1)
    tasks = choose_tasks(recipe, spec)
    stepper = RecordedStepper(recipe, spec, tasks, learner)
    yield policies, stepper
    asyncio.run(stepper.aclose())
    asyncio.run(policies.aclose())


def gradient(policies: Policies, samples: Sequence[Sample], spec: TrainerSpec, agent: str) -> Any:
    """Return the gradients that the agent's optimizer receives."""
    learner = Learner(policies, spec, total_steps=1)
    policy = policies.of(agent)
    caught: list[torch.Tensor] = []

    def catch(rate: float, max_norm: float | None) -> float:
        for parameter in policy.parameters.values():
            assert parameter.grad is not None
            caught.append(parameter.grad.clone().flatten())
        return 1.0

    learner.optimizers[agent].step = catch  # type: ignore[method-assign]
    learner._changed_policies.add(agent)
    learner.learn([s for s in samples if s.agent == agent], 0, Event())
    return torch.cat(caught)


def test_gradient_matches_likelihood(recorded_run: Path, tiny_words: Path, tmp_path: Path) -> None:
    recipe = sft_recipe(tiny_words, tmp_path, recorded_run, group_size=2)
    assert recipe.trainer is not None
    with open_stepper(recipe) as (policies, stepper):
        for policy in policies:
            for parameter in policy.parameters.values():
                parameter.data.add_(0.1)
        for agent in "ab":
            ours = gradient(policies, list(stepper._samples(0)), recipe.trainer, agent)
            policy = policies.of(agent)
            with policy.training() as model:
                loss = torch.zeros((), dtype=torch.float64)
                batch = stepper._tasks.batch(0)
                for problem in batch:
                    episodes = [e for e in solved_in(recorded_run) if e.task == problem.address][:2]
                    for episode in episodes:
                        for decision in episode.decisions(agent):
                            found = naive.token_logprobs(
                                model, decision.action, recipe.sampling_of(agent)
                            )
                            loss = loss - sum(found, torch.zeros(())) / len(episodes) / len(batch)
                plain = torch.autograd.grad(loss, list(policy.parameters.values()))
            expected = torch.cat([g.flatten() for g in plain])
            assert expected.norm() > 1e-3
            assert (ours - expected).norm() <= 1e-5 * expected.norm()


def test_solved_answers_become_likelier_without_playing_episodes(
    recorded_run: Path, tiny_words: Path, tmp_path: Path
) -> None:
    source = tmp_path / "before"
    source.mkdir()
    (source / "episodes.jsonl").write_bytes((recorded_run / "episodes.jsonl").read_bytes())
    recipe = sft_recipe(tiny_words, tmp_path, source, steps=None, epochs=2, learning_rate=0.02)
    run, events = tmp_path / "run", list[Any]()
    asyncio.run(TrainingRun(recipe, run, emit=events.append).run())
    assert "at most 4 recorded episodes per task" in events[0].trainer
    rmtree(source)
    rows = steps_of(run)
    tasks = {episode.task for episode in solved_in(recorded_run)}
    assert len(rows) == 2 * -(-len(tasks) // 2)
    assert list(read_episodes(run)) == []
    assert all(row["tokens"] == 0 and "return/mean" not in row for row in rows)
    assert rows[-1]["agent/a/logprob"] > rows[0]["agent/a/logprob"] + 0.3
    resumed = load_recipe(str(run / "training.yaml"), settings=["trainer.epochs=3"])
    asyncio.run(TrainingRun(resumed, run, resume=True).run())
    after = load_recipe(str(run), trainer="magrpo", settings=["trainer.steps=1"])
    assert all(str(run) in str(agent.adapter) for agent in after.team.agents.values())
    asyncio.run(TrainingRun(after, tmp_path / "after").run())


def test_it_resumes_bit_by_bit(recorded_run: Path, tiny_words: Path, tmp_path: Path) -> None:
    recipe = sft_recipe(tiny_words, tmp_path, recorded_run, steps=2, inner_epochs=2, group_size=1)
    check_resume("sft", tiny_words, tmp_path, recipe=recipe)


def test_recorded_tokens_are_used_if_the_prompt_is_the_same(
    recorded_run: Path, tiny_words: Path, tmp_path: Path
) -> None:
    drawn = {
        (d.agent, d.action.prompt_ids, d.action.token_ids)
        for e in solved_in(recorded_run)
        for t in e.turns
        for d in t.decisions
    }
    with open_stepper(sft_recipe(tiny_words, tmp_path, recorded_run)) as (_, stepper):
        found = {
            (s.agent, s.prompt_ids, s.token_ids) for n in range(9) for s in stepper._samples(n)
        }
    assert found <= drawn
    assert {agent for agent, *_ in found} == {"a", "b"}


def test_other_tokenizer_encodes_the_recorded_text(recorded_run: Path, tmp_path: Path) -> None:
    other = save_tiny(tmp_path / "other", WORDS[::-1], seed=3)
    with open_stepper(sft_recipe(other, tmp_path, recorded_run)) as (policies, stepper):
        tokenizer = policies.by_name["a"].engine.tokenizer
        samples = list(stepper._samples(0))
    actions = [d.action for e in solved_in(recorded_run) for t in e.turns for d in t.decisions]
    recorded = {(action.text, action.finish_reason) for action in actions}
    for sample in samples:
        text = tokenizer.decode(sample.token_ids, skip_special_tokens=True)
        ended = sample.token_ids[-1] == tokenizer.eos_token_id
        assert (text, "stop" if ended else "length") in recorded
        assert tokenizer.decode(sample.prompt_ids).startswith(("user say a word", "system you"))
    assert any(sample.token_ids[-1] == tokenizer.eos_token_id for sample in samples)


def test_prefix_is_not_learned(recorded_run: Path, tiny_words: Path, tmp_path: Path) -> None:
    """The recorded agent chose `left` freely; here it is the fixed prefix."""
    lines = [
        episode.model_dump_json()
        for episode in solved_in(recorded_run)
        if episode.decisions("a")[0].action.text.startswith("left")
    ]
    (tmp_path / "left.jsonl").write_text("\n".join(lines) + "\n")
    plain = sft_recipe(
        tiny_words, tmp_path, tmp_path / "left.jsonl", group_size=50, tasks_per_step=8
    )
    recipe = changed(plain, "a", style="completion", prefix="left")
    with open_stepper(recipe) as (policies, stepper):
        asyncio.run(stepper.check())
        tokenizer = policies.by_name["a"].engine.tokenizer
        samples = [sample for sample in stepper._samples(0) if sample.agent == "a"]
    assert samples
    for sample in samples:
        assert tokenizer.decode(sample.prompt_ids).split()[-1] == "left"
        assert tokenizer.decode(sample.prompt_ids).startswith("say a word")
        assert len(sample.token_ids) <= 2
    with (
        open_stepper(changed(plain, "a", prefix="go")) as (_, stepper),
        pytest.raises(RecipeError, match="agent 'a' has the prefix 'go', but the response"),
    ):
        asyncio.run(stepper.check())


OWN = """
def last(response):
    return (response.split() or ["a"])[-1]

def word(outcome):
    return "left"
"""


def test_prefix_sees_the_fields_that_it_saw_when_sampled(tiny_words: Path, tmp_path: Path) -> None:
    """The prefix names a parsed answer of the turn, one of the turn before, and feedback."""
    own = tmp_path / "own.py"
    own.write_text(OWN)
    prefix = "{{ others.a }}{% if turn %} {{ previous.a }} {{ feedback }}{% endif %}"
    settings: dict[str, Any] = {
        "turns": 2,
        "protocol": "sequential",
        "when_solved": "continue",
        "feedback": [f"{own}:word"],
    }

    def sequential(recipe: Recipe) -> Recipe:
        data = changed(recipe, "b", prefix=prefix).model_dump(mode="json", exclude_none=True)
        data["team"] |= settings
        data["team"]["agents"]["a"]["parser"] = f"{own}:last"
        return Recipe.model_validate(data)

    options = {"steps": 2, "group_size": 6, "learning_rate": 1e-6}
    before = tmp_path / "before"
    recipe = sequential(make_solvable(tiny_words, tmp_path, **options))
    asyncio.run(TrainingRun(recipe, before).run())
    actions = [d.action for e in read_episodes(before) for d in e.decisions("b")]
    drawn = {(action.prompt_ids, action.token_ids) for action in actions}
    recipe = sequential(sft_recipe(tiny_words, tmp_path, before))
    with open_stepper(recipe) as (_, stepper):
        asyncio.run(stepper.check())
        found = {
            (s.prompt_ids, s.token_ids)
            for n in range(9)
            for s in stepper._samples(n)
            if s.agent == "b"
        }
    assert len(found) > 4
    assert found <= drawn


def test_further_episodes_of_older_runs_are_not_learned(recorded_run: Path) -> None:
    episode = solved_in(recorded_run)[0]
    solo = episode.model_copy(update={"further": "solo"})
    assert complete_episodes([solo, episode]) == [episode]


def test_episodes_beyond_the_group_size_are_used_in_turn() -> None:
    episodes = [Episode(id=str(n), task="t", team="t") for n in range(5)]
    ids = [[e.id for e in episodes_of_visit(episodes, 2, visit)] for visit in range(3)]
    assert ids == [["0", "1"], ["2", "3"], ["4", "0"]]
    assert episodes_of_visit(episodes, 8, 3) == episodes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "marloo", "steps": 1}, "needs new episodes of the team; set algorithm"),
        ({"tokens": 9}, "so tokens has no effect"),
        ({"importance_cap": 2.0}, "so a correction for the sampler has no effect"),
    ],
)
def test_settings_for_played_episodes_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TrainerSpec.model_validate({"algorithm": "sft", "learn_from": "runs/first", **settings})


def test_episodes_without_anything_to_learn_are_refused(
    recorded_run: Path, tiny_words: Path, tmp_path: Path
) -> None:
    failed = [e.model_dump_json() for e in read_episodes(recorded_run) if not e.solved]
    (tmp_path / "failed.jsonl").write_text("\n".join(failed) + "\n")
    with pytest.raises(RecordError, match=r"nothing is left to learn from: of \d+ episodes"):
        TrainingRun(sft_recipe(tiny_words, tmp_path, tmp_path / "failed.jsonl"), tmp_path / "run")
    with pytest.raises(RecordError, match="is neither a run's folder nor a file of episodes"):
        TrainingRun(sft_recipe(tiny_words, tmp_path, tmp_path / "nowhere"), tmp_path / "run")
    (tmp_path / "broken.jsonl").write_text("{}\n")
    with pytest.raises(RecordError, match=r"broken.jsonl, line 1: not an episode"):
        TrainingRun(sft_recipe(tiny_words, tmp_path, tmp_path / "broken.jsonl"), tmp_path / "run")
    data = sft_recipe(tiny_words, tmp_path, recorded_run).model_dump(mode="json", exclude_none=True)
    data["team"]["agents"]["c"] = data["team"]["agents"]["b"]
    with pytest.raises(RecipeError, match=r"no response of agent 'c' \(it has: a, b\)"):
        TrainingRun(Recipe.model_validate(data), tmp_path / "run")
