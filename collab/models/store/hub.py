"""Downloads models from the Hugging Face hub, or a mirror named by HF_ENDPOINT."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from collab.errors import CollabError, ModelUnavailable
from collab.trust.from_hub import download_bar

if TYPE_CHECKING:
    from collab.models.store.cache import StoreProgress

WANTED = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"]
UNWANTED = ["*/*", "consolidated*"]
"""Files to skip: other formats of the same weights, and Mistral's `consolidated` files."""

LOOKUP_SECONDS = 5.0
"""Time limit of one attempt to reach the hub. The hub's client may make a second one."""


def fetch(name: str, revision: str | None, progress: StoreProgress) -> Path:
    """Return the folder of a hub model in the hub's own cache, updated if possible.

    If the hub cannot be reached, a completely cached model is used.

    Raises:
        ModelUnavailable: there is no such model or revision, access is denied, or the model is not
            completely available.
    """
    from huggingface_hub import snapshot_download

    trouble: Exception | None = None
    try:
        trouble = look_up("model", name, revision)
        folder = snapshot_download(
            name,
            revision=revision,
            allow_patterns=WANTED,
            ignore_patterns=UNWANTED,
            local_files_only=trouble is not None,
            tqdm_class=download_bar(progress),
        )
    except CollabError:
        raise
    except Exception as error:
        reason = trouble or error
        why = explain("hub model", name, revision, reason, key="revision", remedy=_REMEDY)
        raise ModelUnavailable(why) from error
    if not any(Path(folder).glob("*.safetensors")):
        raise ModelUnavailable(f"hub model {name!r} has no weights in safetensors format")
    return Path(folder)


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


def cached(name: str, revision: str | None) -> Path | None:
    """Return the folder of a hub model in the hub's own cache, or None if it is not there.

    The folder has the configuration, but may lack weights.
    """
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(config).parent if isinstance(config, str) else None


def look_up(kind: Literal["model", "dataset"], name: str, revision: str | None) -> Exception | None:
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


def explain(
    noun: str, name: str, revision: str | None, error: Exception, *, key: str, remedy: str
) -> str:
    """Return the message for a repository that is not completely available. `noun` is its kind,
    `key` the setting of its revision, and `remedy` another way to get one."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return f"{noun} {name!r} is gated: accept its terms on the hub, then set HF_TOKEN"
    if isinstance(error, errors.RepositoryNotFoundError):
        kind = noun.rpartition(" ")[2]
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


_REMEDY = "use a local folder or an alias (`collab models`)"


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
