"""Fixtures for all tests: a new configuration folder per test, and a sandbox on request."""

import gc
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collab.sandbox import Sandbox

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the models are too small for a second thread
NUMBERS = count()
gc.disable()  # imported modules and collected tests stay
settings.register_profile(
    "collab", max_examples=40, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("collab")


def pytest_collection_finish() -> None:
    """Exclude all imported objects from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def skip_fsync() -> Iterator[None]:
    """Skip fsync: files survive killed processes, and only a crash of the machine loses them."""
    before = os.fsync
    os.fsync = lambda fd: None
    yield
    os.fsync = before


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Return a function that makes folders faster than pytest, which searches for a free number."""
    parent = tmp_path_factory.mktemp("folders")

    def new_folder() -> Path:
        folder = parent / f"folder-{next(NUMBERS)}"
        folder.mkdir(mode=0o700)
        return folder

    return new_folder


@pytest.fixture
def tmp_path(new_folder: Callable[[], Path]) -> Path:
    return new_folder()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def tiny_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama that knows a dozen words."""
    from support.tiny_words import save_tiny
    from support.trainer_recipes import WORDS

    return save_tiny(tmp_path_factory.mktemp("tiny"), WORDS)


@pytest.fixture(autouse=True)
def configuration(new_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a new configuration folder per test, so approvals are not shared."""
    folder = new_folder()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.setenv("COLLAB_APPROVED", "")
    return folder


@pytest.fixture(scope="session")
def sandbox() -> Iterator["Sandbox"]:
    from collab.sandbox import Sandbox

    sandbox = Sandbox()
    yield sandbox
    sandbox.close()


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """OpenTelemetry's in-memory exporter, which gets all spans of the test."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="needs opentelemetry-sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()
