"""Protocols as functions, their records, and which responses of a turn depend on others."""

import json
from pathlib import Path
from typing import Any

import pytest

import collab
from collab.errors import RecipeError
from collab.records import Episode
from collab.runtime.independence import Act, find_dependence

TEAM = """\
agents:
  a: {prompt: "Say {{ task.word }}.", revise: "Again."}
  b: {prompt: "Say {{ task.word }}.", revise: "Again."}
  c:
    prompt: "Decide.{% for n in others %} {{ n }} said {{ others[n] }}.{% endfor %}"
    revise: "Decide again."
"""


@pytest.fixture
def trio(project: Path) -> Path:
    """The project with a team of three, `trio`."""
    (project / "agents" / "trio.yaml").write_text(TEAM)
    return project


def play(folder: Path, protocol: Any, answers: dict[str, list[str]], *settings: str) -> Episode:
    (folder / "script.yaml").write_text(json.dumps(answers))
    chosen = [f"team.protocol={json.dumps(protocol)}", *settings]
    team = collab.load("trio", model="scripted:script.yaml", settings=chosen)
    return team.run("words/3").episode


def order(episode: Episode, turn: int = 0) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(d.round, d.agent, d.saw) for d in episode.turns[turn].decisions]


def last_seen(episode: Episode, agent: str) -> str:
    return episode.decisions(agent)[-1].observation[-1].content


def test_moderated_debate_gives_the_moderator_the_last_word(trio: Path) -> None:
    protocol = {"use": "debate", "options": {"rebuttals": 1, "moderator": "c"}}
    episode = play(trio, protocol, {"a": ["a1", "a2"], "b": ["b1", "b2"], "c": ["the end"]})
    assert order(episode) == [
        (0, "a", ()),
        (0, "b", ()),
        (1, "a", ("b",)),
        (1, "b", ("a",)),
        (2, "c", ("a", "b")),
    ]
    assert "b1" in last_seen(episode, "a")
    assert last_seen(episode, "c") == "Decide. a said a2. b said b2."
    assert episode.turns[0].joined == ("c",)
    assert episode.turns[0].joint.strip() == "the end"


@pytest.mark.parametrize(
    ("answers", "winner"), [(["x", "y", "y"], "b"), (["x", "y", "z"], "a"), (["x", "x", "y"], "a")]
)
def test_debate_takes_the_majority_answer(trio: Path, answers: list[str], winner: str) -> None:
    protocol = {"use": "debate", "options": {"rebuttals": 0}}
    script = {agent: [answer] for agent, answer in zip("abc", answers, strict=True)}
    episode = play(trio, protocol, script)
    assert episode.turns[0].joined == (winner,)


def test_a_debate_may_join_all_last_answers(trio: Path) -> None:
    protocol = {"use": "debate", "options": {"rebuttals": 0, "decide": "join"}}
    episode = play(trio, protocol, {"a": ["x"], "b": ["y"], "c": ["z"]})
    assert episode.turns[0].joint.split() == ["x", "y", "z"]


