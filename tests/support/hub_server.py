"""A local server that serves one model as the Hugging Face hub does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from support.local_server import Handler, LocalServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer(LocalServer):
    """Serves the files of `folder` as the model `name`, revision `main`."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__()
        self.name = name
        self.files = {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()}

    def get(self, handler: Handler) -> None:
        path = handler.path.split("?")[0]
        model, file = f"/api/models/{self.name}", path.split("/")[-1]
        if path == model or path.startswith(f"{model}/revision"):
            self._send_description(handler, path)
        elif path.startswith(f"{model}/tree/"):
            entries = [
                {"type": "file", "path": n, "size": len(c), "oid": hashlib.sha1(c).hexdigest()}
                for n, c in self.files.items()
            ]
            handler.send(200, json.dumps(entries).encode())
        elif path.startswith(f"/{self.name}/resolve/") and file in self.files:
            content = self.files[file]
            etag = hashlib.sha1(content).hexdigest()
            handler.send(200, content, etag=f'"{etag}"', x_repo_commit=COMMIT)
        else:
            handler.send(404, x_error_code="RepoNotFound")

    def _send_description(self, handler: Handler, path: str) -> None:
        revision = path.rpartition("/revision/")[2] if "/revision/" in path else "main"
        if revision not in ("main", COMMIT):
            handler.send(404, x_error_code="RevisionNotFound")
            return
        siblings = [{"rfilename": name} for name in self.files]
        described = {"id": self.name, "sha": COMMIT, "siblings": siblings}
        handler.send(200, json.dumps(described).encode())
