"""How parts become a reward: gates, requirements, teams, limits, and parts that misbehave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scoring import joined_score

from collab.errors import RecipeError, RewardError, SandboxError, UnknownName
from collab.recipe import RewardSpec, SandboxSpec
from collab.records import Problem, Score
from collab.rewards import Scorer
from collab.rewards.code import cooperation
from collab.sandbox import Sandbox

Score_ = Callable[..., Score]

PARTS = """\
import asyncio, math, time
from collab.rewards import Part

def one(context): return 1
def zero(context): return 0, "nothing"
def half(context, scale: float = 1.0): return 0.5 * scale, "half"
def yes(context): return True
def absent(context): return Part(0.0, "no meaning here", applies=False)
def team(context): return len(context.agents) / 4, ",".join(context.agents)
def helper_part(context, helper: str): return 1.0, context.artefacts[helper]
def barely(context): return Part(0.0, "at the end of a ramp", passes=True)
def stops(context): return Part(0.5, "half, and no further", passes=False)
def negative(context): return -0.1
def big(context): return 1.5
def nan(context): return math.nan
def text(context): return "1"
def nothing(context): return None
def pair(context): return 1.0, 2.0
def raises(context): raise ValueError("no such thing")
def exits(context): raise SystemExit(3)
def blocks(context): time.sleep(1)
async def sleeps(context): await asyncio.sleep(60)
async def blocks_async(context): time.sleep(1)
async def judged(context):
    verdict = await context.verdict()
    again = await context.verdict()
    return verdict.tests.fraction, str(verdict is again)
async def swallows(context):
    try:
        await context.verdict()
    except Exception:
        return 1.0
async def other_program(context):
    other = "def sum_of_squares(x): return 5"
    verdict = await context.verdict(other)
    return verdict.tests.fraction