def test_pipeline_passes_documents_on(trio: Path) -> None:
    reads = {"a": ["plan"], "b": ["plan"], "c": ["code", "tests"]}
    protocol: dict[str, Any] = {
        "use": "pipeline",
        "options": {"writes": {"a": "code", "b": "tests"}, "reads": reads},
    }
    (trio / "agents" / "trio.yaml").write_text(
        TEAM.replace("Decide.{%", "{{ documents.code }}+{{ documents.tests }}{%").replace(
            "agents:", "agents:\n  planner: {prompt: 'Plan {{ task.word }}.'}"
        )
    )
    protocol["options"]["writes"]["planner"] = "plan"
    script = {"planner": ["p"], "a": ["A"], "b": ["B"], "c": ["C"]}
    episode = play(trio, protocol, script)
    assert order(episode) == [
        (0, "planner", ()),
        (1, "a", ("planner",)),
        (1, "b", ("planner",)),
        (2, "c", ("a", "b")),
    ]
    assert last_seen(episode, "c").startswith("A+B")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": {"a": ["b"], "b": ["a"]}}, "a, b wait for each other's documents"),
        ({"reads": {"a": ["plan"]}}, "'a' reads 'plan', which no agent writes; kinds: a, b, c"),
        ({"reads": {"d": []}}, "uses the unknown agent 'd'"),
        ({"reads": {}, "writes": {"a": "x", "b": "x"}}, "two agents write the same kind"),
        ({}, "needs the option 'reads'"),
    ],
)
def test_invalid_pipeline_is_refused(trio: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        play(trio, {"use": "pipeline", "options": options}, {})


def test_a_critic_loop_ends_when_the_critic_accepts(trio: Path) -> None:
    answers = {"a": ["one", "two"], "c": ["ACCEPTABLE, too short", "ACCEPT, well done"]}
    protocol = {"use": "critic_loop", "options": {"revisions": 5}}
    episode = play(trio, protocol, answers)
    assert [d.agent for d in episode.turns[0].decisions] == ["a", "c", "a", "c"]
    assert "too short" in last_seen(episode, "a")
    assert "two" in last_seen(episode, "c")
    assert "ACCEPT" in last_seen(episode, "c")
    assert episode.turns[0].joint.strip() == "two"


def test_a_critic_loop_ends_at_its_limit(trio: Path) -> None:
    answers = {"a": ["one", "two", "three"], "c": ["no", "no"]}
    episode = play(trio, "critic_loop", answers)
    assert episode.turns[0].joint.strip() == "three"


def test_the_critic_has_a_template_of_its_own(trio: Path) -> None:
    answers = {"a": ["one", "two", "three"], "c": ["no", "no"]}
    own = "agents.c.templates={NAME: 'Better than {{ others.a }}?'}"
    episode = play(trio, "critic_loop", answers, own.replace("NAME", "criticize"))
    assert last_seen(episode, "c") == "Better than two?"
    with pytest.raises(RecipeError, match="'criticise' of agent 'c' is now called 'criticize'"):
        play(trio, "critic_loop", answers, own.replace("NAME", "criticise"))


OWN = """\
async def chosen_speaker(turn, *, first: str, times: int = 1):
    speaker = await turn.act(first)
    for _ in range(times):
        speaker = await turn.act(speaker or "b", "prompt", sees=[first], first=first)
    turn.choose("b")
"""


def test_custom_protocol_is_played(trio: Path) -> None:
    (trio / "speaker.py").write_text(OWN)
    protocol = {"use": "speaker.py:chosen_speaker", "options": {"first": "a"}}
    episode = play(trio, protocol, {"a": ["b"], "b": ["done"]})
    assert order(episode) == [(0, "a", ()), (1, "b", ("a",))]
    assert episode.turns[0].joint.strip() == "done"
    assert set(episode.turns[0].artifacts) == {"a", "b"}


def test_every_agent_of_a_round_sees_the_named_answers(trio: Path) -> None:
    (trio / "two.py").write_text(
        "async def two(turn):\n    await turn.act('a')\n"
        "    await turn.together(['b', 'c'], sees=(name for name in 'a'))\n"
    )
    episode = play(trio, "two.py:two", {"a": ["x"], "b": ["y"], "c": ["z"]})
    assert order(episode) == [(0, "a", ()), (1, "b", ("a",)), (1, "c", ("a",))]


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ("paralel", "did you mean 'parallel'"),
        ("single", "needs 1 agent, the team has 3"),
        ({"use": "debate", "options": {"rebutals": 2}}, "rebuttals"),
        ({"use": "debate", "options": {"rebuttals": -1}}, "must be at least 0, got -1"),
        ({"use": "critic_loop", "options": {"critic": "a"}}, "got 'a' twice"),
        ({"use": "speaker.py:endless", "options": {}}, "give its loop a limit"),
        ({"use": "speaker.py:twice", "options": {}}, "twice in one round: a, a"),
        ({"use": "speaker.py:silent", "options": {}}, "without letting any agent act"),
        ({"use": "speaker.py:stranger", "options": {}}, "uses the unknown agent"),
        ({"use": "speaker.py:broken", "options": {}}, "ZeroDivisionError"),
        ({"use": "speaker.py:sees", "options": {}}, "a list of agents, got the text 'everyone'"),
        ({"use": "speaker.py:text", "options": {}}, "takes a list of agents, got the text 'ab'"),
        ({"use": "speaker.py:unheard", "options": {}}, "the answer of b, but only a acted"),
        ({"use": "speaker.py:nobody", "options": {}}, "names no agent; name at least one of a, b"),
    ],
)
def test_invalid_protocols_are_refused_early(trio: Path, protocol: Any, message: str) -> None:
    (trio / "speaker.py").write_text(
        "async def endless(turn):\n    while True:\n        await turn.together()\n"
        "async def twice(turn):\n    await turn.together(['a', 'a'])\n"
        "async def silent(turn):\n    pass\n"
        "async def stranger(turn):\n    await turn.act('nobody')\n"
        "async def broken(turn):\n    1 / 0\n"
        "async def sees(turn):\n    await turn.act('a', sees='everyone')\n"
        "async def text(turn):\n    await turn.together('ab')\n"
        "async def unheard(turn):\n    await turn.act('a')\n    turn.choose('b')\n"
        "async def nobody(turn):\n    await turn.act('a')\n    turn.choose()\n"
    )
    with pytest.raises(RecipeError, match=message):
        play(trio, protocol, {})


