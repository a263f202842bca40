"""Running teams: histories, protocols, budgets, failures, records, replays."""

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import collab
from collab.errors import ModelError, RecipeError, RecordError, TaskError
from collab.models import Request
from collab.models.fakes import EchoModel
from collab.records import Action, Episode, Message
from collab.runtime.events import AgentActed, AgentProgress, EpisodeFinished, Event, RunFinished
from collab.runtime.folder import RunFolder
from collab.runtime.summary import Rollout


def run(*settings: str, address: str = "words/3", model: str = "echo", **top: Any) -> Episode:
    return collab.load("pair", model=model, settings=list(settings), **top).run(address).episode


def script(project: Path, answers: object) -> str:
    (project / "script.yaml").write_text(json.dumps(answers))
    return "scripted:script.yaml"


def messages_seen_by(episode: Episode, agent: str) -> list[Message]:
    return [message for d in episode.decisions(agent) for message in d.observation]


def test_one_turn(project: Path) -> None:
    episode = run()
    assert episode.failure is None
    assert [d.agent for d in episode.turns[0].decisions] == ["a", "b"]
    assert messages_seen_by(episode, "a")[0] == Message(role="system", content="You are a.")
    assert messages_seen_by(episode, "a")[1] == Message(role="user", content="Say w3.")
    assert messages_seen_by(episode, "b") == [Message(role="user", content="Say w3, a and b.")]
    assert episode.reward == 0.5
    assert episode.score is not None
    assert episode.score.parts[0].reason == "1 of 2 said Say w3."


def test_prefix_keeps_its_whitespace(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, str] = {}
    generate = EchoModel.generate

    async def watched(model: EchoModel, requests: Sequence[Request], *rest: Any) -> list[Action]:
        given.update({request.call.agent: request.prefix for request in requests})
        return await generate(model, requests, *rest)

    monkeypatch.setattr(EchoModel, "generate", watched)
    run('team.agents.a.prefix="def {{ task.word }}():\\n   "')
    assert given == {"a": "def w3():\n   ", "b": ""}


def test_parallel_agents_do_not_see_each_other(project: Path) -> None:
    episode = run(model=script(project, {"a": ["from a"], "b": ["from b"]}))
    assert all("from" not in message.content for message in messages_seen_by(episode, "b"))


def test_a_sequential_team_sees_the_earlier_artifacts(project: Path) -> None:
    model = script(project, {"a": ["from a"], "b": ["from b"]})
    episode = run("team.protocol=sequential", model=model)
    assert [d.round for d in episode.turns[0].decisions] == [0, 1]
    assert messages_seen_by(episode, "b")[-1].content.endswith("a said from a.")
    assert "from b" not in messages_seen_by(episode, "a")[-1].content


@pytest.mark.parametrize("protocol", ["sequential", "discussion"])
def test_previous_answers_of_others_are_visible_if_others_are(project: Path, protocol: str) -> None:
    rounds = 2 if protocol == "discussion" else 1
    answers = {"a": ["a1"] * rounds + ["a2"] * rounds, "b": ["b1"] * rounds + ["b2"] * rounds}
    episode = run(
        f"team.protocol={protocol}",
        "team.turns=2",
        "team.agents.a.revise='last time: {{ previous }}'",
        model=script(project, answers),
    )
    last = next(d for d in episode.turns[1].decisions if d.agent == "a")
    assert last.observation[-1].content == "last time: {'b': 'b1'}"


def test_parallel_agents_do_not_see_previous_answers_of_others(project: Path) -> None:
    asks = "team.agents.a.revise='{{ previous.b }}'"
    failure = run("team.turns=2", asks).failure
    assert failure is not None
    assert "'previous' is undefined; known: agent, task" in failure.message


def test_a_discussion_has_two_rounds_and_the_last_one_counts(project: Path) -> None:
    model = script(project, {"a": ["a1", "a2"], "b": ["b1", "b2"]})
    episode = run("team.protocol=discussion", model=model)
    assert [(d.agent, d.round) for d in episode.turns[0].decisions] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("b", 1),
    ]
    assert "b1" in messages_seen_by(episode, "a")[-1].content
    assert "a1" not in messages_seen_by(episode, "a")[-1].content
    assert episode.turns[0].artifacts == {"a": "a2", "b": "b2"}


def test_turns_build_on_each_agents_own_history(project: Path) -> None:
    model = script(project, {"a": ["x", "y", "z"], "b": ["x", "y", "z"]})
    episode = run("team.turns=3", "team.feedback=[self]", model=model)
    assert len(episode.turns) == 3
    assert [m.role for m in messages_seen_by(episode, "a")] == ["system", "user", "user", "user"]
    assert messages_seen_by(episode, "a")[-1].content == "Again."
    assert episode.joint_return == 0.0


