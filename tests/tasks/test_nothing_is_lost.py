"""Data files are read without silent losses; invalid and malicious ones are refused."""

import gzip
import json
import re
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

import collab
from collab.errors import TaskError
from collab.recipe.load import validate
from collab.recipe.task import TaskSpec
from collab.tasks import Suite, open_suite, origins
from collab.tasks.origins import read_file

CODE = {"prompt": "def f(): ...", "entry_point": "f", "test": "t", "canonical_solution": "s"}
REWARD = {"parts": {"length": {"use": "length"}}}
TEXT = {"prompt": "What?", "answer": "That."}


def written(tmp_path: Path, text: str | bytes, name: str = "mine.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def suite_of(path: Path, **fields: Any) -> Suite:
    data = {"name": "mine", "kind": "text", "source": {"path": str(path)}, **fields}
    return open_suite(validate(TaskSpec, {"reward": REWARD, **data}, "mine"))


def read(tmp_path: Path, rows: list[dict[str, Any]], **fields: Any) -> Suite:
    return suite_of(written(tmp_path, lines(rows)), **fields)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "a"], "line 1 and line 3 have the same task_id, 'a'"),
        (["a", "a", "a"], r"line 1 and line 2 \(and 1 more\) have the same task_id"),
        ([1, "1"], "line 1 and line 2 have the same task_id, '1'"),
        (["a", " a"], "line 1 and line 2 have the same task_id, 'a'"),
        (["a", ""], "line 2: the id 'task_id' is empty"),
        (["a", "  "], "line 2: the id 'task_id' is empty"),
        (["a", None], "line 2: the id 'task_id' is empty"),
        (["a", True], "line 2: the id 'task_id' is of type bool"),
        (["a", ["b"]], "line 2: the id 'task_id' is of type list"),
    ],
)
def test_ids_must_be_unique_text(tmp_path: Path, ids: list[Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        read(tmp_path, [{**TEXT, "task_id": name} for name in ids])


def test_rows_passed_in_python_must_have_unique_ids() -> None:
    team = collab.Team({"a": collab.Agent(prompt="{{ task.prompt }}")}, model="echo")
    with pytest.raises(TaskError, match=r"^the task passed in Python: row 0 and row 1 "):
        team.run([{**TEXT, "task_id": "a"}] * 2)


def test_row_without_an_id_is_refused_if_others_have_one(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="line 2: the id 'task_id' is missing"):
        read(tmp_path, [{**TEXT, "task_id": "a"}, TEXT])


def test_empty_id_field_uses_row_numbers(tmp_path: Path) -> None:
    suite = read(tmp_path, [{**TEXT, "task_id": "a"}] * 2, id_field="")
    assert [problem.address for problem in suite.select("")] == ["mine/0", "mine/1"]
    with pytest.raises(TaskError, match="or to '' to name problems by their row numbers"):
        read(tmp_path, [{**TEXT, "task_id": "a"}] * 2)


def test_ids_with_the_same_last_part_remain_distinct(tmp_path: Path) -> None:
    suite = read(tmp_path, [{**TEXT, "task_id": name} for name in ("x/a", "y/a", "b/", "c/")])
    addresses = [problem.address for problem in suite.select("")]
    assert addresses == ["mine/x/a", "mine/y/a", "mine/b/", "mine/c/"]
    assert [suite.select(name)[0].address for name in ("y/a", "c/")] == ["mine/y/a", "mine/c/"]


def test_rows_of_a_json_list_are_checked_too(tmp_path: Path) -> None:
    rows = [{**TEXT, "task_id": "a"}, {**TEXT, "task_id": "a"}]
    with pytest.raises(TaskError, match=r"mine\.json: row 0 and row 1 have the same task_id"):
        suite_of(written(tmp_path, json.dumps(rows), "mine.json"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden": ["anwser"]}, "`hidden` names 'anwser', .* did you mean 'answer'?"),
        ({"hidden": ["answer", "cases"]}, "`hidden` names 'cases', .* fields: prompt, answer"),
        ({"hidden": ["test"]}, "`hidden` names 'test', which no row"),
        ({"id_field": "promt"}, "`id_field` names 'promt', .* did you mean 'prompt'?"),
        ({"kind": "code", "hidden": ["answerr"]}, "`hidden` names 'answerr'"),
    ],
)
def test_suite_names_existing_fields(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        read(tmp_path, [TEXT, TEXT], **fields)


def test_misspelled_hidden_field_is_refused(tmp_path: Path) -> None:
    rows = [TEXT, {"prompt": "What?", "anwser": "That."}]
    with pytest.raises(TaskError, match="line 2: the field 'answer' is missing; did you mean 'anw"):
        read(tmp_path, rows, hidden=["answer"])
    with pytest.raises(TaskError, match=r"line 2: .*; faults in 2 more, e.g. line 4, line 5$"):
        read(tmp_path, [*rows, TEXT, {}, {"prompt": "x"}], hidden=["answer"])


@pytest.mark.parametrize("hidden", [[], ["answer"], ["answer", "test"]])
def test_code_always_hides_its_tests_and_its_solution(tmp_path: Path, hidden: list[str]) -> None:
    suite = read(tmp_path, [{**CODE, "answer": "x"}], kind="code", hidden=hidden)
    [problem] = suite.select("")
    assert {"test", "canonical_solution", *hidden} == set(problem.hidden)
    assert not {"test", "canonical_solution", *hidden} & set(problem.public)


@pytest.mark.parametrize("missing", ["prompt", "entry_point", "test"])
def test_incomplete_code_row_is_reported_with_its_line(tmp_path: Path, missing: str) -> None:
    row = {name: value for name, value in CODE.items() if name != missing}
    text = lines([CODE]) + "\n\r\n" + lines([row])  # blank lines count
    with pytest.raises(TaskError, match=rf"mine\.jsonl, line 4: the field '{missing}' is missing"):
        suite_of(written(tmp_path, text), kind="code")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answer": "x"}, "line 2: the field 'prompt' is missing; fields: answer"),
        ({**TEXT, "prompt": " "}, "line 2: the field 'prompt' is empty"),
        ({**TEXT, "prompt": None}, "line 2: the field 'prompt' is empty"),
        ({}, "line 2: the row has no fields"),
    ],
)
def test_text_row_without_a_prompt_is_refused_if_others_have_one(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    with pytest.raises(TaskError, match=message):
        read(tmp_path, [TEXT, row])


def test_text_rows_may_have_other_fields(tmp_path: Path) -> None:
    suite = read(tmp_path, [{"abstract": "a", "hint": "h"}, {"abstract": "b"}])
    assert [problem.public for problem in suite.select("")] == [
        {"abstract": "a", "hint": "h"},
        {"abstract": "b"},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": NaN}', "NaN is not a JSON value; write null"),
        ('{"prompt": [-Infinity]}', "-Infinity is not a JSON value"),
        ('{"prompt": 1e999}', "the number 1e999 is beyond the range of a float"),
        ('{"prompt": "a", "prompt": "b"}', "the key 'prompt' occurs twice"),
        ('{"prompt": {"a": 1, "a": 1}}', "the key 'a' occurs twice"),
        ('{"prompt": "a",}', "not JSON"),
        ('{"prompt": "a"},', "not JSON"),
        ('{"prompt": "a"} {"prompt": "b"}', "Extra data at column 17"),
        ('{"prompt": "\\ud800"}', "half of a surrogate pair"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "not JSON"),
        ('"prompt"', "expected a mapping of fields, got str"),
    ],
)
def test_json_is_read_strictly(tmp_path: Path, line: str, message: str) -> None:
    text = lines([TEXT]) + "\n" + line + "\n"
    with pytest.raises(TaskError, match=rf"mine\.jsonl, line 3: .*{message}"):
        suite_of(written(tmp_path, text))
    with pytest.raises(TaskError, match=rf"mine\.json(: not JSON|, row 1: .*{message})"):
        suite_of(written(tmp_path, f"[{json.dumps(TEXT)}, {line}]", "mine.json"))


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("mine.json", lines([TEXT, TEXT]), "if each line is a row, call the file .jsonl"),
        ("mine.jsonl", json.dumps([TEXT]), "not JSON lines, but one list; call the file .json"),
        (
            "mine.jsonl",
            json.dumps([TEXT], indent=1),
            "not JSON lines, but one list; call the file .json",
        ),
    ],
)
def test_a_file_of_the_other_form_is_refused_with_a_remedy(
    tmp_path: Path, name: str, text: str, remedy: str
) -> None:
    with pytest.raises(TaskError, match=re.escape(remedy)):
        suite_of(written(tmp_path, text, name))


