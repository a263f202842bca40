"""Bad input: exit status 2, one clear message on stderr, nothing on stdout, no traceback."""

import json
from pathlib import Path

import pytest
from support.command_line import Collab

pytestmark = pytest.mark.usefixtures("project")

RUN = ("run", "pair", "--task", "words/0", "--model", "echo")

CASES = {
    "team": (("run", "pear", "--task", "words/0"), "unknown team 'pear'; did you mean 'pair'?"),
    "suite": (("run", "pair", "--task", "wrds/0"), "unknown suite 'wrds'; did you mean 'words'?"),
    "problem": (("run", "pair", "--task", "words/88"), "'88' is outside the suite 'words'"),
    "no task": (("run", "pair"), "no task given"),
    "data file": (
        ("run", "pair", "--task", "no.jsonl/1"),
        "no.jsonl does not exist; check the path",
    ),
    "long name": (("run", "n" * 300), "n" * 300),
    "long model": ((*RUN[:-1], "n" * 300), "n" * 300),
    "model of an unknown user": (
        (*RUN[:-1], "~nobody-here/m"),
        "model folder ~nobody-here/m does not exist; check the path",
    ),
    "outcome without a run": (("show", "--outcome", "failed"), "--outcome need a RUN, such as"),
    "long folder": (("show", "n" * 300), "n" * 300),
    "NUL": ((*RUN, "--set", r'agents.a.parser="a\0b.py:f"'), "the character NUL"),
    "bytes": ((*RUN, "--out", "a\udcff"), r"'a\udcff' is not UTF-8 text; use another name"),
    "recipe file": (("run", "no.yaml"), "no.yaml does not exist; check the path (current"),
    "key": ((*RUN, "--set", "team.turnz=2"), "unknown key 'turnz'; did you mean 'turns'?"),
    "agent": ((*RUN, "--set", "agents.c.sampling.top_p=1"), "unknown agent 'c'; known: a, b"),
    "part": (
        (*RUN, "--set", "task.reward.parts.rihgt.weight=2"),
        "unknown part 'rihgt' of the reward; did you mean 'right'?",
    ),
    "value": ((*RUN, "--set", "team.turns=many"), "team.turns: must be an integer, got 'many'"),
    "setting": ((*RUN, "--set", "team.turns"), "a setting has the form KEY=VALUE"),
    "model": ((*RUN, "--model", "smolm2-135m"), "did you mean 'smollm2-135m'?"),
    "engine": ((*RUN, "--model", "replai:runs/1"), "did you mean 'replay'?"),
    "engine like no other": (
        (*RUN, "--model", "ollama:llama"),
        "unknown model engine 'ollama'; known: anthropic, echo, openai, replay, scripted,"
        " transformers, vllm (a server: openai:URL#MODEL; your own function: ",
    ),
    "plugin": ((*RUN, "--model", "models.py:patent"), "did you mean"),
    "isolation": (
        (*RUN, "--sandbox", "saeled"),
        "'--sandbox': 'saeled' is not one of 'sealed', 'unsafe'\nsee ",
    ),
    "samples": ((*RUN, "--samples", "0"), "'--samples' / '-n': must be at least 1, got 0\nsee "),
    "option": ((*RUN, "--smaples", "2"), "no such option: --smaples (Possible options: --samples)"),
    "extra argument": (("replay", "x", "words/7"), "unexpected extra argument(s) (words/7)\nsee "),
    "kind": (("init", "x", "--kind", "game"), "'game' is not one of 'code', 'text', 'env"),
    "project in a file": (("init", "tasks/words.yaml"), "words.yaml is a file; choose a folder"),
    "problems of a suite": (("tasks", "words/7"), "collab tasks takes a suite: words\n"),
    "command": (("rum", "pair"), "unknown command 'rum'; did you mean 'run'?"),
    "schema": (("schema", "tema"), "'tema' is not one of 'recipe', 'team', 'task', "),
    "run to go on with": (
        ("train", "--resume", "nowhere"),
        "nowhere does not exist; `collab show` lists your runs",
    ),
    "reported run": (("report", "nowhere"), "nowhere does not exist; `collab show` lists"),
    "folder without a run": (("show", "tasks"), "tasks is not a run's folder: it has no run.json"),
    "two to train": (("train", "pair", "--resume", "x"), "both a recipe and --resume are given"),
    "training without a task": (
        ("train", "pair"),
        "the recipe has no task, so there is no reward; add one with --task SUITE\n",
    ),
    "missing option": (("push", "x"), "missing option '--to'\nsee "),
    "team to export": (
        ("export", "pair", "--adapters", "x"),
        "there is no pair/recipe.yaml; specify the folder of a training run: `collab show` lists",
    ),
    "merged models in half": (
        ("export", "pair", "--merged", "x", "--half"),
        "--half needs --adapters; add that, or leave out --half\n",
    ),
    "folder of an upload": (
        ("push", "pair", "--to", "me/x", "--out", "x"),
        "--out needs --dry-run; add that, or leave out --out\n",
    ),
    "study": (("study", "no.yaml"), "no.yaml does not exist; specify a study's YAML file, e.g. "),
    "missing argument": (("export",), "missing argument 'RUN'\nsee "),
    "nothing to train": (("train",), "specify a recipe to train, or --resume RUN to continue"),
    "backward range": (("run", "pair", "--task", "words/3-1"), "write the smaller row first: 1-3"),
    "malformed YAML": (
        ("run", "broken", "--task", "words/0"),
        "got '<stream end>' while parsing a flow sequence, line 2, column 15",
    ),
    "missing field": ((*RUN, "--set", "agents.a.prompt='{{ task.wrod }}'"), "team.agents.a.prompt"),
    "others at once": ((*RUN, "--set", "agents.a.prompt='{{ others.b }}'"), "team.agents.a.prompt"),
    "open template": (
        (*RUN, "--set", "agents.a.prompt='{{ task.word'"),
        "team.agents.a.prompt, line 1",
    ),
    "no text": (("run", "binary.yaml"), "binary.yaml: cannot be read: not UTF-8 text"),
}


