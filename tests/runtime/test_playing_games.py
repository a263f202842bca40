"""Teams play games: joint actions change a state, in the runtime and in the record."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.games import MATCH, make_match
from typer.testing import CliRunner

import collab
from collab.cli.app import app
from collab.errors import CollabError, RecipeError
from collab.records import Episode
from collab.runtime.problems import find_problems
from collab.runtime.prompt_check import check_prompts


@pytest.fixture
def project(here: Path) -> Path:
    make_match(here)
    return here


def play(
    script: Any, *, team: str = "pair", task: str = "match", out: Path | None = None, **top: Any
) -> Episode:
    Path("script.json").write_text(json.dumps(script))
    loaded = collab.load(team, task=task, model="scripted:script.json", **top)
    return loaded.run(f"{task}/0", out=out).episode


def test_default_prompt_shows_the_task_or_the_observation(project: Path) -> None:
    agents = {"a": collab.Agent(), "b": collab.Agent()}
    game = collab.load({"agents": agents, "turns": 2}, task="match", model="echo").run("match/0")
    observations = [d.observation[-1].content for t in game.episode.turns for d in t.decisions]
    assert observations[:2] == ["say nothing", "say nothing again"]
    assert observations[3].startswith("say ")
    team = collab.Team(agents=agents, model="echo", rewards=[lambda context: 1.0])
    assert team.run({"prompt": "Hello."}).episode.turns[0].decisions[0].action.text == "Hello."


def wanted(episode: Episode) -> str:
    return episode.turns[0].joint.split()[1].rstrip(";")


def test_joint_action_advances_the_game_one_step(project: Path) -> None:
    episode = play({"a": ["go", "stay"], "b": ["go", "go"]})
    assert episode.failure is None
    first, last = episode.turns
    right = wanted(episode) == "go"
    assert first.score
    assert last.score
    assert (first.score.reward, last.score.reward) == (1.0 if right else 0.5, 0.0)
    assert (first.score.summary, last.score.summary) == ("they agree", "they differ")
    assert (first.score.maximum, last.score.maximum) == (0.0, 2.0)
    assert [part.value for part in first.score.parts] == [1.0]
    assert first.joint.endswith("said [{'left': 'go', 'right': 'go'}]")
    assert first.joined == ("a", "b")
    assert episode.largest_return == 2.0
    assert Episode.model_validate_json(episode.model_dump_json()) == episode


def test_each_agent_observes_its_own_part(project: Path) -> None:
    episode = play({"a": ["go", "stay"], "b": ["stay", "go"]})
    observations = {d.agent: d.observation[-1].content for d in episode.turns[0].decisions}
    assert observations == {"a": "say nothing", "b": "say nothing again"}
    observations = {d.agent: d.observation[-1].content for d in episode.turns[1].decisions}
    assert observations == {"a": "say go, stay", "b": "you say say go, stay again"}
    decisions = json.dumps([d.model_dump() for t in episode.turns for d in t.decisions])
    assert "wanted" not in decisions, "agents do not see the state"


def test_the_game_says_when_it_ends(project: Path) -> None:
    word = wanted(play({"a": ["x", "x"], "b": ["x", "x"]}))
    full = play({"a": [word] * 2, "b": [word] * 2}, settings=["team.turns=5"])
    assert [turn.index for turn in full.turns] == [0, 1]
    assert (full.horizon, full.solved, full.absorbed) == (2, True, 0)
    assert (full.joint_return, full.largest_return) == (2.0, 2.0)
    short = play({"a": [word], "b": [word]}, settings=["team.turns=1"])
    assert (short.joint_return, short.largest_return) == (1.0, 2.0)


def test_same_row_gives_the_same_deal(project: Path) -> None:
    script = {"a": ["x"] * 8, "b": ["x"] * 8}
    Path("script.json").write_text(json.dumps(script))
    team = collab.load("pair", task="match", model="scripted:script.json", samples=4)
    assert len({wanted(episode) for episode in team.run("match/3").episodes}) == 1
    seeds = [p.hidden["seed"] for p in find_problems(team.recipe, ["match"])[1]]
    assert len(set(seeds)) == 6
    other = collab.load("pair", task="match", settings=["task.source.seed=1"], model="echo")
    assert seeds != [p.hidden["seed"] for p in find_problems(other.recipe, ["match"])[1]]


def test_a_zero_sum_game_pays_each_agent(project: Path) -> None:
    episode = play(
        {"first": ["take 1 from 1"], "second": ["take 1 from 2"]},
        team="nim",
        task="nim",
        settings=["task.environment={use: nim, options: {heaps: [1, 1]}}"],
    )
    assert [turn.joined for turn in episode.turns] == [("first",), ("second",)]
    score = episode.score
    assert score is not None
    assert (score.reward, score.maximum, score.solved) == (0.0, 0.0, None)
    assert score.by_agent == {"first": -1.0, "second": 1.0}
    assert (episode.return_of("first"), episode.return_of("second")) == (-1.0, 1.0)


def test_seats_are_given_by_name(project: Path) -> None:
    episode = play(
        {"second": ["take 1 from 1"], "first": ["take 1 from 2"]},
        team="nim",
        task="nim",
        settings=[
            "task.environment={use: nim, options: {heaps: [1, 1]}}",
            "task.seats={first: second, second: first}",
        ],
    )
    assert episode.turns[0].joined == ("second",)
    assert episode.score is not None
    assert episode.score.by_agent == {"second": -1.0, "first": 1.0}


def test_row_may_have_its_own_options(project: Path) -> None:
    rows = [{"task_id": "x", "heaps": [1]}, {"task_id": "y", "heaps": [2, 3]}]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = ["task.source={path: rows.jsonl}", "task.splits={}"]
    episode = play({"first": ["take 1 from 1"]}, team="nim", task="nim", settings=settings)
    assert episode.return_of("first") == 1.0
    Path("rows.jsonl").write_text('{"task_id": "x", "heeps": [1]}\n')
    team = collab.load("nim", task="nim", settings=settings, model="echo")
    with pytest.raises(RecipeError, match="did you mean 'heaps'"):
        check_prompts(*find_problems(team.recipe, ["nim"]))


FAULTS = {
    "raises in reset": ("self._wanted, self._said = random.choice(self._words), []", "1 / 0"),
    "raises in step": ("self._said.append(dict(actions))", "1 / 0"),
    "gives no step": ("return Step(\n            {} if over", "return (\n            {} if over"),
    "earns no number": ("0.5 * equal + 0.5 * right", "float('nan')"),
    "seats nobody has": ('"right": f"say', '"wrong": f"say'),
    "renders no text": ('return f"wanted', 'return 3, f"wanted'),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_error_in_a_custom_game_is_reported(project: Path, fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in MATCH
    text = MATCH.replace(old, new)
    if fault == "gives no step":
        text = text.replace("rewards=", "").replace("solved=right", "right")
        text = text.replace('summary="', '"').replace("values=", "")
    Path("games.py").write_text(text)
    team = collab.load("pair", task="match", model="echo")
    episode = team.run("match/0").episode
    assert episode.failure is not None
    assert (episode.failure.boundary, episode.failure.type) == ("environment", "EnvironmentFailed")
    if "raises" in fault:
        assert "games.py:" in episode.failure.message
        assert "ZeroDivisionError" in str(episode.failure.traceback)
    with pytest.raises(RecipeError):
        check_prompts(*find_problems(team.recipe, ["match"]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["task.environment=nin"], "did you mean 'nim'"),
        (["task.environment=games.py:Step"], "a subclass of collab.environments.Environment"),
        (["task.environment={use: nim, options: {heeps: [1]}}"], "did you mean 'heaps'"),
        (["task.environment={use: nim, options: {heaps: [40]}}"], "1 to 30 sticks"),
        (["task.seats={left: a}"], "give each agent one seat"),
        (["team.feedback=[self]"], "leave out team.feedback"),
        (["agents.c={prompt: 'x'}"], "as many agents as seats"),
        (["agents.a.prompt='{{ observation.lats }}'"], "did you mean 'last'"),
        (["task.reward={parts: {x: {use: length}}}"], "pays the reward itself"),
        (["task.kind=text", "task.source={generate: seeds}"], "need kind 'environment'"),
    ],
)
def test_mismatched_settings_are_refused(project: Path, settings: list[str], message: str) -> None:
    with pytest.raises(CollabError, match=message):
        check_prompts(
            *find_problems(collab.load("pair", task="match", settings=settings).recipe, [])
        )


def test_dry_run_plays_the_longest_game(project: Path) -> None:
    recipe = collab.load("nim", task="nim", model="echo").recipe
    played = check_prompts(*find_problems(recipe, ["nim/0"]))
    assert len(played.requests) > 4
    assert not played.warnings
    recipe = collab.load("nim", task="nim", model="echo", settings=["team.turns=2"]).recipe
    (warning,) = check_prompts(*find_problems(recipe, ["nim/0"])).warnings
    assert "a game may last 15 turns, but team.turns is 2" in warning


def test_run_folder_contains_the_game(project: Path, tmp_path: Path) -> None:
    play({"a": ["go"] * 2, "b": ["go"] * 2}, out=Path("run"))
    moved = project / "elsewhere" / "run"
    shutil.copytree("run", moved)
    Path("games.py").unlink()
    (moved.parent / "script.json").write_text(json.dumps({"a": ["go"] * 2, "b": ["go"] * 2}))
    again = collab.load(str(moved), model=f"scripted:{moved.parent / 'script.json'}", trust=True)
    assert again.run("match/0").episode.failure is None


def test_show_and_report_include_the_state(project: Path) -> None:
    play({"a": ["go"] * 2, "b": ["go"] * 2}, out=Path("run"))
    shown = CliRunner().invoke(app, ["show", "run", "0"]).output
    assert "state" in shown
    assert "they agree" in shown
    assert "said [{'left': 'go'" in shown
    report = CliRunner().invoke(app, ["report", "run", "--out", "r.html"])
    assert report.exit_code == 0, report.output


def test_evaluations_and_tasks_support_games(project: Path) -> None:
    listed = CliRunner().invoke(app, ["tasks", "match"]).output
    assert "6 problems" in listed
    evaluated = CliRunner().invoke(
        app, ["eval", "pair", "-m", "echo", "-t", "match", "--out", "e", "--json"]
    )
    assert evaluated.exit_code == 0, evaluated.output
    team = json.loads(evaluated.output.splitlines()[-1])["results"]["teams"][0]
    assert team["failed"] == 0
    assert team["metrics"]["return"]["mean"] == 0.0


def test_custom_game_is_checked_by_the_conformance_suite(project: Path) -> None:
    found = CliRunner().invoke(app, ["tasks", "match", "--check"])
    assert found.exit_code == 0, found.output
    assert "match conforms" in found.output
    Path("broken.py").write_text(MATCH.replace('return f"wanted', 'return 3, f"wanted'))
    Path("tasks/broken.yaml").write_text("kind: environment\nenvironment: broken.py:Match\n")
    found = CliRunner().invoke(app, ["tasks", "broken", "--check"])
    assert found.exit_code == 1
    assert "render returned a tuple, not text" in found.output


@pytest.mark.parametrize("turns", [1, 2])
def test_probe_crosses_only_games_of_one_turn(project: Path, turns: int) -> None:
    words = ["go", "stay", "go", "x"]
    script = {"a": words * turns, "b": ["go", "x", "stay", "go"] * turns}
    Path("script.json").write_text(json.dumps(script))
    rounds = f"task.environment={{use: 'games.py:Match', options: {{rounds: {turns}}}}}"
    command = "probe pair -t match/0 -m scripted:script.json --samples 4 --tasks 1 --out p --json"
    settings = ["--set", f"team.turns={turns}", "--set", rounds]
    result = CliRunner().invoke(app, [*command.split(), *settings])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output.splitlines()[-1])
    found = found.get("probe", found)
    assert (found["crossed"] is not None) == (turns == 1)
    assert found["failed"] == 0


def test_a_game_is_replayed_and_not_scored(project: Path) -> None:
    play({"a": ["go"] * 2, "b": ["go"] * 2}, out=Path("run"))
    replayed = CliRunner().invoke(app, ["replay", "run"])
    assert replayed.exit_code == 0, replayed.output
    Path("run/training.yaml").write_text(Path("run/recipe.yaml").read_text())
    added_up = CliRunner().invoke(app, ["replay", "run"])  # a game's reward has no parts
    assert (added_up.exit_code, "differs" in added_up.output) == (0, False)
    Path("a.txt").write_text("go")
    scored = CliRunner().invoke(app, ["score", "match/0", "--agent", "a=a.txt"])
    assert scored.exit_code == 2 or isinstance(scored.exception, RecipeError)
