"""`collab probe`: its measurements and advice for teams with known answers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from collab.cli.app import app
from collab.evaluation.results import Estimate
from collab.probe.probe import draw_problems, give_advice, probe, training_addresses
from collab.probe.results import AgentProbe, Best, Crossed, TeamProbe
from collab.recipe import load_recipe

TEAM = """\
agents:
  a: {prompt: "Say {{ task.word }}."}
  b: {prompt: "Say {{ task.word }}. {{ others.a | default('') }}"}
"""
TASK = """\
kind: text
source: {path: words.jsonl}
splits: {train: "0-5", test: "6-7"}
reward:
  parts:
    right: {use: "parts.py:right", weight: 2, solves: true}
"""
PARTS = """\
def right(context):
    return float(all(text == "yes" for text in context.artifacts.values()))
"""
MODELS = '''\
"""Models that say yes in certain samples."""

from collab.records import Action, Usage


class Fixed:
    name = "fixed"
    batching = "continuous"

    def __init__(self, samples):
        self.samples = samples

    async def generate(self, requests, progress=None):
        return [self.answer(request.call) for request in requests]

    def answer(self, call):
        says = call.sample in self.samples[call.agent]
        cut = "length" if call.agent == "b" else "stop"
        return Action(
            text="yes" if says else "", finish_reason=cut, usage=Usage(new_tokens=4)
        )

    async def aclose(self):
        pass


def apart(spec):
    return Fixed({"a": {0, 1}, "b": {2}})


def one(spec):
    return Fixed({"a": {0, 1}, "b": {0, 1, 2, 3}})


def never(spec):
    return Fixed({"a": set(), "b": set()})
'''


@pytest.fixture
def project(here: Path) -> Path:
    for room in ("agents", "tasks"):
        (here / room).mkdir()
    (here / "agents" / "pair.yaml").write_text(TEAM)
    (here / "tasks" / "words.yaml").write_text(TASK)
    rows = [{"task_id": str(n), "word": f"w{n}"} for n in range(8)]
    (here / "tasks" / "words.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (here / "parts.py").write_text(PARTS)
    (here / "models.py").write_text(MODELS)
    return here


def collab(*arguments: str) -> Any:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.stderr
    return result


def probed(project: Path, model: str, *arguments: str) -> TeamProbe:
    command = ["probe", "pair", "--task", "words", "--samples", "4", "--out", "runs/p"]
    engine = ["--set", f"model={{engine: 'models.py:{model}'}}"]
    collab(*command, *engine, *arguments)
    return TeamProbe.model_validate_json((project / "runs/p" / "probe.json").read_text())


def test_answers_that_match_only_when_crossed(project: Path) -> None:
    result = probed(project, "apart")
    assert (result.episodes, result.mean.mean, result.dead) == (24, 0.0, 6)
    assert result.tasks == tuple(f"words/{n}" for n in range(6)), "the tasks of training"
    crossed, best = result.crossed, result.best
    assert crossed
    assert best
    assert (crossed.dead, crossed.forms) == (0, {"a": "crossed", "b": "crossed"})
    assert crossed.scored == 6, "only yes with yes, because equal texts are scored once"
    assert (best.combinations, best.reward.mean) == (16, 0.0)
    assert best.reward_combined
    assert best.solved_combined
    assert (best.reward_combined.mean, best.solved_combined.mean) == (2.0, 1.0)
    assert result.agents["b"].truncated.mean == 1.0
    assert result.agents["a"].empty.mean == 0.5
    message = "\n".join(result.advice)
    assert "scoring all combinations leaves 0 of 6 groups dead instead of 6" in message
    assert "100% of the responses of `b` are truncated at" in message
    assert "solves none of" not in message


def test_variance_shares_match_the_reward_table(project: Path) -> None:
    """Agent a says yes in half of its samples and decides alone, because b always says yes."""
    result = probed(project, "one")
    assert result.crossed
    assert result.crossed.own == pytest.approx({"a": 1.0, "b": 0.0})
    assert result.solved
    assert result.solved.mean == 0.5
    assert "`b` has no influence on the reward (0.0% of its variance)" in "\n".join(result.advice)


def test_probe_reports_that_no_pair_solves_a_task(project: Path) -> None:
    result = probed(project, "never", "--tasks", "2")
    assert len(result.tasks) == 2
    message = "\n".join(result.advice)
    assert "the best of 16 combinations solves none of 2 tasks" in message
    assert "2 of 2 groups had equal returns" in message
    assert "the intervals are wide with 2 tasks" in message


def test_sequential_team_reports_what_cannot_be_crossed(project: Path) -> None:
    result = probed(project, "apart", "--set", "team.protocol=sequential")
    assert result.crossed
    assert result.crossed.forms == {"a": "alone", "b": "swapped"}
    assert result.best
    assert result.best.combinations is None
    message = "\n".join(result.advice)
    assert "`a` cannot be crossed in the protocol 'sequential'" in message
    assert "`b` sees teammates' answers" in message


def test_models_without_weights_are_named_as_not_trainable(project: Path) -> None:
    message = probed(project, "one").advice
    assert "`a` takes part but cannot be trained: its engine 'models.py:one' has no weights" in (
        "\n".join(message)
    )


def test_model_that_training_refuses_is_named_as_not_trainable(project: Path) -> None:
    recipe = load_recipe("pair", settings=["model={name: smollm2-135m, dtype: float16}"])
    reason = asyncio.run(probe(recipe, [], [], 0.0)).agents["a"].untrainable
    assert reason
    assert "in float16, small gradients become 0; set model.dtype to bfloat16" in reason


def test_the_folder_is_a_run(project: Path) -> None:
    probed(project, "apart", "--tasks", "1")
    assert "words/" in collab("show", "runs/p").stdout
    collab("replay", "runs/p")
    collab("report", "runs/p")
    assert (project / "runs/p" / "report.html").is_file()


def test_settings_without_effect_are_noted(project: Path) -> None:
    own = ("-m", "echo", "--set", "agents.a.model=echo")
    result = collab("probe", "pair", "--task", "words", "--tasks", "1", "--out", "p", *own)
    assert "note: the model echo is not used for a" in result.stderr


@pytest.mark.usefixtures("project")
def test_samples_in_a_setting_are_refused() -> None:
    result = CliRunner().invoke(app, ["probe", "pair", "-t", "words", "--set", "samples=3"])
    message = "a probe takes its samples from --samples; leave out --set samples=3\n"
    assert (result.exit_code, message in result.stderr) == (2, True)


def test_problems_without_a_reward_are_refused_before_any_episode(project: Path) -> None:
    text = TASK.partition("reward:")[0]
    (project / "tasks" / "words.yaml").write_text(text)
    result = CliRunner().invoke(app, ["probe", "pair", "-t", "words", "-m", "echo", "--out", "p"])
    message = "the problems of 'words' are not scored; add a reward to the suite\n"
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert not (project / "p").exists()


def test_training_tasks_are_drawn(project: Path) -> None:
    recipe = load_recipe("pair", task="words")
    assert training_addresses(recipe, ["words"]) == ["words/train"]
    assert training_addresses(recipe, []) == ["words/train"]
    by_file = load_recipe("pair", task="tasks/words.yaml")
    assert training_addresses(by_file, ["tasks/words.yaml"]) == ["words/train"]
    assert training_addresses(recipe, ["words/7"]) == ["words/7"]
    assert training_addresses(load_recipe("pair"), ["words"]) == ["words"]
    assert draw_problems(range(9), 9, seed=1) == list(range(9))
    drawn = draw_problems(range(99), 5, seed=1)
    assert (
        drawn
        == sorted(set(drawn))
        == draw_problems(range(99), 5, seed=1)
        != draw_problems(range(99), 5, seed=2)
    )


def share(value: float, tasks: int = 10) -> Estimate:
    return Estimate(mean=value, low=0.0, high=1.0, tasks=tasks)


def healthy(**changed: Any) -> TeamProbe:
    """A probe that triggers no advice."""
    agent = AgentProbe(
        model="m", responses=40, tokens=50, limit=128, truncated=share(0), empty=share(0)
    )
    crossed = Crossed(
        scored=100,
        failed=0,
        forms={"a": "crossed", "b": "crossed"},
        dead=2,
        own={"a": 0.4, "b": 0.3},
        influence={"a": 0.7, "b": 0.6},
        interaction=0.3,
    )
    plain = TeamProbe(
        team="t",
        protocol="parallel",
        turns=1,
        tasks=tuple(map(str, range(10))),
        samples=4,
        episodes=40,
        failed=0,
        maximum=4.0,
        reward_maximum=4.0,
        mean=share(2.0),
        dead=3,
        agents={"a": agent, "b": agent},
        crossed=crossed,
        best=Best(samples=4, combinations=16, reward=share(3), solved=share(0.5)),
        tokens=2000,
        seconds=10,
    )
    return plain.model_copy(update=changed)


def test_healthy_team_gets_no_warning() -> None:
    assert list(give_advice(healthy())) == [
        "no problem found: this team can be trained with these settings"
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"failed": 5, "failure": "ModelError: gone"}, "5 of 40 episodes failed"),
        ({"mean": share(3.7)}, "already 92% of the maximum"),
        ({"dead": 9}, "9 of 10 groups had equal returns"),
        ({"dead": 5}, "instead of 5"),
        ({"tasks": ("0",), "dead": 0}, "the intervals are wide with 1 task"),
        ({"best": Best(samples=4, combinations=None, reward=share(0), solved=share(0))},
         "the best of 4 samples solves none of"),
    ],
)  # fmt: skip
def test_each_sentence_has_its_threshold(changed: dict[str, Any], message: str) -> None:
    assert message in "\n".join(give_advice(healthy(**changed)))


def test_tasks_that_only_a_later_turn_solves_are_not_called_too_hard() -> None:
    first_turn = Best(samples=4, combinations=None, reward=share(0), solved=share(0))
    solved_later = healthy(best=first_turn, turns=2, solved=share(1))
    assert "solves none of" not in "\n".join(give_advice(solved_later))
