"""Suites that are generated from a seed."""

import asyncio
from pathlib import Path

import pytest
from pydantic import ValidationError
from support.scoring import reward_of

from collab import load_recipe
from collab.errors import RecipeError, TaskError
from collab.recipe import SourceSpec, TaskSpec
from collab.rewards import Scorer
from collab.tasks import Suite, open_suite

pytestmark = pytest.mark.slow


CODE = {"parts": {"tests": {"use": "tests", "weight": 1.0}}}


def of_levels(use: str, rows: int, *levels: int) -> Suite:
    source = {"generate": use, "levels": levels, "rows": rows}
    spec = {"name": "mine", "kind": "text", "source": source, "hidden": [], "reward": CODE}
    return open_suite(TaskSpec.model_validate(spec))


def test_levels_of_one_suite_keep_their_order() -> None:
    rows = of_levels("pocket_code", 125, 1, 2, 3).rows
    assert [row["level"] for row in rows] == [1] * 41 + [2] * 42 + [3] * 42
    assert len({row["task_id"] for row in rows}) == 125
    tried = [str(row["test"]) for row in rows]
    assert all("candidate(0)" in test for test in tried[:41])
    assert all("candidate([" in test for test in tried[41:83])
    assert all("candidate('" in test for test in tried[83:])
    alone = of_levels("pocket_code", 41, 1).rows
    assert [row["prompt"] for row in rows[:41]] == [row["prompt"] for row in alone]


@pytest.mark.parametrize("use", ["same_name", "signals", "split_sum"])
def test_generators_support_several_levels(use: str) -> None:
    found = of_levels(use, 10, 1, 3)
    assert [row["level"] for row in found.rows] == [1] * 5 + [3] * 5
    assert len(set(found.ids)) == 10


def test_levels_of_a_file_come_from_its_rows() -> None:
    with pytest.raises(ValidationError, match="add a field 'level' to the rows"):
        SourceSpec.model_validate({"path": "mine.jsonl", "levels": [1, 2]})
    with pytest.raises(ValidationError, match="rows 1 are too few for 2 levels"):
        SourceSpec.model_validate({"generate": "pocket_code", "levels": [1, 2], "rows": 1})


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ({"generate": "pocket_code", "levels": [1, 3], "rows": 120}, TaskError,
         r"returned 50 rows, but 60 are needed; set task.source.rows to 100 or less"),
        ({"generate": "duet", "levels": [1, 2]}, RecipeError, "'level' of generator 'duet'"),
        ({"generate": "pocket_cod"}, RecipeError, "did you mean 'pocket_code'"),
        ({"generate": {"use": "pocket_code", "options": {"level": 9}}}, RecipeError, "level"),
        ({"generate": {"use": "pocket_code", "options": {"level": 3}}, "rows": 999}, TaskError,
         r"set task.source.rows to \d+ or less"),
    ],
)  # fmt: skip
def test_invalid_generator_settings_are_refused(
    source: dict[str, object], error: type[Exception], message: str
) -> None:
    spec = TaskSpec.model_validate({"name": "mine", "source": source, "reward": CODE})
    with pytest.raises(error, match=message):
        open_suite(spec)


def test_custom_generator_is_used(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(
        "def sums(random, *, most=9):\n"
        "    while True:\n"
        "        a, b = random.randint(0, most), random.randint(0, most)\n"
        "        yield {'prompt': f'{a} + {b} =', 'answer': str(a + b)}\n"
    )
    source = {"generate": {"use": f"{tmp_path}/sums.py:sums", "options": {"most": 3}}, "rows": 5}
    spec = {"name": "sums", "kind": "text", "source": source, "hidden": ["answer"], "reward": EQUAL}
    problems = open_suite(TaskSpec.model_validate(spec)).select("")
    assert len(problems) == 5
    assert all(int(problem.hidden["answer"]) <= 6 for problem in problems)


@pytest.mark.parametrize(("returned", "kind"), [("{'prompt': 'x'}", "dict"), ("None", "NoneType")])
def test_generator_without_rows_is_refused(tmp_path: Path, returned: str, kind: str) -> None:
    (tmp_path / "one.py").write_text(f"def one(random):\n    return {returned}\n")
    source = {"generate": f"{tmp_path}/one.py:one", "rows": 5}
    spec = {"name": "one", "kind": "text", "source": source, "reward": EQUAL}
    with pytest.raises(TaskError, match=f"returned a {kind}; a generator yields a mapping"):
        open_suite(TaskSpec.model_validate(spec))


EQUAL = {"parts": {"right": {"use": "equals", "options": {"field": "answer"}}}}


def test_each_problem_needs_both_functions() -> None:
    from collab.agents import join_for
    from collab.sandbox import Sandbox

    recipe = load_recipe("pocket", task="pocket-code")
    assert recipe.task is not None
    problems = open_suite(recipe.task).select("0,57,120,159")

    async def score(part: str) -> list[tuple[float, bool | None]]:
        found = []
        async with Sandbox(recipe.sandbox) as sandbox:
            scorer = Scorer(reward_of(recipe.task), sandbox, recipe.team.roles)
            for problem in problems:
                artifacts = {
                    name: str(problem.hidden[f"canonical_{name}"]) for name in ("aux", "main")
                }
                if part in artifacts:
                    artifacts[part] = f"def {part}(x):\n    return 12345"
                joint = join_for("python")(artifacts, problem)
                score = await scorer.score(problem, joint, artifacts, list(artifacts))
                found.append((round(score.reward, 3), score.solved))
        return found

    assert asyncio.run(score("none")) == [(1.0, True)] * 4
    for part in ("aux", "main"):
        assert all(not solved for _, solved in asyncio.run(score(part)))
