"""Layering rules: imports point downward, and light modules import no heavy packages."""

import subprocess
import sys
from pathlib import Path

from structure.drawing import import_cycles, imports

import collab

PACKAGE = Path(collab.__file__).parent

LAYERS = [
    {"distribution", "errors", "lazy", "loopback", "naming", "passed_functions", "processes"}
    | {"seeds", "signals", "stats", "syntax", "threads", "wording"},
    {"runs"},
    {"trust"},
    {"records", "plugins", "analysis"},
    {"recipe"},
    {"models", "sandbox"},
    {"agents", "tools"},
    {"tasks", "rewards", "feedback", "environments"},
    {"telemetry"},
    {"runtime"},
    {"trainers", "serving"},
    {"evaluation"},
    {"report", "probe", "sharing"},
    {"study", "api", "view"},
    {"cli"},
    {"__main__"},
]
"""Layers from the bottom up."""

HEAVY = {"torch", "transformers", "peft", "anthropic", "httpx", "vllm", "datasets", "starlette"}


def layer_of(folder: str) -> int:
    return next(number for number, folders in enumerate(LAYERS) if folder in folders)


def package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def modules() -> list[Path]:
    return [p for p in sorted(PACKAGE.rglob("*.py")) if p.parent != PACKAGE or p.stem != "__init__"]


def test_every_package_has_a_layer() -> None:
    floors = set().union(*LAYERS)
    assert sorted({package_of(path) for path in modules()} - floors) == [], "add these to LAYERS"


def test_imports_point_to_lower_layers() -> None:
    upward = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules()
        for name in sorted(imports(path, lazy=True))
        if name.startswith("collab.") and not is_below(name.split(".")[1], package_of(path))
    ]
    assert upward == []


def test_packages_do_not_import_each_other() -> None:
    assert import_cycles(PACKAGE) == []


def is_below(folder: str, other: str) -> bool:
    return folder == other or layer_of(folder) < layer_of(other)


LIGHT = (
    "collab", "collab.recipe", "collab.records", "collab.models", "collab.sandbox",
    "collab.rewards", "collab.feedback", "collab.runtime", "collab.report", "collab.cli",
)  # fmt: skip


def test_light_modules_import_nothing_heavy() -> None:
    """Imports all modules in one interpreter; each module's new imports are its own."""
    code = f"""if True:
        import sys, importlib
        for name in {LIGHT!r}:
            before = set(sys.modules)
            importlib.import_module(name)
            for heavy in sorted({HEAVY!r} & (set(sys.modules) - before)):
                print(name, "imports", heavy)
    """
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.splitlines()) == (0, []), result.stderr
