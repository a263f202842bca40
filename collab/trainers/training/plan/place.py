"""Where a model would run, and in which numbers; torch is imported only to ask it of a GPU."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from collab.recipe.model import TransformersModel
from collab.trainers.training.plan.cards import Card

ITEM_SIZES = {"bfloat16": 2, "float16": 2, "float32": 4}

GPU_NODES = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg", "/dev/kfd")
"""What a GPU's driver leaves there: NVIDIA's, also below Windows, and AMD's. NVIDIA's makes its
node in /dev when it is first used."""


@dataclass(frozen=True)
class Place:
    """A device, and the numbers that a model is held in there."""

    type: str
    """`cpu`, `cuda`, or another one of torch's."""
    memory: int
    """A GPU's, whole; 0 for a CPU."""
    itemsize: int
    """Bytes of a number."""
    packs: bool
    """Whether sampling holds weights once more, in the processor's own layout."""


def place_of(model: TransformersModel, card: Card | None) -> Place:
    """Where a model runs, or on a `card`, which need not be here.

    Raises:
        ModelUnavailable: the device is not here.
    """
    if card is not None:
        auto = "bfloat16" if card.bfloat16 else "float32"
        itemsize = ITEM_SIZES[auto if model.dtype == "auto" else model.dtype]
        return Place("cuda", card.memory, itemsize, packs=False)
    return processor(model) or seen_by_torch(model)


def processor(model: TransformersModel) -> Place | None:
    """The CPU, by what Linux tells of it; None where it may be another device, or is not known."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return None
    is_alone = model.device == "auto" and not may_have_gpus()
    if model.device != "cpu" and not is_alone:
        return None
    flags = _flags()
    if not flags:
        return None
    native = bool(flags & {"amx_tile", "avx512_bf16"})
    dtype = ("bfloat16" if native else "float32") if model.dtype == "auto" else model.dtype
    multiplies = {"avx512bw", "avx512vl", "avx512dq"} <= flags or "avx_ne_convert" in flags
    packs = dtype == "float32" or (dtype == "bfloat16" and multiplies)
    return Place("cpu", 0, ITEM_SIZES[dtype], packs)


def may_have_gpus() -> bool:
    """False where it is sure that there is none: on Linux without the driver of a GPU."""
    return platform.system() != "Linux" or any(Path(node).exists() for node in GPU_NODES)


def _flags() -> set[str]:
    """What the processor can do, in the words of Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    found = next((line for line in lines if line.startswith("flags")), "")
    return set(found.partition(":")[2].split())


def seen_by_torch(model: TransformersModel) -> Place:
    """The device that torch picks; raises ModelUnavailable as `place_of`."""
    import torch

    from collab.models.local.fast.prepacked_weights import can_pack
    from collab.models.weights import pick_device, pick_dtype

    device = pick_device(model.device)
    number = pick_dtype(model.dtype, device)
    memory = 0
    if device.type == "cuda":
        memory = int(torch.cuda.get_device_properties(device).total_memory)
    return Place(device.type, memory, number.itemsize, can_pack(number, device))
