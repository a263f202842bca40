"""ClassEval's format, with a class of our own; problems that cannot run are reported."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.classes.shelf import ADD, HEAD, MOVE, N_TESTS, SHELF, SOLUTION, SORT, TOTAL
from support.scoring import joined_score

import collab
from collab.errors import TaskError
from collab.recipe import load_recipe, load_task
from collab.recipe.team import roles_of
from collab.records import Problem, Score
from collab.rewards import Scorer
from collab.sandbox import Sandbox
from collab.tasks import Suite, open_suite
from collab.tasks.formats.classes import classeval

OF = "class Shelf:\n"
NUMPY = {**SHELF, "task_id": "ClassEval_901", "import_statement": ["import numpy as np"]}
FILES = {**SHELF, "task_id": "ClassEval_902", "test": SHELF["test"] + "\nwith open('x'): pass\n"}


def suite(tmp_path: Path, rows: list[dict[str, Any]], *settings: str) -> Suite:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    return open_suite(load_task("classeval", settings=[f"task.source.path={path}", *settings]))


@pytest.fixture(scope="module")
def score(sandbox: Sandbox) -> Callable[..., Score]:
    reward = load_task("classeval").reward
    assert reward is not None
    scorer = Scorer(reward, sandbox, roles_of(("first", "second")))

    def scored(problem: Problem, first: str, second: str) -> Score:
        wrote = {"first": first, "second": second}
        return asyncio.run(joined_score(scorer, problem, wrote, ["first", "second"], "class"))

    return scored


def test_a_row_is_a_skeleton_with_methods_to_write(tmp_path: Path) -> None:
    [problem] = suite(tmp_path, [SHELF]).select("")
    assert problem.address == "classeval/ClassEval_900"
    assert problem.public["prompt"] == SHELF["skeleton"]
    assert problem.public["entry_point"] == "class Shelf"
    found = [(m["name"], m["signature"], m["parameters"]) for m in problem.public["methods"]]
    assert found == [
        ("add", "def add(self, name, boxes):", 2),
        ("total", "def total(self):", 0),
        ("move", "def move(self, other, name):", 2),
        ("sort", "@staticmethod\ndef sort(names):", 1),
    ]
    assert set(problem.hidden) == {"test", "canonical_solution"}


@pytest.mark.parametrize(
    ("wrote", "parts", "solved"),
    [
        ((HEAD + ADD + MOVE, OF + TOTAL + SORT), (2.0, 4.0, 0.0), True),
        ((HEAD + ADD + TOTAL, OF + SORT), (1.5, 4.0 * 6 / 7, 0.0), False),
        ((HEAD + ADD + TOTAL + MOVE, OF + TOTAL + SORT), (2.0, 4.0, -0.25), True),
        ((HEAD + ADD, "def broken("), (0.0, 0.0, 0.0), False),
        (("def add(self): pass\ndef total(self): ...", ""), (0.0, 0.0, 0.0), False),
        (("", ""), (0.0, 0.0, 0.0), False),
    ],
)
def test_published_reward_is_reproduced(
    tmp_path: Path,
    score: Callable[..., Score],
    wrote: tuple[str, str],
    parts: tuple[float, float, float],
    solved: bool,
) -> None:
    [problem] = suite(tmp_path, [SHELF]).select("")
    found = score(problem, *wrote)
    points = {part.name: part.points for part in found.parts}
    assert (points["methods"], points["tests"], points["overlap"]) == pytest.approx(parts)
    assert found.solved is solved
    assert found.reward == pytest.approx(sum(parts))


def test_suite_has_its_own_reward_and_splits() -> None:
    recipe = load_recipe("classeval", task="classeval")
    assert recipe.task is not None
    assert recipe.task.name == "classeval"
    assert recipe.task.splits == {"train": "0-45", "test": "46-60"}
    assert recipe.task.reward is not None
    assert sum(part.weight for part in recipe.task.reward.parts.values() if part.weight > 0) == 6.0


def fenced(*methods: str) -> str:
    return "\n".join(["```python", "class Shelf:", *methods, "```"])


def test_two_agents_take_turns_in_writing_one_class(here: Path) -> None:
    Path("rows.json").write_text(json.dumps([SHELF]))
    script = {"first": [fenced(ADD, MOVE)], "second": [fenced(TOTAL, SORT)]}
    Path("script.yaml").write_text(yaml.safe_dump(script))
    model, settings = "scripted:script.yaml", ["task.source.path=rows.json"]
    with collab.load("classeval", task="classeval", model=model, settings=settings) as team:
        [episode] = team.run().episodes
    prompts = {
        decision.agent: decision.observation[-1].content for decision in episode.turns[0].decisions
    }
    first, second = (prompts[agent].rpartition("methods:\n")[2] for agent in ("first", "second"))
    assert first == "def add(self, name, boxes):\ndef move(self, other, name):"
    assert second == "def total(self):\n@staticmethod\ndef sort(names):"
    assert episode.solved, episode


def test_problems_that_cannot_run_are_refused_with_ids_and_reasons(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as error:
        suite(tmp_path, [NUMPY, SHELF, FILES], "task.source.leave_out=[x]")
    assert "2 of 3 problems cannot be run" in str(error.value)
    assert "ClassEval_901: needs numpy" in str(error.value)
    assert "ClassEval_902: its test reads or writes files" in str(error.value)
    remedy = "task.source.skip_unfit=true"
    assert remedy in str(error.value)
    assert len(suite(tmp_path, [NUMPY, SHELF, FILES], remedy)) == 1


def test_unparsable_skeleton_is_rebuilt_from_its_parts(tmp_path: Path) -> None:
    broken = {**SHELF, "skeleton": f"'''{SHELF['skeleton'].replace(chr(34) * 3, '“”“')}"}
    [problem] = suite(tmp_path, [broken]).select("")
    prompt = str(problem.public["prompt"])
    assert "self.boxes = {}" in prompt
    assert '"""Do add."""' in prompt
    assert "return" not in prompt
    assert [m["name"] for m in problem.public["methods"]] == ["add", "total", "move", "sort"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class_name": "Shelve"}, "no class 'Shelve' is defined"),
        ({"test": "def f(:"}, "the field 'test' does not parse"),
        ({"test_classes": ["Nothing"]}, "no method of the classes in 'test_classes'"),
        ({"skeleton": None}, "the field 'skeleton' is missing"),
    ],
)
def test_malformed_row_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=f"rows.json, row 0: the format 'classeval': .*{message}"):
        suite(tmp_path, [{**SHELF, **change}])


def test_asserts_are_counted_in_the_source() -> None:
    row = classeval(SHELF)
    assert row["test"].count("assert passes(") == N_TESTS
    assert row["canonical_solution"].endswith(SOLUTION)
