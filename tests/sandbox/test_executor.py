"""Equal jobs give equal results, for any number of workers and in any process."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.processes import environment
from support.verdicts import JOBS, verdicts

from collab.errors import SandboxError
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial, describe_concurrency
from collab.sandbox import sandbox as sandbox_module
from collab.sandbox.client import JailClient


def test_verdicts_do_not_depend_on_the_number_of_workers() -> None:
    one = verdicts(SandboxSpec(workers=1))
    assert verdicts(SandboxSpec(workers=3)) == one
    assert one[: len(JOBS)] == one[len(JOBS) :]


def test_number_of_parallel_programs_is_limited() -> None:
    async def main() -> None:
        async with Sandbox(SandboxSpec(workers=2)) as sandbox:
            await asyncio.gather(*(sandbox.check(job) for job in JOBS))
            assert len(sandbox._idle) == 2

    asyncio.run(main())


def test_number_of_parallel_programs_is_described() -> None:
    assert describe_concurrency(SandboxSpec(workers=1)) == "1 program at a time, on this machine"
    assert describe_concurrency(SandboxSpec(workers=3)) == "3 programs at a time, on this machine"
    assert describe_concurrency(SandboxSpec()).endswith(" at a time, on this machine")


def test_queued_trials_fail_when_the_sandbox_is_closed() -> None:
    endless = Trial(program="def f(n):\n    while True: pass\n", entry_point="f", test=JOBS[0].test)

    async def main() -> list[object]:
        sandbox = Sandbox(SandboxSpec(workers=1, seconds=60))
        trials = [asyncio.create_task(sandbox.check(endless)) for _ in range(3)]
        while not sandbox._busy:
            await asyncio.sleep(0.01)
        await sandbox.aclose()
        return await asyncio.gather(*trials, return_exceptions=True)

    ended = asyncio.run(main())
    assert [type(error) for error in ended] == [SandboxError] * 3
    closed = [str(error).startswith("the sandbox was closed") for error in ended]
    assert closed == [False, True, True]


def test_process_starting_during_close_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    starting, closing = threading.Event(), threading.Event()
    started: list[JailClient] = []

    def start(isolation: str) -> JailClient:
        starting.set()
        closing.wait(60)
        started.append(JailClient(isolation))
        return started[-1]

    monkeypatch.setattr(sandbox_module, "JailClient", start)

    async def main() -> None:
        sandbox = Sandbox(SandboxSpec(workers=1))
        trial = asyncio.create_task(sandbox.check(JOBS[0]))
        await asyncio.to_thread(starting.wait, 60)
        closed = asyncio.create_task(sandbox.aclose())
        while sandbox._threads is not None:
            await asyncio.sleep(0.01)
        closing.set()
        await closed
        with pytest.raises(SandboxError, match="was closed"):
            await trial

    asyncio.run(main())
    assert [client.is_alive for client in started] == [False]


def test_few_open_files_are_enough(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("def f(n):\n    return n\n")
    line = f'ulimit -n 32 && exec "{sys.executable}" -m collab score humaneval/0 p.py --json'
    scored = subprocess.run(  # noqa: PLW1510
        ["sh", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["solved"] is False


def test_program_and_test_have_separate_randomness_in_every_trial() -> None:
    program = "import random\n\ndef f():\n    return random.random()\n"
    test = (
        "import random\n\ndef check(candidate):\n    theirs = candidate()\n"
        "    assert theirs != random.random()\n    return str(theirs)\n"
    )
    trial = Trial(program=program, entry_point="f", test=test)
    with_one = Sandbox(SandboxSpec(workers=1))
    try:
        verdicts = [asyncio.run(with_one.check(trial)) for _ in range(2)]
    finally:
        with_one.close()
    assert all(verdict.passed for verdict in verdicts)
    assert verdicts[0].returned != verdicts[1].returned
