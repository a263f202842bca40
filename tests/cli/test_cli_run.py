"""`collab run`: its output, its files, its exit, and `--best-of`."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.command_line import Collab, Result

from collab.recipe import TaskSpec
from collab.records import read_episodes
from collab.runtime import problems
from collab.tasks import Suite, open_suite

pytestmark = pytest.mark.usefixtures("project")

ECHO = ("run", "pair", "--model", "echo")


def test_shows_agents_joint_verdict_parts_and_record(collab: Collab) -> None:
    result = collab(*ECHO, "--task", "words/0", "--out", "out")
    assert result.status == 0
    assert "-- a, 7 tokens" in result.out
    assert "-- joined" in result.out
    assert "reward 1.00 of 1.00" in result.out
    assert "2 of 2 said Say w0." in result.out
    assert "record: out" in result.out
    assert "\x1b" not in result.out
    assert result.err == ""


def test_the_record_is_readable(collab: Collab) -> None:
    collab(*ECHO, "--task", "words/0-2", "--samples", "2", "--seed", "5", "--out", "out")
    episodes = list(read_episodes(Path("out")))
    assert [episode.seed for episode in episodes] == [5] * 6
    assert json.loads(Path("out/run.json").read_text())["status"] == "done"
    assert yaml.safe_load(Path("out/recipe.yaml").read_text())["samples"] == 2


def test_json_is_a_stream_of_events(collab: Collab) -> None:
    result = collab(*ECHO, "--task", "words/0-1", "--json", "--out", "out")
    types = [event["type"] for event in result.events]
    assert types[0] == "run.started"
    assert types[-1] == "run.finished"
    assert types.count("episode.finished") == 2
    assert "agent.progress" not in types
    assert result.events[-1]["status"] == "done"
    assert result.events[0]["folder"] == "out"


def test_turns_show_feedback_and_the_change_in_reward(collab: Collab, project: Path) -> None:
    answers = {"a": ["Say w1.", "Say w0."], "b": ["Say w0.", "Say w0."]}
    (project / "script.yaml").write_text(yaml.safe_dump(answers))
    (project / "told.py").write_text("def tell(outcome):\n    return {'a': 'Listen to b.'}\n")
    result = collab(
        "run", "pair", "--task", "words/0", "--model", "scripted:script.yaml",
        "--set", "team.turns=2", "--set", "team.feedback=['told.py:tell']",
    )  # fmt: skip
    assert result.status == 0, result.err
    assert "turn 1" in result.out
    assert "turn 2" in result.out
    assert "feedback for a (told.py:tell)" in result.out
    assert "reward 1.00 of 1.00 (+0.50 from the turn before)" in result.out


def test_unused_script_answers_fail_the_run(collab: Collab, project: Path) -> None:
    (project / "script.yaml").write_text("[one, two, three]")
    arguments = ("--task", "words/0", "--model", "scripted:script.yaml", "--json", "--out", "out")
    result = collab("run", "pair", *arguments)
    assert result.status == 1
    assert "unused answers of" in result.err
    assert result.events[-1]["status"] == "failed"
    assert json.loads(Path("out/run.json").read_text())["status"] == "failed"


def test_run_fails_when_every_episode_fails(collab: Collab, project: Path) -> None:
    (project / "script.yaml").write_text("[{failure: the line is dead}, {failure: so is this}]")
    result = collab("run", "pair", "--task", "words/0", "--model", "scripted:script.yaml")
    assert result.status == 1
    assert "every episode failed: ModelError: the line is dead" in result.err
    assert "1 failed (ModelError 1)" in result.out


def test_unavailable_model_is_bad_usage(collab: Collab, project: Path) -> None:
    (project / "models.py").write_text(
        "from collab.errors import ModelUnavailable\n\n\n"
        "class Gone:\n"
        "    name, batching = 'gone', 'static'\n\n"
        "    async def generate(self, requests, progress=None):\n"
        "        raise ModelUnavailable('no such model on the hub')\n\n"
        "    async def aclose(self):\n"
        "        pass\n\n\n"
        "def gone(spec):\n"
        "    return Gone()\n"
    )
    result = collab("run", "pair", "--task", "words/0-1", "--model", "models.py:gone")
    assert result.status == 2
    assert "ModelUnavailable: no such model on the hub" in result.err


def test_require_solved_needs_every_episode_solved(collab: Collab) -> None:
    assert collab(*ECHO, "--task", "words/0", "--require-solved").status == 1


def test_a_folder_that_holds_a_run_is_not_overwritten(collab: Collab) -> None:
    collab(*ECHO, "--task", "words/0", "--out", "out")
    before = Path("out/episodes.jsonl").read_bytes()
    result = collab(*ECHO, "--task", "words/1", "--out", "out")
    assert result.status == 2
    assert "already contains a run" in result.err
    assert Path("out/episodes.jsonl").read_bytes() == before


def test_a_dry_run_prints_the_plan_and_the_recipe_on_request(collab: Collab) -> None:
    arguments = (
        *ECHO, "--task", "words/0-3", "--samples", "2",
        "--set", "sampling.max_new_tokens=10", "--set", "agents.b.sampling.temperature=0.5",
    )  # fmt: skip
    plan = collab(*arguments, "--dry-run").out
    assert plan.startswith("pair, parallel, 1 turn\n")
    assert "  round 1: a, b at the same time\n" in plan
    assert "scoring:" not in plan, "text tasks run no programs"
    result = collab(*arguments, "--show-recipe")
    assert result.status == 0
    assert result.out.endswith(plan)
    recipe = printed_recipe(result.out)
    assert recipe["team"]["agents"]["b"]["sampling"] == {"temperature": 0.5}
    last = "8 episodes (4 x 2), at most 160 new tokens in 16 responses"
    assert result.out.splitlines()[-1] == last
    (data,) = collab(*arguments, "--dry-run", "--json").events
    assert data["recipe"]["team"]["agents"]["b"]["sampling"]["temperature"] == 0.5
    assert not Path("runs").exists()


def printed_recipe(out: str) -> Any:
    title, _, rest = out.partition("-- effective recipe\n")
    assert not title.strip()
    return yaml.safe_load(rest.partition("\npair, parallel")[0])


def test_settings_without_effect_are_noted(collab: Collab, project: Path) -> None:
    agents = {"a": {"model": "echo", "sampling": {"top_p": 0.5}}, "b": {}}
    recipe = {"team": {"agents": agents}, "sampling": {"temperature": 0.9}}
    (project / "own.yaml").write_text(yaml.safe_dump({**recipe, "task": "humaneval"}))
    given = ["model=echo", "team.sampling.temperature=0", "team.sampling.top_p=0.7"]
    given.append("task.source.rows=9")
    settings = [word for setting in given for word in ("--set", setting)]
    notes = collab("run", "own.yaml", "-t", "humaneval/0", *settings, "--dry-run").err
    assert "note: the setting model=echo is not used for a: each has its own model" in notes
    assert f"note: the setting {given[1]} is not used, because the recipe's sampling has" in notes
    assert f"note: the setting {given[2]} is not used for a, because agents.NAME.sampling" in notes
    assert "note: task.source.rows is not used, as it works with 'generate' only\n" in notes


def test_workers_option_sets_the_sandbox_and_is_shown(collab: Collab) -> None:
    code = ("run", "pocket", "-t", "pocket-code/0", "-m", "echo")
    result = collab(*code, "--workers", "3", "--dry-run")
    assert "scoring: 3 programs at a time, on this machine" in result.out
    result = collab(*ECHO, "--task", "words/0", "--workers", "3", "--show-recipe")
    assert printed_recipe(result.out)["sandbox"]["workers"] == 3
    assert collab(*ECHO, "--task", "words/0", "--workers", "0", "--dry-run").status == 2


def test_control_characters_of_models_never_reach_terminals(collab: Collab, project: Path) -> None:
    (project / "script.yaml").write_text('["\\e[31mred\\a", "b"]')
    result = collab("run", "pair", "--task", "words/0", "--model", "scripted:script.yaml")
    assert "\\x1b[31mred\\x07" in result.out
    assert "\x1b" not in result.out


def test_suite_is_opened_once_per_run(collab: Collab, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def watched(spec: TaskSpec) -> Suite:
        opened.append(spec.name)
        return open_suite(spec)

    monkeypatch.setattr(problems, "open_suite", watched)
    assert collab(*ECHO, "--task", "words/0-1", "--out", "out").status == 0
    assert opened == ["words"]


def test_model_loading_does_not_count_as_run_time(collab: Collab, project: Path) -> None:
    result = collab("run", "pair", "-t", "words/0", "-m", "models.py:heavy", "--json", "--out", "o")
    assert result.status == 0, result.err
    for summary in (
        result.events[-1]["summary"],
        json.loads(Path("o/run.json").read_text())["summary"],
    ):
        assert summary["seconds"] < 1
        assert summary["tokens_per_second"] > 6
    assert result.events[-2]["episode"]["seconds"] < 1


def test_truncated_agents_are_named_at_the_end(collab: Collab, project: Path) -> None:
    truncated = {"text": "Say", "finish_reason": "length"}
    script = {"a": [truncated] * 4, "b": ["Say w0."] * 4}
    (project / "script.yaml").write_text(yaml.safe_dump(script))
    result = collab("run", "pair", "-t", "words/0-3", "-m", "scripted:script.yaml")
    message = "warning: 100% of the responses of a are truncated at their limit; raise its max_new"
    assert message in result.out
    assert "responses of b" not in result.out


def test_unused_feedback_is_warned_about(collab: Collab, project: Path) -> None:
    message = "warning: team.feedback is never used: team.turns is 1; set team.turns=2"
    arguments = (*ECHO, "-t", "words/0", "--set", "team.feedback=[self]")
    assert message in collab(*arguments).err
    assert message in collab(*arguments, "--dry-run").out
    assert "never used" not in collab(*arguments, "--set", "team.turns=2").err
    shipped = collab("run", "pocket", "-t", "pocket-code/0", "-m", "echo", "--dry-run")
    assert "never used" not in shipped.out, "the shipped team has feedback for more turns"


def test_a_run_without_an_episode_does_not_block_its_folder(collab: Collab, project: Path) -> None:
    Path("models.py").write_text(Path("models.py").read_text() + LOST)
    arguments = ("run", "pair", "-t", "words/0", "--out", "out")
    assert "the disk is gone" in collab(*arguments, "-m", "models.py:lost").err
    assert collab(*arguments, "-m", "echo").status == 0


def test_prompt_fills_the_field_that_the_team_reads(collab: Collab) -> None:
    """The template of the team `pair` reads `word`."""
    asked = collab("run", "pair", "--prompt", "hello", "-m", "echo", "--out", "out")
    assert (asked.status, "1 episode, not scored" in asked.out) == (0, True), asked.err
    (episode,) = read_episodes(Path("out"))
    assert "Say hello." in episode.answer
    again = collab("run", "out", "--prompt", "again", "-m", "echo")
    assert (again.status, "Say again." in again.out) == (0, True), again.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "words/0"], "--prompt replaces the task; leave out --task or --prompt"),
        (["--set", "task.hidden=[word]"], "leave out --set task.hidden=[word] or --prompt"),
        (["--set", "task=words"], "leave out --set task=words or --prompt"),
        (["--best-of", "2"], "answers to --prompt are not scored; leave out --best-of or"),
        (["--require-solved"], "answers to --prompt are not scored; leave out --require-solved"),
        (["--prompt", " "], "the text of --prompt is empty; give at least one word"),
        (
            ["--set", "team.agents.a.prompt='{{ task.x }}'"],
            "no template of the team 'pair' reads the text of --prompt (fields that it reads: x,",
        ),
        (
            ["--set", "team.agents.a.prompt=Hi", "--set", "team.agents.b.prompt=Hi"],
            "it reads: none); use a suite or a file with --task",
        ),
    ],
)
def test_prompt_refuses_what_it_cannot_use(
    collab: Collab, arguments: list[str], message: str
) -> None:
    result = collab(*ECHO, "--prompt", "hello", *arguments, "--out", "out")
    assert (result.status, message in result.err) == (2, True), result.err
    assert not Path("out").exists()


def test_prompt_needs_no_package_for_serving(
    collab: Collab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "starlette"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [n for n in sys.modules if n.startswith("collab.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert collab(*ECHO, "--prompt", "hello").status == 0


def test_require_solved_needs_problems_with_a_reward(collab: Collab, project: Path) -> None:
    (project / "tasks" / "plain.yaml").write_text("kind: text\nsource: {path: words.jsonl}\n")
    result = collab(*ECHO, "--task", "plain/0", "--require-solved", "--out", "out")
    assert (result.status, "'plain' are not scored" in result.err) == (2, True), result.err
    assert not Path("out").exists()


LOST = """

