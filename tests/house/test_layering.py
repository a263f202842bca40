"""The house's rules, checked on the code: imports run downward, heavy packages stay upstairs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import collab

PACKAGE = Path(collab.__file__).parent

FLOORS = [
    {"errors", "syntax", "wording"},
    {"records", "plugins", "analysis"},
    {"recipe"},
    {"models", "judge"},
    {"agents"},
    {"tasks", "rewards", "feedback"},
    {"runtime"},
    {"trainers"},
    {"evaluation"},
    {"cli"},
    {"__main__"},
]
HEAVY = {"torch", "transformers", "peft", "anthropic", "httpx", "vllm", "datasets"}


def floor_of(room: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


def imports(path: Path, *, lazy: bool) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if lazy else tree.body
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


def modules() -> list[Path]:
    return [p for p in sorted(PACKAGE.rglob("*.py")) if p.parent != PACKAGE or p.stem != "__init__"]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_run_downward(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for name in imports(path, lazy=True):
        if name.startswith("collab."):
            other = name.split(".")[1]
            assert other == room or floor_of(other) < floor_of(room), (
                f"{room} must not import {name}"
            )


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_room_has_a_floor(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert any(room in rooms for rooms in FLOORS), f"{room} is not in FLOORS"


@pytest.mark.parametrize(
    "module",
    [
        "collab",
        "collab.recipe",
        "collab.records",
        "collab.models",
        "collab.judge",
        "collab.rewards",
        "collab.feedback",
        "collab.runtime",
        "collab.evaluation.report",
        "collab.cli",
    ],
)
def test_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, ""), result.stderr
