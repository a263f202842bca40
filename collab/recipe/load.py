"""Turns the user's input into a validated recipe: looks up names, applies overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from collab.errors import RecipeError
from collab.naming import as_name
from collab.recipe import library
from collab.recipe.approval import allow, allowed_in, question_of
from collab.recipe.base import Spec
from collab.recipe.feedback import SOURCES
from collab.recipe.files import Files, display_path
from collab.recipe.in_python import (
    ObjectConverter,
    Overrides,
    Rewards,
    Task,
    TeamLike,
    replace_rewards,
    split_keywords,
    task_data,
)
from collab.recipe.library import ORIGINS, ComponentKind, is_member, suite_data_of_member
from collab.recipe.model import parse_model
from collab.recipe.names import names_of_data
from collab.recipe.overrides import (
    MODEL_PREFIX,
    apply_setting,
    order_settings,
    strings_in_settings,
)
from collab.recipe.recipe import DEFAULT_MODEL, SECTIONS, Recipe
from collab.recipe.task import TABLE_ENDINGS, TaskSpec, drop_former_source, with_seeds
from collab.recipe.trainer import TrainerSpec
from collab.runs.layout import RECIPE
from collab.trust import Consent, Question, from_hub
from collab.trust.blocking import is_own
from collab.wording import plain_reason

S = TypeVar("S", bound=Spec)

_MAX_EXTENDS = 8
_REWARDS_ARGUMENT = " (in Python: rewards=[...])"
_NAMEABLE_KEYS = {"team": "", "task": "", "trainer": "", "model": "", "reward": _REWARDS_ARGUMENT}
"""Keys that take a name or a mapping, with the Python argument that takes other values."""


def load_recipe(
    name: TeamLike,
    *,
    task: Task | None = None,
    rewards: Rewards | None = None,
    hidden: Sequence[str] | None = None,
    settings: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
    trust: Consent = False,
    **more: Any,
) -> Recipe:
    """Return a recipe, loaded by team name, file or run folder, or from a mapping with a file's
    content.

    `hub:OWNER/NAME` loads a team from the hub, which needs approval like any third-party folder. A
    mapping may contain a function wherever a file may name one.

    Args:
        task: a suite's name or file, or rows, instead of the recipe's task.
        rewards: functions with weights, instead of the task's reward.
        hidden: names of hidden fields, instead of the task's own.
        settings: overrides of the form `key.key=value`.
        defaults: top-level keys for a recipe that does not set them itself.
        trust: approval of the code that a third-party recipe would run, or a function that asks for
            it.
        more: keys that replace the recipe's own, at its top level or in a section of it, e.g.
            `model="echo"`, `turns=2`. A top-level key that is None is ignored.

    Raises:
        RecipeError: an unknown name or key, a wrong value, a file that cannot be read.
        Untrusted: the recipe is third-party, would run code, and is not approved.
    """
    overrides = Overrides(task=task, rewards=rewards, hidden=hidden, settings=settings, keys=more)
    recipe, question = read_recipe(name, overrides, defaults=defaults)
    allow(recipe, question, trust)
    return recipe


def read_recipe(
    name: TeamLike,
    overrides: Overrides | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
) -> tuple[Recipe, Question]:
    """Return the recipe, not yet approved, and the question that the user must answer before it
    runs.

    Raises:
        RecipeError: see `load_recipe`.
    """
    overrides = overrides or Overrides()
    keys, settings = split_keywords(
        overrides.keys, SECTIONS, top_keys={*Recipe.model_fields}, typed_settings=overrides.settings
    )
    files, converter = Files(), ObjectConverter()
    if overrides.written_in:
        files.read(overrides.written_in)
    data = {**(defaults or {}), **_read_base(name, files, converter)}
    data |= {key: converter.convert(item, key) for key, item in keys.items() if item is not None}
    data = _expand_recipe(_replace_task(data, overrides, files, converter), files)
    data = replace_rewards(data, overrides, converter)
    data = _apply_settings(data, settings, files)
    place = (
        name if isinstance(name, str) else str(data.get("name") or "the recipe passed in Python")
    )
    recipe = validate(Recipe, data, _place_with_files(place, files))
    typed = {str(value) for value in (overrides.task, *keys.values()) if value}
    typed |= strings_in_settings(settings) | converter.passed_names
    if isinstance(name, Spec):
        typed |= allowed_in(name)
    return recipe, question_of(place, recipe, files, set() if overrides.written_in else typed)


def _replace_task(
    data: dict[str, Any], overrides: Overrides, files: Files, converter: ObjectConverter
) -> dict[str, Any]:
    """Put the given task in place of the recipe's own, unless this is the given suite already."""
    task = overrides.task
    if task is None or (isinstance(task, str) and _is_suite(data.get("task"), task)):
        return data
    data = _expand_recipe(data, files, ("team",))
    like = _suite_for_files(data.get("team"), files)
    current, has_rewards = _as_suite(data.get("task"), like), overrides.rewards is not None
    if isinstance(task, str):
        converter.passed_names |= _own_functions_of_suite(task, files.project)
    task = task_data(task, current, converter, like=like, has_rewards=has_rewards)
    return {**data, "task": task}