@pytest.mark.parametrize("case", CASES)
def test_error_names_the_value_and_the_remedy(case: str, collab: Collab, project: Path) -> None:
    (project / "agents" / "broken.yaml").write_text("agents:\n  a: {prompt: [unclosed\n")
    (project / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    arguments, message = CASES[case]
    result = collab(*arguments)
    assert message in result.err
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err
    assert "in Python" not in result.err
    assert (result.status, result.out, Path("runs").exists()) == (2, "", False)


def test_each_mistake_in_a_file_is_a_separate_error(collab: Collab, project: Path) -> None:
    (project / "bad.yaml").write_text("trainer: {group_size: 0}\n")
    lines = collab("train", "bad.yaml").err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("error: bad.yaml: ") for line in lines)


def test_row_without_a_field_is_refused_before_any_episode(collab: Collab, project: Path) -> None:
    rows = [{"word": "a long word", "answer": "b"}] * 70 + [{"wrod": "c", "answer": "d"}] * 4
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (project / "tasks" / "words.jsonl").write_text(lines)
    for command in ("run", "eval"):
        arguments = ("pair", "--task", "words", "--model", "echo", "--out", "out")
        result = collab(command, *arguments)
        assert result.status == 2
        assert "task has no 'word' (did you mean 'wrod'?); the task's fields: wrod" in result.err
        assert "fails for 4 problems (words/70, words/71, words/72, ...) of 74 tried" in result.err
        assert not Path("out").exists()


def test_one_broken_team_does_not_hide_the_others(collab: Collab, project: Path) -> None:
    (project / "agents" / "broken.yaml").write_text("agents: 3\n")
    result = collab("teams")
    assert result.status == 0
    assert "pair" in result.out
    assert "broken: " in result.out


def test_internal_error_is_short_and_shows_no_values(
    collab: Collab, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(spec: object) -> None:
        secret = "k-123"
        raise ZeroDivisionError("division by zero" if secret else "")

    monkeypatch.setattr("collab.models.open._open_plugin", broken)
    result = collab(*RUN, "--model", "models.py:model")
    assert result.status == 1
    assert "k-123" not in result.err.replace('secret = "k-123"', "")
    assert "error: ZeroDivisionError: division by zero" in result.err
