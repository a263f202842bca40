"""Suites of reasoning-gym: names, the missing package, and answers that it would evaluate.

Tests that need the package are skipped if it is not installed.
"""

import asyncio
import importlib.util
from typing import Any

import pytest
from support.scoring import joined_score

from collab.errors import RecipeError, RewardError, TaskError
from collab.recipe import load_recipe, load_task
from collab.records import Problem
from collab.rewards import Scorer
from collab.rewards.answers.published import _check_row, refusal_reason
from collab.tasks import open_suite, split_address

INSTALLED = importlib.util.find_spec("reasoning_gym") is not None
needs_it = pytest.mark.skipif(not INSTALLED, reason="reasoning-gym is not installed")


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("reasoning_gym/mini_sudoku", ("reasoning_gym/mini_sudoku", "")),
        ("reasoning_gym/mini_sudoku/3", ("reasoning_gym/mini_sudoku", "3")),
        ("reasoning_gym/puzzle24/train", ("reasoning_gym/puzzle24", "train")),
        ("reasoning_gym", ("reasoning_gym", "")),
        ("reasoning_gym/0-3", ("reasoning_gym", "0-3")),
    ],
)
def test_dataset_name_is_part_of_the_address(address: str, parts: tuple[str, str]) -> None:
    assert split_address(address) == parts


def test_options_rows_and_seed_reach_the_suite() -> None:
    settings = ["task.source.rows=7", "task.source.generate.options.empty=4", "task.source.seed=3"]
    for spec in (
        load_task("reasoning_gym/mini_sudoku", settings=settings),
        load_recipe("tldr", task="reasoning_gym/mini_sudoku", settings=settings).task,
    ):
        assert spec is not None
        assert spec.name == "reasoning_gym/mini_sudoku"
        assert spec.source.generate is not None
        assert spec.source.generate.options == {"name": "mini_sudoku", "empty": 4}
        assert (spec.source.rows, spec.source.seed) == (7, 3)
        assert spec.hidden == ("answer", "metadata")


@pytest.mark.skipif(INSTALLED, reason="reasoning-gym is installed")
def test_missing_package_names_the_install_command() -> None:
    with pytest.raises(TaskError, match=r"pip install .*collab-agents\[reasoning-gym\]"):
        open_suite(load_task("reasoning_gym/mini_sudoku"))


EVIL = [
    "__import__('os').system('true')", "[x for x in 'ab']", "().__class__", "9**9**9",
    "(9)**(9**9)", "2**(1+9**9)", "(((9**99)**99)**99)", "((((9)**9)**9)**9)**9", "lambda: 0",
    "exec('1')", "f'{1}'",
    "N(1, 999999999)", "S('1')", "factorial(9999999)", "9!", "1e999", "x.diff", "1 .real", "`id`",
    "x" * 400, "exp(exp(exp(exp(9))))", "print(1)", "a\x00b", "2**999", "x[0]()", "{1: 2}",
]  # fmt: skip
FORMULAS = ("countdown", "puzzle24", "polynomial_multiplication", "simple_integration")


def test_harmful_or_endless_answers_are_refused() -> None:
    assert [(name, a) for a in EVIL for name in FORMULAS if not refusal_reason(name, a)] == []


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("countdown", "(5 + 3) * 12 - 4/2"),
        ("puzzle24", "(8 - 4) * 6 * 1"),
        ("polynomial_multiplication", "6*x**4 - 12*x**2*y + 3*z - 1"),
        ("simple_integration", "2*x**3/3 - 5*x**(1/2) + C"),
        ("intermediate_integration", "-x*exp(-2*x)/2 + sin(x)**2 + C"),
        ("simple_integration", "-4*X**8 + 7*X**7/6 + C"),
        ("intermediate_integration", "4*(6 - 8*x)**(3/2)/3 + C"),
        ("spiral_matrix", "[1, 2, 3]"),
        ("n_queens", "_ Q _ _\n_ _ _ Q\nQ _ _ _\n_ _ Q _"),
        ("chain_sum", "__import__('os')"),  # compared as text
    ],
)
def test_honest_answers_are_accepted(name: str, answer: str) -> None:
    assert refusal_reason(name, answer) == ""


@pytest.mark.parametrize(
    "answer", ["[[1]for x in'ab']", "print(1)", "[1]*10", "[a.b()]", "{1}", "`2`", "x" * 10**5]
)
def test_answers_other_than_literal_lists_are_refused(answer: str) -> None:
    assert refusal_reason("spiral_matrix", answer)


def scored(problem: Problem, text: str) -> Any:
    reward = load_task("reasoning_gym").reward
    assert reward is not None
    scorer = Scorer(reward, None)
    return asyncio.run(joined_score(scorer, problem, {"a": text}, ["a"], "text"))


@needs_it
@pytest.mark.parametrize("name", ["chain_sum", "mini_sudoku", "maze", "countdown", "word_sorting"])
def test_reference_answers_are_correct_and_the_seed_is_reproducible(name: str) -> None:
    settings = ["task.source.rows=60", "task.splits={}"]
    suite = open_suite(load_task(f"reasoning_gym/{name}", settings=settings))
    assert suite.rows == open_suite(load_task(f"reasoning_gym/{name}", settings=settings)).rows
    assert len({str(row["prompt"]) for row in suite.rows}) == 60
    for problem in suite.select("0-4"):
        score = scored(problem, f"So <answer>{problem.hidden['answer']}</answer>")
        assert score.solved
        assert score.reward == 1.0
        for text in ("", "no idea", "<answer></answer>"):
            assert not scored(problem, text).solved


@needs_it
def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(RecipeError, match="did you mean 'mini_sudoku'"):
        open_suite(load_task("reasoning_gym/mini_sudokuu"))
    for option, message in (("size=9", "set task.source.rows"), ("nonsense=9", "nonsense")):
        setting = f"task.source.generate.options.{option}"
        with pytest.raises((RecipeError, TaskError), match=message):
            open_suite(load_task("reasoning_gym/chain_sum", settings=[setting]))


@pytest.mark.parametrize(
    ("name", "field", "plain"),
    [
        ("number_sorting", "answer", "['52.2', '-49.0']"),
        ("polynomial_multiplication", "answer", "-896*x**5 + 2240*x**4"),
        ("simple_integration", "integrand", "-272*x**7/15 - 5/4"),
        ("intermediate_integration", "integrand", "4*sqrt(-2*x - 8)*exp(2*x)"),
        ("bitwise_arithmetic", "problem", "((0xc3ce << 0x3) + (0x1907 - 0x7de4))"),
    ],
)
def test_row_that_the_library_would_run_is_refused(name: str, field: str, plain: str) -> None:
    _check_row(name, {field: plain}, "x/0")
    for evil in (EVIL[0], "exec('1')", "().__class__", "[print(1)]", "lambda: 0", None, 5):
        with pytest.raises(RewardError, match=f"x/0: reasoning_gym would run the field '{field}'"):
            _check_row(name, {field: evil}, "x/0")
    row = {"set": name, "answer": EVIL[0], "metadata": {field: EVIL[0]}}
    problem = Problem(address="x/0", public={"prompt": "p"}, hidden=row)
    reward = load_task("reasoning_gym/mini_sudoku").reward
    assert reward is not None
    with pytest.raises(RewardError, match="as Python"):
        asyncio.run(joined_score(Scorer(reward, None), problem, {"a": "1"}, ["a"], "text"))
