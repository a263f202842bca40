"""Turns a GGUF file into a folder that transformers loads at once. Run as a program:

    python -P convert.py MODEL.gguf FOLDER [--single-digits]

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


def convert(gguf: Path, folder: Path, *, single_digits: bool) -> None:
    """Write the model of `gguf` to `folder`: bf16 safetensors, config and tokenizer."""
    model = _model(gguf)
    tokenizer = _tokenizer(gguf, single_digits=single_digits)
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


def _tokenizer(gguf: Path, *, single_digits: bool) -> Any:
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    if single_digits:
        # transformers keeps only the byte-level half of this pre-tokenizer, and would then
        # split the blanks before a number otherwise than the model was taught.
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    return tokenizer


def _model(gguf: Path) -> Any:
    """The model, with dense weights; as it is loaded from GGUF it stays marked as quantised."""
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
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    convert(Path(sys.argv[1]), Path(sys.argv[2]), single_digits="--single-digits" in sys.argv[3:])
