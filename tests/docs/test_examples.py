"""The examples run unchanged."""

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_embed() -> None:
    command = [sys.executable, str(EXAMPLES / "embed.py"), "humaneval/12", "echo"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "humaneval/12#1: reward" in done.stdout


def test_the_web_service_streams_events() -> None:
    async def serve_and_ask() -> list[str]:
        sys.path.insert(0, str(EXAMPLES))
        try:
            from web_service import Service

            import collab
        finally:
            sys.path.remove(str(EXAMPLES))
        service = Service(collab.load("coding", model="echo"))
        server = await asyncio.start_server(service.answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            return await asyncio.to_thread(ask, port)

    lines = asyncio.run(serve_and_ask())
    types = [json.loads(line)["type"] for line in lines]
    assert (types[0], types[-1]) == ("run.started", "run.finished")


def ask(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/run/humaneval/12") as answer:
        text = answer.read().decode()
    return [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
