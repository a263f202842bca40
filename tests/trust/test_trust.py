"""Nothing in a foreign recipe runs before approval, which covers exactly these contents."""

import json
import os
import shutil
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import yaml
from support.scoring import reward_of
from support.trust import TEAM, recipe_with, run

import collab
from collab.cli.options import consent
from collab.errors import RecipeError, Untrusted
from collab.recipe import documents, load_recipe, load_task, read_recipe


def test_own_project_needs_no_approval(project: Path, configuration: Path) -> None:
    status, output = run("run", "pair", "--task", "words/0", "-m", "echo", "--json", "--out", "r")
    assert status == 0, output
    assert reward_of(load_task("words")).parts["right"].use == "parts.py:right"


@pytest.mark.parametrize("command", ["run", "train", "eval"])
def test_foreign_folder_runs_nothing(project: Path, evil: Path, marker: Path, command: str) -> None:
    status, output = run(command, str(evil))
    assert status == 2
    assert "evil.py" in output
    assert "--trust" in output
    assert not marker.exists()


def test_approval_is_remembered_for_exactly_these_contents(
    project: Path, evil: Path, tmp_path: Path, configuration: Path
) -> None:
    load_recipe(str(evil), trust=True)
    load_recipe(str(evil))
    moved = tmp_path / "moved"
    shutil.copytree(evil, moved)
    load_recipe(str(moved))
    assert list((configuration / "collab" / "trusted").iterdir())
    (evil / "evil.py").write_text("def right(context):\n    return 0.5\n")
    with pytest.raises(Untrusted):
        load_recipe(str(evil))
    text = (moved / "recipe.yaml").read_text()
    (moved / "recipe.yaml").write_text(text.replace("Say", "Shout"))
    with pytest.raises(Untrusted):
        load_recipe(str(moved))


def test_recipe_changed_while_it_is_read_needs_approval(
    project: Path, evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, parse = evil / "recipe.yaml", documents.parse_yaml

    def change_and_parse(text: str, place: str) -> Any:
        recipe.write_text(f"{text}seed: 7\n")
        return parse(text, place)

    with monkeypatch.context() as patch:
        patch.setattr(documents, "parse_yaml", change_and_parse)
        load_recipe(str(evil), trust=True)
    with pytest.raises(Untrusted):
        load_recipe(str(evil))


def test_changed_imported_module_needs_approval(project: Path, evil: Path) -> None:
    (evil / "evil.py").write_text("import beside\n\n\ndef right(context):\n    return beside.one\n")
    (evil / "beside.py").write_text("one = 1\n")
    load_recipe(str(evil), trust=True)
    load_recipe(str(evil))
    (evil / "beside.py").write_text("one = 0\n")
    with pytest.raises(Untrusted):
        load_recipe(str(evil))


def test_approval_callback_is_asked_until_it_approves(project: Path, evil: Path) -> None:
    questions = []

    def ask(question: collab.trust.Question) -> bool:
        questions.append(question.text())
        return len(questions) > 1

    with pytest.raises(Untrusted):
        load_recipe(str(evil), trust=ask)
    load_recipe(str(evil), trust=ask)
    load_recipe(str(evil), trust=ask)
    assert len(questions) == 2
    assert "evil.py" in questions[0]


@pytest.mark.parametrize(
    "reference", ["builtins:exec", "os:system", "subprocess:run", "posix:abort"]
)
def test_python_functions_are_never_components(project: Path, reference: str) -> None:
    (project / "agents" / "bad.yaml").write_text(
        TEAM.replace("{prompt", f"{{parser: '{reference}', prompt")
    )
    with pytest.raises(RecipeError, match="function of Python itself"):
        load_recipe("bad", trust=True)
    with pytest.raises(RecipeError, match="function of Python itself"):
        collab.plugins.load_function("parser", reference)


def test_python_function_imported_by_another_module_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "hidden.py").write_text("from os import system as parse\n")
    with pytest.raises(RecipeError, match="function of Python itself"):
        collab.plugins.load_function("parser", "hidden.py:parse")
    monkeypatch.syspath_prepend(project)
    with pytest.raises(RecipeError, match="function of Python itself"):
        collab.plugins.load_function("parser", "hidden:parse")


