"""Models with missing or damaged files: one line names the file and the problem."""

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from collab.errors import ModelUnavailable
from collab.models import store
from collab.models.base import Call, Request
from collab.models.lengths import check_fits, context_of
from collab.models.weights import load_model
from collab.recipe import LoraSpec
from collab.recipe.model import TransformersSpec
from collab.records import Message
from collab.trainers.training.plan.sizes import (
    count_weights_in_files,
    count_weights_in_model,
    sizes_of,
)

OWN_CODE = b'{"tokenizer_class": "T", "auto_map": {"AutoTokenizer": ["evil.T", "evil.T"]}}'
"""Refers to a tokenizer class in a Python file of the model's folder."""


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "model"))


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("model.safetensors", b"\x10\0\0\0\0\0\0\0garbage!garbage!", "SafetensorError: .*header"),
        ("model.safetensors", b"", "SafetensorError"),
        ("tokenizer.json", b"{}", "KeyError|tokenizer"),
        ("config.json", b'{"model_type": "nonsense"}', "nonsense"),
        ("config.json", b'{"model_type": "gpt2", "n_head": 0}', "ZeroDivisionError"),
        ("config.json", b'{"model_type": "llama", "mlp_bias": "x"}', "'mlp_bias' expected bool"),
        ("tokenizer.json", b"[" * 100_000, "recursion|Stack overflow"),
        ("tokenizer_config.json", OWN_CODE, "custom code"),
        ("generation_config.json", b'{"eos_token_id": [{"a": 1}]}', "TypeError: "),
    ],
)
def test_a_damaged_file_is_named(copy: Path, file: str, content: bytes, reason: str) -> None:
    (copy / file).write_bytes(content)
    with pytest.raises(ModelUnavailable, match=reason) as found:
        load_model(copy, TransformersSpec(name=str(copy)))
    assert "\n" not in str(found.value)


def test_a_pipe_among_the_weights_is_not_opened(copy: Path) -> None:
    model = TransformersSpec(name=str(copy))
    (copy / "model.safetensors").unlink()
    os.mkfifo(copy / "model.safetensors")
    assert count_weights_in_files(model, LoraSpec()) is None
    with pytest.raises(ModelUnavailable, match="not a file"):
        load_model(copy, model)


def test_a_deeply_nested_header_is_not_counted(copy: Path) -> None:
    (copy / "model.safetensors").write_bytes((100_000).to_bytes(8, "little") + b"[" * 100_000)
    assert count_weights_in_files(TransformersSpec(name=str(copy)), LoraSpec()) is None


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_damaged_model_of_an_alias_is_deleted_to_replace_it(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setenv("COLLAB_CACHE", str(tmp_path / "cache"))
    folder = store.ALIASES["smollm2-135m"].folder
    shutil.copytree(copy, folder)
    (folder / file).unlink()
    with pytest.raises(ModelUnavailable, match=f"delete {folder} to download the model again"):
        load_model(folder, TransformersSpec(name="smollm2-135m"))


@pytest.mark.parametrize(
    ("file", "content"), [("tokenizer.json", b"[" * 100_000), ("tokenizer_config.json", OWN_CODE)]
)
def test_a_damaged_tokenizer_is_named_before_work(copy: Path, file: str, content: bytes) -> None:
    (copy / file).write_bytes(content)
    request = Request(
        call=Call(task="words/0", sample=0, turn=0, round=0, agent="a"),
        messages=(Message(role="user", content="hello " * 400),),
    )
    with pytest.raises(ModelUnavailable, match=r"cannot be loaded from"):
        check_fits(request, TransformersSpec(name=str(copy)))


def test_weights_that_are_pickled_code_do_not_run(copy: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (copy / "ran",))

    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()) + bytes(10**6))
    with pytest.raises(ModelUnavailable, match="UnpicklingError"):
        load_model(copy, TransformersSpec(name=str(copy)))
    assert not (copy / "ran").exists()


@pytest.mark.parametrize(
    "content",
    [
        *('{"model_type": ', "[]", "[" * 100_000, f'{{"x": "{"x" * 10_000_000}"}}'),
        *('{"num_attention_heads": 0}', '{"hidden_size": "x"}', '{"hidden_size": NaN}'),
        '{"text_config": {"num_hidden_layers": 10000}}',
    ],
)
def test_a_damaged_configuration_is_named_before_work(copy: Path, content: str) -> None:
    (copy / "config.json").write_text(content)
    spec, lora = TransformersSpec(name=str(copy)), LoraSpec()
    for read in (
        *(lambda: context_of(spec), lambda: load_model(copy, spec)),
        *(lambda: count_weights_in_files(spec, lora), lambda: count_weights_in_model(spec, lora)),
    ):
        with pytest.raises(ModelUnavailable, match=r"config.json is not a config.*; download") as e:
            read()
        assert len(str(e.value)) < 400


@pytest.mark.parametrize(
    "more",
    [
        {"_attn_implementation": "kernels-community/flash-attn2@main:f"},
        {"attn_implementation": "paged|evil/kernel"},
        {"attn_implementation": {"": "sdpa", "text_config": "evil/kernel"}},
        {"text_config": {"_attn_implementation": "evil/kernel"}},
        {"experts_implementation": "evil/kernel"},
        {"attribute_map": {"x": "_attn_implementation"}, "x": "evil/kernel"},
    ],
)
def test_native_code_of_the_hub_is_refused(copy: Path, more: dict[str, object]) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | more))
    with pytest.raises(ModelUnavailable, match="can load code from the hub"):
        load_model(copy, TransformersSpec(name=str(copy)))


@pytest.mark.parametrize("key", ["vocab_size", "intermediate_size", "hidden_size"])
def test_weights_smaller_than_the_configuration_are_refused(copy: Path, key: str) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {key: 10**6}))
    with pytest.raises(ModelUnavailable, match=r"describes [\d,]+ parameters, and weights of"):
        load_model(copy, TransformersSpec(name=str(copy)))


@pytest.mark.parametrize("content", ['{"model_type": "gpt2", "n_head": 0}', '{"model_type": {}}'])
def test_a_faulty_configuration_is_named_in_a_plan(copy: Path, content: str) -> None:
    (copy / "config.json").write_text(content)
    with pytest.raises(ModelUnavailable, match=r"cannot be loaded from .*(ZeroDivision|Type)Error"):
        sizes_of(TransformersSpec(name=str(copy)), LoraSpec())
