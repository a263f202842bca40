"""What every test has: a configuration folder of its own."""

import gc
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

NUMBERS = count()


def pytest_collection_finish() -> None:
    """What is imported by now stays, so it is not looked through again and again for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def without_waiting_for_the_disk() -> Iterator[None]:
    """Files outlive the processes that tests kill; only a machine that crashes loses them."""
    before = os.fsync
    os.fsync = lambda fd: None
    yield
    os.fsync = before


@pytest.fixture(scope="session")
def configurations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for them apart: where thousands lie, each next one of pytest's takes its time."""
    return tmp_path_factory.mktemp("configurations")


@pytest.fixture(autouse=True)
def configuration(configurations: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is trusted in one test is not in another, nor in the user's own folder."""
    folder = configurations / str(next(NUMBERS))
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.setenv("COLLAB_APPROVED", "")
    return folder


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """OpenTelemetry's exporter in memory, to which all spans of the test go."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="needs opentelemetry-sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()
