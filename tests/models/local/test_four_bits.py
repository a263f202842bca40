"""Models in 4 bits: options, refusals, and training of adapters on them.

Loading one needs bitsandbytes, which is not in the development environment.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS, make_game

from collab.errors import ModelUnavailable, RecipeError
from collab.models import weights
from collab.models.local.engine import TransformersEngine
from collab.models.local.multi_lora import compute_dtype, one_adapter, unwrap
from collab.models.weights import load_model, quiet_transformers
from collab.recipe import Recipe
from collab.recipe.model import TransformersSpec
from collab.trainers import make_plan
from collab.trainers.training.check import check_recipe


@pytest.fixture(scope="module")
def wide_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that is 64 wide, because bitsandbytes quantizes blocks of 64 weights."""
    return save_tiny(tmp_path_factory.mktemp("wide"), WORDS, hidden=64)


def in_four_bits(model: Path, folder: Path, **trainer: Any) -> Recipe:
    recipe = make_game(model, folder, **trainer)
    spec = TransformersSpec(name=str(model), dtype="float32", device="cpu", load_in="4bit")
    return recipe.model_copy(update={"model": spec})


def test_missing_bitsandbytes_is_named(wide_words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'collab-agents\[4bit\]'"):
        load_model(wide_words, TransformersSpec(name="wide", device="cpu", load_in="4bit"))


def test_devices_without_4bit_support_are_refused(wide_words: Path) -> None:
    spec = TransformersSpec(name="wide", device="mps", load_in="4bit")
    with pytest.raises(ModelUnavailable, match=r"'wide' cannot be loaded in 4 bits on mps"):
        load_model(wide_words, spec)


def test_full_training_in_4bit_is_refused(wide_words: Path, tmp_path: Path) -> None:
    recipe = in_four_bits(wide_words, tmp_path, policies="full")
    with pytest.raises(RecipeError, match="the weights of a whole model in 4bit are frozen"):
        check_recipe(recipe)


def test_plan_counts_4bit_weights(wide_words: Path, tmp_path: Path) -> None:
    small = make_plan(in_four_bits(wide_words, tmp_path))
    full = make_plan(make_game(wide_words, tmp_path))
    linear = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128)
    saved = full.memory["weights"] - small.memory["weights"]
    assert saved == pytest.approx(linear * (4 - 0.516), rel=1e-3)
    assert small.parameters == full.parameters
    assert small.memory["prepacked"] == 2 * 64 * 32  # the head keeps its precision


def test_adapter_uses_the_dtype_of_its_input_on_a_quantized_layer() -> None:
    class Bits(torch.nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 4)
            self.weight = torch.nn.Parameter(torch.zeros(8, 1).byte(), requires_grad=False)

    x = torch.zeros(2, 4, dtype=torch.bfloat16)
    assert compute_dtype(Bits(), x) == torch.bfloat16
    assert compute_dtype(torch.nn.Linear(4, 4), x) == torch.float32


def test_adapters_on_a_4bit_base_are_trained_and_exported(wide_words: Path, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from collab.sharing.export import export_adapters, export_merged
    from collab.trainers import TrainingRun

    mismatches: list[float] = []

    def emit(event: Any) -> None:
        if event.type == "step.finished":
            mismatches.append(event.metrics["mismatch"])

    recipe = in_four_bits(wide_words, tmp_path, steps=2)
    run = tmp_path / "run"
    asyncio.run(TrainingRun(recipe, run, emit=emit).run())
    assert len(mismatches) == 2
    assert max(mismatches) < 1e-5
    config = json.loads((run / "adapters/a/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(wide_words)
    assert export_adapters(run, tmp_path / "adapters") == {"a": str(wide_words)} | {
        "b": str(wide_words)
    }
    export_merged(run, tmp_path / "merged")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged/a", dtype=torch.float32)
    assert not hasattr(merged.config, "quantization_config")
    engine = TransformersEngine(recipe.model)  # type: ignore[arg-type]
    with quiet_transformers():
        with_adapter = PeftModel.from_pretrained(engine.module, str(run / "adapters/a"))
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        torch.testing.assert_close(
            merged(ids).logits, with_adapter(ids).logits, atol=1e-4, rtol=1e-4
        )


def test_gradients_match_those_of_the_dequantized_weights(wide_words: Path) -> None:
    pytest.importorskip("bitsandbytes")
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    spec = TransformersSpec(name=str(wide_words), dtype="float32", device="cpu", load_in="4bit")
    options = weights.four_bit_options(spec.name, torch.float32, torch.device("cpu"))
    plain = AutoModelForCausalLM.from_pretrained(wide_words, dtype=torch.float32, **options)
    found = []
    for model in (load_model(wide_words, spec).module, plain.dequantize()):
        torch.manual_seed(0)
        config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
        with quiet_transformers():
            adapted = get_peft_model(model.eval(), config, adapter_name="own")
        ids = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])
        with torch.no_grad():
            adapted(ids)  # like sampling
        with one_adapter(unwrap(adapted), "own"):
            unwrap(adapted)(ids).logits.square().mean().backward()
        found.append({n: p.grad for n, p in adapted.named_parameters() if p.grad is not None})
    bits, dequantized = found
    assert bits.keys() == dequantized.keys()
    assert len(bits) == 2 * 7 * 2
    for name, gradient in dequantized.items():
        torch.testing.assert_close(bits[name], gradient, atol=1e-5, rtol=1e-4)
