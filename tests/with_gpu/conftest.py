"""Skips each test with the reason if there is no GPU."""

import pytest
import torch


@pytest.fixture
def device() -> torch.device:
    """The first GPU."""
    if not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} sees no GPU with CUDA here")
    return torch.device("cuda")
