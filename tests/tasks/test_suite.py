"""Suites and addresses."""

import gzip
import json
from pathlib import Path

import pytest

from collab.errors import TaskError
from collab.recipe import load_task
from collab.tasks import Suite, open_suite, split_address

ROWS = [
    {
        "task_id": f"Mine/{n}",
        "prompt": f"def f{n}(): ...",
        "entry_point": f"f{n}",
        "test": "t",
        "canonical_solution": "secret",
        "level": n,
    }
    for n in range(5)
]


def suite_of(tmp_path: Path, rows: list[dict[str, object]]) -> Suite:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_suite(load_task(str(path)))


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("humaneval/12", ("humaneval", "12")),
        ("humaneval", ("humaneval", "")),
        ("humaneval/HumanEval/12", ("humaneval", "HumanEval/12")),
        ("a/b/mine.jsonl/3", ("a/b/mine.jsonl", "3")),
        ("./mine.json", ("./mine.json", "")),
        ("mine.jsonl.gz/0-3", ("mine.jsonl.gz", "0-3")),
        ("data/mine.json.gz/0-3", ("data/mine.json.gz", "0-3")),
        ("mine.jsonl/archive.tar.gz", ("mine.jsonl", "archive.tar.gz")),
        ("my-task.yaml/train", ("my-task.yaml", "train")),
    ],
)
def test_split_address(address: str, parts: tuple[str, str]) -> None:
    assert split_address(address) == parts


def test_humaneval_is_whole_and_hides_its_tests() -> None:
    suite = open_suite(load_task("humaneval"))
    assert len(suite) == 164
    [problem] = suite.select("12")
    assert problem.address == "humaneval/12"
    assert problem.public["entry_point"] == "longest"
    assert set(problem.hidden) == {"test", "canonical_solution"}
    assert [p.address for p in suite.select("test")][::30] == ["humaneval/133", "humaneval/163"]


@pytest.mark.parametrize(
    ("selection", "levels"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("3", [3]),
        ("Mine/3", [3]),
        ("1-3", [1, 2, 3]),
        ("4,0-1,0", [4, 0, 1]),
    ],
)
def test_select(tmp_path: Path, selection: str, levels: list[int]) -> None:
    problems = suite_of(tmp_path, ROWS).select(selection)
    assert [problem.public["level"] for problem in problems] == levels


def test_text_ids_can_be_selected(tmp_path: Path) -> None:
    rows = [{**row, "task_id": f"t{n}"} for n, row in enumerate(ROWS)]
    suite = suite_of(tmp_path, rows)
    assert suite.select("t2")[0].address == "mine/t2"
    assert suite.select("2")[0].address == "mine/t2"
    with pytest.raises(TaskError, match="did you mean 't2'"):
        suite.select("tt2")


def test_id_with_a_comma_can_be_selected(tmp_path: Path) -> None:
    rows = [{**row, "task_id": f"{n},{n}"} for n, row in enumerate(ROWS)]
    assert suite_of(tmp_path, rows).select("2,2")[0].address == "mine/2,2"


@pytest.mark.parametrize("selection", ["5", "0-5", "3-2"])
def test_rows_outside_the_suite_are_refused(tmp_path: Path, selection: str) -> None:
    with pytest.raises(TaskError, match="rows 0-4"):
        suite_of(tmp_path, ROWS).select(selection)


@pytest.mark.parametrize("selection", ["9" * 5000, f"0-{'9' * 5000}", f"{'9' * 5000}-1"])
def test_row_number_with_many_digits_is_refused(tmp_path: Path, selection: str) -> None:
    with pytest.raises(TaskError, match="has no problem"):
        suite_of(tmp_path, ROWS).select(selection)


def test_selected_rows_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collab.tasks.suite.MAX_SELECTED_ROWS", 9)
    spec = suite_of(tmp_path, ROWS).spec.model_copy(update={"splits": {"all": "0-4,0-3"}})
    suite = open_suite(spec)
    assert len(suite.select("all")) == 5
    for selection in ("all,0", "0-4,0-4", "all,all"):
        with pytest.raises(TaskError, match="names more than 9 rows"):
            suite.select(selection)


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".json"])
def test_json_and_gzip_files_are_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"mine{suffix}"
    if suffix == ".json":
        path.write_text(json.dumps(ROWS))
    else:
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, ROWS)).encode()))
    assert len(open_suite(load_task(str(path)))) == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "is empty"), ('{"prompt": "x", "entry_point": "f", "test": " "}\n', "'test' is empty")],
)
def test_broken_data(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(text)
    with pytest.raises(TaskError, match=message):
        open_suite(load_task(str(path)))


def test_missing_file_and_package(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="does not exist; check the path"):
        open_suite(load_task(str(tmp_path / "nothere.jsonl")))
    spec = load_task("humaneval", settings=["task.source.package=not-there"])
    with pytest.raises(TaskError, match="run: pip install not-there"):
        open_suite(spec)


def test_data_file_has_no_splits_of_the_suite_it_is_like(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "one post"}\n')
    spec = load_task(str(path), like="tldr")
    assert (spec.splits, len(open_suite(spec))) == ({}, 1)
