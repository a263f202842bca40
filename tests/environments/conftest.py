"""A tiny model for teams that are trained in games."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS


@pytest.fixture(scope="session")
def tiny_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random Llama that knows a dozen words."""
    return save_tiny(tmp_path_factory.mktemp("tiny"), WORDS)


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """So small a model gains nothing from a second thread, and loses much on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
