"""Copy the files that a recipe names into its run's folder.

functions/    the files of the user's functions, and the local modules that they import
data/         the suite's rows, scripted answers, and episodes of an earlier run
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, Literal

from collab.passed_functions import is_in_file, is_in_module, is_passed_in_python
from collab.recipe import documents, library
from collab.recipe.base import Component, Spec, specs_in
from collab.recipe.recipe import Recipe
from collab.runs.layout import DATA, EPISODES, FUNCTIONS, NAMED
from collab.runs.reading import data_as_last_read
from collab.trust.blocking import check_unchanged_since_approval, is_own, mark_foreign
from collab.trust.sources import digest_of, sources_loaded, sources_of

Kind = Literal[
    "file function", "module function", "component", "data", "model", "adapter", "program"
]
"""The kind of thing that a name refers to.

`file.py:function`, `module:function`, a YAML or data file (`component`: a team, task, reward or
trainer), a suite's rows or an earlier run's episodes (`data`), a model's folder or file, a folder
with an adapter, or a Python file in an MCP server's command (`program`)."""

Change = Callable[[Kind, str, str], str]
"""Maps the kind of a name, its key and the name to its replacement."""

_FUNCTION_KEYS = {
    "use", "parser", "join", "source", "engine", "algorithm", "protocol", "harness", "tools",
    "generate", "adapt", "environment",
}  # fmt: skip
_COMPONENT_KEYS = {
    "team", "task", "reward", "trainer", "extends", "suite",
    "recipe", "tasks", "trainers",
}  # fmt: skip
"""Keys that name components. The last three are keys of a study."""
_FREE_TEXT = {
    "role", "prompt", "revise", "discuss", "templates",
    "name", "description", "options", "hidden",
}  # fmt: skip
"""Keys whose values are passed on unchanged."""
_OF_THE_USER = {"agents", "parts", "functions", "local_parts", "splits", "seats"}
"""Keys of mappings whose own keys are names chosen by the user, with no meaning here."""

VERIFIERS = "verifiers"
"""The generator with the option `environment`: a module to import."""

_COMPONENT_FILE = (*library.YAML_ENDINGS, ".jsonl", ".json", ".gz")
_PREPARED = ("scripted", "replay")
_LOCAL = ("transformers", "vllm", *_PREPARED)


def environment_function(name: str) -> str:
    """Return the reference `module:function` of the loader of a verifiers environment."""
    return f"{name.replace('-', '_').lower()}:taskset"


def named_in(spec: Spec) -> list[tuple[Kind, str, str]]:
    """Return the names in a part of a recipe and in the parts below it: kind, key, text."""
    names = names_in(spec.model_dump(mode="json", exclude_none=True))
    components = (part for part in specs_in(spec) if isinstance(part, Component))
    for part in components:
        if part.use == VERIFIERS and (name := part.options.get("environment")):
            names.append(("module function", "generate", environment_function(str(name))))
    return names


def names_in(data: Any) -> list[tuple[Kind, str, str]]:
    """Return the names in recipe data: kind, key, text."""
    names: list[tuple[Kind, str, str]] = []

    def note(kind: Kind, key: str, text: str) -> str:
        names.append((kind, key, text))
        return text

    changed(data, note)
    return names


def of_python_in(spec: Spec) -> tuple[str, ...]:
    """Return the references in `spec` to functions that were passed as Python objects.

    Only this process can call them.
    """
    return tuple(dict.fromkeys(text for _, _, text in named_in(spec) if is_passed_in_python(text)))


def preface(recipe: Recipe) -> str:
    """Return a comment that names the functions passed in Python, or "" if there are none."""
    names = of_python_in(recipe)
    if not names:
        return ""
    return (
        "# These functions were passed in Python. This run can be read, shown and reported; it\n"
        "# runs again only where they are passed again:\n"
        + "".join(f"#   {name}\n" for name in names)
    )