def test_a_chosen_agent_that_does_not_contribute_need_not_act(trio: Path) -> None:
    (trio / "own.py").write_text(
        "async def own(turn):\n    await turn.act('a')\n    turn.choose('a', 'b')\n"
    )
    episode = play(trio, "own.py:own", {"a": ["done"]}, "agents.b.contributes=false")
    assert episode.turns[0].joint.strip() == "done"


def test_silence_of_all_agents_in_a_later_turn_is_named(trio: Path) -> None:
    code = "async def once(turn):\n    if not turn.index:\n        await turn.act('a')\n"
    (trio / "own.py").write_text(code)
    failure = play(trio, "own.py:once", {"a": ["x"]}, "team.turns=2").failure
    assert failure is not None
    assert failure.message == "the protocol ends a turn without letting any agent act"


def test_missing_template_is_named(trio: Path) -> None:
    (trio / "own.py").write_text("async def own(turn):\n    await turn.act('a', 'decide')\n")
    with pytest.raises(RecipeError, match=r"no template 'decide'.*team\.agents\.a\.templates"):
        play(trio, "own.py:own", {"a": []})


def test_template_of_a_later_turn_is_named_in_its_episode(trio: Path) -> None:
    code = "async def own(turn):\n    await turn.act('a', 'decide' if turn.index else 'prompt')\n"
    (trio / "own.py").write_text(code)
    episode = play(trio, "own.py:own", {"a": ["x"]}, "team.turns=2", "team.feedback=[self]")
    assert episode.failure is not None
    assert "team.agents.a.templates" in episode.failure.message


def test_rehearsal_says_that_its_answers_are_empty(trio: Path) -> None:
    code = "async def own(turn):\n    await turn.act((await turn.act('a'))[0])\n"
    (trio / "own.py").write_text(code)
    with pytest.raises(RecipeError, match=r"IndexError.*in which every answer is empty"):
        play(trio, "own.py:own", {"a": []})


def test_turns_build_on_each_other(trio: Path) -> None:
    protocol = {"use": "debate", "options": {"rebuttals": 0, "moderator": "c"}}
    answers = {agent: ["x", "y"] for agent in "abc"}
    episode = play(trio, protocol, answers, "team.turns=2", "team.feedback=[self]")
    assert [d.observation[-1].content for d in episode.turns[1].decisions] == [
        "Again.",
        "Again.",
        "Decide again.",
    ]


ACTS: dict[str, tuple[list[Act], dict[str, str], dict[str, str]]] = {
    # acts, descendants, ancestors
    "parallel": ([("a", 0, ()), ("b", 0, ())], {"a": "", "b": ""}, {"a": "", "b": ""}),
    "sequential": ([("a", 0, ()), ("b", 1, ("a",))], {"a": "b", "b": ""}, {"a": "", "b": "a"}),
    "through another": (
        [("a", 0, ()), ("b", 1, ("a",)), ("c", 2, ("b",))],
        {"a": "bc", "b": "c", "c": ""},
        {"c": "ab"},
    ),
    "one apart": (
        [("a", 0, ()), ("c", 0, ()), ("b", 1, ("a",))],
        {"a": "b", "b": "", "c": ""},
        {"c": ""},
    ),
    "discussion": (
        [("a", 0, ()), ("b", 0, ()), ("a", 1, ("b",)), ("b", 1, ("a",))],
        {"a": "b", "b": "a"},
        {"a": "b", "b": "a"},
    ),
    "alone twice": ([("a", 0, ()), ("a", 0, ()), ("b", 0, ())], {"a": "", "b": ""}, {"a": ""}),
    "nobody sees the last answer": (
        [("a", 0, ()), ("b", 1, ("a",)), ("a", 2, ("b",))],
        {"a": "b", "b": "a"},
        {"b": "a"},
    ),
}


@pytest.mark.parametrize("name", ACTS)
def test_dependence_of_responses(name: str) -> None:
    acts, descendants, ancestors = ACTS[name]
    found = find_dependence(acts)
    assert {a: "".join(sorted(found.descendants(a))) for a in descendants} == descendants
    assert {a: "".join(sorted(found.ancestors(a))) for a in ancestors} == ancestors


def test_agent_is_alone_only_relative_to_the_team() -> None:
    found = find_dependence([("a", 0, ()), ("b", 1, ("a",)), ("c", 0, ())])
    assert [found.is_alone(agent, "abc") for agent in "abc"] == [False, False, True]
    assert found.is_alone("a", "ac"), "agents that do not contribute do not count"


def test_agents_that_saw_one_answer_are_not_alone() -> None:
    found = find_dependence([("a", 0, ()), ("b", 1, ("a",)), ("c", 1, ("a",)), ("d", 1, ())])
    assert [found.is_alone(agent, "bcd") for agent in "bcd"] == [False, False, True]
