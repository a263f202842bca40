"""The examples, and the code in docs/python.md and of the migration pages, run unchanged."""

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from support.blocks import blocks

import collab

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


PAGES = ("python.md", "from_trl.md", "from_comlrl.md")


def run(code: str, tiny: Path) -> dict[str, Any]:
    """Run an example; if it trains, use a tiny model instead of the default one."""
    small = f"model={{'name': {str(tiny)!r}, 'dtype': 'float32', 'device': 'cpu'}}, steps=2"
    found: dict[str, Any] = {}
    exec(compile(code.replace("steps=2", small), "example", "exec"), found)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_the_first_example_trains(page: str, tiny_words: Path, here: Path) -> None:
    trained = run(blocks(page, "python")[0], tiny_words)["run"]
    assert isinstance(trained, collab.Training)
    assert trained.summary["steps"] == 2
    assert all(row["return/maximum"] > 0 for row in trained.metrics)
    assert not trained.metrics[-1].get("episodes/dropped")


def test_the_other_examples_run(
    here: Path, capsys: pytest.CaptureFixture[str], tiny_words: Path
) -> None:
    keeps, unscored, streams, evaluates, objects, reads = blocks("python.md", "python")[1:]
    assert len(run(keeps, tiny_words)["others"].episodes) == 2
    teams = run(evaluates, tiny_words)["results"].teams
    assert [(t.label, t.metrics["return"].mean) for t in teams] == [("plain", 0.0), ("hinted", 0.5)]
    run(unscored, tiny_words)
    assert "What is a proof? Be brief." in capsys.readouterr().out
    run(streams, tiny_words)
    assert "run.finished" in capsys.readouterr().out
    run(objects, tiny_words)
    assert "Say it in fewer words." in capsys.readouterr().out
    collab.load("coding", model="echo").run("humaneval/1", out="runs/first")
    run(reads, tiny_words)
    assert "runs/first done" in capsys.readouterr().out


def test_every_public_name_exists() -> None:
    for name in collab.__all__:
        assert getattr(collab, name) is not None, name
