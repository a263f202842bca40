"""Sending a staged team to the hub, or to a mirror named by HF_ENDPOINT."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from collab.errors import RecipeError, RecordError
from collab.trust.from_hub import NAME


class Hub(Protocol):
    """What of `huggingface_hub.HfApi` is used."""

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> object: ...

    def upload_folder(self, *, repo_id: str, folder_path: Path, commit_message: str) -> object: ...


def check_repository(name: str) -> None:
    """Raise RecipeError for what is no name of a repository."""
    if not NAME.fullmatch(name):
        raise RecipeError(f"'{name}' is no repository; write OWNER/NAME")


def push(folder: Path, repository: str, *, private: bool, hub: Hub | None = None) -> str:
    """Make the repository where it is not there, and send it the folder; gives its name for `run`.

    Raises:
        RecordError: the hub does not take it; the message says why.
    """
    check_repository(repository)
    if hub is None:
        from huggingface_hub import HfApi

        hub = HfApi()
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        hub.upload_folder(
            repo_id=repository, folder_path=folder, commit_message="A team, by collab push"
        )
    except Exception as error:  # its client raises errors of many kinds
        raise RecordError(
            f"{repository} cannot be written: {error}; log in with hf auth login, or set HF_TOKEN"
        ) from error
    return f"hub:{repository}"
