"""The question whether what comes from elsewhere may run, and who answers it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from collab.errors import Untrusted
from collab.trust.held import agree, release


def _folder() -> Path:
    """`$XDG_CONFIG_HOME/collab/trusted`, where that is absolute; else below `~/.config`."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path.home() / ".config"  # noqa: PTH117
    return base / "collab" / "trusted"


_HERE: set[Path] = set()
"""Yeses that no file could take; they last as long as the process."""


def _holds(digest: str) -> bool:
    file = _folder() / digest
    return file in _HERE or file.is_file()


def _add(digest: str, text: str) -> None:
    """Note a yes, in memory if the folder cannot be written."""
    place = _folder()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / digest).write_text(text + "\n", encoding="utf-8")
    except OSError:
        _HERE.add(place / digest)


@dataclass(frozen=True)
class Item:
    """One thing that would run, be sent, be written or be read."""

    kind: Literal["function", "engine", "command", "isolation", "address", "write", "read"]
    text: str
    """In words, for the user."""
    content: str
    """What exactly; a function by the digest of its source, so that it may be moved."""
    reference: str = ""
    """Of a function: as the recipe names it."""
    lock: str = ""
    """Of what is held back until there is a yes: its name in `collab.trust.held`."""
    contents: tuple[tuple[str, str], ...] = ()
    """The files, modules and servers that a yes lets run: their names and digests."""


@dataclass(frozen=True)
class Question:
    """All that a recipe from elsewhere would do besides reading its own data."""

    name: str
    """The recipe or folder, as the user named it."""
    items: tuple[Item, ...] = ()
    files: tuple[str, ...] = ()
    """Digests of the YAML files from elsewhere that say so."""

    @property
    def open(self) -> tuple[Item, ...]:
        """The items without a yes."""
        return tuple(item for item in self.items if not _holds(self._digest(item)))

    def only(self, *kinds: str) -> Question:
        """The question about items of some kinds."""
        return replace(self, items=tuple(item for item in self.items if item.kind in kinds))

    def about(self, *references: str) -> Question:
        """The question about some functions."""
        chosen = tuple(item for item in self.items if item.reference in references)
        return replace(self, items=chosen)

    def less(self, named: Iterable[str]) -> Question:
        """The question without the functions that are not among those `named`."""
        kept = {"", *named}
        return replace(self, items=tuple(item for item in self.items if item.reference in kept))

    def remember(self) -> None:
        """Note the yes to each item."""
        for item in self.items:
            _add(self._digest(item), f"{_plain(self.name)}: {_plain(item.text)}")

    def text(self) -> str:
        """List the open items, one per line."""
        lines = [f"{_plain(self.name)} comes from elsewhere; with your rights, it would"]
        return "\n".join([*lines, *(f"  {_plain(item.text)}" for item in self.open)])

    def _digest(self, item: Item) -> str:
        parts = [*sorted(self.files), item.content]
        return blake2b("\0".join(parts).encode(), digest_size=20).hexdigest()


NOTHING = Question("")
"""The question of a recipe that is the user's own."""


def joined(name: str, questions: Iterable[Question]) -> Question:
    """One question for several; each item is asked about once."""
    parts = [*questions]
    items = {(i.content, i.reference, i.lock): i for question in parts for i in question.items}
    files = {file for question in parts for file in question.files}
    return Question(name, tuple(items.values()), tuple(sorted(files)))


Ask = Callable[[Question], bool]
Consent = bool | Ask
"""True is a yes, False a no; a function asks whoever can answer."""


def settle(question: Question, consent: Consent) -> None:
    """Go on when there is nothing to ask, or by a yes of now or before, which is remembered.

    Raises:
        Untrusted: there is no yes; the message names what would run, and the remedy.
    """
    if question.open and not (consent if isinstance(consent, bool) else consent(question)):
        raise Untrusted(
            f"{question.text()}\nread these files; if you trust them, give --trust (in Python:"
            " trust=True)"
        )
    remember(question)


def remember(question: Question) -> None:
    """Note a yes; its functions may run."""
    for item in question.items:
        if item.lock:
            release(item.lock)
        agree(item.contents)
    if question.open:
        question.remember()


def _plain(text: str) -> str:
    """The text without control characters, which could hide a part of it on a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
