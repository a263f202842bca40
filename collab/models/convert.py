"""Turns a GGUF file into a folder that transformers loads at once. Run as a program:

    python -P convert.py MODEL.gguf FOLDER

It runs in a process of its own, because conversion takes seconds that nothing can interrupt, and
ends when its standard input does: with the process that started it. This file imports nothing of
collab, so that it needs no search path.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

SINGLE_DIGITS = {"smollm"}
"""Values of `tokenizer.ggml.pre` whose pre-tokenizer takes every digit for itself."""


def convert(gguf: Path, folder: Path) -> None:
    """Write the model of `gguf` to `folder`: bf16 safetensors, config and tokenizer."""
    _tokenizer(gguf).save_pretrained(folder)
    _model(gguf).save_pretrained(folder)


def _tokenizer(gguf: Path) -> Any:
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    context, pre_tokenizer = _metadata(gguf, ("llama.context_length", "tokenizer.ggml.pre"))
    if context is not None:
        tokenizer.model_max_length = int(context)
    if pre_tokenizer in SINGLE_DIGITS:
        # transformers keeps only the byte-level half of this pre-tokenizer, and would then
        # split the blanks before a number otherwise than the model was taught.
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    return tokenizer


def _metadata(gguf: Path, keys: tuple[str, ...]) -> list[Any]:
    from gguf import GGUFReader

    fields = GGUFReader(gguf).fields
    return [fields[key].contents() if key in fields else None for key in keys]


def _model(gguf: Path) -> Any:
    """A dense model: one that is loaded from GGUF stays marked as quantised."""
    import torch
    import transformers

    options: dict[str, Any] = {"gguf_file": gguf.name, "dtype": torch.float32}
    if hasattr(transformers, "GgufConfig"):
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    packed = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, **options)
    settings = packed.config.to_dict()
    for key in ("quantization_config", "_name_or_path", "dtype", "torch_dtype"):
        settings.pop(key, None)
    config = type(packed.config)(**settings)
    dense = type(packed)(config).to(torch.bfloat16)
    dense.load_state_dict(packed.state_dict(), strict=True)
    dense.generation_config = packed.generation_config
    return dense


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
