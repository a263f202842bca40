"""The problem on an episode's page: had without running anything, believed if the record agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.report_runs import data_of, make_episode, make_run, page_of

from collab.recipe import load_recipe
from collab.report.episodes import problems_of
from collab.report.runs import read_run


def with_task(folder: Path, **task: Any) -> Path:
    """Give a run's recipe this suite."""
    file = folder / "recipe.yaml"
    recipe = yaml.safe_load(file.read_text())
    reward = {"parts": {"right": {"use": "equals", "options": {"field": "answer"}}}}
    recipe["task"] = {"name": "numbers", "kind": "text", "reward": reward, **task}
    file.write_text(yaml.safe_dump(recipe))
    return folder


def rows_in(folder: Path, *rows: dict[str, Any]) -> None:
    (folder / "data").mkdir()
    file = folder / "data" / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", [make_episode(n, task=f"numbers/{n}") for n in range(2)])


def asked(run: Path, out: Path) -> list[dict[str, str]]:
    data = data_of(page_of(run, out=out))
    return [
        {name: data["texts"][place] for name, place in episode["problem"]}
        for episode in data["episodes"]
    ]


def test_rows_in_the_folder_are_shown_without_what_is_hidden(run: Path, tmp_path: Path) -> None:
    with_task(run, source={"path": "data/rows.jsonl"}, hidden=["answer"])
    rows_in(run, *({"task_id": str(n), "prompt": "Write aux", "n": 4, "answer": "secret"}
                   for n in range(2)))  # fmt: skip
    assert asked(run, tmp_path / "r.html") == [{"prompt": "Write aux", "n": "4"}] * 2
    assert "secret" not in str(data_of((tmp_path / "r.html").read_text()))


def test_rows_that_the_record_does_not_repeat_are_not_believed(run: Path, tmp_path: Path) -> None:
    """As where the suite was made by another version."""
    with_task(run, source={"path": "data/rows.jsonl"}, hidden=[])
    rows_in(run, *({"task_id": str(n), "prompt": "Another problem"} for n in range(2)))
    assert asked(run, tmp_path / "r.html") == [{}, {}]


def test_rows_in_the_folder_are_read(run: Path) -> None:
    """The others show nothing by what they are about, not by a broken suite."""
    rows_in(run, {"prompt": "Write aux"})
    source = {"path": "data/rows.jsonl"}
    assert problems_of(read_run(with_task(run, source=source, hidden=[])))


def test_rows_beside_the_folder_are_not_read(run: Path, tmp_path: Path) -> None:
    outside = tmp_path / "rows.jsonl"
    outside.write_text(json.dumps({"prompt": "Write aux"}) + "\n")
    for path in (str(outside), "../rows.jsonl"):
        assert problems_of(read_run(with_task(run, source={"path": path}, hidden=[]))) == {}


@pytest.mark.parametrize(
    "source",
    [
        {"generate": "makes.py:rows"},
        {"path": "data/rows.jsonl", "adapt": "makes.py:row"},
        {"hub": "somebody/rows"},
    ],
)
def test_nothing_of_the_user_s_is_run_and_nothing_fetched(
    run: Path, source: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_in(run, {"prompt": "Write aux"})
    (run / "makes.py").write_text("raise SystemExit('this was run')")
    monkeypatch.chdir(run)
    assert problems_of(read_run(with_task(run, source=source, hidden=[]))) == {}


def test_problems_that_are_generated_by_ours_are_made_again(run: Path) -> None:
    task = load_recipe("duet", task="duet").task
    assert task is not None
    with_task(run, **{**task.model_dump(mode="json", exclude_none=True), "name": "duet"})
    problems = problems_of(read_run(run))
    assert len(problems) == task.source.rows
    assert all(set(task.hidden).isdisjoint(fields) for fields in problems.values())


def test_seeds_are_whole(run: Path, tmp_path: Path) -> None:
    """A number beyond 2^53 is not the same in JavaScript."""
    seed = 2**62 + 1
    episode = make_episode(1).model_copy(update={"seed": seed})
    page = page_of(make_run(tmp_path / "big", [episode]), out=tmp_path / "r.html")
    assert data_of(page)["episodes"][0]["seed"] == str(seed)
