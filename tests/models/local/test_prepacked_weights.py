"""Products of few rows with packed weights give the same results, for fused layers too."""

import platform
import weakref
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from support.tiny_models import tiny
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from collab.models.local.fast import prepacked_weights as subject
from collab.models.local.fast.accelerated import fused_projections
from collab.models.local.fast.memory import MIN_PACKED_WEIGHTS
from collab.models.local.fast.prepacked_weights import MAX_PACKED_ROWS, can_pack, pack_weights
from collab.models.local.multi_lora import NO_ADAPTER, RowAdapters, without_adapters
from collab.models.weights import quiet_transformers
from collab.trainers.learner.optimizer import Optimizer

CPU = torch.device("cpu")
TYPES = [dtype for dtype in (torch.float32, torch.bfloat16) if can_pack(dtype, CPU)]
SIDE = int(MIN_PACKED_WEIGHTS**0.5)


def layer_of(dtype: torch.dtype, *, bias: bool = False) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(SIDE, SIDE + 8, bias=bias, dtype=dtype)


def is_packed(layer: nn.Linear) -> bool:
    return layer in subject._PACKED_GROUPS


def test_packing_support_depends_on_the_processor() -> None:
    assert (torch.float32 in TYPES) == (platform.machine() in ("x86_64", "AMD64"))
    assert not can_pack(torch.float16, CPU)
    assert not can_pack(torch.float32, torch.device("cuda"))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("rows", [1, MAX_PACKED_ROWS])
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_packed_products_match_plain_ones(dtype: torch.dtype, rows: int, bias: bool) -> None:
    layer = layer_of(dtype, bias=bias)
    x = torch.randn(1, SIDE, rows, dtype=dtype).transpose(1, 2)  # not contiguous
    before = layer(x)
    with pack_weights([[layer]]):
        within = layer(x)
    assert is_packed(layer)
    assert within.is_contiguous()
    error = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(within, before, rtol=error, atol=error)
    assert "forward" not in vars(layer)


@torch.no_grad()
def test_weights_are_packed_for_few_rows_only() -> None:
    wide, small = layer_of(torch.float32), nn.Linear(8, 8)
    with pack_weights([[wide], [small]]):
        wide(torch.randn(MAX_PACKED_ROWS + 1, SIDE))
        small(torch.randn(1, 8))
    assert not is_packed(wide)
    assert not is_packed(small)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("way", ["optimizer", "in place", "replaced", "past torch"])
def test_changed_weights_are_packed_again(dtype: torch.dtype, way: str) -> None:
    layer, x = layer_of(dtype), torch.randn(2, SIDE, dtype=dtype)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.01, fused=True)
    with pack_weights([[layer]]), torch.no_grad():
        before = layer(x)
    if way == "optimizer":
        layer(x).square().sum().backward()
        optimizer.step()
    elif way == "in place":
        with torch.no_grad():
            layer.weight.mul_(2)
    elif way == "replaced":
        layer.weight = nn.Parameter(layer.weight.detach() * 2)
    else:
        layer.weight.data += 0.1
    with torch.no_grad():
        plain = layer(x)
        with pack_weights([[layer]]):
            after = layer(x)
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, plain, atol=1e-4, rtol=1e-2)


@torch.no_grad()
def test_unchanged_weights_are_packed_once() -> None:
    layer, x = layer_of(torch.float32), torch.randn(2, SIDE)
    with pack_weights([[layer]]):
        layer(x)
    first = subject._PACKED_GROUPS[layer]
    with pack_weights([[layer]]):
        layer(x)
    assert subject._PACKED_GROUPS[layer] is first