class Lost(Slow):
    async def open_early(self, adapter=None):
        raise RuntimeError("the disk is gone")


def lost(spec):
    return Lost(0, asyncio.sleep)
"""


ANSWERS = {
    # by agent and sample: only a's first and b's second answer are right
    "a": ["Say w0.", "no", "no"],
    "b": ["no", "Say w0.", "no"],
}


def script(answers: dict[str, list[str]]) -> str:
    Path("script.yaml").write_text(yaml.safe_dump(answers))
    return "scripted:script.yaml"


def best_of(collab: Collab, *more: str, answers: dict[str, list[str]] = ANSWERS) -> Result:
    model = script(answers)
    return collab("run", "pair", "-t", "words/0", "--model", model, "--best-of", "3", *more)


def test_best_pair_is_a_new_combination(collab: Collab) -> None:
    result = best_of(collab, "--out", "out")
    assert result.status == 0
    message = (
        "best of 9 combinations of 3 samples: reward 1.00 of 1.00 by a of sample 0, b of sample 1"
    )
    assert message in " ".join(result.out.split())
    assert "a new combination; best sample: 0.50" in " ".join(result.out.split())
    [line] = Path("out/best.jsonl").read_text().splitlines()
    best = json.loads(line)
    assert (best["made_of"], best["played"], best["scored"]) == ({"a": 0, "b": 1}, False, 9)
    assert best["artifacts"] == {"a": "Say w0.", "b": "Say w0."}
    assert best["score"]["reward"] == 1.0
    assert len(Path("out/episodes.jsonl").read_text().splitlines()) == 3, (
        "only the samples were played"
    )


def test_played_combination_wins_ties(collab: Collab) -> None:
    answers = {"a": ["no", "Say w0.", "Say w0."], "b": ["no", "Say w0.", "no"]}
    result = best_of(collab, "--json", answers=answers)
    best = result.events[-1]
    assert (best["type"], best["played"], best["made_of"]) == ("best_of", True, {"a": 1, "b": 1})


READS_C = "{use: contains, options: {phrases: [n], agent: c}}"
TOLD = (
    *("--set", "agents.c={prompt: Say no., contributes: false}"),
    *("--set", f"task.reward.parts.told={READS_C}"),
)
"""An agent that does not contribute, and a part that reads its answer."""


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--samples", "2"), "runs 3 episodes per task; leave out --samples"),
        (("--set", "team.protocol=sequential"), "agents see each other's answers"),
        (("--set", "team.turns=2", "--set", "team.feedback=[self]"), "set team.turns=1"),
        (("--best-of", "100"), "100^2 = 10000 joint artifacts"),
        (TOLD, "the reward's told reads another agent's"),
    ],
)
def test_best_of_is_refused_when_answers_cannot_be_recombined(
    collab: Collab, more: tuple[str, ...], message: str
) -> None:
    result = best_of(collab, *more)
    assert result.status == 2
    assert message in " ".join(result.err.split())


def test_a_problem_whose_episodes_all_fail_is_not_solved(collab: Collab) -> None:
    gone = [{"failure": "gone"}] * 2
    answers = {"a": ["Say w0.", "no", *gone], "b": ["no", "Say w0.", *gone]}
    Path("script.yaml").write_text(yaml.safe_dump(answers))
    words = ["run", "pair", "-m", "scripted:script.yaml", "--best-of", "2", "--require-solved"]
    result = collab(*words, "-t", "words/0-1")
    assert result.status == 1
    assert "words/0: best of 4 combinations" in result.out
