"""`collab serve`, and every command and example of its page."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.blocks import blocks
from typer.testing import CliRunner

from collab.cli.app import app

SERVE = [line for block in blocks("serving.md", "sh") for line in block.splitlines()]


class Started:
    """A `collab serve` command of the page on a free port."""

    def __init__(self, line: str, folder: Path) -> None:
        words = shlex.split(line)
        given = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        arguments = words[words.index("collab") + 1 :]
        with (folder / "stderr").open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "collab", *arguments, "--port", "0"],
                env={**os.environ, **given},
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert self.process.stdout
        reason = self.process.stdout.readline()
        assert reason, (folder / "stderr").read_text()
        self.url = reason.split(" at ")[1].strip().replace("0.0.0.0", "127.0.0.1")

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=30)
        return self.process.returncode


def lines(*start: str) -> list[str]:
    return [line for line in SERVE if line.startswith(start)]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    *_, line = lines("collab serve")
    running = Started(line, tmp_path_factory.mktemp("served"))
    yield running
    if running.process.poll() is None:
        running.end(signal.SIGKILL)


def test_the_request_of_the_page_is_answered(started: Started) -> None:
    [script] = [block for block in blocks("serving.md", "sh") if block.startswith("curl")]
    words = shlex.split(
        script.replace("\\\n", " ").replace("http://127.0.0.1:8000/v1", started.url)
    )
    name, value = words[words.index("-H") + 1].split(": ")
    answer = httpx.post(words[1], content=words[words.index("-d") + 1], headers={name: value})
    assert answer.json()["choices"][0]["message"]["content"].startswith("A long post.")


def test_client_of_the_page_works(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks("serving.md", "python")[0].replace("http://127.0.0.1:8000/v1", started.url)
    given: dict[str, Any] = {}
    exec(code, given)
    assert capsys.readouterr().out.count("Sum up this post in one sentence.") == 2
    exec(blocks("serving.md", "python")[1], given)
    reason = capsys.readouterr().out
    assert reason.startswith("['concise', 'detailed']\n")
    assert reason.count("Sum up this post in one sentence.") == 1


def test_server_also_speaks_mcp(started: Started) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"accept": "application/json, text/event-stream"}
    answer = httpx.post(started.url.replace("/v1", "/mcp"), json=call, headers=headers)
    assert '"name":"tldr"' in answer.text


def test_ctrl_c_ends_the_server_with_status_0(started: Started) -> None:
    assert httpx.get(started.url.replace("/v1", "/ready")).status_code == 200
    assert started.end(signal.SIGINT) == 0


@pytest.mark.slow
def test_server_with_a_key_requires_it(tmp_path: Path) -> None:
    [line] = lines("COLLAB_API_KEYS=")
    running = Started(line, tmp_path)
    url = f"{running.url}/models"
    assert httpx.get(url).status_code == 401
    key = {"authorization": "Bearer a-long-random-key"}
    assert httpx.get(url, headers=key).status_code == 200
    assert running.end(signal.SIGTERM) == 0
    assert "a-long-random-key" not in (tmp_path / "stderr").read_text()


def test_the_mounted_application_of_the_page_answers() -> None:
    import asyncio

    given: dict[str, Any] = {}
    exec(blocks("serving.md", "python")[2], given)

    async def ask() -> list[int]:
        way = httpx.ASGITransport(app=given["application"])
        headers = {"authorization": "Bearer a-long-random-key"}
        url = "http://host/team/v1/models"
        async with httpx.AsyncClient(transport=way) as client:
            outcome = [await client.get(url), await client.get(url, headers=headers)]
            async with given["team"].lifespan():
                outcome += [await client.get(url, headers=headers)]
                outcome += [await client.get("http://host/team/health")]
        return [answer.status_code for answer in outcome]

    assert asyncio.run(ask()) == [401, 503, 200, 200]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["tldr", "--host", "0.0.0.0"], "COLLAB_API_KEYS"),
        (["tldr", "--key", "two words"], "letters and digits"),
        (["tldr", "--key", ""], "--key is empty"),
        (["tldr", "tldr"], "--name"),
        (["tldr", "--name", "a", "--name", "b"], "2 names for 1 team; give one per team"),
        (["tldr", "--name", "../a"], "cannot be a served name"),
        (["no-such-team"], "no-such-team"),
        (
            ["tldr", "coding", "--name", "a:b", "--name", "a_b", "--mcp", "stdio"],
            "the same tool name 'a_b'",
        ),
        (["tldr", "--history", "keep"], "--history"),
        (["tldr", "--mcp", "stdio", "--port", "8001"], "leave out --host and --port"),
        (["tldr", "--origin", "foo"], "'foo' is not an origin"),
        (["tldr", "--origin", "https://example.org/"], "without a path"),
        (["coding-tools", "-m", "echo", "--sandbox", "unsafe"], "sealed"),
    ],
)
def test_bad_usage(arguments: list[str], reason: str) -> None:
    shown = CliRunner().invoke(app, ["serve", *arguments])
    assert shown.exit_code == 2
    assert reason in shown.stderr
    assert "two words" not in shown.stderr


def test_port_in_use_is_refused() -> None:
    from collab.serving.server import bind

    with bind("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        arguments = ["tldr", "--port", port, "-m", "echo", "--set", "agents.concise.model=echo"]
        shown = CliRunner().invoke(app, ["serve", *arguments])
    assert (shown.exit_code, "--port" in shown.stderr) == (2, True)
    assert "note: tldr: the model echo is not used for concise" in shown.stderr


def test_foreign_team_needs_approval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "team.yaml").write_text(
        "agents: {one: {prompt: '{{ task.prompt }}', parser: 'own.py:parse'}}\n"
    )
    (tmp_path / "own.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.chdir(tmp_path / "mine")
    shown = CliRunner().invoke(app, ["serve", "../team.yaml", "-m", "echo"])
    assert (shown.exit_code, "--trust" in shown.stderr) == (2, True)


def test_the_folder_of_a_run_is_served_under_its_name(here: Path) -> None:
    import asyncio

    import collab
    import collab.serving

    collab.load("tldr", model="echo").run("tldr/3", out="runs/first")
    team = collab.serving.app("runs/first")

    async def ask() -> Any:
        async with (
            httpx.AsyncClient(transport=httpx.ASGITransport(app=team)) as client,
            team.lifespan(),
        ):
            request = {"model": "first", "input": "A long post."}
            return (await client.post("http://host/v1/responses", json=request)).json()

    for _ in range(2):  # it can be closed and opened again
        assert asyncio.run(ask())["output"][-1]["content"][0]["text"].startswith("A long post.")


SLOW_SCRIPT = '[{"text": "at last", "seconds": 60}]'


@pytest.mark.slow
def test_second_signal_ends_the_server_at_once(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SLOW_SCRIPT)
    running = Started("collab serve coding-single --model scripted:script.yaml", tmp_path)
    request = {"model": "coding-single", "messages": [{"role": "user", "content": "Hello."}]}
    url = f"{running.url}/chat/completions"
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(httpx.post, url, json=request, timeout=60)
        metrics = running.url.replace("/v1", "/metrics")
        while "collab:requests_running 1.0" not in httpx.get(metrics).text:
            time.sleep(0.1)
        running.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        assert httpx.post(url, json=request).status_code == 503
        assert running.process.poll() is None, "running requests may finish"
        assert running.end(signal.SIGTERM) == 0
        assert answer.result().status_code == 503
