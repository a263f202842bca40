"""Converts a GGUF file to a folder that transformers loads directly.

    python -P convert.py MODEL.gguf FOLDER [--single-digits]

It runs in a separate process, because conversion takes seconds and cannot be interrupted. It ends
when its standard input closes, that is, with the process that started it. This file imports nothing
from collab, so it needs no search path.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK_BYTES = 1 << 23
"""Number of bytes to dequantize at a time. It is small, so memory does not grow with the model."""


def convert(gguf: Path, folder: Path, *, single_digits: bool) -> None:
    """Write the model of `gguf` to `folder`: bf16 safetensors, config and tokenizer."""
    import gguf as package

    # transformers shares this reader: reading a large vocabulary takes 7 s.
    package.GGUFReader = functools.cache(package.GGUFReader)
    reader = package.GGUFReader(str(gguf))
    model = _model_without_weights(gguf)
    tokenizer = _tokenizer(gguf, single_digits=single_digits)
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(folder)
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    _write_weights(reader, gguf, model, folder / "model.safetensors")


def _tokenizer(gguf: Path, *, single_digits: bool) -> Any:
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        gguf.parent, gguf_file=gguf.name, trust_remote_code=False
    )
    if single_digits:
        # transformers keeps only the byte-level half of this pre-tokenizer. It would split the
        # whitespace before a number differently than in the model's training.
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    return tokenizer


def _model_without_weights(gguf: Path) -> Any:
    """Return names and shapes of the parameters, and the configurations."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name, trust_remote_code=False)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    config.architectures = [type(model).__name__]
    if config.pad_token_id not in (None, config.eos_token_id):
        # <|im_end|> ends an answer, and so does <|endoftext|>, which GGUF calls the padding.
        ends = [config.eos_token_id, config.pad_token_id]
        model.generation_config = GenerationConfig.from_dict(
            {**model.generation_config.to_dict(), "eos_token_id": ends, "_from_model_config": False}
        )
    return model


def _write_weights(reader: Any, gguf: Path, model: Any, file: Path) -> None:
    """Write a safetensors file from its first byte to its last, a block of rows at a time."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    kind = reader.fields["general.architecture"].contents()
    arch = next(arch for arch, name in MODEL_ARCH_NAMES.items() if name == kind)
    names = get_tensor_name_map(arch, model.config.num_hidden_layers)
    packed = {tensor.name: tensor for tensor in reader.tensors}
    parameters = dict(sorted(model.named_parameters()))
    with file.open("wb") as sink:
        sink.write(_header(parameters))
        for name, parameter in parameters.items():
            tensor = packed[names.get_name(name, try_suffixes=(".weight", ".bias"))]
            if tuple(reversed(tensor.shape.tolist())) != tuple(parameter.shape):
                raise ValueError(f"{tensor.name} has shape {tensor.shape}, but {name} has another")
            for block in _dequantize(_rows(gguf, tensor, model.config, kind), tensor.tensor_type):
                sink.write(block)


def _header(parameters: dict[str, Any]) -> bytes:
    """Return the header of a safetensors file: the position of each tensor."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, parameter in parameters.items():
        start, end = end, end + 2 * parameter.numel()
        shape = list(parameter.shape)
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _rows(gguf: Path, tensor: Any, config: Any, kind: str) -> Any:
    """Return the tensor's packed rows, in the order of transformers."""
    import numpy as np

    data = tensor.data
    rows = np.fromfile(gguf, data.dtype, data.size, offset=tensor.data_offset).reshape(data.shape)
    heads = {
        "attn_q": config.num_attention_heads,
        "attn_k": config.num_key_value_heads,
    }.get(tensor.name.split(".")[-2])
    if kind != "llama" or heads is None:
        return rows
    # llama.cpp interleaves the two halves that form pairs in a head's rotation.
    return rows.reshape(heads, -1, 2, *data.shape[1:]).swapaxes(1, 2).reshape(data.shape)


def _dequantize(rows: Any, quantization: Any) -> Iterator[Any]:
    """Yield the bytes of the rows in bf16, rounded as torch does."""
    import torch
    from gguf import dequantize

    step = max(1, BLOCK_BYTES // rows[0].nbytes)
    for start in range(0, len(rows), step):
        numbers = torch.from_numpy(dequantize(rows[start : start + step], quantization))
        yield numbers.to(torch.bfloat16).view(torch.int16).numpy().data


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    convert(Path(sys.argv[1]), Path(sys.argv[2]), single_digits="--single-digits" in sys.argv[3:])