"""


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """A part that uses a function of the file above."""
    (tmp_path / "user_parts.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)

    def use(function: str, **settings: Any) -> dict[str, Any]:
        return {"use": f"user_parts.py:{function}", **settings}

    return use


Use = Callable[..., dict[str, Any]]
GOOD = "def sum_of_squares(xs): return sum(x * x for x in xs)"


def test_points_are_weight_times_value(score: Score_, use: Use) -> None:
    parts = {"a": use("half", weight=2.0), "b": use("half", weight=-1.0), "c": use("yes")}
    result = score({"parts": parts}, {"main": GOOD})
    assert result.reward == pytest.approx(1.0 - 0.5 + 1.0)
    assert result.maximum == pytest.approx(3.0)
    assert [part.level for part in result.parts] == ["a", "b", "c"]
    assert result.parts[0].reason == "half"


def test_a_closed_gate_stops_what_follows(score: Score_, use: Use) -> None:
    parts = {"a": use("one"), "gate": use("zero", gate=True), "b": use("raises"), "c": use("one")}
    result = score({"parts": parts}, {"main": GOOD})
    assert result.reward == 1.0
    assert result.maximum == 4.0
    assert {part.name: part.reason for part in result.parts[2:]} == {
        "b": "not scored: the gate 'gate' is closed",
        "c": "not scored: the gate 'gate' is closed",
    }


def test_an_open_gate_and_a_met_requirement_let_pass(score: Score_, use: Use) -> None:
    parts = {"gate": use("one", gate=True), "b": use("half", requires="gate")}
    assert score({"parts": parts}, {"main": GOOD}).reward == 1.5


@pytest.mark.parametrize(("function", "reward"), [("barely", 1.0), ("stops", 0.5)])
def test_a_part_can_say_itself_whether_its_gate_is_open(
    score: Score_, use: Use, function: str, reward: float
) -> None:
    parts = {"gate": use(function, gate=True), "b": use("one")}
    assert score({"parts": parts}, {"main": GOOD}).reward == reward


def test_an_unmet_requirement_gives_nothing(score: Score_, use: Use) -> None:
    parts = {"a": use("zero"), "b": use("one", requires="a"), "c": use("one", requires="b")}
    result = score({"parts": parts}, {"main": GOOD})
    assert result.reward == 0.0
    assert result.parts[1].reason == "not scored: requires 'a', which is 0"
    assert result.parts[2].reason == "not scored: requires 'b', which is 0"


def test_parts_about_absent_agents_leave_the_maximum(score: Score_, use: Use) -> None:
    parts = {
        "a": use("helper_part", options={"helper": "critic"}, gate=True),
        "b": use("one", requires="a"),
        "c": use("absent", gate=True),
        "d": use("one"),
    }
    result = score({"parts": parts}, {"main": GOOD})
    assert (result.reward, result.maximum) == (1.0, 1.0)
    assert [part.applies for part in result.parts] == [False, False, False, True]
    assert result.parts[0].reason == "the team has no agent 'critic'"


def test_any_team(score: Score_, use: Use) -> None:
    artefacts = {"planner": "x = 1", "critic": "", "tester": "y = 2"}
    parts = {"a": use("team"), "b": use("helper_part", options={"helper": "planner"})}
    result = score({"parts": parts}, artefacts)
    assert result.parts[0].value == 0.75
    assert result.parts[0].reason == "planner,critic,tester"
    assert result.parts[1].reason == "x = 1"


def test_an_agent_without_artefact_has_an_empty_one(sandbox: Sandbox, problem: Problem) -> None:
    spec = RewardSpec.model_validate({"parts": {"a": {"use": "parses"}}})
    scorer = Scorer(spec, sandbox)
    assert asyncio.run(joined_score(scorer, problem, {}, ["aux", "main"])).reward == 1.0


def test_the_verdict_is_made_once_and_fills_the_score(score: Score_, use: Use) -> None:
    result = score({"parts": {"a": use("judged"), "b": {"use": "tests"}}}, {"main": GOOD})
    assert result.reward == 2.0
    assert result.parts[0].reason == "True"
    assert result.solved is True
    assert result.isolation == "sealed"


def test_a_part_may_judge_another_program(score: Score_, use: Use) -> None:
    result = score({"parts": {"a": use("other_program")}}, {"main": GOOD})
    assert result.reward == 0.25
    assert result.solved is True


def test_a_problem_without_tests_is_not_said_to_pass_them(use: Use) -> None:
    spec = RewardSpec.model_validate({"parts": {"a": use("one")}})
    problem = Problem(address="text/0", public={"prompt": "Write."})
    result = asyncio.run(joined_score(Scorer(spec, None), problem, {"a": "x"}, ["a"], "text"))
    assert (result.solved, result.tests, result.isolation, result.flags) == (None, None, None, ())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("negative", "'it' gave -0.1; a part gives a number from 0 to 1"),
        ("big", "'it' gave 1.5"),
        ("nan", "'it' gave nan"),
        ("text", "'it' gave a str"),
        ("nothing", "'it' gave a NoneType"),
        ("pair", "'it' gave a tuple"),
        ("raises", " ValueError: no such thing"),
        ("exits", " RuntimeError: SystemExit: 3"),
    ],
)
def test_a_part_that_misbehaves_is_named(
    score: Score_, use: Use, function: str, message: str
) -> None:
    with pytest.raises(RewardError, match="reward part ") as caught:
        score({"parts": {"it": use(function)}}, {"main": GOOD})
    assert message in str(caught.value)


@pytest.mark.parametrize("function", ["blocks", "sleeps", "blocks_async"])
def test_the_time_limit_holds_even_when_a_part_blocks(
    score: Score_, use: Use, function: str
) -> None:
    started = time.perf_counter()
    with pytest.raises(RewardError, match=r"'it' was not done within 0\.1 s"):
        score({"parts": {"it": use(function)}, "seconds": 0.1}, {"main": GOOD})
    assert time.perf_counter() - started < 0.6


def test_the_limit_is_for_all_parts_together(score: Score_, use: Use) -> None:
    parts = {"a": use("one"), "b": use("sleeps"), "c": use("one")}
    with pytest.raises(RewardError, match="'b'"):
        score({"parts": parts, "seconds": 0.1}, {"main": GOOD})


def test_waiting_for_the_judge_is_not_the_parts_time(problem: Problem) -> None:
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
        artefacts = [{"main": GOOD}, {"main": "def sum_of_squares(x): return 5"}] * 4
        return await asyncio.gather(
            *(joined_score(scorer, problem, artefact, ["main"]) for artefact in artefacts)
        )

    assert [result.reward for result in asyncio.run(score())] == [1.0, 0.25] * 4


def test_trouble_of_the_judge_is_no_score(score: Score_, problem: Problem) -> None:
    broken = problem.model_copy(update={"hidden": {"test": "def check(candidate:\n"}})
    with pytest.raises(SandboxError):
        score({"parts": {"a": {"use": "tests"}}}, {"main": GOOD}, problem=broken)


def test_a_part_cannot_hide_the_judges_trouble(score: Score_, use: Use, problem: Problem) -> None:
    broken = problem.model_copy(update={"hidden": {"test": "def check(candidate:\n"}})
    with pytest.raises(SandboxError):
        score({"parts": {"a": use("swallows")}}, {"main": GOOD}, problem=broken)


def test_tests_need_a_judge_and_a_test(problem: Problem) -> None:
    spec = RewardSpec.model_validate({"parts": {"a": {"use": "tests"}}})
    scorer = Scorer(spec, None)
    with pytest.raises(RewardError, match="no sandbox is open"):
        asyncio.run(joined_score(scorer, problem, {"main": GOOD}, ["main"]))


def test_a_missing_field_is_named(score: Score_) -> None:
    problem = Problem(address="demo/1", public={"word": "x"})
    with pytest.raises(RewardError, match=r"demo/1 has no field 'entry_point'.*fields: word"):
        score({"parts": {"a": {"use": "tests"}}}, {"main": GOOD}, problem=problem)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"use": "test"}, "unknown reward 'test'; did you mean 'tests'?"),
        ({"use": "parses", "options": {"agent": "a"}}, r"unknown option of reward part 'it'"),
        ({"use": "calls", "options": {"helpr": "a"}}, "did you mean 'helper'?"),
        ({"use": "defines"}, "'it' (defines) needs the option 'agent'"),
        ({"use": "length", "options": {"minimum": "few"}}, "option 'minimum': Input should be"),
        ({"use": "length", "options": {"unit": "lines"}}, "got 'lines'"),
        ({"use": "no_such_module:part"}, "cannot be imported"),
        ({"use": "nowhere.py:part"}, "does not exist"),
    ],
)
def test_mistakes_in_a_reward_are_found_before_any_work(part: dict[str, Any], message: str) -> None:
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


def test_a_part_of_ours_that_is_stuck_fails_its_episode_and_holds_up_no_other(
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
        with pytest.raises(RewardError, match="not done within"):
            await scoring
        return slowest

    assert asyncio.run(slowest_turn_of_the_loop()) < 2
