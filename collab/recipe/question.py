"""What a recipe from elsewhere would run, send or read: the items of the question to its user."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from importlib.machinery import PathFinder
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import ValidationError

from collab import plugins
from collab.errors import RecipeError
from collab.recipe.base import Spec
from collab.recipe.files import Files
from collab.recipe.model import ENGINES, parse_model
from collab.recipe.references import Kind, changed
from collab.recipe.task import TaskSpec
from collab.trust import Item, Question
from collab.trust.elsewhere import is_own
from collab.trust.held import hold, release
from collab.trust.sources import digest_of

_SERVICES = {
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
}
"""By engine: the variable that names an address, the usual address, the key that is sent there."""


def question_of(name: str, spec: Spec, files: Files, typed: set[str]) -> Question:
    """What is to be asked before `spec`, made of `files`, may do its work.

    Where every file is the user's own, only functions from files of others are asked about.
    `typed` are the words that the user gave himself; what they name is not asked about.
    """
    data = spec.model_dump(mode="python", exclude_none=True)
    found = [*_functions(data, typed, everything=bool(files.foreign))]
    found += _servers(data, typed, everything=bool(files.foreign))
    if files.foreign:
        found += _addresses(data, typed)
        if data.get("sandbox", {}).get("isolation") == "unsafe" and "unsafe" not in typed:
            text = "run programs without any isolation (sandbox.isolation: unsafe)"
            found.append(Item("isolation", text, "unsafe"))
    if found and files.foreign:
        found += _reads(data, files, typed)
    items = {(item.content, item.reference): item for item in found}
    return Question(name, tuple(items.values()), tuple(sorted(files.foreign.values())))


def about_rows(task: TaskSpec, question: Question) -> Question:
    """What is to be asked before the rows of a suite are had: its generator runs for them."""
    generator = task.source.generate
    return question.about(generator.use if generator else "")


def check_functions(spec: Spec) -> None:
    """Raise RecipeError where a function of Python's own is named, which no yes allows."""

    def look(kind: Kind, key: str, text: str) -> str:
        if kind == "module function":
            plugins.check_module(key, text)
        return text

    changed(spec.model_dump(mode="python", exclude_none=True), look)


def _functions(data: Any, typed: set[str], *, everything: bool) -> list[Item]:
    found: list[Item] = []

    def look(kind: Kind, key: str, text: str) -> str:
        origin, _, function = text.rpartition(":")
        asked = everything or (kind == "file function" and not is_own(Path(origin)))
        if "function" in kind and not (asked and text not in typed):
            release(text)
        elif "function" in kind:
            content = f"{function} {_content_of(origin)}"
            sort: Literal["engine", "function"] = (
                "engine" if key in ("engine", "model") else "function"
            )
            told = f"run the function {function} of {origin} ({key})"
            found.append(Item(sort, told, content, reference=text))
        return text

    changed(data, look)
    for item in found:
        hold(item.reference)
    return found


def _servers(data: Any, typed: set[str], *, everything: bool) -> Iterator[Item]:
    """MCP servers: commands with the Python files that they run, and addresses."""
    agents = (data.get("team") or {}).get("agents") or {}
    named = [tool for agent in agents.values() for tool in agent.get("tools", ())]
    for server in (tool for tool in named if isinstance(tool, dict)):
        mcp = server["mcp"]
        if isinstance(mcp, str):
            key = server.get("key") or "what agents ask of its tools"
            if everything and not (_is_loopback(mcp) or mcp in typed):
                yield Item("command", f"send {key} to the MCP server at {mcp}", f"mcp {key} {mcp}")
            continue
        programs = [Path(word) for word in mcp if word.endswith(".py") and Path(word).is_file()]
        asked = everything or any(not is_own(path) for path in programs)
        if asked and not set(mcp) <= typed:
            given = " ".join(server.get("environment", ()))
            text = f"run the command {shlex.join(mcp)}" + (f" with {given}" if given else "")
            shown = [digest_of(p) if p in programs else str(p) for p in map(Path, mcp)]
            yield Item("command", f"{text} (mcp)", "\0".join(["mcp", *shown, given]))


def _content_of(origin: str) -> str:
    """A digest of the file or module that holds a function; it is read, and not run."""
    path = Path(origin)
    if origin.endswith(".py"):
        return digest_of(path) if path.is_file() else "missing"
    spec = PathFinder.find_spec(origin.partition(".")[0])
    first = Path(str(spec.origin)) if spec else path
    files = sorted(first.parent.rglob("*.py")) if first.name == "__init__.py" else [first]
    digest = blake2b(origin.encode(), digest_size=16)
    for file in files:
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()


def _addresses(data: Any, typed: set[str]) -> Iterator[Item]:
    """Services beyond this machine, and the keys that they are sent."""
    given = {call for text in typed for call in _calls_by(text)}
    for model in _models(data):
        for url, key in _calls(model):
            if not (_is_loopback(url) or url in typed or (url, key) in given):
                yield Item("address", f"send prompts and {key} to {url}", f"address {key} {url}")
        if folder := model.get("adapter_folder"):
            yield Item("write", f"write adapters to {folder}", f"writes {folder}")


def _calls_by(text: str) -> list[tuple[str, str]]:
    """The services of a model that the user named in short."""
    with suppress(RecipeError, ValidationError):
        given = parse_model(text)
        if given["engine"] in _SERVICES:
            return list(_calls(ENGINES[given["engine"]].model_validate(given).model_dump()))
    return []


def _models(data: Any) -> Iterator[dict[str, Any]]:
    """Every mapping that describes a model."""
    if isinstance(data, dict):
        if isinstance(data.get("engine"), str) and "name" in data:
            yield data
        for key, value in data.items():
            if key != "options":
                yield from _models(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _models(value)


def _calls(model: dict[str, Any]) -> Iterator[tuple[str, str]]:
    engine = model["engine"]
    if engine == "vllm":
        yield from ((url, "VLLM_API_KEY") for url in model.get("servers", ()))
    elif engine in _SERVICES:
        variable, usual, key = _SERVICES[engine]
        url = model.get("base_url") or os.environ.get(variable) or usual
        yield url, model.get("key", key)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _reads(data: Any, files: Files, typed: set[str]) -> list[Item]:
    """Files beyond the recipe's own folder, whose text would go into prompts and records."""
    found: list[Item] = []

    def look(kind: Kind, key: str, text: str) -> str:
        is_text = kind == "data" or (kind == "model" and key in ("scripted", "replay"))
        own = {str(Path(word).resolve()) for word in typed}
        if is_text and not files.holds(Path(text)) and str(Path(text).resolve()) not in own:
            found.append(Item("read", f"read {text}", f"reads {Path(text).resolve()}"))
        return text

    changed(data, look)
    return found
