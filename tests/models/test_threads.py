"""Small models are multiplied by one thread."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from collab.models.local import threads
from collab.models.local.fast.threads import fitting


class Model(nn.Linear):
    device = torch.device("cpu")


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_small_model_takes_one_thread_and_gives_the_others_back() -> None:
    seen = []

    def fail() -> None:
        seen.append(torch.get_num_threads())
        raise KeyError

    with pytest.raises(KeyError), fitting(Model(4, 4)):
        fail()
    assert [*seen, torch.get_num_threads()] == [1, 2]


def test_a_larger_one_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SMALL", 10)
    with fitting(Model(4, 4)):
        assert torch.get_num_threads() == 2


def test_a_larger_one_takes_all_where_its_thread_began_beside_a_small_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def count() -> int:
        with fitting(Model(4, 4)):
            return torch.get_num_threads()

    with ThreadPoolExecutor(max_workers=1) as thread:
        with fitting(Model(4, 4)):
            assert thread.submit(torch.get_num_threads).result() == 1
        monkeypatch.setattr(threads, "SMALL", 10)
        assert thread.submit(count).result() == 2
