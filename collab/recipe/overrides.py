"""`--set path.to.key=value`, applied to a recipe's raw data before it is validated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collab.errors import RecipeError, UnknownName
from collab.recipe.documents import parse_yaml
from collab.recipe.task import ORIGINS, without_former

_NAMED = {"agents": "agent", "parts": "part of the reward"}
"""Keys whose entries are named by the user, so that a wrong name would make another entry."""


LONGEST_POSITION = 9
"""Digits."""


def apply(data: dict[str, Any], setting: str) -> None:
    """Change `data` in place by a setting of the form `key.key=value`; the value is YAML.

    `agents.NAME` is short for `team.agents.NAME`. A number selects an entry of a list.

    Raises:
        RecipeError: a setting that is not of this form, or whose path leads nowhere; with the
            nearest name where an agent or a part is not there.
    """
    path, equals, text = setting.partition("=")
    if not equals or not path.strip():
        raise RecipeError(f"--set takes KEY=VALUE, got '{setting}'")
    keys = path.strip().split(".")
    if keys[0] == "agents":
        keys.insert(0, "team")
    _assign(data, keys, parse_yaml(text, f"--set {path}"), setting)
    if origin := _origin_in(setting):
        data["task"] = without_former(data["task"], origin)


def ordered(settings: Sequence[str]) -> list[str]:
    """The settings in order, but splits last: a setting of where rows come from drops others."""
    return sorted(settings, key=lambda setting: setting.strip().startswith("task.splits"))


def _origin_in(setting: str) -> str:
    """The key of a setting that says where a suite's rows come from; "" of others."""
    above, _, last = setting.partition("=")[0].strip().rpartition(".")
    return last if above == "task.source" and last in ORIGINS else ""


def texts(settings: Sequence[str]) -> set[str]:
    """Every text within the values of some settings: the user's own words."""
    words: set[str] = set()
    waiting = [parse_yaml(setting.partition("=")[2], "--set") for setting in settings]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        else:
            words.add(str(value))
    return words


def _assign(data: Any, keys: list[str], value: Any, setting: str) -> None:
    for above, key in zip([None, *keys], keys[:-1], strict=False):
        if above in _NAMED and isinstance(data, dict) and key not in data:
            raise UnknownName(_NAMED[above], key, data)
        data = _descend(data, key, setting)
    last = keys[-1]
    if isinstance(data, list):
        data[_position(data, last, setting)] = value
    else:
        data[last] = value


def _descend(data: Any, key: str, setting: str) -> Any:
    if isinstance(data, list):
        return data[_position(data, key, setting)]
    if data.get(key) is None:
        data[key] = {}
    if not isinstance(data[key], dict | list):
        raise RecipeError(f"--set {setting}: '{key}' is {data[key]!r}, which has no keys")
    return data[key]


def _position(data: list[Any], key: str, setting: str) -> int:
    if not key.isdecimal() or len(key) > LONGEST_POSITION or int(key) >= len(data):
        raise RecipeError(f"--set {setting}: '{key}' is not a position in a list of {len(data)}")
    return int(key)