def changed(value: Any, change: Change, key: str = "") -> Any:
    """Return a copy of the value of `key` in a recipe's data, or of all data, with `change` applied
    to every name in it."""
    if isinstance(value, dict) and key in _OF_THE_USER:
        return {name: changed(item, change) for name, item in value.items()}
    if isinstance(value, dict):
        fields = _changed_model(value, change) if key == "model" else value
        return {
            inner: item if inner in _FREE_TEXT else changed(item, change, _key_of(str(inner)))
            for inner, item in fields.items()
        }
    if isinstance(value, list | tuple):
        return [changed(item, change, key) for item in value]
    if not isinstance(value, str):
        return value
    if key == "model" and not is_in_file(value):
        return _changed_model_text(value, change)
    kind = _kind_of(value, key)
    return change(kind, key, value) if kind else value


def _key_of(path: str) -> str:
    """Return the last key of a setting's path, or "" if the user chose it."""
    key, *above = reversed(path.split("."))
    is_chosen = above[:1] and above[0] in _OF_THE_USER and above[1:2] != ["agents"]
    return "" if is_chosen else key


def _kind_of(text: str, key: str) -> Kind | None:
    if key == "mcp":
        return "program" if text.endswith(".py") else None
    if is_in_file(text):
        return "file function"
    if key in (*_FUNCTION_KEYS, "feedback") and is_in_module(text):
        return "module function"
    if key in _COMPONENT_KEYS and ("/" in text or text.endswith(_COMPONENT_FILE)):
        return "component"
    if key in ("path", "learn_from", "episodes"):  # `episodes`: the former name
        return "data"
    return "adapter" if key == "adapter" else None


def _changed_model_text(text: str, change: Change) -> str:
    engine, separator, name = text.partition(":")
    if not separator:
        return change("model", "transformers", text)
    return f"{engine}:{change('model', engine, name)}" if engine in _LOCAL else text


def _changed_model(model: dict[str, Any], change: Change) -> dict[str, Any]:
    engine, name = str(model.get("engine", "transformers")), model.get("name")
    if engine in _LOCAL and isinstance(name, str):
        return {**model, "name": change("model", engine, name)}
    return model


def anchored(data: dict[str, Any], folder: Path, project: Path) -> dict[str, Any]:
    """Return a recipe's data with whole paths for the names of files in `folder`, where the recipe
    was read.

    Functions' files may also be in `project`, the folder of the project. All other names stay
    relative to the current folder.
    """

    def change(kind: Kind, key: str, text: str) -> str:  # noqa: ARG001
        if kind == "module function":
            return text
        if kind == "file function":
            file, _, function = text.rpartition(":")
            places = (place / file for place in (folder, project))
            file_there = next((place for place in places if place.is_file()), None)
            return f"{_shown(file_there)}:{function}" if file_there else text
        beside = folder / text
        if kind == "data":
            data_file = beside if beside.exists() or not Path(text).exists() else Path(text)
            return str(data_file.resolve())
        return str(beside.resolve()) if _is_there(beside) else text

    result: dict[str, Any] = changed(data, change)
    return result


def _is_there(path: Path) -> bool:
    """Return True for a file, or for a folder with a model, an adapter or a run."""
    return any((path / mark).is_file() for mark in ("", *NAMED))


def _shown(path: Path) -> str:
    """Format a file's path for reading: relative if it is below the current folder."""
    real, here = path.resolve(), Path.cwd().resolve()
    return str(real.relative_to(here)) if real.is_relative_to(here) else str(real)


