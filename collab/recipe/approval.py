"""The items in a third-party recipe that a user must approve: code, addresses, files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b, file_digest
from importlib.machinery import PathFinder
from pathlib import Path

from pydantic import ValidationError

from collab import plugins
from collab.errors import RecipeError
from collab.loopback import is_loopback_url
from collab.recipe import library
from collab.recipe.base import Spec, specs_in
from collab.recipe.files import Files
from collab.recipe.hosted import AnyHostedSpec, MCPServer
from collab.recipe.in_python import is_file_of_passed_rows
from collab.recipe.model import ENGINES, ReplaySpec, ScriptedSpec, VLLMSpec, parse_model
from collab.recipe.names import names_of_spec
from collab.recipe.overrides import join_command
from collab.recipe.sandbox import SandboxSpec
from collab.recipe.task import SourceSpec, TaskSpec
from collab.recipe.trainer import TrainerSpec
from collab.records.run import episodes_file
from collab.trust import Consent, Item, Question, approve, join_questions
from collab.trust.blocking import block, drop_digest, function_key, is_own, is_unblocked, unblock
from collab.trust.commands import command_digest, files_of
from collab.trust.sources import digest_of, sources_of, sources_of_module, sources_of_script


def question_of(name: str, spec: Spec, files: Files, typed: set[str]) -> Question:
    """Return the question that the user must answer before `spec`, read from `files`, may run.

    If every YAML file is the user's own, only functions, servers and data from foreign files are
    part of it. The names in `typed`, which the user wrote, need no approval.
    """
    all_foreign = bool(files.foreign)
    listed = [*_block_foreign(_find_functions(spec, typed, all_foreign=all_foreign))]
    listed += _block_foreign(_find_servers(spec, typed, all_foreign=all_foreign))
    listed += _find_unisolated(spec, typed, all_foreign=all_foreign)
    if all_foreign:
        listed += _find_addresses_and_folders(spec, typed)
    if listed and all_foreign:
        listed += _find_outside_data(spec, files, typed)
    return join_questions(name, [Question(name, tuple(listed), tuple(files.foreign.values()))])


def about_adapters(recipe: Spec, question: Question, run: Path) -> Question:
    """Return the question about adapters outside a run's folder, whose weights an export copies.

    It is allowed for the user's own runs, and for adapters of the library.
    """
    named = (Path(text) for kind, _, text in names_of_spec(recipe) if kind == "adapter")
    outside = {
        path
        for path in (path.resolve() for path in named)
        if not (path.is_relative_to(run.resolve()) or library.is_shipped(path))
    }
    items = [Item("read", f"read the adapter {p}", f"adapter {p}") for p in sorted(outside)]
    return replace(question, items=tuple(items))


def about_rows(task: TaskSpec, question: Question) -> Question:
    """Return the question, limited to the functions that generate or convert a suite's rows."""
    return question.about_functions(
        *(text for kind, _, text in names_of_spec(task.source) if "function" in kind)
    )


def check_functions(spec: Spec) -> None:
    """Raise RecipeError for a built-in function of Python, which no approval allows."""
    for kind, key, text in names_of_spec(spec):
        if kind == "module function":
            plugins.check_origin(key, text)


def allowed_in(spec: Spec) -> set[str]:
    """Return the functions and servers in `spec` that this process may already run, and its data
    files, which it may run without isolation."""
    functions = {text for kind, _, text in names_of_spec(spec) if "function" in kind}
    allowed = {text for text in functions if is_unblocked(function_key(text))}
    for part in specs_in(spec):
        if (
            isinstance(part, MCPServer | VLLMSpec)
            and part.command_words
            and is_unblocked(part.approval_key)
        ):
            allowed.add(_as_typed(part))
    return allowed | {f"unsafe {path}" for path in _data_of_spec(spec)}


