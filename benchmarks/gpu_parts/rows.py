"""The rows of the benchmark; each is a function that runs in its own process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

Measure = Callable[["Machine"], dict[str, Any]]

GPU = "GPU"
PACKAGES = {"trl": "trl", "comlrl": "comlrl==1.4.3", "vllm": "'collab-agents[vllm]'"}
"""Packages that some rows need, as pip takes them."""

CHANGES: dict[str, dict[str, Any]] = {
    "small": {"micro_batch_tokens": 2048},
    "mask": {"tree_attention": "mask"},
    "varlen": {"tree_attention": "varlen"},
    "twice": {"gradient_checkpointing": True},
    "top_p": {},
}


class Machine(NamedTuple):
    """The device, and the size of each measurement."""

    device: str
    tiny: bool

    def shape(self, named: str) -> str:
        """The model that is measured in a row of `named`."""
        return "tiny" if self.tiny else named

    @property
    def missing(self) -> str | None:
        """Why nothing can be measured here."""
        import torch

        here = self.device != "cuda" or torch.cuda.is_available()
        return None if here else "no GPU is here"


@dataclass(frozen=True)
class Row:
    """One measurement."""

    measure: Measure
    seconds: float
    """Its limit."""
    needs: str = ""
    """A package, or `GPU`."""

    def lacking(self, machine: Machine) -> str:
        """Why the machine cannot run this row, or ""."""
        if self.needs in (GPU, "vllm") and machine.device != "cuda":
            return "needs a GPU"
        if self.needs in PACKAGES and find_spec(self.needs) is None:
            return f"{self.needs} is not installed; pip install {PACKAGES[self.needs]}"
        return ""


def versions(machine: Machine) -> dict[str, Any]:
    import torch
    import transformers

    name = torch.cuda.get_device_name() if machine.device == "cuda" else "CPU"
    name += ", tiny" if machine.tiny else ""
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


def learn(shape: str, change: str, machine: Machine) -> dict[str, Any]:
    import torch

    from gpu_parts.learning import Load, measure
    from gpu_parts.shapes import opened

    load = Load(2, 32, 16) if machine.tiny else Load(8, 512, 256)
    load = load._replace(top_p=0.9 if change == "top_p" else 1.0)
    steps = 1 if machine.tiny else 3
    with opened(machine.shape(shape), torch.device(machine.device)) as engine:
        return measure(engine, load, steps, **CHANGES.get(change, {}))


def sample(shape: str, rows: int, adapters: int, machine: Machine) -> dict[str, Any]:
    import torch

    from gpu_parts.sampling import by_transformers
    from gpu_parts.shapes import opened

    sizes = (32, 16) if machine.tiny else (512, 256)
    with opened(machine.shape(shape), torch.device(machine.device)) as engine:
        return by_transformers(engine, 32 if machine.tiny else rows, adapters, *sizes)


def sample_by_kernels(machine: Machine) -> dict[str, Any]:
    """Sample as without a CUDA graph: the host launches each kernel."""
    from unittest.mock import patch

    from collab.models.local.fast import accelerated
    from collab.models.local.fast.shared_prefix import SharedPrefixCache

    with patch.object(accelerated, "GraphedCache", SharedPrefixCache):
        return sample(FIRST, 128, 2, machine)


def sample_vllm(machine: Machine) -> dict[str, Any]:
    from gpu_parts.sampling import by_vllm

    return by_vllm(machine.shape("3B"), 128, 512, 256)


def step(shape: str, by: str, agents: int, machine: Machine, long: bool = False) -> dict[str, Any]:
    from gpu_parts import commands, peers

    load = peers.StepLoad(8, 512, 256) if long else peers.StepLoad(2, 128, 128)
    if machine.tiny:
        load = peers.StepLoad(2, 16, 8)
    shape = machine.shape(shape)
    if by in ("collab", "torchrun"):
        ranks = 1 if by == "torchrun" else None
        return commands.run_training(shape, machine.device, load, agents, ranks)
    measure = peers.by_trl if by == "trl" else peers.by_comlrl
    return measure(shape, machine.device, load)


def rows_of(shape: str) -> dict[str, Row]:
    """The rows of every shape."""
    sampled = {f"sample/{shape}/128x{n}": partial(sample, shape, 128, n) for n in (1, 2, 4)}
    steps = {
        f"step/{shape}/{by}-{n}": Row(partial(step, shape, by, n), 180, needs)
        for by, n, needs in STEPS
    }
    return {
        f"learn/{shape}": Row(partial(learn, shape, ""), 90),
        **{name: Row(measure, 90) for name, measure in sampled.items()},
        **steps,
    }


STEPS = (("collab", 2, ""), ("comlrl", 2, "comlrl"), ("collab", 1, ""), ("trl", 1, "trl"))
"""Libraries, with the number of agents and the package that they need."""

FIRST, OTHERS = "3B", ("0.5B", "1.5B", "7B")
"""Shapes; `--tiny` leaves out those after the first, and long steps: it measures all alike."""

ROWS: dict[str, Row] = {
    "versions": Row(versions, 60),
    "doctor": Row(doctor, 120),
    "tests": Row(gpu_tests, 120, GPU),
    **{
        f"ceiling/{name}": Row(partial(ceiling, name), 60)
        for name in ("matmul", "copy", "launch", "sort", "attention")
    },
    **rows_of(FIRST),
    **{
        f"learn/{FIRST}/{name}": Row(
            partial(learn, FIRST, name), 90, GPU if name == "varlen" else ""
        )
        for name in CHANGES
    },
    **{f"sample/{FIRST}/{rows}x2": Row(partial(sample, FIRST, rows, 2), 90) for rows in (64, 256)},
    f"sample/{FIRST}/128x2/kernels": Row(sample_by_kernels, 90, GPU),
    **{
        f"step/{FIRST}/long/{by}-{n}": Row(partial(step, FIRST, by, n, long=True), 600, needs)
        for by, n, needs in STEPS
    },
    f"sample/{FIRST}/vllm": Row(sample_vllm, 150, "vllm"),
    f"step/{FIRST}/torchrun-2": Row(partial(step, FIRST, "torchrun", 2), 180, GPU),
    **{name: row for shape in OTHERS for name, row in rows_of(shape).items()},
}
