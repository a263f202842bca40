"""Recipes from objects that a Python program passes: agents, rows, functions and settings."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from collab.errors import RecipeError, UnknownName
from collab.naming import find_free_name
from collab.passed_functions import plain_name, register_function
from collab.recipe.base import Spec, paths_of
from collab.recipe.recipe import SECTIONS
from collab.recipe.team import TeamSpec

_ROWS_NAME = "rows"


def is_rows(task: Any) -> bool:
    """Return True if `task` is rows of problems, not the name or the mapping of a suite."""
    return isinstance(task, Iterable) and not isinstance(task, str | Mapping)


def suite_from_rows(rows: Iterable[Any]) -> dict[str, Any]:
    """Return the data of a suite with these rows, as in YAML, but without a reward.

    Problems are of kind `code` if every row has an `entry_point` and a `test`, otherwise `text`.

    Raises:
        RecipeError: there is no row, a row is not a mapping, or JSON cannot hold one of its fields.
    """
    checked = [_check_row(number, row) for number, row in enumerate(rows)]
    if not checked:
        raise RecipeError("the task is an empty list; pass at least one row")
    is_code = all({"entry_point", "test"} <= row.keys() for row in checked)
    return {
        "name": _ROWS_NAME,
        "kind": "code" if is_code else "text",
        "source": {"path": str(_write_rows(checked))},
    }


def source_name(file: str) -> str:
    """Return the name of a file of rows for messages. Rows passed in Python have no file."""
    return "the task passed in Python" if is_file_of_passed_rows(Path(file)) else file


def is_file_of_passed_rows(file: Path) -> bool:
    """Return True for the file of rows that were passed in Python."""
    return bool(_rows_folder.cache_info().currsize) and file.is_relative_to(_rows_folder())


def _check_row(number: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise RecipeError(
            f"row {number} of the task is a {type(row).__name__}, not a mapping of fields; for a"
            " DataFrame, give frame.to_dict('records')"
        )
    for name, value in row.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise RecipeError(
                f"row {number} of the task, field '{name}': {error}; use text, numbers, lists or"
                " mappings, or leave the field out"
            ) from None
    return {str(name): value for name, value in row.items()}


def _write_rows(rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write the rows to a file and return its path. Equal rows share one file."""
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    file = _rows_folder() / blake2b(content, digest_size=8).hexdigest() / f"{_ROWS_NAME}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    return file


@cache
def _rows_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="collab-rows-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


RUN_SECTIONS = {name: section for name, section in SECTIONS.items() if name != "trainer"}
"""The sections that describe how a team runs."""


def split_keywords(
    keywords: Mapping[str, Any],
    sections: Mapping[str, type[Spec]],
    *,
    top_keys: set[str],
    typed_settings: Sequence[str] | None = None,
    preferred: str = "",
) -> tuple[dict[str, Any], list[str]]:
    """Split keyword arguments into top-level keys of the recipe and settings of its sections.

    Args:
        typed_settings: settings as on the command line, which come first; None: the caller takes
            none.
        preferred: the section to which a key belongs if several have it.

    Raises:
        UnknownName: no section has the key.
        RecipeError: several sections have the key, or only one that is not in `sections`, or the
            settings are not a list.
    """
    if isinstance(typed_settings, str):
        raise RecipeError(f"settings is a list, e.g. ['team.turns=2'], got '{typed_settings}'")
    converter, settings = ObjectConverter(), [*(typed_settings or ())]
    for key, value in keywords.items():
        if key in top_keys:
            continue
        paths = paths_of(key, sections)
        paths = [f"{preferred}.{key}"] if f"{preferred}.{key}" in paths else paths
        if len(paths) != 1 and (others := paths or paths_of(key, SECTIONS)):
            places = [path.partition(".")[0] for path in others]
            ways = [f"{place}={{'{key}': {value!r:.40}}}" for place in places]
            if typed_settings is not None:
                ways = [f"settings=['{path}={value!s:.40}']" for path in others]
            raise RecipeError(
                f"{key} is a key of {' and of '.join(places)}; write {' or '.join(ways)}"
            )
        if not paths:
            known = {name for section in SECTIONS.values() for name in section.model_fields}
            more = ", ".join(repr(name) for name in sorted({*keywords} - known - top_keys - {key}))
            remedy = f"(also unknown: {more})" if more else ""
            raise UnknownName("setting", key, known | top_keys, remedy=remedy)
        data = converter.convert(value, key)
        text = yaml.safe_dump(data, default_flow_style=True, width=10**9, sort_keys=False)
        settings.append(f"{paths[0]}={text}")
    return {key: value for key, value in keywords.items() if key in top_keys}, settings


