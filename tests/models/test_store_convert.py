"""Conversion gives exactly the numbers that transformers reads from a GGUF file."""

from pathlib import Path
from typing import Any

import gguf
import pytest
from support.tiny_gguf import write_gguf

from collab.models.store import convert


@pytest.fixture(autouse=True)
def restore_gguf_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the GGUF reader, because conversion replaces it."""
    monkeypatch.setattr(gguf, "GGUFReader", gguf.GGUFReader)


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_converted_weights_match_transformers(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "tiny.gguf"
    write_gguf(file, kind)
    convert.convert(file, tmp_path / "out", single_digits=False)
    assert_as_transformers_reads(file, tmp_path / "out")


def assert_as_transformers_reads(file: Path, folder: Path) -> None:
    import torch
    import transformers
    from safetensors.torch import load_file

    options: dict[str, Any] = {"gguf_file": file.name, "dtype": torch.float32}
    if hasattr(transformers, "GgufConfig"):
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, **options)
    expected = {name: p.detach().to(torch.bfloat16) for name, p in model.named_parameters()}
    read = load_file(folder / "model.safetensors")
    assert read.keys() == expected.keys()
    for name, tensor in read.items():
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(tensor.view(torch.int16), expected[name].view(torch.int16)), name
    again = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert again.config.tie_word_embeddings == tied
    assert again.config.architectures == [type(model).__name__]


def test_the_padding_token_ends_an_answer_too(tmp_path: Path) -> None:
    from transformers import GenerationConfig

    ends = []
    for kind in ("llama", "qwen2"):
        write_gguf(tmp_path / f"{kind}.gguf", kind)
        convert.convert(tmp_path / f"{kind}.gguf", tmp_path / kind, single_digits=False)
        ends.append(GenerationConfig.from_pretrained(tmp_path / kind).eos_token_id)
    assert ends == [2, [2, 0]]
