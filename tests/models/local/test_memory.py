"""Memory of a process that runs a local model."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from collab.models.local.fast import memory

PRODUCTS = """
import os
from pathlib import Path
from collab.models.local.fast.memory import trim_memory
from collab.models.open import open_model
from collab.recipe.model import TransformersSpec

open_model(TransformersSpec(name="smollm2-135m"))
import torch

def held():
    trim_memory()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

torch.set_num_threads(1)
weights = torch.ones(64, 64, dtype=torch.bfloat16)
before = held()
for rows in range(1, 601):
    torch.nn.functional.linear(torch.ones(rows, 64, dtype=torch.bfloat16), weights)
print(held() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells")
def test_buffers_for_many_matrix_sizes_are_not_kept() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PRODUCTS], check=True, capture_output=True, text=True
    )
    assert int(found.stdout) < 150_000_000


def test_memory_is_trimmed_in_forward_and_backward_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[None] = []
    monkeypatch.setattr(memory, "trim_memory", lambda: trims.append(None))
    layers, x = nn.Sequential(*(nn.Linear(2, 2) for _ in range(8))), torch.ones(1, 2)
    with memory.trim_after_layers(layers):
        layers(x)
        assert not trims  # too little memory to trim
    monkeypatch.setattr(memory, "TRIM_BYTES", 4 * x.nbytes)
    with memory.trim_after_layers(layers):
        y = layers(x)
        assert len(trims) == 2
        y.sum().backward()
        assert len(trims) == 4
    assert len(trims) == 5
    layers(x).sum().backward()
    assert len(trims) == 5
