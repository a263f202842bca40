"""A suite on the hub is read at a commit, which is recorded and used again later."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.files import unchanged
from support.hub_server import COMMIT, HubServer, read_datasets_from
from typer.testing import CliRunner

import collab
from collab.cli.app import app
from collab.errors import TaskError
from collab.recipe import load_recipe
from collab.recipe.load import validate
from collab.recipe.task import TaskSpec
from collab.tasks import Suite, open_suite

LATER = "f" * 40
NOBODY = "http://127.0.0.1:9"
REWARD = {"parts": {"length": {"use": "length"}}}
TEAM = {"agents": {"a": {"prompt": "{{ task.prompt }}"}, "b": {"prompt": "{{ task.prompt }}"}}}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """The dataset `me/words` on a local hub, with a separate cache."""
    with HubServer("me/words", rows(tmp_path, "one", "two"), "datasets") as server:
        read_datasets_from(server.url, tmp_path / "cache", monkeypatch)
        monkeypatch.chdir(tmp_path)
        yield server


def rows(tmp_path: Path, *words: str) -> Path:
    folder = tmp_path / "-".join(words)
    folder.mkdir()
    lines = [json.dumps({"task_id": str(n), "prompt": word}) for n, word in enumerate(words)]
    (folder / "train.jsonl").write_text("\n".join(lines))
    return folder


def suite(**source: Any) -> Suite:
    data = {"name": "words", "kind": "text", "hidden": [], "reward": REWARD}
    return open_suite(validate(TaskSpec, {**data, "source": {"hub": "me/words", **source}}, "it"))


def words_of(found: Suite) -> list[str]:
    return [problem.public["prompt"] for problem in found.select("")]


def files_of(project: Path) -> None:
    """Write a team and a suite that can be loaded by name."""
    (project / "agents").mkdir()
    (project / "tasks").mkdir()
    (project / "agents/pair.yaml").write_text(yaml.dump(TEAM))
    task = {"kind": "text", "source": {"hub": "me/words"}, "hidden": [], "reward": REWARD}
    (project / "tasks/words.yaml").write_text(yaml.dump(task))


@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_suite_records_the_commit_it_was_read_at(hub: HubServer, revision: str | None) -> None:
    found = suite(revision=revision)
    assert found.spec.source.revision == COMMIT
    assert words_of(found) == ["one", "two"]
    assert f"/datasets/me/words/resolve/{COMMIT}/train.jsonl" in hub.requests


def test_moved_branch_is_followed_and_a_commit_is_kept(hub: HubServer, tmp_path: Path) -> None:
    first = suite()
    hub.publish(rows(tmp_path, "three"), LATER)
    now = suite()
    assert (now.spec.source.revision, words_of(now)) == (LATER, ["three"])
    again = suite(revision=first.spec.source.revision)
    assert words_of(again) == ["one", "two"]


def test_cached_commit_is_used_and_recorded_when_the_hub_is_down(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert words_of(suite()) == ["one", "two"]
    hub.publish(rows(tmp_path, "three"), LATER)
    read_datasets_from(NOBODY, tmp_path / "cache", monkeypatch)
    for revision in (None, COMMIT):
        found = suite(revision=revision)
        assert (found.spec.source.revision, words_of(found)) == (COMMIT, ["one", "two"])
    with pytest.raises(TaskError, match=r"at revision 'f+' is not completely cached.*HF_ENDPOINT"):
        suite(revision=LATER)


def test_partially_cached_dataset_is_refused(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite()
    [file] = (tmp_path / "cache").glob("*/snapshots/*/train.jsonl")
    file.unlink()
    read_datasets_from(NOBODY, tmp_path / "cache", monkeypatch)
    for revision in (None, COMMIT):
        with pytest.raises(
            TaskError, match="is not completely cached, and the hub cannot be reached"
        ):
            suite(revision=revision)
    assert hub.requests


def test_cached_commit_needs_no_request_to_the_hub(hub: HubServer) -> None:
    suite()
    hub.requests.clear()
    assert words_of(suite(revision=COMMIT)) == ["one", "two"]
    assert hub.requests == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"revision": "v9"}, r"'me/words' has no revision 'v9' on the hub; set"),
        ({"revision": LATER}, f"no revision '{LATER}' .*task.source.revision .* or use the path"),
        ({"hub": "me/other"}, r"the hub has no dataset 'me/other' \(a private one needs HF_TOKEN"),
        ({"split": "dev"}, f"'me/words' at revision '{COMMIT}' cannot be read .*task.source.split"),
    ],
)
@pytest.mark.usefixtures("hub")
def test_unknown_dataset_revision_or_split_is_refused(source: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        suite(**source)


def test_hub_rows_are_checked_like_rows_of_a_file(hub: HubServer, tmp_path: Path) -> None:
    folder = rows(tmp_path, "three")
    (folder / "train.jsonl").write_text('{"task_id": "a", "prompt": "x"}\n' * 2)
    hub.publish(folder, LATER)
    with pytest.raises(TaskError, match=rf"'me/words' at revision '{LATER}': row 0 and row 1 have"):
        suite()


def test_run_is_replayed_and_evaluated_on_its_recorded_rows(hub: HubServer, tmp_path: Path) -> None:
    files_of(tmp_path)
    collab.load("pair", task="words", model="echo").run(out="run")
    hub.publish(rows(tmp_path, "three", "four"), LATER)
    task = load_recipe("run").task
    assert task
    assert task.source.revision == COMMIT
    assert json.loads(Path("run/run.json").read_text())["versions"]["me/words"] == COMMIT

    again = CliRunner().invoke(app, ["replay", "run"])
    assert again.exit_code == 0, again.output
    assert "the same: rewards and tokens of 2 episodes" in again.output
    assert collab.load("run").run("words/0").episode.turns[0].joint.split() == ["one", "one"]
    done = CliRunner().invoke(app, ["eval", "run", "-m", "echo", "--out", "evals"])
    assert done.exit_code == 0, done.output
    assert f"revision: {COMMIT}" in Path("evals/run/recipe.yaml").read_text()


def test_run_with_a_missing_revision_is_refused_and_left_unchanged(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files_of(tmp_path)
    collab.load("pair", task="words", model="echo").run(out="run")
    hub.publish(rows(tmp_path, "three", "four"), LATER)
    del hub.commits[COMMIT]
    read_datasets_from(hub.url, tmp_path / "another", monkeypatch)
    with unchanged(Path("run")):
        again = CliRunner().invoke(app, ["replay", "run"])
    assert again.exit_code != 0
    assert isinstance(again.exception, TaskError) or f"no revision '{COMMIT}'" in again.output


def test_several_splits_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for split, word in (("train", "one"), ("test", "two")):
        row = json.dumps({"task_id": word, "prompt": word})
        (folder / f"small-{split}.jsonl").write_text(row)
    with HubServer("me/words", folder, "datasets") as server:
        read_datasets_from(server.url, tmp_path / "cache", monkeypatch)
        assert words_of(suite(config="small", split="train+test")) == ["one", "two"]
        with pytest.raises(TaskError, match=r"set task.source.split, and task.source.config"):
            suite(config="large", split="train")


def test_a_download_ends_if_the_hub_sends_more_than_it_lists(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collab.trust.from_hub.MAX_EXTRA_BYTES", -1_000)
    with pytest.raises(TaskError, match=r"'me/words' .*the hub sent .* but lists .* \.jsonl"):
        suite()
