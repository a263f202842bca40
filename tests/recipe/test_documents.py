"""Invalid documents give a typed error quickly, whatever they contain."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collab.errors import RecipeError
from collab.recipe import documents, load_recipe
from collab.recipe.documents import parse_json, parse_yaml
from collab.recipe.overrides import apply_setting

BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
ODD = {
    "when: 2024-99-99": "line 1, column 7: not a value",
    "when: 2024-01-01T00:00:00+99:99": "not a value",
    "when: !!timestamp soon": "not a value",
    f"n: {'9' * 5000}": "not a value",
    f"n: 0x{'f' * 5000}": "a whole number of more than 1024 bits",
    f"n: 0b{'1' * 5000}": "a whole number of more than 1024 bits",
    "n: " + ":".join(["59"] * 500): "a whole number of more than 1024 bits",
    "n: " + ":".join(["59"] * 100_000): "a number of more than 10,000 characters",
    "\n".join(f"{n * (2**61 - 1)}: x" for n in range(5_000)): "more than 1,000 keys",
    "n: !!int ''": "not a value",
    "n: !!float x": "not a value",
    "b: !!bool perhaps": "not a value",
    "b: !!binary é": "line 1",
    "t: \"\\ud800\"": "half a character",
    "a: &a [*a]": "an alias refers to a value that contains it",
    "[" * 100_000: "nested too deep",
    "? [a]\n: b": "line 1",
    "a: !!python/object:os.system {}": "line 1",
    "n: \"a\\0b\"": "the character NUL",
    "[" + "x," * 250_001: "more than 500,000 characters",
    BOMB: "its aliases expand to",
    "a: &a {k: 1}\nb: {<<: *a}": "line 2, column 5: the merge key '<<'; write the merged keys out",
}  # fmt: skip


LONG = "a: [" + "x," * 240_000 + "]\nb: 1\nb: 2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *ODD.items(),
        pytest.param(LONG, "line 3, column 1: the key 'b' occurs twice", marks=pytest.mark.slow),
    ],
    ids=range(len(ODD) + 1),
)
def test_invalid_yaml_is_refused_quickly(text: str, words: str) -> None:
    started = time.process_time()
    with pytest.raises(RecipeError) as error:
        parse_yaml(text, "file.yaml")
    assert str(error.value).startswith("file.yaml")
    assert words in str(error.value)
    assert len(str(error.value)) < 500
    assert time.process_time() - started < 30


def test_thousands_of_unknown_keys_are_refused_at_once() -> None:
    data = {f"trainerxx{n}": "a" for n in range(50_000)}
    started = time.process_time()
    with pytest.raises(RecipeError, match="49,980 more unknown keys"):
        load_recipe({"team": "coding", **data})
    assert time.process_time() - started < 5


def test_a_repeated_key_is_found_at_once() -> None:
    keys = ", ".join(f'"{n}": 1' for n in [*range(50_000), 49_999])
    started = time.process_time()
    with pytest.raises(ValueError, match="'49999' occurs twice"):
        documents.parse_strict_json(f"{{{keys}}}")
    assert time.process_time() - started < 2


def test_valid_aliases_and_long_files_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_VALUES", 1000)
    assert parse_yaml("a: &a {k: 1}\nb: [*a, *a]", "x") == {
        "a": {"k": 1},
        "b": [{"k": 1}, {"k": 1}],
    }
    many = "\n".join(["- 1"] * 1_200)
    assert len(parse_yaml(many, "x")) == 1_200


@pytest.mark.parametrize("parse", [parse_json, documents.parse_strict_json])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, "9" * 5000, '"\\ud800"', '{"\\udfff": 1}', "{", b"\xff"]
)
def test_invalid_json_is_refused(parse: Callable[[Any], object], text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(text)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "NaN", "[1, -Infinity]", "1e999"])
def test_strict_parser_refuses_duplicate_keys_and_non_finite_numbers(text: str) -> None:
    parse_json(text)
    with pytest.raises(ValueError, match=r"\w"):
        documents.parse_strict_json(text)


def test_valid_json_is_parsed_in_full() -> None:
    assert parse_json('{"a": ["\\ud83d\\ude00", "\\u2028", 1e3]}') == {
        "a": ["😀", "\u2028", 1000.0]
    }


@pytest.mark.parametrize("key", ["²", "9" * 5000, "-1", ""])
def test_invalid_list_position_is_refused(key: str) -> None:
    with pytest.raises(RecipeError):
        apply_setting({"feedback": [1]}, f"feedback.{key}=2")


def test_binary_file_is_refused(tmp_path: Path) -> None:
    from collab.recipe.documents import read_mapping

    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="not UTF-8"):
        read_mapping(tmp_path / "x.yaml")
