"""Agents that call tools of an MCP server at a URL that needs a key."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local_server import Handler, LocalServer
from support.tools.mcp_http import KEY, serving

import collab
from collab.errors import RecipeError, ToolUnavailable
from collab.runtime.summary import Rollout

CALL = f"```tool\n{json.dumps({'name': 'double', 'arguments': {'n': 4}})}\n```"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as url:
        yield url


def play(project: Path, url: str, **server: Any) -> Rollout:
    """Agent `a` calls the server's tool `double` and then answers."""
    (project / "script.yaml").write_text(json.dumps({"a": [CALL, "Say w3."], "b": ["Say w3."]}))
    named = f"agents.a.tools={json.dumps([{'mcp': url, **server}])}"
    return collab.load("pair", model="scripted:script.yaml", settings=[named]).run("words/3")


def test_key_is_sent_to_an_mcp_address(
    project: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBERS_API_KEY", KEY)
    [episode] = play(project, address, key="NUMBERS_API_KEY").episodes
    assert episode.failure is None
    assert [m.content for m in episode.decisions("a")[1].observation] == ["8"]
    assert KEY not in episode.model_dump_json()


def test_run_does_not_start_without_the_right_key(
    project: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBERS_API_KEY", raising=False)
    with pytest.raises(RecipeError, match="NUMBERS_API_KEY is not set"):
        play(project, address, key="NUMBERS_API_KEY")
    monkeypatch.setenv("NUMBERS_API_KEY", "wrong")
    refused = rf"(?s)mcp {address} does not start: .*401 Unauthorized: check the option `key`"
    with pytest.raises(ToolUnavailable, match=refused) as raised:
        play(project, address, key="NUMBERS_API_KEY")
    assert "wrong" not in str(raised.value)
    with pytest.raises(ToolUnavailable, match=refused):
        play(project, address)


def test_unreachable_address_is_an_error(project: Path) -> None:
    with pytest.raises(ToolUnavailable, match=r"mcp http://127\.0\.0\.1:9/mcp "):
        play(project, "http://127.0.0.1:9/mcp")


class Answering(LocalServer):
    """Gives the same JSON answer to every request."""

    def __init__(self, status: int, body: bytes, **headers: str) -> None:
        super().__init__()
        self._status, self._body = status, body
        self._headers = {"content_type": "application/json", **headers}

    def post(self, handler: Handler) -> None:
        # Read the request: closing a connection with an unread request may lose the answer.
        handler.rfile.read(int(handler.headers["content-length"]))
        handler.send(self._status, self._body, **self._headers)


@pytest.mark.parametrize("packed", [True, False])
def test_answer_size_is_limited(
    project: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collab.tools.mcp_client.MAX_ANSWER_BYTES", 100_000)
    body, reason, headers = b" " * 110_000, "more than 100,000 bytes", {}
    if packed:
        body, headers = gzip.compress(gzip.compress(body)), {"content_encoding": "gzip, gzip"}
        reason = "compresses its answers without being asked"
    server = Answering(200, body, **headers)
    with server, pytest.raises(ToolUnavailable, match=reason) as raised:
        play(project, server.url)
    assert len(str(raised.value)) < 300


def test_a_long_error_is_shortened(project: Path) -> None:
    error = {"code": -32603, "message": "no\n" + "x" * 100_000}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    with Answering(400, body) as server, pytest.raises(ToolUnavailable, match="no xxx") as raised:
        play(project, server.url)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("module", ["stdio", "session", "streamable_http"])
def test_the_sdk_prints_no_tracebacks(module: str) -> None:
    sdk = f"from mcp.client.{module} import logger"
    logs = f"import collab.tools.mcp_client; {sdk}; logger.error('x')"
    process = subprocess.run([sys.executable, "-c", logs], capture_output=True, check=True)
    assert process.stderr == b""
