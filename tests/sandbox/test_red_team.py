"""An outside red team's programs earn no more than an honest failure and leave nothing behind."""

import asyncio
from typing import Any

import pytest
from support.attacks.red_team import HONEST_FAILURE, MARKS, RIGHT, WAYS, marks, ways, whole_tests
from support.attacks.run import LATEST, run_all, run_each, trial
from support.shares import one_in

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Verdict

TESTS = whole_tests()
SPEC = SandboxSpec(seconds=0.8, workers=2)
SHARED = ("waiting on a shared page", "shared memory", "posix queue", "host name")
Outcomes = dict[str, dict[str, Any]]


def share(outcome: dict[str, Any]) -> float:
    held, total = outcome["tests"]
    return float(held / total)


async def verdicts(*pairs: tuple[str, str]) -> list[Verdict]:
    """Run pairs of program and test at the same time; return their verdicts."""
    async with Sandbox(SPEC) as sandbox:
        return await asyncio.gather(*(sandbox.check(trial(p, TESTS[t])) for p, t in pairs))


@pytest.fixture(scope="module")
def honest() -> dict[str, float]:
    found = asyncio.run(verdicts(*((HONEST_FAILURE, name) for name in TESTS)))
    return {n: v.tests.passed / v.tests.total for n, v in zip(TESTS, found, strict=True)}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcomes]:
    return outcomes_of(16)


def outcomes_of(step: int) -> dict[str, Outcomes]:
    """Run every `step`th program of each test; return the outcomes by test and program."""
    programs, marked = list(ways().items()), list(marks(True).items())
    test_of = {
        name: test for n, test in enumerate(TESTS) for name, _ in programs[n :: len(TESTS)][::step]
    }
    chosen = {n: (program, TESTS[test_of[n]]) for n, program in programs if n in test_of}
    found: dict[str, Outcomes] = {test: {} for test in TESTS}
    for name, outcome in asyncio.run(run_each(chosen)).items():
        found[test_of[name]][name] = outcome
    within = run_all(dict(marked[::step]), TESTS["helpers within"], times=2)
    found["helpers within"] |= asyncio.run(within)
    return found


def test_corpus_is_large_and_the_correct_program_passes() -> None:
    assert len(WAYS) + len(MARKS) >= 80
    assert all(v.passed for v in asyncio.run(verdicts(*((RIGHT, name) for name in TESTS))))


@pytest.mark.parametrize("test", TESTS)
def test_no_program_earns_more_than_an_honest_failure(
    outcomes: dict[str, Outcomes], honest: dict[str, float], test: str
) -> None:
    assert earning_more_than(outcomes[test], honest[test]) == {}


def earning_more_than(outcomes: Outcomes, honest: float) -> Outcomes:
    return {name: outcome for name, outcome in outcomes.items() if share(outcome) > honest}


def test_nothing_is_left_behind(outcomes: dict[str, Outcomes]) -> None:
    check_nothing_left(outcomes, at_least=(len(WAYS) + len(MARKS)) // 16)


@pytest.mark.slow
def test_every_program(honest: dict[str, float]) -> None:
    outcomes = outcomes_of(1)
    assert not any(earning_more_than(outcomes[test], honest[test]) for test in TESTS)
    check_nothing_left(outcomes, at_least=len(WAYS) + len(MARKS))


def check_nothing_left(outcomes: dict[str, Outcomes], at_least: int) -> None:
    every = {name: o for of_test in outcomes.values() for name, o in of_test.items()}
    assert len(every) >= at_least
    assert all(o["next_passed"] and o["same_supervisor"] for o in every.values())
    assert {n: o["left"] for n, o in every.items() if o["left"] or o["planted"]} == {}
    assert {n: o["seconds"] for n, o in every.items() if o["seconds"] > LATEST} == {}


@pytest.mark.parametrize("mark", one_in(2, SHARED))
def test_concurrent_trials_cannot_see_each_other(honest: dict[str, float], mark: str) -> None:
    """One program leaves its mark and stays; the other runs meanwhile."""
    stays = marks(True)[mark] + "\nimport time\ntime.sleep(0.4)\n"
    finds = "import time\ntime.sleep(0.2)\n" + marks(False)[mark]
    _, found = asyncio.run(verdicts((stays, "helpers within"), (finds, "helpers within")))
    assert found.tests.passed / found.tests.total <= honest["helpers within"]


START = "f = candidate\nassert f(1) == 2\nassert f(4) == 5\n"
AVOIDED = {
    "below a condition": ("r = f(5)\nif r is not None:\n    assert r == 6", (1, 3)),
    "in a loop below a condition": (
        "for n in (0, 5):\n    if f(n) is not None:\n        assert f(n) == n + 1",
        (1, 3),
    ),
    "in a function that is not called": (
        "def one(r):\n    assert r == 6\nr = f(5)\nif r:\n    one(r)",
        (1, 3),
    ),
    "never to be reached": ("if f(5) is not None:\n    assert False", (1, 2)),
}


@pytest.mark.parametrize("name", AVOIDED)
def test_assert_avoided_by_an_answer_fails(name: str) -> None:
    body, counts = AVOIDED[name]
    lines = "".join(f"    {line}\n" for line in f"{START}{body}".split("\n"))
    program = "def f(n):\n    return n + 1 if n < 2 else None\n"

    async def main() -> Verdict:
        async with Sandbox(SPEC) as sandbox:
            return await sandbox.check(trial(program, f"def check(candidate):\n{lines}"))

    verdict = asyncio.run(main())
    assert (verdict.tests.passed, verdict.tests.total) == counts


@pytest.mark.slow
def test_no_program_earns_more_in_any_test(honest: dict[str, float]) -> None:
    pairs = [(program, name) for program in ways().values() for name in TESTS]
    found = asyncio.run(verdicts(*pairs))
    for (program, name), verdict in zip(pairs, found, strict=True):
        assert verdict.tests.passed / verdict.tests.total <= honest[name], (program, name)
