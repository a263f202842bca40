"""Weights in 4 bits, by bitsandbytes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from collab.distribution import install
from collab.errors import ModelUnavailable

if TYPE_CHECKING:
    import torch

BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Of a number in NF4: 4 bits, and a scale in 8 bits for 64 of them, with one in 32 bits for 256."""


def check_four_bits(model: str, device: torch.device) -> None:
    """Raise ModelUnavailable where no weights can be held in 4 bits."""
    if device.type not in ("cpu", "cuda"):
        raise ModelUnavailable(
            f"model {model!r} is to be loaded in 4 bits on {device}, and bitsandbytes is used on"
            " GPUs with CUDA and on CPUs; set the model's device to cuda, or leave out load_in"
        )
    if find_spec("bitsandbytes") is None:
        raise ModelUnavailable(
            f"model {model!r} is to be loaded in 4 bits (load_in), which takes bitsandbytes:"
            f" {install('4bit')}"
        )


def four_bits(dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    """How transformers is to load a model so: in NF4, computing in `dtype` (arXiv 2305.14314)."""
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return {"quantization_config": config, "device_map": {"": device}}


def keep_gradients(module: Any) -> None:
    """Keep a model's layers from a layout of some CPUs that bitsandbytes has no gradients for."""
    for part in module.modules():
        if hasattr(part, "support_avx512bf16_for_cpu"):
            part.support_avx512bf16_for_cpu = False


def four_bit_weights(module: Any) -> int:
    """How many numbers of a language model are then in 4 bits: linear layers', but for the head."""
    from torch import nn

    head = module.get_output_embeddings()
    layers = (part for part in module.modules() if isinstance(part, nn.Linear) and part is not head)
    return sum(layer.weight.numel() for layer in layers)
