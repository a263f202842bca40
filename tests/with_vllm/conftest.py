"""Real vLLM with the default model: adapters, an engine, servers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS
from support.vllm_servers.processes import CONTEXT, MODEL, VLLMServerProcess

from collab.models import store
from collab.models.local.engine import TransformersEngine
from collab.models.vllm.backend import Capacity
from collab.models.vllm.engine import VLLMEngine
from collab.models.vllm.own_server import OwnServer
from collab.recipe.model import TransformersSpec, VLLMSpec


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/with_vllm/" in item.nodeid:
            item.add_marker("vllm")


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    return store.resolve(MODEL)


@pytest.fixture(scope="session")
def reference() -> Iterator[TransformersEngine]:
    """The same model in the trainer's engine."""
    engine = TransformersEngine(TransformersSpec(name=MODEL, dtype="float32", device="cpu"))
    yield engine
    asyncio.run(engine.aclose())


@pytest.fixture(scope="session")
def engine() -> Iterator[VLLMEngine]:
    """A vLLM engine in separate processes."""
    spec = VLLMSpec(name=MODEL, dtype="float32", context=CONTEXT, kv_cache_gb=0.5, seeds=True)
    engine = VLLMEngine(spec)
    yield engine
    asyncio.run(engine.aclose())


@pytest.fixture(scope="session")
def servers(
    smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[OwnServer, VLLMServerProcess]]:
    """A server as a rank starts it, and one that tests can kill; both may still be starting."""
    folder = tmp_path_factory.mktemp("servers")
    spec = VLLMSpec(name=MODEL, dtype="float32", context=CONTEXT, kv_cache_gb=1.0)
    own = OwnServer(spec, Capacity(adapters=3, rank=16), folder / "own.log")
    try:
        with VLLMServerProcess(smollm2_folder, folder) as other:
            yield own, other
    finally:
        own.stop()


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of the smallest shape that vLLM runs on a CPU; it knows a dozen words."""
    return save_tiny(tmp_path_factory.mktemp("words"), WORDS, hidden=128, spread=0.1)


@pytest.fixture(scope="session")
def adapters(smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two LoRA adapters that change the answers of the default model."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from collab.models.weights import quiet_transformers

    root = tmp_path_factory.mktemp("adapters")
    config = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    with quiet_transformers():
        base = AutoModelForCausalLM.from_pretrained(smollm2_folder, dtype=torch.float32)
        torch.manual_seed(0)
        model = get_peft_model(base, config)
    for seed, name in enumerate(("aux", "main")):
        torch.manual_seed(seed)
        for key, parameter in model.named_parameters():
            if "lora_B" in key:
                torch.nn.init.normal_(parameter, std=0.05)
        model.save_pretrained(root / name)
    return {path.name: path for path in root.iterdir()}
