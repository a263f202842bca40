"""Rows of MBPP in the published format."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scoring import joined_score, reward_of

from collab.errors import RecipeError, TaskError, Untrusted
from collab.recipe import load_recipe, load_task
from collab.recipe.team import roles_of
from collab.records import Problem
from collab.rewards import Scorer
from collab.sandbox import Sandbox
from collab.tasks import Suite, open_suite

ROWS: list[dict[str, Any]] = [
    {
        "text": "Write a function that doubles each number, as in \\times 2 or \"twice\"",
        "code": "def one(x):\r\n return 2 * x\r\ndef twice(xs):\r\n return [one(x) for x in xs]",
        "task_id": 601,
        "test_setup_code": "",
        "test_list": ["assert twice([1, 2]) == [2, 4]", "assert list(map(int, twice([]))) == []"],
        "challenge_test_list": [],
    },
    {
        "text": "Write a function to find the area of a circle.",
        "code": "import math\r\ndef area(r, pi=math.pi):\r\n    return pi * r ** 2",
        "task_id": 602,
        "test_setup_code": "import math",
        "test_list": ["assert math.isclose(area(1), math.pi, rel_tol=.1)", "assert area(0) == 0"],
        "challenge_test_list": [],
    },
    {
        "prompt": "Write a function to split a text into lines.",
        "code": "def lines(text):\n    return text.split('\\n')",
        "task_id": 603,
        "test_imports": ["import os"],
        "test_list": ["assert lines('''a\n  b''') == [\n  'a',\n  '  b']"],
    },
]  # fmt: skip
HUMANEVALS = {
    "task_id": "MBPP/0",
    "prompt": "def inc(x):\n    '''Add one.'''\n",
    "test": "def check(candidate):\n    assert candidate(1) == 2",
    "entry_point": "inc",
}

Solve = Callable[[Problem, dict[str, str]], bool]


@pytest.fixture(scope="module")
def solve(sandbox: Sandbox) -> Solve:
    """Return whether answers, by agent, solve a problem under the suite's reward."""
    scorer = Scorer(reward_of(load_task("mbpp")), sandbox, roles_of(("aux", "main")))

    def solve(problem: Problem, artifacts: dict[str, str]) -> bool:
        return bool(asyncio.run(joined_score(scorer, problem, artifacts, [*artifacts])).solved)

    return solve


def suite(tmp_path: Path, rows: list[dict[str, Any]], *settings: str, name: str = "mbpp") -> Suite:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return open_suite(load_task(name, settings=[f"task.source.path={path}", *settings]))


@pytest.mark.parametrize("name", ["mbpp", "mbpp-sanitized"])
def test_canonical_solutions_pass_adapted_tests(tmp_path: Path, solve: Solve, name: str) -> None:
    problems = suite(tmp_path, ROWS, name=name).select("")
    assert [problem.public["entry_point"] for problem in problems] == ["twice", "area", "lines"]
    assert problems[0].address == f"{name}/601"
    for problem in problems:
        assert set(problem.public) == {"task_id", "prompt", "entry_point"}
        assert solve(problem, {"main": str(problem.hidden["canonical_solution"])})
        assert not solve(problem, {"main": f"def {problem.public['entry_point']}(x): return x"})


def test_prompt_is_a_function_with_the_text_as_docstring(tmp_path: Path) -> None:
    for problem, row in zip(suite(tmp_path, ROWS).select(""), ROWS, strict=True):
        space: dict[str, Any] = {}
        exec("import math\n" + str(problem.public["prompt"]), space)
        text = space[str(problem.public["entry_point"])].__doc__.strip()
        assert text == row.get("text", row.get("prompt"))


def test_rows_in_humaneval_format_are_unchanged(tmp_path: Path) -> None:
    assert suite(tmp_path, [HUMANEVALS]).rows == (HUMANEVALS,)


