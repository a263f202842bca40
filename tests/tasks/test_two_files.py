"""The suite with programs of two files: rewarded and unrewarded answers."""

import asyncio
import json
from pathlib import Path

import pytest
from support.scoring import reward_of

import collab
from collab.agents import join_for, parser_for
from collab.recipe import load_recipe
from collab.records import Problem
from collab.rewards import Scorer
from collab.sandbox import Sandbox
from collab.tasks import open_suite

RECIPE = load_recipe("two-files", task="two-files")
assert RECIPE.task
PROBLEMS = open_suite(RECIPE.task).select("0,57,159")


def answers(problem: Problem) -> tuple[str, str]:
    """Return the right files of both agents."""
    return str(problem.hidden["canonical_step"]), str(problem.hidden["canonical_main"])


def earned(*pairs: tuple[Problem, str, str]) -> list[float]:
    """Return the rewards of responses after the team's parsers and join."""
    parse = parser_for("files")

    async def score() -> list[float]:
        found = []
        async with Sandbox(RECIPE.sandbox) as sandbox:
            scorer = Scorer(reward_of(RECIPE.task), sandbox, RECIPE.team.roles)
            for problem, step, main in pairs:
                artifacts = {"step": parse(step), "main": parse(main)}
                joint = join_for("files")(artifacts, problem)
                found.append(
                    (await scorer.score(problem, joint, artifacts, list(artifacts))).reward
                )
        return found

    return asyncio.run(score())


def test_both_files_together_are_the_program() -> None:
    assert earned(*((problem, *answers(problem)) for problem in PROBLEMS)) == [1.0] * 3


CHEATS = {
    "no step": ("", "{main}"),
    "no main": ("{step}", ""),
    "nothing": ("", ""),
    "a constant": ("{step}", "# file: main.py\ndef main(x):\n    return 4\n"),
    "the argument": ("# file: step.py\ndef step(x):\n    return x\n", "{main}"),
    "another's file": ("{step}\n{main}", "{main}"),
    "a file twice": ("{step}", "{step}\n{main}"),
    "no names": ("def step(x):\n    return x\n", "def main(x):\n    return x\n"),
    "a standard module": ("{step}", "{main}\n# file: json.py\ndumps = str\n"),
    "outside": ("# file: ../step.py\ndef step(x):\n    return x\n", "{main}"),
    "equal to all": (
        "# file: step.py\nclass All(int):\n    def __eq__(self, other):\n        return True\n\n\n"
        "def step(x):\n    return All()\n",
        "# file: main.py\nfrom step import step\n\n\ndef main(x):\n    return step(x)\n",
    ),
    "the tests": (
        "{step}",
        "# file: main.py\nimport sys\n\n\ndef main(x):\n    return sys.modules['__main__'].check\n",
    ),
    "an end": ("{step}", "# file: main.py\nimport os\n\nos._exit(0)\n"),
}


def test_cheats_earn_nothing() -> None:
    [problem] = PROBLEMS[:1]
    step, main = answers(problem)
    filled = {
        name: [text.replace("{step}", step).replace("{main}", main) for text in pair]
        for name, pair in CHEATS.items()
    }
    rewards = earned(*((problem, first, second) for first, second in filled.values()))
    assert dict(zip(filled, rewards, strict=True)) == dict.fromkeys(filled, 0.0)


def test_neither_agent_sees_the_half_of_the_other() -> None:
    recipe = load_recipe("two-files")
    prompts = {name: agent.prompt or "" for name, agent in recipe.team.agents.items()}
    assert "task.rest" not in prompts["step"]
    assert "task.helper" not in prompts["main"]
    assert all("task.prompt" not in prompt for prompt in prompts.values())


@pytest.mark.parametrize("right", [True, False])
def test_scripted_team_plays_the_suite(
    right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    step, main = answers(PROBLEMS[0])
    turns = 1 if right else 2
    if not right:
        main = main.replace("import step", "import steps")
    Path("script.json").write_text(json.dumps({"step": [step] * turns, "main": [main] * turns}))
    plain = [
        f"team.agents.{name}.{key}"
        for name in ("step", "main")
        for key in ("style=chat", "prefix=''")
    ]
    team = collab.load(
        "two-files",
        task="two-files",
        model="scripted:script.json",
        settings=[*plain, "team.turns=2", "team.feedback=[static]"],
    )
    episode = team.run(PROBLEMS[0].address).episode
    assert episode.failure is None
    assert episode.solved is right
    if not right:
        feedback = episode.turns[0].feedback["main"][0].text
        assert "main.py, line 5: F821 Undefined name `step`" in feedback
        assert "main.py, line 1: F401 `step.steps` imported but unused" in feedback