def _own_functions_of_suite(name: str, project: Path | None) -> set[str]:
    """Return the user's own functions in a suite, or none if one of its files is third-party."""
    files = Files()
    files.project = project
    names = names_of_data(_expand_recipe({"task": name}, files))
    functions = {text for kind, _, text in names if kind == "file function" and not files.foreign}
    return {text for text in functions if is_own(Path(text.rpartition(":")[0]))}


def _apply_settings(data: dict[str, Any], settings: Sequence[str], files: Files) -> dict[str, Any]:
    """Change the recipe by settings, then fill in its model. A setting may reach into a component
    that an earlier one names."""
    for setting in order_settings(settings):
        data = _expand_recipe(data, files)
        if setting.strip().startswith(MODEL_PREFIX):
            data = _with_model(data)
        apply_setting(data, setting)
    return _with_model(_expand_recipe(data, files))


def _place_with_files(place: str, files: Files) -> str:
    """Return the recipe's name with the user's files that it was read from, for errors."""
    read = [p for p in (*files.trusted, *files.foreign) if not library.is_shipped(p)]
    shown = dict.fromkeys(display_path(path) for path in read)
    others = ", ".join(file for file in shown if file != place)
    return f"{place} ({others})" if others else place


def load_task(
    name: str, *, settings: Sequence[str] = (), like: str = "code", trust: Consent = False
) -> TaskSpec:
    """Return a suite, loaded by its library name, or by the path of a YAML or data file.

    Args:
        like: the suite from which a data file takes its kind and reward.
        trust: see `load_recipe`.

    Raises:
        RecipeError, Untrusted: see `load_recipe`.
    """
    spec, question = read_task(name, settings=settings, like=like)
    allow(spec, question, trust)
    return spec


def read_task(
    name: str, *, settings: Sequence[str] = (), like: str = "code"
) -> tuple[TaskSpec, Question]:
    """Return the suite, not yet approved, and the question that the user must answer before it
    runs."""
    files = Files()
    files.search_from(Path(name))
    data = {"task": _expand("task", _as_suite(name, like), files)}
    for setting in order_settings(settings):
        apply_setting(data, setting)
        data["task"] = _expand("task", data["task"], files)
    spec = validate(TaskSpec, data["task"], name)
    return spec, question_of(name, spec, files, strings_in_settings(settings) | {name})


def read_trainer(name: str) -> TrainerSpec:
    """Return a trainer, read by its library name or file, without approval.

    Raises:
        RecipeError: see `load_recipe`.
    """
    files = Files()
    files.search_from(Path(name))
    return validate(TrainerSpec, _expand("trainer", name, files), name)