def test_own_recipe_with_a_file_outside_needs_approval(
    project: Path, evil: Path, marker: Path
) -> None:
    (project / "mine.yaml").write_text(recipe_with(use=f"{os.path.relpath(evil)}/evil.py:right"))
    with pytest.raises(Untrusted, match=r"evil\.py"):
        load_recipe("mine.yaml")
    (project / "link.py").symlink_to(evil / "evil.py")
    (project / "mine.yaml").write_text(recipe_with(use="link.py:right"))
    with pytest.raises(Untrusted, match=r"evil\.py|link\.py"):
        load_recipe("mine.yaml")
    assert not marker.exists()


def test_linked_folder_is_foreign(project: Path, evil: Path) -> None:
    (project / "inside").symlink_to(evil)
    for name in ("inside", "inside/recipe.yaml"):
        with pytest.raises(Untrusted):
            load_recipe(name)


@pytest.mark.parametrize("mark", ["run.json", "episodes.jsonl", "training.yaml"])
def test_run_unpacked_inside_the_project_is_foreign(
    project: Path, evil: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(evil, project / "runs" / "theirs")
    with pytest.raises(Untrusted):
        load_recipe("runs/theirs")
    (project / "runs" / "theirs" / mark).write_text("")
    with pytest.raises(Untrusted):
        load_recipe("runs/theirs/recipe.yaml")
    monkeypatch.chdir(project / "runs" / "theirs")
    for name in (".", "recipe.yaml"):
        with pytest.raises(Untrusted):
            load_recipe(name)


def test_broken_link_named_run_json_marks_a_run(project: Path, evil: Path) -> None:
    shutil.copytree(evil, project / "theirs")
    (project / "theirs" / "run.json").symlink_to("nowhere")
    with pytest.raises(Untrusted):
        load_recipe("theirs/recipe.yaml")


def test_own_team_that_extends_a_foreign_one_needs_approval(project: Path, evil: Path) -> None:
    (evil / "team.yaml").write_text("join: evil.py:join\n" + TEAM)
    (project / "agents" / "mine.yaml").write_text("extends: ../../elsewhere/team.yaml\n")
    with pytest.raises(Untrusted, match="join"):
        load_recipe("mine")


def test_typed_settings_need_no_approval(project: Path, evil: Path) -> None:
    use = f"{evil}/evil.py:right"
    load_recipe("pair", task="words", settings=[f"task.reward.parts.right.use={use}"])
    (evil / "reward.yaml").write_text("parts: {right: {use: 'evil.py:right'}}\n")
    with pytest.raises(Untrusted):
        load_recipe("pair", task="words", settings=[f"task.reward={evil}/reward.yaml"])


def test_foreign_task_needs_approval(project: Path, evil: Path, marker: Path) -> None:
    task = {**yaml.safe_load(recipe_with(use="evil.py:right"))["task"], "name": "theirs"}
    (evil / "suite.yaml").write_text(yaml.safe_dump(task))
    with pytest.raises(Untrusted):
        load_task(f"{evil}/suite.yaml")
    with pytest.raises(Untrusted):
        collab.load("pair", model="echo").run(f"{evil}/suite.yaml/0")
    assert run("run", "pair", "-m", "echo", "--task", f"{evil}/suite.yaml/0")[0] == 2
    assert not marker.exists()
    done = run("run", "pair", "-m", "echo", "--task", f"{evil}/suite.yaml/0", "--trust")
    assert done[0] == 0, done[1]
    assert marker.exists()


def test_unsafe_isolation_needs_approval_unless_typed(project: Path, evil: Path) -> None:
    (evil / "recipe.yaml").write_text(recipe_with() + "sandbox: {isolation: unsafe}\n")
    with pytest.raises(Untrusted, match="isolation"):
        load_recipe(str(evil))
    load_recipe(str(evil), settings=["sandbox.isolation=unsafe"])
    load_recipe(str(evil), settings=["sandbox.isolation=sealed"])


def test_approval_without_isolation_covers_the_rows(project: Path, evil: Path) -> None:
    (evil / "recipe.yaml").write_text(recipe_with() + "sandbox: {isolation: unsafe}\n")
    load_recipe(str(evil), trust=True)
    load_recipe(str(evil))
    with (evil / "words.jsonl").open("a") as rows:
        rows.write('{"word": "w1", "answer": "Say w1."}\n')
    with pytest.raises(Untrusted, match="isolation"):
        load_recipe(str(evil))


@pytest.mark.parametrize("way", ["a path", "a link", "a run in the project", "answers"])
def test_own_recipe_without_isolation_needs_approval_for_foreign_code(
    project: Path, evil: Path, tmp_path: Path, way: str
) -> None:
    theirs = (project if way == "a run in the project" else tmp_path) / "theirs" / "r.jsonl"
    theirs.parent.mkdir()
    (theirs.parent / "run.json").write_text("{}")
    theirs.write_text('["Say w0."]' if way == "answers" else '{"word": "w0", "answer": "Say w0."}')
    (project / "link.jsonl").symlink_to(theirs)
    named = "link.jsonl" if way == "a link" else str(theirs)
    text = recipe_with(use="parts.py:right")
    if way == "answers":
        text = text.replace("model: echo", f"model: 'scripted:{named}'")
        (project / "words.jsonl").write_text('{"word": "w0", "answer": "Say w0."}\n')
    else:
        text = text.replace("words.jsonl", named)
    (project / "mine.yaml").write_text(text + "sandbox: {isolation: unsafe}\n")
    with pytest.raises(Untrusted, match=r"without any isolation .*r\.jsonl"):
        load_recipe("mine.yaml")
    load_recipe("mine.yaml", settings=["sandbox.isolation=unsafe"])
    load_recipe("mine.yaml", settings=["sandbox.isolation=sealed"])
    collab.load("mine.yaml", trust=True)
    collab.load("mine.yaml").run(out="r")
    load_recipe("r")
    theirs.write_text(theirs.read_text() + "\n")
    with pytest.raises(Untrusted, match="isolation"):
        load_recipe("mine.yaml")
    load_recipe("r")


def test_own_rows_without_isolation_need_no_approval(project: Path) -> None:
    (project / "words.jsonl").write_text('{"word": "w0", "answer": "Say w0."}\n')
    text = recipe_with(use="parts.py:right") + "sandbox: {isolation: unsafe}\n"
    (project / "mine.yaml").write_text(text)
    load_recipe("mine.yaml")
    collab.load("mine.yaml", task=[{"word": "w0", "answer": "a"}]).run()
    load_recipe("mine.yaml", task="tldr")
    (project.parent / "theirs.jsonl").write_text('{"word": "w0", "answer": "Say w0."}\n')
    status, output = run("run", "mine.yaml", "--task", "../theirs.jsonl/0")
    assert (status, "code in" in output) == (2, True), output


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            "{engine: openai, name: m, base_url: 'http://evil.example/v1', key: AWS_API_KEY}",
            "AWS_API_KEY",
        ),
        ("openai:gpt", r"https://api\.openai\.com/v1"),
        ("{engine: anthropic, base_url: 'http://evil.example'}", "ANTHROPIC_API_KEY"),
        ("{engine: vllm, name: m/n, servers: ['http://10.0.0.1:8000']}", "VLLM_API_KEY"),
    ],
    ids=["a foreign key", "openai", "anthropic", "vllm"],
)
def test_addresses_and_keys_need_approval(
    project: Path, evil: Path, model: str, message: str
) -> None:
    text = recipe_with().replace("model: echo", f"model: {model}")
    (evil / "recipe.yaml").write_text(text)
    with pytest.raises(Untrusted, match=message):
        load_recipe(str(evil))
    (project / "mine.yaml").write_text(text)
    load_recipe("mine.yaml")


