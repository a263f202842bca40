"""Models with missing or damaged files: one line that names the file's fault."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from collab.errors import ModelUnavailable
from collab.models.lengths import context_of
from collab.models.weights import load_model
from collab.recipe import LoraSpec
from collab.recipe.model import TransformersModel
from collab.trainers.training.plan.sizes import count_from_model


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "model"))


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("model.safetensors", b"\x10\0\0\0\0\0\0\0garbage!garbage!", "SafetensorError: .*header"),
        ("model.safetensors", b"", "SafetensorError"),
        ("tokenizer.json", b"{}", "KeyError|tokenizer"),
        ("config.json", b'{"model_type": ', "not a valid JSON"),
        ("config.json", b'{"model_type": "nonsense"}', "nonsense"),
        ("config.json", b"[]", "TypeError"),
    ],
)
def test_a_damaged_file_is_named(copy: Path, file: str, content: bytes, reason: str) -> None:
    (copy / file).write_bytes(content)
    with pytest.raises(ModelUnavailable, match=reason) as found:
        load_model(copy, TransformersModel(name=str(copy)))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("content", ['{"model_type": ', "[]"])
def test_a_damaged_configuration_is_named_before_work(copy: Path, content: str) -> None:
    (copy / "config.json").write_text(content)
    with pytest.raises(ModelUnavailable, match=r"config.json is not a configuration .*; download"):
        context_of(TransformersModel(name=str(copy)))


@pytest.mark.parametrize("content", ['{"model_type": ', "[]"])
def test_a_damaged_configuration_is_named_in_a_plan(copy: Path, content: str) -> None:
    (copy / "config.json").write_text(content)
    with pytest.raises(ModelUnavailable, match=r"cannot be loaded: .*; download the model again"):
        count_from_model(TransformersModel(name=str(copy)), LoraSpec())
