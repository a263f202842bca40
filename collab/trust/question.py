"""The question whether a third-party recipe may run, and how it is answered."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from pwd import getpwuid
from typing import Literal

from collab.errors import Untrusted
from collab.trust.blocking import keep_digest, unblock


def _approvals_folder() -> Path:
    """Return `$XDG_CONFIG_HOME/collab/trusted` if that is absolute, otherwise a folder below
    `~/.config`. A relative `$HOME` is not used, because it could lead to a third party's folder."""
    configured, home = Path(os.environ.get("XDG_CONFIG_HOME", "")), Path.home()
    if not home.is_absolute():
        home = Path(getpwuid(os.getuid()).pw_dir)
    base = configured if configured.is_absolute() else home / ".config"
    return base / "collab" / "trusted"


_APPROVALS_VARIABLE = "COLLAB_APPROVED"
"""Environment variable with the approvals that last as long as the process and those it starts."""


def _process_approvals() -> set[str]:
    return set(os.environ.get(_APPROVALS_VARIABLE, "").split())


def _is_approved(digest: str) -> bool:
    return digest in _process_approvals() or (_approvals_folder() / digest).is_file()


def _store_approval(digest: str, text: str, *, saved: bool) -> None:
    """Keep an approval: in a file if `saved` and possible, otherwise as long as this process."""
    place = _approvals_folder()
    with suppress(OSError):
        if saved:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            (place / digest).write_text(text + "\n", encoding="utf-8")
            return
    os.environ[_APPROVALS_VARIABLE] = " ".join(sorted(_process_approvals() | {digest}))


@dataclass(frozen=True)
class Item:
    """One thing that would run, be sent, be written or be read."""

    kind: Literal[
        "function", "engine", "command", "server", "isolation", "address", "write", "read"
    ]
    text: str
    """Description for the user."""
    content: str
    """Identity of the item; a function is identified by the digest of its source, so it may be
    moved."""
    reference: str = ""
    """Name of a function in the recipe."""
    approval_key: str = ""
    """Key in `collab.trust.blocking` of an item that is blocked until it is approved."""
    digest: str = ""
    """Digest of the file, module or server that an approval unblocks, or "" for an address."""


@dataclass(frozen=True)
class Question:
    """Everything that a third-party recipe would do, except read its own data."""

    name: str
    """Name of the recipe or folder, as the user wrote it."""
    items: tuple[Item, ...] = ()
    files: tuple[str, ...] = ()
    """Digests of the foreign YAML files that contain the items."""

    @property
    def open(self) -> tuple[Item, ...]:
        """Items that are not approved."""
        return tuple(item for item in self.items if not _is_approved(self.digest_of(item)))

    def of_kinds(self, *kinds: str) -> Question:
        """Return the question about items of some kinds."""
        return replace(self, items=tuple(item for item in self.items if item.kind in kinds))

    def about_functions(self, *references: str) -> Question:
        """Return the question, limited to the functions in `references`."""
        chosen = tuple(item for item in self.items if item.reference in references)
        return replace(self, items=chosen)

    def limited_to(self, named: Iterable[str]) -> Question:
        """Return the question, limited to functions in `named` and to items that are not
        functions."""
        kept = {"", *named}
        return replace(self, items=tuple(item for item in self.items if item.reference in kept))

    def text(self) -> str:
        """Return the open items as text, one per line."""
        lines = [f"{_printable(self.name)} is third-party; with your permissions, it would"]
        return "\n".join([*lines, *(f"  {_printable(item.text)}" for item in self.open)])

    def digest_of(self, item: Item) -> str:
        """Return the identity of an approval: the item, and the YAML files that contain it."""
        parts = [*sorted(self.files), item.content]
        return blake2b("\0".join(parts).encode(), digest_size=20).hexdigest()


NO_QUESTION = Question("")
"""The empty question, of a recipe that is the user's own."""


def join_questions(name: str, questions: Iterable[Question]) -> Question:
    """Return several questions as one, which asks about each item once."""
    parts = [*questions]
    items = {
        (i.content, i.reference, i.approval_key): i for question in parts for i in question.items
    }
    files = {file for question in parts for file in question.files}
    return Question(name, tuple(items.values()), tuple(sorted(files)))


Ask = Callable[[Question], bool]
Consent = bool | Ask
"""Approval: True, False, or a function that asks the user."""


def approve(question: Question, consent: Consent) -> None:
    """Ask for approval of all items that are not approved yet, and save it.

    Raises:
        Untrusted: an item is not approved. The message gives the items and the remedy.
    """
    if question.open and not (consent if isinstance(consent, bool) else consent(question)):
        raise Untrusted(
            f"{question.text()}\nread these files, and if you trust them, add --trust (in Python:"
            " trust=True)"
        )
    remember(question)


def remember(question: Question) -> None:
    """Unblock a question's functions and servers, and save the approval of its items.

    A command can run any file, so its approval lasts as long as the process and is not saved.
    """
    for item in question.items:
        if item.approval_key:
            unblock(item.approval_key)
        if item.digest:
            keep_digest(item.approval_key, item.digest)
    for item in question.open:
        text = f"{_printable(question.name)}: {_printable(item.text)}"
        _store_approval(question.digest_of(item), text, saved=item.kind != "command")


def _printable(text: str) -> str:
    """Return the text without control characters, which could hide part of it on a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
