"""From parts to a reward: gates, requirements, teams, limits, and faulty or slow parts."""

import asyncio
import time
from typing import Any

import pytest
from support.programs.reward_parts import GOOD, Use
from support.scoring import Score_, joined_score

from collab import Agent
from collab.errors import RecipeError, RewardError, SandboxError, UnknownName
from collab.recipe import RewardSpec, SandboxSpec
from collab.records import Problem, Score
from collab.rewards import Scorer, from_comlrl, from_trl
from collab.rewards.code import cooperation
from collab.runtime import Team
from collab.sandbox import Sandbox


def test_points_are_weight_times_value(score: Score_, use: Use) -> None:
    parts = {"a": use("half", weight=2.0), "b": use("half", weight=-1.0), "c": use("yes")}
    result = score({"parts": parts}, {"main": GOOD})
    assert result.reward == pytest.approx(1.0 - 0.5 + 1.0)
    assert result.maximum == pytest.approx(3.0)
    assert [part.level for part in result.parts] == ["a", "b", "c"]
    assert result.parts[0].reason == "half"


def test_closed_gate_skips_the_following_parts(score: Score_, use: Use) -> None:
    parts = {"a": use("one"), "gate": use("zero", gate=True), "b": use("raises"), "c": use("one")}
    result = score({"parts": parts}, {"main": GOOD})
    assert result.reward == 1.0
    assert result.maximum == 4.0
    assert {part.name: part.reason for part in result.parts[2:]} == {
        "b": "not scored: the gate 'gate' is closed",
        "c": "not scored: the gate 'gate' is closed",
    }


def test_open_gate_and_met_requirement_allow_scoring(score: Score_, use: Use) -> None:
    parts = {"gate": use("one", gate=True), "b": use("half", requires="gate")}
    assert score({"parts": parts}, {"main": GOOD}).reward == 1.5


@pytest.mark.parametrize(("function", "reward"), [("barely", 1.0), ("stops", 0.5)])
def test_part_may_open_its_gate(score: Score_, use: Use, function: str, reward: float) -> None:
    parts = {"gate": use(function, gate=True), "b": use("one")}
    assert score({"parts": parts}, {"main": GOOD}).reward == reward


def test_an_unmet_requirement_gives_nothing(score: Score_, use: Use) -> None:
    parts = {"a": use("zero"), "b": use("one", requires="a"), "c": use("one", requires="b")}
    result = score({"parts": parts}, {"main": GOOD})
    assert result.reward == 0.0
    assert result.parts[1].reason == "not scored: requires 'a', which is 0"
    assert result.parts[2].reason == "not scored: requires 'b', which is 0"


def test_parts_about_absent_agents_do_not_apply(score: Score_, use: Use) -> None:
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


def test_parts_work_with_any_team(score: Score_, use: Use) -> None:
    artifacts = {"planner": "x = 1", "critic": "", "tester": "y = 2"}
    parts = {"a": use("team"), "b": use("helper_part", options={"helper": "planner"})}
    result = score({"parts": parts}, artifacts)
    assert result.parts[0].value == 0.75
    assert result.parts[0].reason == "planner,critic,tester"
    assert result.parts[1].reason == "x = 1"


def test_an_agent_without_artifact_has_an_empty_one(sandbox: Sandbox, problem: Problem) -> None:
    spec = RewardSpec.model_validate({"parts": {"a": {"use": "parses"}}})
    scorer = Scorer(spec, sandbox)
    assert asyncio.run(joined_score(scorer, problem, {}, ["aux", "main"])).reward == 1.0


def test_artifacts_are_in_the_teams_order_if_a_later_agent_writes_the_answer() -> None:
    def rule(one: list[str], other: list[str]) -> list[float]:
        return [float((one, other) == (["plan"], ["text"]))]

    planner = Agent(prompt="plan", contributes=False)
    agents = {"planner": planner, "writer": Agent(prompt="text")}
    with Team(agents, model="echo", rewards=[from_comlrl(rule)]) as team:
        assert team.run([{"prompt": "Write."}]).episode.reward == 1.0


def test_a_function_of_trl_gets_the_answer_and_not_a_field_of_that_name() -> None:
    def rule(completions: list[str], **_: list[str]) -> list[float]:
        return [float(completions == ["text"])]

    with Team({"writer": {"prompt": "text"}}, model="echo", rewards=[from_trl(rule)]) as team:
        row = {"prompt": "Write.", "completions": "a column of the dataset"}
        assert team.run([row]).episode.reward == 1.0


def test_a_function_of_another_library_must_fit_the_team() -> None:
    def rule(completions: list[str]) -> list[float]:
        return [float(len(completions))]

    def joint(one: list[str], other: list[str]) -> list[float]:
        return [float(one == other)]

    agents = {"writer": Agent(prompt="text")}
    for part, message in (
        (from_trl(rule, agent="writr"), "from_trl: no agent 'writr'; the team has writer"),
        (from_comlrl(joint), r"from_comlrl: joint is called with \(writer\) but takes \(one"),
    ):
        team = Team(agents, model="echo", rewards=[part])
        with pytest.raises(RecipeError, match=message), team:
            team.run([{"prompt": "Write."}])


def test_a_function_of_trl_for_an_agent_that_did_not_answer_fails_with_the_remedy() -> None:
    async def only_the_first(turn: Any) -> None:
        await turn.act("one")

    agents = {name: Agent(prompt="text") for name in ("one", "other")}
    part = from_trl(lambda completions: [1.0], agent="other")
    with Team(agents, protocol=only_the_first, model="echo", rewards=[part]) as team:
        failure = team.run([{"prompt": "Write."}]).episode.failure
    assert failure
    assert "agent 'other' did not answer; leave out" in failure.message


def test_tests_run_once_and_fill_the_score(score: Score_, use: Use) -> None:
    result = score({"parts": {"a": use("judged"), "b": {"use": "tests"}}}, {"main": GOOD})
    assert result.reward == 2.0
    assert result.parts[0].reason == "True"
    assert result.solved is True
    assert result.isolation == "sealed"


def test_part_may_test_another_program(score: Score_, use: Use) -> None:
    result = score({"parts": {"a": use("other_program")}}, {"main": GOOD})
    assert result.reward == 0.25
    assert result.solved is True


def test_problem_without_tests_has_no_test_result(use: Use) -> None:
    spec = RewardSpec.model_validate({"parts": {"a": use("one")}})
    problem = Problem(address="text/0", public={"prompt": "Write."})
    result = asyncio.run(joined_score(Scorer(spec, None), problem, {"a": "x"}, ["a"], "text"))
    assert (result.solved, result.tests, result.isolation, result.flags) == (None, None, None, ())


def test_a_hidden_field_called_test_alone_makes_no_program() -> None:
    problem = Problem(address="t/0", public={"prompt": "Say A."}, hidden={"test": "A"})
    part = {"use": "equals", "options": {"field": "test"}}
    scorer = Scorer(RewardSpec.model_validate({"parts": {"right": part}}), Sandbox())
    result = asyncio.run(joined_score(scorer, problem, {"a": "A"}, ["a"], "text"))
    assert (result.reward, result.tests, result.solved) == (1.0, None, None)


def test_error_lists_the_earlier_parts_in_their_order() -> None:
    parts = {name: {"use": "parses"} for name in "hgfedcba"} | {
        "last": {"use": "tests", "requires": "later"}
    }
    with pytest.raises(ValueError, match=r"\(earlier: h, g, f, e, d, c, b, a\)"):
        RewardSpec.model_validate({"parts": parts})


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