def test_every_row_is_read_with_any_line_ending(tmp_path: Path) -> None:
    odd = json.dumps({**TEXT, "prompt": "a\u2028b\x85c😀"}, ensure_ascii=False)
    text = f"\ufeff{json.dumps(TEXT)}\r\n\r\n{odd}\r\n{json.dumps(TEXT)}"
    suite = suite_of(written(tmp_path, text))
    assert [problem.public["prompt"] for problem in suite.select("")] == [
        "What?",
        "a\u2028b\x85c😀",
        "What?",
    ]


def test_a_file_must_be_utf_8(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="not UTF-8 text"):
        suite_of(written(tmp_path, lines([TEXT]).encode("utf-16")))


@pytest.mark.parametrize("rows", ["3-4", "2", "1-0", "", "a-b", "0-1,7"])
def test_split_must_name_existing_rows(tmp_path: Path, rows: str) -> None:
    with pytest.raises(TaskError, match=r"the split 'test': .* set task\.splits\.test"):
        read(tmp_path, [TEXT, TEXT], splits={"train": "0", "test": rows})


def test_decompression_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(300 * gzip.compress(b" " * 1_000_000 + b"\n"))
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    with pytest.raises(TaskError, match=r"its 0\.3 MB unpack to more than 67 MB"):
        read_file(path)
    assert tracemalloc.get_traced_memory()[1] < 250_000_000
    tracemalloc.stop()


def test_file_of_too_many_problems_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "MAX_ROWS", 3)
    path = tmp_path / "many.jsonl"
    path.write_text("{}\n" * 3)
    assert len(read_file(path)) == 3
    path.write_text("{}\n" * 4)
    with pytest.raises(TaskError, match="more than 3 problems"):
        read_file(path)


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.jsonl.gz", "x.json.gz"])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a": ' * 100_000, "9" * 5000, '[{"prompt": "\\ud800"}]', "\x00"]
)
def test_invalid_json_is_refused(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    with pytest.raises(TaskError, match="not JSON"):
        read_file(path)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x1f\x8b", b"no gzip"),
        *(gzip.compress(b"{}\n", mtime=0)[:-6], zlib.compress(b"{}")),
        b"\x1f\x8b\x08\x00" + b"\x00" * 6 + b"\xff" * 20,
    ],
)
def test_invalid_gzip_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(data)
    if data:
        with pytest.raises(TaskError, match="cannot be read"):
            read_file(path)
    else:
        assert read_file(path) == []
