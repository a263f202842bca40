"""Few rows are multiplied by packed weights, to the same end."""

from __future__ import annotations

import platform
import weakref

import pytest
import torch
from torch import nn

from collab.models.local import packed as subject
from collab.models.local.packed import LEAST_WEIGHTS, MOST_ROWS, can_pack, packed
from collab.trainers.optimiser import Optimiser

CPU = torch.device("cpu")
TYPES = [dtype for dtype in (torch.float32, torch.bfloat16) if can_pack(dtype, CPU)]
SIDE = int(LEAST_WEIGHTS**0.5)


def layer_of(dtype: torch.dtype, *, bias: bool = False) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(SIDE, SIDE + 8, bias=bias, dtype=dtype)


def is_packed(layer: nn.Linear) -> bool:
    held = subject._PACKED.get(layer)
    return held is not None and held._packed is not None


def test_this_processor_has_a_layout() -> None:
    assert (torch.float32 in TYPES) == (platform.machine() in ("x86_64", "AMD64"))
    assert not can_pack(torch.float16, CPU)
    assert not can_pack(torch.float32, torch.device("cuda"))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 5, MOST_ROWS])
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_products_are_equal(dtype: torch.dtype, rows: int, bias: bool) -> None:
    layer = layer_of(dtype, bias=bias)
    x = torch.randn(1, SIDE, rows, dtype=dtype).transpose(1, 2)  # not contiguous
    before = layer(x)
    with packed(layer):
        within = layer(x)
    assert is_packed(layer)
    assert within.is_contiguous()
    error = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(within, before, rtol=error, atol=error)
    assert "forward" not in vars(layer)


@torch.no_grad()
def test_weights_are_packed_for_few_rows_only() -> None:
    wide, small = layer_of(torch.float32), nn.Linear(8, 8)
    with packed(nn.ModuleList([wide, small])):
        wide(torch.randn(MOST_ROWS + 1, SIDE))
        small(torch.randn(1, 8))
    assert not is_packed(wide)
    assert not is_packed(small)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("way", ["optimiser", "in place", "replaced", "past torch"])
def test_changed_weights_are_packed_anew(dtype: torch.dtype, way: str) -> None:
    layer, x = layer_of(dtype), torch.randn(2, SIDE, dtype=dtype)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=0.01, fused=True)
    with packed(layer), torch.no_grad():
        before = layer(x)
    if way == "optimiser":
        layer(x).square().sum().backward()
        optimiser.step()
    elif way == "in place":
        with torch.no_grad():
            layer.weight.mul_(2)
    elif way == "replaced":
        layer.weight = nn.Parameter(layer.weight.detach() * 2)
    else:
        layer.weight.data += 0.1
    with torch.no_grad():
        plain = layer(x)
        with packed(layer):
            after = layer(x)
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, plain, atol=1e-4, rtol=1e-2)


@torch.no_grad()
def test_unchanged_weights_are_packed_once() -> None:
    layer, x = layer_of(torch.float32), torch.randn(2, SIDE)
    with packed(layer):
        layer(x)
    first = subject._PACKED[layer]
    with packed(layer):
        layer(x)
    assert subject._PACKED[layer] is first


def test_weights_that_learning_changed_in_part_are_packed_anew() -> None:
    layer, x = layer_of(torch.float32), torch.randn(2, SIDE)
    with packed(layer), torch.no_grad():
        layer(x)
    layer.weight.grad = torch.zeros_like(layer.weight)
    layer.weight.grad[1] = 1
    Optimiser(layer.parameters(), weight_decay=0.0).step(0.1, None)
    with torch.no_grad():
        plain = layer(x)
        with packed(layer):
            torch.testing.assert_close(layer(x), plain, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_change_past_torch_is_seen_in_other_columns_than_the_first() -> None:
    layer, x = nn.Linear(SIDE, SIDE), torch.randn(2, SIDE)
    with packed(layer):
        layer(x)
    layer.weight.data[:, 1:] += 0.1
    plain = layer(x)
    with packed(layer):
        torch.testing.assert_close(layer(x), plain, rtol=1e-5, atol=1e-4)


@torch.no_grad()
def test_packed_weights_go_with_their_layer() -> None:
    layer = layer_of(torch.float32)
    with packed(layer):
        layer(torch.randn(2, SIDE))
    held = weakref.ref(subject._PACKED[layer])
    del layer
    assert held() is None
