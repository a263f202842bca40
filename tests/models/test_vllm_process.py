"""vLLM's engine processes, with a fake package in place of vLLM."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor

from collab.models.vllm import process
from collab.models.vllm.backend import Capacity
from collab.models.vllm.engine import VLLMEngine
from collab.models.vllm.process import Process
from collab.recipe.model import VLLMSpec

CHANGED = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "NCCL_CUMEM_ENABLE": "0"}

STAND_IN = {
    "__init__.py": f"""
import os
import torch._inductor.config
os.environ.update({CHANGED})
torch._inductor.config.compile_threads = 1
""",
    "engine/arg_utils.py": "class AsyncEngineArgs(dict):\n    pass\n",
    "usage/usage_lib.py": "class UsageContext:\n    LLM_CLASS = 'LLM_CLASS'\n",
    "v1/engine/async_llm.py": """
import os
from types import SimpleNamespace

STARTED = []


class AsyncLLM:
    errored = False
    model_config = SimpleNamespace(max_model_len=128)

    @classmethod
    def from_engine_args(cls, args, usage_context):
        STARTED.append((dict(args), dict(os.environ)))
        return cls()

    async def collective_rpc(self, *args, **options):
        pass

    def shutdown(self):
        pass
""",
}


@pytest.fixture
def folder(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A model's folder, with the fake package importable and the environment restored."""
    for name, text in STAND_IN.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in (*CHANGED, *process.DEFAULT_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    with inductor.patch(compile_threads=7):
        yield tiny
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        del sys.modules[name]


def started(*engines: Process, folder: Path) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """Start the engines; return the options and environment of each."""

    async def start() -> None:
        for engine in engines:
            await engine.open(folder, Capacity())
        for engine in engines:
            await engine.aclose()

    asyncio.run(start())
    found = sys.modules["vllm.v1.engine.async_llm"].STARTED
    return list(found)


def test_importing_vllm_leaves_this_process_unchanged(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_CUMEM_ENABLE", "1")
    started(Process(VLLMSpec(name=str(folder), kv_cache_gb=0.01)), folder=folder)
    assert os.environ["NCCL_CUMEM_ENABLE"] == "1"
    assert "TORCHINDUCTOR_COMPILE_THREADS" not in os.environ
    assert inductor.compile_threads == 7


@pytest.mark.parametrize(("value", "method"), [(None, "spawn"), ("fork", "fork")])
def test_worker_processes_are_spawned_by_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, method: str
) -> None:
    if value:
        monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", value)
    engine = Process(VLLMSpec(name=str(folder), kv_cache_gb=0.01))
    [(_, environment)] = started(engine, folder=folder)
    assert environment["VLLM_WORKER_MULTIPROC_METHOD"] == method


def test_worker_processes_import_nothing_from_the_current_folder(folder: Path) -> None:
    engine = Process(VLLMSpec(name=str(folder), kv_cache_gb=0.01))
    [(_, environment)] = started(engine, folder=folder)
    assert environment["PYTHONSAFEPATH"] == "1"
    assert "PYTHONSAFEPATH" not in os.environ, "the variable is set only for these processes"


def test_engine_of_a_frozen_agent_can_sleep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    spec = VLLMSpec(name=str(folder), dtype="float32", sleep=True)

    async def publish() -> None:
        engine = VLLMEngine(spec)
        await engine.publish({}, 0)
        await engine.aclose()

    asyncio.run(publish())
    [(options, _)] = sys.modules["vllm.v1.engine.async_llm"].STARTED
    assert options["enable_sleep_mode"]


def test_two_engines_divide_the_memory_share(folder: Path) -> None:
    def shares(*contexts: int) -> list[float]:
        specs = [VLLMSpec(name=str(folder), kv_cache_gb=0.01, context=n) for n in contexts]
        found = started(*[Process(spec) for spec in specs], folder=folder)
        return [options["gpu_memory_utilization"] for options, _ in found[-len(contexts) :]]

    assert shares(64, 128) == [0.25, 0.25]
    assert shares(64) == [0.5], "closed engines use no memory"