def test_row_in_humaneval_format_without_its_test_says_so(tmp_path: Path) -> None:
    row = {key: value for key, value in HUMANEVALS.items() if key != "test"}
    with pytest.raises(TaskError, match="line 1: the field 'test' is missing"):
        suite(tmp_path, [row])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**ROWS[0], "test_lists": 1, "test_list": None}, "missing; did you mean 'test_lists'"),
        ({**ROWS[0], "code": 7}, "'code' is of type int, not str"),
        ({**ROWS[0], "code": "def other(): pass"}, "which defines other"),
        ({**ROWS[0], "code": "def twice(:"}, "does not parse"),
        ({**ROWS[0], "code": "("*9999}, "does not parse"),
    ],
)  # fmt: skip
def test_malformed_row_shows_its_line(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=f"rows.jsonl, line 1: the format 'mbpp': .*{message}"):
        suite(tmp_path, [row])


def test_own_rows_replace_the_origin_and_its_splits(tmp_path: Path) -> None:
    found = suite(tmp_path, ROWS)
    assert (found.spec.source.hub, found.spec.source.config) == (None, None)
    assert found.spec.source.split == "train"
    assert found.spec.splits == {}
    assert found.spec.source.adapt is not None
    splits = suite(tmp_path, ROWS, "task.splits.test=1-2").spec.splits
    assert splits == {"test": "1-2"}
    path = tmp_path / "rows.jsonl"
    settings = ["task.splits.test=0-1", f"task.source.path={path}"]
    assert open_suite(load_task("mbpp", settings=settings)).spec.splits == {"test": "0-1"}


def test_data_file_replaces_a_generated_suite(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(HUMANEVALS | {"helper": "h", "rest": "r"}))
    task = load_recipe("pocket", task=str(path)).task
    assert task is not None
    assert task.source.generate is None
    assert task.splits == {}


OWN = "def own(row, *, suffix=''):\n    return {'prompt': row['q'] + suffix, 'answer': row['a']}\n"
LIKE = ["task.kind=text", "task.hidden=[answer]", "task.id_field=''"]


def test_custom_format_takes_options(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    adapt = f"task.source.adapt={{use: '{tmp_path}/own.py:own', options: {{suffix: '?'}}}}"
    found = suite(tmp_path, [{"q": "1 + 1", "a": "2"}], *LIKE, adapt, name="code")
    [problem] = found.select("")
    assert (problem.public["prompt"], problem.hidden) == ("1 + 1?", {"answer": "2"})


@pytest.mark.parametrize(
    ("adapt", "error", "message"),
    [
        ("mbp", RecipeError, "unknown format 'mbp'; did you mean 'mbpp'"),
        ("{use: mbpp, options: {x: 1}}", RecipeError, "unknown option 'x' of format 'mbpp'"),
        ("'{file}:fails'", TaskError, r"line 1: the format .*KeyError: 'nothing'"),
        ("'{file}:wrong'", TaskError, "line 1: .*returned a str; a format must return a mapping"),
        ("'{file}:number'", TaskError, "line 1: the field name 1 is not text"),
    ],
)
def test_invalid_format_is_refused(
    tmp_path: Path, adapt: str, error: type[Exception], message: str
) -> None:
    functions = "def fails(row): return row['nothing']\ndef wrong(row): return 'x'\n"
    functions += "def number(row): return {**row, 1: 2}\n"
    (tmp_path / "formats.py").write_text(functions)
    setting = "task.source.adapt=" + adapt.replace("{file}", f"{tmp_path}/formats.py")
    with pytest.raises(error, match=message):
        suite(tmp_path, ROWS, setting)


def test_foreign_format_needs_approval_before_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    (there / "own.py").write_text(OWN)
    (there / "rows.jsonl").write_text(json.dumps({"q": "1 + 1", "a": "2"}))
    (there / "mine.yaml").write_text(
        "kind: text\nhidden: [answer]\nsource: {path: rows.jsonl, adapt: 'own.py:own'}\n"
        "reward: {parts: {right: {use: equals, options: {field: answer}}}}\n"
    )
    monkeypatch.chdir(here)
    with pytest.raises(Untrusted):
        load_task(str(there / "mine.yaml"))
    assert len(open_suite(load_task(str(there / "mine.yaml"), trust=True))) == 1