def test_localhost_and_a_typed_model_need_no_approval(project: Path, evil: Path) -> None:
    load_recipe("pair")
    text = recipe_with().replace("model: echo", "model: openai:http://127.0.0.1:8000/v1#m")
    (evil / "recipe.yaml").write_text(text)
    load_recipe(str(evil))
    load_recipe(str(evil), model="openai:http://models.example/v1#m")


def test_files_outside_the_folder_are_named_if_they_can_be_sent(project: Path, evil: Path) -> None:
    secret = project / "secret.jsonl"
    secret.write_text('{"word": "key"}\n')
    text = recipe_with().replace("words.jsonl", str(secret))
    (evil / "recipe.yaml").write_text(text.replace("model: echo", "model: openai:gpt"))
    with pytest.raises(Untrusted, match=r"read .*secret\.jsonl"):
        load_recipe(str(evil))
    (evil / "words.jsonl").unlink()
    (evil / "words.jsonl").symlink_to(secret)
    (evil / "recipe.yaml").write_text(recipe_with().replace("model: echo", "model: openai:gpt"))
    with pytest.raises(Untrusted, match=r"read .*secret\.jsonl"):
        load_recipe(str(evil))


def test_episodes_outside_the_folder_are_named_too(project: Path, evil: Path) -> None:
    secret = project / "secret.jsonl"
    secret.write_text("{}\n")
    text = recipe_with().replace("model: echo", "model: openai:gpt")
    trainer = f"{{algorithm: sft, episodes: {secret}}}"
    (evil / "recipe.yaml").write_text(f"{text}\ntrainer: {trainer}\n")
    with pytest.raises(Untrusted, match=r"read .*secret\.jsonl"):
        load_recipe(str(evil))