class Packing:
    """Copies the files that recipes name into one folder, each once."""

    def __init__(self, folder: Path, *, as_read: bool = True) -> None:
        """Copy each file as this process last read it for a run, or with its content now."""
        self.folder, self._as_read = folder, as_read
        self._packed: dict[tuple[Kind, str], str] = {}
        """Names within the folder, by the kind and text of the original name."""

    def pack(self, recipe: Recipe) -> dict[str, Any]:
        """Return the recipe's data with every name relative to the folder.

        Models and adapters are not copied. Their names become whole paths. A file that does not
        exist keeps its name.

        Raises:
            OSError: a file cannot be copied.
            RecipeError: a function's file cannot be read.
            Untrusted: a third-party file has changed since it was approved.
        """
        data: dict[str, Any] = changed(
            recipe.model_dump(mode="json", exclude_none=True), self._change
        )
        return data

    def _change(self, kind: Kind, key: str, text: str) -> str:
        if (kind, text) not in self._packed:
            self._packed[kind, text] = self._place(kind, key, text)
        return self._packed[kind, text]

    def _place(self, kind: Kind, key: str, text: str) -> str:
        if kind in ("module function", "component") or self._stands_within(text):
            return text
        if kind == "file function":
            file, _, function = text.rpartition(":")
            return (
                f"{self._place_function(Path(file))}:{function}" if Path(file).is_file() else text
            )
        path = Path(text)
        if not path.exists():
            return text
        if kind == "program":
            return self._place_function(path)
        if kind == "data" and (path / EPISODES).is_file():
            path /= EPISODES
        if path.is_file() and (kind == "data" or key == "scripted"):
            return self._within(path) or self._copy_data(path)
        return self._within(path) or str(path.resolve())

    def _stands_within(self, text: str) -> bool:
        """Return True if a name is already relative to the folder, as a trained adapter's is."""
        file = text.rpartition(":")[0] if is_in_file(text) else text
        return not Path(file).is_absolute() and (self.folder / file).exists()

    def _within(self, path: Path) -> str | None:
        """Return the path relative to the folder, if it is inside."""
        real, folder = path.resolve(), self.folder.resolve()
        return real.relative_to(folder).as_posix() if real.is_relative_to(folder) else None

    def _place_function(self, file: Path) -> str:
        sources = (self._as_read and sources_loaded(file)) or sources_of(file)
        digest = digest_of(sources)
        check_unchanged_since_approval(str(file.resolve()), digest)
        if within := self._within(file):
            return within
        contents = {source.place: source.content for source in sources}
        for root in self._free(FUNCTIONS, "", contents):
            for place, content in contents.items():
                target = self.folder / root / place
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            name = f"{root}/{file.resolve().name}"
            if digest_of(sources_of(self.folder / name)) == digest:  # it imports nothing else there
                return name
        raise AssertionError("there is no end of names")

    def _copy_data(self, path: Path) -> str:
        content = (self._as_read and data_as_last_read(path)) or path.read_bytes()
        stem, dot, suffixes = path.name.partition(".")
        place = next(self._free(f"{DATA}/{stem}", dot + suffixes, {Path(): content}))
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return place

    def _free(self, name: str, suffix: str, contents: Mapping[Path, bytes]) -> Iterator[str]:
        """Yield `name`, `name-2` and so on, except names that other content already has."""
        for number in count(1):
            place = f"{name}{suffix}" if number == 1 else f"{name}-{number}{suffix}"
            if not any(_differs(self.folder / place / p, c) for p, c in contents.items()):
                yield place


def _differs(path: Path, content: bytes) -> bool:
    return path.exists() and (not path.is_file() or path.read_bytes() != content)


class Files:
    """Reads YAML files and remembers which of them are third-party."""

    def __init__(self) -> None:
        self.trusted: list[Path] = []
        """Files of the current project and of the library."""
        self.foreign: dict[Path, str] = {}
        """Third-party files, each with a digest of its content."""
        self.project: Path | None = None
        """The folder in which names are looked up first."""
        self.first: Path | None = None
        """The file of the recipe, if it has one."""

    def search_from(self, path: Path) -> None:
        """Look names up in the project of this file first, if the file exists."""
        self.first = path if path.is_file() else None
        self.project = library.project_of(path) if path.is_file() else None

    def read(self, path: Path, *, may_be_own: bool = True) -> dict[str, Any]:
        """Return the mapping in a file. Names relative to the file become whole paths.

        Args:
            may_be_own: False for a file that counts as foreign wherever it is: a recipe in a run's
                folder.

        Raises:
            RecipeError: see `documents.read_mapping`.
        """
        data = documents.read_mapping(path)
        real = path.resolve()
        if library.is_shipped(real) or (may_be_own and is_own(path)):
            self.trusted.append(real)
        else:
            self.foreign[real] = blake2b(real.read_bytes(), digest_size=16).hexdigest()
            mark_foreign(real.parent)
        return anchored(data, path.parent, library.project_of(path))

    def holds(self, path: Path) -> bool:
        """Return True if a file is in the folder of a file that was read, or in the shipped
        library.
        """
        folders = [file.parent for file in (*self.trusted, *self.foreign)]
        real = path.resolve()
        return library.is_shipped(real) or any(real.is_relative_to(f) for f in folders)
