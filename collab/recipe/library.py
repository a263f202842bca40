"""Looks components up by name: in the recipe's project, the current folder, then the library.

Large families of suites have no file per suite. `reasoning_gym/NAME` is the suite of one of its
sets, and `verifiers/NAME` the suite of an environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from collab.errors import RecipeError, UnknownName
from collab.runs.layout import RECIPE

ComponentKind = Literal["team", "task", "reward", "trainer"]

FOLDERS: dict[ComponentKind, str] = {
    "team": "agents",
    "task": "tasks",
    "reward": "tasks/rewards",
    "trainer": "trainers",
}

ORIGINS = ("package", "path", "hub", "generate")
"""Keys of a suite's source that set where its rows come from."""
FAMILIES = {"reasoning_gym": "name", "verifiers": "environment"}
"""Families of suites, with the option of the generator of that name that selects a member."""
_MEMBER_NAME = re.compile(rf"(?:{'|'.join(FAMILIES)})/[a-z][\w-]*", re.ASCII)


YAML_ENDINGS = (".yaml", ".yml")


def is_yaml(name: str | Path) -> bool:
    """Return True for a YAML file, by its name."""
    return str(name).endswith(YAML_ENDINGS)


def name_of(path: Path) -> str:
    """Return the name of a component's file or of a run's folder."""
    return path.stem if is_yaml(path) else path.resolve().name


def roots(project: Path | None = None) -> list[Path]:
    """Return the folders that hold `agents/`, `tasks/` and `trainers/`, in order of precedence."""
    return [*([project] if project else []), Path.cwd(), library_root()]


def project_of(file: Path) -> Path:
    """Return the first folder above a recipe file that is not a folder for components."""
    folder_names = {part for folder in FOLDERS.values() for part in Path(folder).parts}
    folder = file.resolve().parent
    while folder.name in folder_names and not any(
        (folder / name).is_dir() for name in FOLDERS.values()
    ):
        folder = folder.parent
    return folder


def library_root() -> Path:
    """Return the library that comes with collab: inside the wheel, or the checkout's own root."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "library"
    return inside if inside.is_dir() else package.parent


def is_shipped(path: Path) -> bool:
    """Return True if a file, given by its whole path, is part of the shipped library."""
    return any(path.is_relative_to(library_root() / folder) for folder in FOLDERS.values())


_KIND_NOUNS = {"task": "suite"}
_CURRENT_NAMES: dict[tuple[ComponentKind, str], list[str]] = {
    ("trainer", "magrpo-tree"): ["cross-tree"]
}
"""The current names of renamed components."""


def find_component(
    kind: ComponentKind, name: str, project: Path | None = None, remedy: str = ""
) -> Path:
    """Return the YAML file of a component, by path or by name. A name is looked up in `project`
    first. `remedy` ends the error for an unknown name.

    Raises:
        UnknownName: there is no such name. The message suggests the new name of a renamed
            component, otherwise the nearest name.
        RecipeError: there is no such file, or a function is named instead of a reward.
    """
    if kind == "reward" and re.fullmatch(r".+:[^\W\d]\w*", name):
        raise RecipeError(
            f"unknown reward {name!r}; to use a function, make it a part:"
            f" reward: {{parts: {{NAME: {{use: {name}}}}}}} (in Python: rewards=[...])"
        )
    if is_yaml(name) or "/" in name:
        path = Path(name)
        if not path.is_file():
            noun = _KIND_NOUNS.get(kind, kind)
            raise RecipeError(f"{noun} file '{name}' does not exist (current folder: {Path.cwd()})")
        return path
    known = dict(components(kind, project))
    if name not in known:
        if Path(name).is_dir():
            remedy = f"(the folder {name} contains no {RECIPE})"
        elif kind == "task" and " " in name:
            remedy = "(for a text of your own: collab run TEAM --prompt TEXT, or in Python the row"
            remedy += " {'prompt': TEXT})"
        suggested = _CURRENT_NAMES.get((kind, name), known)
        raise UnknownName(_KIND_NOUNS.get(kind, kind), name, suggested, remedy=remedy)
    return known[name]


def components(kind: ComponentKind, project: Path | None = None) -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of every component of a kind. A project's own component hides a
    shipped one."""
    seen: set[str] = set()
    for root in roots(project):
        for path in sorted((root / FOLDERS[kind]).glob("*"), key=attrgetter("stem")):
            if is_yaml(path) and path.stem not in seen:
                seen.add(path.stem)
                yield path.stem, path


def is_member(name: str) -> bool:
    """Return True for the name of a family's member, e.g. `reasoning_gym/word_sorting`."""
    return _MEMBER_NAME.fullmatch(name) is not None


def suite_data_of_member(name: str) -> dict[str, Any] | None:
    """Return the suite of a family's member as data, or None for any other name."""
    if not is_member(name):
        return None
    family, _, chosen = name.partition("/")
    source = {"generate": {"use": family, "options": {FAMILIES[family]: chosen}}}
    return {"extends": family, "name": name, "source": source}
