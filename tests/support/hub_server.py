"""A local server that serves one model or dataset like the Hugging Face hub."""

import hashlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from support.local_server import Handler, LocalServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer(LocalServer):
    """Serves the files of `folder` as the model `name`, revision `main`.

    For a dataset, pass `kind=\"datasets\"`. `requests` records the requested paths.
    """

    def __init__(self, name: str, folder: Path, kind: str = "models") -> None:
        super().__init__()
        self.name, self._kind = name, kind
        self.commits: dict[str, dict[str, bytes]] = {}
        self.requests: list[str] = []
        self.publish(folder, COMMIT)

    def publish(self, folder: Path, commit: str) -> None:
        """Serve the files of `folder` as the commit of `main`."""
        self.commits[commit] = {
            f.relative_to(folder).as_posix(): f.read_bytes()
            for f in folder.rglob("*")
            if f.is_file()
        }
        self.main = commit

    def get(self, handler: Handler) -> None:
        path = handler.path.split("?")[0]
        self.requests.append(path)
        about = f"/api/{self._kind}/{self.name}"
        files = f"/{self.name}" if self._kind == "models" else f"/{self._kind}/{self.name}"
        if path == about:
            self._send_description(handler, "main")
        elif path.startswith(f"{about}/revision/"):
            self._send_description(handler, path.removeprefix(f"{about}/revision/"))
        elif path.startswith(f"{about}/tree/"):
            self._send_tree(handler, path.removeprefix(f"{about}/tree/"))
        elif path.startswith(f"{files}/resolve/"):
            self._send_file(handler, *path.removeprefix(f"{files}/resolve/").split("/", 1))
        else:
            handler.send(404, x_error_code="RepoNotFound")

    def _at(self, handler: Handler, revision: str) -> str | None:
        """The commit of a revision; if it does not exist, send an error."""
        commit = self.main if revision == "main" else revision
        if commit in self.commits:
            return commit
        handler.send(404, x_error_code="RevisionNotFound")
        return None

    def _send_description(self, handler: Handler, revision: str) -> None:
        if commit := self._at(handler, revision):
            siblings = [{"rfilename": name} for name in self.commits[commit]]
            described = {"id": self.name, "sha": commit, "siblings": siblings}
            handler.send(200, json.dumps(described).encode())

    def _send_tree(self, handler: Handler, revision: str) -> None:
        if commit := self._at(handler, revision):
            entries = [
                {"type": "file", "path": n, "size": len(c), "oid": hashlib.sha1(c).hexdigest()}
                for n, c in self.commits[commit].items()
            ]
            handler.send(200, json.dumps(entries).encode())

    def _send_file(self, handler: Handler, revision: str, file: str) -> None:
        commit = self._at(handler, revision)
        if commit is None:
            return
        if file not in self.commits[commit]:
            handler.send(404, x_error_code="EntryNotFound")
            return
        content = self.commits[commit][file]
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        handler.send(200, content, etag=etag, x_repo_commit=commit)


def read_datasets_from(url: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patch the effects of HF_ENDPOINT and HF_HOME, which are read once per process.

    A reader of JSON lines replaces the package `datasets`.
    """
    from huggingface_hub import constants

    template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    datasets = types.ModuleType("datasets")
    datasets.load_dataset = _load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", datasets)


def _load_dataset(folder: str, name: str = "", *, split: str) -> list[dict[str, Any]]:
    if "+" in split:
        return [row for one in split.split("+") for row in _load_dataset(folder, name, split=one)]
    lines = (Path(folder) / f"{name and name + '-'}{split}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
