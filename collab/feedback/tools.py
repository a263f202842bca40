"""Linters and type checkers: maps programs to located remarks, many programs per process."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from collab.errors import CollabError, FeedbackError, FeedbackUnavailable, convert_error
from collab.records import Finding
from collab.sandbox.jail.files import BadFiles, File, is_files, split_files

Severity = Literal["error", "warning", "info"]

TOOL_SECONDS = 20.0
TOOL_BYTES = 2_000_000_000
OUTPUT_BYTES = 2_000_000
"""Limits of one process, for any number of programs. `x = x = ...` of 4 kB leads to 200 MB of
remarks.
"""
MAX_BATCH = 64
IGNORED_CODES = frozenset({"E501", "S101", "S311", "PLR2004"})
"""Ignored remarks on style: line length, asserts, `random`, plain numbers in comparisons."""


def files_of(text: str) -> tuple[File, ...]:
    """Split a program of several files. Return () for other text, or if the files are invalid."""
    try:
        return split_files(text) if is_files(text) else ()
    except BadFiles:
        return ()


@dataclass(frozen=True)
class Analyzer:
    """An analyzer's command line, and the parser of its output."""

    name: str
    command: tuple[str, ...]

    def read(self, output: str) -> Iterator[tuple[str, Finding]]:
        """Yield each finding in the analyzer's output, with the name of its file."""
        remarks = map(json.loads, output.splitlines())
        if self.name == "ruff":
            yield from map(_ruff_finding, remarks)
        else:
            yield from (_mypy_finding(item) for item in remarks if item["severity"] != "note")


def find_tool(name: str) -> Analyzer:
    """Return an analyzer that is installed here.

    Raises:
        FeedbackUnavailable: the analyzer is not installed. The message gives the remedy.
    """
    if name == "ruff":
        select = "--select E9,F,B,S,PL,C90 --output-format json-lines --quiet"
        pinned = f"check --isolated --no-cache --ignore-noqa {select}"
        beside = Path(sys.prefix) / "bin" / name
        path = str(beside) if beside.is_file() else shutil.which(name)
        if path is None:
            raise _missing_tool(name)
        return Analyzer(name, (path, *pinned.split()))
    if importlib.util.find_spec("mypy") is None:
        raise _missing_tool("mypy")
    pinned = "--no-incremental --cache-dir /dev/null --check-untyped-defs --output json"
    pinned += " --no-site-packages"  # programs have none, and some take minutes to read
    lenient = "--ignore-missing-imports --no-error-summary --config-file="
    # without -P, an agent's file called mypy.py would run here
    python = (sys.executable, "-P", "-m", "mypy", "--explicit-package-bases")
    return Analyzer(name, (*python, *pinned.split(), *lenient.split()))


def _missing_tool(name: str) -> FeedbackUnavailable:
    return FeedbackUnavailable(
        f"feedback 'static' lists the tool '{name}', which is not installed; run pip install"
        f" {name}, or remove it from 'tools'"
    )