UserFunction = Callable[..., Any]

TeamLike = str | PathLike[str] | Mapping[str, Any] | Spec
"""A recipe as a name or file, or as data: the mapping of a team or of a recipe, as in YAML."""

Rows = Iterable[Mapping[str, Any]]
"""Problems as mappings of fields, e.g. a list of dicts or a `datasets.Dataset`."""
Problems = str | Sequence[str] | Rows | Mapping[str, Any]
"""Problems as addresses, as rows, or as one row."""

Reward = UserFunction | str | tuple[UserFunction | str, float] | Mapping[str, Any]
"""One part of a reward: a function, a part's name, either with a weight, or a mapping as in
YAML."""
Rewards = str | Reward | Sequence[Reward] | Mapping[str, Reward]
"""A joint reward: the name of a reward, one part, several parts, or a mapping from names to parts.
With an empty list, answers are not scored."""

Task = str | Mapping[str, Any] | Rows
"""A task: the name or file of a suite, a suite as in YAML, or problems."""


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Everything that a call puts in place of a recipe's own, as `load_recipe` takes it."""

    task: Task | None = None
    rewards: Rewards | None = None
    hidden: Sequence[str] | None = None
    settings: Sequence[str] = ()
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the recipe or of a section of it. A key of the recipe that is None is ignored."""
    written_in: Path | None = None
    """The file that holds the overrides. None: the user typed them, so they need no approval."""


_DATA_KEYS = ("options", "hidden")


@dataclass(frozen=True, kw_only=True)
class Agent:
    """One agent of a team made in Python, with the fields of an agent in YAML.

    `parser`, `harness`, `model` and `tools` may be functions. Defaults are the same as in YAML.
    """

    prompt: str | None = None
    role: str | None = None
    revise: str | None = None
    discuss: str | None = None
    prefix: str | None = None
    style: str | None = None
    templates: Mapping[str, str] | None = None
    harness: UserFunction | str | Mapping[str, Any] | None = None
    tools: Sequence[UserFunction | str | Mapping[str, Any]] | None = None
    parser: UserFunction | str | None = None
    contributes: bool | None = None
    model: UserFunction | str | Mapping[str, Any] | None = None
    sampling: Mapping[str, Any] | None = None
    adapter: str | PathLike[str] | None = None
    trainable: bool | None = None


class ObjectConverter:
    """Turns objects into a recipe's data. Functions get names."""

    def __init__(self) -> None:
        self.passed_names: set[str] = set()
        """Names of functions and files of rows that the user passed. They need no approval."""

    def convert(self, value: Any, key: str = "") -> Any:
        """Convert the value of `key` to plain data: text, numbers, lists and mappings.

        A scalar of numpy or torch becomes a number.

        Raises:
            RecipeError: a function is given where only data is allowed, or YAML cannot hold the
                value.
        """
        if isinstance(value, Spec):
            return value.model_dump(mode="json", exclude_none=True)
        if isinstance(value, Agent):
            keys = {name: item for name, item in vars(value).items() if item is not None}
            return self.convert(keys)
        if isinstance(value, PathLike):
            return str(Path(value))
        if isinstance(value, Mapping):
            free = key in _DATA_KEYS  # everything below it is free, too
            return {
                str(name): self.convert(item, key if free else str(name))
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.convert(item, key) for item in value]
        return self._name_function(value, key) if callable(value) else _plain_scalar(value, key)

    def _name_function(self, function: UserFunction, key: str) -> str | dict[str, str]:
        if key in _DATA_KEYS:
            raise RecipeError(
                f"{key}: the function {plain_name(function)} cannot be an option, because options"
                " must be JSON; bind it to the component with functools.partial"
            )
        if key == "model" and hasattr(function, "save_pretrained"):
            raise RecipeError(
                f"model: a loaded {plain_name(function)} cannot be passed; save it and its"
                " tokenizer with save_pretrained('FOLDER'), and write model='./FOLDER'"
            )
        name = register_function(function)
        self.passed_names.add(name)
        return {"engine": name} if key == "model" else name


