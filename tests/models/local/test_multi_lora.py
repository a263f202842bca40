"""A batch with several adapters gives, row by row, PEFT's result for each adapter."""

from pathlib import Path

import pytest
import torch
from support.tiny_models import tiny

from collab.models.local.engine import TransformersEngine
from collab.models.local.multi_lora import (
    NO_ADAPTER,
    RowAdapters,
    adapted_layers,
    can_mix,
    merge,
    one_adapter,
    without_adapters,
)
from collab.models.weights import quiet_transformers

ROWS = ["adapter0", NO_ADAPTER, "adapter1", "adapter0"]
IDS = torch.tensor([[5, 6, 7, 8]] * len(ROWS))


@pytest.fixture
def engine(tiny_engine: TransformersEngine, adapters: dict[str, Path]) -> TransformersEngine:
    for name in ("aux", "main"):
        tiny_engine.load_adapter(str(adapters[name]))
    return tiny_engine


def peft_logits(engine: TransformersEngine, row: int) -> torch.Tensor:
    module, name = engine.module, ROWS[row]
    if name == NO_ADAPTER:
        with module.disable_adapter():
            logits: torch.Tensor = module(IDS[row : row + 1]).logits
    else:
        module.set_adapter(name)
        logits = module(IDS[row : row + 1]).logits
    return logits


@torch.no_grad()
def test_every_row_has_its_own_adapter(engine: TransformersEngine) -> None:
    base = engine.module.get_base_model()
    expected = torch.cat([peft_logits(engine, row) for row in range(len(ROWS))])
    rows = RowAdapters(ROWS)
    with rows.apply(base):
        assert torch.allclose(base(IDS).logits, expected, atol=1e-5)
        rows.select([1, 2])
        assert torch.allclose(base(IDS[1:3]).logits, expected[1:3], atol=1e-5)
    assert torch.allclose(peft_logits(engine, 0), expected[:1], atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 3, 2), (2 * 3, 2), (2, 1, 3, 2)])
def test_each_row_keeps_its_own_ranks(shape: tuple[int, ...]) -> None:
    rows = RowAdapters(["one", "two"])
    masked = rows.mask_output(torch.ones(shape), (("one", 1), ("two", 1)))
    assert masked.shape == shape
    assert masked.view(2, 3, 2)[0].tolist() == [[1.0, 0.0]] * 3
    assert masked.view(2, 3, 2)[1].tolist() == [[0.0, 1.0]] * 3


@torch.no_grad()
def test_adapters_work_on_a_bfloat16_base(engine: TransformersEngine) -> None:
    expected = torch.cat([peft_logits(engine, row) for row in range(len(ROWS))])
    base = engine.module.get_base_model().to(torch.bfloat16)
    with RowAdapters(ROWS).apply(base):
        found = base(IDS).logits.float()
    assert (found - expected).norm() < 0.05 * expected.norm()
    apart = (expected[0] - expected[2]).norm()
    assert apart > 0.1 * expected[0].norm()  # the adapters differ clearly


@pytest.mark.parametrize("names", [[NO_ADAPTER] * 2, ["adapter1"] * 2])
@torch.no_grad()
def test_rows_with_equal_adapters_match_peft(engine: TransformersEngine, names: list[str]) -> None:
    base = engine.module.get_base_model()
    expected = peft_logits(engine, ROWS.index(names[0]))
    with RowAdapters(names).apply(base):
        assert torch.allclose(base(IDS[:2]).logits[:1], expected, atol=1e-5)


def test_single_adapter_gradients_match_peft(engine: TransformersEngine) -> None:
    module, base = engine.module, engine.module.get_base_model()
    module.set_adapter("adapter0")
    parameters = [p for name, p in module.named_parameters() if "adapter0" in name]
    expected = torch.autograd.grad(module(IDS).logits.square().sum(), parameters)
    with one_adapter(base, "adapter0"):
        found = torch.autograd.grad(base(IDS).logits.square().sum(), parameters)
    for ours, pefts in zip(found, expected, strict=True):
        assert torch.allclose(ours, pefts, rtol=1e-3, atol=1e-4 * float(pefts.abs().max()))


def test_single_adapter_leaves_other_layers_unchanged(engine: TransformersEngine) -> None:
    """PEFT itself would apply its active adapter there, here another one."""
    from peft import LoraConfig

    module, base = engine.module, engine.module.get_base_model()
    narrow = LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    with quiet_transformers():
        module.add_adapter("narrow", narrow)
    assert module.active_adapter == "adapter0"
    with one_adapter(base, "narrow"):
        found = base(IDS).logits
    module.set_adapter("narrow")
    assert torch.allclose(found, module(IDS).logits, atol=1e-5)


def test_other_adapter_types_are_left_to_peft(engine: TransformersEngine) -> None:
    from peft import LoraConfig

    assert can_mix(engine.module)
    with quiet_transformers():
        engine.module.add_adapter("dora", LoraConfig(r=2, use_dora=True, target_modules=["q_proj"]))
    assert not can_mix(engine.module)


def test_nested_replacement_of_forward_is_restored(engine: TransformersEngine) -> None:
    base = engine.module.get_base_model()
    layer = vars(adapted_layers(base)[0])
    with one_adapter(base, "adapter0"):
        outer = layer["forward"]
        with without_adapters(base):
            assert layer["forward"] is not outer
        assert layer["forward"] is outer
    assert "forward" not in layer


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens", "q_proj"])
def test_merged_adapter_matches_even_if_the_head_shares_its_weights(
    target: str, tmp_path: Path
) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = tiny("llama", tie_word_embeddings=True)
    config = LoraConfig(r=2, target_modules=[target], init_lora_weights=False)
    ids = torch.tensor([[1, 2, 3]])
    with quiet_transformers(), torch.no_grad():
        adapted = get_peft_model(model, config)
        expected = adapted(ids).logits
        merge(adapted, "default").save_pretrained(tmp_path)
        saved = AutoModelForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(saved(ids).logits, expected)
    assert saved.config.tie_word_embeddings == (target == "q_proj")