class BatchRunner:
    """Runs one process of a tool at a time, on all waiting programs."""

    def __init__(self, tool: Analyzer) -> None:
        self.tool = tool
        self._waiting: list[tuple[str, asyncio.Future[list[Finding]]]] = []
        self._work: asyncio.Task[None] | None = None
        self._has_worked = False

    async def check(self, program: str) -> list[Finding]:
        """Return the tool's findings in a program, with line numbers of that program.

        Raises:
            FeedbackError: the machine fails, e.g. a disk is full, or the tool also fails on an
                empty program. If it has checked another program before, its time limit is no error.
        """
        answer: asyncio.Future[list[Finding]] = asyncio.get_running_loop().create_future()
        self._waiting.append((program, answer))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run_batches())
        return await answer

    async def aclose(self) -> None:
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait([self._work])
        for _, answer in self._waiting:
            answer.cancel()

    async def _run_batches(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            results = await self._check_each([program for program, _ in batch])
            for (_, answer), findings in zip(batch, results, strict=True):
                if answer.done():
                    continue
                if isinstance(findings, CollabError):
                    answer.set_exception(findings)
                else:
                    answer.set_result(findings)

    async def _check_each(self, programs: Sequence[str]) -> list[list[Finding] | CollabError]:
        """Return each program's remarks, or the tool's error. If a batch fails, run its programs
        one by one. If the tool fails on a program but not on an empty one, that is a remark."""
        if len(programs) == 1 or not any(map(files_of, programs)):  # file names may occur twice
            try:
                results = await self._run(programs)
                self._has_worked = True
                return [*results]
            except Exception as error:
                if len(programs) == 1:
                    failure = convert_error(error, FeedbackError, f"{self.tool.name} failed")
                    works = self._has_worked and isinstance(error.__cause__, TimeoutError)
                    if not works and programs != [""] and not isinstance(error, OSError):
                        works = await self._check_each([""]) == [[]]
                    return [[_unchecked(self.tool.name, failure)] if works else failure]
        return [(await self._check_each([program]))[0] for program in programs]

    async def _run(self, programs: Sequence[str]) -> list[list[Finding]]:
        """Return each program's remarks, with line numbers of the whole program."""
        with tempfile.TemporaryDirectory(prefix="collab-static-") as folder:
            files_by_path: dict[Path, tuple[int, File]] = {}
            for number, program in enumerate(programs):
                # Programs of other episodes are in the same folder. Random names prevent imports.
                whole_program = File(f"program_{secrets.token_hex(16)}.py", program, line=1)
                for file in files_of(program) or (whole_program,):
                    path = Path(folder, file.name).resolve()
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(file.source.encode(errors="replace"))
                    files_by_path[path] = number, file
            names = [file.name for _, file in files_by_path.values()]
            output = await self._run_tool(names, folder, is_single=len(programs) == 1)
            remarks = [
                (Path(folder, name).resolve(), each) for name, each in self.tool.read(output)
            ]
        findings: list[list[Finding]] = [[] for _ in programs]
        for path, finding in remarks:
            if path not in files_by_path:
                continue
            number, file = files_by_path[path]
            line, message = file.line + (finding.line or 1) - 1, finding.message
            if file.line == 1:  # the only file, under a random name
                message = message.replace(path.stem, "program")
            findings[number].append(finding.model_copy(update={"line": line, "message": message}))
        return findings

    async def _run_tool(self, names: Sequence[str], folder: str, *, is_single: bool) -> str:
        """Return the standard output. The environment contains no key that a tool could show.

        If `is_single` and the tool fails, its last message is a remark on the program. A tool that
        prints more than `OUTPUT_BYTES` fails; its remarks up to there are kept.
        """
        pipe = subprocess.PIPE
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder}
        with subprocess.Popen(
            [*self.tool.command, *names],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
        ) as process:
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (TOOL_BYTES, TOOL_BYTES))
            streams = (process.stdout, process.stderr)
            threads = [asyncio.to_thread(_read_limited, process, stream) for stream in streams]
            reading = asyncio.gather(*threads)
            try:
                async with asyncio.timeout(TOOL_SECONDS):
                    output, trouble = await asyncio.shield(reading)
            except TimeoutError as limit:
                raise FeedbackError(
                    f"{self.tool.name} took longer than {TOOL_SECONDS:g} s"
                ) from limit
            finally:
                process.kill()
                await asyncio.wait([reading])
        is_cut = len(output) >= OUTPUT_BYTES
        reported = output.strip() and is_single
        if (is_cut or process.returncode not in (0, 1)) and not reported:
            words = trouble.decode(errors="replace").strip()[-300:]
            raise FeedbackError(f"{self.tool.name} ended with status {process.returncode}: {words}")
        if is_cut:
            output = output[: output.rfind(b"\n") + 1]
        return output.decode(errors="replace")


def _read_limited(process: subprocess.Popen[bytes], stream: IO[bytes] | None) -> bytes:
    """Return the first `OUTPUT_BYTES` of a tool's output, when it has ended. If there is more, kill
    the tool."""
    assert stream is not None
    output = stream.read(OUTPUT_BYTES)
    if len(output) == OUTPUT_BYTES:
        process.kill()
    process.wait()
    return output


def _unchecked(tool: str, failure: CollabError) -> Finding:
    reason = str(failure).partition(":")[0]  # the rest contains random file names
    return Finding(source=tool, code="unchecked", severity="error", message=f"program: {reason}")


def _ruff_finding(item: dict[str, Any]) -> tuple[str, Finding]:
    code = item["code"] or "invalid-syntax"
    fix = item.get("fix") or {}
    finding = Finding(
        source="ruff",
        code=code,
        severity=_ruff_severity(code),
        message=item["message"],
        line=item["location"]["row"],
        column=item["location"]["column"],
        fix=fix.get("message"),
        url=item.get("url"),
    )
    return item["filename"], finding


def _ruff_severity(code: str) -> Severity:
    if code.startswith(("E9", "F82", "F7", "PLE", "invalid-syntax")):
        return "error"
    return "info" if code.startswith(("C9", "PLR", "PLC")) else "warning"


def _mypy_finding(item: dict[str, Any]) -> tuple[str, Finding]:
    finding = Finding(
        source="mypy",
        code=item["code"] or "mypy",
        severity="error",
        message=item["message"],
        line=max(item["line"], 1),
        column=item["column"] + 1,
        fix=item["hint"],
    )
    return item["file"], finding
