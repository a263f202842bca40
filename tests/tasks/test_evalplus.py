"""Rows of HumanEval+ and MBPP+ in the published format."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from collab.recipe import load_task
from collab.records import Problem
from collab.sandbox import Sandbox, Trial, Verdict
from collab.tasks import open_suite

HEAD = """import numpy as np
from math import inf

def is_floats(x) -> bool:
    if isinstance(x, np.ndarray):
        return x.dtype == np.float64 or x.dtype == np.float32
    if isinstance(x, (list, tuple)):
        return all(isinstance(i, float) for i in x)
    return isinstance(x, float)


def assertion(out, exp, atol):
    exact_match = out == exp
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if not exact_match and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert exact_match


"""
LOOP = "for i, (inp, exp) in enumerate(zip(inputs, results)):"
HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": 'def power(x, n):\n    """x to the n."""\n',
    "entry_point": "power",
    "canonical_solution": "    return x ** n\n",
    "test": f"\n\n{HEAD}def check(candidate):\n    inputs = [[2, 2], [10, 300000]]\n"
    f"    results = [4, 10 ** 300000]\n    {LOOP}\n        assertion(candidate(*inp), exp, 0)\n",
}
MBPP = {
    "task_id": 3,
    "code": "def halves(xs):\n    return [x / 3 for x in xs]\n",
    "prompt": "Write a function to take a third of each number.",
    "test_imports": [],
    "test_list": ["assert halves([3]) == [1.0]"],
    "test": f"{HEAD}inputs = [[[1, 2]], [[]]]\nresults = [[0.33333333, 0.66666667], []]\n"
    f"{LOOP}\n    assertion(halves(*inp), exp, 0)\n",
}

INFINITE = {
    **MBPP,
    "test": f"{HEAD}inputs = [[[9e999]]]\nresults = [[inf]]\n"
    f"{LOOP}\n    assertion(halves(*inp), exp, 0)\n",
}


def problem(tmp_path: Path, name: str, row: dict[str, Any]) -> Problem:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    return open_suite(load_task(name, settings=[f"task.source.path={path}"])).problem(0)


async def verdict(problem: Problem, program: str) -> Verdict:
    async with Sandbox() as sandbox:
        name, test = problem.public["entry_point"], problem.hidden["test"]
        return await sandbox.check(
            Trial(program=program, entry_point=name, test=test, prelude="", treatment=None)
        )


@pytest.mark.parametrize(
    ("name", "row", "right", "wrong"),
    [
        ("humaneval-plus", HUMANEVAL, "def power(x, n): return x ** n", "power = max"),
        ("mbpp-plus", MBPP, MBPP["code"], "def halves(xs): return [x / 3.1 for x in xs]"),
        ("mbpp-plus", INFINITE, "def halves(xs): return [9e999]", "def halves(xs): return [0.0]"),
    ],
)  # fmt: skip
def test_plus_tests_pass_only_the_correct_program(
    tmp_path: Path, name: str, row: dict[str, Any], right: str, wrong: str
) -> None:
    plus = problem(tmp_path, name, row)
    assert asyncio.run(verdict(plus, right)).passed
    assert not asyncio.run(verdict(plus, wrong)).passed


def test_the_mbpp_prompt_shows_one_assert(tmp_path: Path) -> None:
    prompt = problem(tmp_path, "mbpp-plus", MBPP).public["prompt"]
    assert prompt.count("assert ") == 1
