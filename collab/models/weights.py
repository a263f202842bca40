"""Loads a model's weights and tokenizer, quietly, in the dtype that suits the processor."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from logging import getLogger
from pathlib import Path
from pickle import UnpicklingError
from threading import RLock
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open

from collab.distribution import install_command
from collab.errors import ModelError, ModelUnavailable
from collab.models import store
from collab.models.out_of_memory import is_out_of_memory
from collab.recipe.model import TransformersSpec
from collab.runs.reading import open_file


def four_bit_options(model: str, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    """Return transformers' options for 4-bit weights: NF4, computed in `dtype` (arXiv
    2305.14314). `model` is for the error.

    Raises:
        ModelUnavailable: bitsandbytes is not installed, or does not support the device.
    """
    if device.type not in ("cpu", "cuda"):
        raise ModelUnavailable(
            f"model {model!r} cannot be loaded in 4 bits on {device}; bitsandbytes needs CUDA or a"
            " CPU; set the model's device to cuda, or leave out load_in"
        )
    if find_spec("bitsandbytes") is None:
        raise ModelUnavailable(
            f"model {model!r} needs bitsandbytes to load in 4 bits (load_in):"
            f" {install_command('4bit')}"
        )
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return {"quantization_config": config, "device_map": {"": device}}


def count_four_bit_weights(module: Any) -> int:
    """Return the number of weights that a language model holds in 4 bits: all linear layers except
    the head."""
    from torch import nn

    head = module.get_output_embeddings()
    layers = (part for part in module.modules() if isinstance(part, nn.Linear) and part is not head)
    return sum(layer.weight.numel() for layer in layers)


_FILE_ERRORS = (
    *(KeyError, TypeError, AttributeError, ArithmeticError),
    *(SafetensorError, UnpicklingError, StrictDataclassError),
)
"""Errors that transformers raises for damaged or incomplete files."""

_TRANSFORMERS_LOCK = RLock()


@dataclass
class LoadedModel:
    """A causal language model in memory, with its tokenizer."""

    module: Any
    """The causal language model, within a PeftModel once there is an adapter."""
    tokenizer: Any
    device: torch.device
    context: int
    """Maximum number of tokens of a prompt and its response together."""
    stop_ids: frozenset[int]
    """Tokens that end a response."""
    pad_id: int


def load_model(folder: Path, spec: TransformersSpec) -> LoadedModel:
    """Return the model in `folder`, loaded on the device and in the dtype of `spec`. Messages use
    the name in `spec`.

    Raises:
        ModelUnavailable: the device is missing, or the folder contains no complete model.
        ModelError: the model does not fit into memory.
    """
    target = pick_device(spec.device)
    dtype = pick_dtype(spec.dtype, target)
    options = four_bit_options(spec.name, dtype, target) if spec.load_in else {}
    store.read_config(folder, spec.name)
    try:
        with load_errors(spec.name, folder):
            from transformers import AutoModelForCausalLM

            tokenizer = load_tokenizer(folder)
            check_parameters(folder, spec.name)
            module: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=dtype,
                attn_implementation=spec.attn_implementation,
                **options,
                local_files_only=True,
                trust_remote_code=False,
            )
            if not spec.load_in:
                module = module.to(target)
            for part in module.modules():
                if hasattr(part, "support_avx512bf16_for_cpu"):
                    part.support_avx512bf16_for_cpu = False  # bitsandbytes has no gradients for it
            module.eval()
            stops = stop_ids(module.generation_config, tokenizer)
    except RuntimeError as error:
        raise ModelError(
            f"model {spec.name!r} does not fit into the memory of {target}; use a smaller model, or"
            " a device with more memory"
        ) from error
    pad = tokenizer.pad_token_id
    if pad is None:  # any token will do, because padding is masked
        pad = tokenizer.eos_token_id or 0
    return LoadedModel(
        module=module,
        tokenizer=tokenizer,
        device=target,
        context=context_of(module.config),
        stop_ids=stops,
        pad_id=pad,
    )


MAX_PARAMETERS_PER_BYTE = 8
"""Largest number of parameters per byte of the files, for weights of one bit."""


def check_parameters(folder: Path, name: str) -> None:
    """Check that the weights in `folder` are as large as its config.json says, before memory is
    allocated. Damaged files raise the errors of transformers.

    Raises:
        ModelUnavailable: the configuration has far more parameters than the files.
    """
    from transformers import AutoModelForCausalLM

    files = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    for file in folder.glob("*.safetensors"):
        with open_file(file), safe_open(file, framework="pt"):
            pass  # the header fits the file, which is no pipe
    size = sum(file.stat().st_size for file in files)
    if not size:
        return
    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(load_config(folder), trust_remote_code=False)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    if parameters > MAX_PARAMETERS_PER_BYTE * size:
        raise ModelUnavailable(
            f"model {name!r}: config.json describes {parameters:,} parameters, and weights of"
            f" {size:,} bytes hold at most {MAX_PARAMETERS_PER_BYTE * size:,};"
            f" {store.how_to_replace(name, folder)}"
        )


def pick_device(name: str) -> torch.device:
    """Return the device called `name`. `auto` is the first CUDA device, otherwise the CPU.

    Raises:
        ModelUnavailable: the name is invalid, or there is no such device.
    """
    if name == "auto":
        _warn_of_unused_gpu()
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ModelUnavailable(f"unknown device {name!r}; use auto, cpu, cuda or cuda:N") from None
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        why = f"; {problem}" if (problem := gpu_problem()) else ""
        raise ModelUnavailable(
            f"device {name!r} does not exist: torch sees {count} CUDA devices{why}"
        )
    return device


def gpu_problem() -> str:
    """Return why torch cannot use the NVIDIA GPU that this machine seems to have, with a remedy.

    The result is "" if torch uses a GPU, if there is none, or if the user has hidden it.
    """
    is_seen = any(Path("/dev").glob("nvidia[0-9]*")) or shutil.which("nvidia-smi")
    is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if not is_seen or is_hidden or torch.cuda.is_available():
        return ""
    if torch.version.cuda is None:
        return (
            f"torch {torch.__version__} is built without CUDA for this machine's NVIDIA GPU;"
            " install a build with CUDA, see https://pytorch.org/get-started"
        )
    return (
        f"torch {torch.__version__} cannot use this machine's NVIDIA GPU; update the driver, which"
        f" must support CUDA {torch.version.cuda} (nvidia-smi shows what it supports)"
    )


@cache
def _warn_of_unused_gpu() -> None:
    if problem := gpu_problem():
        getLogger("collab.models").warning("collab uses the CPU: %s", problem)


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype called `name`. `auto` is bfloat16 if the device multiplies it natively,
    otherwise float32."""
    if name == "auto":
        name = "bfloat16" if _has_native_bfloat16(device) else "float32"
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def _has_native_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def load_config(folder: Path) -> Any:
    """Return the configuration of the model in `folder`, without running its code."""
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of the model in `folder`, without running its code."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def context_of(config: Any) -> int:
    """Return the maximum number of tokens of prompt and response together."""
    return getattr(config.get_text_config(), "max_position_embeddings", None) or sys.maxsize


