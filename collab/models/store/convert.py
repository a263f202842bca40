"""Converts a GGUF file to a folder that transformers loads directly.

    python -P convert.py MODEL.gguf FOLDER [--single-digits]

It runs in a separate process, because conversion takes seconds and cannot be interrupted. It ends
when its standard input closes, that is, with the process that started it. This file imports nothing
from collab, so it needs no search path.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any


def convert(gguf: Path, folder: Path, *, single_digits: bool) -> None:
    """Write the model of `gguf` to `folder`: bf16 safetensors, config and tokenizer."""
    import gguf as package
    from safetensors.torch import save_file

    # transformers shares this reader: reading a large vocabulary takes 7 s.
    package.GGUFReader = functools.cache(package.GGUFReader)
    reader = package.GGUFReader(str(gguf))
    model = _model_without_weights(gguf)
    tokenizer = _tokenizer(gguf, single_digits=single_digits)
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(folder)
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    weights = folder / "model.safetensors"
    save_file(_weights(reader, model), weights, metadata={"format": "pt"})
    shutil.copymode(folder / "generation_config.json", weights)  # only the owner could read it


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


def _weights(reader: Any, model: Any) -> dict[str, Any]:
    """Return the weights by parameter, in the order of transformers, rounded to bf16."""
    import numpy as np
    import torch
    from gguf import MODEL_ARCH_NAMES, dequantize, get_tensor_name_map

    config, kind = model.config, reader.fields["general.architecture"].contents()
    arch = next(arch for arch, name in MODEL_ARCH_NAMES.items() if name == kind)
    names = get_tensor_name_map(arch, config.num_hidden_layers)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    packed = {tensor.name: tensor for tensor in reader.tensors}
    weights = {}
    for name, _ in model.named_parameters():
        tensor = packed[names.get_name(name, try_suffixes=(".weight", ".bias"))]
        rows, count = tensor.data, heads.get(tensor.name.split(".")[-2])
        if kind == "llama" and count:
            # llama.cpp interleaves the two halves that form pairs in a head's rotation.
            pairs = rows.reshape(count, -1, 2, *rows.shape[1:])
            rows = pairs.swapaxes(1, 2).reshape(rows.shape)
        numbers = np.require(dequantize(rows, tensor.tensor_type), requirements="W")
        weights[name] = torch.from_numpy(numbers).to(torch.bfloat16)
    return weights


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    convert(Path(sys.argv[1]), Path(sys.argv[2]), single_digits="--single-digits" in sys.argv[3:])
