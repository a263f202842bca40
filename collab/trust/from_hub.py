"""Teams on the hub, or on a mirror named by HF_ENDPOINT: downloaded once per commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from collab.errors import ModelUnavailable, RecipeError
from collab.runs.layout import ADAPTERS, DATA, FUNCTIONS, MODELS, RECIPE

PREFIX = "hub:"
REPOSITORY_NAME = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
COMMIT = re.compile(r"[0-9a-f]{40}")
LOOKUP_SECONDS = 5.0
MAX_EXTRA_BYTES = 1_000_000_000
"""Bytes allowed beyond twice the listed size, for parts that are sent again or compressed."""
MAX_FILES, MAX_BYTES = 1_000, 20_000_000_000
"""Limits of a repository, as the hub lists it."""

DOWNLOAD_PATTERNS = [
    RECIPE,
    "README.md",
    f"{FUNCTIONS}/*.py",
    *(f"{part}/**" for part in (DATA, ADAPTERS, MODELS)),
]
"""Patterns of files to download; a star matches folders too."""
_UNSAFE_WEIGHTS = ["*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle"]
_COMPILED_CODE = ["*.so", "*.so.*", "*.dylib", "*.dll", "*.pyd", "*.pyc", "*.pyo", "*__pycache__*"]
IGNORED_PATTERNS = [*_UNSAFE_WEIGHTS, *_COMPILED_CODE]
"""Files that run code when they are read; weights are read only from safetensors."""


def fetch_team(name: str) -> Path:
    """Return the folder of the team `hub:OWNER/NAME`, at a revision if `@REVISION` follows.

    Its files are copies, not links into the hub's cache, so that they keep their names. If the hub
    cannot be reached, the newest download is used.

    Raises:
        RecipeError: the name is invalid, or the team cannot be downloaded.
    """
    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    if not REPOSITORY_NAME.fullmatch(repository):
        raise RecipeError(
            f"'{name}' is not the name of a team on the hub; write hub:OWNER/NAME[@REVISION]"
        )
    from huggingface_hub import HfApi, constants, errors

    team_folder = Path(constants.HF_HUB_CACHE) / "collab-teams" / repository.replace("/", "--")
    try:
        about = HfApi().model_info(
            repository, revision=revision or None, timeout=LOOKUP_SECONDS, files_metadata=True
        )
        check_size(name, [file.size for file in about.siblings or ()])
        revision = str(about.sha)  # from now on, no other download is taken for it
        folder = _download_commit(repository, revision, team_folder)
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise RecipeError(
            f"'{name}' is not on the hub, or you have no access: check the name, and set HF_TOKEN"
            " if it is private"
        ) from error
    except RecipeError:
        raise
    except Exception as error:  # any failure of the network, or of the disk
        newest = _newest_download(team_folder, revision)
        if newest is None:
            raise RecipeError(
                f"'{name}' cannot be downloaded: {error}; check the network and the name"
            ) from error
        folder = newest
    if not (folder / RECIPE).is_file():
        raise RecipeError(f"'{name}' contains no {RECIPE}, so it is not a team")
    return folder


def check_size(name: str, sizes: Sequence[int | None]) -> None:
    """Check the sizes of a repository's files, before they are downloaded.

    Raises:
        RecipeError: there are too many files or bytes.
    """
    size = sum(size or 0 for size in sizes)
    if len(sizes) > MAX_FILES or size > MAX_BYTES:
        raise RecipeError(
            f"'{name}' has {len(sizes):,} files and {size / 1e9:.1f} GB; a team on the hub has at"
            f" most {MAX_FILES:,} files and {MAX_BYTES / 1e9:g} GB"
        )


def _download_commit(repository: str, commit: str, team_folder: Path) -> Path:
    """Return the folder of a commit; it gets its final name once it is complete."""
    from huggingface_hub import snapshot_download

    if not COMMIT.fullmatch(commit):
        raise RecipeError(f"the hub returned the commit {commit!r:.60}, which is not 40 hex digits")
    folder, partial = team_folder / commit, team_folder / f".{commit}"
    if not folder.is_dir():
        snapshot_download(
            repository,
            revision=commit,
            local_dir=partial,
            allow_patterns=DOWNLOAD_PATTERNS,
            ignore_patterns=IGNORED_PATTERNS,
            tqdm_class=download_bar(),
        )
        partial.rename(folder)
    return folder


def download_bar(report: Callable[[str, int, int], None] | None = None) -> Any:
    """Return a class like tqdm that raises if the hub sends far more bytes than it lists.

    With `report`, it shows nothing, and reports the bytes.
    """
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    done = 0

    class Bar(tqdm):
        def __init__(self, *args: Any, **options: Any) -> None:
            self.sent = options.get("initial") or 0
            self.counts_bytes = options.get("unit") == "B"
            shown = {"disable": True} if report else {}
            super().__init__(*args, **{**options, **shown})  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> bool | None:
            nonlocal done
            self.sent += n or 0
            total = int(self.total or 0)
            if self.counts_bytes and self.sent > 2 * total + MAX_EXTRA_BYTES:
                raise ModelUnavailable(
                    f"the hub sent {self.sent:,.0f} bytes, but lists {total:,} for these files"
                )
            if self.counts_bytes and report:
                done = max(done, int(self.sent))
                report("downloading", done, total)
            return bool(super().update(n))

    return Bar


def _newest_download(team_folder: Path, revision: str) -> Path | None:
    """Return the newest downloaded folder of a team, or of one of its commits."""
    commits = [path for path in team_folder.glob("*") if COMMIT.fullmatch(path.name)]
    downloads = [p for p in commits if p.name.startswith(revision) and (p / RECIPE).is_file()]
    return max(downloads, key=lambda path: path.stat().st_mtime, default=None)
