"""From what a user wrote to a validated recipe: names looked up, overrides applied."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from collab.errors import RecipeError
from collab.recipe import documents, library, overrides
from collab.recipe.base import Spec, path_of
from collab.recipe.feedback import SOURCES
from collab.recipe.library import Kind
from collab.recipe.model import parse_model
from collab.recipe.recipe import DEFAULT_MODEL, SECTIONS, Recipe
from collab.recipe.task import TaskSpec

S = TypeVar("S", bound=Spec)

_MAX_EXTENDS = 8


def load_recipe(
    name: str,
    *,
    task: str | None = None,
    settings: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
    **top: Any,
) -> Recipe:
    """The recipe for a team's name, a team file, a recipe file, or a run's folder.

    Args:
        task: a suite's name or file; in place of the recipe's own.
        settings: overrides of the form `key.key=value`.
        defaults: top-level keys for a recipe that does not give them itself.
        top: top-level keys in place of the recipe's own, e.g. `model="echo"`; None is ignored.

    Raises:
        RecipeError: an unknown name or key, a wrong value, a file that cannot be read.
    """
    _check_top(top)
    data = {"model": DEFAULT_MODEL, **(defaults or {}), **_written(name)}
    data.update({key: value for key, value in top.items() if value is not None})
    own = data.get("task")
    if task is not None and not _is_suite(own, task):
        data["task"] = task
    data = _expand_recipe(data, Path.cwd())
    for setting in settings:
        overrides.apply(data, setting)
        data = _expand_recipe(data, Path.cwd())
    return validate(Recipe, data, name)


def _check_top(top: dict[str, Any]) -> None:
    """A key of a section is a setting; say which."""
    for key, value in top.items():
        path = path_of(key, SECTIONS)
        if key not in Recipe.model_fields and path:
            setting = f"{path}={json.dumps(value, default=str, ensure_ascii=False)}"
            raise RecipeError(f"'{key}' is not a key of the recipe; write settings=[{setting!r}]")


def load_task(name: str, *, settings: Sequence[str] = (), like: str = "code") -> TaskSpec:
    """A suite by its library name, or by the path of a YAML or data file.

    Args:
        like: the suite whose kind and reward a data file takes.
    """
    data = {"task": _expand("task", _as_suite(name, like), Path.cwd())}
    for setting in settings:
        overrides.apply(data, setting)
        data["task"] = _expand("task", data["task"], Path.cwd())
    return validate(TaskSpec, data["task"], name)


def validate(spec: type[S], data: Any, place: str) -> S:
    """Check `data` against a part of the recipe; every error in one message."""
    try:
        return spec.model_validate(data)
    except ValidationError as error:
        raise RecipeError("\n".join(_explain(place, error))) from None


def _explain(place: str, error: ValidationError) -> list[str]:
    lines = []
    for problem in error.errors():
        path = ".".join(str(key) for key in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] not in ("unknown_key", "missing", "value_error"):
            message += f", got {problem['input']!r:.80}"
        lines.append(f"{place}: {path + ': ' if path else ''}{message}")
    return list(dict.fromkeys(lines))


def _written(name: str) -> dict[str, Any]:
    path = Path(name)
    if path.is_dir() and (path / "recipe.yaml").is_file():
        path = path / "recipe.yaml"
    if path.suffix in (".yaml", ".yml"):
        data = documents.read_mapping(path)
        if "agents" in data:
            return {"team": str(path)}
        return _relative_to(data, path.parent)
    return {"team": name}


def _relative_to(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Files named in a recipe are looked for beside it, those of a trained team among them."""
    for kind in ("team", "task", "trainer"):
        _point_beside(data, kind, folder)
    _point_beside(data.get("model"), "name", folder)
    _point_beside(data.get("task"), "source.path", folder)
    team = data.get("team")
    agents = team.get("agents") if isinstance(team, dict) else None
    for agent in agents.values() if isinstance(agents, dict) else ():
        _point_beside(agent, "adapter", folder)
        _point_beside(agent, "model.name", folder)
    return data