def stop_ids(generation: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end a response, by the generation config and by the tokenizer."""
    ends = generation.eos_token_id
    listed = ends if isinstance(ends, list) else [ends]
    return frozenset(i for i in [*listed, tokenizer.eos_token_id] if i is not None)


@contextmanager
def load_errors(name: str, folder: Path | None) -> Iterator[None]:
    """Silence transformers while it reads a model's files, and name the model in its errors.

    A RuntimeError that leaves the block means that the memory was too small.

    Raises:
        ModelUnavailable: the folder holds no complete model, or one that needs its own code.
    """
    try:
        with quiet_transformers():
            yield
    except (*_FILE_ERRORS, OSError, ValueError, ImportError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        reason = " ".join(str(error).split("\n\n")[0].split())
        if isinstance(error, _FILE_ERRORS):
            reason = f"{type(error).__name__}: {reason}; the files may be incomplete"
        if isinstance(error, (*_FILE_ERRORS, OSError)):
            reason += f"; {store.how_to_replace(name, folder)}"
        raise ModelUnavailable(
            f"model {name!r} cannot be loaded from {folder}: {reason}"
        ) from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' warnings and progress bars, and restore them afterwards.

    Only one thread at a time may do this. The settings belong to the process, as does the default
    dtype, which transformers changes while it builds a model.
    """
    from transformers.utils import logging

    with _TRANSFORMERS_LOCK:
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
