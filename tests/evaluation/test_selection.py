"""Selection of one program from several samples, using only the prompt's examples."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from support.classes.shelf import SHELF
from support.openai_server import OpenAIServer, answer
from support.shares import one_in, one_row_in

import collab
from collab.errors import RecipeError
from collab.evaluation.selection import check_selectable, probe_calls, shown_asserts
from collab.models import Model, Progress, Request
from collab.records import Action

PROMPT = 'def area(a, b):\n    """The area of a rectangle.\n\n    assert area(2, 3) == 6\n    """\n'
ROW = {
    "task_id": "Areas/0",
    "prompt": PROMPT,
    "entry_point": "area",
    "test": "def check(candidate):\n    assert candidate(4, 5) == 20\n",
}
RIGHT = "def area(a, b):\n    return a * b"
SIX = "def area(a, b):\n    return 6"
SUM = "def area(a, b):\n    return a + b"


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "areas.jsonl"
    path.write_text(json.dumps(ROW))
    return str(path)


def metrics_of(
    tmp_path: Path,
    rows: str,
    answers: dict[str, list[str]],
    how: collab.Selection,
    protocol: str = "parallel",
) -> dict[str, float]:
    script = tmp_path / "answers.yaml"
    script.write_text(yaml.safe_dump(answers))
    agents = {name: collab.Agent(prompt="{{ task.prompt }}", parser="python") for name in answers}
    team = collab.Team(agents=agents, join="python", protocol=protocol, model=f"scripted:{script}")
    n = len(next(iter(answers.values())))
    results = collab.evaluate(team, task=rows, samples=n, k=[1, n], select=how)
    return {name: estimate.mean for name, estimate in results.teams[0].metrics.items()}


def test_shown_tests_and_similar_inputs_are_extracted() -> None:
    assert shown_asserts(ROW) == ["assert area(2, 3) == 6"]
    calls = probe_calls(ROW)
    assert "area(3, 3)" in calls
    assert "area(2, 3)" not in calls


def test_asserts_about_other_functions_choose_nothing() -> None:
    prompt = PROMPT.replace("assert", "assert areas([0]) == 1\n    assert")
    assert shown_asserts({**ROW, "prompt": prompt}) == ["assert area(2, 3) == 6"]


def test_a_program_is_chosen_by_the_shown_test(tmp_path: Path, rows: str) -> None:
    metrics = metrics_of(tmp_path, rows, {"main": [SUM, SUM, RIGHT]}, collab.Selection())
    assert metrics["pass@1"] == pytest.approx(1 / 3)
    assert metrics["selected@1"] == pytest.approx(1 / 3)
    assert metrics["selected@3"] == 1.0


def test_agreement_selects_among_passing_programs(tmp_path: Path, rows: str) -> None:
    metrics = metrics_of(tmp_path, rows, {"main": [SIX, RIGHT, RIGHT]}, collab.Selection())
    assert metrics["selected@3"] == 1.0
    tied = metrics_of(tmp_path, rows, {"main": [SIX, RIGHT]}, collab.Selection())
    assert tied["selected@2"] == 0.5


TESTS = "assert area(4, 5) == 20\nassert area(1, 7) == 7"


@pytest.mark.parametrize(
    ("tester", "value"), one_row_in(3, [("tester", 1.0), ("", 0.0), ("nobody", 0.0)])
)
def test_tests_of_testers_select_too(tmp_path: Path, rows: str, tester: str, value: float) -> None:
    script = tmp_path / "answers.yaml"
    script.write_text(yaml.safe_dump({"coder": [SIX, SIX, RIGHT], "tester": [TESTS, "", ""]}))
    agents = {
        "coder": collab.Agent(prompt="{{ task.prompt }}", parser="python"),
        "tester": collab.Agent(prompt="{{ task.prompt }}"),
    }
    team = collab.Team(agents=agents, join="python", model=f"scripted:{script}")
    how = collab.Selection(tester=tester)
    results = collab.evaluate(team, task=rows, samples=3, k=[1, 3], select=how)
    assert results.teams[0].metrics["selected@3"].mean == value


def test_problems_without_a_shown_test_are_noted(tmp_path: Path, rows: str) -> None:
    prompt = 'def area(a, b):\n    """The area of a rectangle."""\n'
    silent = {**ROW, "task_id": "Areas/1", "prompt": prompt}
    Path(rows).write_text(f"{json.dumps(ROW)}\n{json.dumps(silent)}\n")
    agent = collab.Agent(prompt="{{ task.prompt }}", parser="python")
    team = collab.Team({"main": agent}, join="python", model="echo")
    results = collab.evaluate(team, task=rows, select=collab.Selection())
    assert [note for note in results.notes if note.startswith("1 of 2 problems show no test")]


@pytest.mark.parametrize("tester", ["", "main"])
def test_selection_among_classes_is_refused(tmp_path: Path, tester: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([SHELF]))
    agent = collab.Agent(prompt="{{ task.prompt }}", parser="python")
    team = collab.Team(
        {"main": agent},
        join="class",
        model="echo",
        task={"extends": "classeval", "source": {"path": str(path)}},
    )
    with pytest.raises(RecipeError, match="no problem of 'classeval' shows a test"):
        collab.evaluate(team, select=collab.Selection(tester=tester))


def test_hidden_tests_choose_nothing(tmp_path: Path, rows: str) -> None:
    metrics = metrics_of(tmp_path, rows, {"main": [SIX, SIX, RIGHT]}, collab.Selection())
    assert metrics["selected@3"] == 0.0


@pytest.mark.parametrize("protocol", one_in(2, ["parallel", "sequential"]))
def test_parts_of_different_samples_are_combined(tmp_path: Path, rows: str, protocol: str) -> None:
    answers = {
        "aux": ["def aux(a, b):\n    return a + b", "def aux(a, b):\n    return a * b"],
        "main": ["def area(a, b):\n    return aux(a, b)", "def area(a, b):\n    return -aux(a, b)"],
    }
    metrics = metrics_of(tmp_path, rows, answers, collab.Selection(recombine=True), protocol)
    assert (metrics["selected@2"], metrics["recombined@2"]) == (0.0, 1.0)


def test_recombining_a_chosen_answer_is_refused() -> None:
    recipe = collab.load("coding-debate", task="humaneval", model="echo").recipe
    with pytest.raises(RecipeError, match=r"'debate .*' chooses one agent's answer"):
        check_selectable(recipe, collab.Selection(recombine=True), [])


def test_program_of_a_single_agent_is_split_at_the_entry_point(tmp_path: Path, rows: str) -> None:
    programs = [
        "def times(a, b):\n    return a * b\n\ndef area(a, b):\n    return -times(a, b)",
        "def times(a, b):\n    return a + b\n\ndef area(a, b):\n    return times(a, b)",
    ]
    metrics = metrics_of(tmp_path, rows, {"main": programs}, collab.Selection(recombine=True))
    assert (metrics["selected@2"], metrics["recombined@2"]) == (0.0, 1.0)


@pytest.mark.parametrize("end", ["\n\x0c\n", "\r", "\r\n"])
def test_programs_are_split_at_the_lines_of_python(tmp_path: Path, rows: str, end: str) -> None:
    programs = [
        f"def times(a, b):\n    return a * b{end}\ndef area(a, b):\n    return -times(a, b)",
        f"def times(a, b):\n    return a + b{end}\ndef area(a, b):\n    return times(a, b)",
    ]
    metrics = metrics_of(tmp_path, rows, {"main": programs}, collab.Selection(recombine=True))
    assert metrics["recombined@2"] == 1.0


def test_a_problem_without_a_sample_in_the_budget_is_not_solved(tmp_path: Path) -> None:
    path = tmp_path / "areas.jsonl"
    second = {**ROW, "task_id": "Areas/1"}
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(second)}\n")
    long = {"text": RIGHT, "token_ids": [*range(9)]}
    answers = {"main": [{"text": RIGHT, "token_ids": [1]}, long]}
    script = tmp_path / "answers.yaml"
    script.write_text(yaml.safe_dump(answers))
    agents = {"main": collab.Agent(prompt="{{ task.prompt }}", parser="python")}
    team = collab.Team(agents=agents, join="python", model=f"scripted:{script}")
    how = collab.Selection(recombine=True, budget=5)
    results = collab.evaluate(team, task=str(path), select=how)
    metrics = results.teams[0].metrics
    names = ("selected@5 tokens", "recombined@5 tokens", "tokens/of_5 tokens")
    assert [(metrics[name].mean, metrics[name].tasks) for name in names] == [(0.5, 2)] * 3


def test_a_budget_without_selection_needs_one_solved_sample(tmp_path: Path) -> None:
    answers = [{"text": text, "token_ids": [1, 2]} for text in ("no", "yes", "no", "no", "no")]
    script = tmp_path / "answers.yaml"
    script.write_text(yaml.safe_dump({"a": [*answers, {"text": "yes", "token_ids": [1]}]}))
    team = collab.Team(
        agents={"a": collab.Agent(prompt="{{ task.prompt }}")}, model=f"scripted:{script}"
    )
    right = {"use": lambda context: float(context.answer == "yes"), "solves": True}
    rows = [{"prompt": "one"}, {"prompt": "two"}]
    how = collab.Selection(examples=False, budget=4)
    results = collab.evaluate(team, task=rows, rewards=[right], samples=3, select=how)
    metrics = results.teams[0].metrics
    assert (metrics["pass@3"].mean, metrics["pass@4 tokens"].mean) == (1.0, 0.5)
    assert metrics["tokens/of_4 tokens"].mean == 4.0
    assert "pass@4 tokens %" in str(results)
    assert results.notes == ()
    with pytest.raises(RecipeError, match="takes a budget and nothing else"):
        collab.evaluate(team, task=rows, rewards=[right], select=collab.Selection(examples=False))


def test_a_budget_leaves_out_samples_without_a_token_count() -> None:
    agents = {"a": collab.Agent(prompt="{{ task.prompt }}")}
    right = {"use": lambda context: float(context.answer == "fine"), "solves": True}
    how = collab.Selection(examples=False, budget=4)
    with OpenAIServer(answer("fine")) as server:  # it reports no usage
        model = {"engine": "openai", "name": "qwen", "base_url": server.base_url}
        team = collab.Team(agents=agents, model=model)
        results = collab.evaluate(team, task=[{"prompt": "one"}], rewards=[right], select=how)
        limited = collab.Team(agents=agents, model=model, budget={"tokens": 5})
        refused = limited.run({"prompt": "one"}).episode.failure
    assert refused is not None
    assert refused.message == "openai:qwen-1 reports no token count; drop budget.tokens=5"
    assert not [name for name in results.teams[0].metrics if name.endswith("4 tokens")]
    [note] = results.notes
    assert "openai:qwen-1 reported no token count for 1 response; sums" in note


class Counting(Model):
    """It lists its tokens, and reports no usage."""

    name = "counting"
    batching = "static"

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        return [Action(text="fine", token_ids=(1, 2, 3)) for _ in requests]


def test_a_budget_counts_tokens_that_only_the_record_lists() -> None:
    right = {"use": lambda context: float(context.answer == "fine"), "solves": True}
    team = collab.Team(
        {"a": collab.Agent(prompt="{{ task.prompt }}")}, model=lambda spec: Counting()
    )
    how = collab.Selection(examples=False, budget=7)
    rows = [{"prompt": "one"}]
    [result] = collab.evaluate(team, task=rows, rewards=[right], samples=4, select=how).teams
    assert result.metrics["tokens/of_7 tokens"].mean == 6


def test_a_budget_gives_no_pass_rate_if_the_reward_does_not_define_solved() -> None:
    team = collab.Team({"a": collab.Agent(prompt="{{ task.prompt }}")}, model="echo")
    how = collab.Selection(examples=False, budget=4)
    results = collab.evaluate(
        team, task=[{"prompt": "one"}], rewards=[lambda context: 1.0], samples=2, select=how
    )
    assert "tokens/of_4 tokens" in results.teams[0].metrics
    assert "pass@4 tokens" not in results.teams[0].metrics


def test_teams_of_several_turns_are_refused(tmp_path: Path, rows: str) -> None:
    team = collab.Team(agents={"main": collab.Agent(prompt="x")}, turns=2, model="echo")
    with pytest.raises(RecipeError, match=r"the team has 2; set team\.turns=1"):
        collab.evaluate(team, task=rows, select=collab.Selection())


def test_a_sample_without_parts_leaves_the_others_to_be_combined(tmp_path: Path, rows: str) -> None:
    programs = [
        "def times(a, b):\n    return a * b\n\ndef area(a, b):\n    return -times(a, b)",
        "def times(a, b):\n    return a + b\n\ndef area(a, b):\n    return times(a, b)",
        "def area(a, b:\n",
    ]
    metrics = metrics_of(tmp_path, rows, {"main": programs}, collab.Selection(recombine=True))
    assert (metrics["selected@3"], metrics["recombined@3"]) == (0.0, 1.0)


def test_one_sample_is_not_recombined(tmp_path: Path, rows: str) -> None:
    cached = "def area(a, b):\n    return a * b\n\nimport functools\narea = functools.cache(area)"
    metrics = metrics_of(tmp_path, rows, {"main": [cached]}, collab.Selection(recombine=True))
    assert metrics["recombined@1"] == 1.0


def test_long_values_are_compared_to_their_end(tmp_path: Path) -> None:
    prompt = 'def first(n):\n    """Numbers below n.\n\n    assert first(25)[24] == 24\n    """\n'
    test = "def check(candidate):\n    assert candidate(30)[29] == 29\n"
    row = {"task_id": "Long/0", "prompt": prompt, "entry_point": "first", "test": test}
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps(row))
    right = "def first(n):\n    return list(range(n))"
    wrong = "def first(n):\n    return [*range(n)][:25] + [{}] * (n - 25)"
    answers = {"main": [right, right, wrong.format(1), wrong.format(2)]}
    metrics = metrics_of(tmp_path, str(path), answers, collab.Selection())
    assert metrics["selected@4"] == 1.0
