"""What the tests on a GPU share; without one each of them says why it is left out."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def device() -> torch.device:
    """The first GPU."""
    if not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} sees no GPU with CUDA here")
    return torch.device("cuda")