def task_data(
    task: Task, current: Any, converter: ObjectConverter, *, like: str, has_rewards: bool
) -> Any:
    """Return the data of `task`, which replaces the recipe's task `current`.

    Rows without rewards keep the other keys of `current`. If the recipe has no task, the rows are
    scored like those of the suite `like`, but text is not scored if `like` is "code".

    Raises:
        RecipeError: the rows cannot be problems.
    """
    if not is_rows(task):
        return converter.convert(task)
    suite = suite_from_rows(task)
    converter.passed_names.add(suite["source"]["path"])
    if has_rewards or (current is None and like == "code" and suite["kind"] == "text"):
        return suite
    if current is None:
        return suite["source"]["path"]
    source = {**suite["source"], "adapt": None}  # the rows are in our form already
    rest = current if isinstance(current, Mapping) else {"extends": current}
    return {**rest, "source": source, "splits": {}, "id_field": "task_id"}


def replace_rewards(
    data: dict[str, Any], overrides: Overrides, converter: ObjectConverter
) -> dict[str, Any]:
    """Return a recipe with the given rewards and hidden fields in place of its task's own. Without
    any reward, its problems are text.

    Raises:
        RecipeError: there is no task, or the rewards are invalid.
    """
    rewards, hidden, task = overrides.rewards, overrides.hidden, data.get("task")
    if (rewards is None and hidden is None) or isinstance(task, str):
        return data  # the recipe refuses an address, along with all other errors
    if not isinstance(task, Mapping):
        raise RecipeError("rewards and hidden need a task, e.g. task='humaneval'")
    changed = dict(task)
    if rewards is not None:
        changed["reward"] = converter.convert(reward_data(rewards))
        if changed["reward"] is None and changed.get("kind", "code") == "code":
            changed["kind"] = "text"
    if hidden is not None:
        changed["hidden"] = [hidden] if isinstance(hidden, str) else list(hidden)
    return {**data, "task": changed}


def recipe_of_parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's data, built from keys of a team and of a recipe. A key that both have
    belongs to the team."""
    team = {key: value for key, value in parts.items() if key in TeamSpec.model_fields}
    return {"team": team, **{key: value for key, value in parts.items() if key not in team}}


def rows_in(problems: Any) -> Rows | None:
    """Return the rows in `problems`, which is one row, several rows or addresses. For addresses,
    the result is None."""
    if isinstance(problems, Mapping):
        return [problems]
    if not is_rows(problems):
        return None
    listed = [*problems]
    return listed if any(isinstance(item, Mapping) for item in listed) else None


def reward_data(rewards: Rewards) -> str | dict[str, Any] | None:
    """Return a joint reward in its YAML form, in which functions are still Python objects; None for
    an empty list.

    Raises:
        RecipeError: something is not a part of a reward.
    """
    if isinstance(rewards, str):
        return rewards
    if isinstance(rewards, Mapping):
        if "parts" in rewards:
            return dict(rewards)
        if "use" not in rewards:
            return {"parts": {name: _part_data(part) for name, part in rewards.items()}}
    single = callable(rewards) or isinstance(rewards, Mapping) or _is_weighted(rewards)
    listed: Any = [rewards] if single else rewards
    named: dict[str, Any] = {}
    for part in map(_part_data, listed):
        use = part["use"]
        name = use.rpartition(":")[2] if isinstance(use, str) else plain_name(use)
        named[find_free_name(name, named.__contains__, "_")] = part
    return {"parts": named} if named else None


def _part_data(part: Any) -> dict[str, Any]:
    if callable(part) or isinstance(part, str):
        return {"use": part}
    if isinstance(part, Mapping) and "use" in part:
        return dict(part)
    if _is_weighted(part):
        return {"use": part[0], "weight": float(part[1])}
    raise RecipeError(
        "a reward is a function, a part's name, one of these with a weight, (right, 0.5), or a"
        f" mapping {{'use': right, 'weight': 0.5, 'solves': True}}, got {part!r:.80}"
    )


def _is_weighted(part: Any) -> bool:
    pair = isinstance(part, tuple) and len(part) == 2
    return pair and isinstance(part[1], int | float) and not isinstance(part[1], bool)


def _plain_scalar(value: Any, key: str) -> Any:
    """Return a string, number, boolean or None as YAML has it, and refuse any other value."""
    if getattr(value, "shape", None) == ():  # of numpy or torch
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # of an enumeration's member its value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    if hasattr(value, "generate"):
        raise RecipeError(
            f"{key or 'the recipe'}: pass a function that returns the engine, e.g. lambda spec:"
            " engine"
        )
    raise RecipeError(
        f"{key or 'the recipe'}: YAML cannot hold {value!r:.40} of type {type(value).__name__};"
        " use text, a number, a list or a mapping (for an array, .tolist())"
    )