def validate(spec: type[S], data: Any, place: str) -> S:
    """Return `data` as a part of the recipe. Errors give `place` as its source.

    Raises:
        RecipeError: `data` is invalid. One message lists every error.
    """
    try:
        return spec.model_validate(data)
    except ValidationError as error:
        raise RecipeError("\n".join(_error_lines(place, error))) from None


def _error_lines(place: str, error: ValidationError) -> list[str]:
    lines: dict[str, str] = {}  # a team's model is the recipe's too: its faults are listed once
    for problem in error.errors():
        path = ".".join(str(key) for key in problem["loc"])
        key, message = path.rpartition(".")[2], plain_reason(problem["msg"])
        if problem["type"] == "model_type" and key in _NAMEABLE_KEYS:
            message = f"must be a name or a mapping{_NAMEABLE_KEYS[key]}"
        if problem["type"] == "missing" and path == "team":
            message = "missing; name a team, e.g. team: coding (`collab teams` lists them)"
        if problem["type"] not in ("missing", "value_error"):
            message += f", got {problem['input']!r:.80}"
        if problem["type"] == "string_type" and isinstance(problem["input"], int | float):
            message += f'; write "{problem["input"]}", quotes included'
        for text in message.split("\n"):
            line = f"{path + ': ' if path else ''}{text}"
            lines.setdefault(line.replace("team.model", "model"), f"{place}: {line}")
    return list(lines.values())


def _read_base(name: TeamLike, files: Files, converter: ObjectConverter) -> dict[str, Any]:
    if isinstance(name, Mapping | Spec):
        data: dict[str, Any] = converter.convert(name)
        return {"team": data} if "agents" in data else data
    if not isinstance(name, str | PathLike):
        raise RecipeError(
            f"a team is a name, a file, a folder, a mapping or a collab.Team, got {name!r:.60}"
        )
    text = fspath(name)
    path = from_hub.fetch_team(text) if text.startswith(from_hub.PREFIX) else Path(text)
    if path.is_dir() and (path / RECIPE).is_file():
        files.search_from(path / RECIPE)
        return files.read(path / RECIPE, may_be_own=False)
    if library.is_yaml(path):
        files.search_from(path)
        data = files.read(path)
        return {"team": str(path)} if "agents" in data else data
    return {"team": text}


def _expand_recipe(
    data: dict[str, Any], files: Files, kinds: Sequence[ComponentKind] = ("team", "task", "trainer")
) -> dict[str, Any]:
    expanded = dict(data)
    for kind in kinds:
        value = expanded.get(kind)
        if kind == "task":
            value = _as_suite(value, _suite_for_files(expanded.get("team"), files))
            if _is_address(value, files):
                continue  # the recipe refuses it, along with all other errors
        if value is not None:
            expanded[kind] = _expand(kind, value, files)
    return expanded


_FORMER_SUITES = {"posts": "tldr", "abstracts": "arxiv"}
"""Suites without rows that shipped teams named, as folders of older runs still do."""


def _suite_for_files(team: Any, files: Files) -> str:
    """Return the suite that provides kind and reward for a file of rows."""
    suite = str(team.get("suite", "code")) if isinstance(team, dict) else "code"
    if suite in _FORMER_SUITES and suite not in dict(library.components("task", files.project)):
        return _FORMER_SUITES[suite]
    return suite


def _with_model(data: dict[str, Any]) -> dict[str, Any]:
    """Fill in the team's own model for a recipe that names none."""
    team = data.get("team")
    team_model = team.get("model") if isinstance(team, dict) else None
    model = data.get("model") or team_model or DEFAULT_MODEL
    return {**data, "model": parse_model(model) if isinstance(model, str) else model}


