"""Rows of HumanEval Pro and MBPP Pro in the published format."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.scoring import joined_score, reward_of

from collab.errors import TaskError
from collab.recipe import load_recipe, load_task
from collab.recipe.team import roles_of
from collab.records import Score
from collab.rewards import Scorer
from collab.runtime.prompt_check import check_prompts
from collab.sandbox import Sandbox
from collab.tasks import Suite, open_suite

TESTS = [([1], [2]), ([], []), ([2], [4])]
ROW: dict[str, Any] = {
    "id": 7,
    "raw_problem": "from typing import List\n\n\ndef twice(x: int) -> int:\n    '''Double x.'''\n",
    "raw_solution": "    return 2 * x\n",
    "new_problem": "# Double each number.\ndef twice_each(xs: List[int]) -> List[int]:\n",
    "new_solution": "    return [twice(x) for x in xs]\n",
    "test_code": "\n".join(f"assert twice_each({x}) == {y}" for x, y in TESTS),
}
COMMENTED = {**ROW, "id": 8, "raw_problem": "# Double x.\ndef twice(x):\n"}
ONE_ASSERT = {**ROW, "id": 9, "test_code": "assert twice_each([1]) == [2]"}
NO_FUNCTION = {**ROW, "id": 10, "new_problem": "# Double each number.\n"}
KNOWN = {"entry_point": "twice", "test": "def check(candidate):\n    assert candidate(3) == 6"}


def suite(tmp_path: Path, rows: Sequence[dict[str, Any]], *settings: str) -> Suite:
    (tmp_path / "known.jsonl").write_text(json.dumps(KNOWN))
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    known = f"task.source.adapt.options.known={{path: {tmp_path / 'known.jsonl'}}}"
    return open_suite(
        load_task("mbpp-pro", settings=[f"task.source.path={path}", known, *settings])
    )


def score(tmp_path: Path, artifacts: dict[str, str]) -> Score:
    problem = suite(tmp_path, [ROW]).problem(0)
    sandbox = Sandbox()
    scorer = Scorer(reward_of(load_task("mbpp-pro")), sandbox, roles_of(tuple(artifacts)))
    try:
        return asyncio.run(joined_score(scorer, problem, artifacts, [*artifacts]))
    finally:
        sandbox.close()


def test_a_row_shows_one_assert_and_hides_the_others(tmp_path: Path) -> None:
    problem = suite(tmp_path, [ROW]).problem(0)
    assert problem.address == "mbpp-pro/7"
    assert problem.public["entry_point"] == "twice_each"
    assert problem.public["helper_name"] == "twice"
    assert "Double each number.\n\nassert twice_each([1]) == [2]" in problem.public["prompt"]
    assert "from typing import List" in problem.public["prompt"]
    assert "Double x." in problem.public["helper_prompt"]
    assert "[1]" not in problem.hidden["test"]
    assert problem.hidden["test"].count("assert") == 2
    assert problem.hidden["helper_test"] == KNOWN["test"]


def test_description_may_be_in_comments(tmp_path: Path) -> None:
    helper_prompt = suite(tmp_path, [COMMENTED]).problem(0).public["helper_prompt"]
    assert helper_prompt == 'def twice(x):\n    """Double x."""\n'


def test_unfit_rows_are_skipped_and_counted(tmp_path: Path) -> None:
    found = suite(tmp_path, [ROW, ONE_ASSERT, NO_FUNCTION])
    assert found.ids == ["7"]
    assert found.left_out.startswith("mbpp-pro leaves out 2 rows: 1 because its prompt would show")
    with pytest.raises(TaskError, match=r"2 of 3 problems cannot be run.*skip_unfit=true"):
        suite(tmp_path, [ROW, ONE_ASSERT, NO_FUNCTION], "task.source.skip_unfit=false")


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("task.source.skip_unfit=true", "mbpp-pro leaves out 2 rows: 1 because its prompt would"),
        ("task.source.leave_out=['9', '10']", "rows.json has no row that leave_out keeps"),
    ],
)
def test_suite_that_skips_every_row_says_why(tmp_path: Path, setting: str, reason: str) -> None:
    with pytest.raises(TaskError, match=f"is empty: .*{reason}"):
        suite(tmp_path, [ONE_ASSERT, NO_FUNCTION], setting)


def test_the_published_solution_earns_all_but_cooperation(tmp_path: Path) -> None:
    helper = "def twice(x):\n    return 2 * x"
    main = "def twice_each(xs):\n    return [twice(x) for x in xs]"
    parts = {p.name: p.value for p in score(tmp_path, {"helper": helper, "main": main}).parts}
    assert (parts["helper_tests"], parts["tests"], parts["solved"]) == (1.0, 1.0, 1.0)


def test_empty_helper_loses_its_tests(tmp_path: Path) -> None:
    main = (
        "def twice(x):\n    return 2 * x\n\ndef twice_each(xs):\n    return [twice(x) for x in xs]"
    )
    lazy = {p.name: p.value for p in score(tmp_path, {"helper": "", "main": main}).parts}
    assert (lazy["helper_tests"], lazy["solved"]) == (0.0, 1.0)


def test_a_part_without_tests_does_not_apply(tmp_path: Path) -> None:
    unknown = {**ROW, "raw_problem": "# Double x.\ndef double(x):\n"}
    problem = suite(tmp_path, [unknown]).problem(0)
    assert problem.hidden["helper_test"] == ""


@pytest.mark.parametrize(
    "name", ["pro", "pro-main-first", "pro-parallel", "pro-qwen", "pro-single"]
)
def test_shipped_teams_can_be_planned_on_their_suite(tmp_path: Path, name: str) -> None:
    found = suite(tmp_path, [ROW])
    recipe = load_recipe(name, task="mbpp-pro").model_copy(update={"task": found.spec})
    assert check_prompts(recipe, [found.problem(0)]).warnings == ()
