"""Served recipes: fields, names, feedback, records, restarts."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.served import DUO, SOLO, Server, recipe
from typer.testing import CliRunner

import collab
import collab.serving
from collab.cli.app import app
from collab.errors import RecipeError, RecordError
from collab.recipe import load_recipe
from collab.records import read_episodes
from collab.runs.about import read_about
from collab.runs.log import Log
from collab.runtime.fields import fields_of
from collab.serving.application import Application
from collab.serving.settings import Settings
from collab.serving.teams import read_teams, served_names, served_recipe


@pytest.mark.parametrize(
    ("prompt", "text", "needed"),
    [
        ("{{ task.word }}", "word", ("word",)),
        ("{{ task['word'] | upper }}", "word", ("word",)),
        ("{{ task.a }} {{ task.b }}", "prompt", ("a", "b")),
        ("{% if task.b is defined %}{{ task.b }}{% endif %}{{ task.a }}", "prompt", ("a",)),
        ("{{ task.hint | default('none') }} {{ task.prompt }}", "prompt", ("prompt",)),
        ("{% for key, value in task.items() %}{{ value }}{% endfor %}", "prompt", ()),
        ("Say it.", "prompt", ()),
    ],
)
def test_fields_of_templates_are_found(prompt: str, text: str, needed: tuple[str, ...]) -> None:
    fields = fields_of(recipe({"agents": {"one": {"prompt": prompt}}}))
    assert (fields.text, sorted(fields.needed)) == (text, sorted(needed))


def test_unused_template_needs_no_fields() -> None:
    agents = {"one": {"prompt": "{{ task.prompt }}", "revise": "{{ task.again }}"}}
    assert fields_of(recipe({"agents": agents})).needed == ("prompt",)
    assert fields_of(recipe({"agents": agents, "turns": 2})).needed == ("prompt", "again")
    assert fields_of(recipe({"agents": agents, "turns": 2}), "again").text == "again"
    with pytest.raises(RecipeError, match="reads the field 'body'; choose one with --field"):
        fields_of(recipe({"agents": agents}), "body")
    reads_all = {"one": {"prompt": "{{ task.prompt }} {{ task | tojson }}"}}
    assert fields_of(recipe({"agents": reads_all}), "body").text == "body"
    assert fields_of(recipe({"agents": {"one": {}}})).needed == ("prompt",)


def test_served_names_of_teams_files_and_folders(tmp_path: Path) -> None:
    assert served_names(["tldr", "a/b/mine.yaml", "runs/first/"]) == {
        "tldr": "tldr",
        "mine": "a/b/mine.yaml",
        "first": "runs/first/",
    }
    assert served_names(["runs/a+b"]) == {"a-b": "runs/a+b"}
    assert served_names(["x"], ["y"]) == {"y": "x"}
    with pytest.raises(RecipeError, match="two teams are called 'x'"):
        served_names(["a/x", "b/x"])


def test_functions_of_the_reward_are_not_needed_for_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(tmp_path / "run")
    agents = {"one": collab.Agent(prompt="{{ task.prompt }}")}
    team = collab.Team(agents=agents, model="echo", rewards=[lambda context: 1.0])
    team.run([{"prompt": "red"}], out=run)
    monkeypatch.setattr("collab.passed_functions._FUNCTIONS", {})
    with pytest.raises(RecipeError, match=r"passed in Python.*with rewards=\[lambda\]"):
        load_recipe(run)
    served = read_teams({"run": run})["run"]
    assert (served.task, list(served.team.agents)) == (None, ["one"])
    shouting = {"one": collab.Agent(prompt="{{ task.prompt }}", parser=lambda text: text.upper())}
    team = collab.Team(agents=shouting, model="echo", rewards=[lambda context: 1.0])
    team.run([{"prompt": "red"}], out=tmp_path / "parsed")
    monkeypatch.setattr("collab.passed_functions._FUNCTIONS", {})
    with pytest.raises(RecipeError, match=r"parser.*passed in Python"):
        read_teams({"parsed": str(tmp_path / "parsed")})


def test_feedback_that_needs_hidden_fields_or_code_is_dropped() -> None:
    feedback = ["self", "solved", "execution"]
    taught = recipe({**DUO, "turns": 2, "feedback": feedback})
    for settings, sources in [
        (Settings(), ["self"]),
        (Settings(run_code=True), ["self", "execution"]),
    ]:
        assert [spec.source for spec in served_recipe(taught, settings).team.feedback] == sources


def test_running_code_of_clients_requires_the_sandbox() -> None:
    team = {**DUO, "turns": 2, "feedback": ["execution"]}
    unsafe = recipe(team, sandbox={"isolation": "unsafe"})
    served_recipe(unsafe, Settings())
    with pytest.raises(RecipeError, match="'unsafe'"):
        served_recipe(unsafe, Settings(run_code=True))


def test_a_shipped_team_of_two_turns_is_played(tmp_path: Path) -> None:
    shipped = load_recipe("coding", model="echo", settings=["team.turns=2"])
    with Server(shipped) as server:
        assert server.ask(model="coding").json()["error"]["param"] == "collab.fields.entry_point"
        answer = server.ask(model="coding", collab={"fields": {"entry_point": "f"}})
    assert [agent["turn"] for agent in answer.json()["collab"]["agents"]] == [0, 0, 1, 1]


def test_episodes_are_recorded_if_requested(tmp_path: Path) -> None:
    with Server(recipe(DUO), recipe(SOLO), record=tmp_path / "kept") as server:
        answers = [server.ask(model=model) for model in ("duo", "duo", "solo")]
    assert not (tmp_path / "duo").exists()
    episodes = list(read_episodes(tmp_path / "kept" / "duo"))
    assert [episode.turns[0].joint for episode in episodes] == [
        answer.json()["choices"][0]["message"]["content"] for answer in answers[:2]
    ]
    assert len({episode.id for episode in episodes}) == 2
    assert len(list(read_episodes(tmp_path / "kept" / "solo"))) == 1
    for name in ("duo", "solo"):
        about = read_about(tmp_path / "kept" / name)
        assert about["status"] == "done"
        assert datetime.fromisoformat(about["started"]) < datetime.now().astimezone()
        shown = CliRunner().invoke(app, ["show", str(tmp_path / "kept" / name)])
        assert (shown.exit_code, " of 0 " in shown.output) == (0, False), shown.output
        assert shown.output.splitlines()[0] == f"{about['run']}, {name}, talker"
        replayed = CliRunner().invoke(app, ["replay", str(tmp_path / "kept" / name)])
        assert (replayed.exit_code, "has no suite" in replayed.stderr) == (2, True)


def test_an_application_names_what_it_cannot_serve() -> None:
    given: Any = collab.Team(agents={"one": collab.Agent()}, model="echo")
    with pytest.raises(RecipeError, match=r"a served team is a name.*to use a collab\.Team"):
        collab.serving.app(given)


def test_a_mounted_application_without_its_lifespan_names_it() -> None:
    team = collab.serving.app("tldr", model="echo")

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=team)) as client:
            return await client.get("http://host/v1/models")

    answer = asyncio.run(ask())
    assert answer.status_code == 503
    assert "enter its lifespan" in answer.json()["error"]["message"]


def test_the_folder_of_a_record_may_be_given_as_text(tmp_path: Path) -> None:
    application = collab.serving.app("tldr", model="echo", record=str(tmp_path / "kept"))

    async def start() -> None:
        async with application.lifespan():
            pass

    asyncio.run(start())
    assert read_about(tmp_path / "kept")["status"] == "done"


@pytest.mark.parametrize("file", ["episodes.jsonl", "notes.txt"])
def test_a_used_folder_is_refused_by_its_option(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text("{}\n")
    application = Application({"duo": recipe(DUO)}, Settings(record=tmp_path))

    async def start() -> None:
        async with application.lifespan():
            pass

    with pytest.raises(RecordError, match="choose another folder with --record"):
        asyncio.run(start())


def test_requests_with_the_same_id_are_separate_episodes(tmp_path: Path) -> None:
    url, body = "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello."}]}
    with Server(recipe(DUO), record=tmp_path / "kept") as server:
        request = {"json": {**body, "model": "duo"}, "headers": {"x-request-id": "retried"}}
        answers = [httpx.post(server.url + url, timeout=20, **request) for _ in range(2)]  # type: ignore[arg-type]
    episodes = list(read_episodes(tmp_path / "kept"))
    names = [answer.json()["collab"]["episode"] for answer in answers]
    assert [episode.id for episode in episodes] == [f"served/{name}#0" for name in names]
    assert len({episode.task for episode in episodes}) == len(set(names)) == 2
    assert len({answer.json()["id"] for answer in answers}) == 2
    assert {answer.headers["x-request-id"] for answer in answers} == {"retried"}


def test_failed_record_is_logged_and_the_client_gets_no_file_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(log: Log, _: object) -> None:
        raise RecordError(f"{tmp_path / 'kept'}: input/output error")

    monkeypatch.setattr(Log, "append", fail)
    with Server(recipe(DUO), record=tmp_path / "kept") as server:
        error_data = server.ask(model="duo").json()["error"]
    assert error_data["code"] == "RecordError"
    assert str(tmp_path) not in error_data["message"]
    assert str(tmp_path / "kept") in caplog.text


def test_teams_with_equal_models_share_one() -> None:
    import asyncio

    from collab.serving.service import Service

    async def opened() -> int:
        service = Service({"duo": recipe(DUO), "solo": recipe(SOLO)}, Settings(queue=1))
        async with service.open():
            assert service.queue.places == 32 + 1
            teams = service.teams.values()
            return len({id(m) for team in teams for m in team.session.models.values()})

    assert asyncio.run(opened()) == 1
