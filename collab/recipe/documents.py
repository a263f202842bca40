"""YAML and JSON documents, read strictly: errors carry the line and column."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from collab.errors import RecipeError
from collab.runs.reading import read_bytes
from collab.wording import explain_read_error


def parse_strict_json(text: str) -> Any:
    """Return the value of a JSON text that a user wrote.

    Raises:
        ValueError: for the errors of `parse_json`, a repeated key in an object, `NaN` or
            `Infinity`, and a number beyond the range of a float.
    """
    try:
        return parse_json(
            text,
            object_pairs_hook=_make_object,
            parse_constant=_refuse_constant,
            parse_float=_parse_number,
        )
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text.strip() else ""
        raise ValueError(f"{error.msg.removesuffix(' at')} at {line}column {error.colno}") from None


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """Return the value of a JSON string from a record or a server. `json.loads` receives `hooks`.

    Raises:
        ValueError: the string is not JSON, is nested too deeply, or contains a number with too many
            digits or half of a surrogate pair.
    """
    try:
        value = json.loads(text, **hooks)
        if (b"\\ud" if isinstance(text, bytes) else "\\ud") in text.lower():  # type: ignore[operator]
            _check_surrogates(value)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key '{twice}' occurs twice in one object")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value; write null where there is no number")


def _parse_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text:.40} is beyond the range of a float")
    return number


def _check_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"\\u{ord(half):04x} is half of a surrogate pair") from None


MAX_YAML_CHARACTERS = 500_000
"""Longest YAML text. PyYAML reads 250,000 values in ten seconds."""
MAX_VALUES = 100_000
"""Limit on the values that a document's aliases expand to. Longer documents may have one value per
character."""
MAX_BITS = 1024
"""Longest whole number, in bits. Python refuses to print longer ones."""
MAX_DIGITS = 10_000
"""Longest number, in characters. YAML reads numbers to base 60 in quadratic time."""
MAX_NON_STRING_KEYS = 1_000
"""Limit on a mapping's keys that are not strings: numbers can be chosen so that all collide."""

_QUOTE_REMEDY = "; write a template in quotes: '{{ task.prompt }}'"
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file.

    Raises:
        RecipeError: the file cannot be read, does not parse (with line and column), or is not a
            mapping.
    """
    return parse_mapping(read_text(path), str(path))


def parse_mapping(text: str, place: str) -> dict[str, Any]:
    """Return the mapping in a YAML string. Errors: see `read_mapping`."""
    value = parse_yaml(text, place)
    if not isinstance(value, dict):
        raise RecipeError(
            f"{place}: expected a mapping, got {type(value).__name__}; write key: value"
        )
    return value


def read_text(path: Path) -> str:
    """Return the content of a UTF-8 text file.

    Raises:
        RecipeError: the file cannot be read, or is not UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(explain_read_error(path, error)) from error


def parse_yaml(text: str, place: str) -> Any:
    """Return the value of a YAML string. Messages give `place` as its source.

    Raises:
        RecipeError: the string is not valid YAML. The message gives the line.
    """
    if len(text) > MAX_YAML_CHARACTERS:
        raise RecipeError(
            f"{place}: more than {MAX_YAML_CHARACTERS:,} characters of YAML; shorten it"
        )
    try:
        value = _load(text)
        expanded_size = _expanded_size(value, {})
    except yaml.MarkedYAMLError as error:
        where = f", {_position(error.problem_mark)}" if error.problem_mark else ""
        began = f" {error.context}, {_position(error.context_mark)}" if error.context_mark else ""
        remedy = _QUOTE_REMEDY if error.problem == "found unhashable key" else ""
        raise RecipeError(f"{place}{where}: {error.problem}{began}{remedy}") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{place}: {error}") from error
    except RecursionError:
        raise RecipeError(f"{place}: nested too deep") from None
    if expanded_size > max(MAX_VALUES, len(text)):
        raise RecipeError(
            f"{place}: its aliases expand to {expanded_size:.0g} values, more than {MAX_VALUES:,};"
            " write the values out"
        )
    return value


def _position(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _expanded_size(value: Any, sizes: dict[int, int]) -> int:
    """Count the values in a document. An aliased value counts once per use."""
    if not isinstance(value, dict | list):
        return 1
    if (size := sizes.get(id(value))) is not None:
        if size == 0:
            raise yaml.YAMLError("an alias refers to a value that contains it")
        return size
    sizes[id(value)] = 0
    parts = value.values() if isinstance(value, dict) else value
    sizes[id(value)] = size = 1 + sum(_expanded_size(part, sizes) for part in parts)
    return size


_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _StrictConstructor(SafeConstructor):
    """Refuses values that records cannot hold, and documents that take too long to read."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag in _NUMBER_TAGS and len(node.value) > MAX_DIGITS:
            raise _refusal(f"a number of more than {MAX_DIGITS:,} characters", node)
        try:
            value = super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise _refusal(f"not a value: {error}", node) from error
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise _refusal(f"a whole number of more than {MAX_BITS} bits", node)
        if isinstance(value, str) and _SURROGATE.search(value):
            raise _refusal("half a character: a lone surrogate", node)
        if isinstance(value, str) and "\0" in value:
            raise _refusal("the character NUL", node)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[Any] = set()
        non_string_keys = 0
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":  # merges of merges could take any memory
                raise _refusal("the merge key '<<'; write the merged keys out", key_node)
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in keys:
                raise _refusal(f"the key '{key}' occurs twice", key_node)
            if isinstance(key, str):
                keys.add(key)
            elif (non_string_keys := non_string_keys + 1) > MAX_NON_STRING_KEYS:
                raise _refusal(
                    f"more than {MAX_NON_STRING_KEYS:,} keys that are not strings", key_node
                )
        return super().construct_mapping(node, deep)


class _Loader(_StrictConstructor, yaml.SafeLoader):
    pass


def _load(text: str) -> Any:
    """Parse a YAML string with libyaml, if PyYAML was built with it.

    If libyaml refuses the string, PyYAML's own parser reads it again, because its errors are
    better.
    """
    if yaml.__with_libyaml__:
        with suppress(yaml.YAMLError, UnicodeEncodeError):
            return yaml.load(text, Loader=_fast_loader())
    return yaml.load(text, Loader=_Loader)


@cache
def _fast_loader() -> Any:
    """Return a YAML loader on libyaml's parser, six times as fast. The composer is PyYAML's,
    because libyaml's crashes on deep nesting."""
    from yaml._yaml import CParser

    class Fast(Composer, CParser, _StrictConstructor, Resolver):
        def __init__(self, stream: str) -> None:
            CParser.__init__(self, stream)
            Composer.__init__(self)
            _StrictConstructor.__init__(self)
            Resolver.__init__(self)

    return Fast


def _refusal(why: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, why, node.start_mark)
