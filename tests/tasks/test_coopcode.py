"""The suite `coopcode`: its problems are sound, and both parts are needed."""

import ast
import asyncio
import doctest
from collections.abc import Sequence

import pytest
from support.scoring import joined_score, reward_of
from support.shares import one_in

from collab.analysis import helper_use
from collab.recipe import load_recipe, load_task
from collab.records import Problem, Score
from collab.rewards import Scorer
from collab.runtime import Session
from collab.sandbox import Sandbox
from collab.tasks import Suite, open_suite

CANONICAL = ("solution", "aux", "main")
N_TESTS = 6

Artifacts = dict[str, str]


@pytest.fixture(scope="module")
def suite() -> Suite:
    return open_suite(load_task("coopcode"))


@pytest.fixture(scope="module")
def problems(suite: Suite) -> list[Problem]:
    return suite.select("")


def pair(problem: Problem) -> Artifacts:
    return {name: problem.hidden[f"canonical_{name}"] for name in ("aux", "main")}


def score(sandbox: Sandbox, problems: Sequence[Problem], works: Sequence[Artifacts]) -> list[Score]:
    """Joint scores of all answers, computed like `collab score`."""
    scorer = Scorer(reward_of(load_task("coopcode")), sandbox)

    async def score_all() -> list[Score]:
        pairs = zip(problems, works, strict=True)
        return await asyncio.gather(
            *(joined_score(scorer, p, work, ["aux", "main"]) for p, work in pairs)
        )

    return asyncio.run(score_all())


@pytest.fixture(scope="module", params=one_in(2, [True, False]))
def some(problems: list[Problem], request: pytest.FixtureRequest) -> list[Problem]:
    """Every eighth problem, or all others."""
    return [problem for n, problem in enumerate(problems) if (n % 8 == 0) == request.param]


@pytest.fixture(scope="module")
def canonical(sandbox: Sandbox, some: list[Problem]) -> dict[str, Score]:
    """Scores of the canonical pairs, by address."""
    scores = score(sandbox, some, [pair(problem) for problem in some])
    return {problem.address: found for problem, found in zip(some, scores, strict=True)}


def test_every_canonical_pair_has_full_marks(canonical: dict[str, Score]) -> None:
    short = {
        address: (found.reward, found.failures)
        for address, found in canonical.items()
        if not found.solved or found.reward != found.maximum
    }
    assert short == {}


def test_whole_solution_passes_like_the_pair(sandbox: Sandbox, some: list[Problem]) -> None:
    works = [
        {"aux": "", "main": problem.public["prompt"] + problem.hidden["canonical_solution"]}
        for problem in some
    ]
    assert all(found.solved for found in score(sandbox, some, works))


def test_main_alone_fails(sandbox: Sandbox, some: list[Problem]) -> None:
    """Without the helper, only asserts that need no call can hold."""
    alone = [{"aux": "", "main": pair(problem)["main"]} for problem in some]
    for problem, found in zip(some, score(sandbox, some, alone), strict=True):
        assert found.tests is not None
        assert found.tests.fraction < 0.5, problem.address
        assert "NameError" in str(found.failures), problem.address


def test_tests_are_many_and_agree_with_the_prompt(problems: list[Problem]) -> None:
    for problem in problems:
        name, prompt = problem.public["entry_point"], problem.public["prompt"]
        tests = [
            n for n in ast.walk(ast.parse(problem.hidden["test"])) if isinstance(n, ast.Assert)
        ]
        assert len({ast.dump(test) for test in tests}) >= N_TESTS, problem.address
        text = ast.get_docstring(ast.parse(prompt).body[0])
        examples = doctest.DocTestParser().get_examples(text or "")
        assert len(examples) >= 2, problem.address
        called = {ast.unparse(test).replace("candidate(", f"{name}(", 1) for test in tests}
        for example in examples:
            call, value = ast.unparse(ast.parse(example.source)), example.want.strip()
            assert called & {f"assert {call} == {value}", f"assert {call} is {value}"}


def test_main_calls_a_helper_that_does_part_of_the_work(problems: list[Problem]) -> None:
    for problem in problems:
        parts, name = pair(problem), problem.public["entry_point"]
        assert f"def {name}(" not in parts["aux"]
        assert "def aux(" not in parts["main"]
        use = helper_use(parts["main"], name, "aux")
        assert use.used, problem.address
        assert not use.wrapper, problem.address


def test_agents_see_nothing_that_is_hidden(problems: list[Problem]) -> None:
    recipe = load_recipe("coding", task="coopcode", model="echo", settings=["team.turns=2"])

    async def play() -> str:
        async with Session(recipe) as session:
            episodes = await session.rollout(problems[:4])
        assert not any(episode.failure for episode in episodes)
        decisions = [d for e in episodes for turn in e.turns for d in turn.decisions]
        return "\n".join(m.content for decision in decisions for m in decision.observation)

    prompts = asyncio.run(play())
    for problem in problems[:4]:
        assert problem.public["entry_point"] in prompts
        assert set(problem.hidden) == {"test", *(f"canonical_{name}" for name in CANONICAL)}
        hidden = "".join(map(str, problem.hidden.values())).splitlines()
        secrets = {line.strip() for line in hidden if "candidate(" in line or "aux" in line}
        assert not [secret for secret in secrets if secret and secret in prompts]
