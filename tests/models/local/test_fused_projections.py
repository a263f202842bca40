"""Layers with the same input are found, whatever their names."""

import weakref

import pytest
from peft import LoraConfig, get_peft_model
from support.tiny_models import tiny
from torch import nn

from collab.models.local.fast.accelerated import fused_projections
from collab.models.weights import quiet_transformers


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