def _is_suite(task: Any, name: str) -> bool:
    """Return True if `task` is the suite `name`, and the file of its rows, if any, exists here."""
    if not isinstance(task, dict) or task.get("name", "") != name:
        return False
    source = task.get("source")
    path = source.get("path") if isinstance(source, dict) else None
    return not isinstance(path, str) or Path(path).exists()


def _is_address(task: Any, files: Files) -> bool:
    """Return True for tasks of a suite, e.g. `humaneval/0-3`, where only a suite fits."""
    suite = task.rpartition("/")[0] if isinstance(task, str) else ""
    if not suite or Path(task).exists():
        return False
    known = dict(library.components("task", files.project))
    return suite in known or is_member(suite) or Path(suite).is_file()


def _as_suite(task: Any, like: str) -> Any:
    """Return a suite that is a data file in its YAML form, extending `like`."""
    if isinstance(task, str) and (suite := suite_data_of_member(task)) and not Path(task).exists():
        return suite
    data = (".jsonl", ".json", ".gz", *TABLE_ENDINGS)  # tables are refused where they are read
    if not isinstance(task, str) or Path(task).suffix not in data:
        return task
    path = Path(task)
    return {
        "extends": like,
        "name": as_name(path.name.partition(".")[0]),
        "source": {"path": str(path.resolve())},
    }


def _expand(kind: ComponentKind, value: Any, files: Files, depth: int = 0, where: str = "") -> Any:
    """Replace a name, which is given `where`, by the component's mapping, and follow `extends`."""
    if depth > _MAX_EXTENDS:
        raise RecipeError(
            f"{kind} {value!r:.60}: more than {_MAX_EXTENDS} levels of 'extends'; if it extends"
            " itself, e.g. a shipped one of the same name, rename it"
        )
    file = files.recipe_file
    if isinstance(value, str):
        file = library.find_component(kind, value, files.project, where)
        value = {"name": as_name(file.stem), **files.read(file)}
    if not isinstance(value, dict):
        return value
    if "extends" in value:
        keys = {key: item for key, item in value.items() if key != "extends"}
        where = f"(`extends` in {file})" if file else "(`extends`)"
        base = _expand(kind, str(value["extends"]), files, depth + 1, where)
        value = _merge_task(base, keys) if kind == "task" else _merge(base, keys)
    if kind == "team":
        _expand_short_forms(value)
    if kind == "task":
        value = with_seeds(value)
        if isinstance(value.get("reward"), str | dict):
            value["reward"] = _expand("reward", value["reward"], files)
    return value


def _merge_task(base: Any, override: dict[str, Any]) -> Any:
    """Merge a task into the task that it extends. Its own row source replaces the other's."""
    source = override.get("source")
    source = source if isinstance(source, dict) else {}
    origins = [key for key in ORIGINS if source.get(key)]
    if len(origins) != 1 or not isinstance(base.get("source"), dict):
        return _merge(base, override)
    return _merge(drop_former_source(base, origins[0], source[origins[0]]), override)


def _expand_short_forms(team: dict[str, Any]) -> None:
    """Write out the short forms of models and feedback, so `--set` can reach into them."""
    agents = team.get("agents")
    for part in (team, *(agents.values() if isinstance(agents, dict) else ())):
        if isinstance(part, dict) and isinstance(part.get("model"), str):
            part["model"] = parse_model(part["model"])
    if isinstance(team.get("feedback"), str):
        team["feedback"] = [team["feedback"]]
    if isinstance(team.get("feedback"), list):
        team["feedback"] = [
            {"source": item} if isinstance(item, str) and (item in SOURCES or ":" in item) else item
            for item in team["feedback"]
        ]


def _merge(base: Any, override: Any) -> Any:
    if isinstance(base, dict) and isinstance(override, dict):
        merged = dict(base)
        if override.get("use", base.get("use")) != base.get("use"):
            merged.pop("options", None)  # they are those of the former component
        for key, value in override.items():
            merged[key] = _merge(base[key], value) if key in base else value
        return merged
    return override
