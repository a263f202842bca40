"""Few rows in float32 are multiplied another way, to the same end."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from collab.models.local.products import of_few_rows


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_products_are_equal(rows: int, bias: bool) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(24, 40, bias=bias), nn.Linear(40, 8, bias=bias))
    x = torch.randn(rows, 1, 24)
    before = module(x)
    with of_few_rows(module):
        within = module(x)
    assert within.shape == before.shape
    assert within.is_contiguous()
    torch.testing.assert_close(within, before)
    assert "forward" not in vars(module[0])


@torch.no_grad()
def test_other_types_are_left_alone() -> None:
    module = nn.Linear(24, 40, dtype=torch.bfloat16)
    with of_few_rows(module):
        assert "forward" not in vars(module)
