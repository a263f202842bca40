"""The team, parser and joins of docs/teams.md, and the sources of docs/feedback.md."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.blocks import blocks
from support.tiny_words import save_tiny

import collab
from collab.errors import CollabError
from collab.feedback import Outcome, gather, open_sources
from collab.models import Model
from collab.recipe import TeamSpec, load_recipe
from collab.recipe.model import ModelSpec
from collab.records import Episode, Feedback, Problem, Score, Turn, read_episodes
from collab.rewards.declared import describe_scoring
from collab.sandbox import Sandbox
from collab.trainers import TrainingRun
from collab.trainers.training.events import StepFinished, TrainingEvent

PLAN = "- keep the longest word\n- None when there is none"
REVIEW = "It's wrong: it gives the first one."
WRONG = "```python\ndef longest(strings):\n    return strings[0]\n```"
RIGHT = "```python\ndef longest(strings):\n    return max(strings, key=len, default=None)\n```"


@pytest.fixture
def folder(here: Path) -> Path:
    (here / "agents").mkdir()
    (here / "agents" / "trio.yaml").write_text(blocks("teams.md", "yaml")[0])
    parser, *joins = blocks("teams.md", "python")
    (here / "parsers.py").write_text(parser)
    (here / "joins.py").write_text("\n".join(joins))
    (here / "feedback.py").write_text("\n".join(blocks("feedback.md", "python")))
    return here


def play(folder: Path, team: str, coder: list[str], *settings: str) -> Episode:
    turns = len(coder)
    answers = {"planner": [PLAN] * turns, "coder": coder, "reviewer": [REVIEW] * turns}
    (folder / "script.yaml").write_text(json.dumps(answers))
    loaded = collab.load(team, model="scripted:script.yaml", settings=list(settings))
    episode = loaded.run("humaneval/12").episode
    assert episode.failure is None
    return episode


def score_of(turn: Turn) -> Score:
    assert turn.score
    return turn.score


def feedback_by_agent(episode: Episode) -> dict[str, str]:
    """The feedback of the first turn, by agent."""
    return {
        agent: "\n".join(item.text for item in items)
        for agent, items in episode.turns[0].feedback.items()
    }


@pytest.mark.parametrize("team", ["trio", "coding-planned"])
def test_planner_coder_and_reviewer(folder: Path, team: str) -> None:
    first, second = play(folder, team, [WRONG, RIGHT]).turns
    assert PLAN not in first.joint
    assert REVIEW not in first.joint
    before, after = score_of(first), score_of(second)
    assert (before.solved, after.solved) == (False, True)
    assert after.reward == after.maximum == pytest.approx(2.1)
    observations = {d.agent: d.observation[-1].content for d in second.decisions}
    assert PLAN in {d.agent: d.observation[-1].content for d in first.decisions}["coder"]
    assert REVIEW in observations["coder"]
    assert "max(strings" in observations["reviewer"]


@pytest.mark.parametrize(
    ("team", "join"), [("trio", "joins.py:coders"), ("coding-planned", "python")]
)
def test_feedback_contains_nothing_false(folder: Path, team: str, join: str) -> None:
    """Uses a custom join too, which gets all answers and returns only the code."""
    with (folder / "joins.py").open("a") as file:
        file.write("\ndef coders(artifacts, problem):\n    return artifacts['coder']\n")
    episode = play(folder, team, [WRONG, RIGHT], f"team.join={join}")
    assert score_of(episode.turns[0]).maximum == pytest.approx(2.1)
    feedback = feedback_by_agent(episode)
    assert "Static analysis:\n- `longest` is defined" in feedback["coder"]
    joint_analysis = "Static analysis of the joint program:\n- coder: `longest` is defined"
    assert all(joint_analysis in feedback[agent] for agent in ("planner", "reviewer"))
    for text in feedback.values():
        assert "parse" not in text
        assert "does not define" not in text
        assert "2 examples in the prompt hold" in text


@pytest.mark.parametrize(
    ("coder", "to_author", "to_others"),
    [
        (
            "```python\ndef longest(strings):\n    return (strings\n```",
            "line 2: your code does not parse: '(' was never closed",
            "coder, line 2: its code does not parse: '(' was never closed",
        ),
        ("I do not know.", "no code was found in your answer", "coder: no code was found in its"),
        (
            "```python\ndef longer(strings):\n    return 1\n```",
            "your code does not define `longest`",
            "coder: its code does not define `longest`",
        ),
    ],
)
def test_error_in_the_code_is_attributed_to_its_author(
    folder: Path, coder: str, to_author: str, to_others: str
) -> None:
    feedback = feedback_by_agent(play(folder, "trio", [coder, RIGHT]))
    assert f"- {to_author}" in feedback["coder"]
    for agent in ("planner", "reviewer"):
        assert f"- {to_others}" in feedback[agent]
        assert "your" not in feedback[agent]


def test_page_shows_the_rewards_a_team_can_earn(folder: Path) -> None:
    lines = describe_scoring(load_recipe("trio", task="humaneval"))
    assert lines == blocks("teams.md", "text")[0].splitlines()
    lines = describe_scoring(load_recipe("coding", task="humaneval"))
    assert lines == ["reward: at most 4 per turn"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows a few words, with room for long prompts."""
    model = save_tiny(tmp_path_factory.mktemp("tiny"), ("def", "return", "plan", "wrong", "good"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
    for file in [*model.glob("*token*.json"), *model.glob("*.jinja")]:
        text = file.read_text()  # use control tokens that no prompt contains
        for token in ("end", "unknown"):
            text = text.replace(f'"{token}"', f'"<|{token}|>"')
            text = text.replace(f" {token} ", f" <|{token}|> ")
        file.write_text(text)
    settings = json.loads((model / "tokenizer_config.json").read_text())
    settings["unk_token"] = "<|unknown|>"
    (model / "tokenizer_config.json").write_text(json.dumps(settings))
    return model


@pytest.mark.slow
def test_trio_is_trained_and_resumed(folder: Path, tiny: Path) -> None:
    settings = ["sampling.max_new_tokens=4", "team.sampling.max_new_tokens=4", "trainer=magrpo"]
    for key, value in {"steps": 2, "group_size": 2, "tasks_per_step": 1, "tasks": "0-3"}.items():
        settings.append(f"trainer.{key}={value}")
    settings += ["trainer.evaluation=null", "trainer.checkpoint_every=1"]
    model = {"name": str(tiny), "device": "cpu", "dtype": "float32"}
    recipe = load_recipe("trio", task="humaneval", settings=settings, model=model)

    def stop_after_a_step(event: TrainingEvent) -> None:
        if isinstance(event, StepFinished):
            raise CollabError("stopped")

    with pytest.raises(CollabError, match="stopped"):
        asyncio.run(TrainingRun(recipe, folder / "run", emit=stop_after_a_step).run())
    summary = asyncio.run(TrainingRun(recipe, folder / "run", resume=True).run())
    assert summary["steps"] == 2
    episodes = list(read_episodes(folder / "run"))
    assert {episode.group for episode in episodes} == {0, 1}
    assert not any(episode.failure for episode in episodes)
    assert {turn.score.maximum for e in episodes for turn in e.turns if turn.score} == {2.1}
    trained = {path.name for path in (folder / "run" / "adapters").iterdir()}
    assert trained == {"planner", "coder", "reviewer"}
    rows = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(rows) == 2


def test_the_parser_and_the_joins_work(folder: Path) -> None:
    agent = {"prompt": "{{ task.prompt }}", "parser": "parsers.py:after_the_mark"}
    recipe: dict[str, Any] = {"agents": {"a": agent, "b": {"prompt": "x"}}}
    (folder / "agents" / "pair.yaml").write_text(yaml.safe_dump(recipe))
    (folder / "script.yaml").write_text(json.dumps({"a": ["Hm. ANSWER: 4"], "b": ["one\ntwo"]}))
    joints = {}
    for name in ("longest", "numbered"):
        settings = [f"team.join=joins.py:{name}"]
        loaded = collab.load("pair", model="scripted:script.yaml", settings=settings)
        joints[name] = loaded.run("tldr/0").episode.turns[0].joint
    assert joints == {"longest": "one\ntwo", "numbered": "1. 4\n2. one\n2. two"}


def test_the_sources_work(folder: Path) -> None:
    [block] = blocks("feedback.md", "yaml")
    written = yaml.safe_load(block)["feedback"]
    names = ("feedback.py:lengths", "feedback.py:shouting")
    team = {"feedback": [written[2], *names], "agents": {"a": {"prompt": ""}, "b": {"prompt": ""}}}
    spec = TeamSpec.model_validate(team)
    artifacts = {"a": "one two", "b": "three\nFOUR"}
    outcome = Outcome(
        Problem(address="x/0", public={}),
        ("a", "b"),
        artifacts,
        collab.agents.joins.join_text(artifacts, Problem(address="x/0", public={})),
        None,
        turn=0,
    )

    def no_model(spec: ModelSpec) -> Model:
        raise AssertionError("no source asks for a model")

    async def tell() -> dict[str, tuple[Feedback, ...]]:
        sources = open_sources(spec.feedback, sandbox=Sandbox(), open_model=no_model)
        feedback, _ = await gather(sources, spec.feedback, outcome)
        return feedback

    feedback = asyncio.run(tell())
    again = "Remember to return a value. " * 2
    assert [item.text for item in feedback["a"]] == [
        again,
        "You wrote 2 words, in turn 1.",
        "Lines in capitals: none.",
    ]
    assert feedback["b"][2].findings[0].line == 2
    TeamSpec.model_validate({**team, "feedback": written})
