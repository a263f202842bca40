"""What makes a run's folder whole: it carries the files that its recipe names.

functions/    the files of the user's functions, and the local modules that they import
data/         the suite's rows, scripted answers, and episodes of an earlier run
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collab.recipe.recipe import Recipe
from collab.recipe.references import Kind, changed, is_file_function
from collab.runs.layout import DATA, EPISODES, FUNCTIONS
from collab.trust.held import check
from collab.trust.sources import digest_of, sources_of


class Packing:
    """Copies into one folder what recipes name, each file once, as it is at that time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packed: dict[tuple[Kind, str], str] = {}
        """By what was named: its name within the folder."""

    def pack(self, recipe: Recipe) -> dict[str, Any]:
        """The recipe's data with every name relative to the folder.

        Models and adapters stay where they are, and are named by their whole paths. A file that
        is not there is left as it was named.

        Raises:
            OSError: a file cannot be copied. RecipeError: a function's file cannot be read.
            Untrusted: somebody else's file has changed since there was a yes to it.
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
            return f"{self._place_function(Path(file))}:{function}" if _is_file(file) else text
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
        """Whether a name is relative to the folder already, as that of a trained adapter is."""
        file = text.rpartition(":")[0] if is_file_function(text) else text
        return not Path(file).is_absolute() and (self.folder / file).exists()

    def _within(self, path: Path) -> str | None:
        """The path relative to the folder, where it lies in it."""
        real, folder = path.resolve(), self.folder.resolve()
        return real.relative_to(folder).as_posix() if real.is_relative_to(folder) else None

    def _place_function(self, file: Path) -> str:
        sources = sources_of(file)
        check(str(file.resolve()), digest_of(sources))
        if own := self._within(file):
            return own
        contents = {source.place: source.content for source in sources}
        root = self._free(FUNCTIONS, "", contents)
        for place, content in contents.items():
            target = self.folder / root / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return f"{root}/{file.resolve().name}"

    def _copy_data(self, path: Path) -> str:
        stem, dot, suffixes = path.name.partition(".")
        place = self._free(f"{DATA}/{stem}", dot + suffixes, {Path(): path.read_bytes()})
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        return place

    def _free(self, name: str, suffix: str, contents: Mapping[Path, bytes]) -> str:
        """`name`, or `name-2` and so on where other content stands in its place."""
        number, place = 1, f"{name}{suffix}"
        while any(_differs(self.folder / place / p, c) for p, c in contents.items()):
            number += 1
            place = f"{name}-{number}{suffix}"
        return place


def _is_file(name: str) -> bool:
    return Path(name).is_file()


def _differs(path: Path, content: bytes) -> bool:
    return path.exists() and (not path.is_file() or path.read_bytes() != content)
