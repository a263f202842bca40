"""GPUs by name, with their memory in GiB, and the device on which a model will be."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from collab.errors import UnknownName
from collab.recipe.model import TransformersSpec

GIB = 1 << 30


@dataclass(frozen=True)
class Card:
    """A GPU."""

    name: str
    memory: int
    """Memory in bytes."""
    bfloat16: bool = True
    """True if it multiplies bfloat16 natively, so the dtype `auto` selects bfloat16."""


_CARD_GIBIBYTES = {
    "b200": 180,
    "h200": 141,
    "h100": 80,
    "h100-pcie": 80,
    "a100": 80,
    "a100-40": 40,
    "l40s": 48,
    "a6000": 48,
    "rtx5090": 32,
    "rtx4090": 24,
    "rtx3090": 24,
    "a10": 24,
    "a10g": 24,
    "l4": 24,
}
CARDS = {name: Card(name, gibs * GIB) for name, gibs in _CARD_GIBIBYTES.items()}


def find_card(text: str) -> Card:
    """Return a card by its name, or by its memory in GiB, e.g. `24`.

    Raises:
        UnknownName: `text` is neither.
    """
    name = text.strip().lower()
    if name in CARDS:
        return CARDS[name]
    try:
        gibibytes = float(re.sub("gi?b$", "", name))
    except ValueError:
        gibibytes = 0.0
    if not 1 <= gibibytes <= 10_000:
        remedy = "(or specify its memory in GiB, e.g. 24)"
        raise UnknownName("card", text, list(CARDS), remedy=remedy)
    return Card(f"{gibibytes:g} GiB", int(gibibytes * GIB))


def local_card(number: int) -> Card:
    """Return GPU `number` of this machine, with its name and memory."""
    import torch

    properties = torch.cuda.get_device_properties(number)
    with torch.cuda.device(number):
        bfloat16 = bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return Card(properties.name, properties.total_memory, bfloat16)


ITEM_SIZES = {"bfloat16": 2, "float16": 2, "float32": 4}

GPU_DRIVER_FILES = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg", "/dev/kfd")
"""Files of GPU drivers: NVIDIA's, whose node in /dev comes with its first use, WSL's and AMD's."""


@dataclass(frozen=True)
class ModelDevice:
    """A device, and the number format in which it holds a model."""

    type: str
    """Type of the device: `cpu`, `cuda`, or another one of torch's."""
    memory: int
    """Total memory of a GPU, or 0 for a CPU."""
    itemsize: int
    """Number of bytes per number."""
    packs_weights: bool
    """True if sampling keeps a second copy of the weights, in the processor's own layout."""


def device_for(model: TransformersSpec, card: Card | None) -> ModelDevice:
    """Return the device for a model: `card`, which may be in another machine, or this machine's
    device if it is None.

    Raises:
        ModelUnavailable: this machine does not have the device.
    """
    if card is not None:
        auto = "bfloat16" if card.bfloat16 else "float32"
        itemsize = ITEM_SIZES[auto if model.dtype == "auto" else model.dtype]
        return ModelDevice("cuda", card.memory, itemsize, packs_weights=False)
    return cpu_device(model) or torch_device(model)


def cpu_device(model: TransformersSpec) -> ModelDevice | None:
    """Return the CPU, from Linux's description, or None if another device may be used."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return None
    is_alone = model.device == "auto" and not may_have_gpus()
    if model.device != "cpu" and not is_alone:
        return None
    flags = _cpu_flags()
    if not flags:
        return None
    native = bool(flags & {"amx_tile", "avx512_bf16"})
    dtype = ("bfloat16" if native else "float32") if model.dtype == "auto" else model.dtype
    can_multiply = {"avx512bw", "avx512vl", "avx512dq"} <= flags or "avx_ne_convert" in flags
    packs_weights = dtype == "float32" or (dtype == "bfloat16" and can_multiply)
    return ModelDevice("cpu", 0, ITEM_SIZES[dtype], packs_weights)


def may_have_gpus() -> bool:
    """Return False only if there is certainly none, that is, on Linux without a GPU driver."""
    return platform.system() != "Linux" or any(Path(node).exists() for node in GPU_DRIVER_FILES)


def _cpu_flags() -> set[str]:
    """Return the processor's features, by their names in Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return set(flags.partition(":")[2].split())


def torch_device(model: TransformersSpec) -> ModelDevice:
    """Return the device that torch picks for a model, and the number format there."""
    import torch

    from collab.models.local.fast.prepacked_weights import can_pack
    from collab.models.weights import pick_device, pick_dtype

    device = pick_device(model.device)
    dtype = pick_dtype(model.dtype, device)
    memory = 0
    if device.type == "cuda":
        memory = int(torch.cuda.get_device_properties(device).total_memory)
    return ModelDevice(device.type, memory, dtype.itemsize, can_pack(dtype, device))
