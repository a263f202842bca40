"""Teams on the hub, or on a mirror named by HF_ENDPOINT: downloaded once per commit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from collab.errors import RecipeError
from collab.runs.layout import ADAPTERS, DATA, FUNCTIONS, MODELS, RECIPE

if TYPE_CHECKING:
    from httpx import Client, Response

PREFIX = "hub:"
NAME = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
COMMIT = re.compile(r"[0-9a-f]{40}")
LOOKUP_SECONDS = 5.0

MOST_FILES, MOST_LETTERS, MOST_BYTES = 1_000, 200, 20_000_000_000
"""Limits of a team: files and folders, characters of a file's name, bytes of all files."""
MOST_ABOUT = 4_000_000
"""Most bytes that the hub may send about a team."""

WANTED = [
    RECIPE,
    "README.md",
    f"{FUNCTIONS}/*.py",
    *(f"{part}/**" for part in (DATA, ADAPTERS, MODELS)),
]
"""Patterns of files to download; a star matches folders too."""
_WEIGHTS = ["*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle"]
_COMPILED = ["*.so", "*.so.*", "*.dylib", "*.dll", "*.pyd", "*.pyc", "*.pyo", "*__pycache__*"]
UNWANTED = [*_WEIGHTS, *_COMPILED]
"""Files that run code when they are read; weights are read only from safetensors."""


def folder_of(name: str) -> Path:
    """Return the folder of the team `hub:OWNER/NAME`, at a revision if `@REVISION` follows.

    Its files are copies, not links into the hub's cache, so that they keep their names. Without a
    network, the newest download is used.

    Raises:
        RecipeError: the name is invalid, or the team cannot be downloaded.
    """
    owner, _, revision = name.removeprefix(PREFIX).partition("@")
    if not NAME.fullmatch(owner):
        raise RecipeError(
            f"'{name}' is not the name of a team on the hub; write hub:OWNER/NAME[@REVISION]"
        )
    from huggingface_hub import constants

    place = Path(constants.HF_HUB_CACHE) / "collab-teams" / owner.replace("/", "--")
    try:
        with _client() as client:
            commit = _commit(client, owner, revision)
            folder = _fetched(client, owner, commit, place)
    except _Denied as error:
        raise RecipeError(
            f"'{name}' is not on the hub, or you have no access: check the name, and set HF_TOKEN"
            " if it is private"
        ) from error
    except RecipeError:
        raise
    except Exception as error:  # any failure of the network
        newest = _newest(place, revision)
        if newest is None:
            raise RecipeError(
                f"'{name}' cannot be downloaded: {error!s:.300}; check the network and the name"
            ) from error
        folder = newest
    if not (folder / RECIPE).is_file():
        raise RecipeError(f"'{name}' contains no {RECIPE}, so it is not a team")
    return folder


class _Denied(Exception):
    """The hub has no such team, or denies access to it."""


def _client() -> Client:
    from httpx import Client, Timeout
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    if constants.HF_HUB_OFFLINE:
        raise OSError("HF_HUB_OFFLINE is set")
    return Client(
        base_url=constants.ENDPOINT,
        headers={**build_hf_headers(), "accept-encoding": "identity"},
        timeout=Timeout(LOOKUP_SECONDS, read=constants.HF_HUB_DOWNLOAD_TIMEOUT),
    )


@contextmanager
def _answer(client: Client, path: str) -> Iterator[Response]:
    """Open an answer of the hub. The body of a redirect is not read."""
    request = client.build_request("GET", path)
    for _ in range(5):
        answer = client.send(request, stream=True)
        try:
            if answer.status_code in (401, 403, 404):
                raise _Denied
            if answer.next_request is None:
                if answer.status_code != 200:
                    raise OSError(f"the hub answered {answer.status_code}")
                if answer.headers.get("content-encoding", "identity") != "identity":
                    raise OSError("the hub compressed its answer without being asked")
                yield answer
                return
            request = answer.next_request
        finally:
            answer.close()
    raise OSError("the hub redirected 5 times")


def _body(answer: Response, most: int, what: str) -> Iterator[bytes]:
    """Yield the bytes of an answer, or raise RecipeError after `most`."""
    size = 0
    for chunk in answer.iter_raw():
        size += len(chunk)
        if size > most:
            raise RecipeError(f"the hub sent more than {most:,} bytes of {what}")
        yield chunk


def _commit(client: Client, owner: str, revision: str) -> str:
    """Return the hub's commit of a revision, or of the newest state."""
    at = f"/revision/{quote(revision, safe='')}" if revision else ""
    with _answer(client, f"/api/models/{owner}{at}") as answer:
        about = json.loads(b"".join(_body(answer, MOST_ABOUT, "metadata")))
    return str(about["sha"])


def _files(client: Client, owner: str, commit: str) -> dict[str, int]:
    """Return the names of the files to download, with their sizes."""
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

    with _answer(client, f"/api/models/{owner}/tree/{commit}?recursive=true") as answer:
        listed = json.loads(b"".join(_body(answer, MOST_ABOUT, "file names")))
        if len(listed) > MOST_FILES or answer.links:
            raise RecipeError(f"{PREFIX}{owner} has more than {MOST_FILES:,} files and folders")
    sizes = dict(_checked(entry) for entry in listed if entry["type"] == "file")
    wanted = filter_repo_objects(sizes, allow_patterns=WANTED, ignore_patterns=UNWANTED)
    return {name: sizes[name] for name in wanted}


def _checked(entry: dict[str, Any]) -> tuple[str, int]:
    """Return the name of a file, which is a path inside a folder, and its size."""
    name, size = entry["path"], entry["size"]
    if (
        not isinstance(name, str)
        or len(name) > MOST_LETTERS
        or not name.isprintable()
        or "\\" in name
        or {"", ".", ".."} & {*name.split("/")}
    ):
        raise RecipeError(f"the hub returned {name!r:.80}, which is not a file name")
    if not isinstance(size, int) or size < 0:
        raise RecipeError(f"the hub returned {size!r:.80}, which is not the size of a file")
    return name, size


def _fetched(client: Client, owner: str, commit: str, place: Path) -> Path:
    """Return the folder of a commit; it gets its final name once it is complete.

    Raises:
        RecipeError: the team exceeds a limit, or a file its size in the list of files.
    """
    if not COMMIT.fullmatch(commit):
        raise RecipeError(f"the hub returned the commit {commit!r:.60}, which is not 40 hex digits")
    folder = place / commit
    if folder.is_dir():
        return folder
    files = _files(client, owner, commit)
    if sum(files.values()) > MOST_BYTES:
        raise RecipeError(f"{PREFIX}{owner} has more than {MOST_BYTES / 1e9:g} GB")
    place.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place, prefix=".") as partial:
        Path(partial, commit).mkdir()
        for name, size in files.items():
            path = Path(partial, commit, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with (
                _answer(client, f"/{owner}/resolve/{commit}/{quote(name)}") as answer,
                path.open("xb") as file,
            ):
                file.writelines(_body(answer, size, name))
            if path.stat().st_size != size:
                raise OSError(f"{name} is incomplete")
        Path(partial, commit).rename(folder)
    return folder


def _newest(place: Path, revision: str) -> Path | None:
    """Return the newest downloaded folder of a team, or of one of its commits."""
    commits = [path for path in place.glob("*") if COMMIT.fullmatch(path.name)]
    fetched = [p for p in commits if p.name.startswith(revision) and (p / RECIPE).is_file()]
    return max(fetched, key=lambda path: path.stat().st_mtime, default=None)
