"""An MCP server over streamable HTTP, in a thread; it requires a key."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse

KEY = "open sesame"


@contextmanager
def serving() -> Iterator[str]:
    """The URL of a server with one tool, `double`."""
    from mcp.server import MCPServer

    server = MCPServer("numbers")

    @server.tool()
    def double(n: int) -> int:
        """Twice a number."""
        return 2 * n

    listener = socket.create_server(("127.0.0.1", 0))
    app = keyed(server.streamable_http_app())
    config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
    http = uvicorn.Server(config)
    thread = threading.Thread(target=http.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        http.should_exit = True
        thread.join()
        listener.close()


def keyed(app: Any) -> Any:
    """The same app, for requests with the key as a bearer token."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        authorization = dict(scope.get("headers", ())).get(b"authorization")
        if scope["type"] == "http" and authorization != f"Bearer {KEY}".encode():
            await PlainTextResponse("no key", 401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded
