"""What a run leaves behind: a folder that is readable at every moment.

recipe.yaml       the resolved recipe; what it names of the user's lies beside it
functions/        the files of the user's functions
data/             the rows of a suite that is a file
run.json          what was run, with which versions, and how it ended
episodes.jsonl    one episode a line, appended as they end
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from collab.errors import CollabError, RecordError
from collab.recipe import Recipe, read_recipe
from collab.recipe.documents import parse_json
from collab.records import EPISODES, Episode
from collab.runs.packing import Packing
from collab.trust import remember

Count = Annotated[int, Field(ge=0, le=2**53)]

RECIPE = "recipe.yaml"
RUN = "run.json"


class RunFolder:
    """A run's folder, open for writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._episodes = (path / EPISODES).open("ab", buffering=0)

    @classmethod
    def create(cls, path: Path, recipe: Recipe, about: dict[str, Any]) -> RunFolder:
        """Make the folder and write what is known at the start.

        Raises:
            RecordError: the folder holds a run already, or cannot be written.
        """
        if (path / EPISODES).exists():
            raise RecordError(f"{path} holds a run already; give another folder with --out")
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_recipe(path / RECIPE, recipe, Packing(path))
            write_atomically(path / RUN, json.dumps({**about, "status": "running"}, indent=2))
            return cls(path)
        except OSError as error:
            raise RecordError(f"{path} cannot be written: {error.strerror}") from error

    def append(self, episode: Episode) -> None:
        """Add a finished episode, whole or not at all."""
        line = episode.model_dump_json().encode() + b"\n"
        try:
            written = self._episodes.write(line)
        except OSError as error:
            raise RecordError(f"{self.path / EPISODES}: {error.strerror}") from error
        if written != len(line):
            raise RecordError(f"{self.path / EPISODES}: only {written} of {len(line)} bytes fit")

    def close(self) -> None:
        self._episodes.close()

    def finish(self, about: dict[str, Any]) -> None:
        self.close()
        write_atomically(self.path / RUN, json.dumps(about, indent=2))


def new_run_id(name: str) -> str:
    """A name for a run: when it began, and what it is of."""
    return f"{datetime.now():%Y%m%d-%H%M%S-%f}"[:-3] + f"-{name or 'run'}"


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML that loads to the same recipe."""
    return _as_yaml(recipe.model_dump(mode="json", exclude_none=True))


def write_recipe(path: Path, recipe: Recipe, packing: Packing) -> None:
    """Write a recipe with all that it names, so that its folder can be moved, and trust it.

    Raises:
        OSError: a file cannot be written or copied.
    """
    write_atomically(path, _as_yaml(packing.pack(recipe)))
    with suppress(CollabError):
        remember(read_recipe(str(path), is_run=True)[1])


def _as_yaml(data: dict[str, Any]) -> str:
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines, such as prompts, as they are."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.strip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _write_text)


class _About(TypedDict, total=False):
    """What is read of `run.json`; there may be more, and there may be less."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]

    run: str
    team: str
    status: str
    models: dict[str, str]
    tasks: list[str]
    samples: Count
    turns: Count
    steps: Count
    versions: dict[str, str]
    command: list[str]
    summary: dict[str, Any]


_ABOUT = TypeAdapter(_About)


def read_about(folder: Path) -> dict[str, Any]:
    """What `run.json` says.

    Raises:
        RecordError: the folder is not a run's, or the file says what no run does.
    """
    path = folder / RUN
    try:
        about = parse_json(path.read_bytes())
    except OSError as error:
        raise RecordError(f"{folder} is not a run's folder: {RUN}: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{path}: not JSON: {error}") from error
    if not isinstance(about, dict):
        raise RecordError(f"{path}: expected a mapping, got {type(about).__name__}")
    try:
        return dict(_ABOUT.validate_python(about))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RecordError(f"{path}: {place}: {first['msg']}") from error


def open_as_usual(path: Path) -> None:
    """Give a file that only its owner may read, as temporary ones, the mode of any other file."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file as a whole: a reader sees the old text or the new one, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        open_as_usual(Path(temporary))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
