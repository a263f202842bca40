"""The shipped writing suites and their teams."""

import itertools
import json
from pathlib import Path

import pytest

import collab
from collab.errors import TaskError
from collab.recipe import load_recipe, load_task
from collab.tasks import open_suite

FIELDS = {"tldr": "prompt", "arxiv": "abstract_text"}
PROTOCOLS = ("", "-single", "-sequential", "-discussion")
TEAMS = [kind + protocol for kind, protocol in itertools.product(FIELDS, PROTOCOLS)]


@pytest.mark.parametrize("name", FIELDS)
def test_ids_and_titles_are_unique(name: str) -> None:
    suite = open_suite(load_task(name))
    assert suite.ids == [str(number) for number in range(len(suite))]
    titles = {problem.public["title"] for problem in suite.select("")}
    assert len(titles) == len(suite)


@pytest.mark.parametrize("name", FIELDS)
def test_the_splits_cover_all_and_share_nothing(name: str) -> None:
    suite = open_suite(load_task(name))
    train, test = ({p.address for p in suite.select(split)} for split in ("train", "test"))
    assert (len(train), len(test)) == (28, len(suite) - 28)
    assert not train & test


@pytest.mark.parametrize("team", ["tldr", "arxiv-discussion"])
def test_teams_run(team: str, here: Path) -> None:
    name = team.partition("-")[0]
    episode = collab.load(team, model="echo").run(f"{name}/test").episodes[0]
    assert episode.failure is None
    assert episode.score is not None
    assert episode.score.maximum == pytest.approx(3.0)
    problem = open_suite(load_task(name)).select("28")[0]
    observed = episode.turns[0].decisions[0].observation[-1].content
    assert observed.startswith(problem.public[FIELDS[name]])


@pytest.mark.parametrize("team", [team for team in TEAMS if team.endswith(("ial", "ion"))])
def test_later_agents_see_earlier_answers(team: str, here: Path) -> None:
    name = team.partition("-")[0]
    answers = {"concise": "Aye.", "detailed": "Nay.", "background": "Aye.", "method": "Nay."}
    agents = list(load_recipe(team).team.agents)
    rounds = 2 if team.endswith("discussion") else 1
    script = {agent: [answers[agent]] * rounds for agent in agents}
    (here / "script.yaml").write_text(json.dumps(script))
    episode = collab.load(team, model="scripted:script.yaml").run(f"{name}/0").episode
    observations = {d.agent: d.observation[-1].content for d in episode.turns[0].decisions}
    assert "Aye." in observations[agents[1]]
    assert ("Nay." in observations[agents[0]]) == team.endswith("discussion")


@pytest.mark.parametrize("name", FIELDS)
def test_own_data_file_replaces_the_suite(name: str, here: Path) -> None:
    row = {FIELDS[name]: "The keeper painted the bridge."}
    (here / "mine.jsonl").write_text(json.dumps(row) + "\n")
    episode = collab.load(name, model="echo").run("mine.jsonl/0").episode
    assert episode.task == "mine/0"
    assert episode.score is not None
    assert [part.name for part in episode.score.parts][:2] == ["faithfulness", "length"]
    assert episode.score.parts[0].value > 0
    spec = load_recipe(name, task="mine.jsonl").task
    assert spec is not None
    assert (spec.name, spec.kind, spec.splits) == ("mine", "text", {})
    assert spec.source.path == str(here / "mine.jsonl")


def test_a_file_for_a_coding_team_has_problems_with_tests(here: Path) -> None:
    (here / "mine.jsonl").write_text('{"prompt": "A post."}\n')
    with pytest.raises(TaskError, match=r"without 'entry_point' .* \(in Python: rows with rewards"):
        collab.load("coding", model="echo").run("mine.jsonl/0")


@pytest.mark.parametrize(
    ("name", "hidden", "id_field"),
    [
        ("tldr-hub", ("completion",), "task_id"),
        ("arxiv-hub", ("test", "canonical_solution"), "article_id"),
    ],
)
def test_the_suites_on_the_hub_parse(name: str, hidden: tuple[str, ...], id_field: str) -> None:
    spec = load_task(name)
    assert spec.reward == load_task(name.removesuffix("-hub")).reward
    assert (spec.hidden, spec.id_field, spec.source.split) == (hidden, id_field, "train[:2000]")
