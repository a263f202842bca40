"""A local server that serves one model as the Hugging Face hub does."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer:
    """Serves the files of `folder` as the model `name`, revision `main`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.files = {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.owner = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub: HubServer = self.server.owner  # type: ignore[attr-defined]
        path = self.path.split("?")[0]
        if path == f"/api/models/{hub.name}" or path.startswith(f"/api/models/{hub.name}/revision"):
            revision = path.rpartition("/revision/")[2] if "/revision/" in path else "main"
            if revision not in ("main", COMMIT):
                self._refuse("RevisionNotFound")
                return
            siblings = [{"rfilename": name} for name in hub.files]
            self._send(json.dumps({"id": hub.name, "sha": COMMIT, "siblings": siblings}).encode())
        elif path.startswith(f"/api/models/{hub.name}/tree/"):
            entries = [
                {"type": "file", "path": n, "size": len(c), "oid": hashlib.sha1(c).hexdigest()}
                for n, c in hub.files.items()
            ]
            self._send(json.dumps(entries).encode())
        elif path.startswith(f"/{hub.name}/resolve/") and path.split("/")[-1] in hub.files:
            content = hub.files[path.split("/")[-1]]
            etag = hashlib.sha1(content).hexdigest()
            self._send(content, **{"etag": f'"{etag}"', "x-repo-commit": COMMIT})
        else:
            self._refuse("RepoNotFound")

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""

    def _send(self, content: bytes, **headers: str) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def _refuse(self, code: str) -> None:
        self.send_response(404)
        self.send_header("x-error-code", code)
        self.send_header("content-length", "0")
        self.end_headers()