def allow(recipe: Spec, question: Question, trust: Consent) -> None:
    """Allow everything that `recipe` would run, after approval. Items of `question` that it does
    not name are ignored.

    Raises:
        RecipeError: the recipe specifies a function that cannot be used here.
        Untrusted: the recipe is third-party, would run code, and is not approved.
    """
    check_functions(recipe)
    named = {text for _, _, text in names_of_spec(recipe)}
    approve(question.limited_to(named), trust)


Candidate = tuple[Item, bool, bool]
"""An item that runs code, whether it must be asked about, and whether the user typed its name."""


def _block_foreign(candidates: Iterable[Candidate]) -> Iterator[Item]:
    """Yield the items to ask about, and block them. Other items may run."""
    for item, is_foreign, is_typed in candidates:
        if not is_foreign:
            drop_digest(item.approval_key)
        if is_foreign and not is_typed:
            block(item.approval_key)
            yield item
        else:
            unblock(item.approval_key)


def _find_functions(spec: Spec, typed: set[str], *, all_foreign: bool) -> Iterator[Candidate]:
    for kind, key, text in names_of_spec(spec):
        if kind not in ("file function", "module function"):
            continue
        origin, _, function = text.rpartition(":")
        approval_key, is_typed = function_key(text), text in typed
        is_foreign = all_foreign or (kind == "file function" and not _is_own_source(Path(origin)))
        digest = _digest_of_origin(origin) if is_foreign and not is_typed else ""
        item = Item(
            "engine" if key == "engine" else "function",
            f"run the function {function} of {origin} ({key})",
            f"{function} {digest}",
            reference=text,
            approval_key=approval_key,
            digest=digest,
        )
        yield item, is_foreign, is_typed


def _find_servers(spec: Spec, typed: set[str], *, all_foreign: bool) -> Iterator[Candidate]:
    """List the commands that start servers, with the foreign files that they name, and the
    addresses of MCP servers."""
    for part in specs_in(spec):
        if not (isinstance(part, MCPServer | VLLMSpec) and part.command_words):
            continue
        is_typed = _as_typed(part) in typed
        if isinstance(part, MCPServer) and isinstance(part.mcp, str):
            is_foreign = all_foreign and not is_loopback_url(part.mcp)
            sent = part.key or "what agents ask of its tools"
            text = f"send {sent} to the MCP server at {part.mcp}"
            item = Item("server", text, f"mcp {sent} {part.mcp}", approval_key=part.approval_key)
        else:
            files = [f for f in files_of(part.command_words) if not _is_own_source(f)]
            is_foreign = all_foreign or bool(files)
            item = _command_item(part, files, is_asked=is_foreign and not is_typed)
        yield item, is_foreign, is_typed


def _as_typed(server: MCPServer | VLLMSpec) -> str:
    """Return the address or the whole command of a server, as `strings_in_settings` has it."""
    if isinstance(server, MCPServer) and isinstance(server.mcp, str):
        return server.mcp
    return join_command(server.command_words)


def _is_own_source(file: Path) -> bool:
    """Return True if a file and every local module that it imports are the user's own."""
    sources = sources_of_script(file) if file.is_file() else []
    return is_own(file) and all(is_own(source.path) for source in sources)


def _command_item(part: MCPServer | VLLMSpec, files: list[Path], *, is_asked: bool) -> Item:
    """Return the item for a server's command, which names foreign `files`. All files that it names
    are read only if the user is asked."""
    environment = part.environment if isinstance(part, MCPServer) else ()
    words = " ".join(environment)
    text = f"run the command {shlex.join(part.command_words)}" + (f" with {words}" if words else "")
    if files:
        text += f", which names {', '.join(str(file.resolve()) for file in files)}"
    key = "mcp" if isinstance(part, MCPServer) else "server_command"
    text += f" ({key}; asked every time, since it may run other files as well)"
    content = command_digest(part.command_words, environment) if is_asked else ""
    return Item("command", text, content, approval_key=part.approval_key, digest=content)