def test_expert_usage_is_recorded_and_summarized(project: Path) -> None:
    (project / "advice.yaml").write_text(json.dumps([json.dumps({"a": ["be brief"]})]))
    feedback = "team.feedback=[{source: expert, model: 'scripted:advice.yaml'}]"
    rollout = collab.load("pair", model="echo", settings=["team.turns=2", feedback]).run("words/3")
    feedback_by_agent = rollout.episode.turns[0].feedback
    assert "be brief" in feedback_by_agent["a"][0].text
    assert "be brief" in messages_seen_by(rollout.episode, "a")[-1].content
    assert "be brief" not in messages_seen_by(rollout.episode, "b")[-1].content
    assert rollout.summary["agents"]["expert (feedback)"]["responses"] == 1


@pytest.mark.parametrize(
    ("setting", "asked", "wrong"),
    [
        ("budget.seconds=0.5", 2, "the episode reached its limit of 0.5 s"),
        ("team.feedback.0.seconds=0.5", 2, "took longer than 0.5 s"),
        ("team.feedback.0.retries=0", 1, "no advice in the required form"),
    ],
)
def test_tokens_of_an_expert_in_vain_count(
    project: Path, setting: str, asked: int, wrong: str
) -> None:
    answers = ["malformed", {"text": '{"a": []}', "seconds": 30}][:asked]
    (project / "advice.yaml").write_text(json.dumps(answers))
    feedback = "team.feedback=[{source: expert, model: 'scripted:advice.yaml'}]"
    team = collab.load("pair", model="echo", settings=["team.turns=2", feedback, setting])
    rollout = team.run("words/3")
    assert rollout.episode.failure is not None
    assert wrong in rollout.episode.failure.message
    used = rollout.summary["agents"]["expert (feedback)"]
    assert (used["responses"], used["new_tokens"]) == (1, len("malformed"))


def test_samples_form_groups(project: Path) -> None:
    rollout = collab.load("pair", model="echo", samples=3).run("words/0-4")
    assert [len(group) for group in rollout.groups.values()] == [3] * 5
    assert [(e.group, e.sample) for e in rollout.episodes[:4]] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert rollout.summary["episodes"] == 15


def test_many_samples_are_grouped_at_once() -> None:
    episode = Episode(id="t/0#0", task="t/0", team="pair")
    started = time.process_time()
    assert len(Rollout((episode,) * 40_000, {}).groups["t/0"]) == 40_000
    assert time.process_time() - started < 1


