"""Downloads models from the Hugging Face hub, or a mirror named by HF_ENDPOINT."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from collab.errors import CollabError, ModelUnavailable
from collab.runs.layout import MODEL_CONFIG
from collab.trust.from_hub import LOOKUP_SECONDS, download_bar

if TYPE_CHECKING:
    from collab.models.store.cache import StoreProgress

MODEL_PATTERNS = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"]
EXCLUDED_PATTERNS = ["*/*", "consolidated*"]
"""Files to skip: other formats of the same weights, and Mistral's `consolidated` files."""

RepoKind = Literal["model", "dataset"]
DATASET_REMEDY = "use the path of a local .jsonl file as suite"
_MESSAGE_PARTS = {
    "model": ("hub model", "revision", "use a local folder or an alias (`collab models`)"),
    "dataset": ("the dataset", "task.source.revision", DATASET_REMEDY),
}
"""For messages: the noun of a kind, the key of its revision, and another way to get one."""


def fetch(name: str, revision: str | None, progress: StoreProgress) -> Path:
    """Return the folder of a hub model as `download` does, or raise ModelUnavailable also for a
    model without weights in safetensors.
    """
    files = {"allow_patterns": MODEL_PATTERNS, "ignore_patterns": EXCLUDED_PATTERNS}
    folder = download("model", name, revision, progress, **files)
    if not any(folder.glob("*.safetensors")):
        raise ModelUnavailable(f"hub model {name!r} has no weights in safetensors format")
    return folder


def fetch_file(path: str, folder: Path, progress: StoreProgress) -> Path:
    """Return the file OWNER/NAME/FILE of the hub, in `folder`, and resume a broken download.

    Raises:
        ModelUnavailable: the hub cannot be reached soon, or does not have the file.
    """
    from huggingface_hub import HfApi, hf_hub_download

    name, _, file = path.rpartition("/")
    try:
        HfApi().model_info(name, timeout=LOOKUP_SECONDS)
        return Path(
            hf_hub_download(name, file, local_dir=folder, tqdm_class=download_bar(progress))
        )
    except CollabError:
        raise
    except Exception as error:
        raise ModelUnavailable(f"the hub does not serve {path}: {_reason(error)}") from error


def cached_folder(name: str, revision: str | None) -> Path | None:
    """Return the folder of a hub model in the hub's own cache, or None if it is not there.

    The folder has the configuration, but may lack weights.
    """
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(name, MODEL_CONFIG, revision=revision)
    return Path(config).parent if isinstance(config, str) else None


def download(
    kind: RepoKind,
    name: str,
    revision: str | None,
    progress: StoreProgress | None = None,
    **files: Any,
) -> Path:
    """Return the folder of a repository in the hub's own cache, updated if possible.

    If the hub cannot be reached, a completely cached repository is used. `files` selects files.

    Raises:
        ModelUnavailable: there is no such repository or revision, access is denied, or the
            repository is not completely available, or much larger than the hub lists.
    """
    lookup_error: Exception | None = None
    try:
        lookup_error = _lookup_error(kind, name, revision)
        offline = lookup_error is not None
        return download_snapshot(kind, name, revision, progress, local_files_only=offline, **files)
    except CollabError as error:  # the hub sends far more than it lists
        noun, _, remedy = _MESSAGE_PARTS[kind]
        why = f"{noun} {name!r} cannot be downloaded: {error}; {remedy}"
        raise ModelUnavailable(why) from error
    except Exception as error:
        raise ModelUnavailable(_message(kind, name, revision, lookup_error or error)) from error


def download_snapshot(
    kind: RepoKind,
    name: str,
    revision: str | None,
    progress: StoreProgress | None = None,
    **more: Any,
) -> Path:
    """Download a repository. `more` are options of the hub's client, which raises its own error."""
    from huggingface_hub import snapshot_download

    bar = download_bar(progress)
    return Path(snapshot_download(name, repo_type=kind, revision=revision, tqdm_class=bar, **more))


def _lookup_error(kind: RepoKind, name: str, revision: str | None) -> Exception | None:
    """Return the reason why the hub cannot be reached, or None. If the hub lacks the repository or
    the revision, the error of the hub's client is raised.
    """
    from huggingface_hub import HfApi, errors

    try:
        HfApi().repo_info(name, repo_type=kind, revision=revision, timeout=LOOKUP_SECONDS)
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
        raise
    except Exception as error:
        return error
    return None


def _message(kind: RepoKind, name: str, revision: str | None, error: Exception) -> str:
    """Return the message for a repository that is not completely available."""
    from huggingface_hub import errors

    noun, key, remedy = _MESSAGE_PARTS[kind]
    if isinstance(error, errors.GatedRepoError):
        return f"{noun} {name!r} is gated: accept its terms on the hub, then set HF_TOKEN"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the hub has no {kind} {name!r} (a private one needs HF_TOKEN); {remedy}"
    at = f" at revision {revision!r}" if revision else ""
    if isinstance(error, errors.RevisionNotFoundError):
        return (
            f"{noun} {name!r} has no revision {revision!r} on the hub; set {key} to"
            f" an existing one, or {remedy}"
        )
    return (
        f"{noun} {name!r}{at} is not completely cached, and the hub cannot be reached:"
        f" {_reason(error)}; check the network, set HF_ENDPOINT to a mirror, or {remedy}"
    )


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