def test_weights_partly_changed_by_the_optimizer_are_packed_again() -> None:
    layer, x = layer_of(torch.float32), torch.randn(2, SIDE)
    with pack_weights([[layer]]), torch.no_grad():
        layer(x)
    layer.weight.grad = torch.zeros_like(layer.weight)
    layer.weight.grad[1] = 1
    Optimizer(layer.parameters(), weight_decay=0.0).step(0.1, None)
    with torch.no_grad():
        plain = layer(x)
        with pack_weights([[layer]]):
            torch.testing.assert_close(layer(x), plain, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_weights_replaced_twice_are_packed_again() -> None:
    layer, x = layer_of(torch.float32), torch.randn(2, SIDE)
    for _ in range(10):  # the second replacement often gets the address of the packed weights
        with pack_weights([[layer]]):
            layer(x)
        for _ in range(2):
            changed = layer.weight.clone()
            changed[1] += 1
            layer.weight = nn.Parameter(changed)
            del changed
        plain = layer(x)
        with pack_weights([[layer]]):
            torch.testing.assert_close(layer(x), plain, rtol=1e-5, atol=1e-4)


@torch.no_grad()
def test_change_through_data_is_detected_in_any_column() -> None:
    layer, x = nn.Linear(SIDE, SIDE), torch.randn(2, SIDE)
    with pack_weights([[layer]]):
        layer(x)
    layer.weight.data[:, 1:] += 0.1
    plain = layer(x)
    with pack_weights([[layer]]):
        torch.testing.assert_close(layer(x), plain, rtol=1e-5, atol=1e-4)


@torch.no_grad()
def test_packed_weights_are_freed_with_their_layer() -> None:
    layer = layer_of(torch.float32)
    with pack_weights([[layer]]):
        layer(torch.randn(2, SIDE))
    held = weakref.ref(subject._PACKED_GROUPS[layer][1])
    del layer
    assert held() is None


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@torch.no_grad()
def test_layers_with_the_same_input_share_one_product(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    products = []
    times = subject._multiply_packed

    def counted(*arguments: Any) -> Any:
        products.append(arguments)
        return times(*arguments)

    monkeypatch.setattr(subject, "_multiply_packed", counted)
    layers = [nn.Linear(SIDE, 8 * n, bias=n == 2, dtype=dtype) for n in (SIDE, 2, 4)]
    x = torch.randn(2, 3, SIDE, dtype=dtype)
    before = [layer(x) for layer in layers]
    with pack_weights([layers]):
        within = [layer(x) for layer in layers]
    assert len(products) == 1
    assert all(y.is_contiguous() for y in within)
    error = 1e-5 if dtype == torch.float32 else 2e-2
    for ours, theirs in zip(within, before, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=error, atol=error)


@torch.no_grad()
def test_repeated_input_is_recomputed_and_not_kept_alive() -> None:
    layers, x = [layer_of(torch.float32), layer_of(torch.float32)], torch.randn(2, SIDE)
    with pack_weights([layers, [layer_of(torch.float32)]]):
        first = layers[0](x)
        expected = first.clone()
        first += 1
        assert torch.equal(layers[0](x), expected)
        layers[1](x)
        held = weakref.ref(x)
        del x
        assert held() is None


@torch.no_grad()
def test_grouped_layers_may_read_different_inputs() -> None:
    layers = [layer_of(torch.float32), layer_of(torch.float32, bias=True)]
    x = torch.randn(2, SIDE)
    with pack_weights([layers]):
        layers[0](x)
        x = x * 2
        found = layers[1](x)
    torch.testing.assert_close(found, layers[1](x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("targets", [["q_proj", "v_proj", "down_proj"], "all-linear"])
@torch.no_grad()
def test_adapters_work_with_packed_weights(dtype: torch.dtype, targets: Any) -> None:
    module = adapted(targets).to(dtype)
    ids = torch.tensor([[5, 6, 7, 8]] * 4)
    row_adapters = RowAdapters(["one", NO_ADAPTER, "two", "one"])
    with row_adapters.apply(module):
        apart = module(ids).logits.float()
        with pack_weights(fused_projections(module), row_adapters):
            together = module(ids).logits.float()
            row_adapters.select([2, 1])
            fewer = module(ids[:2]).logits.float()
    error = 1e-5 if dtype == torch.float32 else 0.03
    assert (together - apart).norm() < error * apart.norm()
    assert (fewer - apart[[2, 1]]).norm() < error * apart.norm()
    with without_adapters(module):
        plain = module(ids).logits.float()
    assert (apart[0] - plain[0]).norm() > 0.1 * plain[0].norm()  # the adapters matter


def adapted(targets: Any) -> Any:
    """A small Llama with two strong adapters; every group of layers can be packed."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=300,
        hidden_size=SIDE,
        intermediate_size=SIDE + 8,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    module: Any = LlamaForCausalLM(config).eval()
    with quiet_transformers():
        module = get_peft_model(module, LoraConfig(r=4, target_modules=targets), "one")
        module.add_adapter("two", LoraConfig(r=6, target_modules=targets))
    for name, parameter in module.named_parameters():
        if "lora_" in name:
            nn.init.normal_(parameter, std=0.1)
    return module.eval()


def names_of(module: nn.Module) -> list[list[str]]:
    names = {part: name.split(".")[-1] for name, part in module.named_modules()}
    return [[names[layer] for layer in group] for group in fused_projections(module)]


@pytest.mark.parametrize(
    ("model_type", "expected"),
    [
        (
            "llama",
            [
                ["q_proj", "k_proj", "v_proj"],
                ["o_proj"],
                ["gate_proj", "up_proj"],
                ["down_proj"],
                ["lm_head"],
            ],
        ),
        ("phi3", [["qkv_proj"], ["o_proj"], ["gate_up_proj"], ["down_proj"], ["lm_head"]]),
        (
            "gpt_neox",
            [["query_key_value"], ["dense"], ["dense_h_to_4h"], ["dense_4h_to_h"], ["lm_head"]],
        ),
    ],
)
def test_fused_groups_match_the_architecture(model_type: str, expected: list[list[str]]) -> None:
    assert names_of(tiny(model_type, num_hidden_layers=1, pad_token_id=0)) == expected


def test_unreached_layer_forms_its_own_group() -> None:
    module = tiny("llama", num_hidden_layers=1)
    module.spare = nn.Linear(4, 4)
    assert names_of(module)[-1] == ["spare"]


def test_replaced_layer_is_found_again() -> None:
    module = tiny("llama", num_hidden_layers=1)
    before = weakref.ref(fused_projections(module)[-1][0])
    module.resize_token_embeddings(60)
    assert fused_projections(module)[-1] == [module.lm_head]
    assert before() is None


def test_groups_include_layers_wrapped_by_adapters() -> None:
    module = tiny("llama", num_hidden_layers=1)
    before = fused_projections(module)
    with quiet_transformers():
        module = get_peft_model(module, LoraConfig(target_modules=["q_proj", "v_proj"]))
    queries, keys, values = fused_projections(module)[0]
    assert [queries.base_layer, keys, values.base_layer] == before[0]
    assert not any("lora" in name for group in names_of(module) for name in group)
