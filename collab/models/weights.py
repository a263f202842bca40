"""Loads a model's weights and tokenizer, quietly, in the dtype that suits the processor."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

import torch

from collab.errors import ModelError, ModelUnavailable

DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}

_ONE_AT_A_TIME = RLock()


@dataclass
class LoadedModel:
    """A causal language model in memory, with its tokenizer."""

    module: Any
    """The causal language model; a PeftModel around it once there is an adapter."""
    tokenizer: Any
    device: torch.device
    context: int
    """The most tokens that a prompt and its response may have together."""
    stop_ids: frozenset[int]
    """The tokens that end a response."""
    pad_id: int


def load_model(
    folder: Path, name: str, dtype: str, device: str, attention: str | None = None
) -> LoadedModel:
    """Load the model in `folder`; `name` is what messages call it.

    `attention` is an implementation of it that transformers knows; None lets it choose.

    Raises ModelUnavailable for a device that is not there or a folder that holds no whole model,
    ModelError when it does not fit into memory.
    """
    target = pick_device(device)
    try:
        with quiet_transformers():
            from transformers import AutoModelForCausalLM, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            module = AutoModelForCausalLM.from_pretrained(
                folder,
                local_files_only=True,
                dtype=pick_dtype(dtype, target),
                attn_implementation=attention,
            )
        module = module.to(target).eval()
    except torch.OutOfMemoryError as error:
        raise ModelError(f"model {name!r} does not fit into the memory of {target}") from error
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise ModelUnavailable(f"model {name!r} cannot be loaded from {folder}: {error}") from error
    return LoadedModel(
        module=module,
        tokenizer=tokenizer,
        device=target,
        context=_context(module),
        stop_ids=_stop_ids(module, tokenizer),
        pad_id=_pad_id(tokenizer),
    )


def pick_device(name: str) -> torch.device:
    """`auto` takes the first CUDA device, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ModelUnavailable(f"unknown device {name!r}; use auto, cpu, cuda or cuda:N") from None
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ModelUnavailable(f"device {name!r} is not here: torch sees {count} CUDA devices")
    return device


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """`auto` takes bfloat16 where the processor multiplies it natively, else float32."""
    if name != "auto":
        return DTYPES[name]
    return torch.bfloat16 if _native_bfloat16(device) else torch.float32


def _native_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def _context(module: Any) -> int:
    config = module.config.get_text_config()
    return getattr(config, "max_position_embeddings", None) or sys.maxsize


def _stop_ids(module: Any, tokenizer: Any) -> frozenset[int]:
    ends = module.generation_config.eos_token_id
    listed = ends if isinstance(ends, list) else [ends]
    return frozenset(i for i in [*listed, tokenizer.eos_token_id] if i is not None)


def _pad_id(tokenizer: Any) -> int:
    """Any token will do: padding is masked."""
    pad = tokenizer.pad_token_id
    return int(tokenizer.eos_token_id or 0) if pad is None else int(pad)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers' warnings and progress bars off the terminal, and restore them.

    One thread at a time: these settings are the process's, and so is the default dtype that
    transformers changes while it builds a model.
    """
    from transformers.utils import logging

    with _ONE_AT_A_TIME:
        verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            logging.set_verbosity(verbosity)
            if bars:
                logging.enable_progress_bar()
