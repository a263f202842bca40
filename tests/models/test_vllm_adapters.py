"""Adapters for vLLM: unsupported kinds, and versions that never change."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.vllm_servers.server import save_adapter, save_header

from collab.errors import ModelError, RecipeError
from collab.models.vllm.adapter_files import check_servable, served_rank
from collab.models.vllm.adapter_store import FOLDER_PREFIX, AdapterStore, Version
from collab.models.vllm.adapters import ServedAdapters


def test_every_version_gets_its_own_complete_folder(tmp_path: Path) -> None:
    store = AdapterStore(tmp_path)

    def add(name: str) -> Version:
        return store.add("aux", lambda folder: save_adapter(folder, name))

    versions = [add(str(n)) for n in range(3)]
    assert len({version.name for version in versions}) == 3
    assert [version.number for version in versions] == [1, 2, 3]
    assert [(version.folder / "name").read_text() for version in versions] == ["0", "1", "2"]
    assert versions[2].name.startswith("aux@3-")
    versions[0].delete()
    assert sorted(p.name for p in versions[1].folder.parent.iterdir()) == [
        version.name for version in versions[1:]
    ]
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_version_appears_atomically(tmp_path: Path) -> None:
    visible: list[str] = []

    def write(folder: Path) -> None:
        save_adapter(folder, "aux")
        visible.extend(p.name for p in folder.parent.iterdir() if not p.name.startswith("."))

    store = AdapterStore(tmp_path)
    version = store.add("aux", write)
    assert visible == []
    assert version.folder.is_dir()


def test_names_differ_between_processes(tmp_path: Path) -> None:
    names = {AdapterStore(tmp_path).add("aux", lambda f: save_adapter(f, "a")).name for _ in "ab"}
    assert len(names) == 2


def test_a_copy_outlives_its_folder(tmp_path: Path) -> None:
    save_adapter(tmp_path / "mine", "mine")
    store = AdapterStore(tmp_path / "kept")
    version = store.adopt(tmp_path / "mine")
    for path in (tmp_path / "mine").iterdir():
        path.unlink()
    assert (version.folder / "name").read_text() == "mine"
    assert version.rank == 4
    with pytest.raises(ModelError, match="not a folder with an adapter_config"):
        store.adopt(tmp_path / "mine")


def test_concurrent_requests_share_one_copy(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("aux", "main")]
    for folder in folders:
        save_adapter(folder, folder.name)
    served = ServedAdapters(str(tmp_path / "kept"))

    async def ask() -> list[Version]:
        return await asyncio.gather(*(served.find(str(folder)) for folder in folders * 8))

    held = asyncio.run(ask())
    assert held == held[:2] * 8
    assert [h.number for h in held[:2]] == [1, 2]
    served.close()


def test_full_adapter_folder_is_an_error_with_its_reason(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        raise OSError("No space left on device (os error 28)")  # as safetensors reports it

    with pytest.raises(ModelError, match=r"No space left on device.*adapter_folder"):
        AdapterStore(tmp_path).add("aux", write)


def test_unwritable_adapter_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = AdapterStore(tmp_path / "file")
    with pytest.raises(ModelError, match="set the model's adapter_folder"):
        store.add("aux", lambda folder: save_adapter(folder, "a"))


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from collab.models.vllm.adapter_store import AdapterStore;"
        "s = AdapterStore(pathlib.Path(sys.argv[1])); s._open(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    leftovers = sorted(tmp_path.glob(f"{FOLDER_PREFIX}*"))
    assert [path.is_dir() for path in leftovers] == [True, False], "a folder and its lock"
    mine = AdapterStore(tmp_path)
    version = mine.add("aux", lambda folder: save_adapter(folder, "a"))
    assert not any(path.exists() for path in leftovers)
    AdapterStore(tmp_path).add("aux", lambda folder: save_adapter(folder, "a"))
    assert version.folder.is_dir(), "a running process keeps its folders"
    assert f"-{os.getpid()}-" in version.folder.parent.name
    mine.close()
    assert not [*tmp_path.glob(f"{version.folder.parent.name}*")]


def test_folders_of_other_hosts_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_another_container = AdapterStore(tmp_path)
    version = of_another_container.add("aux", lambda folder: save_adapter(folder, "a"))
    monkeypatch.setattr("socket.gethostname", lambda: "gpu-1")
    left_by_another_host = tmp_path / f"{FOLDER_PREFIX}gpu-1-99999999-abcdef"
    left_by_another_host.mkdir()
    monkeypatch.setattr("socket.gethostname", lambda: "gpu")
    AdapterStore(tmp_path).add("aux", lambda folder: save_adapter(folder, "a"))
    assert left_by_another_host.is_dir()
    monkeypatch.undo()
    AdapterStore(tmp_path).add("aux", lambda folder: save_adapter(folder, "a"))
    assert version.folder.is_dir()


@pytest.mark.parametrize(
    ("rank", "room"), [(1, 1), (2, 8), (8, 8), (16, 16), (100, 128), (300, 320), (512, 512)]
)
def test_served_rank_is_rounded_up(rank: int, room: int) -> None:
    assert served_rank(rank) == room


def test_largest_rank_is_512() -> None:
    with pytest.raises(RecipeError, match="up to rank 512, not 513; lower"):
        served_rank(513)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"use_dora": True}, "its use_dora is True"),
        ({"modules_to_save": ["lm_head"]}, "its modules_to_save is ['lm_head']"),
        ({"bias": "all"}, "its bias is 'all'"),
        ({"lora_bias": True}, "its lora_bias is True"),
        ({"rank_pattern": {"q_proj": 8}}, "its rank_pattern is {"),
        ({"trainable_token_indices": [3]}, "its trainable_token_indices is [3]"),
        ({"init_lora_weights": "pissa"}, "it changes the base model"),
        ({"rank": 1024}, "up to rank 512, not 1024"),
    ],
)
def test_adapters_unsupported_by_vllm_are_refused(
    tmp_path: Path, config: dict[str, Any], words: str
) -> None:
    save_adapter(tmp_path, "odd", **config)
    with pytest.raises(RecipeError) as error:
        check_servable(tmp_path)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        ("base_model.model.lm_head.lora_A.weight", "the embeddings or the head"),
        ("base_model.model.model.embed_tokens.lora_embedding_A", "it holds base_model"),
        ("base_model.model.lm_head.base_layer.weight", "it holds base_model"),
        ("base_model.model.model.layers.0.q_proj.lora_magnitude_vector", "it holds base_model"),
    ],
)
def test_tensors_unsupported_by_vllm_are_refused(tmp_path: Path, tensor: str, words: str) -> None:
    save_adapter(tmp_path, "odd")
    save_header(tmp_path, [tensor])
    with pytest.raises(RecipeError) as error:
        check_servable(tmp_path)
    assert words in str(error.value)


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x02" + b"\0" * 7 + b"{]"])
def test_corrupt_adapter_files_are_refused(tmp_path: Path, content: bytes) -> None:
    save_adapter(tmp_path, "broken")
    (tmp_path / "adapter_model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read"):
        check_servable(tmp_path)


@pytest.mark.parametrize("config", [{"peft_type": "IA3"}, {"target_modules": "(a|a)+$"}])
def test_adapter_with_harmful_settings_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    save_adapter(tmp_path, "odd", **config)
    with pytest.raises(ModelError, match="but only"):
        check_servable(tmp_path)
