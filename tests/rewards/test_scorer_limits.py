"""A scorer's reaction to parts that fail, are wrong, or take too long."""

import asyncio
import time
from typing import Any

import pytest
from support.programs.reward_parts import GOOD, Score_, Use
from support.scoring import joined_score

from collab.errors import RecipeError, RewardError, SandboxError, UnknownName
from collab.recipe import RewardSpec, SandboxSpec
from collab.records import Problem, Score
from collab.rewards import Scorer
from collab.rewards.code import cooperation
from collab.sandbox import Sandbox


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("negative", "'it' returned -0.1; a part returns a number from 0 to 1"),
        ("big", "'it' returned 1.5"),
        ("nan", "'it' returned nan"),
        ("text", "'it' returned a str"),
        ("nothing", "'it' returned a NoneType"),
        ("pair", "'it' returned a tuple"),
        ("raises", " ValueError: no such thing"),
        ("exits", " RuntimeError: SystemExit: 3"),
    ],
)
def test_invalid_results_name_parts(score: Score_, use: Use, function: str, message: str) -> None:
    with pytest.raises(RewardError, match="reward part ") as caught:
        score({"parts": {"it": use(function)}}, {"main": GOOD})
    assert message in str(caught.value)


def test_numpys_bool_is_a_result_like_pythons(score: Score_, use: Use) -> None:
    assert score({"parts": {"it": use("numpy_true")}}, {"main": GOOD}).reward == 1.0


@pytest.mark.parametrize("function", ["blocks", "sleeps", "blocks_async"])
def test_time_limit_holds_even_when_a_part_blocks(score: Score_, use: Use, function: str) -> None:
    started = time.perf_counter()
    with pytest.raises(RewardError, match=r"'it' did not finish within 0\.1 s"):
        score({"parts": {"it": use(function)}, "seconds": 0.1}, {"main": GOOD})
    assert time.perf_counter() - started < 0.6


def test_time_limit_covers_all_parts_together(score: Score_, use: Use) -> None:
    parts = {"a": use("one"), "b": use("sleeps"), "c": use("one")}
    with pytest.raises(RewardError, match="'b'"):
        score({"parts": parts, "seconds": 0.1}, {"main": GOOD})


def test_waiting_for_the_sandbox_does_not_count_as_part_time(problem: Problem) -> None:
    spec = RewardSpec.model_validate({"parts": {"a": {"use": "tests"}}, "seconds": 0.2})
    slow = "import time\ntime.sleep(0.5)\n" + GOOD

    async def score() -> Score:
        async with Sandbox(SandboxSpec(workers=1)) as sandbox:
            scorer = Scorer(spec, sandbox)
            both = (joined_score(scorer, problem, {"main": slow}, ["main"]) for _ in range(2))
            return (await asyncio.gather(*both))[1]

    assert asyncio.run(score()).reward == 1.0


def test_scores_run_at_the_same_time(sandbox: Sandbox, problem: Problem) -> None:
    spec = RewardSpec.model_validate({"parts": {"a": {"use": "tests"}}})
    scorer = Scorer(spec, sandbox)

    async def score() -> list[Score]:
        artifacts = [{"main": GOOD}, {"main": "def sum_of_squares(x): return 5"}] * 4
        return await asyncio.gather(
            *(joined_score(scorer, problem, artifact, ["main"]) for artifact in artifacts)
        )

    assert [result.reward for result in asyncio.run(score())] == [1.0, 0.25] * 4


def test_sandbox_error_is_not_a_score(score: Score_, problem: Problem) -> None:
    broken = problem.model_copy(update={"hidden": {"test": "def check(candidate:\n"}})
    with pytest.raises(SandboxError):
        score({"parts": {"a": {"use": "tests"}}}, {"main": GOOD}, problem=broken)


def test_part_cannot_hide_a_sandbox_error(score: Score_, use: Use, problem: Problem) -> None:
    broken = problem.model_copy(update={"hidden": {"test": "def check(candidate:\n"}})
    with pytest.raises(SandboxError):
        score({"parts": {"a": use("swallows")}}, {"main": GOOD}, problem=broken)


