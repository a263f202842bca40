"""The rows of the benchmark; each is a function that runs in its own process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

Measure = Callable[["Machine"], dict[str, Any]]

GPU = "needs a GPU"

CHANGES: dict[str, dict[str, Any]] = {
    "default": {},
    "small": {"micro_batch_tokens": 2048},
    "mask": {"tree_attention": "mask"},
    "varlen": {"tree_attention": "varlen"},
    "twice": {"gradient_checkpointing": True},
    "top_p": {},
}
GPU_ALONE = ("varlen",)


class Machine(NamedTuple):
    """The device, and the size of each measurement."""

    device: str
    tiny: bool

    @property
    def missing(self) -> str | None:
        """Why nothing can be measured here."""
        import torch

        here = self.device != "cuda" or torch.cuda.is_available()
        return None if here else "no GPU is here"

    @property
    def shape(self) -> str:
        """The model that is measured."""
        return "tiny" if self.tiny else "3B"


@dataclass(frozen=True)
class Row:
    """One measurement."""

    measure: Measure
    seconds: float
    """Its limit."""
    needs: str = ""

    def possible(self, machine: Machine) -> bool:
        """True if the machine can run this row."""
        return not self.needs or machine.device == "cuda"


def versions(machine: Machine) -> dict[str, Any]:
    import torch
    import transformers

    name = torch.cuda.get_device_name() if machine.device == "cuda" else "CPU"
    return {"device": name, "torch": torch.__version__, "transformers": transformers.__version__}


def doctor(_: Machine) -> dict[str, Any]:
    from gpu_parts.commands import run_doctor

    return run_doctor()


def gpu_tests(_: Machine) -> dict[str, Any]:
    from gpu_parts.commands import run_tests

    return run_tests()


def ceiling(name: str, machine: Machine) -> dict[str, Any]:
    from gpu_parts.ceilings import CEILINGS

    return CEILINGS[name](machine.device, tiny=machine.tiny)


def learn(change: str, machine: Machine) -> dict[str, Any]:
    import torch

    from gpu_parts.learning import Load, measure
    from gpu_parts.shapes import opened

    load = Load(2, 32, 16) if machine.tiny else Load(8, 512, 256)
    load = load._replace(top_p=0.9 if change == "top_p" else 1.0)
    steps = 1 if machine.tiny else 3
    with opened(machine.shape, torch.device(machine.device)) as engine:
        return measure(engine, load, steps, **CHANGES[change])


def sample(rows: int, machine: Machine) -> dict[str, Any]:
    import torch

    from gpu_parts.sampling import by_transformers
    from gpu_parts.shapes import opened

    sizes = (4, 32, 16) if machine.tiny else (rows, 512, 256)
    with opened(machine.shape, torch.device(machine.device)) as engine:
        return by_transformers(engine, *sizes)


def sample_vllm(machine: Machine) -> dict[str, Any]:
    from gpu_parts.sampling import by_vllm

    return by_vllm(machine.shape, 128, 512, 256)


def train(ranks: int | None, machine: Machine) -> dict[str, Any]:
    from gpu_parts.commands import run_training

    return run_training(machine.shape, machine.device, ranks)


ROWS: dict[str, Row] = {
    "versions": Row(versions, 60),
    "doctor": Row(doctor, 60),
    "tests": Row(gpu_tests, 120, GPU),
    **{
        f"ceiling/{name}": Row(partial(ceiling, name), 60)
        for name in ("matmul", "copy", "launch", "top_p", "attention")
    },
    **{
        f"learn/{name}": Row(partial(learn, name), 90, GPU if name in GPU_ALONE else "")
        for name in CHANGES
    },
    **{f"sample/{rows}": Row(partial(sample, rows), 90) for rows in (64, 128, 256)},
    "sample/vllm": Row(sample_vllm, 150, GPU),
    "train": Row(partial(train, None), 150),
    "train/torchrun": Row(partial(train, 1), 150, GPU),
}
