"""Broken programs in parser, join, analysis, feedback and score cause no crash or hang.

By default only a few run; `pytest -m slow tests/fuzz` runs COLLAB_FUZZ programs, or 150.
"""

import asyncio
import math
import os
import re
import time
from collections.abc import Iterator

import pytest
from fuzz.programs import BOMBS, Row, humaneval
from fuzz.programs import programs as make_programs
from hypothesis import given
from hypothesis import strategies as st
from support.scoring import joined_score
from support.shares import one_in

from collab.agents import join_for, parser_for
from collab.agents.joins import Joint
from collab.analysis import helper_use
from collab.errors import CollabError
from collab.feedback import Outcome
from collab.feedback.execution import Execution
from collab.feedback.expert import strip_comments
from collab.feedback.static import Static
from collab.recipe import RewardSpec, SandboxSpec
from collab.recipe.documents import read_mapping
from collab.recipe.feedback import ExecutionFeedbackSpec, StaticFeedbackSpec
from collab.recipe.library import library_root
from collab.records import Problem, Score
from collab.rewards import Scorer
from collab.sandbox import Sandbox

SEED = 20_260_101
MAX_SECONDS = 10.0
"""Processor time limit of one program in the parser, the join and the analysis."""
BATCH = 64
PROGRAMS = int(os.environ.get("COLLAB_FUZZ", "150"))

parse = parser_for("python")
join = join_for("python")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox(SandboxSpec(seconds=1.0, cpu_seconds=1.0))
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return humaneval()


def problem_of(row: Row) -> Problem:
    public = {name: row[name] for name in ("prompt", "entry_point")}
    return Problem(address=row["task_id"], public=public, hidden={"test": row["test"]})


def analyze(row: Row, response: str) -> tuple[dict[str, str], Joint]:
    """Parse, join and analyze a response within the time limit."""
    started = time.thread_time()
    helper = "def aux(x):\n    return x"
    artifacts = {"aux": helper, "main": parse(response)}
    joint = join(artifacts, problem_of(row))
    helper_use(artifacts["main"], row["entry_point"], "aux")
    helper_use(response, row["entry_point"], "aux")
    strip_comments(response)
    seconds = time.thread_time() - started
    assert seconds < MAX_SECONDS, f"{seconds:.1f} s for {response!r:.2000}"
    return artifacts, joint


async def check_feedback(source: Static | Execution, row: Row, response: str) -> None:
    artifacts, joint = analyze(row, response)
    outcome = Outcome(problem_of(row), ("aux", "main"), artifacts, joint, False, 0)
    feedback = await source.give_feedback(outcome)
    assert set(feedback) == {"aux", "main"}
    for agent, item in feedback.items():
        assert item.text
        last = len(re.split(r"\r\n?|\n", artifacts[agent]))
        assert all(finding.line is None or 1 <= finding.line <= last for finding in item.findings)


async def scored(scorer: Scorer, row: Row, response: str) -> Score:
    artifacts, _ = analyze(row, response)
    score = await joined_score(scorer, problem_of(row), artifacts, ["aux", "main"])
    assert math.isfinite(score.reward)
    assert -0.5 <= score.reward <= score.maximum
    assert all(part.reason for part in score.parts)
    return score


def reward() -> RewardSpec:
    return RewardSpec.model_validate(
        read_mapping(library_root() / "tasks" / "rewards" / "code.yaml")
    )


def in_batches(pairs: list[tuple[Row, str]]) -> Iterator[list[tuple[Row, str]]]:
    for start in range(0, len(pairs), BATCH):
        yield pairs[start : start + BATCH]


async def run_all(sandbox: Sandbox, pairs: list[tuple[Row, str]]) -> list[Score]:
    static, execution = Static(StaticFeedbackSpec()), Execution(ExecutionFeedbackSpec(), sandbox)
    scorer = Scorer(reward(), sandbox)
    scores: list[Score] = []
    for batch in in_batches(pairs):
        await asyncio.gather(*(check_feedback(static, row, text) for row, text in batch))
        await asyncio.gather(*(check_feedback(execution, row, text) for row, text in batch[::8]))
        scores += await asyncio.gather(*(scored(scorer, row, text) for row, text in batch))
    await static.aclose()
    return scores


@pytest.mark.parametrize("number", one_in(20, range(len(BOMBS))))
def test_every_bomb_is_survived(number: int, rows: list[Row], sandbox: Sandbox) -> None:
    row = rows[0]
    solution = row["prompt"] + row["canonical_solution"]
    bomb = BOMBS[number]
    texts = [bomb, f"{bomb}\n{solution}", f"{solution}    {bomb}"]
    asyncio.run(run_all(sandbox, [(row, text) for text in texts]))


def test_some_programs(rows: list[Row], sandbox: Sandbox) -> None:
    pairs = list(make_programs(30, SEED, rows))
    scores = asyncio.run(run_all(sandbox, pairs))
    assert any(score.solved for score in scores)
    assert any(not score.solved for score in scores)


@pytest.mark.slow
def test_hundreds_of_programs(rows: list[Row], sandbox: Sandbox) -> None:
    pairs = list(make_programs(PROGRAMS, SEED + 1, rows))
    scores = asyncio.run(run_all(sandbox, pairs))
    assert len(scores) == len(pairs) > 0


def test_sandbox_still_scores_after_fuzzing(rows: list[Row], sandbox: Sandbox) -> None:
    row = rows[1]
    scores = asyncio.run(run_all(sandbox, [(row, row["prompt"] + row["canonical_solution"])]))
    assert scores[0].solved


WORDS = """\
def main(x): return aux if x else lambda for in while not and or try: except with as class import
from yield await async global nonlocal del pass break match case _ ( ) [ ] { } : = == := , . + - *
/ ** @ # ' " \'\'\' \\ 0 1 None True ```"""
CODE = st.lists(
    st.one_of(
        st.sampled_from([*WORDS.split(), "\n", "\n\t", "\n\t\t", "\n\n"]), st.text(max_size=3)
    ),
    max_size=60,
).map(" ".join)


@given(code=st.one_of(CODE, st.text(max_size=200)))
def test_random_text_through_the_parsers_and_the_trees(code: str) -> None:
    row = {"prompt": code, "entry_point": "main", "task_id": "t/0", "test": ""}
    try:
        analyze(row, code)
        analyze(row, f"def main(x):\n    {code}\n    return x")
    except CollabError as error:
        pytest.fail(f"{error}")