def test_addresses_may_come_as_lists(project: Path) -> None:
    team = collab.load("pair", model="echo")
    rollout = team.run(["words/0", "words/3-4"], "words/1")
    assert [e.task for e in rollout.episodes] == ["words/0", "words/3", "words/4", "words/1"]


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ([], "the list is empty; pass rows or addresses"),
        ([3], r"an address is text such as 'humaneval/12', got \[3\]"),
        (3, "an address is text such as 'humaneval/12', got 3"),
        (None, "an address is text"),
        ("Add two numbers.", "for a text of your own: collab run TEAM --prompt TEXT"),
    ],
)
def test_invalid_addresses_are_refused(project: Path, addresses: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        collab.load("pair", model="echo", task="words").run(addresses)


def test_limited_concurrency_gives_the_same_rewards(project: Path) -> None:
    wide = collab.load("pair", model="echo").run("words")
    narrow = collab.load("pair", model="echo", settings=["concurrency=3"]).run("words")
    assert [e.reward for e in wide.episodes] == [e.reward for e in narrow.episodes]


def test_a_failing_agent_is_data_not_a_crash(project: Path) -> None:
    model = script(project, {"a": ["x"] * 2, "b": [{"failure": "overloaded"}, "x"]})
    rollout = collab.load("pair", model=model).run("words/0-1")
    [failed] = [e for e in rollout.episodes if e.failure]
    assert failed.failure is not None
    assert failed.failure.boundary == "model"
    assert failed.turns[0].decisions
    assert rollout.summary["failed"] == 1


def test_a_script_that_runs_out_fails_the_run(project: Path) -> None:
    with pytest.raises(ModelError, match="'b' needs more answers"):
        run(model=script(project, {"a": ["x"], "b": []}))


def test_prompt_with_a_missing_field_fails_the_episode(project: Path) -> None:
    episode = run("agents.a.prompt='{{ task.wrod }}'")
    assert episode.failure is not None
    assert episode.failure.boundary == "agent"
    assert "word" in episode.failure.message


def test_a_reward_that_raises_is_a_failure_not_a_zero(project: Path) -> None:
    (project / "parts.py").write_text("def right(context):\n    return 1 / 0\n")
    episode = run()
    assert episode.failure is not None
    assert (episode.failure.boundary, episode.reward) == ("reward", None)


def test_the_token_budget_ends_an_episode(project: Path) -> None:
    episode = run("team.turns=4", "budget.tokens=20", "team.feedback=[self]")
    assert episode.failure is not None
    assert episode.failure.type == "BudgetExceeded"
    assert "limit 20" in episode.failure.message
    assert len(episode.turns) < 4


SLOW = """\
import asyncio
from collab.records import Action

class Slow:
    name, batching = "slow", "static"
    async def generate(self, requests, progress=None):
        if any(r.call.task != "words/0" for r in requests):
            await asyncio.sleep(60)
        return [Action(text="x") for r in requests]
    async def aclose(self):
        open("closed", "w").close()

def slow(spec):
    return Slow()
"""


def test_the_time_budget_ends_an_episode(project: Path) -> None:
    (project / "slow.py").write_text(SLOW)
    episode = run("budget.seconds=0.1", "model={engine: 'slow.py:slow'}")
    assert episode.failure is not None
    assert episode.failure.type == "BudgetExceeded"
    assert episode.seconds < 2


def test_leaving_a_stream_cancels_the_rest_and_keeps_the_record(project: Path) -> None:
    (project / "slow.py").write_text(SLOW)
    settings = ["model={engine: 'slow.py:slow'}", "concurrency=1"]

    async def leave() -> None:
        team = collab.load("pair", settings=settings)
        async with aclosing(team.stream("words/0-3", out="run")) as events:
            async for event in events:
                if isinstance(event, EpisodeFinished):
                    return

    asyncio.run(asyncio.wait_for(leave(), 5))
    assert (project / "closed").exists()
    assert [e.task for e in collab.read_episodes(str(project / "run"))] == ["words/0"]
    assert json.loads((project / "run" / "run.json").read_text())["status"] == "interrupted"


def test_summary_counts_only_recorded_episodes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RecordError("the disk is full")

    monkeypatch.setattr(RunFolder, "append", fail)
    with pytest.raises(RecordError):
        collab.load("pair", model="echo").run("words/0-1", out="run")
    about = json.loads((project / "run" / "run.json").read_text())
    assert (about["status"], about["summary"]["episodes"]) == ("failed", 0)


def test_stream_in_a_plain_with_block_is_refused(project: Path) -> None:
    async def follow(team: collab.Team) -> None:
        async with aclosing(team.stream("words/0")) as events:
            await anext(events)

    with collab.load("pair", model="echo") as team:
        with pytest.raises(collab.CollabError, match="use `async with`"):
            asyncio.run(follow(team))
        assert team.run("words/0").answer


def test_stream_yields_the_events_of_a_run(project: Path) -> None:
    async def collect() -> list[Event]:
        async with aclosing(collab.load("pair", model="echo").stream("words/0-1")) as events:
            return [event async for event in events]

    events = asyncio.run(collect())
    types = [event.type for event in events]
    assert (types[0], types[-1]) == ("run.started", "run.finished")
    assert types.count("agent.acted") == 4
    assert types.count("turn.scored") == types.count("episode.finished") == 2
    assert not any(isinstance(event, AgentProgress) for event in events)
    assert all(json.loads(event.model_dump_json())["type"] == event.type for event in events)
    assert isinstance(events[-1], RunFinished)
    assert any(isinstance(event, AgentActed) for event in events)


def test_a_replay_gives_the_same_episodes(project: Path) -> None:
    team = collab.load("pair", model="echo", settings=["team.turns=2", "team.feedback=[self]"])
    first = team.run("words/0-3", out="first")
    again = collab.load("first", model="replay:first").run("words/0-3")
    assert [e.joint_return for e in first.episodes] == [e.joint_return for e in again.episodes]
    for one, two in zip(first.episodes, again.episodes, strict=True):
        for agent in ("a", "b"):
            ids = [[d.action.token_ids for d in e.decisions(agent)] for e in (one, two)]
            assert ids[0] == ids[1]


def test_seeds_differ_between_decisions_and_not_between_runs(project: Path) -> None:
    from collab.models import Call
    from collab.runtime.agents import call_seed

    calls = [
        Call(task=t, sample=s, turn=n, round=r, agent=a)
        for t in "xy"
        for s in (0, 1)
        for n in (0, 1)
        for r in (0, 1)
        for a in "ab"
    ]
    seeds = [call_seed(7, call) for call in calls]
    assert len(set(seeds)) == len(calls)
    assert seeds == [call_seed(7, call) for call in calls]
    assert seeds != [call_seed(8, call) for call in calls]


def test_bad_addresses_are_named_before_any_work(project: Path) -> None:
    team = collab.load("pair", model="echo")
    with pytest.raises(TaskError, match="rows 0-19"):
        team.run("words/20")
    with pytest.raises(RecipeError, match="unknown suite 'wrods'; did you mean 'words'"):
        team.run("wrods/1")
    with pytest.raises(RecipeError, match="one suite"):
        team.run("words/1", "humaneval/1")
    with pytest.raises(RecipeError, match="no task given"):
        team.run()
