"""Recipes that are refused before a vLLM server starts on each rank."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe.model import VLLMSpec
from collab.trainers.ranks import orders
from collab.trainers.ranks.group import ProcessRanks
from collab.trainers.ranks.orders import with_servers

URL = "http://127.0.0.1:8000"


class Ranks:
    """Two ranks on the given hosts; one of them is this process."""

    rank, world = 0, 2

    def __init__(self, *hosts: str) -> None:
        self._hosts = hosts

    def gather_results(self, work: Callable[[], list[str]]) -> list[str]:
        assert len(work()) == 1
        return list(self._hosts)

    def run_on_each(self, work: Callable[[], Any]) -> Any:
        return work()


@pytest.fixture
def no_server_starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a server starts."""
    started: list[object] = []
    monkeypatch.setattr(orders, "OwnServer", started.append)
    yield
    assert started == []


def test_model_of_the_servers_keeps_the_other_options() -> None:
    """Each option either belongs to the servers or keeps its value."""
    changed: dict[str, Any] = {
        "revision": "main", "dtype": "float16", "context": 64, "seeds": True,
        "trainer_device": "cpu", "adapter_folder": "shared", "seconds": 5.0, "ready_seconds": 6.0,
    }  # fmt: skip
    of_servers = {"memory_share": 0.3, "kv_cache_gb": 1.0, "server_command": ("vllm", "serve")}
    others = {"engine", "name", "servers", "sleep", "tensor_parallel", "deterministic"}
    assert set(VLLMSpec.model_fields) == {*changed, *of_servers, *others}
    model = VLLMSpec(name="tiny", **changed, **of_servers)
    expected = VLLMSpec(name="tiny", servers=(URL,), **changed)
    assert model.with_servers((URL,)) == expected
    assert VLLMSpec(name="tiny", deterministic=True).with_servers((URL,)).is_seeded


@pytest.mark.parametrize(
    ("hosts", "options", "message"),
    [
        (
            ("node-a", "node-b"),
            {},
            r"ranks are on several machines \(node-a, node-b\).*set the model's `servers` and"
            " set adapter_folder to a folder on a shared disk",
        ),
        (("here", "here"), {"tensor_parallel": 2}, "tensor_parallel 2 does not work with one vLLM"),
        (("here", "here"), {"sleep": True}, "sleep does not work with one vLLM server per rank"),
    ],
)
@pytest.mark.usefixtures("no_server_starts")
def test_unsupported_server_options_are_refused_with_the_remedy(
    tiny_words: Path, tmp_path: Path, hosts: tuple[str, ...], options: dict[str, Any], message: str
) -> None:
    recipe = make_game(tiny_words, tmp_path)
    vllm = VLLMSpec(name=str(tiny_words), **options)
    recipe = recipe.model_copy(update={"model": vllm})
    assert recipe.trainer is not None
    with pytest.raises(RecipeError, match=message):
        with_servers(recipe, recipe.trainer, tmp_path, cast(ProcessRanks, Ranks(*hosts)))
