"""A team that is fetched from the hub lies in a folder of its commit, without compiled files.

What the hub sends is limited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.hub_server import COMMIT, HubServer, read_datasets_from
from support.local_server import Handler

from collab.errors import RecipeError
from collab.trust import from_hub


@pytest.mark.parametrize("commit", ["../../../evil", "/tmp/evil", "a" * 39, "A" * 40, "None"])
def test_the_hubs_commit_is_no_path(tmp_path: Path, commit: str) -> None:
    with pytest.raises(RecipeError, match="40 hex digits"):
        from_hub._fetched(httpx.Client(), "a/b", commit, tmp_path)


def test_the_newest_of_a_team_is_one_of_its_commits(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "recipe.yaml").write_text("")
    assert from_hub._newest(tmp_path / "place", "../other") is None


@pytest.mark.parametrize("name", ["a.pyc", "__pycache__/a.cpython-311.pyc", "a.abi3.so", "b.pyd"])
def test_no_compiled_file_is_fetched(name: str) -> None:
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

    names = [f"{part}/deep/{name}" for part in ("functions", "data", "models", "adapters")]
    wanted, unwanted = from_hub.WANTED, from_hub.UNWANTED
    kept = [*names, "functions/deep/a.py"]
    left = filter_repo_objects(kept, allow_patterns=wanted, ignore_patterns=unwanted)
    assert [*left] == ["functions/deep/a.py"]


class HostileHub(HubServer):
    """A hub that lists `entries` as well, and ends each answer whose path has `padded` in it with
    a kilobyte of blanks."""

    entries: tuple[Any, ...] = ()
    padded = "nothing"
    packed = False

    def get(self, handler: Handler) -> None:
        send = handler.send

        def sent(status: int, content: bytes = b"", **headers: str) -> None:
            if "/tree/" in handler.path:
                content = json.dumps([*json.loads(content), *self.entries]).encode()
            if self.padded in handler.path:
                content += b" " * 1000
            if self.packed:
                headers["content_encoding"] = "gzip"
            send(status, content, **headers)

        handler.send = sent  # type: ignore[method-assign]
        super().get(handler)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def hub(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileHub]:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "recipe.yaml").write_text("team: pair\n")
    with HostileHub("me/pair", tmp_path / "team") as server:
        read_datasets_from(server.url, cache, monkeypatch)
        yield server


def refused(cache: Path, reason: str) -> None:
    with pytest.raises(RecipeError, match=reason) as raised:
        from_hub.folder_of("hub:me/pair")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_a_team_is_downloaded_once(hub: HostileHub) -> None:
    folder = from_hub.folder_of("hub:me/pair")
    assert folder.name == COMMIT
    assert [path.name for path in folder.parent.iterdir()] == [COMMIT]
    asked = len(hub.requests)
    assert from_hub.folder_of("hub:me/pair@main") == folder
    assert len(hub.requests) == asked + 1


@pytest.mark.parametrize("part", ["/api/models/me/pair", "/tree/"])
def test_what_the_hub_says_has_a_limit(
    hub: HostileHub, cache: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_hub, "MOST_ABOUT", 900)
    hub.padded = part
    refused(cache, "the hub sent more than 900 bytes of (metadata|file names)")


def test_a_file_is_no_longer_than_the_hub_says(hub: HostileHub, cache: Path) -> None:
    hub.padded = "/resolve/"
    refused(cache, r"the hub sent more than 11 bytes of recipe\.yaml")


def test_nothing_compressed_is_read(hub: HostileHub, cache: Path) -> None:
    hub.packed = True
    refused(cache, "compressed its answer without being asked")


def entry(path: Any, size: Any = 3) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": size}


def test_a_team_has_a_limit(hub: HostileHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.entries = (entry("data/a"), entry("data/b", 2_000))
    monkeypatch.setattr(from_hub, "MOST_FILES", 2)
    refused(cache, "hub:me/pair has more than 2 files")
    monkeypatch.setattr(from_hub, "MOST_FILES", 3)
    monkeypatch.setattr(from_hub, "MOST_BYTES", 2_000)
    refused(cache, "hub:me/pair has more than 2e-06 GB")


@pytest.mark.parametrize(
    "name", [5, None, "", "../x", "/x", "data/../../x", "data//x", "a\\b", "\n"]
)
def test_a_name_that_is_no_path_in_a_folder_is_refused(
    hub: HostileHub, cache: Path, name: Any
) -> None:
    hub.entries = (entry(name),)
    refused(cache, "which is not a file name")


@pytest.mark.parametrize("size", [-1, None, "3", 10**400])
def test_a_size_that_is_no_size_is_refused(hub: HostileHub, cache: Path, size: Any) -> None:
    hub.entries = (entry("data/a", size),)
    refused(cache, "which is not the size of a file|has more than 20 GB")
