"""A server of two teams. These tests are skipped without the extra for serving."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import openai  # slow import; workers without these tests skip it
    from support.served import Server

NEEDED = ("starlette", "uvicorn", "prometheus_client", "openai")
MISSING = [name for name in NEEDED if find_spec(name) is None]

collect_ignore_glob = ["test_*.py"] if MISSING else []


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    from support.served import DUO, SOLO, Server, recipe

    with Server(recipe(DUO), recipe(SOLO)) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with server.client() as openai_client:
        yield openai_client