@pytest.mark.parametrize("key", ["PATH", "HOME", "AWS_SECRET_ACCESS_KEY", "API_KEYS"])
def test_key_variable_must_end_in_api_key(project: Path, key: str) -> None:
    (project / "mine.yaml").write_text(
        recipe_with().replace("model: echo", f"model: {{engine: openai, name: m, key: {key}}}")
    )
    with pytest.raises(RecipeError, match="_API_KEY"):
        load_recipe("mine.yaml")


def test_control_characters_hide_nothing(project: Path, evil: Path) -> None:
    (evil / "recipe.yaml").write_text(
        recipe_with().replace(
            "model: echo", 'model: {engine: anthropic, base_url: "http://a.b/\\u001b[2K"}'
        )
    )
    with pytest.raises(Untrusted) as caught:
        load_recipe(str(evil))
    assert "\x1b" not in str(caught.value)


def test_relative_configuration_folder_is_ignored(
    project: Path, evil: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A relative XDG_CONFIG_HOME is ignored, because any folder could contain it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    load_recipe(str(evil), trust=True)
    assert (tmp_path / "home" / ".config" / "collab" / "trusted").is_dir()
    assert not Path("config").exists()


def test_relative_home_holds_no_approvals(evil: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third party's folder may contain approvals of its own."""
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(evil))
    load_recipe(str(evil), trust=True)
    assert (evil / ".config" / "collab" / "trusted").is_dir()
    monkeypatch.chdir(evil)
    monkeypatch.setenv("HOME", ".")
    with pytest.raises(Untrusted):
        load_recipe(str(evil))


def test_answer_typed_before_the_question_does_not_count(
    project: Path, evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, terminal = os.openpty()
    with os.fdopen(terminal) as stdin, os.fdopen(master, "wb", buffering=0) as keyboard:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        keyboard.write(b"y\n")
        no = Timer(0.3, keyboard.write, [b"n\n"])
        no.start()
        with pytest.raises(Untrusted):
            load_recipe(str(evil), trust=consent(trust=False))
        no.join()


def test_reading_a_recipe_runs_nothing(project: Path, evil: Path, marker: Path) -> None:
    assert run("teams", str(evil / "recipe.yaml"))[0] == 0
    assert read_recipe(str(evil))[1].open
    assert not marker.exists()


@pytest.mark.parametrize("command", ["replay", "show", "report"])
def test_record_needs_no_approval(project: Path, theirs: Path, marker: Path, command: str) -> None:
    status, output = run(
        command, str(theirs), *(["--out", "r.html"] if command == "report" else [])
    )
    assert status == 0, output
    assert not marker.exists()
    if command == "replay":
        assert "so collab ran nothing" in output


def test_replay_without_approval_sums_the_recorded_parts(project: Path, theirs: Path) -> None:
    path = theirs / "episodes.jsonl"
    episode = json.loads(path.read_text())
    episode["turns"][0]["score"]["reward"] = 0.25
    path.write_text(json.dumps(episode) + "\n")
    status, output = run("replay", str(theirs))
    assert status == 1
    assert "add up to 1, not to 0.25" in output


def test_replay_runs_functions_after_approval(project: Path, theirs: Path, marker: Path) -> None:
    status, output = run("replay", str(theirs), "--trust")
    assert status == 0, output
    assert marker.exists()
    assert "so collab ran nothing" not in output


def test_replay_with_forbidden_functions_reads_only_the_record(project: Path, theirs: Path) -> None:
    text = (theirs / "recipe.yaml").read_text()
    (theirs / "recipe.yaml").write_text(text.replace("parser: text", "parser: builtins:exec"))
    assert run("replay", str(theirs))[0] == 0
    status, output = run("replay", str(theirs), "--trust")
    assert status == 2
    assert "function of Python itself" in output
