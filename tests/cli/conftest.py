"""A small project: one team of two agents, one text task without a sandbox, plug-in models."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import Collab
from support.word_project import make_project

TEAM = """\
description: Two agents each say a word.
agents:
  a: {prompt: "Say {{ task.word }}.", revise: "{{ feedback }} Again, {{ task.word }}."}
  b: {prompt: "Say {{ task.word }}."}
"""
MODELS = '''\
"""Models that are slow from the second problem on."""

import asyncio
import time

from collab.records import Action, Usage


class Slow:
    name = "slow"
    batching = "continuous"

    def __init__(self, seconds, wait):
        self.seconds, self.wait = seconds, wait

    async def generate(self, requests, progress=None):
        if not requests[0].call.task.endswith("/0"):
            await self.wait(self.seconds)
        return [Action(text="Say w0.", usage=Usage(new_tokens=3)) for _ in requests]

    async def aclose(self):
        pass


class Heavy(Slow):
    """Takes a second to load, and no time to answer."""

    def __init__(self):
        super().__init__(0, asyncio.sleep)
        self.is_loaded = False

    async def open_early(self, adapter=None):
        if not self.is_loaded:
            await asyncio.sleep(1)
        self.is_loaded = True

    async def generate(self, requests, progress=None):
        await self.open_early()
        return await super().generate(requests, progress)


def heavy(spec):
    return Heavy()


def patient(spec):
    """Stops when it is cancelled."""
    return Slow(60, asyncio.sleep)


def stubborn(spec):
    """Sleeps in a thread, which nothing can stop."""
    return Slow(60, lambda seconds: asyncio.to_thread(time.sleep, seconds))
'''


@pytest.fixture
def project(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(here, TEAM, n_words=8)
    (here / "models.py").write_text(MODELS)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    return here


@pytest.fixture
def collab() -> Collab:
    return Collab()


@pytest.fixture
def run(collab: Collab, project: Path) -> Path:
    """A run of three problems with two samples each."""
    line = ("run", "pair", "-t", "words/0-2", "-n", "2", "-m", "echo", "--out", "out")
    assert collab(*line).status == 0
    return Path("out")


@pytest.fixture
def shouting(project: Path) -> None:
    """A team in which one agent is always wrong."""
    agents = 'agents:\n  a: {prompt: "SAY {{ task.word }}."}\n'
    (project / "agents" / "shouting.yaml").write_text("extends: pair\n" + agents)


@pytest.fixture(autouse=True)
def restore_sighup() -> Iterator[None]:
    """Handle SIGHUP, even if the tests run under nohup, which ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
