"""Settings by path: `--set path.to.key=value` is applied to raw data before it is validated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

from collab.errors import RecipeError, UnknownName
from collab.recipe.documents import parse_yaml
from collab.recipe.library import ORIGINS
from collab.recipe.task import drop_former_source

_ENTRY_NOUNS = {"agents": "agent", "parts": "part of the reward"}
"""Keys whose entries the user names, so that a mistyped name would silently add an entry."""


MODEL_PREFIX = "model"
"""Beginning of the settings of the recipe's model."""


def apply_setting(data: dict[str, Any], setting: str) -> None:
    """Change `data` in place by a setting of the form `key.key=value`, with a value in YAML.

    `agents.NAME` is short for `team.agents.NAME`. A number selects an entry of a list.

    Raises:
        RecipeError: the setting does not have this form, or its path does not exist. For a missing
            agent or part, the message suggests the nearest name.
    """
    path, equals, text = setting.partition("=")
    if not equals or not path.strip():
        raise RecipeError(f"a setting has the form KEY=VALUE, e.g. team.turns=2, got '{setting}'")
    keys = path.strip().split(".")
    if keys[0] == "agents":
        keys.insert(0, "team")
    value = parse_yaml(text, f"setting {path}")
    former = task.get("source") if isinstance(task := data.get("task"), dict) else None
    if keys == ["task", "source"] and _has_other_kind(former, value):
        data["task"].pop("splits", None)  # ranges of the old rows
    if keys[:-1] == ["task", "source"] and _has_other_kind(former, {keys[-1]: value}):
        data["task"] = drop_former_source(data["task"], keys[-1], value)
    _set_value(data, keys, value, setting)


def _has_other_kind(former: Any, source: Any) -> bool:
    """Return True if a setting changes the kind of a task's row source. A file that has moved is
    still the same."""
    if not (isinstance(former, dict) and isinstance(source, dict) and set(ORIGINS) & set(source)):
        return False
    return any(former.get(origin) and not source.get(origin) for origin in ORIGINS)


def order_settings(settings: Sequence[str]) -> list[str]:
    """Return the settings with the model and the details of the row source last. A setting of where
    the rows come from drops the existing details and splits, and one of the team may choose the
    model."""
    return sorted(settings, key=_comes_last)


def _comes_last(setting: str) -> bool:
    path = setting.partition("=")[0].strip()
    is_detail = path.startswith("task.source.") and path.split(".")[2] not in ORIGINS
    return is_detail or path.startswith(("task.splits", MODEL_PREFIX))


def flatten(data: Any, above: str = "") -> dict[str, Any]:
    """Return nested settings as a flat mapping from path, as for `--set`, to value."""
    if not isinstance(data, dict):
        return {above: data}
    settings: dict[str, Any] = {}
    for key, value in data.items():
        settings |= flatten(value, f"{above}.{key}" if above else str(key))
    return settings


def strings_in_settings(settings: Sequence[str]) -> set[str]:
    """Return all strings in the values of settings that the user typed.

    Each list also counts as one string, in the form of `join_command`.
    """
    words: set[str] = set()
    waiting = [parse_yaml(setting.partition("=")[2], setting) for setting in settings]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
            words.add(join_command(value))
        else:
            words.add(str(value))
    return words


def join_command(words: Iterable[object]) -> str:
    """Return the words of a command as one string. It differs from every string that is a single
    word."""
    return "".join(f"\0{word}" for word in words)


def _set_value(data: Any, keys: list[str], value: Any, setting: str) -> None:
    for above, key in zip([None, *keys], keys[:-1], strict=False):
        if above in _ENTRY_NOUNS and isinstance(data, dict) and key not in data:
            raise UnknownName(_ENTRY_NOUNS[above], key, data)
        data = _descend(data, key, setting)
    last = keys[-1]
    if isinstance(data, list):
        data[_position(data, last, setting)] = value
    else:
        data[last] = value


def _descend(data: Any, key: str, setting: str) -> Any:
    place: Any = _position(data, key, setting) if isinstance(data, list) else key
    if isinstance(data, dict) and data.get(key) is None:
        data[key] = {}
    if not isinstance(data[place], dict | list):
        raise RecipeError(f"setting {setting}: '{key}' is {data[place]!r}, which has no keys")
    data[place] = copy(data[place])  # in YAML, an alias may share it with another agent
    return data[place]


def _position(data: list[Any], key: str, setting: str) -> int:
    if key not in map(str, range(len(data))):
        raise RecipeError(f"setting {setting}: '{key}' is not a position in a list of {len(data)}")
    return int(key)
