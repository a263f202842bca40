"""Where a scheme is told: in the score, in training metrics, on a page."""

import asyncio
import json
from pathlib import Path

import pytest
import torch
from support.scoring import joined_score
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS

from collab.agents import join_for
from collab.recipe import Recipe, load_recipe, load_task
from collab.records import Problem, Score, read_episodes
from collab.rewards import Scorer
from collab.sandbox import Sandbox
from collab.trainers import TrainingRun

PROBLEM = Problem(
    address="demo/0",
    public={"prompt": 'import math\n\n\ndef f(xs):\n    """."""\n', "entry_point": "f"},
    hidden={"test": "def check(candidate):\n    assert candidate([1]) == 1\n"},
)
ARTEFACTS = {"aux": "def aux(x):\n    return x", "main": "def f(xs):\n    return sum(map(aux, xs))"}
PARSERS = """
def helper(response):
    return "def aux(number):\\n    return number * number"

def caller(response):
    test = "aux(number)" if len(response) % 2 else "aux(number) > 3"
    return f"def sum_even_squares(numbers):\\n    return sum({test} for number in numbers)"
"""


def scored(artefacts: dict[str, str]) -> Score:
    spec = load_task("coopcode").reward

    async def score() -> Score:
        async with Sandbox() as sandbox:
            scorer = Scorer(spec, sandbox)
            return await joined_score(scorer, PROBLEM, artefacts, list(artefacts))

    return asyncio.run(score())


def test_a_score_tells_the_scheme_and_its_lines_of_the_joint_program() -> None:
    score = scored(ARTEFACTS)
    [scheme] = score.schemes
    assert score.scheme == scheme.name == "coordinator"
    joint = join_for("python")(ARTEFACTS, PROBLEM).text.splitlines()
    assert [joint[line - 1].strip() for line in scheme.lines] == ["return sum(map(aux, xs))"]
    assert Score.model_validate_json(score.model_dump_json()) == score


@pytest.mark.parametrize(
    ("artefacts", "scheme"),
    [
        ({"main": ARTEFACTS["main"]}, None),
        ({"aux": "", "main": ""}, None),
        ({"aux": "def aux(:", "main": ARTEFACTS["main"]}, None),
        ({"aux": "", "main": ARTEFACTS["aux"] + "\n\n" + ARTEFACTS["main"]}, "redefined"),
        ({"aux": ARTEFACTS["main"], "main": ARTEFACTS["aux"]}, None),
        ({"aux": ARTEFACTS["aux"], "main": "def f(xs):\n    return sum(xs)"}, "unused"),
    ],
    ids=["one agent", "nothing", "broken helper", "no helper", "swapped", "alone"],
)
def test_teams_at_odds(artefacts: dict[str, str], scheme: str | None) -> None:
    assert scored(artefacts).scheme == scheme


def test_training_tells_the_share_of_each_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    model = save_tiny(tmp_path / "model", WORDS)
    (tmp_path / "parsers.py").write_text(PARSERS)
    recipe = load_recipe("coding", task="coopcode", trainer="magrpo", model=str(model)).model_dump()
    recipe["model"] |= {"dtype": "float32", "device": "cpu"}
    recipe["sampling"]["max_new_tokens"] = 3
    for agent, parser in (("aux", "helper"), ("main", "caller")):
        spec = recipe["team"]["agents"][agent]
        spec |= {"parser": f"parsers.py:{parser}", "prompt": "say", "role": "a"}
    recipe["task"] |= {"splits": {"train": "0"}, "reward": {"parts": {"syntax": {"use": "parses"}}}}
    recipe["trainer"] |= {"steps": 1, "tasks_per_step": 1}
    asyncio.run(TrainingRun(Recipe.model_validate(recipe), tmp_path / "run").run())
    [row] = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    schemes = [e.score.scheme for e in read_episodes(tmp_path / "run") if e.score]
    assert schemes
    shares = {k.removeprefix("scheme/"): v for k, v in row.items() if k.startswith("scheme/")}
    assert shares == {name: schemes.count(name) / len(schemes) for name in set(schemes)}