def _point_beside(data: Any, key: str, folder: Path) -> None:
    """Make a relative path absolute where a file, a model or an adapter lies there in `folder`."""
    first, _, rest = key.partition(".")
    value = data.get(first) if isinstance(data, dict) else None
    if rest:
        _point_beside(value, rest, folder)
    elif isinstance(value, str) and _is_component(folder / value):
        data[first] = str((folder / value).resolve())


def _is_component(path: Path) -> bool:
    """A file, or a folder with a model or an adapter."""
    return any((path / name).is_file() for name in ("", "config.json", "adapter_config.json"))


def _expand_recipe(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    expanded = dict(data)
    for kind in ("team", "task", "trainer"):
        value = expanded.get(kind)
        if kind == "task":
            value = _as_suite(value, _like(expanded.get("team")))
        if value is not None:
            expanded[kind] = _expand(kind, value, folder)
    if isinstance(expanded.get("model"), str):
        expanded["model"] = parse_model(expanded["model"])
    return expanded


def _like(team: Any) -> str:
    return str(team.get("suite", "code")) if isinstance(team, dict) else "code"


def _is_suite(task: Any, name: str) -> bool:
    """Whether `task` is the suite called `name`, with its data, which another machine may lack."""
    if not isinstance(task, dict) or task.get("name") != name:
        return False
    source = task.get("source")
    path = source.get("path") if isinstance(source, dict) else None
    return not isinstance(path, str) or Path(path).exists()


def _as_suite(task: Any, like: str) -> Any:
    """A task that is a data file, written as a suite of its own that extends `like`."""
    if not isinstance(task, str) or Path(task).suffix not in (".jsonl", ".json", ".gz"):
        return task
    path = Path(task)
    return {
        "extends": like,
        "name": path.name.partition(".")[0],
        "source": {"path": str(path.resolve())},
    }


def _expand(kind: Kind, value: Any, folder: Path, depth: int = 0) -> Any:
    """Replace a name by the component's mapping, and follow `extends`."""
    if depth > _MAX_EXTENDS:
        raise RecipeError(f"{kind} {value!r:.60}: more than {_MAX_EXTENDS} levels of 'extends'")
    if isinstance(value, str):
        path = library.find(kind, value)
        value = {"name": path.stem, **documents.read_mapping(path)}
        folder = path.parent
        _make_paths_absolute(kind, value, folder)
    if not isinstance(value, dict):
        return value
    if "extends" in value:
        own = {key: item for key, item in value.items() if key != "extends"}
        value = _merge(_expand(kind, str(value["extends"]), folder, depth + 1), own)
    if kind == "team":
        _expand_team(value)
    if kind == "task" and isinstance(value.get("reward"), str | dict):
        value["reward"] = _expand("reward", value["reward"], folder)
    return value


def _expand_team(team: dict[str, Any]) -> None:
    """Write the short forms of models and feedback out, so that `--set` can reach into them."""
    agents = team.get("agents")
    for agent in agents.values() if isinstance(agents, dict) else ():
        if isinstance(agent, dict) and isinstance(agent.get("model"), str):
            agent["model"] = parse_model(agent["model"])
    if isinstance(team.get("feedback"), list):
        team["feedback"] = [
            {"source": source} if isinstance(source, str) and source in SOURCES else source
            for source in team["feedback"]
        ]


def _make_paths_absolute(kind: Kind, value: dict[str, Any], folder: Path) -> None:
    source = value.get("source")
    if kind == "task" and isinstance(source, dict) and isinstance(source.get("path"), str):
        source["path"] = str((folder / source["path"]).resolve())


def _merge(base: Any, own: Any) -> Any:
    if isinstance(base, dict) and isinstance(own, dict):
        merged = dict(base)
        for key, value in own.items():
            merged[key] = _merge(base[key], value) if key in base else value
        return merged
    return own