def test_tests_part_needs_a_sandbox(problem: Problem) -> None:
    spec = RewardSpec.model_validate({"parts": {"a": {"use": "tests"}}})
    scorer = Scorer(spec, None)
    with pytest.raises(RewardError, match="needs an open sandbox"):
        asyncio.run(joined_score(scorer, problem, {"main": GOOD}, ["main"]))


def test_a_missing_field_is_named(score: Score_) -> None:
    problem = Problem(address="demo/1", public={"word": "x"})
    with pytest.raises(RewardError, match=r"demo/1 has no field 'entry_point'.*fields: word"):
        score({"parts": {"a": {"use": "tests"}}}, {"main": GOOD}, problem=problem)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"use": "test"}, "unknown reward 'test'; did you mean 'tests'?"),
        (
            {"use": "parses", "options": {"agent": "a"}},
            r"unknown option 'agent' of reward part 'it'",
        ),
        ({"use": "calls", "options": {"helpr": "a"}}, "did you mean 'helper'?"),
        ({"use": "defines"}, "'it' (defines) needs the option 'agent'"),
        ({"use": "length", "options": {"minimum": "few"}}, "option 'minimum': must be"),
        ({"use": "length", "options": {"unit": "lines"}}, "got 'lines'"),
        ({"use": "no_such_module:part"}, "for a file, write FILE.py:part"),
        ({"use": "nowhere.py:part"}, "does not exist"),
    ],
)
def test_invalid_rewards_are_refused_before_any_work(part: dict[str, Any], message: str) -> None:
    spec = RewardSpec.model_validate({"parts": {"it": part}})
    with pytest.raises(RecipeError) as caught:
        Scorer(spec, None)
    assert message in str(caught.value)
    assert caught.value.exit_status == 2


def test_options_of_a_users_part_are_checked_too(use: Use) -> None:
    spec = RewardSpec.model_validate({"parts": {"it": use("half", options={"scal": 1.0})}})
    with pytest.raises(UnknownName, match="did you mean 'scale'"):
        Scorer(spec, None)


def test_options_reach_the_part(score: Score_, use: Use) -> None:
    result = score({"parts": {"it": use("half", options={"scale": 0.5})}}, {"main": GOOD})
    assert result.reward == 0.25


def test_cancelling_a_score_stops_its_trial(sandbox: Sandbox, problem: Problem) -> None:
    spec = RewardSpec.model_validate({"parts": {"a": {"use": "tests"}}})
    scorer = Scorer(spec, sandbox)

    async def cancelled() -> None:
        endless = "while True: pass\n" + GOOD
        task = asyncio.create_task(joined_score(scorer, problem, {"main": endless}, ["main"]))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = time.perf_counter()
    asyncio.run(cancelled())
    assert time.perf_counter() - started < 2.0


def test_stuck_built_in_part_fails_only_its_own_episode(
    monkeypatch: pytest.MonkeyPatch, problem: Problem
) -> None:
    def stuck(source: str, entry_point: str, helper: str) -> None:
        time.sleep(3)

    monkeypatch.setattr(cooperation, "helper_use", stuck)
    spec = RewardSpec.model_validate(
        {"parts": {"forwards": {"use": "not_wrapper"}}, "seconds": 0.3}
    )

    async def slowest_turn_of_the_loop() -> float:
        scorer = Scorer(spec, None)
        scoring = asyncio.create_task(
            joined_score(scorer, problem, {"aux": "", "main": ""}, ["aux", "main"])
        )
        slowest = 0.0
        while not scoring.done():
            started = time.perf_counter()
            await asyncio.sleep(0.01)
            slowest = max(slowest, time.perf_counter() - started)
        with pytest.raises(RewardError, match="did not finish within"):
            await scoring
        return slowest

    assert asyncio.run(slowest_turn_of_the_loop()) < 2
