"""The plan's parameter counts from file headers match torch's for the built model."""

import json
import platform
from pathlib import Path
from typing import Any

import pytest
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS

from collab.models import store
from collab.recipe import LoraSpec
from collab.recipe.model import TransformersSpec
from collab.recipe.recipe import DEFAULT_MODEL
from collab.trainers.training.plan import cards, sizes
from collab.trainers.training.plan.cards import CARDS
from collab.trainers.training.plan.sizes import compute_sizes

LORAS = [LoraSpec(), LoraSpec(rank=3, targets=("q_proj", "down_proj"))]
CHANGES: dict[str, dict[str, Any]] = {
    "apart": {},
    "tied": {"tie_word_embeddings": True},
    "biased": {"attention_bias": True, "mlp_bias": True, "head_dim": 16},
}


def save(folder: Path, changes: dict[str, Any]) -> Path:
    """Save a tiny Llama with a changed configuration."""
    from transformers import LlamaConfig, LlamaForCausalLM

    save_tiny(folder, WORDS, hidden=64)
    if changes:
        config_data = json.loads((folder / "config.json").read_text())
        config = LlamaConfig(**{**config_data, "head_dim": None, **changes})
        LlamaForCausalLM(config).save_pretrained(folder, max_shard_size="60KB")
        single, index = folder / sizes.WEIGHTS_FILE, folder / sizes.WEIGHTS_INDEX
        if index.is_file():
            single.unlink(missing_ok=True)
    return folder


def check_same_sizes(model: TransformersSpec) -> None:
    for lora in LORAS:
        read, built = (
            sizes.count_weights_in_files(model, lora),
            sizes.count_weights_in_model(model, lora),
        )
        assert read is not None
        for at in (cards.device_for(model, None), cards.device_for(model, CARDS["h100"])):
            assert compute_sizes(model, at, read) == compute_sizes(model, at, built)


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_tiny_llama_has_the_counts_of_torch(changes: dict[str, Any], tmp_path: Path) -> None:
    name = str(save(tmp_path, changes))
    for more in ({"dtype": "float32"}, {"load_in": "4bit"}):
        check_same_sizes(TransformersSpec(name=name, **more))


@pytest.mark.skipif(not store.local_folder(DEFAULT_MODEL), reason="needs the default model")
def test_default_model_has_the_same_counts_as_in_torch() -> None:
    check_same_sizes(TransformersSpec(name=DEFAULT_MODEL))


@pytest.mark.parametrize("device", ["auto", "cpu"])
@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16", "float16"])
def test_processor_matches_what_torch_reports(dtype: Any, device: str) -> None:
    model = TransformersSpec(name=DEFAULT_MODEL, dtype=dtype, device=device)
    assert cards.cpu_device(model) in (None, cards.torch_device(model))


def test_unknown_files_are_left_to_transformers(tmp_path: Path) -> None:
    folder = save(tmp_path / "a", {})
    model = TransformersSpec(name=str(folder))
    assert sizes.count_weights_in_files(model, LoraSpec(targets=("lm_head",))) is None
    assert sizes.count_weights_in_files(model, LoraSpec(targets=("nothing",))) is None
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "other"}))
    assert sizes.count_weights_in_files(model, LoraSpec()) is None
    (folder / "config.json").write_text(json.dumps(config))
    (folder / sizes.WEIGHTS_FILE).write_bytes(b"\xff" * 16)
    assert sizes.count_weights_in_files(model, LoraSpec()) is None


def test_unused_nvidia_driver_may_have_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a freshly started machine, NVIDIA's device node is not in /dev yet."""
    there = {Path("/proc/driver/nvidia/version")}
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(Path, "exists", lambda path: path in there)
    assert cards.may_have_gpus()
    there.clear()
    assert not cards.may_have_gpus()