def _digest_of_origin(origin: str) -> str:
    """Return a digest of the file or module that holds a function, without running anything."""
    path = Path(origin)
    if origin.endswith(".py"):
        return digest_of(sources_of(path)) if path.is_file() else "missing"
    if sources := sources_of_module(origin):
        return digest_of(sources)
    spec = PathFinder.find_spec(origin.partition(".")[0])
    first = Path(str(spec.origin)) if spec else path
    files = sorted(first.parent.rglob("*.py")) if first.name == "__init__.py" else [first]
    digest = blake2b(origin.encode(), digest_size=16)
    for file in files:
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()


def _find_unisolated(spec: Spec, typed: set[str], *, all_foreign: bool) -> Iterator[Item]:
    """List programs without isolation. Rows and scripted answers may contain some; if every YAML
    file is the user's own, only those from foreign files count."""
    kinds = {part.isolation for part in specs_in(spec) if isinstance(part, SandboxSpec)}
    paths = [
        path
        for path in _data_of_spec(spec)
        if all_foreign or not (_is_own_data(path) or f"unsafe {path}" in typed)
    ]
    if "unsafe" in kinds and "unsafe" not in typed and (all_foreign or paths):
        text = "run programs without any isolation (sandbox.isolation: unsafe)"
        text += f", also code in {', '.join(map(str, paths))}" if paths else ""
        yield Item("isolation", text, " ".join(["unsafe", *map(_digest_of_data, paths)]))


def _find_addresses_and_folders(spec: Spec, typed: set[str]) -> Iterator[Item]:
    """List what leaves this machine: services with the keys that are sent to them, and folders that
    are written."""
    typed_addresses = {call for text in typed for call in _addresses_named(text)}
    for part in specs_in(spec):
        for url, key in _model_addresses(part):
            if not (is_loopback_url(url) or url in typed or (url, key) in typed_addresses):
                yield Item("address", f"send prompts and {key} to {url}", f"address {key} {url}")
        if isinstance(part, VLLMSpec) and (folder := part.adapter_folder):
            yield Item("write", f"write adapters to {folder}", f"writes {folder}")


def _addresses_named(text: str) -> list[tuple[str, str]]:
    """Return the services of a model that the user named in short form."""
    with suppress(RecipeError, ValidationError):
        model = parse_model(text)
        if model["engine"] in ENGINES:
            return list(_model_addresses(ENGINES[model["engine"]].model_validate(model)))
    return []


def _model_addresses(part: Spec) -> Iterator[tuple[str, str]]:
    """List the addresses that a model's requests go to, each with the key that is sent."""
    if isinstance(part, VLLMSpec):
        yield from ((url, part.key) for url in part.servers)
    elif isinstance(part, AnyHostedSpec):
        yield part.url, part.key


def _find_outside_data(spec: Spec, files: Files, typed: set[str]) -> Iterator[Item]:
    """List files outside the recipe's folder whose text would go into prompts and records."""
    typed_texts = {text for word in typed for text in (word, word.partition(":")[2])}  # ENGINE:FILE
    typed_paths = {Path(text).resolve() for text in typed_texts if text}
    for path in _data_of_spec(spec):
        real = os.path.realpath(path)
        if not files.holds(path) and Path(real) not in typed_paths:
            yield Item("read", f"read {path}", f"reads {real}")


def _data_of_spec(spec: Spec) -> Iterator[Path]:
    """Yield the files and runs whose text goes into prompts, programs and records."""
    for part in specs_in(spec):
        text = part.path if isinstance(part, SourceSpec) else None
        text = part.learn_from if isinstance(part, TrainerSpec) else text
        text = part.name if isinstance(part, ScriptedSpec | ReplaySpec) else text
        if text is not None:
            yield Path(text)


def _is_own_data(path: Path) -> bool:
    return (
        is_own(episodes_file(path))
        or library.is_shipped(path.resolve())
        or is_file_of_passed_rows(path)
    )


def _digest_of_data(path: Path) -> str:
    """Return a digest of a file, or of a run's episodes; of nothing if there is no such file."""
    file = episodes_file(path)
    if not file.is_file():
        return "missing"
    with file.open("rb") as stream:
        return file_digest(stream, "blake2b").hexdigest()
